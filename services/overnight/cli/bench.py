"""bench: what the product says of itself is measured here, on this machine."""

from __future__ import annotations

import secrets
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overnight.cli import output, places
from overnight.cli.numbers import amount, whole
from overnight.cli.options import AsJson

if TYPE_CHECKING:
    from overnight.sessions.startup import Comparison
    from overnight.sessions.torture.driver import Report

MINUTES = 5.0
PAIRS = 10
INTERRUPTED = 130  #: as a second Ctrl-C ends `run`
SHOWN_PROBLEMS = 20
SAY_SECONDS = 10.0  #: between two lines of figures
CLEAR_LINE = "\r\x1b[2K"

bench = typer.Typer(help="Measures and checks of this installation.", no_args_is_help=True)


@bench.callback()
def _bench() -> None:
    """Measures and checks of this installation."""


@bench.command()
def torture(
    minutes: Annotated[
        float, typer.Option(parser=amount("--minutes"), metavar="N", help="of faults")
    ] = MINUTES,
    seed: Annotated[
        int | None,
        typer.Option(parser=whole("--seed", 0), metavar="N", help="draws the same faults again"),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="an empty folder; default: a new temporary one")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Strike a session with random faults, then recount it.

    Its candidates are hostile, the recount is an outside checker's.
    """
    from overnight.configuration import process_environ
    from overnight.contracts.errors import UsageError
    from overnight.sessions.torture.driver import Plan, Torture
    from overnight.sessions.torture.repository import require_empty

    if sys.platform != "linux":
        raise UsageError("torture runs hostile code in namespaces: it needs Linux")
    seed = secrets.randbelow(2**31) if seed is None else seed
    folder = directory or Path(tempfile.mkdtemp(prefix="overnight-torture-"))
    require_empty(folder.absolute())
    plan = Plan(minutes=minutes, seed=seed, folder=folder.absolute(), environ=process_environ())
    view = _View(minutes, quiet=as_json)
    view.head(plan.seed, plan.folder)
    try:
        report = Torture(plan, view.tell).run()
    except KeyboardInterrupt:
        view.clear()
        output.fail("interrupted: all is killed, nothing was recounted")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        view.clear()
    if as_json:
        output.emit(report.as_json())
    else:
        _summary(report)
    raise typer.Exit(0 if report.ok else 1)


@bench.command()
def startup(
    pairs: Annotated[
        int, typer.Option(parser=whole("--pairs", 1), metavar="N", help="starts of each kind")
    ] = PAIRS,
    image: Annotated[
        str | None, typer.Option(metavar="NAME", help="of the containers; default: the spawner's")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What the walls of a sandbox cost, side by side."""
    from overnight.configuration import process_environ
    from overnight.sessions.startup import compare

    moves = not as_json and output.is_terminal()

    def tell(done: int) -> None:
        if moves:
            output.write(f"{CLEAR_LINE}startup   {done} of {pairs} rounds")

    try:
        found = compare(pairs, process_environ(), image, tell)
    finally:
        if moves:
            output.write(CLEAR_LINE)
    if as_json:
        output.emit(_startup_json(found))
        return
    _startup_table(found)


def _startup_json(found: Comparison) -> dict[str, object]:
    rows = [
        {
            "name": row.name, "isolation": row.isolation, "start_s": round(row.start_seconds, 6),
            "gone_s": round(row.gone_seconds, 6), "total_s": round(row.total_seconds, 6),
            "ratio": round(row.ratio, 3),
        }
        for row in found.rows
    ]  # fmt: skip
    return {"ok": True, "pairs": found.pairs, "rows": rows, "image": found.image,
            "missing": found.missing}  # fmt: skip


def _startup_table(found: Comparison) -> None:
    output.say(f"startup   medians of {found.pairs}, taken in turn")
    output.say(f"  {'':<32}{'first line':>12}{'then gone':>12}{'in all':>12}")
    for row in found.rows:
        name = row.name if row.isolation in ("none", row.name) else f"{row.name} ({row.isolation})"
        steps = (row.start_seconds, row.gone_seconds, row.total_seconds)
        cells = "".join(f"{1000 * seconds:>9.1f} ms" for seconds in steps)
        output.say(f"  {name:<32}{cells}{row.ratio:>8.0f} x")
    if found.missing is not None:
        output.say(f"  container: not measured: {output.safe(found.missing, 300)}")


class _View:
    """Progress: a line of figures now and then, on a terminal each fault below it as it comes.

    With --json it goes to standard error, so that a script has the object alone.
    """

    def __init__(self, minutes: float, quiet: bool) -> None:
        self._minutes = minutes
        self._quiet = quiet
        self._moves = not quiet and output.is_terminal()
        self._said_at = time.monotonic()
        self._last = ""
        self._below = False

    def head(self, seed: int, folder: Path) -> None:
        """The seed first: it is what one needs when something goes wrong."""
        self._say(f"torture   seed {seed}, {self._minutes:g} min of faults, in {folder}")
        again = f"overnight bench torture --minutes {self._minutes:g} --seed {seed}"
        self._say(f"again     {places.as_called(again)}")
        self._say("          Ctrl-C ends the faults, then everything is recounted")

    def tell(self, what: str, report: Report, matters: bool) -> None:
        """Something happened, or a moment has passed."""
        line = (
            f"{_clock(report.seconds)}   {report.faults:4d} faults   "
            f"{report.experiments:4d} ideas decided   "
        )
        if matters:
            self._say(f"{line}{output.safe(what, 300)}")
            return
        self._last = what or self._last
        if time.monotonic() - self._said_at >= SAY_SECONDS:
            self._said_at = time.monotonic()
            self._say(f"{line}last: {self._last}")
        elif what and self._moves:
            room = max(10, (output.width() or 80) - len(line) - 1)
            output.write(f"{CLEAR_LINE}{line}{output.safe(what, room)}")
            self._below = True

    def clear(self) -> None:
        """Take the moving line away."""
        if self._below:
            self._below = False
            output.write(CLEAR_LINE)

    def _say(self, text: str) -> None:
        self.clear()
        if self._quiet:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
        else:
            output.say(text)


def _summary(report: Report) -> None:
    from overnight.cli import words

    for line in _facts(report):
        output.say("\n".join(words.fold(line, output.width())))


def _facts(report: Report) -> list[str]:
    """A line a subject; its facts stand three spaces apart."""
    kinds = sorted(report.by_kind.items(), key=lambda item: -item[1])
    more = len(report.problems) - SHOWN_PROBLEMS
    subjects = {
        "faults": [f"{report.faults} in {_clock(report.seconds).strip()}", *_counts(kinds)],
        "ideas": [f"{report.experiments} decided", *_counts(report.verdicts.items())],
        "ledger": [f"{report.rows} rows", f"{report.attempts} attempts",
                   f"{report.superseded} superseded", f"{report.starts} starts of the stack"],
        "memory": [f"{name} {mb:.0f} MB" for name, mb in report.memory_mb.items()],
        "disk": [f"{report.disk_mb:g} MB   {report.session_dir}"],
        "counted": [f"lost {report.lost}", f"doubled {report.doubled}",
                    f"orphans {report.orphans}", f"seed {report.seed}"],
    }  # fmt: skip
    lines = [f"  {subject:<9} {'   '.join(facts)}" for subject, facts in subjects.items()]
    lines += [f"  {'!':<9} {output.safe(what, 300)}" for what in report.problems[:SHOWN_PROBLEMS]]
    return lines + ([f"  !         and {more} more: --json has them all"] if more > 0 else [])


def _counts(items: Iterable[tuple[str, int]]) -> list[str]:
    return [f"{name} {count}" for name, count in items]


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:3d}:{int(seconds) % 60:02d}"
