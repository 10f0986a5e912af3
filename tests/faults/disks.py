"""Disks that refuse: a small one that fills up, and one that fails below the services' feet."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.stage import Stage

#: In CI we are root and may mount: there, nothing of this is skipped.
mounts = pytest.mark.skipif(
    os.geteuid() != 0 and "CI" not in os.environ, reason="mounting a small disk needs root"
)


@contextlib.contextmanager
def small_disk(place: Path, options: str) -> Iterator[SmallDisk]:
    """A tmpfs at *place*, e.g. with `size=24m`; gone at the end, whatever happened."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(place)], check=True)
    try:
        yield SmallDisk(place)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


class SmallDisk:
    """Fills and frees it."""

    def __init__(self, place: Path) -> None:
        assert place.is_mount(), f"{place}: this would fill the machine's own disk"
        self._place = place
        self._filler = place / "filler"

    def fill(self, what: str) -> None:
        """Take what is left of its `space` or its `inodes`; again, what became free meanwhile."""
        if what == "inodes":
            with contextlib.suppress(OSError):
                while True:
                    (self._place / f"filler-{os.urandom(6).hex()}").touch()
        for size in (65536, 512, 1):
            with contextlib.suppress(OSError), self._filler.open("ab", buffering=0) as file:
                while what == "space":
                    file.write(bytes(size))

    def free(self) -> None:
        """Make all room again."""
        for path in self._place.glob("filler*"):
            path.unlink()


#: Loaded by every Python process that finds it on its path, before anything else.
_SHIM = """
import os
_root, _switch = {root!r}, {switch!r}
_real = {{name: getattr(os, name) for name in ("fsync", "write", "replace")}}

def _fails(name):
    try:
        with open(_switch) as file:
            wanted = file.read().split()
    except OSError:
        return 0
    return int(wanted[1]) if wanted and wanted[0] == name else 0

def _concerns(what):
    try:
        path = os.readlink(f"/proc/self/fd/{{what}}") if isinstance(what, int) else os.fspath(what)
    except OSError:
        return False
    return str(path).startswith(_root) and "/logs/" not in str(path)

def _wrapped(name):
    def call(what, *more, **named):
        number = _fails(name) if _concerns(what) else 0
        if number:
            raise OSError(number, os.strerror(number))
        return _real[name](what, *more, **named)
    return call

for _name in _real:
    setattr(os, _name, _wrapped(_name))
"""


class FailingDisk:
    """The session's folder on a disk whose system calls fail while they are told to."""

    def __init__(self, stage: Stage) -> None:
        self._switch = stage.folder / "disk-fails"
        folder = stage.folder / "shim"
        folder.mkdir()
        shim = _SHIM.format(root=str(stage.root), switch=str(self._switch))
        (folder / "sitecustomize.py").write_text(shim)
        places = [str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        absolute = [os.path.abspath(place) for place in places if place]
        stage.environment = {"PYTHONPATH": os.pathsep.join(absolute)}

    def fail(self, call: str, number: int) -> None:
        """From now on os.<call> fails with this errno, in every service."""
        temporary = self._switch.with_suffix(".new")
        temporary.write_text(f"{call} {number}")
        temporary.rename(self._switch)

    def work(self) -> None:
        """All is well again."""
        self._switch.unlink()


EIO, EROFS = errno.EIO, errno.EROFS
