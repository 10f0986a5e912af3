"""
Frozen part of the track: data, tokens, budget and metric of a tiny language model on real text.

    python prepare.py          # checks that the data is whole; there is nothing to download

train.py imports from here by bare name and may not edit this file. The budget and the gate come
from the environment, set by the runner: OVERNIGHT_GATE (steps, cpu_time, time, epochs),
OVERNIGHT_BUDGET (a number) and OVERNIGHT_SEED (an integer); without them, 300 steps with seed 0.

What it is not: a boundary. It runs in the candidate's own process, so it stops honest mistakes,
not a determined cheat; deadlines are enforced from outside.
"""

import hashlib
import json
import math
import os
import resource
import time
import zlib
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_model

T_START = time.perf_counter()  # total_seconds counts from here: after the import of torch

# -----------------------------------------------------------------------------
# Constants (fixed, do not modify)

MAX_SEQ_LEN = 512                       # tokens of context, at most
EVAL_BYTES  = 80_196                    # UTF-8 bytes of the validation text; all of it is scored
EVAL_BATCH  = 1_024                     # tokens a forward pass in evaluate_bpb
VOCABS      = (256, 512, 1024, 2048, 4096)  # the closed set: each has a frozen token table
FREE_STEPS  = 3                         # first steps that the time gates do not count
THREADS     = 1                         # one runner a core
START_TOKEN = 10                        # "\n": what stands before every text; same id in all tables
DATA        = Path(__file__).resolve().parent / "data"

GATE   = os.environ.get("OVERNIGHT_GATE", "steps")          # what the budget counts
BUDGET = float(os.environ.get("OVERNIGHT_BUDGET", "300"))   # steps, CPU-seconds, seconds or epochs
SEED   = int(os.environ.get("OVERNIGHT_SEED", "0"))
OUT    = os.environ.get("OVERNIGHT_OUT")                    # folder for the weights, or None

if GATE not in ("steps", "cpu_time", "time", "epochs"):
    raise ValueError(f"OVERNIGHT_GATE is {GATE!r}: must be steps, cpu_time, time or epochs")
if not 0 < BUDGET < math.inf:
    raise ValueError(f"OVERNIGHT_BUDGET is {BUDGET}: must be a number above 0")

torch.set_num_threads(THREADS)

# -----------------------------------------------------------------------------
# Data: each split is a stream of word numbers, and for each vocabulary the tokens of each word

MANIFEST = json.loads((DATA / "MANIFEST.json").read_text())


def check_vocab(vocab):
    """Raises ValueError unless there is a token table for this vocabulary."""
    if vocab not in VOCABS:
        raise ValueError(f"VOCAB is {vocab}: this track has token tables for {VOCABS} only")


def check_seq(seq):
    """Raises ValueError unless this context length is allowed."""
    if not 1 <= seq <= MAX_SEQ_LEN:
        raise ValueError(f"SEQ is {seq}: must be between 1 and MAX_SEQ_LEN = {MAX_SEQ_LEN}")


def read(name):
    """One data file, checked against the manifest and unpacked."""
    packed = (DATA / name).read_bytes()
    if hashlib.sha256(packed).hexdigest() != MANIFEST["files"][name]:
        raise ValueError(f"data/{name} is not the file that MANIFEST.json names: restore it")
    return zlib.decompress(packed)


def unpack_bytes(packed, n):
    """n short byte strings: first their lengths as uint8, then all of them."""
    ends = np.cumsum(np.frombuffer(packed, np.uint8, n)) + n
    return [packed[start:end] for start, end in zip([n, *ends[:-1]], ends, strict=True)]


def load_tokens(split, vocab):
    """(N,) uint16, all tokens of "train" or "val" in reading order."""
    check_vocab(vocab)
    stream = np.frombuffer(read(f"{split}.stream.zz"), "<u2")        # (W,) word numbers
    packed = read(f"{split}.{vocab}.zz")
    n_words = int(stream.max()) + 1
    lengths = np.frombuffer(packed, np.uint8, n_words).astype(np.int32)
    flat = np.frombuffer(packed, "<u2", offset=n_words)              # tokens of all words in a row
    starts = np.cumsum(lengths) - lengths
    counts = lengths[stream]                                         # (W,) tokens of each word
    ends = np.cumsum(counts)
    return flat[np.repeat(starts[stream] - ends + counts, counts) + np.arange(ends[-1])]


