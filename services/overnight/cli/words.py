"""One experiment, one session in words and columns. Pure: values in, text out."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from overnight.contracts.experiment import Decision
from overnight.contracts.status import Role, Status
from overnight.contracts.untrusted import one_line
from overnight.ledger.approvals import refusal
from overnight.ledger.fold import ExperimentState, SessionState

WHAT_COLUMNS = 40
VERDICT_CHARS = 72
_CLOSE = 0.6  #: of two names, as difflib measures it
_AROUND_WHAT = len("  001   ") + len(" ") + len(" ") + 9 + len("  ")  #: and around the metric
_UNDER = " " * len("  001   ")
_RIGHT_COLUMNS = 27  #: what most verdicts take, with their time


@dataclass(frozen=True)
class Columns:
    """How wide the parts of a table's line are."""

    what: int = WHAT_COLUMNS
    metric: int = 12
    right: int | None = None  #: verdict and time; None: as long as they are

    @property
    def width(self) -> int:
        """Of the whole line, when it has bounds."""
        return _AROUND_WHAT + self.what + self.metric + (self.right or VERDICT_CHARS)


#: Where nobody counts columns: files and pipes.
WIDE = Columns()


def columns(width: int | None) -> Columns:
    """The table on a terminal of *width* columns; None: not a terminal."""
    if width is None:
        return WIDE
    metric = WIDE.metric if width >= 100 else 10
    around = _AROUND_WHAT + metric
    what = min(WHAT_COLUMNS, max(12, width - around - _RIGHT_COLUMNS))
    return Columns(what, metric, max(12, width - around - what))


def fold(line: str, width: int | None) -> list[str]:
    """A line of facts, in as many lines as *width* needs. It is cut between facts if it can be.

    Facts stand three spaces apart. What has no space in it, like a path, is never cut.
    """
    if width is None or len(line) <= width:
        return [line]
    label = re.match(r"(?: {2}\S+ +| *\S+ )", line)
    at = len(label.group()) if label else 0
    facts: list[str] = []
    for fact in re.split(r"(?<=\S) {3}(?=\S)", line[at:]):
        if facts and at + len(facts[-1]) + 3 + len(fact) <= width:
            facts[-1] += f"   {fact}"
        else:
            facts.append(fact)
    lines = [
        part
        for fact in facts
        for part in textwrap.wrap(
            fact, max(20, width - at), break_long_words=False, break_on_hyphens=False
        )
    ]
    return [(" " * at if number else line[:at]) + part for number, part in enumerate(lines)]


#: What a reason is to a person; others are shown as they are, with spaces.
_REASONS = {
    "oom": "out of memory",
    "nonfinite": "not a finite number",
    "no_metric": "printed no metric",
    "ambiguous_metric": "printed several metrics",
    "metric_unparsable": "metric is no number",
    "exit_code": "",
    "worse": "",
    "equal": "no better",
    "no_change": "changes nothing",
    "edit_not_applied": "edit does not apply",
    "duplicate": "tried before",
    "by_person": "by a person",
    "no_answer": "nobody approved it",
    "train": "over its budget",
    "not_worth_it": "gain not worth its added code",
    "simplification": "simpler and as good",
    "constraint": "breaks a constraint",
    "guard": "fails the guard",
    "vram": "needs too much VRAM",
    "re_run": "the best still runs",
    "environment": "the best failed as well",
}
_FLAGS = {"vram_warning": "much more VRAM", "many_changes": "many changes at once"}

_STYLES = {
    Status.KEEP: "green",
    Status.DISCARD: "dim",
    Status.CRASH: "red",
    Status.TIMEOUT: "red",
    Status.REJECTED: "yellow",
    Status.HELD: "yellow",
    Status.INFRA: "magenta",
}
#: Where the detail says more than the reason.
_TELLING = (Status.CRASH, Status.REJECTED, Status.HELD, Status.INFRA)
_PLURALS = {"crash": "crashes", "keep": "kept", "discard": "discarded", "timeout": "timeouts"}


def number(value: float | None) -> str:
    """A metric for a column of 10."""
    if value is None:
        return "-"
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.4g}"
    return f"{value:.4f}"


def duration(seconds: float | None) -> str:
    """`2 min 58 s`, `13 s`, `0.3 s`."""
    if seconds is None:
        return "-"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {left:02d} s" if minutes else f"{left} s"


def size(count: int) -> str:
    """`38 MB`."""
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def knob(hypothesis: str, limit: int = WHAT_COLUMNS) -> str:
    """The short name that a hypothesis starts with (`LR 0.1 -> 0.2: why`), or its start."""
    line = one_line(hypothesis, 500)
    short = line.partition(": ")[0]
    return one_line(short if len(short) <= limit else line, limit)


