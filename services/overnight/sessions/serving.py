"""A session that services run without a supervisor: opened for them, found by them, watched."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import structlog

from overnight.configuration import redis_source
from overnight.contracts.errors import InfrastructureError, OvernightError, SessionHeldError
from overnight.ledger.files import SessionFiles
from overnight.ledger.identity import read_identity
from overnight.sessions.locate import Found, find_session
from overnight.sessions.opening import Opened, Request, open_session
from overnight.sessions.profiles import register_profiles
from overnight.sessions.services import needs_spawner
from overnight.sessions.stack import Stack, file_identity, read_stack

log = structlog.get_logger()

LOOK_SECONDS = 1.0  #: between two looks whether a session is where it was


@dataclass(frozen=True, kw_only=True)
class Served:
    """A session that services can be started for, or are running for."""

    files: SessionFiles
    sid: str
    tag: str
    notes: tuple[str, ...]
    resumed: bool
    running: bool  #: they run already: nothing was changed


def open_for_services(request: Request, profiles: Path | None = None) -> Served:
    """Open a session, or go on with it, and leave the rest to the services. Twice is once.

    profiles: where the spawner looks up what it may run; None: a runner writes that itself.

    Raises:
        UsageError: bindings, repository or tag are not right; names the fix. Nothing was written.
        SessionHeldError: an `overnight run` holds it.
        InfrastructureError: REDIS_URL is not set, or a disk that is full.
    """
    url = redis_source(request.environ).url
    if url is None:
        raise InfrastructureError(
            "services meet at a Redis that runs: name it by REDIS_URL (for one command that needs "
            "none: overnight run)"
        )
    try:
        opened = open_session(request)
    except SessionHeldError:
        running = _running(request)
        if running is None:
            raise
        return running
    try:
        if profiles is not None:
            register_profiles(opened, profiles, request.environ)
        _announce(opened, url)
    finally:
        opened.release()
    return Served(
        files=opened.files,
        sid=opened.sid,
        tag=opened.tag,
        notes=opened.notes,
        resumed=opened.resumed,
        running=False,
    )


def _running(request: Request) -> Served | None:
    """The session that services hold; None where somebody else does."""
    found = find_session(request.repo, request.tag)
    stack = read_stack(found.files)
    if stack is None or stack.pid:
        return None
    return Served(
        files=found.files, sid=found.sid, tag=found.tag, notes=(), resumed=True, running=True
    )


def _announce(opened: Opened, url: str) -> None:
    """stack.json: it counts as soon as an orchestrator holds the session."""
    stack = Stack(
        pid=0,
        redis_url=url,
        children={f"r{index}": 0 for index in range(opened.opening.runners)},
        isolation="container" if needs_spawner(opened.config.pools["default"].executor) else None,
        lock=file_identity(opened.files.session_lock),
    )
    try:
        stack.write(opened.files)
    except OSError as error:
        raise InfrastructureError(f"{opened.files.stack}: {error.strerror}") from error


def served_session(directory: Path, tag: str | None) -> Found:
    """The session that a service is to serve, by its folder or by its repository's.

    Raises:
        UsageError: there is none; names the fix.
    """
    return find_session(directory.absolute(), tag)


def leave_when_moved(found: Found) -> Event:
    """Ask this process to end when the session is moved away, or another takes its place: what is
    written there would be found by nobody. Whoever starts it again finds the one that is there.

    Returns what is set then.
    """
    gone = Event()
    Thread(target=_watch, args=(found, gone), name="moved", daemon=True).start()
    return gone


def _watch(found: Found, gone: Event) -> None:
    while _is_there(found):
        time.sleep(LOOK_SECONDS)
    log.error("session_gone", reason=f"{found.files.root}: session {found.tag} is not there")
    gone.set()
    os.kill(os.getpid(), signal.SIGTERM)


def _is_there(found: Found) -> bool:
    try:
        return read_identity(found.files).sid == found.sid
    except OvernightError:
        return False
