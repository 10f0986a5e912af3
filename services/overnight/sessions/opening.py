"""Opening a session or going on with one: everything is checked before anything is written."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from overnight import __version__
from overnight.configuration import (
    ResolvedLoop,
    changed_track_keys,
    config_digest,
    redis_source,
    resolve_command,
    resolve_loop,
    track_digest,
)
from overnight.contracts import wire
from overnight.contracts.errors import (
    InfrastructureError,
    LedgerError,
    SessionHeldError,
    UsageError,
)
from overnight.contracts.loop import LoopConfig
from overnight.contracts.rows import Opening, SessionOpened
from overnight.devices.inventory import Inventory, take_inventory
from overnight.faultpoints import Step, reach
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import RunState, SessionState
from overnight.ledger.head import head_problem, read_head
from overnight.ledger.identity import Identity, read_identity
from overnight.ledger.lock import hold_session, is_held
from overnight.ledger.program import kept_program
from overnight.orchestrator.policy import POLICY_VERSION, check_policy
from overnight.sessions.base import base_of
from overnight.sessions.beginning import Beginning, begin, check_beginning
from overnight.sessions.devices import check_devices, device_notes, runners_here
from overnight.sessions.images import another_image, image_name, settled
from overnight.sessions.limits import check_limits
from overnight.sessions.locate import read_state, sessions_beside
from overnight.sessions.preflight import changed_since, check_plugins, check_prepared
from overnight.snapshots.errors import SnapshotMissingError
from overnight.snapshots.root import prepare_root
from overnight.snapshots.store import SnapshotStore
from overnight.snapshots.tags import check_tag, default_tag

RECORDER_SECONDS = 2.0  #: one whose supervisor was killed may still be ending


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for."""

    repo: Path
    flags: Mapping[str, object]  #: dotted key -> value, None when not given
    environ: Mapping[str, str]
    track: Path | None = None
    tag: str | None = None
    source: str | None = None  #: TAG or TAG/ID whose tree a new session begins with
    description: str = ""  #: the user's own words on this session
    today: date
    services: bool = False  #: it is run by services without a supervisor, some may run already


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A session that is ours: its lock is held until `release`."""

    files: SessionFiles
    sid: str
    tag: str
    opening: Opening
    config: LoopConfig
    state: SessionState
    resumed: bool
    notes: tuple[str, ...]
    lock: int

    def release(self) -> None:
        """Let others have it."""
        os.close(self.lock)


def open_session(request: Request) -> Opened:
    """Open a new session, or take up the one that lies there.

    Raises:
        UsageError: bindings, repository or tag are not right; names the fix. Nothing was written.
        SessionHeldError: another process runs this session; names its pid.
        InfrastructureError: no Redis, or a disk that is full. Nothing half-written stays.
    """
    if request.source is not None and request.tag is None:
        raise UsageError("--from begins a new session: name it by --tag NEW")
    resolved = resolve_loop(
        request.repo, flags=request.flags, environ=request.environ, track=request.track
    )
    check_plugins(resolved.config)
    check_prepared(resolved)
    files = SessionFiles(_root_for(resolved.session_root, request.tag))
    heal_identity(files)
    exists = files.identity.is_file()
    resolved = settled(resolved, request.environ, _image_kept(files, exists))
    beginning = None if exists else begin(resolved, request.source, request.tag)
    command = resolve_command(resolved.repo, resolved.config, request.environ)
    redis_source(request.environ)  # before anything is written
    inventory = take_inventory() if resolved.config.gpus else Inventory()
    if not request.services:  # whose runners may be on another machine
        check_devices(resolved, inventory)
    fresh = not os.path.lexists(files.root)
    prepare_root(files.root, resolved.repo)
    lock = hold_session(files)
    try:
        if not request.services:
            _check_served(files)
        if exists:
            check_head(files)
        launch = _Launch(resolved, command.argv, str(command.python or ""), inventory)
        over = _over(files) if exists else None
        if exists and over is None:
            return _resume(files, lock, launch, request)
        beginning = beginning or begin(resolved, request.source, request.tag)
        if over is not None:
            lock, moved = _make_room(files, lock, resolved.repo, over)
            beginning = replace(beginning, notes=(moved, *beginning.notes))
        return _open_new(files, lock, launch, request, beginning)
    except BaseException:
        if fresh and not files.identity.is_file():
            shutil.rmtree(files.root, ignore_errors=True)  # no half-written session stays
        os.close(lock)
        raise


@dataclass(frozen=True)
class _Launch:
    resolved: ResolvedLoop
    argv: tuple[str, ...]
    python: str
    inventory: Inventory

    @property
    def runners(self) -> int:
        return runners_here(self.resolved.config, self.inventory)

    @property
    def notes(self) -> tuple[str, ...]:
        return device_notes(self.resolved.config, self.inventory, self.runners)

    def opening(self, session: SessionOpened) -> Opening:
        return Opening(
            session=session,
            repo=str(self.resolved.repo),
            argv=self.argv,
            python=self.python,
            image=image_name(self.resolved.config),
            runners=self.runners,
        )


def _root_for(root: Path, tag: str | None) -> Path:
    """sandbox_root, or beside it when another tag lives there."""
    here = sessions_beside(root)
    if tag is None:
        return root
    check_tag(tag)
    for found in here:
        if found.tag == tag:
            return found.files.root
    taken = any(found.files.root == root for found in here)
    return root.with_name(f"{root.name}-{tag}") if taken else root


def _check_served(files: SessionFiles) -> None:
    """Services that run without a supervisor outlive a run: its recorder would have no ledger.

    Raises:
        SessionHeldError: they still do.
    """
    deadline = time.monotonic() + RECORDER_SECONDS
    while is_held(files.ledger_lock):
        if time.monotonic() >= deadline:
            raise SessionHeldError(
                f"session {files.root} is served by a recorder already: go on there with "
                "`docker compose up`, or end it with `docker compose down`"
            )
        time.sleep(0.05)


def heal_identity(files: SessionFiles) -> None:
    """session.json is written again from the ledger where only it is gone.

    Raises:
        LedgerError: the ledger is damaged, or gone.
    """
    if files.identity.is_file():
        return
    if not files.ledger.is_file():
        if files.head.is_file():
            raise LedgerError(
                f"{files.ledger} is gone, ledger.head says that there was one: put it back, "
                f"or move {files.root} away to begin anew"
            )
        return
    state = read_state(files)
    if state.sid is not None and state.opened is not None:
        _replace(files.identity, wire.encode(Identity(sid=state.sid, tag=state.opened.tag)))


def check_head(files: SessionFiles) -> None:
    """Before a session is taken up, or given up as one that never began.

    Raises:
        LedgerError: rows are missing at the end, or the ledger itself.
    """
    for patience in (0.3, 0.0):  # a recorder whose supervisor was killed may still be ending
        state = read_state(files)
        problem = head_problem(read_head(files.head), state.seq, state.hash, None)
        if problem is None:
            return
        time.sleep(patience)
    raise LedgerError(f"{files.ledger}: {problem}; run `overnight ledger repair`")


def _over(files: SessionFiles) -> str | None:
    """Why the session that lies there can't be gone on with; None: it can."""
    state = read_state(files)
    baseline = state.baseline
    if state.opened is None:
        return "never began"
    failed = state.incumbent is None and baseline is not None and baseline.decision is not None
    return "had a baseline that failed" if failed else None


