"""The wall clock as a label for people. Nothing is ever compared or timed with it."""

from __future__ import annotations

from datetime import UTC, date, datetime


def utc_label() -> str:
    """Now in UTC, RFC 3339 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local_day() -> date:
    """The user's own day, to name a session or a folder."""
    return date.today()  # noqa: DTZ011 - the user's, not UTC's
