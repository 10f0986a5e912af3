"""A person's word to a running session: approve or reject an idea, give advice."""

from __future__ import annotations

import secrets

from overnight.contracts.errors import UsageError
from overnight.contracts.rows import Control
from overnight.contracts.status import ControlAction
from overnight.contracts.untrusted import strip_terminal
from overnight.ledger.admission import why_no_answer
from overnight.ledger.approvals import awaiting
from overnight.sessions.locate import Found, read_state
from overnight.sessions.stack import Stack, read_stack, require_stack, tell

ADVICE_CHARS = 4000
BY = "cli"


def answer(found: Found, experiment_id: int, action: ControlAction, why: str = "") -> int:
    """Approve or reject an idea that waits. Returns its row; the same answer again is the same row.

    Raises:
        UsageError: it does not wait for one (any more); says why.
        InfrastructureError: no stack runs for this session, or it did not answer.
    """
    stack = require_stack(found.files)
    state = read_state(found.files)
    experiment = state.experiments.get(experiment_id)
    given = experiment.answer if experiment is not None else None
    if given is None or given.action is not action:
        # Asked here first: a refusal is remembered by its key for a while.
        refused = why_no_answer(state, experiment_id)
        if refused is not None:
            others = ", ".join(str(e.id) for e in awaiting(state))
            hint = f" (waiting: {others})" if others else " (none waits for approval)"
            raise UsageError(f"can't {action.value}: {refused}{hint}")
    control = Control(action=action, by=BY, why=_advice(why), id=experiment_id)
    key = f"control:{action.value}:{experiment_id}"
    return _tell(found, stack, key, control)


def steer(found: Found, text: str) -> int:
    """Give the proposer advice. Returns its row.

    Raises:
        UsageError: empty or too long, or the session is about to end.
        InfrastructureError: no stack runs for this session, or it did not answer.
    """
    stack = require_stack(found.files)
    advice = _advice(text)
    if not advice.strip():
        raise UsageError("can't steer: the advice is empty")
    control = Control(action=ControlAction.STEER, by=BY, why=advice)
    key = f"control:{secrets.token_hex(8)}"
    return _tell(found, stack, key, control)


def _tell(found: Found, stack: Stack, key: str, control: Control) -> int:
    """Given up as soon as the stack is gone."""
    return tell(
        stack.redis_url, found.sid, key, control, stop=lambda: read_stack(found.files) is None
    )


def _advice(text: str) -> str:
    """What can't steer a terminal, and no more of it than travels."""
    safe = strip_terminal(text).strip()
    if len(safe) > ADVICE_CHARS:
        raise UsageError(
            f"the text has {len(safe)} characters: at most {ADVICE_CHARS}, say it shorter"
        )
    return safe