def _image_kept(files: SessionFiles, exists: bool) -> str | None:
    """What the session that is taken up runs its candidates in."""
    if not exists or _over(files) is not None:
        return None
    config = read_state(files).config
    return None if config is None else image_name(config)


def _make_room(files: SessionFiles, lock: int, repo: Path, why: str) -> tuple[int, str]:
    """A session that never had a successful baseline makes room for a new one, whose lock it is."""
    number = 1
    while (aside := files.root.with_name(f"{files.root.name}.failed-{number}")).exists():
        number += 1
    os.rename(files.root, aside)
    prepare_root(files.root, repo)
    fresh = hold_session(files)
    os.close(lock)  # the old folder's; only now, so that the caller never closes it twice
    return fresh, f"the last session {why}: moved to {aside.name}"


def _resume(files: SessionFiles, lock: int, launch: _Launch, request: Request) -> Opened:
    state = read_state(files)
    identity = read_identity(files)
    config = launch.resolved.config
    assert state.opened is not None and state.config is not None  # _over
    check_policy(state.opened.policy_version)
    changed = changed_track_keys(state.config, config)
    if changed:
        raise UsageError(
            f"session {identity.tag} was opened with other bindings ({'; '.join(changed)}): "
            "a session keeps its own; open another with --tag"
        )
    check_limits(launch.resolved, state)
    check_beginning(state.opened, config, request.source)
    kept_program(files, state.opened.program_digest)
    session = state.opened.model_copy(
        update={
            "config": wire.dump(config),
            "config_digest": config_digest(config),
            "code_version": __version__,
            "description": request.description or state.opened.description,
        }
    )
    opening = launch.opening(session)
    if request.services and state.run_state is not RunState.RUNNING:
        opening = opening.model_copy(update={"resumes": state.seq})
    write_opening(files, opening)
    return Opened(
        files=files,
        sid=identity.sid,
        tag=identity.tag,
        opening=opening,
        config=config,
        state=state,
        resumed=True,
        notes=(
            *launch.notes,
            *_newer_edits(files, session, launch.resolved.repo),
            *another_image(config, state, request.environ),
        ),
        lock=lock,
    )


