"""results, show, diff, log, wait: what was tried, and how it went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from overnight.cli import output
from overnight.cli.numbers import amount, whole
from overnight.cli.options import HERE, AsJson, Dir, Tag, Which, session

if TYPE_CHECKING:
    from overnight.ledger.fold import ExperimentState, SessionState
    from overnight.sessions.locate import Found

Part = Annotated[
    str | None,
    typer.Option("--of", metavar="PART", help="run, score or guard; default: what failed"),
]
Raw = Annotated[bool, typer.Option("--raw", help="as it is, terminal escapes included")]


def results(
    tag: Tag = None,
    top: Annotated[
        int | None, typer.Option(parser=whole("--top", 1), metavar="N", help="only the best N")
    ] = None,
    status: Annotated[str | None, typer.Option(help="only these, e.g. keep or crash")] = None,
    directory: Dir = HERE,
    as_json: AsJson = False,
) -> None:
    """What was tried, best first."""
    from overnight.contracts.errors import UsageError
    from overnight.contracts.status import Status
    from overnight.sessions.view import ranked, result_row

    known = [s.value for s in Status if s is not Status.SCORED]
    if status is not None and status not in known:
        raise UsageError(f"--status {status}: give one of {', '.join(known)}")
    found = session(directory, tag)
    state = _state(found)
    chosen = [e for e in ranked(state) if status is None or e.status == status][:top]
    if as_json:
        output.emit([result_row(experiment) for experiment in chosen])
        return
    _table(state, chosen, _runners(found))


def _table(state: SessionState, chosen: list[ExperimentState], runners: int | None) -> None:
    from rich.text import Text

    from overnight.cli import words
    from overnight.sessions.view import standing

    metric = state.config.metric.name if state.config else "metric"
    wide = words.columns(output.width())
    lines: list[Text | str] = [Text(words.heading(metric, wide), "bold")]
    for experiment in chosen:
        if experiment.decision is None:
            left = words.left(experiment, "", wide)
            lines.append(Text(left + standing(state, experiment, runners), "dim"))
        else:
            style = words.style(experiment.decision.verdict)
            for left, right in words.row_lines(state, experiment, experiment.decision, wide):
                lines.append(Text(left).append(right, style))
    output.show(*lines)


def show(which: Which, tag: Tag = None, directory: Dir = HERE, as_json: AsJson = False) -> None:
    """One experiment: its idea, verdict, numbers, diff and log."""
    from overnight.sessions.experiments import detail, find_experiment
    from overnight.sessions.view import standing

    found = session(directory, tag)
    state = _state(found)
    experiment = find_experiment(state, which)
    facts = detail(found.files, state, experiment)
    if as_json:
        output.emit(facts)
    else:
        metric = state.config.metric.name if state.config else "metric"
        _facts(facts, metric, standing(state, experiment, _runners(found)))


def _facts(facts: dict[str, Any], metric: str, undecided: str) -> None:
    from overnight.cli import words
    from overnight.contracts.untrusted import strip_terminal

    reason = f":{facts['reason']}" if facts["reason"] else ""
    isolation = output.safe(facts["isolation"] or "-", 60)
    lines = [
        f"experiment {facts['id']} ({facts['role']}, by {output.safe(facts['proposer'], 60)})",
        f"  idea      {output.safe(facts['hypothesis'], 2000)}",
        f"  verdict   {facts['status'] or undecided}{reason}",
        f"  {output.safe(metric, 9):<9} {words.number(facts['metric'])} ({facts['trust'] or '-'})",
        f"  took      {words.duration(facts['runtime_s'])}, attempt {facts['attempt'] or '-'}",
        f"  parent    {facts['parent'] or '-'}   commit {(facts['commit'] or '-')[:12]}",
        f"  sandbox   {isolation}, {facts['survivors'] or 0} left running",
    ]
    if facts["detail"]:
        lines.insert(3, f"  because   {output.safe(facts['detail'], 500)}")
    if facts["reason"] == "no_metric":
        printed = words.saw(metric, ((c["name"], c["value"]) for c in facts["claims"]))
        lines[4:4] = [f"  instead   {printed}"] if printed else []
    measured = ", ".join(f"{name} {value:g}" for name, value in facts["measures"].items())
    lines += [f"  measured  {measured}"] if measured else []
    lines += [f"  guard     {facts['guard']}"] if facts["guard"] else []
    lines[2:2] = _said(facts)
    lines += _change(facts)
    steps = ", ".join(f"{k} {v:.2f} s" for k, v in facts["timings"].items())
    lines += [f"  steps     {output.safe(steps, 500)}"] if steps else []
    for line in lines:
        output.say(line)
    if facts["diff"]:
        output.say("\n" + strip_terminal(facts["diff"]).rstrip("\n"))
    if facts["log_tail"]:
        output.say("\nend of its log:\n" + facts["log_tail"].rstrip("\n"))


def _change(facts: dict[str, Any]) -> list[str]:
    """How large it is, how it came about, what to look at."""
    from overnight.cli import words

    lines = []
    if facts["lines_added"] or facts["lines_removed"]:
        places = "1 place" if facts["places"] == 1 else f"{facts['places']} places"
        code = "" if facts["code_lines"] is None else f"   all code {facts['code_lines']} lines"
        changed = f"+{facts['lines_added']} -{facts['lines_removed']} lines in {places}"
        lines.append(f"  change    {changed}{code}")
    if facts["strategy"] != "normal":
        lines.append(f"  strategy  {facts['strategy'].replace('_', ' ')}")
    if facts["repairs"] is not None:
        lines.append(f"  mends     {facts['repairs']:03d}, which crashed")
    if facts["of"] is not None:
        lines.append(f"  re-run    of {facts['of']:03d}")
    if facts["flags"]:
        lines.append(f"  look at   {words.flagged(facts['flags'])}")
    return lines


def _said(facts: dict[str, Any]) -> list[str]:
    """What a person said to the idea, and the advice that its proposer had seen."""
    lines = []
    approval = facts["approval"]
    if approval is not None:
        by = f" by {output.safe(approval['by'], 60)}" if approval["by"] else ""
        why = f": {output.safe(approval['why'], 500)}" if approval["why"] else ""
        lines.append(f"  approval  {approval['state']}{by}{why}")
    lines += [f"  advice    {output.safe(text, 500)}" for text in facts["steering"][-3:]]
    return lines


def diff(
    which: Which, tag: Tag = None, directory: Dir = HERE, raw: Raw = False, as_json: AsJson = False
) -> None:
    """What it changed against its parent. best: against the baseline."""
    from overnight.contracts.untrusted import strip_terminal
    from overnight.sessions.experiments import BEST, find_experiment
    from overnight.sessions.experiments import diff as difference

    found = session(directory, tag)
    state = _state(found)
    experiment = find_experiment(state, which)
    text = difference(found.files, state, experiment, whole=which == BEST)
    if as_json:
        output.emit({"id": experiment.id, "diff": text})
    elif not text:
        output.say(f"experiment {experiment.id} changes nothing: it is the baseline's tree")
    elif raw:
        output.write(text)
    else:
        _coloured(strip_terminal(text))


def _coloured(text: str) -> None:
    if not output.is_terminal():
        output.write(text)
        return
    from rich.text import Text

    styles = {"+": "green", "-": "red", "@": "cyan"}
    output.show(*(Text(line, styles.get(line[:1], "")) for line in text.splitlines()))


def log(
    which: Which,
    tag: Tag = None,
    lines: Annotated[
        int,
        typer.Option("--lines", "-n", parser=whole("--lines", 1), metavar="N", help="from the end"),
    ] = 200,
    attempt: Annotated[
        int | None,
        typer.Option(parser=whole("--attempt", 1), metavar="N", help="default: the last one"),
    ] = None,
    of: Part = None,
    directory: Dir = HERE,
    raw: Raw = False,
    as_json: AsJson = False,
) -> None:
    """The end of what it printed. Without what could drive a terminal."""
    from overnight.sessions.experiments import find_experiment, log_tail

    found = session(directory, tag)
    experiment = find_experiment(_state(found), which)
    tail = log_tail(found.files, experiment, attempt=attempt, lines=lines, raw=raw, of=of)
    if as_json:
        output.emit(
            {
                "id": experiment.id,
                "attempt": tail.attempt,
                "path": str(tail.path),
                "bytes": tail.size_bytes,
                "whole": tail.whole,
                "log": tail.text,
            }
        )
        return
    output.write(tail.text if tail.text.endswith("\n") or not tail.text else tail.text + "\n")


def wait(
    which: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="an experiment's number; default: the end of the run"),
    ] = None,
    tag: Tag = None,
    timeout: Annotated[
        float,
        typer.Option(parser=amount("--timeout", or_zero=True), metavar="SECONDS", help="to wait"),
    ] = 600.0,
    directory: Dir = HERE,
    as_json: AsJson = False,
) -> None:
    """Block until ID is decided, or the run is over.

    Without ID: until the run has ended or is paused. Exit 3 when that takes too long.
    """
    if which is not None and tag is None and not which.isdecimal():
        which, tag = None, which
    if which is None:
        raise typer.Exit(_wait_over(session(directory, tag), timeout, as_json))
    from overnight.cli import words
    from overnight.sessions.view import result_row
    from overnight.sessions.waiting import wait_decided

    number = whole("ID", 1)(which)
    state = wait_decided(session(directory, tag).files, number, timeout_seconds=timeout)
    experiment = state.experiments[number]
    assert experiment.decision is not None
    if as_json:
        output.emit(result_row(experiment))
    else:
        left, right = words.row(state, experiment, experiment.decision)
        output.say(left.strip() + "  " + right)


def _wait_over(found: Found, timeout: float, as_json: bool) -> int:
    """0: done or paused; 1: the baseline failed."""
    from pathlib import Path

    from overnight.cli import words
    from overnight.cli.summary import status_lines
    from overnight.sessions.view import current_status
    from overnight.sessions.waiting import wait_over

    state = wait_over(found.files, timeout_seconds=timeout)
    now = current_status(found)
    if as_json:
        output.emit(now)
    else:
        for line in status_lines(now, Path.cwd()):
            output.say("\n".join(words.fold(line, output.width())))
    failed = state.closed is not None and state.closed.outcome == "baseline_failed"
    return 1 if failed else 0


def _runners(found: Found) -> int | None:
    from overnight.sessions.stack import read_stack
    from overnight.sessions.view import runners_of

    return runners_of(read_stack(found.files))


def _state(found: Found) -> SessionState:
    from overnight.sessions.locate import read_state

    return read_state(found.files)
