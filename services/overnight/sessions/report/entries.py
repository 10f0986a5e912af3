"""A session as a report sees it: one entry a decided experiment, what it changed, what it gained.

Pure. Everything comes from the fold; texts of proposers stay as they are until they are shown.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from overnight.contracts.loop import LoopConfig, MetricSpec
from overnight.contracts.status import Direction, Role, Status
from overnight.contracts.untrusted import one_line
from overnight.ledger.fold import ExperimentState, SessionState
from overnight.sessions.view import idea_counts, kept_path

Value = bool | int | float | str
FAILED = frozenset({Status.CRASH, Status.TIMEOUT})
#: An idea that was really tried. What we or the machine failed at says nothing about it.
TRIED = frozenset(
    {Status.KEEP, Status.DISCARD, Status.CRASH, Status.TIMEOUT, Status.PRUNED, Status.HELD}
)  #: fmt: skip
#: Why something is discarded whatever its metric is.
OBJECTIONS = frozenset({"constraint", "vram", "guard", "not_worth_it", "no_change"})
BROKE = OBJECTIONS - {"not_worth_it", "no_change"}  #: as bad as a crash, when it comes again
SIMPLIFICATION = "simplification"  #: kept for less code
NAME_CHARS = 60
_STEP = re.compile(r"([A-Za-z_][\w.]{0,59}) (\S{1,60}) -> ([^\s,;:]{1,60})")


@dataclass(frozen=True)
class Step:
    """One knob that an experiment moved. before None: not known."""

    knob: str
    before: Value | None
    after: Value


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One decided experiment. Gains are positive where it was better."""

    id: int
    role: Role
    of: int | None
    parent: int | None
    status: Status
    reason: str | None
    metric: float | None
    hypothesis: str
    steps: tuple[Step, ...]
    gain: float | None  #: against its parent
    gain_on_best: float | None  #: against what was the best when it was decided
    signature: str | None = None
    detail: str = ""
    tree: str | None = None  #: digest of its code
    runtime_s: float | None = None
    peak_vram_mb: float | None = None
    hardware: str = ""
    isolation: str | None = None

    @property
    def is_idea(self) -> bool:
        """No baseline, no re-run."""
        return self.role in (Role.CANDIDATE, Role.RECOMBINATION)

    @property
    def alone(self) -> Step | None:
        """Its one change, where it was one."""
        return self.steps[0] if len(self.steps) == 1 else None

    @property
    def objection(self) -> str | None:
        """What stood against it beside its metric: `guard`, `constraint`, ..."""
        found = self.reason if self.status is Status.DISCARD else None
        return found if found in OBJECTIONS else None

    @property
    def overtaken(self) -> bool:
        """Better than its parent, but by then something else was better still."""
        beaten = self.status is Status.DISCARD and self.objection is None
        return beaten and (self.gain or 0.0) > 0

    @property
    def name(self) -> str:
        """What it is called: what stands before the first colon of its hypothesis."""
        line = one_line(self.hypothesis, 500)
        short = line.partition(": ")[0]
        return one_line(short if len(short) <= NAME_CHARS else line, NAME_CHARS)

    @property
    def group(self) -> str:
        """Under what it is listed: its knobs, or its words without their numbers."""
        if self.steps:
            return " + ".join(sorted({step.knob for step in self.steps}))
        return re.sub(r"[\d.]+(e-?\d+)?", "#", self.name.casefold()).strip()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that a report is computed from."""

    tag: str
    state: str
    config: LoopConfig
    entries: tuple[Entry, ...]  #: in the order of their decisions
    best_id: int | None
    path: tuple[int, ...]  #: kept changes that lead to the best
    unfinished: int
    counts: Mapping[str, int]  #: ideas by verdict
    knobs: Mapping[str, Value]  #: of the best, as its proposer wrote them down

    @property
    def metric(self) -> MetricSpec:
        """What is optimised."""
        return self.config.metric

    @cached_property
    def by_id(self) -> dict[int, Entry]:
        """Each entry by its number."""
        return {entry.id: entry for entry in self.entries}

    @cached_property
    def ideas(self) -> tuple[Entry, ...]:
        """Those that were really tried, without baseline and re-runs."""
        return tuple(e for e in self.entries if e.is_idea and e.status in TRIED)

    @cached_property
    def never_ran(self) -> int:
        """How many ideas were refused or cancelled: `status` counts them, nothing here does."""
        return sum(1 for e in self.entries if e.is_idea) - len(self.ideas)

    @property
    def baseline(self) -> Entry | None:
        """Experiment 1, decided."""
        return self.by_id.get(1)

    @property
    def best(self) -> Entry | None:
        """The incumbent: the best, never merely the last."""
        return self.by_id.get(self.best_id) if self.best_id is not None else None

    @property
    def kept(self) -> list[Entry]:
        """The kept changes that lead to the best, in order."""
        return [self.by_id[i] for i in self.path if i in self.by_id]

    def gain(self, before: float | None, after: float | None) -> float | None:
        """How much better *after* is, in the metric's unit; None where that can't be said."""
        return gain(self.metric, before, after)

    @cached_property
    def total_gain(self) -> float | None:
        """Of the best over the baseline."""
        if self.best is None or self.baseline is None:
            return None
        return self.gain(self.baseline.metric, self.best.metric)

    @cached_property
    def reruns(self) -> Mapping[int, list[float]]:
        """Experiment -> the metrics of its re-runs: the same code once more."""
        found: dict[int, list[float]] = defaultdict(list)
        for entry in self.entries:
            if entry.role is Role.REPLICATE and entry.of is not None and entry.metric is not None:
                found[entry.of].append(entry.metric)
        return found

    @cached_property
    def noise(self) -> tuple[float, int] | None:
        """Spread of the same code run again (one sigma), and over how many runs; or unknown."""
        groups: dict[str, list[float]] = defaultdict(list)
        for entry in self.entries:
            if entry.metric is not None and entry.tree is not None:
                groups[entry.tree].append(entry.metric)
        total, degrees, runs = 0.0, 0, 0
        for values in (group for group in groups.values() if len(group) > 1):
            mean = math.fsum(values) / len(values)
            total += math.fsum((value - mean) ** 2 for value in values)
            degrees += len(values) - 1
            runs += len(values)
        return (math.sqrt(total / degrees), runs) if degrees and math.isfinite(total) else None


def gain(metric: MetricSpec, before: float | None, after: float | None) -> float | None:
    """Positive where *after* is better; None without both, or beyond what a float holds."""
    if before is None or after is None:
        return None
    found = before - after if metric.direction is Direction.MINIMIZE else after - before
    return found if math.isfinite(found) else None


def facts(state: SessionState, tag: str) -> Facts | None:
    """*state* for a report; None before the session was opened."""
    if state.config is None:
        return None
    decided = [e for e in state.experiments.values() if e.decision is not None]
    decided.sort(key=lambda e: e.decision_seq or 0)
    names = _Names(state.experiments.values())
    entries = tuple(_entry(state, experiment, names) for experiment in decided)
    return Facts(
        tag=tag,
        state=state.run_state.value,
        config=state.config,
        entries=entries,
        best_id=state.incumbent,
        path=tuple(e.id for e in kept_path(state)),
        unfinished=len(state.experiments) - len(decided),
        counts=idea_counts(state),
        knobs=names.of_best(state),
    )


class _Names:
    """Knobs as people call them, from the proposers' own data."""

    def __init__(self, experiments: Iterable[ExperimentState]) -> None:
        self._anchors: dict[str, Value] = {}
        owners: dict[str, set[str]] = defaultdict(set)
        for experiment in experiments:
            details = experiment.proposed.details
            first = _values(details.get("anchors"))
            for key in (*first, *_values(details.get("knobs"))):
                owners[_short(key)].add(key)
            self._anchors = first | self._anchors
        self._doubled = {key for keys in owners.values() if len(keys) > 1 for key in keys}

    def shown(self, key: str) -> str:
        """`LR`; with its file where two files have one."""
        return one_line(key if key in self._doubled else _short(key), NAME_CHARS)

    def values(self, experiment: ExperimentState) -> dict[str, Value]:
        """All knobs of an experiment: its own, or those that the first proposal began with."""
        own = _values(experiment.proposed.details.get("knobs"))
        return own or (self._anchors if experiment.id == 1 else {})

    def of_best(self, state: SessionState) -> dict[str, Value]:
        """Of the best, or of the nearest kept change before it that has any."""
        here = state.incumbent
        while here is not None:
            values = self.values(state.experiments[here])
            if values:
                return {self.shown(key): value for key, value in values.items()}
            here = state.experiments[here].proposed.parent
        return {}