def _newer_edits(files: SessionFiles, session: SessionOpened, repo: Path) -> tuple[str, ...]:
    try:
        changed = changed_since(SnapshotStore(files.root), session.base_commit, repo)
    except SnapshotMissingError as error:
        raise InfrastructureError(
            f"{SnapshotStore(files.root).git_dir} is damaged ({error.detail}): put it back from a "
            "copy, or open another session with --tag"
        ) from error
    if not changed:
        return ()
    names = ", ".join(changed[:3]) + (" ..." if len(changed) > 3 else "")
    if session.origin is not None:
        return (f"yours differ from what this session began with, {session.origin.tag}'s: {names}",)
    return (
        f"changed since this session began: {names}; it goes on with what it began with "
        "(for a new one: overnight run --tag NAME)",
    )


def _open_new(
    files: SessionFiles, lock: int, launch: _Launch, request: Request, beginning: Beginning
) -> Opened:
    resolved, config = launch.resolved, launch.resolved.config
    tag = request.tag or default_tag(request.today)
    base = base_of(resolved, files, tag, beginning.source)
    program = beginning.program
    reach(Step.SUPERVISOR_BASE)
    session = SessionOpened(
        epoch=1,
        tag=tag,
        config=wire.dump(config),
        config_digest=config_digest(config),
        track_digest=track_digest(config, base.frozen_digest),
        base_commit=base.commit,
        base_digest=base.digest,
        base_head=base.head,
        branch=base.branch,
        branch_prefix=base.branch_prefix,
        description=request.description,
        origin=base.origin,
        program_digest=None if program is None else wire.digest(program),
        code_version=__version__,
        policy_version=POLICY_VERSION,
    )
    opening = launch.opening(session)
    if program is not None:
        _replace(files.program, program)
    write_opening(files, opening)
    reach(Step.SUPERVISOR_UNNAMED)
    identity = Identity(sid=secrets.token_hex(6), tag=tag)
    _replace(files.identity, wire.encode(identity))
    return Opened(
        files=files,
        sid=identity.sid,
        tag=tag,
        opening=opening,
        config=config,
        state=SessionState(),
        resumed=False,
        notes=(*launch.notes, *beginning.notes, *base.notes),
        lock=lock,
    )


def write_opening(files: SessionFiles, opening: Opening) -> None:
    """What the next orchestrator start opens with."""
    _replace(files.opening, wire.encode(opening))


def _replace(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InfrastructureError(f"{path}: {error.strerror}") from error
