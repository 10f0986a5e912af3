"""A setting as a proposal: the new text, the hypothesis and the analysis in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from overnight.contracts.errors import ConfigError, ProposerError
from overnight.contracts.experiment import Proposal
from overnight.contracts.proposing import History, Past
from overnight.contracts.status import Role, Status
from overnight.proposers import constants, past
from overnight.proposers.constants import Source, Value
from overnight.proposers.names import LORE
from overnight.proposers.past import Record, Setting
from overnight.proposers.space import MAX_FILE_CHARACTERS, Knob, Space, build_space


class Reader:
    """Reads the space from a history; a file whose text did not change is not parsed again."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}

    def space(self, history: History) -> Space:
        """Raises ProposerError: no constants to tune, or a file that can't be read."""
        texts = {
            path: text
            for path, text in history.parent_files.items()
            if path.endswith(".py") and len(text) <= MAX_FILE_CHARACTERS
        }
        self._sources = {path: self._source(path, text) for path, text in texts.items()}
        return build_space(self._sources, past.anchors(history))

    def _source(self, path: str, text: str) -> Source:
        known = self._sources.get(path)
        return known if known and known.text == text else constants.parse(path, text)


def whole_options(
    options: Mapping[str, object], defaults: Mapping[str, int | None]
) -> dict[str, int | None]:
    """The options, all of them whole numbers from 0, with their defaults filled in.

    Raises:
        ConfigError: names the option that is unknown or not a whole number.
    """
    for name, value in options.items():
        if name not in defaults:
            known = ", ".join(sorted(defaults)) or "none"
            raise ConfigError(f"proposer.options.{name}: unknown option (known: {known})")
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ConfigError(f"proposer.options.{name}: must be a whole number from 0")
    return {**defaults, **{name: int(str(value)) for name, value in options.items()}}


def proposal(
    history: History, space: Space, record: Record, setting: Setting, proposer: str,
    *, why: str | None = None, notes: str = "",
) -> Proposal:  # fmt: skip
    """*setting* on top of the parent. *why* replaces the words that the knobs suggest."""
    changed = changes(space, setting)
    steps = ", ".join(
        f"{knob.name} {knob.write(knob.value)} -> {knob.write(setting[knob.key])}"
        for knob in changed
    )
    because = evidence(changed, record)
    told = f"{why or reason(changed, setting)}{because}"
    return Proposal(
        hypothesis=f"{steps}: {told}"[:4000],
        analysis=" ".join(text for text in (analysis(history), notes) if text),
        changes=space.texts(setting),
        parent=past.parent_of(history),
        proposer=proposer,
        details={
            "knobs": dict(setting),
            "changed": [knob.key for knob in changed],
            "anchors": {**space.setting, **past.anchors(history)},
        },
    )  # fmt: skip


#: Advice is part of a session for good, and a run that is exhausted ends before more can be given.
_ANEW = "a session without that advice: overnight run --tag NEW --from TAG"


def exhausted(space: Space) -> ProposerError:
    """Nothing is left that was not tried."""
    free = [knob.name for knob in space.knobs if len(knob.values) > 1]
    if not free:
        return ProposerError(f"nothing left to try: steering leaves every constant alone; {_ANEW}")
    fixed = len(space.knobs) - len(free)
    steered = f" (steering leaves {fixed} alone; {_ANEW})" if fixed else ""
    return ProposerError(
        f"nothing left to try: all {space.size} settings of {', '.join(free)} were tried{steered}"
    )


def changes(space: Space, setting: Setting) -> list[Knob]:
    """The knobs that *setting* moves away from the incumbent."""
    return [knob for knob in space.knobs if not constants.is_same(setting[knob.key], knob.value)]


def reason(changed: Sequence[Knob], setting: Setting) -> str:
    """Why it may help, from what is known of the knobs."""
    reasons: list[str] = []
    for knob in changed:
        lore = LORE[knob.kind]
        up = is_more(knob, setting[knob.key])
        reasons.append(lore.up if up else lore.down)
    return "; ".join(dict.fromkeys(reasons))


def is_more(knob: Knob, value: Value) -> bool:
    """Is *value* further up the ladder? It need not stand on it: a person may have named it."""
    if isinstance(value, str) or isinstance(knob.value, str):
        return value in knob.values and knob.values.index(value) > knob.values.index(knob.value)
    return value > knob.value


def evidence(changed: Sequence[Knob], record: Record) -> str:
    """What these knobs brought alone so far, the newest of each: ", since LR 0.002 gained 0.01"."""
    found: list[str] = []
    for knob in changed[:3]:
        lessons = record.lessons.get(knob.key)
        if not lessons:
            continue
        last = lessons[-1]
        name = "" if len(changed) == 1 else f"{knob.name} "
        unmeasured = "was rejected" if last.rejected else "failed"
        told = unmeasured if last.change is None else _size(last.change)
        found.append(f"{name}{knob.write(last.value)} {told} (experiment {last.id})")
    return f", since {' and '.join(found)}" if found else ""


def _size(change: float) -> str:
    return (
        f"{'gained' if change < 0 else 'lost'} {abs(change):.2g}" if change else "changed nothing"
    )


def analysis(history: History) -> str:
    """One line about the newest result."""
    ended = [
        one
        for one in history.experiments
        if one.status is not None and one.role is not Role.REPLICATE
    ]
    if not ended:
        return ""
    last = ended[-1]
    if last.role is Role.BASELINE:
        return f"The baseline reached {history.metric.name} {history.baseline_metric:.6g}."
    return f"Experiment {last.id} ({_short(last)}) {_outcome(last, history)}."


def _short(one: Past) -> str:
    words = one.hypothesis.split(":")[0].split("\n")[0]
    return words if len(words) <= 120 else words[:117] + "..."


def _outcome(one: Past, history: History) -> str:
    assert one.status is not None  # the caller has sorted those out
    how = one.status.value + (f":{one.reason}" if one.reason else "")
    if one.metric is None:
        return f"ended as {how}; that setting counts as infeasible"
    value = f"{history.metric.name} {one.metric:.6g}"
    if one.status is Status.KEEP:
        return f"was kept with {value}"
    return f"reached {value} against the incumbent's {history.incumbent_metric:.6g} ({how})"
