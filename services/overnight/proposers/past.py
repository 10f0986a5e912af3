"""What the history says about settings: which were tried, how they did, which steps won.

Everything is read from the experiments' `details`, so a resumed session knows what an
uninterrupted one knows. Details of other proposers that do not fit are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from overnight.contracts.proposing import History, Past
from overnight.contracts.status import Direction, Status
from overnight.proposers import constants
from overnight.proposers.constants import Value
from overnight.proposers.space import Space

Setting = dict[str, Value]
Fingerprint = tuple[tuple[str, Value], ...]

_MAX_PATH = 4
_MEASURED = frozenset({Status.KEEP, Status.DISCARD, Status.SCORED})
#: The idea's own failure. Infra is ours and held is undecided: neither says that it is bad.
_FAILED = frozenset({Status.CRASH, Status.TIMEOUT, Status.PRUNED, Status.REJECTED})


@dataclass(frozen=True, kw_only=True)
class Told:
    """One setting and how it did, lower is better; infinite: it failed or is in flight."""

    setting: Setting
    loss: float


@dataclass(frozen=True, kw_only=True)
class Move:
    """A step of one knob by itself. direction: +1, -1, or 0 where there is no order."""

    key: str
    direction: int
    won: bool | None  #: None: in flight, or it ended without saying anything


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What one knob by itself brought."""

    id: int
    value: Value
    change: float | None  #: of the loss against its parent, negative is better; None: it failed
    rejected: bool = False  #: by a person: it never ran


@dataclass(frozen=True, kw_only=True)
class Miss:
    """An idea that was not kept."""

    id: int
    behind: float | None  #: its loss above its parent's; None: it failed
    values: Setting  #: what it changed


@dataclass(frozen=True, kw_only=True)
class Record:
    """The history as search sees it."""

    tried: frozenset[Fingerprint]
    told: tuple[Told, ...]
    moves: tuple[Move, ...]
    failed_alone: frozenset[tuple[str, Value]]  #: (key, value) that failed as the only change
    worse_alone: frozenset[tuple[str, Value]]  #: that did worse than another value, all else equal
    path: tuple[Setting, ...]  #: the parent's kept ancestors and itself, oldest first
    lessons: Mapping[str, tuple[Lesson, ...]]  #: key -> what it brought alone, oldest first
    misses: tuple[Miss, ...]  #: oldest first
    credit: Mapping[str, tuple[int, int]]  #: key -> (kept, ended) experiments that changed it


def fingerprint(setting: Mapping[str, Value]) -> Fingerprint:
    """The same for the same setting."""
    return tuple(sorted(setting.items()))


def anchors(history: History) -> dict[str, Value]:
    """The values that the space was built around first, so that it does not drift."""
    found: dict[str, Value] = {}
    for past in history.experiments:
        for key, value in _values(past.details.get("anchors")).items():
            found.setdefault(key, value)
    return found


