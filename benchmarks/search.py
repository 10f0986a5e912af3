"""
Does `search` beat chance? Regret of the built-in proposers on made-up objectives.

    PYTHONPATH=services:. python benchmarks/search.py                     # all, four minutes
    PYTHONPATH=services:. python benchmarks/search.py --seeds 5 --ideas 30 --in-flight 8
    PYTHONPATH=services:. python benchmarks/search.py --write docs/search.md

Each objective is a cheap function of the constants in a made-up train.py: nothing is trained. The
proposers see what they see in a session (the text, the history) and keep what is strictly better.
Regret: how far the kept setting's true value is from the objective's best; the baseline's is 1.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import math
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from overnight import plugins
from overnight.contracts.loop import MetricSpec
from overnight.contracts.proposing import History, Past, Proposer
from overnight.contracts.status import Role, Status

Constants = dict[str, object]
PROPOSERS = ("search", "random")
MARKS = ("<!-- benchmark: begin -->", "<!-- benchmark: end -->")


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A function of constants; its lowest value is 0, None means that the run crashes."""

    name: str
    what: str  #: in one line, for the table
    text: str  #: train.py
    loss: Callable[[Constants], float | None]
    noise: float = 0.0  #: standard deviation of what is measured, as a share of the baseline's loss


# --- the objectives ----------------------------------------------------------------------------

SMALL = """\
LR = 1e-3
WEIGHT_DECAY = 0.0
BATCH = 8
DEPTH = 2
DROPOUT = 0.2
WARMUP = 0.0
print(LR, WEIGHT_DECAY, BATCH, DEPTH, DROPOUT, WARMUP)
"""
MANY = "".join(f"{name} = {value}\n" for name, value in {
    "LR": 1e-3, "HEAD_LR": 1e-2, "WEIGHT_DECAY": 0.01, "BETA1": 0.9, "BETA2": 0.95,
    "GRAD_CLIP": 1.0, "BATCH": 32, "DEPTH": 6, "DIM": 256, "HEADS": 8, "MLP_RATIO": 4,
    "DROPOUT": 0.1, "WARMUP": 0.1, "WARMDOWN": 0.3, "FINAL_LR_FRAC": 0.1, "LABEL_SMOOTHING": 0.0,
    "INIT_SCALE": 0.02, "SOFTCAP": 15.0, "ROPE": False, "TIED": True,
}.items())  # fmt: skip
MANY += f"print({', '.join(line.split(' ')[0] for line in MANY.splitlines())})\n"
CHOICES = """\
ACTIVATION = "gelu"  # gelu | relu | relu2 | silu | tanh
NORM = "layer"  # layer | rms | none
OPTIMIZER = "adam"  # adam | sgd | lion | muon
ROPE = False
QK_NORM = False
LR = 1e-3
print(ACTIVATION, NORM, OPTIMIZER, ROPE, QK_NORM, LR)
"""


def off(value: object, best: float) -> float:
    """Decades between two positive numbers."""
    return math.log10(float(str(value)) / best)


def bowl(k: Constants) -> float:
    """Each constant by itself."""
    return (
        off(k["LR"], 4e-3) ** 2
        + 0.3 * (float(str(k["DROPOUT"])) - 0.05) ** 2
        + 0.2 * abs(float(str(k["WEIGHT_DECAY"])) - 0.1)
        + 0.05 * math.log2(int(str(k["BATCH"])) / 32) ** 2
        + 0.05 * (int(str(k["DEPTH"])) - 4) ** 2
        + 0.3 * (float(str(k["WARMUP"])) - 0.1) ** 2
    )


def ridge(k: Constants) -> float:
    """The best LR moves with BATCH and DEPTH: one at a time goes slowly."""
    batch, depth = int(str(k["BATCH"])), int(str(k["DEPTH"]))
    lr = 1e-3 * (batch / 8) * (2 / depth) ** 2
    return (
        2 * off(k["LR"], lr) ** 2
        + 0.06 * math.log2(batch / 64) ** 2
        + 0.04 * (depth - 1) ** 2
        + 0.2 * (float(str(k["DROPOUT"])) - 0.1) ** 2
    )


def few_of_many(k: Constants) -> float:
    """Three of twenty matter."""
    return (
        off(k["LR"], 5e-3) ** 2
        + 0.3 * off(k["INIT_SCALE"], 0.1) ** 2
        + 0.8 * (float(str(k["WARMDOWN"])) - 0.7) ** 2
    )


