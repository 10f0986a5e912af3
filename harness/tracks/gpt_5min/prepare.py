"""
Frozen part of the track: data, budget and metric of a GPT trained on one GPU for 5 minutes.

    python prepare.py                         # once: fetches 100 MB of text (36 MB packed)
    python prepare.py --text a.txt b.txt      # the same from text that is there already

Nothing is fetched on import: train.py takes what was prepared, from the folder GPT_5MIN_DATA or
~/.cache/overnight/gpt_5min. The tokens are the bytes of the text, so there is no tokenizer to
fetch, to trust or to win with. OVERNIGHT_BUDGET are the seconds of training, 300 by default; with
OVERNIGHT_GATE=steps it counts steps. GPT_5MIN_TOY=1 makes all of it tiny, to see it run on a CPU.

Not run on a GPU yet, and the download was not run where this was written.
What it is not: a boundary. It runs in the candidate's own process; deadlines are kept from outside.
"""
import argparse
import hashlib
import json
import math
import os
import sys
import time
import urllib.request
import zipfile
from pathlib import Path

T_START = time.perf_counter()  # total_seconds counts from here

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

# -----------------------------------------------------------------------------
# Constants (fixed, do not modify)

VOCAB       = 256                       # a token is a byte
START_TOKEN = 10                        # "\n": what stands before every text
MAX_SEQ_LEN = 4096                      # tokens of context, at most
BLOCK       = 65_536                    # bytes; the text is dealt out in blocks of this size
VAL_EVERY   = 20                        # one block in so many is validation
SOURCE      = "http://mattmahoney.net/dc/enwik8.zip"   # Wikipedia, CC BY-SA; 100,000,000 bytes

TOY    = os.environ.get("GPT_5MIN_TOY") == "1"
DATA   = Path(os.environ.get("GPT_5MIN_DATA") or Path.home() / ".cache/overnight/gpt_5min")
GATE   = os.environ.get("OVERNIGHT_GATE", "time")            # time or steps
BUDGET = float(os.environ.get("OVERNIGHT_BUDGET", "300"))    # seconds, or steps
SEED   = int(os.environ.get("OVERNIGHT_SEED", "0"))

EVAL_BYTES = 4_096 if TOY else 4_194_304  # of the validation text, from its beginning
EVAL_BATCH = 1_024 if TOY else 65_536     # tokens a forward pass
TOY_SIZE   = {"depth": 2, "dim": 32, "heads": 2, "seq": 64, "batch": 4, "tokens": 512}

if GATE not in ("time", "steps"):
    raise ValueError(f"OVERNIGHT_GATE is {GATE!r}: must be time or steps")
if not 0 < BUDGET < math.inf:
    raise ValueError(f"OVERNIGHT_BUDGET is {BUDGET}: must be a number above 0")

# -----------------------------------------------------------------------------
# Data


