"""What agent and person agree on, in words: question, metric, rules, bounds, stop rules. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from overnight.contracts.loop import (
    CommandSource,
    Constraint,
    JsonSource,
    LoopConfig,
    MetricSpec,
    RegexSource,
)
from overnight.contracts.status import Direction, Gate, Strategy
from overnight.contracts.untrusted import one_line

AGENT_LOG = "agent.jsonl"  #: an agent's own experiments; beside the code, sandbox_root is ours
ASKED_CHARS = 2000
NONE_YET = "none yet"
_TAKEN = {"last": "last", "min": "lowest", "max": "highest", "only": "one"}
_UNITS = {
    Gate.TIME: "s",
    Gate.CPU_TIME: "CPU-seconds",
    Gate.EPOCHS: "epochs",
    Gate.STEPS: "steps",
}


@dataclass(frozen=True, kw_only=True)
class Last:
    """The experiment that ended last."""

    id: int
    verdict: str  #: e.g. discard, crash:oom
    metric: float | None
    failed: bool  #: worse, or no metric at all
    log_tail: str = ""  #: untrusted


@dataclass(frozen=True, kw_only=True)
class Brief:
    """A session as a prompt tells it. Before there is one: the bindings alone."""

    config: LoopConfig
    tag: str | None = None
    branch: str | None = None  #: the session's, where it is in the user's repository
    baseline: float | None = None
    best: tuple[int, float] | None = None
    best_diff: str = ""  #: against the baseline; untrusted
    tried: str = ""  #: counts, in words
    number: int = 1  #: of the next iteration
    degradations: int = 0  #: decided ideas in a row that were worse
    strategy: Strategy = Strategy.NORMAL
    parent: int | None = None  #: whose code the next idea edits
    last: Last | None = None
    log: tuple[str, ...] = ()  #: one JSON object an experiment; untrusted
    left_out: int = 0  #: experiments that `log` does not show
    advice: tuple[str, ...] = ()  #: a person's, newest last
    in_git: bool = True
    has_program: bool = False  #: does program.md lie there?


def question(brief: Brief) -> str:
    """What the research is about. Without one of the user's own, what the metric asks."""
    asked = brief.config.research.question
    if asked:
        return asked_for(asked)
    metric = brief.config.metric
    way = "low" if metric.direction is Direction.MINIMIZE else "high"
    return f"How {way} can {metric.name} get within the budget?"


def starting_hypothesis(brief: Brief) -> str:
    """What is tried first."""
    given = brief.config.research.starting_hypothesis
    if given:
        return asked_for(given)
    files = ", ".join(brief.config.editable_files)
    return f"yours. Read {files} first, then name the one change that most likely pays."


def metric_in_words(metric: MetricSpec) -> str:
    """Name, direction, where it is read, target."""
    way = "lower" if metric.direction is Direction.MINIMIZE else "higher"
    target = "" if metric.target is None else f"; target {metric.target:g}"
    return f"{metric.name}, one number, {way} is better; {_source(metric)}{target}"


def best_in_words(brief: Brief) -> str:
    """`val_bpb 1.7355 (experiment 16; baseline 1.9984)`."""
    name = brief.config.metric.name
    if brief.best is None:
        return NONE_YET
    number, value = brief.best
    if number == 1 or brief.baseline is None:
        return f"{name} {value:.6g} (the baseline)"
    return f"{name} {value:.6g} (experiment {number}; baseline {brief.baseline:.6g})"


def rules(brief: Brief) -> list[str]:
    """How an experiment is made."""
    config = brief.config
    budget = f"{config.budget:g} {_UNITS[config.gate]}"
    found = []
    if brief.has_program:
        found.append("Read program.md first: a person's directions. It is read-only for you.")
    found += [
        f"Edit only {', '.join(config.editable_files)}; all the rest is frozen, the evaluation "
        "above all.",
        "One change an experiment, so that each difference has one cause.",
        f"A run is `{_command(config.run_cmd)}` under a budget of {budget}, {_kill(config)}. "
        "`overnight once --json` measures it, keeping nothing.",
        _keeping(brief),
        f"Log each result as one line of {AGENT_LOG}, which is never committed: "
        '{"id": N, "branch": "...", "hypothesis": "...", "metric": NUMBER or null, '
        '"runtime_s": N, "notes": "..."}.',
        "In this order: implement, run, log, analyse, propose the next. Report the metric before "
        "you propose.",
        "After a failure, go back to a simpler hypothesis.",
    ]
    found += [_bound(constraint) for constraint in config.constraints]
    if config.guard is not None:
        found.append(f"What is kept has to pass `{_command(config.guard)}`.")
    if config.policy.limits.vram_gb is not None:
        found.append(f"It has to fit into {config.policy.limits.vram_gb:g} GB of VRAM.")
    return found


