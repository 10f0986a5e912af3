"""What a container costs beside a process on this machine, into docs/containers.md.

python -m benchmarks.container_startup            # needs an engine; half a minute
python -m benchmarks.container_startup --print    # writes nothing
"""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "containers.md"
COMMAND = "python -m benchmarks.container_startup"
PAIRS = 20
_BLOCK = re.compile(rf"(<!-- measured: {re.escape(COMMAND)} -->\n\n).*?(?=\n<!-- end -->)", re.S)


def main(argv: Sequence[str] = ()) -> int:
    """Measures, prints, writes."""
    found = measured()
    if found["missing"] is not None:
        print(found["missing"], file=sys.stderr)
        return 3
    text = page_part(found)
    print(text)
    if "--print" not in argv:
        new, places = _BLOCK.subn(lambda block: block[1] + text, PAGE.read_text("utf-8"))
        if not places:
            print(f"{PAGE}: no place for the table", file=sys.stderr)
            return 2
        PAGE.write_text(new, "utf-8")
    return 0


def measured() -> dict[str, Any]:
    """What `overnight bench startup` says."""
    words = ("bench", "startup", "--pairs", str(PAIRS), "--json")
    done = subprocess.run(
        [sys.executable, "-m", "overnight.cli", *words], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "services")},
    )  # fmt: skip
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def page_part(found: dict[str, Any]) -> str:
    """The table, and where it was measured."""
    lines = ["| | to its first line | from there to gone | in all | ratio |",
             "| --- | --- | --- | --- | --- |"]  # fmt: skip
    lines += [
        f"| {row['name']} | {_ms(row['start_s'])} | {_ms(row['gone_s'])} | {_ms(row['total_s'])} "
        f"| {row['ratio']:.0f} |"
        for row in found["rows"]
    ]
    process, container = found["rows"][1]["total_s"], found["rows"][2]["total_s"]
    day = datetime.datetime.now(datetime.UTC).date()
    lines += [
        "",
        f"A container takes {container / process:.1f} times as long as a sandboxed process. "
        f"Medians of {found['pairs']}, taken in turn, of `echo`; {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.0f}, {day}.",
        "",
    ]  # fmt: skip
    return "\n".join(lines)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.2f} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
