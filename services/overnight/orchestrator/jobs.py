"""The messages that ask for one attempt, and the rows around them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overnight.configuration import candidate_env
from overnight.configuration.interpreter import without_uv
from overnight.contracts import rows, wire
from overnight.contracts.experiment import Decision, ExperimentJob, ExperimentResult
from overnight.contracts.loop import CommandSource, LoopConfig, Source
from overnight.contracts.rows import LedgerMessage, Opening
from overnight.contracts.status import GAVE_UP, ControlAction, Direction, RowKind, Status
from overnight.ledger.fold import OURSELVES, SessionState
from overnight.orchestrator.policy.weighed import worst_kept

SENDER = OURSELVES


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How this host starts candidates: resolved once a run, the same for all its jobs."""

    argv: tuple[str, ...]
    python: str | None  #: None: the image's own
    image: str | None = None  #: None: the executor's own
    env: dict[str, str]  #: what the harness tells every candidate
    links: dict[str, str] = field(default_factory=dict)  #: place in the tree -> host path


def links_into(repo: Path, reads: Iterable[str]) -> dict[str, str]:
    """Those of *reads* that lie in the repository: candidates look for them at the same place in
    their own tree, e.g. git-ignored data. Pure."""
    inside = (Path(read) for read in reads if Path(read).is_relative_to(repo))
    return {str(path.relative_to(repo)): str(path) for path in inside if path != repo}


def launch_of(opening: Opening, config: LoopConfig) -> Launch:
    """How candidates are started by what was resolved when the session was opened."""
    return Launch(
        argv=opening.argv,
        python=opening.python or None,
        image=opening.image,
        env=candidate_env(config, {}, config.seed),
        links=links_into(Path(opening.repo), config.reads),
    )


def in_every_job(config: LoopConfig, launch: Launch) -> dict[str, Any]:
    """The fields of a job that are the same for all experiments of a run."""
    return {
        "run_cmd": launch.argv,
        "metric": config.metric.name,
        "maximize": config.metric.direction is Direction.MAXIMIZE,
        "source": _startable(config.metric.source),
        "constraints": config.constraints,
        "guard": without_uv(config.guard) if config.guard else None,
        "editable_files": config.editable_files,
        "frozen_files": None if isinstance(config.frozen_files, str) else config.frozen_files,
        "budget": config.budget,
        "gate": config.gate.value,
        "env": {**launch.env, **config.env},
        "pass_env": config.pass_env,
        "reads": config.reads,
        "links": launch.links,
        "python": launch.python,
        "image": launch.image,
        "gpus": config.gpus,
        "network": config.network,
        "memory_mb": config.memory_mb,
        "plausible_min": config.plausible.min,
        "plausible_max": config.plausible.max,
        "seed": config.seed,
    }


def job_for(state: SessionState, experiment_id: int, launch: Launch) -> ExperimentJob:
    """The job of an experiment's open attempt."""
    experiment = state.experiments[experiment_id]
    attempt, proposed, config = experiment.open_attempt, experiment.proposed, state.config
    assert attempt is not None and config is not None and state.opened is not None
    assert proposed.commit and proposed.tree_digest and state.sid  # never rejected
    return ExperimentJob(
        sid=state.sid,
        tag=state.opened.tag,
        id=experiment_id,
        attempt=attempt.issued.attempt,
        commit=proposed.commit,
        tree_digest=proposed.tree_digest,
        guard_unless_worse_than=_worst_guarded(state) if config.guard else None,
        wall_seconds=attempt.issued.wall_seconds,
        cpu_seconds=attempt.issued.cpu_seconds,
        **in_every_job(config, launch),
    )


def _startable(source: Source) -> Source:
    """The metric's command as a sandbox can start it, which has no uv."""
    if isinstance(source, CommandSource):
        return CommandSource(command=without_uv(source.command))
    return source


def _worst_guarded(state: SessionState) -> float | None:
    """The worst metric that could still be kept, by what is known now; None: any.

    What is kept meanwhile only moves it up, so that nothing which may be kept goes unguarded.
    """
    return worst_kept(state) if state.kept else None


def _message(kind: RowKind, key: str, body: wire.Wire, epoch: int | None) -> LedgerMessage:
    return LedgerMessage(key=key, kind=kind, body=wire.dump(body), epoch=epoch)


def open_message(opening: rows.SessionOpened, epoch: int) -> LedgerMessage:
    """The row of this start."""
    opened = opening.model_copy(update={"epoch": epoch})
    return _message(RowKind.SESSION_OPENED, f"open:{epoch}", opened, epoch)


def proposed_message(proposed: rows.Proposed, epoch: int) -> LedgerMessage:
    """An experiment comes into being."""
    return _message(RowKind.PROPOSED, f"proposed:{proposed.id}", proposed, epoch)


def issue_message(issued: rows.AttemptIssued, epoch: int) -> LedgerMessage:
    """The fence, before the push."""
    key = f"attempt:{issued.id}:{issued.attempt}"
    return _message(RowKind.ATTEMPT_ISSUED, key, issued, epoch)


def decision_message(decision: Decision, number: int, epoch: int) -> LedgerMessage:
    """The *number*-th decision on that experiment."""
    return _message(RowKind.DECISION, f"decision:{decision.id}:{number}", decision, epoch)


def own_result(
    experiment_id: int, attempt: int, status: Status, reason: str | None
) -> LedgerMessage:
    """What the orchestrator says of an attempt that no runner will report."""
    details = {
        "lost": "no runner has it and it is not queued",
        GAVE_UP: "too many attempts failed by our fault",
    }
    result = ExperimentResult.model_validate(
        {
            "id": experiment_id,
            "attempt": attempt,
            "sender": SENDER,
            "status": status,
            "reason": reason,
            "detail": details.get(reason or "", ""),
        }
    )
    key = f"result:{experiment_id}:{attempt}:{SENDER}"
    return _message(RowKind.RESULT, key, result, None)


def pause_message(state: SessionState, why: str) -> LedgerMessage:
    """The orchestrator pauses the session by itself. Keyed by the row it rests on."""
    control = rows.Control(action=ControlAction.PAUSE, by=SENDER, why=why[:2000])
    return _message(RowKind.CONTROL, f"control:auto-pause:{state.seq}", control, None)


def answer_message(experiment_id: int, approve: bool, why: str, epoch: int) -> LedgerMessage:
    """What becomes of an idea that nobody approved or rejected in time."""
    action = ControlAction.APPROVE if approve else ControlAction.REJECT
    control = rows.Control(action=action, by=OURSELVES, why=why, id=experiment_id)
    key = f"control:{action.value}:{experiment_id}"
    return _message(RowKind.CONTROL, key, control, epoch)


def close_message(state: SessionState, outcome: str, detail: str, epoch: int) -> LedgerMessage:
    """The end of this run."""
    closed = rows.SessionClosed.model_validate({"outcome": outcome, "detail": detail[:2000]})
    return _message(RowKind.SESSION_CLOSED, f"close:{epoch}:{state.seq}", closed, epoch)
