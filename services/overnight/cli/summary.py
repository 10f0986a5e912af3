"""What a person is told at the end of a run, and by `status`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overnight.cli import places, words
from overnight.contracts.errors import LedgerError, OvernightError
from overnight.contracts.rows import SessionClosed
from overnight.contracts.status import Status
from overnight.contracts.untrusted import one_line
from overnight.ledger.disk import used_bytes
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import ExperimentState, SessionState
from overnight.orchestrator.planning import last_fault
from overnight.orchestrator.policy import because
from overnight.sessions.experiments import log_tail
from overnight.sessions.verify import verify
from overnight.sessions.view import gain_percent, idea_counts, kept_path, survivors

_KNOBS_SHOWN = 6


@dataclass(frozen=True, kw_only=True)
class Ending:
    """A run that is over."""

    files: SessionFiles
    state: SessionState
    closed: SessionClosed | None  #: None: it was killed, or can't go on
    seconds: float | None  #: None: it ran elsewhere, nobody here knows
    here: Path
    failed: bool = False


def status_lines(status: Mapping[str, Any], here: Path) -> list[str]:
    """A few lines about a session."""
    state = status["state"]
    if status["pid"] is None and state not in ("closed", "new"):
        again = places.as_called(f"overnight run{_which(status, here)}")
        state = f"{state}, but no stack runs: `{again}` goes on"
    why = f" ({one_line(status['why'], 600)})" if status["why"] else ""
    lines = [f"session {status['tag']}: {state}{why}"]
    for service, what_for in sorted(status["waiting"].items()):
        lines.append(f"  waiting   {one_line(service, 40)}: {one_line(what_for, 300)}")
    lines += _waits_for(status, here)
    best = status["best"]
    if best is not None:
        lines.append(
            f"  best      {best['id']:03d}   {status['metric']} {words.number(best['metric'])}"
            f"   baseline {words.number(status['baseline'])}"
        )
    lines.append(f"  tried     {_tried(status)}; {_unfinished(status)}")
    lines += _research(status)
    if status["description"]:
        lines.append(f"  about     {one_line(status['description'], 200)}")
    if status["program"]:
        lines.append(f"  program   {status['program']}")
    lines.append(f"  files     {places.shown(Path(status['session_dir']), here)}")
    lines += [f"  {name:<9} {url}" for name, url in sorted(status["endpoints"].items())]
    return lines


def _waits_for(status: Mapping[str, Any], here: Path) -> list[str]:
    """Whom or what it waits for, beside its services."""
    option = places.dir_option(Path(status["session_dir"]), here)
    lines = []
    for idea in status["approvals"] if status["pid"] is not None else ():
        lines.append(
            f"  waiting   for approval: {idea['id']:03d} {one_line(idea['hypothesis'], 200)}"
        )
        lines.append(f"            {places.as_called(words.to_answer(idea['id'], option))}")
    if status["limit"]:
        lines.append(f"  waiting   for what runs, near the limit: {status['limit']}")
    return lines


def _research(status: Mapping[str, Any]) -> list[str]:
    lines = []
    if status["origin"]:
        lines.append(
            f"  from      experiment {status['origin']['id']} of {status['origin']['tag']}"
        )
    if status["question"]:
        lines.append(f"  question  {one_line(status['question'], 300)}")
    if status["starting_hypothesis"]:
        lines.append(f"  begins    {one_line(status['starting_hypothesis'], 300)}")
    lines += [f"  advice    {one_line(said['text'], 300)}" for said in status["steering"]]
    return lines


def _which(status: Mapping[str, Any], here: Path) -> str:
    """` REPO --tag TAG` for `run`, without what it finds by itself."""
    root = Path(status["session_dir"])
    repo = places.shown(root.parent, here)
    return ("" if repo == "." else f" {shlex.quote(repo)}") + (
        f" --tag {status['tag']}" if root.name.endswith(f"-{status['tag']}") else ""
    )


def _tried(status: Mapping[str, Any]) -> str:
    if not sum(status["counts"].values()):
        return words.in_counts({})
    tried = sum(status["ideas"].values())
    told = f": {words.in_counts(status['ideas'])}" if tried else ""
    return f"the baseline and {words.ideas(tried)}{told}"


def _unfinished(status: Mapping[str, Any]) -> str:
    if status["interrupted"]:
        again = "run" if status["interrupted"] > 1 else "runs"
        return f"{status['interrupted']} interrupted, {again} again on resume"
    queued = f", {status['queued']} queued" if status["queued"] else ""
    return f"{status['in_flight'] - status['queued']} running{queued}"


def ending_lines(ending: Ending) -> list[str]:
    """The end of a run: the best, what was kept, where it lies, whether the ledger is whole."""
    option = places.dir_option(ending.files.root, ending.here)
    path = kept_path(ending.state)
    lines = [_headline(ending)]
    lines += _best(ending)
    given_up = sum(1 for e in ending.state.experiments.values() if e.in_dead_letter)
    if given_up:
        see = places.as_called(f"overnight deadletter list{option}")
        lines.append(f"  gave up   {given_up}, each attempt failed by our fault   see  {see}")
    lines.append(
        f"  files     {places.shown(ending.files.root, ending.here)}/"
        "{results.tsv,experiments.jsonl}"
        + (f"   diff  {places.as_called(f'overnight diff best{option}')}" if path else "")
    )
    lines.append(
        f"  verify    {_verified(ending.files)}   disk  {words.size(used_bytes(ending.files.root))}"
    )
    return lines


def _headline(ending: Ending) -> str:
    state, closed = ending.state, ending.closed
    decided = sum(idea_counts(state).values())
    lost = sum(1 for e in state.experiments.values() if e.status is Status.INFRA)
    left, uncounted = survivors(state)
    running = f"{left} left running" if left or not uncounted else "not all ends seen"
    word = "killed" if closed is None else closed.outcome.replace("_", " ")
    if ending.failed:
        word = "failed"
    why = ""
    if closed is not None and closed.outcome == "baseline_failed":
        return f"baseline failed: {_why_failed(ending)}; fix it and run again"
    enough = closed is not None and closed.detail in ("", words.ideas(state.candidates))
    if closed is not None and closed.outcome in ("exhausted", "done") and not enough:
        why = f" ({one_line(closed.detail, 200)})"
    took = "" if ending.seconds is None else f" in {words.duration(ending.seconds)}"
    return f"{word}{why}: {words.ideas(decided)}{took}, {lost} lost, {running}"


def _why_failed(ending: Ending) -> str:
    """In its own words: what a crash ended with, else the last line that it printed."""
    baseline, config = ending.state.baseline, ending.state.config
    if baseline is None or baseline.final is None:
        return "it never ran"
    why = because(ending.state, baseline)
    told = one_line(why, 300) or _last_line(ending.files, baseline)
    saw = words.saw_instead(baseline, config.metric.name if config else None)
    if baseline.in_dead_letter:
        told = f"{told}; the last one: {one_line(last_fault(baseline), 200)}"
    return f"{told or baseline.final.status.value}{f'; {saw}' if saw else ''}"


def _last_line(files: SessionFiles, experiment: ExperimentState) -> str:
    try:
        lines = log_tail(files, experiment).text.split("\n")
    except OvernightError:
        return ""
    return next((one_line(line, 300) for line in reversed(lines) if line.strip()), "")


def _best(ending: Ending) -> list[str]:
    state = ending.state
    best, baseline = (
        state.metric_of(state.incumbent),
        state.metric_of(1) if state.baseline else None,
    )
    if state.incumbent is None or best is None or baseline is None or state.config is None:
        return []
    metric = state.config.metric
    percent = gain_percent(metric, baseline, best)
    better = "" if percent is None else f"   {percent:.1f} % better than the baseline"
    if percent is not None and percent < 0:
        better = f"   {-percent:.2g} % worse than the baseline, with less code"
    if state.incumbent == 1:
        better = "   the baseline: nothing was better"
    path = kept_path(state)
    kept = "; ".join(words.knob(e.proposed.hypothesis, 60) for e in path[-_KNOBS_SHOWN:])
    more = "... " if len(path) > _KNOBS_SHOWN else ""
    tried = idea_counts(state)
    overtaken = tried[Status.KEEP] - len(path)
    others = tried | {Status.KEEP.value: 0}
    told = [f"{len(path)} of {words.ideas(sum(tried.values()))}"]
    told += [f"{overtaken} overtaken (better too, but not in the best)"] if overtaken else []
    told += [words.in_counts(others)] if any(others.values()) else []
    return [
        f"  best      {state.incumbent:03d}   {metric.name} {words.number(best)}{better}",
        f"  kept      {more}{kept or 'nothing'}: {', '.join(told)}",
    ]


def _verified(files: SessionFiles) -> str:
    try:
        found = verify(files.root)
    except LedgerError as error:
        return one_line(str(error), 200)
    if found.ok:
        return f"ledger {found.rows} rows, chain ok"
    first = found.problems[0]
    return f"NOT ok: line {first.line}: {one_line(first.what, 200)}"
