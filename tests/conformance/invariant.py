"""What must be so after every hostile candidate, whatever it did. Seen from outside."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.bench import Bench, alive, status, until

from overnight.contracts.execution import Exit

ROW = re.compile(r"\bP\d\d\b")  #: of the catalogue
HEALTHY_SECONDS = 10.0  #: for the next sandbox, from nothing to its end
GONE_SECONDS = 2.0
GROWN_BYTES = 128 * 1024**2  #: what a service may have more than before: a log's tail is 8 MiB


def rows(test: Callable[..., Any]) -> list[str]:
    """Ids of the catalogue that *test* shows: its docstring begins with one."""
    words = (test.__doc__ or "").lstrip()
    return ROW.findall(words) if ROW.match(words) else []


@dataclass
class Invariant:
    """Taken before the candidate comes, checked when it is gone."""

    bench: Bench
    handlers: Mapping[str, int]  #: name -> pid of whoever must stay small and alive
    left: Callable[[], list[str]]  #: what sandboxes have left on this host
    _before: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self._before = {name: resident(pid) for name, pid in self.handlers.items()}

    def check(self) -> None:
        """Raises AssertionError."""
        bench = self.bench
        for box in bench.boxes:
            assert len(box.answers) == 1, f"{len(box.answers)} answers, not one"
            assert box.answers[0].survivors == 0
        assert until(lambda: not alive(bench.mark), GONE_SECONDS), alive(bench.mark)
        assert self.left() == []

        began = time.monotonic()
        healthy = bench.run("print('healthy')", wall=HEALTHY_SECONDS)
        seconds = time.monotonic() - began
        assert (healthy.execution.exit, healthy.text()) == (Exit.EXITED, "healthy\n")
        assert seconds < HEALTHY_SECONDS
        for name, pid in self.handlers.items():
            grown = resident(pid) - self._before[name]
            assert grown < GROWN_BYTES, f"{name} holds {grown >> 20} MiB more than before"


def resident(pid: int) -> int:
    """Memory of one process, in bytes."""
    return int(status(pid)["VmRSS"].split()[0]) * 1024


def left_below(root: Path) -> list[str]:
    """Scratch folders and mounts of sandboxes below *root*."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return [str(p) for p in root.glob("scratch-*")] + [m for m in mounts if str(root) in m]