def read(history: History, space: Space) -> Record:
    """Fold *history* over *space*."""
    settings = _settings(history, space)
    losses = {past.id: _loss(past, history) for past in history.experiments}
    tried = {fingerprint(space.setting)}
    told: list[Told] = []
    moves: list[Move] = []
    failed: set[tuple[str, Value]] = set()
    worse: set[tuple[str, Value]] = set()
    lessons: dict[str, list[Lesson]] = {}
    misses: list[Miss] = []
    credit: dict[str, tuple[int, int]] = {}
    for past in history.experiments:
        setting, loss = settings.get(past.id), losses[past.id]
        if setting is None:
            continue
        tried.add(fingerprint(setting))
        if loss is not None:
            told.append(Told(setting=setting, loss=loss))
        changed = _changed(past, space)
        change = _difference(loss, losses.get(past.parent or 0))
        if past.status in _MEASURED | _FAILED:
            for key in changed:
                kept, ended = credit.get(key, (0, 0))
                credit[key] = (kept + (past.status is Status.KEEP), ended + 1)
        not_kept = past.status in _FAILED or (past.status in _MEASURED and change is not None)
        if not_kept and changed and past.status is not Status.KEEP:
            values = {key: setting[key] for key in changed}
            misses.append(Miss(id=past.id, behind=change, values=values))
        if len(changed) == 1:
            key = changed[0]
            if past.status in _FAILED:
                failed.add((key, setting[key]))
            if past.status in _FAILED or change is not None:
                rejected = past.status is Status.REJECTED
                lesson = Lesson(id=past.id, value=setting[key], change=change, rejected=rejected)
                lessons.setdefault(key, []).append(lesson)
            moves.append(_move(past, key, setting, settings, space))
            before = settings.get(past.parent or 0, setting)
            if past.status in _MEASURED:
                worse.add((key, (before if past.status is Status.KEEP else setting)[key]))
    return Record(
        tried=frozenset(tried), told=tuple(told), moves=tuple(moves),
        failed_alone=frozenset(failed), worse_alone=frozenset(worse), credit=credit,
        path=_path(history, settings),
        lessons={key: tuple(found) for key, found in lessons.items()}, misses=tuple(misses),
    )  # fmt: skip


def _difference(loss: float | None, parent: float | None) -> float | None:
    if loss is None or parent is None or not math.isfinite(loss - parent):
        return None
    return loss - parent


def parent_of(history: History) -> int:
    """The experiment whose tree is edited."""
    return history.incumbent if history.parent is None else history.parent


def _settings(history: History, space: Space) -> dict[int, Setting]:
    """id -> its setting in the present space; constants it did not have stand as they are now."""
    found: dict[int, Setting] = {}
    first = anchors(history)
    for past in history.experiments:
        own = _values(past.details.get("knobs"))
        if past.id == parent_of(history):
            own = space.setting
        elif not own and past.id == history.experiments[0].id and first:
            own = first
        if own:
            found[past.id] = {
                knob.key: own[knob.key]
                if knob.key in own and _fits(own[knob.key], knob.value)
                else knob.value
                for knob in space.knobs
            }
    return found


def _path(history: History, settings: Mapping[int, Setting]) -> tuple[Setting, ...]:
    parents = {past.id: past.parent for past in history.experiments}
    path: list[Setting] = []
    at: int | None = parent_of(history)
    while at is not None and at in settings and len(path) < _MAX_PATH:
        path.append(settings[at])
        at = parents.get(at)
    return tuple(reversed(path))


def _loss(past: Past, history: History) -> float | None:
    if past.status is None or past.status in _FAILED:
        return math.inf
    if past.status in _MEASURED and past.metric is not None and math.isfinite(past.metric):
        minimise = history.metric.direction is Direction.MINIMIZE
        return past.metric if minimise else -past.metric
    return None


def _move(
    past: Past, key: str, setting: Setting, settings: Mapping[int, Setting], space: Space
) -> Move:
    knob = next(knob for knob in space.knobs if knob.key == key)
    before = settings.get(past.parent or 0)
    direction = 0
    if before is not None and knob.ordered:
        new, old = knob.place(setting[key]), knob.place(before[key])
        direction = (new > old) - (new < old)
    ended = past.status in _MEASURED | _FAILED
    return Move(key=key, direction=direction, won=past.status is Status.KEEP if ended else None)


def _changed(past: Past, space: Space) -> list[str]:
    names = past.details.get("changed")
    known = {knob.key for knob in space.knobs}
    if not isinstance(names, list):
        return []
    return [name for name in names if isinstance(name, str) and name in known]


def _values(found: object) -> dict[str, Value]:
    if not isinstance(found, dict):
        return {}
    return {
        key: value
        for key, value in found.items()
        if isinstance(key, str) and isinstance(value, bool | int | float | str)
    }


def _fits(value: Value, like: Value) -> bool:
    return constants.sort(value) == constants.sort(like)
