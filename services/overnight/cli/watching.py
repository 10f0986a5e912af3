"""Follows a session that another process runs: reads its ledger, changes nothing."""

from __future__ import annotations

import time
from pathlib import Path

from overnight.cli import output, places, words
from overnight.cli.events import JsonView
from overnight.cli.live import LiveView
from overnight.cli.view import Head, Ready, View
from overnight.contracts.errors import InfrastructureError
from overnight.contracts.rows import Row
from overnight.contracts.status import RowKind
from overnight.ledger.fold import SessionState
from overnight.ledger.identity import read_identity
from overnight.ledger.reader import LedgerTail
from overnight.sessions.locate import Found
from overnight.sessions.stack import Stack, not_running, read_stack

POLL_SECONDS = 0.5
SHOWN_ROWS = 20  #: decisions of before, so that a person sees where it stands


def follow(found: Found, *, as_json: bool) -> int:
    """Until the session is closed or nothing runs it any more. Returns the exit code."""
    tail = LedgerTail(found.files.ledger)
    state = SessionState()
    past: list[Row] = []
    issued: dict[int, Row] = {}
    for row in tail.rows():
        state.apply(row)
        if row.kind is RowKind.ATTEMPT_ISSUED:
            issued[row.body["id"]] = row
        if row.kind is RowKind.DECISION:
            past = [*past[1 - SHOWN_ROWS :], row]
            issued.pop(row.body["id"], None)
    view: View = JsonView() if as_json else LiveView()
    try:
        view.opened(_head(found, state))
        stack = read_stack(found.files)
        if stack is not None:
            view.ready(_ready(stack, state))
        for row in [*past, *(issued[i] for i in sorted(state.running) if i in issued)]:
            view.row(row, state)
        return _watch(found, tail, state, view)
    except KeyboardInterrupt:
        if not as_json:
            output.fail("no longer watching; the session goes on")
        return 0
    finally:
        view.close()


def _watch(found: Found, tail: LedgerTail, state: SessionState, view: View) -> int:
    while True:
        stack = read_stack(found.files)  # before reading: what it wrote last is seen then
        for row in tail.rows():
            state.apply(row)
            view.row(row, state)
        if stack is None or state.closed is not None:
            break
        view.tick(state)
        time.sleep(POLL_SECONDS)
    view.ended(state, state.closed, failed=False)
    if state.closed is None:
        raise InfrastructureError(not_running(found.files))
    return 0


def _ready(stack: Stack, state: SessionState) -> Ready:
    network = state.config.network if state.config else "none"
    return Ready(isolation=stack.isolation, network=network, endpoints=stack.endpoints, seconds=0.0)


def _first_line(found: Found, state: SessionState, here: Path) -> str:
    where = places.shown(found.files.root, here)
    best = state.metric_of(state.incumbent)
    so_far = f", best {words.number(best)}" if best is not None else ""
    return f"watching session {output.safe(found.tag)} in {where}{so_far}"


def _head(found: Found, state: SessionState) -> Head:
    here = Path.cwd()
    option = places.dir_option(found.files.root, here)
    pools = state.config.pools if state.config else {}
    runners = pools["default"].runners if "default" in pools else 1
    return Head(
        files=found.files,
        tag=read_identity(found.files).tag,
        metric=state.config.metric.name if state.config else "metric",
        runners=runners if isinstance(runners, int) else 64,
        here=here,
        watched=True,
        lines=(_first_line(found, state, here),),
        best=state.metric_of(state.incumbent),
        branch=state.opened.branch if state.opened else None,
        following=lambda closed: f"next: overnight report{option}",
    )
