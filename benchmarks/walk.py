"""Plays docs/your-repository.md and puts what really comes out into the page.

    python -m benchmarks.walk            # rewrites the page's blocks, about a minute
    python -m benchmarks.walk --check    # plays it, every exit code must be 0; writes nothing

A block of the page begins with `$ COMMAND`; all commands run in order in one toy repository, with
a home, a virtual environment and an edit that is not committed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "your-repository.md"
_BLOCK = re.compile(r"^```text\n(\$ .*?)^```$", re.M | re.S)
TRAIN = """\
import time

from prepare import TIME_BUDGET, load

LR = 0.02
WARMUP = 0.3
DEPTH = 4
MOMENTUM = 0.8

data = load()
time.sleep(TIME_BUDGET)
gap = abs(LR - 0.05) * 3 + abs(WARMUP - 0.2) + abs(DEPTH - 6) / 40 + abs(MOMENTUM - 0.9)
print("---")
print(f"val_bpb:          {1 + gap:.6f}")
print("peak_vram_mb:     512.0")
"""
PREPARE = """\
from pathlib import Path

TIME_BUDGET = 1      # seconds of training
MAX_SEQ_LEN = 2048   # tokens
CACHE = Path.home() / ".cache/research"


def load():
    return (CACHE / "shard.txt").read_text()


if __name__ == "__main__":
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "shard.txt").write_text("tokens")
"""
README = """\
# research

    python prepare.py
    python train.py

The metric is val_bpb, lower is better.
"""


class Walk:
    """A home with a repository in it, and `overnight` on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.repo = folder, folder / "home" / "research"
        self.repo.mkdir(parents=True)
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        shim = bin_folder / "overnight"
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m overnight.cli "$@"\n')
        shim.chmod(0o755)
        self.env = {
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.repo.parent),
            "PYTHONPATH": str(ROOT / "services"),
            "OVERNIGHT_STATE": str(folder / "state"),
            "OVERNIGHT_DEVICE_LOCKS": str(folder / "locks"),
            "LANG": "C.UTF-8",
        }
        for name, text in (("train.py", TRAIN), ("prepare.py", PREPARE), ("README.md", README)):
            (self.repo / name).write_text(text)
        (self.repo / ".gitignore").write_text(".venv/\n")
        (self.repo.parent / ".gitconfig").write_text(
            "[user]\nname = You\nemail = you@example.org\n"
        )
        self.sh(f'"{sys.executable}" -m venv --without-pip .venv')
        self.sh("git init -q -b mar5 && git add . && git commit -q -m first")
        (self.repo / "train.py").write_text(TRAIN.replace("MOMENTUM = 0.8", "MOMENTUM = 0.85"))
        (self.repo / "notes.md").write_text("mine\n")

    def sh(self, command: str) -> tuple[int, str]:
        """Exit code and what appeared, as a person sees it."""
        done = subprocess.run(
            ["sh", "-c", command], cwd=self.repo, env=self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        shown = done.stdout.replace(str(self.repo.parent), "~").rstrip()
        return done.returncode, re.sub(r"^\$ ", "  $ ", shown, flags=re.M)  # no command of ours


def played(walk: Walk, block: str) -> str:
    """A block with what its commands print now. Raises SystemExit when one of them fails."""
    lines = []
    for command in re.findall(r"^\$ (.*)$", block, re.M):
        code, text = walk.sh(command)
        if code != 0:
            raise SystemExit(f"{command}: {code}\n{text}")
        lines += [f"$ {command}", *([text] if text else [])]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Play every block, in order."""
    text = PAGE.read_text("utf-8")
    folder = Path(tempfile.mkdtemp(prefix="walk-"))
    try:
        walk = Walk(folder)
        now = _BLOCK.sub(lambda match: f"```text\n{played(walk, match[1])}```", text)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(now, "utf-8")
    print(f"{PAGE.name}: {len(_BLOCK.findall(text))} blocks played")


if __name__ == "__main__":
    main()
