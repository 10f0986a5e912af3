"""What a person is told at the end of a run, and by `status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overnight.cli import words


def status_lines(status: Mapping[str, Any]) -> list[str]:
    """A few lines about a session."""
    best, baseline = status["best"], status["baseline"]
    lines = [f"session {status['tag']}: {status['state']}"]
    if status["why"]:
        lines[0] += f" ({words.one_line(status['why'], 200)})"
    if best is not None:
        lines.append(
            f"  best      {best['id']:03d}   {status['metric']} {words.number(best['metric'])}"
            f"   baseline {words.number(baseline)}"
        )
    lines.append(f"  tried     {words.in_counts(status['counts'])}")
    lines.append(f"  running   {status['in_flight']}")
    lines.append(f"  files     {status['session_dir']}")
    return lines
