"""A profile runs only as it was registered."""

from __future__ import annotations

from pathlib import Path

import pytest

from overnight.contracts import wire
from overnight.contracts.errors import SandboxUnavailableError
from overnight.contracts.spawning import Profile
from overnight.executors import profiles

PROFILE = Profile(command=("python", "train.py"), reads=("/data",))


def test_what_is_registered_is_read_again_and_registered_once(tmp_path: Path) -> None:
    digest = profiles.register(tmp_path, PROFILE)

    assert profiles.register(tmp_path, PROFILE) == digest == PROFILE.digest
    assert [path.name for path in tmp_path.iterdir()] == [f"{digest}.json"]
    assert profiles.read_profile(tmp_path, digest) == PROFILE


@pytest.mark.parametrize(
    "changes",
    [{"command": ("sh",)}, {"network": "host"}, {"reads": ("/data", "/secret")}, {"image": "x"}],
)
def test_a_file_that_was_changed_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    digest = profiles.register(tmp_path, PROFILE)
    changed = PROFILE.model_copy(update=changes)
    (tmp_path / f"{digest}.json").write_text(wire.encode(changed))

    with pytest.raises(SandboxUnavailableError, match="not what was registered"):
        profiles.read_profile(tmp_path, digest)


def test_what_nobody_registered_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailableError, match="open the session again"):
        profiles.read_profile(tmp_path, "0" * 64)


def test_a_folder_that_is_not_ours_to_write_is_named(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailableError, match="overnight open"):
        profiles.register(tmp_path / "missing", PROFILE)
