"""One attempt's status and reason, from what was measured outside and what was printed."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, replace
from typing import Literal

from overnight.contracts.execution import Execution, Exit
from overnight.contracts.experiment import Claim, ExperimentJob
from overnight.contracts.loop import Plausible
from overnight.contracts.status import SUSPENDED, Gate, Status
from overnight.contracts.untrusted import one_line
from overnight.runner.offline import WANTED_NETWORK, wanted
from overnight.runner.parse import BEFORE_RULE, Parsed
from overnight.runner.values import AMBIGUOUS, NO_METRIC, NONFINITE

DETAIL_CHARACTERS = 500
SIGNATURE_CHARACTERS = 300
STARVED_SHARE = 0.5  #: of one core; below it the machine was too busy, not the idea too slow
METRIC_SEEN = "metric_seen"  #: flag: a metric was printed but does not count; it is a claim
STALLED = "stalled"  #: flag: its runner was stopped meanwhile, which changed nothing
SURVIVORS = "survivors"  #: flag: something outlived the kill
HOLDABLE = (Status.SCORED, Status.HELD)  #: the statuses that carry a metric

Phase = Literal["train", "startup", "eval"]

_FRAME = re.compile(r'\s+File "(?P<file>[^"]*)", line \d+(?:, in (?P<function>.+))?$')
_RAISED = re.compile(r"(?P<type>[A-Za-z_][\w.<>]*)(?:: ?(?P<message>.*))?$")
_BARE = re.compile(r"(?P<type>[\w.]*(?:Error|Exception|Interrupt))(?:: (?P<message>.*))?$")
_IGNORED = re.compile(r"Exception ignored ")  #: printed by a finaliser, never why it exited

_MEMORY = re.compile(
    r"out of memory|(?:can't|cannot) allocate memory|not enough memory|unable to allocate"
    r"|CUBLAS_STATUS_ALLOC_FAILED|std::bad_alloc|\bMemoryError\b|\bOutOfMemoryError\b",
    re.IGNORECASE,
)
_DISK = re.compile(
    r"no space left on device|\[Errno (?:28|27|122)\]|file too large|disk quota exceeded"
    r"|PytorchStreamWriter failed writing",
    re.IGNORECASE,
)
_OPEN_FILES = re.compile(r"too many open files|\[Errno (?:24|23)\]", re.IGNORECASE)
_ASKED = re.compile(r"EOF when reading a line")
_BY_TYPE = {
    "SyntaxError": "syntax",
    "IndentationError": "syntax",
    "TabError": "syntax",
    "ImportError": "import",
    "ModuleNotFoundError": "import",
    "MemoryError": "oom",
    "_ArrayMemoryError": "oom",
    "OutOfMemoryError": "oom",
    "FloatingPointError": NONFINITE,
}
#: Of a crash that a want of the network may be behind.
_MAYBE_OFFLINE = frozenset({"exit_code", "import", NO_METRIC})
#: Launchers that only pass on that something below them failed.
_WRAPPERS = frozenset(
    {"ChildFailedError", "CalledProcessError", "ProcessExitedException", "SystemExit"}
)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What one attempt came to. metric is set with status scored or held only."""

    status: Status
    reason: str | None = None
    detail: str = ""  #: one safe line for a person
    metric: float | None = None
    signature: str | None = None  #: of a crash; two of the same kind have the same
    flags: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class _Failure:
    """The exception that ended the candidate, as its traceback shows it."""

    type: str
    message: str
    file: str
    function: str

    @property
    def line(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type

    @property
    def place(self) -> str:
        where = ":".join(part for part in (self.file, self.function) if part)
        return f"{self.type} {where}" if where else self.type


def classify(
    execution: Execution,
    parsed: Parsed,
    job: ExperimentJob,
    tail: str | None = None,
    *,
    plausible: Plausible | None = None,
    phase: Phase = "train",
) -> Verdict:
    """The verdict of one attempt. How it ended decides first, then what it printed.

    tail: the candidate's last words where the caller has better ones than *parsed*.
    phase: what it was doing when a deadline fell, if the caller knows.
    """
    words = parsed.tail if tail is None else tail
    verdict = _suspended(execution) or _verdict(execution, parsed, job, words, phase)
    if verdict.status is Status.SCORED and plausible is not None:
        verdict = _held(verdict, plausible)
    if verdict.reason in _MAYBE_OFFLINE and job.network == "none" and execution.isolation != "none":
        advice = wanted(parsed.error_tail, words)
        if advice is not None:
            verdict = replace(verdict, detail=advice, flags=(*verdict.flags, WANTED_NETWORK))
    flags, claims = (*parsed.flags, *verdict.flags), parsed.claims
    if verdict.status not in HOLDABLE and parsed.raw is not None:
        claims = (*claims, Claim(name=job.metric, value=parsed.raw))
        if parsed.value is not None:
            flags = (*flags, METRIC_SEEN)
    if execution.stalled_seconds > 0 and verdict.reason != SUSPENDED:
        flags = (*flags, STALLED)
    if execution.survivors > 0:
        flags = (*flags, SURVIVORS)
    return replace(verdict, flags=flags, claims=claims)


def ended_well(execution: Execution) -> bool:
    """By itself, with exit code 0, on a machine that did not sleep."""
    by_itself = execution.exit is Exit.EXITED and execution.signal is None
    return by_itself and execution.exit_code == 0 and _suspended(execution) is None


def _suspended(execution: Execution) -> Verdict | None:
    """Is its ending the fault of a runner that was stopped, or of a host that slept?

    While the runner was stopped, nobody knows if the candidate ran: its deadline is no verdict. If
    it ended by itself it had the time it needed. While the host sleeps, a candidate's own clocks
    may jump, so that it stops early or gives up: nothing it did counts.
    """
    if execution.asleep_seconds > 0 and execution.exit in (Exit.EXITED, Exit.DEADLINE_WALL):
        detail = f"the host slept for {execution.asleep_seconds:.0f} s meanwhile"
    elif execution.stalled_seconds > 0 and execution.exit is Exit.DEADLINE_WALL:
        detail = f"its runner was stopped for {execution.stalled_seconds:.0f} s meanwhile"
    else:
        return None
    return Verdict(status=Status.INFRA, reason=SUSPENDED, detail=detail)


def _verdict(
    execution: Execution, parsed: Parsed, job: ExperimentJob, tail: str, phase: Phase
) -> Verdict:
    match execution.exit:
        case Exit.KILLED:
            return Verdict(status=Status.CANCELLED, detail="ended by us before its deadline")
        case Exit.DEADLINE_CPU:
            limit = "" if job.cpu_seconds is None else f" at its limit of {job.cpu_seconds:g} s"
            used = execution.cpu_seconds
            spent = "" if used is None else f" ({used:.1f} CPU-seconds used)"
            return Verdict(
                status=Status.TIMEOUT, reason="train", detail=f"killed{limit} of CPU{spent}"
            )
        case Exit.DEADLINE_WALL:
            return _wall(execution, job, phase)
        case Exit.DISK:
            return _crash("disk", f"killed: it took {execution.over}", None, "killed")
        case Exit.OOM:
            failure = _failure(parsed.error_tail, tail)
            detail = "killed by the kernel: the sandbox was out of memory"
            return _crash("oom", detail, failure, "killed")
        case Exit.EXITED if execution.exit_code == 0 and execution.signal is None:
            return _printed(parsed, job, tail)
        case Exit.EXITED:
            return _failed(execution, parsed, tail)


def _wall(execution: Execution, job: ExperimentJob, phase: Phase) -> Verdict:
    wall, cpu, share = execution.wall_seconds, execution.cpu_seconds, execution.cpu_share
    if share is None and cpu is not None and wall > 0:
        share = cpu / wall
    below = cpu is None or job.cpu_seconds is None or cpu < job.cpu_seconds
    if job.gate == Gate.CPU_TIME and share is not None and share < STARVED_SHARE and below:
        detail = f"got {share:.0%} of a core in {wall:.1f} s: the machine was too busy"
        return Verdict(status=Status.INFRA, reason="starved", detail=detail)
    detail = f"killed after {wall:.1f} s (deadline {round(job.wall_seconds, 1):g} s)"
    return Verdict(status=Status.TIMEOUT, reason=phase, detail=detail)


def _printed(parsed: Parsed, job: ExperimentJob, tail: str) -> Verdict:
    """It ended by itself with exit code 0: what it printed counts."""
    if parsed.value is not None:
        return Verdict(status=Status.SCORED, metric=parsed.value)
    reason = parsed.problem or NO_METRIC
    if reason == NO_METRIC:
        detail = parsed.why or f"no line '{job.metric}: <number>' in the output"
        if BEFORE_RULE in parsed.flags:
            detail = f"no line '{job.metric}: <number>' below the last '---' line"
        failure = _failure(parsed.error_tail, tail)
        if failure is not None:
            detail = f"{detail}; the last error was {failure.line}"
        return _crash(reason, detail, failure, "")
    if parsed.why:
        detail = parsed.why
    elif reason == AMBIGUOUS:
        detail = f"different values of {job.metric} and no '---' line before the last: {parsed.raw}"
    else:
        detail = f"'{job.metric}: {parsed.raw}' is not a finite plain number"
    return _crash(reason, detail, None, "")


def _failed(execution: Execution, parsed: Parsed, tail: str) -> Verdict:
    """It ended by itself but not well: a crash, whatever it printed."""
    failure = _failure(parsed.error_tail, tail)
    ended = _ended(execution)
    name = _signal_name(execution)
    if name is not None:
        # A signal is no exception: an older traceback in the output does not explain it.
        words = f"{parsed.error_tail}\n{tail}"
        reason = "disk" if name == "SIGXFSZ" else "exit_code"
        if name == "SIGABRT" and _MEMORY.search(words):
            reason = "oom"
        return _crash(reason, ended, None, name)
    if failure is None or failure.type in _WRAPPERS:
        words = f"{parsed.error_tail}\n{tail}"
        last = _last_line(parsed.error_tail) or _last_line(tail)
        detail = f"{ended}: {last}" if last else ended
        return _crash(_reason_of(words), detail, failure, ended)
    reason = _BY_TYPE.get(failure.type) or _reason_of(failure.line)
    return _crash(reason, failure.line, failure, ended)


def _reason_of(words: str) -> str:
    if _MEMORY.search(words):
        return "oom"
    if _DISK.search(words):
        return "disk"
    if _OPEN_FILES.search(words):
        return "open_files"
    return "asked_for_input" if _ASKED.search(words) else "exit_code"


def _held(verdict: Verdict, plausible: Plausible) -> Verdict:
    value, low, high = verdict.metric, plausible.min, plausible.max
    if value is None or not (
        (low is not None and value < low) or (high is not None and value > high)
    ):
        return verdict
    bounds = f"{'-' if low is None else low} to {'-' if high is None else high}"
    detail = f"{value!r} is outside of what this track takes for plausible ({bounds})"
    return replace(verdict, status=Status.HELD, reason="implausible", detail=detail)


def _crash(reason: str, detail: str, failure: _Failure | None, how: str) -> Verdict:
    place = failure.place if failure is not None else how
    signature = f"{reason}:{place}" if place else reason
    return Verdict(
        status=Status.CRASH,
        reason=reason,
        detail=one_line(detail, DETAIL_CHARACTERS),
        signature=one_line(signature, SIGNATURE_CHARACTERS),
    )


def _failure(error_tail: str, tail: str) -> _Failure | None:
    """The last exception shown; in stderr alone first, where stdout can't cut through it."""
    return _traceback(error_tail) or _traceback(tail) or _bare(error_tail) or _bare(tail)


def _traceback(text: str) -> _Failure | None:
    found: _Failure | None = None
    frame: re.Match[str] | None = None
    ignored = False
    for line in text.split("\n"):
        ignored = ignored or _IGNORED.match(line) is not None
        match = _FRAME.match(line)
        if match is not None:
            frame = match
            continue
        raised = _RAISED.match(line) if frame is not None else None
        if frame is None or raised is None:
            continue
        if not ignored:
            function = frame["function"] or ""
            found = _Failure(
                type=raised["type"].rpartition(".")[2],
                message=raised["message"] or "",
                file=_stable(re.split(r"[/\\]", frame["file"])[-1]),
                function=_stable(function),
            )
        frame, ignored = None, False
    return found


def _bare(text: str) -> _Failure | None:
    """An exception line without frames; only as the last words, above them it was survived."""
    match = _BARE.match(_last_line(text))
    if match is None:
        return None
    kind = match["type"].rpartition(".")[2]
    return _Failure(type=kind, message=match["message"] or "", file="", function="")


def _stable(name: str) -> str:
    """*name* without what differs between two crashes of one kind: numbers and addresses."""
    return re.sub(r"0x[0-9a-fA-F]+|\d+", "#", name)


def _last_line(text: str) -> str:
    lines = text.strip().split("\n")
    return lines[-1].strip()


def _ended(execution: Execution) -> str:
    name = _signal_name(execution)
    if name == "SIGKILL":
        return "SIGKILL, not sent by us: perhaps the machine ran out of memory"
    return name if name is not None else f"exit code {execution.exit_code}"


def _signal_name(execution: Execution) -> str | None:
    """The signal that ended the command; a shell or bwrap reports it as 128 + number."""
    number = execution.signal
    code = execution.exit_code
    if number is None and code is not None and 128 < code < 128 + signal.NSIG:
        number = code - 128
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