def _short(key: str) -> str:
    return key.rpartition(":")[2] or key


def _values(found: object) -> dict[str, Value]:
    if not isinstance(found, dict):
        return {}
    return {
        key: value
        for key, value in found.items()
        if isinstance(key, str) and isinstance(value, bool | int | float | str)
    }


def _entry(state: SessionState, experiment: ExperimentState, names: _Names) -> Entry:
    proposed, final, decision = experiment.proposed, experiment.final, experiment.decision
    assert state.config is not None and decision is not None  # decided
    metric = final.metric if final else None
    parent = state.experiments.get(proposed.parent) if proposed.parent else None
    spec = state.config.metric
    return Entry(
        id=experiment.id,
        role=proposed.role,
        of=proposed.of,
        parent=proposed.parent,
        status=decision.verdict,
        reason=decision.reason,
        metric=metric,
        hypothesis=proposed.hypothesis,
        steps=_steps(experiment, parent, names),
        gain=gain(spec, state.metric_of(proposed.parent), metric),
        gain_on_best=gain(spec, state.metric_of(decision.incumbent_before), metric),
        signature=final.signature if final else None,
        detail=(final.detail if final else "") or proposed.rejection_detail,
        tree=proposed.tree_digest,
        runtime_s=final.runtime_s if final else None,
        peak_vram_mb=final.peak_vram_mb if final else None,
        hardware=final.hardware if final else "",
        isolation=final.isolation if final and final.runner else None,
    )


def _steps(
    experiment: ExperimentState, parent: ExperimentState | None, names: _Names
) -> tuple[Step, ...]:
    """What it moved: by its proposer's data, else as its hypothesis says (`LR 0.1 -> 0.2`)."""
    details = experiment.proposed.details
    own, changed = _values(details.get("knobs")), details.get("changed")
    if isinstance(changed, list):
        before = names.values(parent) if parent is not None else {}
        known = [key for key in changed if isinstance(key, str) and key in own]
        return tuple(Step(names.shown(key), before.get(key), own[key]) for key in known)
    short = one_line(experiment.proposed.hypothesis, 500).partition(": ")[0]
    return tuple(
        Step(one_line(name, NAME_CHARS), _value(before), _value(after))
        for name, before, after in _STEP.findall(short)
    )


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            number = kind(text)
        except (ValueError, OverflowError):
            continue
        if math.isfinite(number):
            return number
    return text.strip("\"'")
