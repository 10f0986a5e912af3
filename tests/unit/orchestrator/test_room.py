"""A disk that is nearly full pauses a session with its reason, and a person lets it go on."""

from __future__ import annotations

import pytest

from overnight.contracts.loop import LoopConfig
from overnight.ledger.fold import RunState, SessionState
from overnight.orchestrator.planning import (
    Bounds,
    Pause,
    Propose,
    QueueView,
    next_action,
    would_free,
)
from tests.unit.orchestrator.world import World

BOUNDS = Bounds(in_flight=2)


def _state(least: float | None) -> SessionState:
    """After a baseline."""
    world = World(runners=1, experiments=5)
    while world.writer.state.incumbent is None:
        world.step_orchestrator()
        world.step_recorder()
        world.step_runner(0)
    state = world.writer.state
    while state.running:
        state.running.pop()
    assert isinstance(state.config, LoopConfig)
    state.config = state.config.model_copy(update={"min_free_gb": least})
    return state


@pytest.mark.parametrize(
    ("least", "free", "paused"),
    [
        (None, 0.0, False),
        (1.0, None, False),
        (1.0, 1.0, False),
        (1.0, 0.94, True),
        (0.0, 0.0, False),
    ],
)
def test_less_room_than_min_free_gb_pauses(
    least: float | None, free: float | None, paused: int
) -> None:
    action = next_action(_state(least), QueueView(free_gb=free), BOUNDS)

    if paused:
        assert action == Pause("the disk has 0.9 GB left, less than min_free_gb 1", for_room=True)
    else:
        assert isinstance(action, Propose)


def test_a_baseline_waits_for_room_too_and_a_paused_session_is_left_alone() -> None:
    state = _state(5.0)
    state.experiments.clear()
    state.incumbent = None
    view = QueueView(free_gb=1.0)

    assert isinstance(next_action(state, view, BOUNDS), Pause)
    state.run_state = RunState.PAUSED
    assert next_action(state, view, BOUNDS) is None


def test_the_reason_says_what_clean_would_free() -> None:
    text = would_free(2_000_000, 1_500_000_000)

    assert text == ": `overnight clean` would free 2 MB now, 1500 MB once stopped; then `resume`"
