"""orchestrator, runner, recorder: each service in the foreground, all arguments passed through."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

NAMES = ("orchestrator", "runner", "recorder")


def run(name: str, argv: Sequence[str]) -> int:
    """Be that service until it ends. Returns its exit code."""
    module = importlib.import_module(f"overnight.{name}.__main__")
    code: int = module.main(list(argv))
    return code


def quiet() -> None:
    """Nothing but what is grave is logged: standard output is the verb's own."""
    from overnight import telemetry

    telemetry.configure("cli", level="critical")
