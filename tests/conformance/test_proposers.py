"""Every built-in proposer does what a proposer must; each is reached by its entry-point name."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest
from tests.conformance.proposer_suite import Factory, ProposerSuite

from overnight import plugins


class TestSearch(ProposerSuite):
    @pytest.fixture
    def factory(self) -> Factory:
        return plugins.load(plugins.PROPOSERS, "search")


class TestRandom(ProposerSuite):
    @pytest.fixture
    def factory(self) -> Factory:
        return plugins.load(plugins.PROPOSERS, "random")


class TestBestOfN(ProposerSuite):
    ON_THE_BASELINE = True

    @pytest.fixture
    def factory(self) -> Factory:
        """As pyproject.toml declares it: an environment may have been installed before it was."""
        text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
        points = tomllib.loads(text)["project"]["entry-points"][plugins.PROPOSERS]
        module, _, name = points["best_of_n"].partition(":")
        factory: Factory = getattr(importlib.import_module(module), name)
        return factory
