"""clean and retention: what can be made again goes, what was tried stays, to the byte."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.snapshots.user_repositories import fingerprint, write
from tests.unit.sessions.told import Told

from overnight.faultpoints import Step, arm
from overnight.ledger.disk import LOG_HEAD_BYTES, LOG_TAIL_BYTES, Kind, keeps_out
from overnight.ledger.lock import hold_session
from overnight.recorder.retention import Retention
from overnight.sessions.cleaning import Cleaned, clean

TRAIN = "LR = 0.1\n"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1, 2 and 5 lead to the best; 3 was worse, 4 crashed."""
    repo = tmp_path_factory.mktemp("template") / "repo"
    write(repo, {"train.py": TRAIN})
    told = Told(repo)
    for lr, metric in (("0.2", 0.9), ("0.3", 1.5), ("0.4", None), ("0.5", 0.8)):
        told.idea({"train.py": f"LR = {lr}\n"}, metric)
    told.close()
    return repo


@pytest.fixture
def told(template: Path, tmp_path: Path) -> Iterator[Told]:
    told = Told.again(shutil.copytree(template, tmp_path / "repo"))
    for number in range(1, 6):
        write(told.root, {f"iter{number}/out/sub/model.pt": b"w" * 5000})
    yield told
    told.close()


def _outs(told: Told) -> list[int]:
    return sorted(int(out.parent.name.removeprefix("iter")) for out in told.root.glob("iter*/out"))


def _kinds(done: Cleaned) -> list[tuple[str, str]]:
    return [(item.kind.value, item.path.name) for item in done.gone]


def _failed(told: Told, number: int, *, tried: bool = False) -> Path:
    """A session beside it, as `run` moves one away whose baseline failed."""
    place = told.repo / f"sandbox.failed-{number}"
    other = Told(told.repo, root=place, tag="old")
    if tried:
        other.idea({"train.py": "LR = 9\n"}, 2.0)
    else:
        other.state.incumbent = None
    other.close()
    if not tried:  # the ledger of one that never began
        (place / "ledger.jsonl").unlink()
        (place / "ledger.head").unlink()
    return place


def test_what_led_to_the_best_keeps_what_it_left(told: Told) -> None:
    assert keeps_out(told.state) == {1, 2, 5}

    retention = Retention(told.files)
    retention.catch_up(told.state)

    assert _outs(told) == [1, 2, 5]


def test_a_discarded_idea_loses_what_it_left_as_soon_as_it_is_decided(told: Told) -> None:
    retention = Retention(told.files)
    retention.catch_up(told.state)
    worse = told.idea({"train.py": "LR = 7\n"}, 3.0)
    write(told.root, {f"iter{worse}/out/model.pt": b"w"})
    retention.follow(told.state, worse)
    assert _outs(told) == [1, 2, 5]

    rewound = told.idea({"train.py": "LR = 8\n"}, 0.1, parent=1)
    write(told.root, {f"iter{rewound}/out/model.pt": b"w"})
    retention.follow(told.state, rewound)

    assert _outs(told) == [1, rewound]


def test_a_recorder_killed_at_any_removal_goes_on_with_it_at_the_next_start(told: Told) -> None:
    class KilledError(Exception):
        """As SIGKILL would end it."""

    def strike(step: Step) -> None:
        raise KilledError(step)

    arm(strike)
    try:
        with pytest.raises(KilledError):
            Retention(told.files).catch_up(told.state)
    finally:
        arm(None)
    assert _outs(told) == [1, 2, 3, 4, 5]

    Retention(told.files).catch_up(told.state)

    assert _outs(told) == [1, 2, 5]


def test_a_dry_run_says_what_goes_and_touches_nothing(told: Told) -> None:
    write(told.root, {"quarantine/results.tsv.1": "odd", "runners/r0/trees/aa/train.py": "x"})
    before = fingerprint(told.root, without=lambda path: path == "session.lock")

    done = clean(told.found, dry_run=True)

    assert _kinds(done) == [("weights", "out"), ("weights", "out"), ("slots", "r0")]
    assert [item.path.parent.name for item in done.gone[:2]] == ["iter3", "iter4"]
    assert [item.path.name for item in done.kept] == ["results.tsv.1"]
    assert done.freed_bytes >= 2 * 5000
    assert fingerprint(told.root, without=lambda path: path == "session.lock") == before


