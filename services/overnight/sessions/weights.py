"""weights: the file that an experiment left in its /out, copied to where the user wants it."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from overnight.contracts.errors import InfrastructureError, UsageError
from overnight.contracts.status import Status
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import ExperimentState

#: Names that weights end with, in the formats of the common frameworks.
SUFFIXES = frozenset(
    {".safetensors", ".pt", ".pth", ".ckpt", ".bin", ".npz", ".npy", ".gguf", ".onnx", ".h5"}
    | {".keras", ".msgpack", ".pkl", ".pickle", ".joblib", ".model", ".cbm", ".ubj"}
)
SHOWN_CHOICES = 8
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@dataclass(frozen=True, order=True)
class Left:
    """A file in an experiment's /out."""

    path: str  #: below out/
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What was copied where."""

    id: int
    file: Left
    to: Path


def left_by(files: SessionFiles, experiment: int) -> list[Left]:
    """The regular files in its out/, by name. Links are no files here."""
    out = files.iteration(experiment) / "out"
    found = []
    for folder, folders, names in os.walk(out):
        folders.sort()
        for name in names:
            place = Path(folder, name)
            status = place.lstat()
            if stat.S_ISREG(status.st_mode):
                found.append(Left(place.relative_to(out).as_posix(), status.st_size))
    return sorted(found)


def choose(left: Sequence[Left], wanted: str | None, whose: str) -> Left:
    """The one file that is meant: as named, the only one, or the only one that looks like weights.

    Raises:
        UsageError: none of that name, or several; names them.
    """
    if wanted is not None:
        named = [file for file in left if wanted in (file.path, PurePosixPath(file.path).name)]
        if len(named) == 1:
            return named[0]
        raise UsageError(f"{whose} left no one file {wanted[:80]!r}: there is {_choices(left)}")
    likely = [file for file in left if _looks_like_weights(file.path)]
    for some in (left, likely):
        if len(some) == 1:
            return some[0]
    raise UsageError(
        f"{whose} left {len(left)} files: name one by --file: {_choices(likely or left)}"
    )


def _looks_like_weights(path: str) -> bool:
    return path.lower().endswith(tuple(SUFFIXES))


def _choices(left: Sequence[Left]) -> str:
    shown = ", ".join(file.path for file in left[:SHOWN_CHOICES])
    more = len(left) - SHOWN_CHOICES
    return shown + (f" and {more} more" if more > 0 else "")


def save(
    files: SessionFiles,
    experiment: ExperimentState,
    to: Path,
    *,
    wanted: str | None = None,
    force: bool = False,
) -> Saved:
    """Copy an experiment's weights to *to*, a file or a folder that is there. Whole or not at all.

    wanted: the file's name where there are several.
    force: over what is there.

    Raises:
        UsageError: it left nothing, several files, or *to* can't be written or exists.
        InfrastructureError: the disk refused.
    """
    left = left_by(files, experiment.id)
    if not left:
        raise UsageError(_nothing(experiment))
    file = choose(left, wanted, f"experiment {experiment.id}")
    target = to / PurePosixPath(file.path).name if to.is_dir() else to
    if os.path.lexists(target) and not force:
        raise UsageError(f"{target} is there already: name another file, or give --force")
    _copy(files.iteration(experiment.id) / "out" / file.path, target, force=force)
    return Saved(id=experiment.id, file=file, to=target)


def _nothing(experiment: ExperimentState) -> str:
    if experiment.decision is not None and experiment.decision.verdict is not Status.KEEP:
        return (
            f"experiment {experiment.id} was not kept, so what it left is not kept either: take "
            "the best one's, or run its code again from `overnight apply`"
        )
    return (
        f"experiment {experiment.id} left no weights: a script leaves files by writing them into "
        "the folder that the environment variable OVERNIGHT_OUT names"
    )


def _copy(source: Path, target: Path, *, force: bool) -> None:
    try:
        reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise InfrastructureError(f"{source}: {error.strerror}") from error
    with os.fdopen(reading, "rb") as file:
        try:
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=".overnight-")
        except OSError as error:
            raise UsageError(f"--to {target}: {error.strerror}") from error
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as copy:
                shutil.copyfileobj(file, copy, 1024 * 1024)
                copy.flush()
                os.fchmod(handle, 0o644)
                os.fsync(handle)
            _put(temporary, target, force=force)
        except OSError as error:
            raise InfrastructureError(f"{target}: {error.strerror}") from error
        finally:
            temporary.unlink(missing_ok=True)


def _put(temporary: Path, target: Path, *, force: bool) -> None:
    """Under its name at once; what came there meanwhile is never written over without force."""
    if not force:
        try:
            os.link(temporary, target)
            return
        except FileExistsError as error:
            raise UsageError(f"{target} is there already: give --force") from error
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
    os.replace(temporary, target)
