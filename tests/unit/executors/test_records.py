"""Records and user ids belong to whoever lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from overnight.contracts.errors import SandboxUnavailableError
from overnight.executors import records


def test_a_living_owner_s_record_is_nobody_else_s(tmp_path: Path) -> None:
    record = records.write(tmp_path, {"slot": "a"}, tmp_path / "s", "")

    assert list(records.abandoned(tmp_path, {})) == []
    record.remove()
    assert list(tmp_path.iterdir()) == []


def test_an_abandoned_record_is_found_once_by_its_labels(tmp_path: Path) -> None:
    records.write(tmp_path, {"slot": "a", "sid": "1"}, tmp_path / "s", "own").abandon()

    assert list(records.abandoned(tmp_path, {"slot": "b"})) == []
    (found,) = records.abandoned(tmp_path, {"slot": "a"})
    assert (found.scratch, found.cgroup_own) == (tmp_path / "s", "own")
    assert list(records.abandoned(tmp_path, {"slot": "a"})) == []
    found.remove()
    assert list(records.abandoned(tmp_path, {})) == []


def test_a_record_outlives_a_killed_owner(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from overnight.executors import records\n"
        "r = records.write(Path(sys.argv[1]), {'slot': 'a'}, Path('/s'), '')\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)

    assert len(list(records.abandoned(tmp_path, {"slot": "a"}))) == 1


@pytest.mark.parametrize("version", [0, 2])
def test_a_record_of_another_version_is_left_to_its_runners(tmp_path: Path, version: int) -> None:
    record = records.write(tmp_path, {"slot": "a"}, tmp_path / "s", "own")
    record.abandon()
    text = record.path.read_text()
    record.path.write_text(text.replace('"v": 1', f'"v": {version}'))

    assert list(records.abandoned(tmp_path, {})) == []
    assert record.path.exists()
    record.path.write_text(f'{{"v": {version}, "of": "another shape"}}')
    assert list(records.abandoned(tmp_path, {})) == []
    record.path.write_text(text.replace('"v": 1, ', ""))
    assert len(list(records.abandoned(tmp_path, {}))) == 1, "the first version had no number"


def test_garbage_in_the_folder_is_not_a_record(tmp_path: Path) -> None:
    for name, text in (("sandbox-1.json", ""), ("sandbox-2.json", "[]"), ("sandbox-3.json", "{}")):
        (tmp_path / name).write_text(text)

    assert list(records.abandoned(tmp_path, {})) == []


def test_user_ids_are_unique_until_released_and_run_out_clearly(tmp_path: Path) -> None:
    one = records.claim_user(tmp_path, 60600, 2)
    two = records.claim_user(tmp_path, 60600, 2)
    with pytest.raises(SandboxUnavailableError, match="all 2 user ids"):
        records.claim_user(tmp_path, 60600, 2)
    one.release()
    again = records.claim_user(tmp_path, 60600, 2)

    assert [one.uid, two.uid, again.uid] == [60600, 60601, 60600]
    two.release()
    again.release()


def test_a_lock_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "link")
    with pytest.raises(SandboxUnavailableError, match="belongs to somebody else"):
        records.open_folder(tmp_path / "link")