def load_text(split):
    """The raw bytes of "train" or "val"."""
    stream = np.frombuffer(read(f"{split}.stream.zz"), "<u2")
    words = unpack_bytes(read(f"{split}.words.zz"), int(stream.max()) + 1)
    return b"".join([words[i] for i in stream])


def token_bytes(vocab):
    """The bytes that each token stands for, a list of VOCAB byte strings."""
    check_vocab(vocab)
    return unpack_bytes(read("tokens.zz"), max(VOCABS))[:vocab]


# -----------------------------------------------------------------------------
# Budget: counted here, once for the whole process


def cpu_seconds():
    """CPU of this process with all its threads, and of its ended children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Clock:
    """What has been used of the budget. There is one, `clock`; loaders share it."""

    def __init__(self):
        self.steps = 0       # batches handed out
        self.tokens = 0      # target tokens in them
        self.epochs = 0.0    # the same as passes over the training text
        self.started = None  # (wall, CPU) seconds when the first counted step began
        self.ended = None    # the same when the budget was found spent

    def now(self):
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return time.perf_counter(), cpu_seconds()

    def spent(self):
        """What the gate has counted so far, in the unit of BUDGET."""
        if GATE == "steps":
            return self.steps
        if GATE == "epochs":
            return self.epochs
        if self.started is None:
            return 0.0
        return self.now()[GATE == "cpu_time"] - self.started[GATE == "cpu_time"]

    def grant(self, tokens, epoch_tokens):
        """Take one optimizer step from the budget: the share used before it, None when spent."""
        if self.steps == FREE_STEPS and self.started is None:
            self.started = self.now()
        share = self.spent() / BUDGET
        if self.ended or share >= 1.0:
            self.ended = self.ended or self.now()
            return None
        self.steps += 1
        self.tokens += tokens
        self.epochs += tokens / epoch_tokens
        return share

    def seconds(self):
        """Wall-clock seconds of the counted steps."""
        started, ended = self.started or (T_START, 0), self.ended or self.now()
        return ended[0] - started[0]


clock = Clock()


def batches(vocab, batch, seq, device="cpu"):
    """
    The training data, one batch an optimizer step, until the budget is spent.

    Yields (x, y, progress):
    x, y:      (B, T) int64, tokens and the tokens that follow them; drawn with OVERNIGHT_SEED
    progress:  share of the budget used before this step, 0 <= progress < 1; for schedules
    A second loader goes on with the same budget, so it can't be made longer.
    Raises ValueError for a vocabulary, context length or batch that can't be.
    """
    check_seq(seq)
    if batch < 1:
        raise ValueError(f"BATCH is {batch}: must be at least 1")
    tokens = load_tokens("train", vocab)
    rng = np.random.default_rng([SEED, clock.steps])
    window = np.arange(seq + 1)
    while (progress := clock.grant(batch * seq, len(tokens))) is not None:
        start = rng.integers(len(tokens) - seq, size=(batch, 1))
        rows = torch.from_numpy(tokens[start + window].astype(np.int64)).to(device)  # (B, T + 1)
        yield rows[:, :-1], rows[:, 1:], progress


# -----------------------------------------------------------------------------
# Metric


@torch.inference_mode()
def evaluate_bpb(model, vocab, seq, device="cpu"):
    """
    Bits per UTF-8 byte of the raw validation text, lower is better.

    model:  (B, T) int64 -> (B, T, VOCAB) logits; position t may depend on tokens 0..t alone
    seq:    tokens of context; the text is cut into windows of this length
    Every token of the text is scored once, and the bytes are counted in the raw text, never by
    decoding, so that runs with different vocabularies can be compared. The logits are normalised
    here, over the whole vocabulary; a target reaches the model only as a later input.
    Raises ValueError when the logits have another shape or depend on later tokens.
    """
    check_seq(seq)
    tokens = torch.from_numpy(load_tokens("val", vocab).astype(np.int64))
    n_windows = math.ceil(len(tokens) / seq)
    x = torch.full((n_windows * seq,), START_TOKEN)
    y = torch.full((n_windows * seq,), -1)                    # -1: padding, not scored
    x[1 : len(tokens)] = tokens[:-1]
    y[: len(tokens)] = tokens
    x, y = x.view(-1, seq).to(device), y.view(-1, seq).to(device)  # (N, T)
    was_training = model.training
    model.eval()
    refuse_lookahead(model, x[:1], vocab)
    nats, rows = 0.0, max(1, EVAL_BATCH // seq)
    for i in range(0, n_windows, rows):
        logits = model(x[i : i + rows])                       # (B, T, VOCAB)
        if logits.shape != (*x[i : i + rows].shape, vocab):
            raise ValueError(f"logits have shape {tuple(logits.shape)}: want (B, T, {vocab})")
        loss = F.cross_entropy(logits.flatten(0, 1).float(), y[i : i + rows].flatten(),
                               ignore_index=-1, reduction="none")
        nats += loss.double().sum().item()
    model.train(was_training)
    return nats / (math.log(2) * EVAL_BYTES)


def refuse_lookahead(model, x, vocab):
    """Raises ValueError when another end of the text changes the logits of its beginning."""
    half = max(1, x.shape[1] // 2)
    other = x.clone()
    other[:, half:] = (other[:, half:] + 1) % vocab
    before, after = model(x)[:, :half].float(), model(other)[:, :half].float()
    if (before - after).abs().max() > 1e-2 * before.abs().max().clamp(min=1.0):
        raise ValueError("the model looks at later tokens: predictions must be causal")


# -----------------------------------------------------------------------------
# End of a run


def print_summary(val_bpb, num_params, **more):
    """The block that is parsed: `name: value` lines after a line of dashes."""
    vram = torch.cuda.max_memory_allocated() / 1024**2 if torch.cuda.is_initialized() else 0.0
    lines = {
        "val_bpb": f"{val_bpb:.6f}",
        "training_seconds": f"{clock.seconds():.1f}",
        "total_seconds": f"{time.perf_counter() - T_START:.1f}",
        "cpu_seconds": f"{cpu_seconds():.1f}",
        "peak_vram_mb": f"{vram:.1f}",
        "total_tokens_M": f"{clock.tokens / 1e6:.4f}",
        "num_steps": f"{clock.steps}",
        "num_params_M": f"{num_params / 1e6:.4f}",
        **{name: str(value) for name, value in more.items()},
    }
    print("---")
    for name, value in lines.items():
        print(f"{name + ':':<18}{value}")


def hand_off(model, vocab, seq):
    """
    Leave weights and what is needed to score them in the folder OVERNIGHT_OUT, if it is set.

    model.safetensors:  the state dict; load it into what train.py's build_model() returns
    handoff.json:       {"track", "vocab", "seq", "table_sha256"}
    """
    if not OUT:
        return
    os.makedirs(OUT, exist_ok=True)
    save_model(getattr(model, "_orig_mod", model), os.path.join(OUT, "model.safetensors"))
    table = MANIFEST["tables"][str(vocab)]["sha256"]
    about = {"track": "tiny_lm", "vocab": vocab, "seq": seq, "table_sha256": table}
    Path(OUT, "handoff.json").write_text(json.dumps(about) + "\n")


if __name__ == "__main__":
    for name in MANIFEST["files"]:
        read(name)
    for split, about in MANIFEST["splits"].items():
        if hashlib.sha256(load_text(split)).hexdigest() != about["sha256"]:
            raise ValueError(f"the {split} text is not the one that MANIFEST.json names")
        print(f"{split}: {about['bytes']:,} bytes, {about['verses']:,} verses, whole")
