"""How we connect: lazily, patiently but not for ever, and with our own errors."""

from __future__ import annotations

import time

import pytest
import redis

from overnight.contracts.errors import ConfigError, InfrastructureError
from overnight.jobqueue.connection import connect, edge


def test_connecting_opens_nothing(tmp_path):
    client = connect(f"unix://{tmp_path}/none?db=3")

    settings = client.connection_pool.connection_kwargs
    assert (settings["path"], settings["db"]) == (f"{tmp_path}/none", 3)
    assert settings["socket_timeout"] == 5.0


@pytest.mark.parametrize("url", ["", "localhost", "http://x", "memory://", "redis://h:port/0"])
def test_an_odd_url_is_a_config_error_that_names_the_key(url):
    with pytest.raises(ConfigError, match="REDIS_URL"):
        connect(url)


def test_a_redis_that_is_not_there_is_one_line_and_soon(tmp_path):
    client = connect(f"unix://{tmp_path}/none?db=0")
    started = time.monotonic()

    with pytest.raises(InfrastructureError) as caught, edge("asking"):
        client.get("x")

    assert time.monotonic() - started < 10.0
    assert "\n" not in str(caught.value)
    assert "is Redis up?" in str(caught.value)
    assert caught.value.retryable


@pytest.mark.parametrize(
    "error", [redis.ConnectionError, redis.TimeoutError, redis.ResponseError, redis.WatchError]
)
def test_no_redis_error_passes_the_edge(error):
    with pytest.raises(InfrastructureError, match="redis, asking: boom twice"), edge("asking"):
        raise error("boom\n twice")


def test_other_errors_pass_the_edge_as_they_are():
    with pytest.raises(ZeroDivisionError), edge("asking"):
        raise ZeroDivisionError
