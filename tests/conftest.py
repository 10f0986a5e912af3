"""What all tests share: helper modules that lie beside this file, and a private Redis."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Tests are imported by path (importmode=importlib), so helpers need their folder on the path.
sys.path.insert(0, str(Path(__file__).parent))

from redis_server import RedisServer

# How long a draw takes says something of the host, nothing of the code.
settings.register_profile(
    "any-host", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("any-host")


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """An empty Redis of this test's own."""
    with RedisServer() as server:
        yield server
