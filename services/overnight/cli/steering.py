"""pause, resume, drain, stop, steer, approve, reject: a wish becomes a ledger row.

Done when it is on the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from overnight.cli import output
from overnight.cli.numbers import amount, whole
from overnight.cli.options import HERE, AsJson, Dir, Tag, session

if TYPE_CHECKING:
    from pathlib import Path

    from overnight.contracts.status import ControlAction

Why = Annotated[str, typer.Option("--why", help="kept in the ledger")]


def pause(tag: Tag = None, directory: Dir = HERE, why: Why = "", as_json: AsJson = False) -> None:
    """Propose no more; what runs ends. `resume` goes on."""
    from overnight.contracts.status import ControlAction

    _ask(directory, tag, ControlAction.PAUSE, why, as_json)


def resume(tag: Tag = None, directory: Dir = HERE, why: Why = "", as_json: AsJson = False) -> None:
    """Go on after a pause."""
    from overnight.contracts.status import ControlAction

    _ask(directory, tag, ControlAction.RESUME, why, as_json)


def drain(tag: Tag = None, directory: Dir = HERE, why: Why = "", as_json: AsJson = False) -> None:
    """Propose no more, let what runs end, then close."""
    from overnight.contracts.status import ControlAction

    _ask(directory, tag, ControlAction.DRAIN, why, as_json)


def stop(
    tag: Tag = None,
    directory: Dir = HERE,
    why: Why = "",
    wait: Annotated[bool, typer.Option(help="until the session is closed")] = True,
    timeout: Annotated[
        float,
        typer.Option(parser=amount("--timeout", or_zero=True), metavar="SECONDS", help="to wait"),
    ] = 120.0,
    as_json: AsJson = False,
) -> None:
    """Cancel what runs, then close. It runs again with the next `run`."""
    from overnight.contracts.status import ControlAction

    _ask(directory, tag, ControlAction.STOP, why, as_json, wait=timeout if wait else None)


Waiting = Annotated[
    int, typer.Argument(metavar="ID", parser=whole("ID", 1), help="an idea that waits for approval")
]


def approve(
    which: Waiting, tag: Tag = None, directory: Dir = HERE, as_json: AsJson = False
) -> None:
    """Let an idea run that waits for approval."""
    from overnight.contracts.status import ControlAction

    _answer(directory, tag, which, ControlAction.APPROVE, "", as_json)


def reject(
    which: Waiting,
    tag: Tag = None,
    directory: Dir = HERE,
    why: Annotated[str, typer.Option("--why", help="the proposer is told, too")] = "",
    as_json: AsJson = False,
) -> None:
    """Never run an idea that waits for approval. It counts for no limit."""
    from overnight.contracts.status import ControlAction

    _answer(directory, tag, which, ControlAction.REJECT, why, as_json)


def _answer(
    directory: Path, tag: str | None, which: int, action: ControlAction, why: str, as_json: bool
) -> None:
    from overnight.cli.services import quiet
    from overnight.sessions.steering import answer

    quiet()
    found = session(directory, tag)
    seq = answer(found, which, action, why)
    if as_json:
        output.emit({"tag": found.tag, "action": action.value, "id": which, "seq": seq})
    else:
        word = {"approve": "approved", "reject": "rejected"}[action.value]
        output.say(f"session {found.tag}: experiment {which} {word} (ledger row {seq})")


def steer(
    text: Annotated[str, typer.Argument(help="advice in your own words; at most 4000 characters")],
    tag: Tag = None,
    directory: Dir = HERE,
    as_json: AsJson = False,
) -> None:
    """Tell the proposer what to look at. Nothing else changes; later ideas have seen it."""
    from overnight.cli.services import quiet
    from overnight.sessions.steering import steer as advise

    quiet()
    found = session(directory, tag)
    seq = advise(found, text)
    if as_json:
        output.emit({"tag": found.tag, "action": "steer", "seq": seq})
    else:
        output.say(f"session {found.tag}: the next ideas are proposed with it (ledger row {seq})")


def _ask(
    directory: Path,
    tag: str | None,
    action: ControlAction,
    why: str,
    as_json: bool,
    wait: float | None = None,
) -> None:
    from overnight.cli.services import quiet
    from overnight.sessions.stack import ask, read_stack, require_stack, wait_until_gone

    quiet()
    found = session(directory, tag)
    stack = require_stack(found.files)
    seq = ask(
        stack.redis_url, found.sid, action, why=why, stop=lambda: read_stack(found.files) is None
    )
    if wait is not None:
        wait_until_gone(found.files, wait)
    if as_json:
        output.emit({"tag": found.tag, "action": action.value, "seq": seq})
    else:
        output.say(f"session {found.tag}: {action.value} taken (ledger row {seq})")
