"""
Frozen part of the track: inputs, correctness gate, clock and summary of a function's run time.

    python measure.py                        # some seconds
    CODE_SPEED_KEY=abc python measure.py     # the inputs of an earlier run again: it prints its key

solution.py runs in a child process. This one, the parent, draws the inputs, sends them, stops the
clock when the answer is back and checks it against an answer of its own. So nothing that the
solution does to time, print, sys or its own module moves the clock:

- each call has a new input, drawn from a key that the child never sees, sent when the clock runs
- an answer that is wrong, late, too short or too long ends the run without a metric
- what the child prints stands on stderr behind a mark, never on a line that is parsed
- on Linux the child can't open this process, as root neither, so it can't write to its stdout

What it is not: a sandbox. Keeping the child off this file and the network is the runner's matter.
"""
import contextlib
import ctypes
import hashlib
import os
import random
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path

# -----------------------------------------------------------------------------
# Constants (fixed, do not modify)

POINTS      = 1_500        # of a timed call
SIDE        = 1_000_000    # coordinates are whole numbers below it: no rounding to argue about
RADIUS      = 20_000       # about one close pair a point
WARMUP      = 3            # calls that are checked and not timed
MIN_CALLS   = 15           # timed ones
MAX_CALLS   = 151
MAX_SECONDS = 10.0         # of one call
HERE        = Path(__file__).resolve().parent
LIBC        = ctypes.CDLL(None) if sys.platform == "linux" else None

BUDGET = float(os.environ.get("OVERNIGHT_BUDGET", "2"))       # seconds of timed calls, about
SEED   = os.environ.get("OVERNIGHT_SEED", "0")
KEY    = os.environ.get("CODE_SPEED_KEY") or os.urandom(8).hex()  # a known one can be worked ahead

CHILD = """
import os, struct, sys
from array import array
tasks, answers = os.fdopen(int(sys.argv[1]), "rb"), os.fdopen(int(sys.argv[2]), "wb", 0)
sys.path.insert(0, sys.argv[3])
from solution import count_pairs
answers.write(struct.pack("<q", -1))                          # imported
while head := tasks.read(12):
    n, side, radius = struct.unpack("<3i", head)
    points = array("i")
    points.frombytes(tasks.read(8 * n))
    points = points.tolist()
    answers.write(struct.pack("<q", count_pairs(points[:n], points[n:], side, radius)))
"""

# -----------------------------------------------------------------------------
# Inputs and the right answers


def draw(call):
    """(xs, ys) of one call: the same for the same key, seed and number."""
    rng = random.Random(hashlib.sha256(f"{KEY}:{SEED}:{call}".encode()).digest())
    return [[rng.randrange(SIDE) for _ in range(POINTS)] for _ in range(2)]


def edge_cases():
    """Small inputs at which a shortcut would show: (xs, ys, side, radius)."""
    last = SIDE - 1
    yield [], [], SIDE, RADIUS
    yield [5], [5], SIDE, RADIUS
    yield [7] * 40, [9] * 40, SIDE, RADIUS                                  # all in one place
    yield [0, 0, last, last], [0, last, 0, last], SIDE, RADIUS              # the corners
    yield [0, RADIUS, 0, RADIUS + 1], [0, 0, RADIUS, 0], SIDE, RADIUS       # just in, just out
    yield [100, 112, 100], [100, 105, 113], 1000, 13                        # 5, 12, 13
    yield list(range(0, 1000, 10)), [500] * 100, 1000, 30                   # a line
    yield [0, 400, 999, 999], [0, 300, 999, 0], 1000, 1000                  # one cell for all


def right_answer(xs, ys, side, radius):
    """Sorted by x, each point is held against those at most radius behind it."""
    points = sorted(zip(xs, ys, strict=True))
    total, first, square = 0, 0, radius * radius
    for i, (x, y) in enumerate(points):
        while points[first][0] < x - radius:
            first += 1
        for ox, oy in points[first:i]:
            total += (x - ox) ** 2 + (y - oy) ** 2 <= square
    return total


# -----------------------------------------------------------------------------
# The child


class Failed(Exception):
    """There is no metric. The text says why."""


def close_to_others():
    """Nobody else may read this process's memory or reopen its files, the child included."""
    if LIBC:
        LIBC.prctl(4, 0, 0, 0, 0)                             # PR_SET_DUMPABLE