def test_rows_commits_refs_exports_and_what_is_undelivered_stay(told: Told) -> None:
    write(
        told.root,
        {
            "results.tsv": "commit\n", "experiments.jsonl": "{}\n", "iter3/run.log": "short\n",
            "iter3/code_snapshot/train.py": "LR = 3\n", "logs/r0.log": "{}\n",
            "runners/r0/outbox/result_3.json": "{}", "runners/r0/trees/aa/train.py": "x",
            "runners/r1/outbox/refused/x.json": "{}", "runners/r2/claimed": "{}",
            "runners/r3/lock": "1", "runners/r4/device.quarantined": "why",
            "runners/r4/work-3-1/deep/x": "x", "quarantine/ledger-1.jsonl": "{}",
        },
    )  # fmt: skip

    def gone(path: str) -> bool:
        return path.startswith(("session.lock", "iter3/out", "iter4", "runners"))

    before = fingerprint(told.root, without=gone)

    done = clean(told.found, dry_run=False)

    assert fingerprint(told.root, without=gone) == before
    left = sorted(str(p.relative_to(told.root / "runners")) for p in told.root.glob("runners/*/**"))
    assert [name for name in left if "/" in name] == [
        "r0/outbox", "r1/outbox", "r1/outbox/refused",
    ]  # fmt: skip
    assert (told.root / "runners/r2/claimed").is_file()
    assert (told.root / "runners/r4/device.quarantined").is_file()
    assert not (told.root / "runners/r3").exists()
    assert done.failed == ()
    assert clean(told.found, dry_run=False).gone == ()
    clean(told.found, dry_run=False, everything=True)
    assert not list((told.root / "quarantine").iterdir())


def test_a_long_log_keeps_its_ends(told: Told) -> None:
    log = told.root / "iter3" / "run.log"
    log.write_bytes(b"first\n" + b"x" * 2_000_000 + b"\nlast")
    kept = told.root / "iter5" / "run.log"
    kept.write_bytes(b"x" * 2_000_000)
    write(told.root, {"logs/r0.log.1": b"y" * 5000})

    done = clean(told.found, dry_run=False)

    text = log.read_bytes()
    assert text.startswith(b"first\n")
    assert text.endswith(b"\nlast")
    assert b"cut by" in text[LOG_HEAD_BYTES : LOG_HEAD_BYTES + 100]
    assert len(text) < LOG_HEAD_BYTES + LOG_TAIL_BYTES + 100
    assert kept.stat().st_size == 2_000_000
    assert ("logs", "r0.log.1") in _kinds(done)


def test_only_sessions_in_which_nothing_was_tried_go_as_failed(told: Told) -> None:
    first, second = _failed(told, 1), _failed(told, 2, tried=True)
    write(told.repo, {"sandbox.failed-x/train.py": "mine", "sandbox.failed-3/notes": "mine"})
    (told.repo / "sandbox.failed-4").symlink_to(told.root)

    done = clean(told.found, dry_run=False)

    assert ("failed", "sandbox.failed-1") in _kinds(done)
    assert not first.exists()
    assert second.is_dir()
    assert (told.repo / "sandbox.failed-x" / "train.py").is_file()
    assert (told.repo / "sandbox.failed-3" / "notes").is_file()
    assert told.files.ledger.is_file()


def test_a_running_session_keeps_what_it_works_with(told: Told) -> None:
    write(told.root, {"runners/r0/trees/aa/train.py": "x", "logs/r0.log.1": b"y" * 5000})
    lock = hold_session(told.files)

    done = clean(told.found, dry_run=False)

    assert done.live
    assert {item.kind for item in done.gone} == {Kind.WEIGHTS}
    assert (told.root / "runners/r0/trees/aa/train.py").is_file()
    assert json.loads(json.dumps(done.as_json()))["running"] is True
    os.close(lock)