def cliff(k: Constants) -> float | None:
    """The bowl with its best beside a cliff: too large a step, or too much memory, crashes."""
    too_fast = float(str(k["LR"])) > 5e-3 * (2 / int(str(k["DEPTH"])))
    too_large = int(str(k["BATCH"])) * int(str(k["DEPTH"])) > 64
    if too_fast or too_large:
        return None
    return (
        off(k["LR"], 5e-3 * (2 / int(str(k["DEPTH"])))) ** 2
        + 0.05 * math.log2(int(str(k["BATCH"])) / 16) ** 2
        + 0.05 * (int(str(k["DEPTH"])) - 4) ** 2
        + 0.2 * (float(str(k["DROPOUT"])) - 0.0) ** 2
    )


def choices(k: Constants) -> float:
    """Words and switches, two of which only help together."""
    loss = {"gelu": 0.1, "relu": 0.15, "relu2": 0.0, "silu": 0.08, "tanh": 0.4}[
        str(k["ACTIVATION"])
    ]
    loss += {"layer": 0.05, "rms": 0.0, "none": 0.5}[str(k["NORM"])]
    loss += {"adam": 0.15, "sgd": 0.6, "lion": 0.1, "muon": 0.0}[str(k["OPTIMIZER"])]
    loss += 0.0 if k["ROPE"] else 0.1
    loss += 0.0 if k["QK_NORM"] and k["ROPE"] else 0.1 if not k["QK_NORM"] else 0.12
    best = {"adam": 3e-3, "sgd": 3e-2, "lion": 3e-4, "muon": 2e-2}[str(k["OPTIMIZER"])]
    return loss + 0.3 * off(k["LR"], best) ** 2


def rugged(k: Constants) -> float:
    """The bowl with ripples: a step may look bad that two would not."""
    lr, depth = off(k["LR"], 4e-3), int(str(k["DEPTH"]))
    ripples = 0.06 * (1 - math.cos(9 * lr)) + 0.05 * (depth % 2)
    return bowl(k) + ripples


OBJECTIVES = (
    Objective(name="bowl", what="six constants, each by itself", text=SMALL, loss=bowl),
    Objective(name="ridge", what="the best LR moves with BATCH and DEPTH", text=SMALL, loss=ridge),
    Objective(name="few", what="3 of 20 constants matter", text=MANY, loss=few_of_many),
    Objective(name="cliff", what="crashes just beyond the best", text=SMALL, loss=cliff),
    Objective(name="choices", what="words and switches, two help only together", text=CHOICES,
              loss=choices),
    Objective(name="rugged", what="bowl with ripples", text=SMALL, loss=rugged),
    Objective(name="noisy", what="bowl, measured with 5 % noise", text=SMALL, loss=bowl,
              noise=0.05),
)  # fmt: skip


def constants_of(text: str) -> Constants:
    """What the top of a file sets, read without the product's own reader."""
    found: Constants = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = ast.literal_eval(node.value)
    return found


# --- a make-believe session --------------------------------------------------------------------


@dataclass
class Play:
    """Plays orchestrator and runners: hands the history on, keeps what measures strictly better."""

    objective: Objective
    seed: int
    texts: dict[int, str] = field(default_factory=dict)
    pasts: list[Past] = field(default_factory=list)
    incumbent: int = 1

    def __post_init__(self) -> None:
        self.texts[1] = self.objective.text
        self._add(Role.BASELINE, None, "baseline", "orchestrator", {})
        self.end(1)

    def history(self) -> History:
        """As the orchestrator would fold it."""
        best = self.pasts[self.incumbent - 1].metric
        baseline = self.pasts[0].metric
        assert best is not None
        assert baseline is not None
        return History(
            tag="benchmark", metric=MetricSpec(name="loss"), baseline_metric=baseline,
            incumbent=self.incumbent, incumbent_metric=best,
            parent_files={"train.py": self.texts[self.incumbent]}, experiments=tuple(self.pasts),
            next_id=len(self.pasts) + 1, seed=self.seed,
        )  # fmt: skip

    def regret(self, number: int) -> float | None:
        """Of one experiment, without noise; the baseline has 1."""
        loss = self.objective.loss(constants_of(self.texts[number]))
        worst = self.objective.loss(constants_of(self.objective.text))
        return None if loss is None or worst is None else loss / worst

    def end(self, number: int) -> None:
        """Measure it, decide it."""
        metric = self.regret(number)
        if metric is not None and self.objective.noise:
            key = f"{self.seed}:{number}".encode()
            chance = random.Random(hashlib.sha256(key).digest())
            metric += chance.gauss(0, self.objective.noise)
        best = self.pasts[self.incumbent - 1].metric
        kept = metric is not None and (best is None or metric < best)
        status = Status.CRASH if metric is None else Status.KEEP if kept else Status.DISCARD
        self.pasts[number - 1] = replace(self.pasts[number - 1], status=status, metric=metric)
        if kept:
            self.incumbent = number

    def propose(self, proposer: Proposer) -> int:
        """One idea, in flight from now on."""
        proposal = proposer.propose(self.history())
        self._add(
            Role.CANDIDATE, proposal.parent, proposal.hypothesis, proposal.proposer,
            proposal.details,
        )  # fmt: skip
        number = len(self.pasts)
        self.texts[number] = proposal.changes["train.py"]
        return number

    def _add(self, role: Role, parent: int | None, why: str, by: str,
             details: dict[str, object]) -> None:  # fmt: skip
        self.pasts.append(
            Past(
                id=len(self.pasts) + 1, role=role, parent=parent, status=None, reason=None,
                metric=None, hypothesis=why, proposer=by, details=details, runtime_s=None,
            )
        )  # fmt: skip


