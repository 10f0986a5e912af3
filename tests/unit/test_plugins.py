"""Plug-ins are found by entry-point name; what is wrong with one is told in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from overnight import plugins
from overnight.contracts.errors import ConfigError


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path; `offer` puts distributions into it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "night_plugin.py").write_text(
        "def make(options):\n    return options\nNUMBER = 3\n"
    )
    sys.modules.pop("night_plugin", None)
    return tmp_path


def offer(folder: Path, distribution: str, lines: str) -> None:
    info = folder / f"{distribution}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[overnight.proposers]\n{lines}\n")


def test_the_built_in_names_come_through_the_same_door() -> None:
    """Needs the package installed: pip install -e . once."""
    assert "process" in plugins.available(plugins.EXECUTORS)
    assert {"search", "random"} <= set(plugins.available(plugins.PROPOSERS))


def test_a_third_party_plug_in_is_loaded_by_name(third_party: Path) -> None:
    offer(third_party, "night-plugin", "mine = night_plugin:make")

    assert plugins.load(plugins.PROPOSERS, "mine")({"a": 1}) == {"a": 1}


def test_an_unknown_name_lists_what_exists(third_party: Path) -> None:
    offer(third_party, "night-plugin", "mine = night_plugin:make")
    with pytest.raises(ConfigError) as caught:
        plugins.load(plugins.PROPOSERS, "minee")

    there = "best_of_n, mine, random, search"
    assert str(caught.value) == f"no proposer named 'minee'; there are: {there}"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("night_plugin:nothing", "can't be loaded (night_plugin:nothing): module 'night_plugin'"),
        ("no_such_module:x", "can't be loaded (no_such_module:x): No module named"),
        ("night_plugin:NUMBER", "is no factory: night_plugin:NUMBER"),
    ],
)
def test_a_broken_plug_in_is_named_with_its_distribution(
    third_party: Path, value: str, message: str
) -> None:
    offer(third_party, "night-plugin", f"mine = {value}")
    with pytest.raises(ConfigError) as caught:
        plugins.load(plugins.PROPOSERS, "mine")

    assert str(caught.value).startswith(f"proposer 'mine' of night-plugin {message}")


def test_a_name_that_two_distributions_offer_is_refused(third_party: Path) -> None:
    offer(third_party, "night-plugin", "mine = night_plugin:make")
    offer(third_party, "other-plugin", "mine = other_plugin:make")

    with pytest.raises(ConfigError, match="more than once, by night-plugin, other-plugin"):
        plugins.load(plugins.PROPOSERS, "mine")
