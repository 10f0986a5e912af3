"""The wheel carries all files that are no package: tracks and the skill."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("harness/tracks", "skills")


def test_every_track_and_skill_file_is_in_the_wheel_at_its_own_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    data = project["tool"]["setuptools"]["data-files"]
    carried = {
        str(path.relative_to(ROOT)): f"{place}/{path.name}".removeprefix("share/overnight/")
        for place, globs in data.items()
        for glob in globs
        for path in ROOT.glob(glob)
        if path.is_file()
    }
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--", *FOLDERS], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()

    assert sorted(set(tracked.split("\0")) - {""} - carried.keys()) == []
    assert {path: place for path, place in carried.items() if path != place} == {}
