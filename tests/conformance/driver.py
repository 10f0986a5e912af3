"""A runner in a process of its own, to be killed or stopped: `driver.py OPTIONS SPEC TREE WALL`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from overnight import plugins
from overnight.contracts.execution import Deadline, SandboxSpec


def spec_from(text: str) -> SandboxSpec:
    """The specification that `spec_text` wrote."""
    values: dict[str, Any] = json.loads(text)
    for name in ("command", "frozen"):
        values[name] = tuple(values[name])
    for name in ("scratch", "log_path", "interpreter"):
        values[name] = Path(values[name])
    return SandboxSpec(**{**values, "reads": ()})


def spec_text(spec: SandboxSpec) -> str:
    """What `spec_from` reads; limits and reads keep their defaults."""
    names = ("sandbox_id", "labels", "command", "env", "frozen", "scratch", "log_path",
             "interpreter")  # fmt: skip
    return json.dumps({name: getattr(spec, name) for name in names}, default=str)


def begin(
    options: dict[str, Any], spec: SandboxSpec, tree: Path, wall: float
) -> subprocess.Popen[bytes]:
    """A driver that prints what its sandbox prints."""
    words = [json.dumps(options), spec_text(spec), str(tree), str(wall)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.driver", *words], stdout=subprocess.PIPE
    )


def end(driver: subprocess.Popen[bytes]) -> None:
    """The driver alone; what it started must end by itself."""
    if driver.poll() is None:
        driver.kill()
        driver.wait()
    if driver.stdout is not None:
        driver.stdout.close()


def main() -> None:
    options, spec, tree, wall = sys.argv[1:]
    chosen = json.loads(options)
    name = chosen.pop("executor", "process")
    sandbox = plugins.load(plugins.EXECUTORS, name)(chosen).prepare(spec_from(spec))
    try:
        sandbox.start(Path(tree))
        execution = sandbox.wait(
            Deadline(wall_seconds=float(wall)), lambda _, chunk: print(chunk.decode(), flush=True)
        )
        print(execution.exit, flush=True)
    finally:
        sandbox.destroy()


if __name__ == "__main__":
    main()
