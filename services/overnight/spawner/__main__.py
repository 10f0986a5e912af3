"""`python -m overnight.spawner`: the only holder of the container engine's socket."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry

from overnight import lifeline, telemetry
from overnight.configuration import (
    SpawnerSettings,
    engine_address,
    load_settings,
    process_environ,
)
from overnight.contracts.errors import ConfigError
from overnight.spawner.engine import Engine
from overnight.spawner.metrics import YardCollector
from overnight.spawner.service import Door
from overnight.spawner.yard import Yard


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or until the supervisor is gone. Returns the exit code."""
    options = _parse(argv)
    # Not tied to its supervisor by the kernel: it has containers to remove before it ends.
    return lifeline.run_service("spawner", None, partial(_serve, options))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overnight spawner", description=__doc__)
    parser.add_argument("--socket", type=Path, required=True, help="unix socket to listen on")
    parser.add_argument(
        "--root", type=Path, required=True, help="private folder, at the same place on the host"
    )
    parser.add_argument(
        "--cgroups", type=Path, default=Path("/sys/fs/cgroup"), help="the host's control groups"
    )
    parser.add_argument("--lifeline-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _serve(options: argparse.Namespace, life: lifeline.Lifeline) -> int:
    environ = process_environ()
    settings = load_settings(SpawnerSettings, environ)
    life.watch(settings.hang_seconds)
    lifeline.end_with_parent(life, options.lifeline_fd)
    address = engine_address(environ)
    patience = lifeline.Patience(life, options.ready_fd)
    yard = Yard(options.root.absolute(), partial(Engine, address), settings, options.cgroups)
    if not patience.until_done(partial(_opened, yard)):
        return 0
    try:
        door = Door(options.socket, yard, _users(settings.clients), settings.image)
        registry = CollectorRegistry()
        registry.register(YardCollector(yard))
        endpoint = telemetry.serve_metrics(registry, settings.metrics_port, settings.metrics_host)
        lifeline.say_ready(options.ready_fd, metrics=endpoint.url if endpoint else None)
        door.serve(life.should_stop)
    finally:
        yard.close()
    return 0


def _opened(yard: Yard) -> bool:
    yard.open()
    return True


def _users(text: str) -> frozenset[int]:
    try:
        return frozenset(int(word) for word in text.split(",") if word.strip())
    except ValueError as error:
        raise ConfigError(f"spawner setting clients: {text!r} is no list of user ids") from error


if __name__ == "__main__":
    sys.exit(main())
