"""What `once` measured counts for the very tree and bindings that it ran, and for nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.ledger.history_of import result

from overnight.configuration import ResolvedLoop, resolve_loop
from overnight.sessions.measured import _tree, recall, remember


@pytest.fixture
def loop(tmp_path: Path) -> ResolvedLoop:
    """A repository with its bindings."""
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "train.py").write_text("print('val_bpb: 1.0')\n")
    (repo / "loop.run.yaml").write_text(
        "metric: val_bpb\nrun_cmd: python train.py\neditable_files: train.py\n"
    )
    return resolve_loop(repo, flags={}, environ={})


@pytest.fixture
def environ(tmp_path: Path, loop: ResolvedLoop) -> dict[str, str]:
    """A host on which that repository was measured."""
    environ = {"OVERNIGHT_STATE": str(tmp_path / "state")}
    remember(environ, loop, result(1, metric=1.25, tree_digest=_tree(loop)))
    return environ


def test_the_same_tree_is_not_measured_twice(environ: dict[str, str], loop: ResolvedLoop) -> None:
    found = recall(environ, loop)
    assert found is not None
    assert found.metric == 1.25


def test_one_changed_byte_is_another_tree(environ: dict[str, str], loop: ResolvedLoop) -> None:
    (loop.repo / "train.py").write_text("print('val_bpb: 1.1')\n")
    assert recall(environ, loop) is None


def test_other_bindings_are_another_measurement(
    environ: dict[str, str], loop: ResolvedLoop
) -> None:
    changed = resolve_loop(loop.repo, flags={"budget": 7.0}, environ={})
    assert recall(environ, changed) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"v":9}', "\udce9", "x" * 300_000])
def test_damage_is_a_second_run_and_no_error(
    environ: dict[str, str], loop: ResolvedLoop, text: str, tmp_path: Path
) -> None:
    (file,) = (tmp_path / "state/once").iterdir()
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert recall(environ, loop) is None


def test_a_folder_that_others_may_write_is_not_believed(
    environ: dict[str, str], loop: ResolvedLoop, tmp_path: Path
) -> None:
    (tmp_path / "state/once").chmod(0o777)
    assert recall(environ, loop) is None


def test_a_host_that_can_keep_nothing_keeps_nothing(loop: ResolvedLoop, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    environ = {"OVERNIGHT_STATE": str(tmp_path / "file/below")}
    remember(environ, loop, result(1, metric=1.25))
    assert recall(environ, loop) is None
