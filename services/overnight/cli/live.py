"""The live view: a line an experiment once decided, one status line below on a terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping

from rich.text import Text

from overnight.cli import output, places, words
from overnight.cli.expectation import estimate_lines
from overnight.cli.summary import Ending, ending_lines
from overnight.cli.view import Head, Ready
from overnight.contracts.experiment import Decision, ExperimentResult
from overnight.contracts.rows import Control, Row, SessionClosed
from overnight.contracts.status import UNFINISHED, ControlAction, RowKind
from overnight.ledger.approvals import awaiting
from overnight.ledger.chain import body_of
from overnight.ledger.fold import OURSELVES, RunState, SessionState, is_final
from overnight.sessions.view import idea_counts

REFRESH_SECONDS = 0.25
_TAKES_ANSWERS = (RunState.RUNNING, RunState.PAUSED)
CLEAR_LINE = "\r\x1b[2K"


class LiveView:
    """As `view.View`. Call from one thread."""

    def __init__(self) -> None:
        self._out = output.Outlet()
        self._console = output.console(self._out)
        self._moves = self._console.is_terminal and not self._console.is_dumb_terminal
        self._head: Head | None = None
        self._started = time.monotonic()
        self._drawn_at = 0.0
        self._below = False
        self._headed = False
        self._past: list[Text] = []
        self._waiters: set[str] = set()  #: services that said so and do not go on yet
        self._since: dict[int, float | None] = {}  #: issued -> when a runner was free for it
        self._asked: set[int] = set()  #: ideas that a person was asked about

    def opened(self, head: Head) -> None:
        """Who it is, before anything runs."""
        self._head = head
        for line in head.lines or _default_lines(head):
            self._say(line)
        self._past = _past(head, words.columns(output.width()))
        for note in head.notes:
            self._say(places.as_called(f"note: {output.safe(note)}"))
        if head.estimate is not None and not head.lines:
            for line in estimate_lines(head.estimate):
                self._say(line)

    def ready(self, ready: Ready) -> None:
        """All services work: what isolates the candidates, in one line; then the table begins."""
        head = self._require_head()
        for line in head.ready_lines(ready):
            self._say(line)
        self._table()

    def tick(self, state: SessionState) -> None:
        """Asks about ideas that wait; draws the status line again, a few times a second."""
        self._ask(state)
        now = time.monotonic()
        if not self._moves or now - self._drawn_at < REFRESH_SECONDS or not self._out.idle:
            return
        self._drawn_at = now
        text = Text(self._status(state, now), "dim")
        text.truncate(max(20, self._console.width - 1), overflow="ellipsis")
        self._out.write(CLEAR_LINE)
        self._console.print(text, end="", soft_wrap=True)
        self._below = True

    def row(self, row: Row, state: SessionState) -> None:
        """Says what a person wants to know of it."""
        body = body_of(row)
        if row.kind is RowKind.ATTEMPT_ISSUED:
            self._since.setdefault(row.body["id"], None)
            self._start()
        elif isinstance(body, Decision):
            self._table()
            wide = words.columns(output.width())
            experiment = state.experiments[body.id]
            for left, right in words.row_lines(state, experiment, body, wide):
                self._say(Text(left).append(right, words.style(body.verdict)))
        elif isinstance(body, ExperimentResult):
            self._result(body, row)
        elif isinstance(body, Control) and not _is_our_own(body):
            why = f": {output.safe(body.why, 600)}" if body.why else ""
            which = f" {body.id:03d}" if body.id is not None else ""
            by = "nobody answered" if body.by == OURSELVES and which else f"by {body.by}"
            self._warn(f"{body.action.value}{which} ({output.safe(by, 40)}){why}")

    def event(self, name: str, fields: Mapping[str, object]) -> None:
        """What the supervisor did."""
        if name == "stopping":
            self._warn(f"stopping{self._running()}; again = kill now")
        elif name == "killed":
            self._warn("killed")
        elif name == "restarted":
            self._warn(f"{fields.get('service')} died ({fields.get('code')}): started again")
        elif name == "waiting":
            self._waiting(fields)
        elif name != "error":  # that one is said on standard error
            self._warn(output.safe(f"{name} {dict(fields)}"))

    def ended(self, state: SessionState, closed: SessionClosed | None, failed: bool) -> None:
        """The summary."""
        head = self._require_head()
        ending = Ending(
            files=head.files,
            state=state,
            closed=closed,
            seconds=None if head.watched else time.monotonic() - self._started,
            here=head.here,
            failed=failed,
        )
        first, *rest = ending_lines(ending)
        for line in words.fold(f"{head.done_prefix}{first}", output.width()):
            self._say(Text(line, "bold"))
        for line in rest:
            self._say(line)
        following = head.following(closed)
        if following:
            self._say(Text(places.as_called(following)))  # to be copied: never folded

    def close(self) -> None:
        """Until the reader has all."""
        self._clear()
        self._out.close()

    def _result(self, result: ExperimentResult, row: Row) -> None:
        self._since.pop(result.id, None)
        self._start()
        if row.kind is RowKind.SUPERSEDED or is_final(result):
            return
        if result.status in UNFINISHED:
            reason = f":{result.reason}" if result.reason else ""
            detail = f": {output.safe(result.detail, 100)}" if result.detail else ""
            self._warn(f"{result.id:03d} {result.status.value}{reason}{detail}; runs again")

    def _ask(self, state: SessionState) -> None:
        """Each idea once a start, with the commands to type."""
        waiting = awaiting(state) if state.run_state in _TAKES_ANSWERS else []
        for experiment in waiting:
            if experiment.id in self._asked:
                continue
            self._asked.add(experiment.id)
            head = self._require_head()
            self._table()
            what = output.safe(experiment.proposed.hypothesis, 300)
            for line in words.fold(f"  {experiment.id:03d}   {what}", output.width()):
                self._say(Text(line, "bold"))
            option = places.dir_option(head.files.root, head.here)
            command = places.as_called(words.to_answer(experiment.id, option))
            self._say(Text(f"        waits for you:  {command}", "yellow"))  # copied: never folded

    def _waiting(self, fields: Mapping[str, object]) -> None:
        service, why = output.safe(str(fields.get("service")), 40), fields.get("why")
        if why is None:
            if service in self._waiters:
                self._waiters.discard(service)
                self._warn(f"{service} goes on")
        elif service not in self._waiters:
            self._waiters.add(service)
            self._warn(f"{service} waits: {output.safe(str(why))}")

    def _start(self) -> None:
        """Issued ones wait in the queue until a runner is free; then they run, in this order."""
        for experiment_id in list(self._since)[: self._require_head().runners]:
            self._since[experiment_id] = self._since[experiment_id] or time.monotonic()

    def _table(self) -> None:
        if not self._headed:
            self._headed = True
            wide = words.columns(output.width())
            self._say(Text(words.heading(self._require_head().metric, wide), "bold"))
            for line in self._past:
                self._say(line)

    def _running(self) -> str:
        ids = ", ".join(f"{i:03d}" for i, since in self._since.items() if since is not None)
        return f" {ids} (they run again on resume)" if ids else ""

    def _status(self, state: SessionState, now: float) -> str:
        told = []
        for experiment_id, since in self._since.items():
            if since is None:
                continue
            known = state.experiments.get(experiment_id)
            what = words.knob(known.proposed.hypothesis, 28) if known else ""
            told.append(f"{experiment_id:03d} {what} {words.duration(now - since)}")
        limit = state.config.policy.limits.experiments if state.config else None
        of = f"/{limit}" if limit is not None else ""
        ideas = sum(idea_counts(state).values())
        asked = [f"{e.id:03d}" for e in awaiting(state)]
        told += [f"waiting for your word on {', '.join(asked)}"] if asked else []
        running = "  |  ".join(told) or state.run_state.value
        return f"  {ideas}{of} ideas, {words.duration(now - self._started)}  |  {running}"

    def _warn(self, text: str) -> None:
        for line in words.fold(f"  !     {text}", output.width()):
            self._say(Text(line, "yellow"))

    def _say(self, text: Text | str) -> None:
        """A line of a table, or a line of facts, which is folded to fit."""
        self._clear()
        lines = words.fold(text, output.width()) if isinstance(text, str) else [text]
        for line in lines:
            self._console.print(line, soft_wrap=True)

    def _clear(self) -> None:
        if self._below:
            self._below = False
            self._out.write(CLEAR_LINE)

    def _require_head(self) -> Head:
        assert self._head is not None
        return self._head


def _is_our_own(wish: Control) -> bool:
    """A run takes up what was stopped by itself, and says each stop by its own event."""
    starts = wish.action is ControlAction.RESUME and wish.by == "run"
    return starts or wish.action is ControlAction.STOP


def _past(head: Head, wide: words.Columns) -> list[Text]:
    """What a resumed session is to be compared with: its baseline and its best."""
    state = head.before
    if state is None:
        return []
    lines = []
    for experiment_id in sorted({1, state.incumbent or 1}):
        experiment = state.experiments.get(experiment_id)
        if experiment is not None and experiment.decision is not None:
            left, right = words.row(state, experiment, experiment.decision, wide)
            lines.append(Text(left + right, "dim"))
    tried = sum(idea_counts(state).values())
    if tried:
        lines.append(Text(f"  ...   {words.ideas(tried)} tried before this start", "dim"))
    return lines


def _default_lines(head: Head) -> tuple[str, ...]:
    where = places.shown(head.files.root, head.here)
    resumed = " (resumed)" if head.resumed else ""
    best = f", best {words.number(head.best)}" if head.best is not None else ""
    branch = f" on branch {output.safe(head.branch)}" if head.branch else ""
    return (f"session {output.safe(head.tag)}{branch}{resumed} in {where}{best}",)
