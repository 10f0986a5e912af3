"""The skill for coding agents: found in a checkout or in the wheel, copied to where an agent looks.

A record beside the copies says what was written, so that what a person edited is told from what an
older version brought.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import overnight
from overnight.configuration.plain_file import read_plain
from overnight.contracts.errors import InfrastructureError, UsageError
from overnight.ledger.plain import write_new

NAME = "overnight"
ENTRY = "SKILL.md"  #: what makes a folder a skill
RECORD = ".installed.json"  #: path -> SHA-256 of the copy that we wrote
RECORD_BYTES = 64 * 1024
_SHARED = Path("share", "overnight", "skills")
#: Folders in which agents look for skills, and the folder that says that one of them works here.
PLACES = ((".claude", ".claude/skills"), (".agents", ".agents/skills"))
_ELSE = ".agents/skills"
_SCRIPT = b"#!"


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What `skills install` did."""

    folder: Path
    written: tuple[str, ...]  #: new, or brought up to date
    same: tuple[str, ...]  #: were there as they are


def bundled_skill() -> Path:
    """Where the skill lies: in a source checkout, or in the data of the installed wheel.

    Raises:
        InfrastructureError: nowhere; names the places.
    """
    checkout = Path(overnight.__file__).resolve().parents[2] / "skills"
    places = (checkout, Path(sysconfig.get_path("data")) / _SHARED)
    for place in places:
        if (place / NAME / ENTRY).is_file():
            return place / NAME
    raise InfrastructureError(
        f"the skill is not installed (looked in {', '.join(map(str, places))}): "
        "install overnight again, or run from a checkout"
    )


def default_place(here: Path) -> Path:
    """The folder of skills of the coding agent that this repository is set up for."""
    for sign, place in PLACES:
        if (here / sign).is_dir():
            return here / place
    return here / _ELSE


def install(source: Path, place: Path, *, force: bool = False) -> Installed:
    """Copy the skill to *place*/overnight. A file that somebody edited is replaced by *force* only.

    Raises:
        UsageError: a file there is not as we wrote it; nothing was written.
        InfrastructureError: the folder can't be written.
    """
    folder = place / NAME
    for taken in (place, folder):
        if os.path.lexists(taken) and not taken.is_dir():
            raise UsageError(f"{taken} is no folder: give --to another one")
    if folder.resolve() == source.resolve():
        raise UsageError(f"{folder} is where the skill comes from: give --to another folder")
    files = {name: (source / name).read_bytes() for name in _files(source)}
    before = _read_record(folder / RECORD)
    there = {name: _digest_at(folder / name) for name in files}
    wanted = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    stale = [name for name in files if there[name] != wanted[name]]
    edited = [name for name in stale if there[name] not in (None, before.get(name))]
    if edited and not force:
        raise UsageError(
            f"{folder} holds files that are not as we wrote them ({', '.join(edited)}): nothing "
            "was written; --force replaces them, --to DIR puts the skill elsewhere"
        )
    try:
        for name in stale:
            _put(folder / name, files[name])
        if wanted != before:
            _put(folder / RECORD, (json.dumps(wanted, indent=1, sort_keys=True) + "\n").encode())
    except OSError as error:
        raise InfrastructureError(f"{error.filename or folder}: {error.strerror}") from error
    same = tuple(name for name in files if name not in stale)
    return Installed(folder=folder, written=tuple(stale), same=same)


def _files(source: Path) -> list[str]:
    """Its files, the entry first, without what an editor or an installation left there."""
    found = [
        path.relative_to(source).as_posix()
        for path in sorted(source.rglob("*"))
        if path.is_file() and not path.name.startswith(".") and "__pycache__" not in path.parts
    ]
    return sorted(found, key=lambda name: (name != ENTRY, name))


def _digest_at(path: Path) -> str | None:
    """SHA-256 of the plain file there; "" for anything else that stands there; None: nothing."""
    if not os.path.lexists(path):
        return None
    if path.is_symlink() or not path.is_file():
        return ""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read_record(path: Path) -> dict[str, str]:
    """What we wrote there before; empty when nobody knows. A lost record only makes us careful."""
    try:
        value = json.loads(read_plain(path, RECORD_BYTES) or b"{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {key: digest for key, digest in value.items() if isinstance(digest, str)}


def _put(path: Path, data: bytes) -> None:
    """*data* at *path*, whole or not at all; a link there is replaced, not followed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        write_new(temporary, data)
        if data.startswith(_SCRIPT):
            temporary.chmod(0o755)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
