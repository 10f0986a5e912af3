"""Opens a session, runs it to its end and reports; what `run` and `demo` share."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from overnight import telemetry
from overnight.cli import places
from overnight.cli.events import JsonView
from overnight.cli.live import LiveView
from overnight.cli.view import Head, Ready, View
from overnight.configuration import process_environ
from overnight.contracts.errors import OvernightError
from overnight.contracts.rows import SessionClosed
from overnight.ledger.fold import SessionState
from overnight.ledger.stamp import local_day
from overnight.sessions.limits import estimate
from overnight.sessions.opening import Opened, Request, open_session
from overnight.sessions.supervisor import Supervisor, Watcher
from overnight.sessions.verify import verify

KILLED = 130


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the command line asks for."""

    repo: Path
    flags: Mapping[str, object]
    as_json: bool
    tag: str | None = None
    source: str | None = None  #: TAG or TAG/ID that a new session begins with
    words: tuple[str, ...] = ()  #: flags to give again, so that it goes on as it is
    track: Path | None = None
    description: str = ""
    ready_fd: int | None = None  #: told when all services work; for `--detach`
    dress: Callable[[Opened, Head], Head] = lambda opened, head: head  #: the demo's own lines


def carry_out(wish: Wish) -> int:
    """Run it. Returns the exit code; errors are raised after they were shown."""
    environ = process_environ()
    opened = open_session(
        Request(
            repo=wish.repo,
            flags=wish.flags,
            environ=environ,
            track=wish.track,
            tag=wish.tag,
            source=wish.source,
            description=wish.description,
            today=local_day(),
        )
    )
    try:
        telemetry.configure("supervisor", to=opened.files.service_logs / "supervisor.log")
        view: View = JsonView() if wish.as_json else LiveView()
        try:
            return _Run(opened, view, wish).carry_out(environ)
        finally:
            view.close()
    finally:
        opened.release()


class _Run:
    def __init__(self, opened: Opened, view: View, wish: Wish) -> None:
        self._opened = opened
        self._view = view
        self._wish = wish
        self._started = time.monotonic()
        self._said_ready = False
        self._supervisor: Supervisor | None = None

    def carry_out(self, environ: Mapping[str, str]) -> int:
        view = self._view
        watcher = Watcher(on_row=view.row, on_event=view.event, on_tick=self._tick)
        supervisor = self._supervisor = Supervisor(self._opened, watcher, environ)
        view.opened(self._wish.dress(self._opened, _head(self._opened, self._wish)))
        try:
            closed = supervisor.run()
        except OvernightError as error:
            view.event("error", {"message": str(error)})
            view.ended(supervisor.state, None, failed=True)
            raise
        view.ended(supervisor.state, closed, failed=False)
        if closed is None:
            return KILLED
        whole = verify(self._opened.files.root).ok  # a script must not take a lie for a success
        return 1 if closed.outcome == "baseline_failed" or not whole else 0

    def _tick(self, state: SessionState) -> None:
        supervisor = self._supervisor
        assert supervisor is not None
        if not self._said_ready and supervisor.ready:
            self._said_ready = True
            self._view.ready(
                Ready(
                    isolation=supervisor.isolation,
                    network=self._opened.config.network,
                    endpoints=supervisor.endpoints,
                    seconds=time.monotonic() - self._started,
                )
            )
            self._tell_parent()
        if self._said_ready:
            self._view.tick(state)

    def _tell_parent(self) -> None:
        if self._wish.ready_fd is not None:
            os.write(self._wish.ready_fd, b"ready\n")
            os.close(self._wish.ready_fd)


def _head(opened: Opened, wish: Wish) -> Head:
    here = Path.cwd()
    option = places.dir_option(opened.files.root, here)
    head = Head(
        files=opened.files,
        tag=opened.tag,
        metric=opened.config.metric.name,
        runners=opened.opening.runners,
        here=here,
        resumed=opened.resumed,
        before=opened.state if opened.resumed else None,
        best=opened.state.metric_of(opened.state.incumbent),
        branch=opened.opening.session.branch,
        notes=opened.notes,
        estimate=estimate(opened.config, opened.state, opened.opening.runners),
    )
    repo = places.shown(Path(opened.opening.repo), here)
    beside = wish.tag is not None and opened.files.root.name.endswith(f"-{wish.tag}")
    again = ["overnight", "run", *([] if repo == "." else [repo])]
    again += ["--tag", opened.tag] if beside else []
    again += wish.words
    return replace(head, following=lambda closed: _following(closed, option, shlex.join(again)))


def was_ended_early(closed: SessionClosed | None) -> bool:
    """Is there more to do, which the same command goes on with?"""
    return closed is None or closed.outcome in ("stopped", "drained")


def _following(closed: SessionClosed | None, option: str, again: str) -> str:
    """The one next command."""
    if closed is not None and closed.outcome == "baseline_failed":
        return f"next: overnight log 1{option}"
    if was_ended_early(closed):
        return f"next: {again}  goes on"
    return f"next: overnight report{option}"
