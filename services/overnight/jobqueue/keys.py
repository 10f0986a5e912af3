"""Every Redis name that we write, as pure functions. rq's own names all start with `rq:`."""

from __future__ import annotations

import re
from typing import NamedTuple

from overnight.contracts.errors import WireError

PARKED = "overnight:parked"  #: list of the newest poison jobs; they may have no readable session
_SID = re.compile(r"[0-9a-f]{12}")
_POOL = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
_LEDGER_KEY = re.compile(r"[\x21-\x7e]{1,200}")
_JOB_ID = re.compile(r"([0-9a-f]{12})-([1-9][0-9]{0,7})-([1-9][0-9]{0,3})")


class AttemptId(NamedTuple):
    """Which attempt of which experiment of which session."""

    sid: str
    id: int
    attempt: int


def ledger_in(sid: str) -> str:
    """Stream of messages that ask for a ledger row."""
    return f"overnight:{_checked(_SID, sid)}:ledger.in"


def ack(sid: str, key: str) -> str:
    """The recorder's answer to one ledger key."""
    return f"overnight:{_checked(_SID, sid)}:ack:{_checked(_LEDGER_KEY, key)}"


def lease(sid: str, id: int, attempt: int) -> str:
    """Who runs this attempt."""
    return f"overnight:{_checked(_SID, sid)}:lease:{int(id)}:{int(attempt)}"


def stop(sid: str) -> str:
    """Stands while the whole session is to end what runs."""
    return f"overnight:{_checked(_SID, sid)}:stop"


def ready(sid: str, service: str) -> str:
    """Stands while this service of the session says that it is ready."""
    return f"overnight:{_checked(_SID, sid)}:ready:{_checked(_NAME, service)}"


def mark(sid: str, name: str) -> str:
    """What was left there last; shows whether Redis forgot something since."""
    return f"overnight:{_checked(_SID, sid)}:mark:{_checked(_NAME, name)}"


def runners(sid: str) -> str:
    """Set of the names that ever beat; those without a living beat are dropped on reading."""
    return f"overnight:{_checked(_SID, sid)}:runners"


def runner(sid: str, name: str) -> str:
    """One runner's beat; expires by itself."""
    return f"overnight:{_checked(_SID, sid)}:runner:{_checked(_NAME, name)}"


def is_ledger_key(text: str) -> bool:
    """May this be a row's key, and so part of a Redis name?"""
    return _LEDGER_KEY.fullmatch(text) is not None


def queue_name(pool: str) -> str:
    """The rq queue of a pool; shared by all sessions on one Redis."""
    return f"experiments.{_checked(_POOL, pool)}"


def job_id(sid: str, id: int, attempt: int) -> str:
    """The rq id of an attempt: letters, digits and dashes only, as rq wants it."""
    return f"{_checked(_SID, sid)}-{int(id)}-{int(attempt)}"


def parse_job_id(text: str) -> AttemptId | None:
    """The attempt that an rq id names; None for an id that is not one of ours."""
    match = _JOB_ID.fullmatch(text)
    if match is None:
        return None
    return AttemptId(match[1], int(match[2]), int(match[3]))


def _checked(pattern: re.Pattern[str], text: str) -> str:
    if pattern.fullmatch(text) is None:
        raise WireError(f"{text[:60]!r} can't be part of a Redis name")
    return text
