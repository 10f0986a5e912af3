"""
Does `search` beat chance? Regret of the built-in proposers on made-up objectives.

    PYTHONPATH=services:. python benchmarks/search.py                     # all, four minutes
    PYTHONPATH=services:. python benchmarks/search.py --seeds 5 --ideas 30 --in-flight 8
    PYTHONPATH=services:. python benchmarks/search.py --write docs/search.md

Each objective is a cheap function of the constants in a made-up train.py: nothing is trained. Where
its best lies is drawn for each seed, within a factor of ten of where the constants begin. The
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
from overnight.contracts.status import Role, Status, Strategy

Constants = dict[str, object]
PROPOSERS = ("search", "random", "best_of_n")
MARKS = ("<!-- benchmark: begin -->", "<!-- benchmark: end -->")


Loss = Callable[[Constants], float | None]  #: 0 at the best, None: it crashes


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A family of functions of constants; where the best lies is drawn for each seed."""

    name: str
    what: str  #: in one line, for the table
    text: str  #: train.py
    make: Callable[[random.Random], Loss]
    noise: float = 0.0  #: standard deviation of what is measured, as a share of the baseline's loss


# --- the objectives ----------------------------------------------------------------------------

SMALL = """\
LR = 1e-3
WEIGHT_DECAY = 0.03
BATCH = 16
DEPTH = 4
DROPOUT = 0.1
WARMUP = 0.1
print(LR, WEIGHT_DECAY, BATCH, DEPTH, DROPOUT, WARMUP)
"""
MANY = "".join(f"{name} = {value}\n" for name, value in {
    "LR": 1e-3, "HEAD_LR": 1e-2, "WEIGHT_DECAY": 0.01, "BETA1": 0.9, "BETA2": 0.95,
    "GRAD_CLIP": 1.0, "BATCH": 32, "DEPTH": 6, "DIM": 256, "HEADS": 8, "MLP_RATIO": 4,
    "DROPOUT": 0.1, "WARMUP": 0.1, "WARMDOWN": 0.3, "FINAL_LR_FRAC": 0.1, "LABEL_SMOOTHING": 0.1,
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
SETS = {"ACTIVATION": ("gelu", "relu", "relu2", "silu", "tanh"), "NORM": ("layer", "rms", "none"),
        "OPTIMIZER": ("adam", "sgd", "lion", "muon")}  # fmt: skip
SHARES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)


def number(value: object) -> float:
    """A constant that is one."""
    return float(str(value))


def factor(rng: random.Random, most: float) -> float:
    """From 1 / *most* to *most*, equally likely a factor up as down."""
    return most ** rng.uniform(-1, 1)


def apart(value: object, best: float, size: float) -> float:
    """Squared distance of two positive numbers, 1 when they differ by a factor of *size*."""
    return (math.log(number(value) / best) / math.log(size)) ** 2


def bowl(rng: random.Random) -> Loss:
    """Each constant by itself."""
    lr, batch, decay = 1e-3 * factor(rng, 10), 16 * 2 ** rng.randint(-2, 2), 0.03 * factor(rng, 5)
    depth, dropout, warmup = rng.randint(2, 8), rng.choice(SHARES), rng.choice(SHARES)

    def loss(k: Constants) -> float:
        return (
            apart(k["LR"], lr, 10)
            + 0.5 * apart(k["BATCH"], batch, 8)
            + 0.2 * apart(number(k["WEIGHT_DECAY"]) + 1e-3, decay + 1e-3, 10)
            + 0.5 * apart(k["DEPTH"], depth, 2)
            + 2.0 * (number(k["DROPOUT"]) - dropout) ** 2
            + 1.0 * (number(k["WARMUP"]) - warmup) ** 2
        )

    return loss


def ridge(rng: random.Random) -> Loss:
    """The best LR moves with BATCH and DEPTH: one at a time goes slowly."""
    scale, best_batch = factor(rng, 3), 16 * 2 ** rng.randint(-2, 2)
    best_depth, dropout = rng.randint(2, 8), rng.choice(SHARES)

    def loss(k: Constants) -> float:
        lr = 1e-3 * scale * number(k["BATCH"]) / 16 * (4 / number(k["DEPTH"])) ** 1.5
        return (
            2.0 * apart(k["LR"], lr, 10)
            + 0.5 * apart(k["BATCH"], best_batch, 8)
            + 0.5 * apart(k["DEPTH"], best_depth, 2)
            + 1.0 * (number(k["DROPOUT"]) - dropout) ** 2
        )

    return loss


def few(rng: random.Random) -> Loss:
    """LR and two more of twenty matter; which two is drawn."""
    start = constants_of(MANY)
    others = [name for name, value in start.items() if name != "LR" and type(value) is not bool]
    best = {"LR": 1e-3 * factor(rng, 10)}
    for name in rng.sample(others, 2):
        best[name] = number(start[name]) * factor(rng, 4)

    def loss(k: Constants) -> float:
        return sum(apart(number(k[name]) + 1e-9, value, 10 if name == "LR" else 4)
                   for name, value in best.items())  # fmt: skip

    return loss


def cliff(rng: random.Random) -> Loss:
    """Its best lies beside a cliff: too large a step, or too much memory, crashes."""
    limit, memory = 1e-3 * 10 ** rng.uniform(0.2, 1), 64 * 2 ** rng.randint(1, 3)
    depth, dropout = rng.randint(2, 8), rng.choice(SHARES)

    def loss(k: Constants) -> float | None:
        highest = limit * 4 / number(k["DEPTH"])
        if number(k["LR"]) > highest or number(k["BATCH"]) * number(k["DEPTH"]) > memory:
            return None
        return (
            apart(k["LR"], highest, 10)
            + 0.5 * apart(k["BATCH"], max(1, memory / number(k["DEPTH"])), 8)
            + 0.5 * apart(k["DEPTH"], depth, 2)
            + 1.0 * (number(k["DROPOUT"]) - dropout) ** 2
        )

    return loss


def choices(rng: random.Random) -> Loss:
    """Words and switches; ROPE and QK_NORM only help together; each optimizer has its own LR."""
    costs = {name: dict(zip(words, rng.sample([0.0, 0.1, 0.2, 0.3, 0.5], len(words)), strict=True))
             for name, words in SETS.items()}  # fmt: skip
    lr = {word: 1e-3 * factor(rng, 10) for word in SETS["OPTIMIZER"]}

    def loss(k: Constants) -> float:
        words = sum(costs[name][str(k[name])] - min(costs[name].values()) for name in SETS)
        both = {(True, True): 0.0, (False, False): 0.2}.get((bool(k["ROPE"]), bool(k["QK_NORM"])))
        return (
            words + (0.25 if both is None else both) + apart(k["LR"], lr[str(k["OPTIMIZER"])], 10)
        )

    return loss


def rugged(rng: random.Random) -> Loss:
    """The bowl with ripples: a step may look bad where two would not."""
    smooth, phase = bowl(rng), rng.uniform(0, math.tau)

    def loss(k: Constants) -> float:
        under = smooth(k)
        assert under is not None
        place = math.log(number(k["LR"])) * 4 + number(k["DEPTH"]) * 2.3
        return under * (1 + 0.3 * math.sin(place + phase))

    return loss


OBJECTIVES = (
    Objective(name="bowl", what="six constants, each by itself", text=SMALL, make=bowl),
    Objective(name="ridge", what="the best LR moves with BATCH and DEPTH", text=SMALL, make=ridge),
    Objective(name="few", what="3 of 20 constants matter", text=MANY, make=few),
    Objective(name="cliff", what="crashes just beyond the best", text=SMALL, make=cliff),
    Objective(name="choices", what="words and switches, two help only together", text=CHOICES,
              make=choices),
    Objective(name="rugged", what="bowl with ripples", text=SMALL, make=rugged),
    Objective(name="noisy", what="bowl, measured with 5 % noise", text=SMALL, make=bowl,
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
    ended: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        key = f"{self.objective.name}:{self.seed}".encode()
        self.loss = self.objective.make(random.Random(hashlib.sha256(key).digest()))
        self.texts[1] = self.objective.text
        self._add(Role.BASELINE, None, "baseline", "orchestrator", {})
        self.end(1)

    def history(self) -> History:
        """As the orchestrator would fold it."""
        best = self.pasts[self.incumbent - 1].metric
        baseline = self.pasts[0].metric
        assert best is not None
        assert baseline is not None
        strategy = self.strategy()
        parent = self.kept[-2] if strategy is Strategy.REWIND else self.incumbent
        return History(
            tag="benchmark", metric=MetricSpec(name="loss"), baseline_metric=baseline,
            incumbent=self.incumbent, incumbent_metric=best,
            parent_files={"train.py": self.texts[parent]}, experiments=tuple(self.pasts),
            baseline_files={"train.py": self.texts[1]}, parent=parent, strategy=strategy,
            next_id=len(self.pasts) + 1, seed=self.seed,
        )  # fmt: skip

    def strategy(self) -> Strategy:
        """What the policy asks for: its table in docs/policy.md, without the rewinds' pauses."""
        since = len(self.ended) - self.ended.index(self.incumbent) - 1
        if since >= 12 and since % 20 == 12 and len(self.kept) > 1:
            return Strategy.REWIND
        if since >= 5:
            best, baseline = self.pasts[self.incumbent - 1].metric, self.pasts[0].metric
            assert best is not None
            assert baseline is not None
            missed = [self.pasts[number - 1].metric for number in self.ended[-since:]]
            close = [m for m in missed if m is not None and m - best <= 0.01 * baseline]
            combine = Strategy.COMBINE if len(close) > 1 else Strategy.REREAD
            turns = (Strategy.SMALLER_STEP, combine, Strategy.REREAD, Strategy.BOLDER)
            return turns[(len(self.pasts) + 1) % 4]
        return Strategy.SMALLER_STEP if since else Strategy.NORMAL

    def regret(self, number: int) -> float | None:
        """Of one experiment, without noise; the baseline has 1."""
        loss, begun = (self.loss(constants_of(self.texts[one])) for one in (number, 1))
        return None if loss is None or begun is None else loss / begun

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
        self.ended.append(number)
        if kept:
            self.incumbent = number
            self.kept.append(number)

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
    """How many times search's regret the control's is; below a hundredth all is called found."""
    return max(control, 0.01) / max(searched, 0.01)


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
    parser.add_argument("--seeds", type=int, default=15, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--ideas", type=int, nargs="+", default=[10, 30, 60])
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--only", nargs="*", default=None, help="names of objectives")
    parser.add_argument("--write", type=Path, help="a page with the two marks")
    options = parser.parse_args()
    seeds, began, lines = (
        range(options.first_seed, options.first_seed + options.seeds),
        time.monotonic(),
        [],
    )

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
    words = " ".join(["benchmarks/search.py", *sys.argv[1:]]).split(" --write")[0]
    say(
        f"Measured with `python {words}` on {os.cpu_count()} shared cores ({platform.machine()}, "
        f"Python {platform.python_version()}) in {time.monotonic() - began:.0f} s; the\n"
        "values do not depend on the machine."
    )
    if options.write:
        page = options.write.read_text()
        before, _, rest = page.partition(MARKS[0])
        _, _, after = rest.partition(MARKS[1])
        if not rest or not after:
            sys.exit(f"{options.write}: needs the lines {MARKS[0]} and {MARKS[1]}")
        options.write.write_text("\n".join([before + MARKS[0], *lines, MARKS[1] + after]))


if __name__ == "__main__":
    main()
