"""Faults of files: torn, edited, deleted, or left there by a process that died."""

from __future__ import annotations

import os
import random
from pathlib import Path

from overnight.sessions.torture.processes import wait_until_dead
from overnight.sessions.torture.victim import MissedError, Victim

EXPORTS = ("results.tsv", "experiments.jsonl")


def tear_ledger(victim: Victim, rng: random.Random) -> str:
    """While nothing runs: a row whose end never reached the disk."""
    _take_down(victim)
    lines = victim.files.ledger.read_bytes().splitlines()
    torn = rng.choice(lines)[: rng.randint(1, 200)]
    tail = rng.choice((torn, rng.randbytes(100).replace(b"\n", b""), b"\0" * 50, b"{"))
    with victim.files.ledger.open("ab") as file:
        file.write(tail)
    victim.start()
    return f"{len(tail)} torn bytes at the ledger's end"


def leave_files(victim: Victim, rng: random.Random) -> str:
    """While nothing runs: what a process leaves that dies at a bad moment."""
    _take_down(victim)
    root = victim.files.root
    places = {
        "stack.json": b'{"pid": 1, "redis_url": "unix:///nowhere?db=0"}',
        "stack.tmp": b"{",
        "ledger.tmp": b'{"hash":"',
        "opening.tmp": b"{",
        "session.lock": b"1\n",
        ".results.tsv.new": b"commit\t",
        "objects.git/HEAD.lock": b"",
        "objects.git/packed-refs.lock": b"",
        "objects.git/index.lock": b"",
        "objects.git/config.lock": b"",
        "runners/r0/claimed": b'{"attempt":1,',
        "runners/r1/.claimed.tmp": b"{",
    }
    chosen = rng.sample(sorted(places), rng.randint(1, 4))
    for name in chosen:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(places[name])
    victim.start()
    return f"left there: {', '.join(chosen)}"


def tear_export(victim: Victim, rng: random.Random) -> str:
    """An export that ends in the middle of a line."""
    path = _export(victim, rng)
    size = path.stat().st_size
    os.truncate(path, rng.randrange(size))
    return f"{path.name} torn"


def edit_export(victim: Victim, rng: random.Random) -> str:
    """An export that somebody saved with an editor or a spreadsheet."""
    path = _export(victim, rng)
    text = path.read_bytes()
    kind, new = rng.choice((
        ("CRLF", text.replace(b"\n", b"\r\n")),
        ("a line more", text + b"iter1\t0.000001\t0.0\tkeep\tmine is the best\n"),
        ("NULs", text[: len(text) // 2] + b"\0" * 64),
        ("another header", b"id;metric\n" + text),
        ("reversed", b"\n".join(reversed(text.split(b"\n")))),
    ))  # fmt: skip
    path.write_bytes(new)
    return f"{path.name} edited ({kind})"


def delete_export(victim: Victim, rng: random.Random) -> str:
    """An export that is gone, or has become something else."""
    path = _export(victim, rng)
    kind = rng.choice(("deleted", "a link to elsewhere", "a pipe"))
    path.unlink()
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind != "deleted":
        path.symlink_to(victim.folder / "elsewhere")
    return f"{path.name}: {kind}"


def pause_session(victim: Victim, rng: random.Random) -> str:
    """`overnight pause`, and `overnight resume` after a while."""
    victim.stack()
    seconds = rng.uniform(0.5, 3.0)
    victim.ask("pause", then=lambda: victim.later(seconds, lambda: victim.ask("resume")))
    return f"overnight pause, and resume after {seconds:.1f} s"


def _export(victim: Victim, rng: random.Random) -> Path:
    path = victim.files.root / rng.choice(EXPORTS)
    if not path.is_file() or path.is_symlink() or path.stat().st_size == 0:
        raise MissedError(f"{path.name} is not there")
    return path


def _take_down(victim: Victim) -> None:
    victim.service("supervisor")
    victim.kill()
    wait_until_dead(victim)
