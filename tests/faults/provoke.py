"""How a service gets to each step, where an ordinary experiment does not take it there."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.e2e.stage import Stage
from tests.faults.ward import SOON_SECONDS, STACK_SECONDS, Problem, Ward, ended

from overnight.faultpoints import Step
from overnight.sessions.torture import recount

Act = Callable[[Ward], None]


def _nothing(ward: Ward) -> None:
    """It comes by itself."""


def _kill(name: str) -> Act:
    """The step stands at a service's start, or at its end."""

    def act(ward: Ward) -> None:
        ward.service(name).kill()

    return act


def _start_again(ward: Ward) -> None:
    """The step stands at the start of the whole stack."""
    ward.restart()


def _stop(ward: Ward) -> None:
    """The step stands at the end of a run."""
    ward.interrupt()


def _stop_with_a_queue(ward: Ward) -> None:
    """The run ends while an attempt waits that no runner has taken."""
    runner = ward.service("r0")
    runner.kill(signal.SIGSTOP)
    time.sleep(0.5)
    ward.interrupt()
    until = time.monotonic() + SOON_SECONDS
    while not ward.fired and time.monotonic() < until:
        time.sleep(0.02)
    runner.kill(signal.SIGCONT)


def _flush(ward: Ward) -> None:
    """Redis forgets all while something is queued."""
    runner = ward.service("r0")
    runner.kill(signal.SIGSTOP)  # so that the queue has something to forget
    time.sleep(0.5)
    ward.redis().flushall()
    time.sleep(2.0)  # the orchestrator pushes it again
    runner.kill(signal.SIGCONT)


def _torn_tail(ward: Ward) -> None:
    """The recorder dies in the middle of a row."""
    supervisor = ward.play.process
    recorder = ward.service("recorder")
    supervisor.send_signal(signal.SIGSTOP)  # so that it is not started before the row is torn
    recorder.kill()
    while recorder.alive:
        time.sleep(0.005)
    with (ward.stage.root / "ledger.jsonl").open("ab") as file:
        file.write(b'{"v":1,"seq":')
    supervisor.send_signal(signal.SIGCONT)


def _lose_export(ward: Ward) -> None:
    """Somebody deletes results.tsv."""
    (ward.stage.root / "results.tsv").unlink(missing_ok=True)


def _slow_recorder(ward: Ward) -> None:
    """A result that is not acked for a while keeps the lease in use; if one was under way."""
    for _ in range(8):
        recorder = ward.service("recorder")
        recorder.kill(signal.SIGSTOP)
        until = time.monotonic() + 2
        while not ward.fired and time.monotonic() < until:
            time.sleep(0.02)
        recorder.kill(signal.SIGCONT)
        if ward.fired:
            return
        time.sleep(0.3)


def _be_moody(ward: Ward) -> None:
    """Ten proposals in a row that can't be applied."""
    (ward.folder / "moody").touch()


def _cheer_up(ward: Ward) -> None:
    """The session has paused itself; its user resumes it."""
    seq = ward.seq()
    until = time.monotonic() + 2 * SOON_SECONDS
    while not any(r["kind"] == "control" for r in ward.tail.poll()[max(0, seq - 1) :]):
        if time.monotonic() > until:
            raise Problem("next experiment", "the session did not pause itself")
        time.sleep(0.02)
    (ward.folder / "moody").unlink()
    resumed = ward.stage.ask("resume", "--dir", str(ward.stage.root))
    if resumed.code != 0:
        raise Problem("next experiment", f"resume: {resumed}")