def prepare(text):
    """Deal *text* out into train.bin and val.bin; manifest.json names their digests."""
    blocks = [text[i : i + BLOCK] for i in range(0, len(text), BLOCK)]
    splits = {
        "train": b"".join(b for i, b in enumerate(blocks) if i % VAL_EVERY != VAL_EVERY // 2),
        "val": b"".join(b for i, b in enumerate(blocks) if i % VAL_EVERY == VAL_EVERY // 2),
    }
    if len(splits["val"]) < EVAL_BYTES:
        raise SystemExit(f"{len(text):,} bytes are too few: validation needs {EVAL_BYTES:,} bytes, "
                         f"so give {VAL_EVERY} times as many")
    DATA.mkdir(parents=True, exist_ok=True)
    about = {}
    for name, data in splits.items():
        (DATA / f"{name}.part").write_bytes(data)
        about[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        os.replace(DATA / f"{name}.part", DATA / f"{name}.bin")
    (DATA / "manifest.json").write_text(json.dumps(about, indent=1) + "\n")
    for name, facts in about.items():
        print(f"{DATA / name}.bin: {facts['bytes']:,} bytes, sha256 {facts['sha256'][:12]}")


def fetch():
    """The bytes of SOURCE; kept, so that a second time nothing is fetched."""
    DATA.mkdir(parents=True, exist_ok=True)
    packed, part = DATA / "enwik8.zip", DATA / "enwik8.zip.part"
    if not packed.exists():
        print(f"fetching {SOURCE}")
        try:
            with urllib.request.urlopen(SOURCE, timeout=60) as answer, open(part, "wb") as file:
                while some := answer.read(1 << 20):
                    file.write(some)
        except OSError as error:
            raise SystemExit(f"{SOURCE} can't be fetched ({error}): try again, or give text of "
                             "your own with --text FILE...") from None
        os.replace(part, packed)
    with zipfile.ZipFile(packed) as archive:
        text = archive.read("enwik8")
    if len(text) != 100_000_000:
        raise SystemExit(f"{packed} holds {len(text):,} bytes instead of 100,000,000: remove it")
    return text


def load(split):
    """(N,) uint8, all bytes of "train" or "val", not read into memory."""
    path = DATA / f"{split}.bin"
    if not path.exists():
        raise SystemExit(f"{path} is not there: run `python prepare.py` once (it fetches 36 MB), "
                         "or `python prepare.py --text FILE...`")
    return np.memmap(path, np.uint8, "r")


# -----------------------------------------------------------------------------
# Budget: counted here, from the first batch on; what is compiled after it counts


class Clock:
    """What has been used of the budget."""

    def __init__(self):
        self.steps, self.tokens = 0, 0
        self.started = self.ended = None

    def progress(self):
        """Share of the budget that is used, for schedules; training ends at 1."""
        if GATE == "steps":
            return self.steps / BUDGET
        return 0.0 if self.started is None else self.seconds() / BUDGET

    def seconds(self):
        """Of training so far, wall clock, with all that the GPU was given."""
        if self.started is None:
            return 0.0
        if self.ended is None and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return (self.ended or time.perf_counter()) - self.started


clock = Clock()


def batches(batch, seq, micro_steps, device):
    """
    Training data until the budget is spent: one list of micro-batches an optimizer step.

    Yields (micro_batches, progress):
    micro_batches:  micro_steps pairs x, y of (B, T) int64, bytes and the bytes that follow them,
                    drawn with OVERNIGHT_SEED
    progress:       share of the budget used before this step, 0 <= progress < 1
    """
    if not 1 <= seq <= MAX_SEQ_LEN:
        raise ValueError(f"SEQ is {seq}: must be between 1 and MAX_SEQ_LEN = {MAX_SEQ_LEN}")
    text = load("train")
    rng = np.random.default_rng(SEED)
    window = np.arange(seq + 1)

    def draw():
        start = rng.integers(len(text) - seq, size=(batch, 1))
        rows = torch.from_numpy(text[start + window])         # (B, T + 1) uint8
        if device == "cuda":
            rows = rows.pin_memory().to(device, non_blocking=True)
        rows = rows.long()
        return rows[:, :-1], rows[:, 1:]

    clock.started = clock.started or time.perf_counter()
    while (progress := clock.progress()) < 1:
        clock.steps += 1
        clock.tokens += batch * seq * micro_steps
        yield (draw() for _ in range(micro_steps)), progress
    clock.ended = clock.started + clock.seconds()


# -----------------------------------------------------------------------------
# Metric


@torch.no_grad()
def evaluate_bpb(model, seq, device):
    """
    Bits per byte of the first EVAL_BYTES of the validation text, lower is better.

    model:  (B, T) int64 -> (B, T, 256) logits; position t may depend on tokens 0..t alone
    Every byte is scored once, in windows of seq. The logits are normalised here.
    Raises ValueError when the logits have another shape or depend on later tokens.
    """
    text = torch.from_numpy(np.array(load("val")[:EVAL_BYTES])).long()
    windows = math.ceil(EVAL_BYTES / seq)
    x = torch.full((windows * seq,), START_TOKEN)
    y = torch.full((windows * seq,), -1)                          # -1: padding, not scored
    x[1:EVAL_BYTES] = text[:-1]
    y[:EVAL_BYTES] = text
    x, y = x.view(-1, seq), y.view(-1, seq)                       # (N, T)
    model.eval()
    refuse_lookahead(model, x[:1].to(device))
    nats, rows = 0.0, max(1, EVAL_BATCH // seq)
    for i in range(0, windows, rows):
        logits = model(x[i : i + rows].to(device))                # (B, T, 256)
        if logits.shape != (*x[i : i + rows].shape, VOCAB):
            raise ValueError(f"logits have shape {tuple(logits.shape)}: want (B, T, {VOCAB})")
        target = y[i : i + rows].flatten().to(device)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), target, ignore_index=-1,
                               reduction="sum")
        nats += loss.double().item()
    return nats / (math.log(2) * EVAL_BYTES)


def refuse_lookahead(model, x):
    """Raises ValueError when another end of the text changes the logits of its beginning."""
    half = max(1, x.shape[1] // 2)
    other = x.clone()
    other[:, half:] = (other[:, half:] + 1) % VOCAB
    before, after = model(x)[:, :half].float(), model(other)[:, :half].float()
    if (before - after).abs().max() > 2e-2 * before.abs().max().clamp(min=1.0):
        raise ValueError("the model looks at later tokens: predictions must be causal")


# -----------------------------------------------------------------------------


def print_summary(val_bpb, num_params, **more):
    """The block that is parsed: `name: value` lines after a line of dashes."""
    vram = torch.cuda.max_memory_allocated() / 1024**2 if torch.cuda.is_initialized() else 0.0
    lines = {
        "val_bpb": f"{val_bpb:.6f}",
        "training_seconds": f"{clock.seconds():.1f}",
        "total_seconds": f"{time.perf_counter() - T_START:.1f}",
        "peak_vram_mb": f"{vram:.1f}",
        "total_tokens_M": f"{clock.tokens / 1e6:.4f}",
        "num_steps": f"{clock.steps}",
        "num_params_M": f"{num_params / 1e6:.4f}",
        **{name: str(value) for name, value in more.items()},
    }
    print("---")
    for name, value in lines.items():
        print(f"{name + ':':<18}{value}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Prepare the data of gpt_5min, once.")
    parser.add_argument("--text", nargs="+", type=Path, help="files to use instead of fetching")
    given = parser.parse_args().text
    if not given and (DATA / "manifest.json").exists():
        sys.exit(f"{DATA}: is prepared already; remove the folder to do it again")
    prepare(b"".join(path.read_bytes() for path in given) if given else fetch())
