"""The committed dashboards as values: their panels, queries and variables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "config" / "grafana" / "dashboards"
NAMES = ("tonight", "fleet")


@dataclass(frozen=True)
class Query:
    """One query as Grafana sends it, but for its variables."""

    board: str
    panel: str
    expr: str
    instant: bool

    def with_(self, session: str, seconds: int, scrape_seconds: int = 1) -> str:
        """Its text for one session and a range of so many seconds."""
        expr = self.expr
        for name, value in (
            ("$session", session),
            ("$__rate_interval", f"{max(10, 4 * scrape_seconds)}s"),
            ("$__interval", f"{scrape_seconds}s"),
            ("$__range", f"{seconds}s"),
        ):
            expr = expr.replace(name, value)
        assert "$" not in expr, expr
        return expr


def board(name: str) -> dict[str, Any]:
    """The committed file."""
    loaded: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return loaded


def queries() -> Iterator[Query]:
    """Of all panels of all dashboards."""
    for name in NAMES:
        for panel in board(name)["panels"]:
            for target in panel["targets"]:
                yield Query(name, panel["title"], target["expr"], bool(target.get("instant")))


def annotations() -> Iterator[Query]:
    """Of all dashboards."""
    for name in NAMES:
        for each in board(name)["annotations"].get("list", ()):
            yield Query(name, each["name"], each["expr"], instant=False)


def session_variable(name: str) -> tuple[str, str]:
    """(query, regex) of the variable that names a session."""
    (found,) = (v for v in board(name)["templating"]["list"] if v["name"] == "session")
    return found["query"]["query"], found["regex"]