_WAYS: dict[Step, Act] = {
    Step.SUPERVISOR_OPENED: _start_again,
    Step.SUPERVISOR_REDIS: _start_again,
    Step.SUPERVISOR_CHILD: _start_again,
    Step.SUPERVISOR_STACK: _start_again,
    Step.SUPERVISOR_DIED: _kill("recorder"),
    Step.SUPERVISOR_ENDING: _stop,
    Step.SUPERVISOR_ENDED: _stop,
    Step.ORCHESTRATOR_STARTED: _kill("orchestrator"),
    Step.ORCHESTRATOR_REQUEUE: _flush,
    Step.ORCHESTRATOR_CANCEL: _stop_with_a_queue,
    Step.SEND_SESSION_OPENED: _kill("orchestrator"),
    Step.ACKED_SESSION_OPENED: _kill("orchestrator"),
    Step.SEND_RESULT: _stop_with_a_queue,
    Step.ACKED_RESULT: _stop_with_a_queue,
    Step.SEND_SESSION_CLOSED: _stop,
    Step.ACKED_SESSION_CLOSED: _stop,
    Step.SEND_CONTROL: _be_moody,
    Step.ACKED_CONTROL: _be_moody,
    Step.RUNNER_STARTED: _kill("r0"),
    Step.RUNNER_RECONCILED: _kill("r0"),
    Step.RUNNER_RENEW: _slow_recorder,
    Step.RECORDER_TAIL: _torn_tail,
    Step.RECORDER_STARTED: _kill("recorder"),
    Step.RECORDER_REBUILD: _lose_export,
}
#: A whole session, from its opening to its end: ten times what docs/fault-matrix.md says of it.
AGAIN_SECONDS = 8 * STACK_SECONDS
#: Only a new session comes by these.
OPENING = (Step.SUPERVISOR_BASE, Step.SUPERVISOR_UNNAMED)
_AFTERMATHS: dict[Step, Act] = {Step.SEND_CONTROL: _cheer_up, Step.ACKED_CONTROL: _cheer_up}


def way_to(step: Step) -> Act:
    """What makes a service come by *step*."""
    return _WAYS.get(step, _nothing)


def aftermath(step: Step) -> Act:
    """What its user does once the fault has struck."""
    return _AFTERMATHS.get(step, _nothing)


def repair(ward: Ward, word: str, kind: str) -> float:
    """The session ends, a row of its ledger is damaged, and repairing it is struck. Again, then."""
    seq = ward.seq()
    ward.interrupt()
    ended(ward.stage, ward.play, 60, "an interrupted run")
    ledger = ward.stage.root / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    lines[-3] = lines[-3].replace(b'"seq":', b'"sEq":', 1)
    ledger.write_bytes(b"".join(lines))
    ward.arm(word)
    began = time.monotonic()
    verb = ward.stage.start("ledger", "repair", "--dir", str(ward.stage.root))
    while not ward.fired:
        if verb.over or time.monotonic() - began > SOON_SECONDS:
            raise Problem("reached", f"ledger repair did not come by {word}")
        time.sleep(0.01)
    if kind == "hang":
        verb.kill()
    code = ended(ward.stage, verb, 30, "ledger repair").code
    if code == 0:
        raise Problem("reached", "ledger repair says ok although it was struck")
    again = ward.stage.ask("ledger", "repair", "--dir", str(ward.stage.root))
    if again.code != 0:
        raise Problem("next experiment", f"ledger repair: {again}")
    ward.tail.rows.clear()
    ward.tail._offset = 0
    ward.start()
    seq = min(seq, ward.seq())
    ward.expect_next(time.monotonic() + STACK_SECONDS, seq)
    seconds = time.monotonic() - began
    ward.check_rows()
    ward.check_processes()
    return seconds


def opening(ward: Ward, word: str, kind: str) -> float:
    """A new session, beside the ward's own, is struck while it is opened. Again, then."""
    stage = Stage(Path(tempfile.mkdtemp(prefix="ovf-")))
    stage.repo.mkdir()
    stage.entry, stage.environment = ward.stage.entry, ward.stage.environment
    stage.toy(0.04, pools={"default": {"runners": 1}})
    words = ("run", str(stage.repo), "--max", "1", "--json")
    try:
        ward.arm(word)
        began = time.monotonic()
        first = stage.start(*words)
        while not ward.fired:
            if first.over or time.monotonic() - began > STACK_SECONDS:
                said = first.errors.read_text()[-500:]
                raise Problem("reached", f"opening did not come by {word}: {said}")
            time.sleep(0.01)
        if kind == "hang":
            first.kill()
        ended(stage, first, 30, "the run that was struck")
        began = time.monotonic()
        second = ended(stage, stage.start(*words), AGAIN_SECONDS, "opened again, it")
        if second.code != 0:
            raise Problem("next experiment", f"opened again: {second}")
        seconds = time.monotonic() - began
        found = recount.recount(stage.root).findings
        if found:
            raise Problem("verify", str(found[:3]))
        stage.check_nothing_is_left()
    except AssertionError as error:
        raise Problem("no orphan", str(error)) from error
    finally:
        stage.close()
    return seconds
