"""A first program.md from what was measured and what the code shows. Pure.

What only a person can say is a line that begins with TODO, never an invention of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from overnight.contracts.loop import LoopConfig
from overnight.contracts.status import Direction, Gate
from overnight.contracts.untrusted import one_line
from overnight.sessions.report.figures import names, number

_KNOBS = 24
_UNITS = {Gate.TIME: "s", Gate.CPU_TIME: "CPU-seconds", Gate.EPOCHS: "epochs", Gate.STEPS: "steps"}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A baseline."""

    metric: float
    by: str  #: e.g. `overnight once`, or which experiment of which session
    peak_vram_mb: float | None = None
    runtime_s: float | None = None
    hardware: str = ""


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What a program stands on."""

    name: str  #: of the repository's folder
    config: LoopConfig
    measured: Measured | None
    frozen: Sequence[str] = ()  #: some files that nobody may change
    knobs: Mapping[str, str] = field(default_factory=dict)  #: constants: name -> as written
    tried: Sequence[str] = ()


def program(ground: Ground) -> str:
    """The text of a new program.md."""
    return "\n".join(
        [
            f"# Program: {one_line(ground.name, 80)}",
            "",
            "What a session may try and what it leaves alone. A session reads it when it begins;"
            " a later change counts for the next one.",
            "",
            "## Goal",
            "",
            goal(ground.config),
            "TODO: what it is for, and which value would be good enough to stop.",
            "",
            "## Baseline",
            "",
            *baseline(ground.config, ground.measured),
            "",
            "## Directions, most promising first",
            "",
            *_directions(ground),
            "",
            "## Already tried",
            "",
            *(ground.tried or ["Nothing yet."]),
            "",
            "## Constraints",
            "",
            *constraints(ground),
            "",
        ]
    )


def goal(config: LoopConfig) -> str:
    """Tied to the metric."""
    way = "lowest" if config.metric.direction is Direction.MINIMIZE else "highest"
    target = config.metric.target
    aim = "" if target is None else f" A session ends at {target:g} or better."
    command = _code(" ".join(config.run_cmd))
    return f"The {way} `{config.metric.name}` that {command} reaches within its budget.{aim}"


def baseline(config: LoopConfig, measured: Measured | None) -> list[str]:
    """What the unmodified code reaches, and what it needs."""
    if measured is None:
        return ["TODO: not measured yet: `overnight once` measures it."]
    facts = [f"`{config.metric.name}` {number(measured.metric)}"]
    if measured.peak_vram_mb is not None:
        facts.append(f"peak VRAM {gigabytes(measured.peak_vram_mb)}")
    if measured.runtime_s is not None:
        facts.append(f"{measured.runtime_s:.1f} s")
    if measured.hardware:
        facts.append(f"on {one_line(measured.hardware, 80)}")
    return [f"{', '.join(facts)}; {measured.by}."]


def gigabytes(megabytes: float) -> str:
    """`44.0 GB`."""
    return f"{megabytes / 1024:.1f} GB"


def _directions(ground: Ground) -> list[str]:
    lines = ["1. TODO: your first idea: what to change and why it should help, so that one run can"
             " refute it."]  # fmt: skip
    if ground.knobs:
        shown = [f"{_code(f'{name} = {value}')}" for name, value in ground.knobs.items()]
        lines.append(f"2. One constant at a time, around its value: {names(shown, _KNOBS)}.")
        lines.append("3. What won alone, together.")
    return lines


def constraints(ground: Ground) -> list[str]:
    """From the bindings; each is what the session will really hold to."""
    config = ground.config
    edits = names([_code(path) for path in config.editable_files], 8)
    frozen = f": {names([_code(path) for path in ground.frozen], 8)}" if ground.frozen else ""
    limit = config.policy.limits.vram_gb
    vram = f"VRAM: at most {limit:g} GB." if limit is not None else "VRAM: no limit is set" + (
        f"; the baseline takes {gigabytes(ground.measured.peak_vram_mb)}."
        if ground.measured is not None and ground.measured.peak_vram_mb else
        " (`policy.limits.vram_gb`)."
    )  # fmt: skip
    return [
        f"- Budget: {config.budget:g} {_UNITS[config.gate]} an experiment,"
        f" killed after {_kill(config)}.",
        f"- Only {edits} may be edited. All else is frozen{frozen}.",
        "- No new packages" + ("; no network." if config.network == "none" else "."),
        f"- {vram}",
        "- One meaningful change an experiment, so that each result has one cause.",
        f"- At an equal `{config.metric.name}` the shorter code wins.",
    ]


def _kill(config: LoopConfig) -> str:
    """As the orchestrator sets the deadline: epochs and steps are never counted for it."""
    if config.deadline_seconds:
        return f"{config.deadline_seconds:g} s"
    graces = config.startup_grace + config.eval_grace
    if config.gate in (Gate.EPOCHS, Gate.STEPS):
        more = f" plus {graces:g} s" if graces else ""
        return f"{config.kill_factor:g} times what the baseline took{more}"
    return f"{config.kill_factor * config.budget + graces:g} {_UNITS[config.gate]}"


def _code(text: str) -> str:
    """As code, so that nothing in it is read as a person's words or as markup."""
    return f"`{one_line(text, 120).replace('`', chr(39))}`"
