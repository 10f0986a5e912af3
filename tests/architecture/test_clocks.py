"""Nothing decides by the wall clock: it jumps. It is read in one place, for a label."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVICES = Path(__file__).resolve().parents[2] / "services" / "overnight"
STAMP = SERVICES / "ledger" / "stamp.py"
WALL_CLOCK = {
    "time": {"time", "time_ns", "localtime", "gmtime", "ctime", "asctime", "CLOCK_REALTIME"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}


def _readings(text: str) -> Iterator[str]:
    """Each place where *text* reads the wall clock: line and name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else ""
            owner = node.value.id if isinstance(node.value, ast.Name) else owner
            if node.attr in WALL_CLOCK.get(owner, ()):
                yield f"{node.lineno}: {owner}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            for name in node.names:
                if name.name in WALL_CLOCK["time"]:
                    yield f"{node.lineno}: from time import {name.name}"


def test_only_the_stamp_reads_the_wall_clock() -> None:
    found = [
        f"{path.relative_to(SERVICES)}:{reading}"
        for path in sorted(SERVICES.rglob("*.py"))
        if path != STAMP
        for reading in _readings(path.read_text("utf-8"))
    ]

    assert found == []
    assert list(_readings(STAMP.read_text("utf-8"))) != []


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.time()",
        "import time\nage = time.time_ns() - 1",
        "from time import time",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime\ndatetime.utcnow()",
        "from datetime import date\ndate.today()",
        "import time\ntime.clock_gettime(time.CLOCK_REALTIME)",
        "import time\nwhen = field(default_factory=time.time)",
    ],
)
def test_every_way_to_read_it_is_known(text: str) -> None:
    assert len(list(_readings(text))) == 1


def test_the_monotonic_clock_is_no_wall_clock() -> None:
    assert list(_readings("import time\ntime.monotonic()\ntime.sleep(1)")) == []
