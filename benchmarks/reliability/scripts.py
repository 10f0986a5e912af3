"""The training scripts of the cases, the same text for both systems."""

from __future__ import annotations

from tests.conformance.candidates import NASTY

#: The constant is there for a proposer to tune; `argv[1]` is the mark by which it is found.
QUIET = """\
import sys
import time

LR = 0.1

for _ in range(20):
    time.sleep({seconds} / 20)
print("---")
print(f"val_bpb: {{1 + abs(LR - 0.05):.9f}}")
"""
#: As a candidate it starts nasty children and never ends; as the baseline it ends at once.
HOSTILE = """\
import runpy

LR = 0.1

if LR != 0.1:
    runpy.run_path("nasty.py")
print("---")
print("val_bpb: 1.0")
"""
#: Kills the process that started it, once, then trains on for ever.
PARRICIDE = """
import os, signal, time

time.sleep(0.3)
parent = os.getppid()
if parent > 1:
    os.kill(parent, signal.SIGKILL)
time.sleep(600)
"""
_STARTS = [line for line in NASTY.splitlines() if line.startswith(("child(", "parent("))]
_NAMES = (
    "a busy loop",
    "a child with a child of its own",
    "a child with a child in a new session",
    "a daemon (forked twice, new session)",
    "a child that ignores SIGHUP, SIGINT, SIGQUIT and SIGTERM",
    "a child that closed stdout and stderr",
)


def _only(start: str) -> tuple[str, int]:
    """NASTY with this one child, and how many processes that child is."""
    births = 2 if start.startswith("parent(") else 1
    kept = [line for line in NASTY.splitlines() if line == start or line not in _STARTS]
    return "\n".join(kept).replace("range(8)", f"range({births})"), births


#: What it does -> (the program, how many processes beside itself it is once it is ready).
CHILDREN: dict[str, tuple[str, int]] = {
    **{name: _only(start) for name, start in zip(_NAMES, _STARTS, strict=True)},
    "all six at once": (NASTY, 8),
}