def curve(
    objective: Objective, proposer: str, seed: int, ideas: int, in_flight: int = 1
) -> list[float]:
    """The kept setting's regret after each of *ideas* ended; *in_flight* run at a time."""
    play, asked = (
        Play(objective=objective, seed=seed),
        plugins.load(plugins.PROPOSERS, proposer)({}),
    )
    flying: list[int] = []
    regrets: list[float] = []
    proposed = 0
    while len(regrets) < ideas:
        while proposed < ideas and len(flying) < in_flight:
            flying.append(play.propose(asked))
            proposed += 1
        play.end(flying.pop(0))
        regret = play.regret(play.incumbent)
        assert regret is not None  # what crashed is never kept
        regrets.append(regret)
    return regrets


# --- the table ---------------------------------------------------------------------------------


def medians(
    objective: Objective, proposer: str, seeds: range, ideas: list[int], in_flight: int
) -> list[float]:
    """Median regret over *seeds* after each of *ideas*."""
    curves = [curve(objective, proposer, seed, max(ideas), in_flight) for seed in seeds]
    return [statistics.median(one[count - 1] for one in curves) for count in ideas]


def ratio(control: float, searched: float) -> float:
    """How many times the control's regret is; a floor keeps a found optimum finite."""
    return max(control, 1e-3) / max(searched, 1e-3)


def rows(seeds: range, ideas: list[int], in_flight: int) -> Iterator[str]:
    """The table in Markdown, a line as soon as it is known."""
    yield f"| objective | {' | '.join(f'{p} @{n}' for n in ideas for p in PROPOSERS)} |"
    yield f"|---|{'---|' * len(ideas) * len(PROPOSERS)}"
    ratios: dict[tuple[str, int], list[float]] = {}
    for objective in OBJECTIVES:
        found = {p: medians(objective, p, seeds, ideas, in_flight) for p in PROPOSERS}
        cells = []
        for index, count in enumerate(ideas):
            searched = found["search"][index]
            cells.append(f"{searched:.3f}")
            for control in PROPOSERS[1:]:
                times = ratio(found[control][index], searched)
                ratios.setdefault((control, count), []).append(times)
                cells.append(f"{found[control][index]:.3f} ({times:.1f}x)")
        yield f"| {objective.name}: {objective.what} | {' | '.join(cells)} |"
    means = [
        ""
        if control == "search"
        else f"**{statistics.geometric_mean(ratios[control, count]):.1f}x**"
        for count in ideas
        for control in PROPOSERS
    ]
    yield f"| geometric mean of the ratios | {' | '.join(means)} |"


def main() -> None:
    """Print the table; with --write put it between the marks of a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0].strip())
    parser.add_argument("--seeds", type=int, default=15)
    parser.add_argument("--ideas", type=int, nargs="+", default=[10, 30, 60])
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--only", nargs="*", default=None, help="names of objectives")
    parser.add_argument("--write", type=Path, help="a page with the two marks")
    options = parser.parse_args()
    seeds, began, lines = range(options.seeds), time.monotonic(), []

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    for in_flight in options.in_flight:
        say(f"Median regret of seeds {seeds[0]} to {seeds[-1]}, {in_flight} in flight "
            "(1 = baseline, 0 = best; in brackets: how many times search's):")  # fmt: skip
        say("")
        for line in rows(seeds, options.ideas, in_flight):
            say(line)
        say("")
    say(f"Measured with `python benchmarks/search.py` on {os.cpu_count()} shared cores "
        f"({platform.machine()}, Python {platform.python_version()}) in "
        f"{time.monotonic() - began:.0f} s; the values do not depend on the machine.")  # fmt: skip
    if options.write:
        page = options.write.read_text()
        before, _, rest = page.partition(MARKS[0])
        _, _, after = rest.partition(MARKS[1])
        if not rest or not after:
            sys.exit(f"{options.write}: needs the lines {MARKS[0]} and {MARKS[1]}")
        options.write.write_text("\n".join([before + MARKS[0], *lines, MARKS[1] + after]))


if __name__ == "__main__":
    main()
