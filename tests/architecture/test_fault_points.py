"""The list of fault points and the code are one: nothing durable happens far from a point."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from overnight.contracts.rows import FENCED_BY_EPOCH
from overnight.contracts.status import RowKind
from overnight.faultpoints import Step

REPO = Path(__file__).resolve().parents[2]
SERVICES = REPO / "services" / "overnight"
ROOMS = (
    "orchestrator", "recorder", "runner", "ledger", "jobqueue", "executors", "snapshots",
    "sessions", "devices", "children.py",
)  # fmt: skip
NOT_STEPS = ("sessions.torture.",)  #: strikes sessions, is none

#: A function that changes something durable and has no point inside -> the point that its caller
#: has right before or after it.
BESIDE = {
    "ledger.writer.LedgerWriter._stage_head": Step.RECORDER_STAGED,
    "ledger.writer.LedgerWriter._catch_up_head": Step.RECORDER_STARTED,
    "ledger.writer.sync_folder": Step.RECORDER_STARTED,
    "ledger.plain.write_new": Step.RECORDER_REBUILD,
    "recorder.repair._write": Step.REPAIR_CUT,
    "recorder.repair._keep_original": Step.REPAIR_KEPT,
    "jobqueue.jobs.Jobs.push": Step.ORCHESTRATOR_PUSHED,
    "jobqueue.jobs.Jobs.remove": Step.ORCHESTRATOR_CANCEL,
    "jobqueue.lease.Leases.renew": Step.RUNNER_RENEW,
    "jobqueue.lease.Leases.release": Step.RUNNER_RELEASED,
    "jobqueue.stream.LedgerSender._add": Step.RUNNER_SENT,
    "jobqueue.stream.LedgerInbox.acknowledge": Step.RECORDER_ACKED,
    "jobqueue.worker.PoolWorker._next_id": Step.RUNNER_TAKEN,
    "executors.records.write": Step.RUNNER_RECORDED,
    "executors.fallback.BareCage.launch": Step.RUNNER_LAUNCHED,
    "executors.guardian.start": Step.RUNNER_LAUNCHED,
    "executors.namespaces.NamespaceCage._spawn": Step.RUNNER_LAUNCHED,
    "executors.collect._copy": Step.RUNNER_COLLECTED,
    "executors.tree.remove_tree": Step.RUNNER_EMPTIED,
    "snapshots.export._lay_out": Step.RUNNER_EXPORTED,
    "snapshots.store.SnapshotStore._make": Step.SUPERVISOR_BASE,
    "sessions.opening._replace": Step.SUPERVISOR_UNNAMED,
    "children.Child.start": Step.SUPERVISOR_CHILD,
    "sessions.stack.Stack.write": Step.SUPERVISOR_STACK,
}
#: A function that changes something durable, and why no session hangs on when it does.
HARMLESS = {
    "sessions.startup.bare": "a measurement's own command, of no session",
    "recorder.exports._quarantine": "a rename of a file that is rebuilt in any case",
    "runner.durable.Outbox._set_aside": "one rename; before it, the same file is refused again",
    "runner.durable.ClaimFile.read": "one rename of a file that nobody can read",
    "runner.quarantine.Notice.post": "posted again at each start; what counts is looked at anew",
    "runner.hardware.DeviceLock._keep": "the pid in a lock file is for people",
    "ledger.lock.hold": "the pid in a lock file is for people",
    "ledger.writer.LedgerWriter._take_back": "cuts what `_heal_tail` would cut",
    "jobqueue.flags.Flags.beat": "expires by itself",
    "jobqueue.flags.Flags.runners": "reads",
    "jobqueue.jobs.Jobs.park": "the job is of no use any more",
    "jobqueue.deadjobs.DeadJobs.drop": "a verb's one wish, told as done only afterwards",
    "jobqueue.worker.PoolWorker._give_back": "one command: taken before it, queued after it",
    "jobqueue.lease.Leases.owner": "reads, and shortens what should not live so long",
    "jobqueue.rqworker.RqWorker.announce": "expires by itself",
    "jobqueue.rqworker.RqWorker.let_go": "rq's list of taken jobs counts for nothing",
    "executors.lifeguard.Lifeguard._start": "holds nothing before a sandbox is launched",
    "executors.profiles.register": "one rename of a file named by its digest; the next run does it",
    "snapshots.git.Git._start": "git's own writes are renamed into place",
    "snapshots.root._write_ignore": "written again with the next run",
    "sessions.bindings.write_bindings": "a verb's one file, renamed into place",
    "sessions.bindings._put": "the rename itself",
    "sessions.cleaning._cut": "a verb's, renamed into place; run again it does the rest",
    "sessions.migration._write_copy": "a folder of its own that nobody knows of yet",
    "sessions.migration._write": "the same",
    "sessions.migration.migrate": "a folder of its own, renamed into place",
    "sessions.weights._copy": "a verb's one file, under its name once it is whole",
    "sessions.weights._put": "the rename itself",
    "snapshots.patches.write_folder": "a verb's one folder, renamed into place",
    "sessions.demo._copy": "a folder of its own, renamed into place",
    "sessions.skills._put": "a verb's files, each renamed into place; the same verb mends it",
    "sessions.deadletter._quarantine": "one rename of a file that no service reads",
    "sessions.detached.start": "a `run` like any other",
    "sessions.preparing._replace": "a verb's one small file, renamed into place",
    "sessions.opening._make_room": "one rename of a session that never began",
    "sessions.report.save.save": "a person's own file; the same command makes it again",
    "sessions.targets.Targets.tell": "a hint to a Prometheus, told again by the next start",
}


def test_every_step_has_its_point_and_every_point_its_step() -> None:
    named = {name for path in SERVICES.rglob("*.py") for name in _reached(path)}

    assert named == set(Step)


def test_every_row_that_the_orchestrator_writes_has_a_point_before_and_after() -> None:
    written = FENCED_BY_EPOCH | {RowKind.RESULT, RowKind.CONTROL}

    assert {Step(f"orchestrator:{verb}-{kind.value}") for verb in ("send", "acked")
            for kind in written} == {s for s in Step if "-" in s.value and
                                     s.service == "orchestrator"}  # fmt: skip


def test_whatever_changes_something_durable_has_a_point_or_a_reason() -> None:
    without = {
        f"{'.'.join(path.relative_to(SERVICES).with_suffix('').parts)}.{name}"
        for room in ROOMS
        for path in ((SERVICES / room).rglob("*.py") if "." not in room else [SERVICES / room])
        for name, function in _functions(ast.parse(path.read_text()).body)
        if _changes_something(function) and not _has_point(function)
    }
    without = {name for name in without if not name.startswith(NOT_STEPS)}

    assert without == set(BESIDE) | set(HARMLESS)


def test_the_published_matrix_names_every_step() -> None:
    text = (REPO / "docs" / "fault-matrix.md").read_text()

    assert [step.value for step in Step if f"`{step.value}`" not in text] == []
    assert "RED" not in text.partition("made by:")[2]


def _reached(path: Path) -> Iterator[Step]:
    """Steps that a file reaches; a built name stands for its whole family."""
    for call in _calls(ast.parse(path.read_text())):
        if not (isinstance(call.func, ast.Name) and call.func.id == "reach"):
            continue
        (argument,) = call.args
        if isinstance(argument, ast.Attribute):
            yield Step[argument.attr]
        elif isinstance(argument, ast.Call):  # Step(f"orchestrator:send-{kind}")
            (text,) = argument.args
            assert isinstance(text, ast.JoinedStr)
            assert isinstance(text.values[0], ast.Constant)
            yield from (step for step in Step if step.value.startswith(text.values[0].value))


def _functions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _has_point(function: ast.FunctionDef) -> bool:
    return any(isinstance(c.func, ast.Name) and c.func.id == "reach" for c in _calls(function))


def _changes_something(function: ast.FunctionDef) -> bool:
    return any(_is_durable(call) for call in _calls(function))


def _is_durable(call: ast.Call) -> bool:
    """A rename, an fsync, a cut, a started process, a write to Redis."""
    if not isinstance(call.func, ast.Attribute):
        return False
    name, on = call.func.attr, call.func.value
    module = on.id if isinstance(on, ast.Name) else ""
    return (
        (module == "os" and name in ("fsync", "replace", "rename", "ftruncate"))
        or (module == "subprocess" and name == "Popen")
        or (name in ("replace", "rename") and len(call.args) == 1 and module != "shutil")
        or (name == "execute" and not call.args)
        or name in ("xadd", "xdel", "lrem", "blmove")
    )
