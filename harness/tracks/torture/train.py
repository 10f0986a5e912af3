"""
What `overnight bench torture` tries: a training script that trains nothing.

Its metric is a smooth function of three constants. MOOD says how it behaves meanwhile, if LUCK
lets it: most runs are honest, the others do what a broken or hostile script does. The same
constants always do the same, so a session's ledger can be read back.
"""
import moods

LR = 0.1
WARMUP = 0.3
MOMENTUM = 0.8
LUCK = 0         # 0 ... 9, and only below 4 is the mood lived out
MOOD = "honest"

assert MOOD in (
    "honest", "quick",
    "crash", "exit_after_metric", "killed_by_signal",
    "not_a_number", "two_metrics", "no_metric", "closes_stdout",
    "flood", "huge_line", "escapes", "not_text", "reads_stdin",
    "deaf", "daemon", "fork_storm", "pipe_holder",
    "memory_bomb", "fills_disk", "strange_files", "kills_all", "forges",
)

val_bpb = 1 + abs(LR - 0.05) + abs(WARMUP - 0.2) + abs(MOMENTUM - 0.9)
val_bpb += LUCK / 1e4 + len(MOOD) / 1e6
moods.act(MOOD if LUCK < 4 else "honest", val_bpb)
