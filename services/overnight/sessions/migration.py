"""migrate: a session that an older version wrote, as a copy that this one goes on with.

The original is only read. The copy appears under its name once it is whole.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from overnight.contracts import wire
from overnight.contracts.errors import InfrastructureError, LedgerError, UsageError, WireError
from overnight.contracts.rows import ROW_VERSION, Head
from overnight.ledger.chain import to_line
from overnight.ledger.files import REFUSED, SessionFiles
from overnight.ledger.fold import SessionState
from overnight.ledger.head import head_problem, read_head
from overnight.ledger.identity import Identity, read_identity
from overnight.ledger.lock import is_held
from overnight.ledger.older import OlderRows, upgraded_job, upgraded_message, upgraded_opening
from overnight.recorder.entries import entries
from overnight.recorder.exports import JSONL_NAME, TSV_NAME, Exports
from overnight.sessions.verify import verify
from overnight.snapshots.root import IGNORE_FILE, IGNORE_TEXT
from overnight.snapshots.tags import check_tag

#: Made anew, or of a stack that is no more.
_NOT_COPIED = frozenset(
    {"ledger.jsonl", "ledger.head", "ledger.tmp", "ledger.lock", "session.json", "session.lock"}
    | {"opening.json", "orchestrator.lock", "stack.json", "stack.tmp", "runners"}
    | {TSV_NAME, JSONL_NAME, IGNORE_FILE}
)


@dataclass(frozen=True, kw_only=True)
class Migrated:
    """The copy."""

    tag: str
    root: Path
    version: int  #: of the original
    rows: int
    experiments: int


def migrate(files: SessionFiles, to: Path | None = None) -> Migrated:
    """Write the copy: beside the original as `<root>-<tag>-v2` and the like, or at *to*.

    Raises:
        NotOlderError: it is of this version, or of one that can't be migrated.
        LedgerError: it is damaged.
        UsageError: it runs, or something is in the copy's place.
        InfrastructureError: the disk refused; no part of the copy stays.
    """
    identity = read_identity(files)
    if is_held(files.session_lock):
        raise UsageError(f"session {files.root} is running: stop it with the version that runs it")
    tag = check_tag(f"{identity.tag}-v{ROW_VERSION}")
    root = to or files.root.with_name(f"{_family(files.root.name, identity.tag)}-{tag}")
    if os.path.lexists(root):
        raise UsageError(f"{root} is there already: name another place by --to DIR")
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=root.parent, prefix=".overnight-"))
    except OSError as error:
        raise UsageError(f"--to {root}: {error.strerror}") from error
    try:
        # Before all else: whoever is killed here leaves nothing that git, or a baseline, would see.
        _write(made / IGNORE_FILE, IGNORE_TEXT)
        done = _write_copy(files, SessionFiles(made), Identity(sid=identity.sid, tag=tag))
        made.chmod(0o755)
        made.rename(root)
    except OSError as error:
        raise InfrastructureError(f"{error.filename or root}: {error.strerror}") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return Migrated(root=root, tag=tag, **done)


def _family(name: str, tag: str) -> str:
    """`sandbox` of `sandbox-mar5`, which is where another tag lies."""
    return name.removesuffix(f"-{tag}") or name


def _write_copy(old: SessionFiles, new: SessionFiles, identity: Identity) -> dict[str, int]:
    rows = OlderRows(old.ledger, identity.tag)
    state = SessionState()
    with new.ledger.open("wb") as file:
        for row in rows:
            state.apply(row)
            file.write(to_line(row))
        file.flush()
        os.fsync(file.fileno())
    problem = head_problem(read_head(old.head), rows.seq, rows.hash, None)
    if rows.last is None or problem is not None:
        raise LedgerError(
            f"{old.ledger}: {problem or 'there is no row in it'}: mend it with the version that "
            "wrote it, by `overnight ledger repair`"
        )
    _write(new.head, wire.encode(Head(seq=rows.last.seq, hash=rows.last.hash)) + "\n")
    _write(new.identity, wire.encode(identity))
    _copy_rest(old, new)
    if rows.torn:
        new.quarantine.mkdir(exist_ok=True)
        (new.quarantine / "torn-tail.migrated").write_bytes(rows.torn)
    if old.opening.is_file():
        _write(new.opening, wire.encode(upgraded_opening(_read(old.opening), identity.tag)))
    for slot in sorted((old.root / "runners").glob("*")):
        _copy_slot(slot, new.runner(slot.name), identity.tag)
    if state.config is not None:
        Exports(new.root, state.config.metric.name).rebuild(entries(state))
    found = verify(new.root)
    if not found.ok:
        raise LedgerError(f"{old.root}: it does not follow its own rules: {found.problems[0].what}")
    return {"version": rows.version, "rows": state.seq, "experiments": len(state.experiments)}


def _copy_rest(old: SessionFiles, new: SessionFiles) -> None:
    """Commits, logs, what experiments left: as it lies. Links stay links, pipes stay behind."""
    for place in sorted(old.root.iterdir()):
        target = new.root / place.name
        if place.name in _NOT_COPIED:
            continue
        if place.is_dir() and not place.is_symlink():
            shutil.copytree(place, target, symlinks=True, ignore=_no_files)
        elif place.is_file() or place.is_symlink():
            shutil.copy2(place, target, follow_symlinks=False)


def _no_files(folder: str, names: list[str]) -> set[str]:
    """Pipes, sockets and devices."""
    places = {name: Path(folder, name) for name in names}
    return {
        name for name, place in places.items()
        if not (place.is_symlink() or place.is_dir() or place.is_file())
    }  # fmt: skip


def _copy_slot(old: Path, new: Path, tag: str) -> None:
    """What a runner has not delivered. Its exported trees are made again."""
    outbox, refused = old / "outbox", old / "outbox" / REFUSED
    for place in sorted((*outbox.glob("*.json"), *refused.glob("*"), old / "claimed")):
        if not place.is_file() or place.is_symlink():
            continue
        target = new / place.relative_to(old)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            if place.name == "claimed":
                text = wire.encode(upgraded_job(_read(place)))
            elif place.suffix == ".json":
                text = wire.encode(upgraded_message(_read(place), tag))
            else:
                text = _read(place)
        except WireError:
            shutil.copyfile(place, target)  # whoever takes it sets it aside
            continue
        _write(target, text)


def _read(place: Path) -> str:
    """Raises WireError when it is no text."""
    try:
        return place.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise WireError(f"{place.name} is no text") from error


def _write(place: Path, text: str) -> None:
    with place.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