def saw(metric: str, claims: Iterable[tuple[str, str]]) -> str:
    """`saw 'acuracy: 0.91'`: what was printed under a name close to the metric's, or nothing."""
    printed = {name.casefold(): (name, value) for name, value in claims}
    close = difflib.get_close_matches(metric.casefold(), printed, n=1, cutoff=_CLOSE)
    if not close:
        return ""
    name, value = printed[close[0]]
    return one_line(f"saw '{name}: {value}'", VERDICT_CHARS)


def saw_instead(experiment: ExperimentState, metric: str | None) -> str:
    """`saw`, of an experiment that printed no metric."""
    final = experiment.final
    if final is None or metric is None or final.reason != "no_metric":
        return ""
    return saw(metric, ((claim.name, claim.value) for claim in final.claims))


def verdict(experiment: ExperimentState, decision: Decision, metric: str | None = None) -> str:
    """`keep`, `discard: no better`, `crash: out of memory`."""
    if experiment.proposed.role is Role.BASELINE and decision.verdict is Status.KEEP:
        return "baseline"
    reason = _REASONS.get(decision.reason or "", (decision.reason or "").replace("_", " "))
    told = [decision.verdict.value, reason]
    if decision.verdict in _TELLING:
        told.append(saw_instead(experiment, metric))
        told.append(experiment.final.detail if experiment.final else "")
        told.append(refusal(experiment))
    flags = flagged(decision.flags)
    words = ": ".join(part for part in told if part) + (f" ({flags})" if flags else "")
    return one_line(words, VERDICT_CHARS)


def flagged(flags: Iterable[str]) -> str:
    """What a person should look at: `much more VRAM, many changes at once`."""
    return ", ".join(_FLAGS.get(flag, flag.replace("_", " ")) for flag in flags)


def style(status: Status) -> str:
    """How a verdict is coloured."""
    return _STYLES.get(status, "")


def heading(metric: str, wide: Columns = WIDE) -> str:
    """Over the columns of `row`. `vs best`: against what was the best at that moment."""
    name = one_line(metric, wide.metric)
    return f"  {'id':<5} {'what':<{wide.what}} {name:>{wide.metric}} {'vs best':>9}  verdict"


def row(
    state: SessionState, experiment: ExperimentState, decision: Decision, wide: Columns = WIDE
) -> tuple[str, str]:
    """One decided experiment: its columns before the verdict, and the verdict with its time."""
    final = experiment.final
    metric = final.metric if final else None
    before = state.metric_of(decision.incumbent_before)
    delta = "" if metric is None or before is None else f"{metric - before:+.4f}"
    took = f"  {duration(final.runtime_s)}" if final else ""
    told = verdict(experiment, decision, _metric(state))
    room = len(told) if wide.right is None else max(8, wide.right - len(took))
    if len(told) > room and decision.verdict in _TELLING:
        told = decision.verdict.value  # the rest is `_below`
    return left(experiment, delta, wide), f"{one_line(told, room)}{took}"


def left(experiment: ExperimentState, delta: str, wide: Columns) -> str:
    """The columns before the verdict."""
    what = knob(experiment.proposed.hypothesis, wide.what)
    metric = number(experiment.final.metric if experiment.final else None)
    return f"  {experiment.id:03d}   {what:<{wide.what}} {metric:>{wide.metric}} {delta:>9}  "


def row_lines(
    state: SessionState, experiment: ExperimentState, decision: Decision, wide: Columns
) -> list[tuple[str, str]]:
    """`row`, and below it what had no room there."""
    rest = _below(experiment, decision, wide, _metric(state))
    return [row(state, experiment, decision, wide), *([rest] if rest else [])]


def _metric(state: SessionState) -> str | None:
    return state.config.metric.name if state.config else None


def _below(
    experiment: ExperimentState, decision: Decision, wide: Columns, metric: str | None
) -> tuple[str, str] | None:
    """A line for what a narrow table has no room for: space, and the whole verdict."""
    told = verdict(experiment, decision, metric)
    took = len(f"  {duration(experiment.final.runtime_s)}") if experiment.final else 0
    if wide.right is None or decision.verdict not in _TELLING or len(told) + took <= wide.right:
        return None
    return _UNDER, one_line(told, wide.width - len(_UNDER))


def ideas(count: int) -> str:
    """`1 idea`, `6 ideas`."""
    return "1 idea" if count == 1 else f"{count} ideas"


def in_counts(counts: Mapping[str, int]) -> str:
    """`3 kept, 11 discarded, 2 crashes`; what did not happen is left out."""
    parts = [
        f"{count} {name if name == 'crash' and count == 1 else _PLURALS.get(name, name)}"
        for name, count in counts.items()
        if count
    ]
    return ", ".join(parts) or "nothing decided yet"


def to_answer(experiment_id: int, option: str = "") -> str:
    """The two commands that answer an idea which waits for approval."""
    approve = f"overnight approve {experiment_id}{option}"
    return f"{approve}   or   overnight reject {experiment_id} --why TEXT{option}"
