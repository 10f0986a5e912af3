"""One row of `doctor`: what was looked at, how it is, and what mends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One row. A row that is not ok names its fix."""

    name: str
    status: Status
    detail: str  #: one line
    fix: str = ""  #: one line; a command where there is one

    def __post_init__(self) -> None:
        """A row without a fix helps nobody."""
        if self.status != "ok" and not self.fix:
            raise ValueError(f"{self.name}: {self.status} without a fix")


def ok(name: str, detail: str) -> Check:
    """As it should be."""
    return Check(name=name, status="ok", detail=detail)


def warn(name: str, detail: str, fix: str) -> Check:
    """It works, but not as well as it could."""
    return Check(name=name, status="warn", detail=detail, fix=fix)


def fail(name: str, detail: str, fix: str) -> Check:
    """No session runs, or none to its end."""
    return Check(name=name, status="fail", detail=detail, fix=fix)