def never(config: LoopConfig) -> list[str]:
    """What an agent leaves alone."""
    return [
        "Never change the research question, the metric, or how it is measured.",
        "Never commit to the branch that you found, and never delete data, commits or results of "
        "earlier experiments.",
        "Never install a package or add a dependency.",
        f"Never write to {config.sandbox_root}: Overnight's session lies there.",
    ]


def stop_rules(config: LoopConfig) -> list[str]:
    """When the work ends or a person is asked, as the session is set up."""
    policy, limits = config.policy, config.policy.limits
    found = []
    if policy.approval == "hypothesis":
        found.append("Wait for a person's approval of each hypothesis before you implement it.")
    if policy.autonomy == "ask":
        found.append(
            f"Stop and ask when the metric got worse {policy.ask_after_degradations} times in a "
            "row."
        )
    if config.metric.target is not None:
        found.append(f"Stop when {config.metric.name} reaches {config.metric.target:g}.")
    spent = [
        (limits.experiments, "experiments"),
        (limits.hours, "hours"),
        (limits.gpu_hours, "GPU-hours"),
        (limits.usd, "USD"),
    ]
    ends = " or ".join(f"{value:g} {unit}" for value, unit in spent if value is not None)
    if ends:
        found.append(f"Stop after {ends}.")
    each = [(limits.per_experiment.gpu_hours, "GPU-hours"), (limits.per_experiment.usd, "USD")]
    bound = " or ".join(f"{value:g} {unit}" for value, unit in each if value is not None)
    if bound:
        found.append(f"Ask before an experiment that costs more than {bound}.")
    if policy.autonomy == "never_stop":
        found.append(
            "Don't ask whether to go on, and don't stop for want of ideas: read the files again, "
            "combine near misses, try something bolder. A person will interrupt you."
        )
    return found


def _kill(config: LoopConfig) -> str:
    grace = config.startup_grace + config.eval_grace
    unit = _UNITS[Gate.CPU_TIME if config.gate is Gate.CPU_TIME else Gate.TIME]
    more = f" plus {grace:g} {unit}" if grace else ""
    if config.deadline_seconds is not None:
        more += f", after {config.deadline_seconds:g} s by the clock at the latest"
    timed = config.gate in (Gate.EPOCHS, Gate.STEPS)  # never counted from outside
    what = "what the baseline took" if timed else "that"
    return f"killed at {config.kill_factor:g} times {what}{more}"


def _keeping(brief: Brief) -> str:
    if not brief.in_git:
        return "There is no git here: keep each experiment's edited files in a folder of its own."
    return (
        f"Each experiment gets a branch of its own, {own_branch(brief)}, and one commit, "
        "`exp: HYPOTHESIS`, before the next one begins."
    )


def own_branch(brief: Brief) -> str:
    """Where an agent commits its own experiments."""
    return f"exp/{brief.tag}/SHORT-NAME" if brief.tag else "exp/SHORT-NAME"


def _source(metric: MetricSpec) -> str:
    source = metric.source
    if isinstance(source, RegexSource):
        return f"the {_TAKEN[source.take]} match of `{one_line(source.regex, 200)}` in its output"
    if isinstance(source, JsonSource):
        return f"`{one_line(source.key, 100)}` in the file {source.file} that the run writes"
    if isinstance(source, CommandSource):
        return f"printed by the frozen command `{_command(source.command)}` after the run"
    return f"the line `{metric.name}: NUMBER` that it prints"


def _bound(constraint: Constraint) -> str:
    low, high = constraint.min, constraint.max
    bounds = [f"at least {low:g}"] if low is not None else []
    bounds += [f"at most {high:g}"] if high is not None else []
    return f"{constraint.name} has to be {' and '.join(bounds) or 'printed'} to be kept."


def _command(words: Iterable[str]) -> str:
    return one_line(" ".join(words), 300).replace("`", "'")


def asked_for(text: str) -> str:
    """A person's own words on one line."""
    return one_line(text, ASKED_CHARS)
