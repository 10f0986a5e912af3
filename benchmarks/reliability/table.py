"""The Markdown tables, and where they go in docs/reliability.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

BEGIN = "<!-- measured: python -m benchmarks.reliability --write -->"
END = "<!-- end of what was measured -->"


def table(first: str, rows: Mapping[str, Mapping[str, str]]) -> str:
    """One Markdown table: a row a case, a column a system. *rows*: title -> column -> cell."""
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    lines = [_line([first, *columns]), _line(["---"] * (len(columns) + 1))]
    lines += [
        _line([title, *(row.get(name, "not run") for name in columns)])
        for title, row in rows.items()
    ]
    return "\n".join(lines)


def insert(text: str, measured: str) -> str:
    """*text* with what stands between the markers replaced. Raises ValueError without markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there are no lines {BEGIN!r} and {END!r} to write between")
    return f"{before}{BEGIN}\n\n{measured.strip()}\n\n{END}{after}"


def write(path: Path, measured: str) -> None:
    """Replace what was measured before. Raises ValueError as `insert` does."""
    path.write_text(insert(path.read_text("utf-8"), measured), "utf-8")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in cells) + " |"
