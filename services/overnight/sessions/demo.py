"""The demo's own repository: the bundled track, copied where one can look at it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import overnight
from overnight.configuration import LOOP_FILE, load_yaml
from overnight.contracts.errors import ConfigError, InfrastructureError, UsageError

TRACK = "tiny_lm"
TRACK_FILE = "track.yaml"
NEEDED = ("torch", "numpy", "safetensors")  #: what the track imports
_SHARED = Path("share", "overnight", "harness", "tracks")
_LEFT_BEHIND = shutil.ignore_patterns("__pycache__", ".*", "sandbox*", LOOP_FILE)


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A copy of the track."""

    repo: Path
    track: Path  #: its track.yaml
    new: bool


def track_of(repo: Path) -> Path | None:
    """The track.yaml in *repo*, if it is a track's folder: its bindings are the lowest layer."""
    path = repo / TRACK_FILE
    if not path.is_file():
        return None
    try:
        found = load_yaml(path, path.name)
    except ConfigError:
        return path  # whoever reads it next says what is wrong with it
    return path if isinstance(found, dict) and {"metric", "run_cmd"} <= found.keys() else None


def bundled_track(name: str = TRACK) -> Path:
    """Where the track lies: in a source checkout, or in the data of the installed wheel.

    Raises:
        InfrastructureError: nowhere; names the places.
    """
    package = Path(overnight.__file__).resolve().parent
    checkout = package.parents[1] / "harness" / "tracks"
    places = (checkout, package / "harness" / "tracks", _data_folder() / _SHARED)
    for place in places:
        if (place / name / TRACK_FILE).is_file():
            return place / name
    raise InfrastructureError(
        f"the track {name} is not installed (looked in {', '.join(map(str, places))}): "
        "install overnight again, or run from a checkout"
    )


def _data_folder() -> Path:
    return Path(sysconfig.get_path("data"))


def check_can_train() -> str:
    """The version of torch. Nothing is imported: that takes seconds, and the baseline tells.

    Raises:
        UsageError: something that the track needs is missing; names the one command.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"the demo trains with {', '.join(missing)}, which this Python lacks: "
            "pip install 'overnight[train]' (or `make demo` in a checkout)"
        )
    return importlib.metadata.version("torch")


def prepare_demo(
    directory: Path | None, settings: Mapping[str, object], *, here: Path, today: date
) -> Demo:
    """Copy the track to *directory*, or to a new `demo/<date>-<n>`; a copy that is there is kept.

    *settings*: keys of the loop that differ from the track's, written into loop.run.yaml, so that
    the folder says of itself what it is.

    Raises:
        UsageError: *directory* holds something else.
        InfrastructureError: it can't be written.
    """
    source = bundled_track()
    if directory is not None:
        repo = Path(os.path.abspath(here / directory))
        if (repo / TRACK_FILE).is_file():
            return Demo(repo=repo, track=repo / TRACK_FILE, new=False)
        if os.path.lexists(repo) and not (repo.is_dir() and not any(repo.iterdir())):
            raise UsageError(f"{repo} holds something else: give --dir another folder")
        _copy(source, repo, settings)
        return Demo(repo=repo, track=repo / TRACK_FILE, new=True)
    parent = here / "demo"
    number = 1
    while True:
        repo = parent / f"{today.isoformat()}-{number}"
        if not os.path.lexists(repo):
            try:
                _copy(source, repo, settings)
            except FileExistsError:
                continue  # another demo took the name just now
            return Demo(repo=repo, track=repo / TRACK_FILE, new=True)
        number += 1


def _copy(source: Path, repo: Path, settings: Mapping[str, object]) -> None:
    """Whole or not at all: made beside it, renamed into place."""
    try:
        repo.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".track-", dir=repo.parent))
    except OSError as error:
        raise InfrastructureError(f"{repo.parent}: {error.strerror}") from error
    try:
        shutil.copytree(source, made, ignore=_LEFT_BEHIND, dirs_exist_ok=True)
        given = {key: value for key, value in settings.items() if value is not None}
        if given:
            lines = [f"{key}: {value}" for key, value in given.items()]
            text = "\n".join(["# What differs from track.yaml.", *lines, ""])
            (made / LOOP_FILE).write_text(text, encoding="utf-8")
        made.chmod(0o755)
        os.rename(made, repo)  # an empty folder there is replaced, another one refuses
    except OSError as error:
        if os.path.lexists(repo) and any(repo.iterdir()):
            raise FileExistsError(str(repo)) from error
        raise InfrastructureError(f"{repo}: {error.strerror}") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
