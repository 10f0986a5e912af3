"""What all tests share: helper modules that lie beside this file, and a private Redis."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Tests are imported by path (importmode=importlib), so helpers need their folder on the path.
sys.path.insert(0, str(Path(__file__).parent))

from redis_server import RedisServer


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """An empty Redis of this test's own."""
    with RedisServer() as server:
        yield server
