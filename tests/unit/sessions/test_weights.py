"""weights: one file, whole, where the user said, never over another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.ledger.history_of import result

from overnight.contracts import wire
from overnight.contracts.errors import UsageError
from overnight.contracts.experiment import Decision
from overnight.contracts.rows import Proposed
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import ExperimentState
from overnight.sessions.weights import Left, choose, left_by, save


def _experiment(verdict: str = "keep") -> ExperimentState:
    proposed = {
        "id": 4, "role": "candidate", "parent": 1, "commit": "c" * 40, "tree_digest": "d" * 64,
        "branch": "iter4", "hypothesis": "idea", "proposer": "random", "seen_seq": 1,
    }  # fmt: skip
    decision = {
        "id": 4, "verdict": verdict, "reason": None, "incumbent_before": 1, "incumbent_after": 1,
        "rests_on": [], "basis_seq": 1,
    }  # fmt: skip
    experiment = ExperimentState(wire.build(Proposed, proposed), 1)
    experiment.final, experiment.decision = result(4), wire.build(Decision, decision)
    return experiment


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    return SessionFiles(tmp_path / "sandbox")


def _leave(files: SessionFiles, **contents: bytes) -> None:
    out = files.iteration(4) / "out"
    for name, content in contents.items():
        place = out / name.replace("__", "/").replace("_", ".")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


@pytest.mark.parametrize(
    ("names", "wanted", "chosen"),
    [
        (["notes.txt"], None, "notes.txt"),
        (["handoff.json", "model.safetensors"], None, "model.safetensors"),
        (["a/model.PT", "log.txt"], None, "a/model.PT"),
        (["a.pt", "b.pt"], "b.pt", "b.pt"),
        (["x/a.pt", "b.pt"], "a.pt", "x/a.pt"),
        (["x/a.pt", "y/a.pt"], "y/a.pt", "y/a.pt"),
        (["a.pt", "b.pt"], None, "left 2 files: name one by --file: a.pt, b.pt"),
        (["a.txt", "b.txt", "c.pt", "d.pt"], None, "left 4 files: name one by --file: c.pt, d.pt"),
        (["x/a.pt", "y/a.pt"], "a.pt", "left no one file 'a.pt': there is x/a.pt, y/a.pt"),
        ([f"{n}.pt" for n in range(20)], None, "7.pt and 12 more"),
    ],
)
def test_the_weights_are_the_one_file_that_can_be_meant(
    names: list[str], wanted: str | None, chosen: str
) -> None:
    left = [Left(name, 1) for name in names]
    if "." in chosen and " " not in chosen:
        assert choose(left, wanted, "experiment 4").path == chosen
    else:
        with pytest.raises(UsageError) as caught:
            choose(left, wanted, "experiment 4")
        assert chosen in str(caught.value)


def test_only_regular_files_are_listed(files: SessionFiles, tmp_path: Path) -> None:
    _leave(files, sub__model_pt=b"w", a_txt=b"12")
    out = files.iteration(4) / "out"
    (out / "link.pt").symlink_to(tmp_path)
    (out / "linked").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(out / "pipe.pt")

    assert left_by(files, 4) == [Left("a.txt", 2), Left("sub/model.pt", 1)]


def test_a_copy_is_whole_and_over_nothing(files: SessionFiles, tmp_path: Path) -> None:
    _leave(files, model_pt=b"weights" * 1000)

    saved = save(files, _experiment(), tmp_path / "best.pt")
    into = save(files, _experiment(), tmp_path)

    assert saved.to.read_bytes() == b"weights" * 1000
    assert into.to == tmp_path / "model.pt"
    saved.to.write_bytes(b"mine")
    with pytest.raises(UsageError, match="there already"):
        save(files, _experiment(), tmp_path / "best.pt")
    assert saved.to.read_bytes() == b"mine"
    save(files, _experiment(), tmp_path / "best.pt", force=True)
    assert saved.to.read_bytes() == b"weights" * 1000
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best.pt", "model.pt", "sandbox"]


def test_what_comes_there_meanwhile_stays(
    files: SessionFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _leave(files, model_pt=b"w")
    target = tmp_path / "best.pt"
    link = os.link

    def slow(source: Path, place: Path) -> None:
        target.write_bytes(b"theirs")
        link(source, place)

    monkeypatch.setattr(os, "link", slow)

    with pytest.raises(UsageError, match="there already"):
        save(files, _experiment(), target)
    assert target.read_bytes() == b"theirs"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best.pt", "sandbox"]


def test_nothing_left_says_how_a_script_leaves_weights(files: SessionFiles, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="environment variable OVERNIGHT_OUT names"):
        save(files, _experiment(), tmp_path / "best.pt")
    with pytest.raises(UsageError, match="was not kept, so what it left is not kept either"):
        save(files, _experiment("discard"), tmp_path / "best.pt")
    _leave(files, model_pt=b"w")
    with pytest.raises(UsageError, match="No such file"):
        save(files, _experiment(), tmp_path / "no" / "such" / "folder.pt")
