"""A setting as a proposal: the new text, the hypothesis and the analysis in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from overnight.contracts.errors import ConfigError, ProposerError
from overnight.contracts.experiment import Proposal
from overnight.contracts.proposing import History, Past
from overnight.contracts.status import Role, Status
from overnight.proposers import constants, past
from overnight.proposers.constants import Source
from overnight.proposers.names import LORE
from overnight.proposers.past import Setting
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
    history: History, space: Space, setting: Setting, proposer: str, why: str | None = None
) -> Proposal:
    """*setting* on top of the incumbent. *why* replaces the words that the knobs suggest."""
    changed = changes(space, setting)
    steps = ", ".join(
        f"{knob.name} {knob.write(knob.value)} -> {knob.write(setting[knob.key])}"
        for knob in changed
    )
    return Proposal(
        hypothesis=f"{steps}: {why or reason(changed, setting)}"[:4000],
        analysis=analysis(history),
        changes=space.texts(setting),
        parent=history.incumbent,
        proposer=proposer,
        details={
            "knobs": dict(setting),
            "changed": [knob.key for knob in changed],
            "anchors": {**space.setting, **past.anchors(history)},
        },
    )


def exhausted(space: Space) -> ProposerError:
    """Nothing is left that was not tried."""
    names = ", ".join(knob.name for knob in space.knobs)
    return ProposerError(f"nothing left to try: all {space.size} settings of {names} were tried")


def changes(space: Space, setting: Setting) -> list[Knob]:
    """The knobs that *setting* moves away from the incumbent."""
    return [knob for knob in space.knobs if not constants.is_same(setting[knob.key], knob.value)]


def reason(changed: Sequence[Knob], setting: Setting) -> str:
    """Why it may help, from what is known of the knobs."""
    reasons: list[str] = []
    for knob in changed:
        lore = LORE[knob.kind]
        up = knob.values.index(setting[knob.key]) > knob.values.index(knob.value)
        reasons.append(lore.up if up else lore.down)
    return "; ".join(dict.fromkeys(reasons))


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
