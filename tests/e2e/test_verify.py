"""`overnight verify` names the line: any changed byte, rows cut off, a decision that was forged.

SPINE_SEED repeats a run. The forger here knows the format and computes the chain anew.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import truth
from tests.e2e.stage import Stage

from overnight.sessions.verify import verify

#: A few candidates crash or hang, so that the ledger has rows with every field.
TRAIN = """\
import hashlib, time

LR = 0.1
WARMUP = 0.3

mood = hashlib.sha256(f"{LR} {WARMUP}".encode()).digest()[0] % 4
mood = 0 if (LR, WARMUP) == (0.1, 0.3) else mood
if mood == 1:
    raise ValueError("a crash")
if mood == 2:
    time.sleep(60)
print("noise: 1")
print("---")
print(f"val_bpb: {1 + abs(LR - 0.05) + abs(WARMUP - 0.2):.9f}")
print("peak_vram_mb: 100.5")
"""
RANDOM_POSITIONS = 150


@pytest.fixture(scope="module")
def played() -> Iterator[Stage]:
    """A session that was opened twice and went on."""
    stage = Stage(Path(tempfile.mkdtemp(prefix="ovs-")))
    stage.repo.mkdir()
    stage.write({"train.py": TRAIN})
    stage.bind(deadline_seconds=2.5)
    try:
        for candidates in (6, 8):
            finished = stage.run(candidates)
            assert finished.code == 0, finished
        yield stage
    finally:
        stage.close()


@pytest.fixture
def forged(played: Stage, tmp_path: Path) -> Path:
    """A copy of its folder to tamper with."""
    root = tmp_path / "sandbox"
    root.mkdir()
    for name in ("ledger.jsonl", "ledger.head", "session.json"):
        shutil.copy(played.root / name, root / name)
    return root


@pytest.fixture
def rng() -> random.Random:
    seed = int(os.environ.get("SPINE_SEED") or random.randrange(2**32))
    print(f"\nSPINE_SEED={seed}")
    return random.Random(seed)


def _leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    else:
        yield path, value


def _position_of_each_field(lines: list[bytes], rng: random.Random) -> dict[str, tuple[int, int]]:
    """One byte in the value of each field of each kind of row: (line from 0, column)."""
    found: dict[str, tuple[int, int]] = {}
    order = list(range(len(lines)))
    rng.shuffle(order)
    for number in order:
        row = json.loads(lines[number])
        for path, value in _leaves(row):
            field = f"{row['kind']}: {'.'.join(path)}"
            text = f'"{path[-1]}":{truth.canonical(value)}'.encode()
            start = lines[number].index(text) + len(path[-1]) + 3
            end = start + len(truth.canonical(value))
            found.setdefault(field, (number, rng.randrange(start, end)))
    return found


def _ask(stage: Stage, root: Path) -> tuple[int, dict[str, Any]]:
    answer = stage.ask("verify", "--dir", str(root), "--json")
    return answer.code, answer.last


def test_the_session_itself_is_found_whole(played: Stage) -> None:
    code, answer = _ask(played, played.root)
    rows = truth.check_session(played.root, 8)
    kinds = {row["kind"] for row in rows}

    assert (code, answer) == (0, {"ok": True, "rows": len(rows), "problems": []})
    assert kinds == {"session_opened", "proposed", "attempt_issued", "result", "decision",
                     "control", "session_closed"}  # fmt: skip
    assert len({row["body"]["status"] for row in rows if row["kind"] == "result"}) > 1


def test_every_changed_byte_is_found_in_its_line(
    played: Stage, forged: Path, rng: random.Random
) -> None:
    path = forged / "ledger.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    fields = _position_of_each_field(lines, rng)
    places = [(name, line, starts[line] + column) for name, (line, column) in fields.items()]
    places += [("newline", n, starts[n] + len(lines[n]) - 1) for n in (0, len(lines) - 1)]
    for _ in range(RANDOM_POSITIONS):
        at = rng.randrange(len(whole))
        places.append(("random", whole[:at].count(b"\n"), at))
    missed = []
    for name, line, at in places:
        byte = rng.choice([b for b in range(256) if b != whole[at]])
        path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
        problems = verify(forged).problems
        if [p.line for p in problems] != [line + 1]:
            missed.append((name, line + 1, at, bytes([byte]), problems))
    print(f"{len(places)} bytes changed in {len(lines)} rows, {len(fields)} kinds of fields")

    assert missed == []
    assert len(fields) > 100
    code, answer = _ask(played, forged)
    assert (code, answer["ok"]) == (1, False)
    assert [problem["line"] for problem in answer["problems"]] == [places[-1][1] + 1]


def test_whole_rows_cut_off_at_the_end_are_missed(played: Stage, forged: Path) -> None:
    path = forged / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for kept in range(len(lines)):
        path.write_bytes(b"".join(lines[:kept]))
        assert [p.line for p in verify(forged).problems] == [kept + 1], f"{kept} rows kept"
    path.write_bytes(b"".join(lines[:-3]))
    code, answer = _ask(played, forged)

    assert code == 1
    assert [problem["line"] for problem in answer["problems"]] == [len(lines) - 2]
    assert f"{len(lines) - 2} to {len(lines)}" in answer["problems"][0]["what"]


def test_a_cut_off_row_is_missed_even_with_the_head_removed(forged: Path) -> None:
    path = forged / "ledger.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-3]))
    (forged / "ledger.head").unlink()

    assert not verify(forged).ok


def test_each_flipped_decision_is_found_though_the_chain_is_whole(
    played: Stage, forged: Path
) -> None:
    original = truth.read_rows(forged)
    for index, row in enumerate(original):
        if row["kind"] != "decision" or row["body"]["id"] == 1:
            continue
        body = row["body"]
        kept = body["verdict"] == "keep"
        flipped = {
            "verdict": "discard" if kept else "keep",
            "reason": "worse" if kept else None,
            "incumbent_after": body["incumbent_before"] if kept else body["id"],
        }
        rows = list(original)
        rows[index] = {**row, "body": {**body, **flipped}}
        truth.write_rows(forged, rows)
        problems = verify(forged).problems

        assert [p.line for p in problems] == [index + 1], f"{body} -> {flipped}: {problems}"
        last = index
    code, answer = _ask(played, forged)

    assert code == 1
    assert [problem["line"] for problem in answer["problems"]] == [last + 1]
    assert "the policy says" in answer["problems"][0]["what"]


def test_a_forger_that_changes_nothing_is_believed(forged: Path) -> None:
    """The forger's chain is right: what the tests above find is the forged decision alone."""
    rows = truth.read_rows(forged)
    before = (forged / "ledger.jsonl").read_bytes()
    truth.write_rows(forged, rows)

    assert (forged / "ledger.jsonl").read_bytes() == before
    assert verify(forged).ok