def give_up_powers():
    """In the child: as root it could open a closed process still."""
    if LIBC:
        for power in (19, 21):                                # CAP_SYS_PTRACE, CAP_SYS_ADMIN
            LIBC.prctl(24, power, 0, 0, 0)                    # PR_CAPBSET_DROP


class Child:
    def __init__(self):
        task, self.tasks = os.pipe()
        self.answers, answer = os.pipe()
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 - its stdout and stderr, until it ends
        ours = ("OVERNIGHT_", "CODE_SPEED_")
        env = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(task), str(answer), str(HERE)],
            stdin=subprocess.DEVNULL, stdout=self.said, stderr=self.said, pass_fds=(task, answer),
            env=env, start_new_session=True, preexec_fn=give_up_powers,
        )
        os.close(task)
        os.close(answer)
        os.set_blocking(self.tasks, False)
        self.read(time.perf_counter() + MAX_SECONDS)

    def call(self, xs, ys, side, radius):
        """(the answer, seconds): from the first byte sent to the last byte back."""
        packed = struct.pack("<3i", len(xs), side, radius) + array("i", xs + ys).tobytes()
        if select.select([self.answers], [], [], 0)[0]:
            raise Failed("the solution answered before it was asked")
        started = time.perf_counter()
        self.write(packed, started + MAX_SECONDS)
        answer = self.read(started + MAX_SECONDS)
        return answer, time.perf_counter() - started

    def write(self, packed, until):
        while packed:
            if not select.select([], [self.tasks], [], max(0, until - time.perf_counter()))[1]:
                raise Failed(f"the solution took more than {MAX_SECONDS:.0f} s for one call")
            try:
                packed = packed[os.write(self.tasks, packed):]
            except BrokenPipeError:
                raise Failed("the solution ended before it answered") from None

    def read(self, until):
        packed = b""
        while len(packed) < 8:
            if not select.select([self.answers], [], [], max(0, until - time.perf_counter()))[0]:
                raise Failed(f"the solution took more than {MAX_SECONDS:.0f} s for one call")
            more = os.read(self.answers, 8 - len(packed))
            if not more:
                raise Failed("the solution ended before it answered")
            packed += more
        return struct.unpack("<q", packed)[0]

    def end(self):
        """Kill it with all that it started, and show what it printed."""
        os.close(self.tasks)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.said.seek(max(0, self.said.seek(0, os.SEEK_END) - 4000))
        for line in self.said.read().decode(errors="replace").splitlines():
            print("solution |", line, file=sys.stderr)


# -----------------------------------------------------------------------------


def check(answer, *task):
    """Seconds that the right answer took here: how fast the machine is at the moment."""
    started = time.perf_counter()
    expected = right_answer(*task)
    took = time.perf_counter() - started
    if answer != expected:
        raise Failed(f"wrong answer: {answer} instead of {expected} for {len(task[0])} points")
    return took


def measure(child):
    """Seconds of each timed call, all with right answers; seconds of those answers made here."""
    for task in edge_cases():
        check(child.call(*task)[0], *task)
    seconds, reference = [], []
    for call in range(WARMUP + MAX_CALLS):
        task = (*draw(call), SIDE, RADIUS)
        answer, took = child.call(*task)
        here = check(answer, *task)
        if call >= WARMUP:
            seconds.append(took)
            reference.append(here)
        if len(seconds) >= MIN_CALLS and sum(seconds) >= BUDGET:
            break
    return seconds, reference


def main():
    close_to_others()
    child = None
    try:
        child = Child()
        seconds, reference = measure(child)
    except Failed as failed:
        print(f"FAIL: {failed}", file=sys.stderr)
        sys.exit(1)
    finally:
        if child:
            child.end()
    quarter = statistics.quantiles(seconds, n=4)
    print("---")
    print(f"median_ms:        {1000 * statistics.median(seconds):.4f}")
    print(f"spread_ms:        {1000 * (quarter[2] - quarter[0]):.4f}")     # middle half
    # The same inputs by the same frozen code in every run: it moves with the machine alone.
    print(f"reference_ms:     {1000 * statistics.median(reference):.4f}")
    print(f"calls:            {len(seconds)}")
    print(f"points:           {POINTS}")
    print(f"key:              {KEY}")


if __name__ == "__main__":
    main()
