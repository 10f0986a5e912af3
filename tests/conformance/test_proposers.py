"""Every built-in proposer does what a proposer must; each is reached by its entry-point name."""

from __future__ import annotations

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
