"""The benchmark of proposers in short: search beats chance, and the table says by how much."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks import search as benchmark

from overnight.contracts.proposing import Proposer
from overnight.proposers.random import BestOfNProposer, RandomProposer
from overnight.proposers.search import SearchProposer

FACTORIES: dict[str, Callable[[dict[str, object]], Proposer]] = {
    "search": SearchProposer, "random": RandomProposer, "best_of_n": BestOfNProposer,
}  # fmt: skip


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, as pyproject.toml declares them: an environment may be older than best_of_n."""
    monkeypatch.setattr(benchmark.plugins, "load", lambda _, name: FACTORIES[name])


def regret(name: str, proposer: str, seeds: range, ideas: int, in_flight: int = 1) -> float:
    (objective,) = (one for one in benchmark.OBJECTIVES if one.name == name)
    return benchmark.medians(objective, proposer, seeds, [ideas], in_flight)[0]


def test_search_has_less_than_half_the_regret_of_chance_after_thirty_ideas() -> None:
    seeds = range(3)
    ratios: dict[str, list[float]] = {"random": [], "best_of_n": []}
    for name in ("bowl", "cliff", "noisy"):
        searched = regret(name, "search", seeds, 30)
        for control, found in ratios.items():
            found.append(benchmark.ratio(regret(name, control, seeds, 30), searched))
    means = {control: statistics.geometric_mean(found) for control, found in ratios.items()}
    print("seeds", list(seeds), "ratios", ratios, "means", means)

    assert min(means.values()) > 2.0


def test_the_kept_regret_never_rises_without_noise_and_begins_at_one() -> None:
    (bowl,) = (one for one in benchmark.OBJECTIVES if one.name == "bowl")
    curve = benchmark.curve(bowl, "random", seed=1, ideas=12, in_flight=4)

    assert curve == sorted(curve, reverse=True)
    assert curve[0] <= 1.0


def test_the_table_is_written_between_its_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n" + "old\n".join(benchmark.MARKS) + "\nafter\n")
    monkeypatch.setattr(benchmark, "OBJECTIVES", benchmark.OBJECTIVES[:1])
    monkeypatch.setattr(
        "sys.argv",
        ["search.py", "--seeds", "2", "--ideas", "3", "--in-flight", "1", "--write", str(page)],
    )
    benchmark.main()
    text = page.read_text()

    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "seeds 0 to 1" in text
    assert "| bowl: six constants, each by itself |" in text
