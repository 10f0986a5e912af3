"""program.md and program.next.md on the disk: what they are made from, and where they may go."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from overnight.configuration import PROGRAM_FILE, program_of, resolve_loop
from overnight.contracts.errors import ConfigError, InfrastructureError, UsageError
from overnight.contracts.experiment import ExperimentResult
from overnight.contracts.loop import LoopConfig
from overnight.contracts.tunable import is_fixed_elsewhere, is_never_tuned
from overnight.ledger.plain import write_new
from overnight.sessions.demo import track_of
from overnight.sessions.locate import find_session
from overnight.sessions.measured import recall
from overnight.sessions.once import Start, Wanted, run_once
from overnight.sessions.program.changes import change_since
from overnight.sessions.program.following import following, is_unedited, tried_line
from overnight.sessions.program.gaps import Checked, check
from overnight.sessions.program.template import Ground, Measured, program
from overnight.sessions.report.constants import constants
from overnight.sessions.report.entries import Facts
from overnight.sessions.report.gather import gather
from overnight.sessions.report.points import tried
from overnight.sessions.report.save import save
from overnight.snapshots.tree import scan

NEXT_FILE = "program.next.md"
_GROUPS = 40
_FILE_BYTES = 400_000


class BaselineFailedError(UsageError):
    """There is nothing to build a program on: the code as it lies gives no number."""

    exit_code = 1


@dataclass(frozen=True, kw_only=True)
class Place:
    """A repository, and the session in it if there is one."""

    repo: Path
    tag: str | None
    environ: Mapping[str, str]


def new(place: Place, on_start: Callable[[Start], None], *, measure: bool = True) -> Path:
    """Write program.md. Its baseline is a session's, or what `once` measured of this very tree;
    else the tree is run once, unless told not to.

    Raises:
        UsageError: program.md is there, or the bindings are not right.
        BaselineFailedError: the tree gives no metric. Nothing was written.
    """
    path = place.repo / PROGRAM_FILE
    if path.exists() or path.is_symlink():
        raise UsageError(
            f"{path} is there and stays as it is: `overnight program check` looks at it, "
            "`overnight program next` writes one beside it"
        )
    facts = _facts(place)
    track = track_of(place.repo)
    resolved = resolve_loop(place.repo, flags={}, environ=place.environ, track=track)
    config = resolved.config if facts is None else facts.config
    listing = scan(resolved.repo, resolved.session_root)
    names = sorted(file.path for file in listing.files)
    measured = _of_session(facts)
    if measured is None:
        measured = _of_once(recall(place.environ, resolved))
    if measured is None and measure:
        measured = _measure(place, on_start, track)
    groups = [] if facts is None else tried(facts)[:_GROUPS]
    text = program(
        Ground(
            name=resolved.repo.name,
            config=config,
            measured=measured,
            frozen=_frozen(names, config),
            knobs=_knobs(_texts(resolved.repo, config)),
            tried=[f"- {tried_line(group)}" for group in groups],
        )
    )
    try:
        write_new(path, text.encode())
    except FileExistsError as error:
        raise UsageError(f"{path} is there by now and stays as it is") from error
    return path


def _knobs(texts: Mapping[str, str]) -> dict[str, str]:
    """The constants worth a direction: no seed, no measurement, no budget, no path."""
    return {
        name: value for name, value in constants(texts).items()
        if not is_never_tuned(name) and not is_fixed_elsewhere(name)
    }  # fmt: skip


def looked_at(place: Place, path: Path | None = None) -> tuple[Path, Checked, str | None]:
    """program.md (or *path*) judged, and what to say of it to whoever has a session running.

    Raises:
        UsageError: there is none.
    """
    path = path or place.repo / PROGRAM_FILE
    text = program_of(path.parent, path.name)
    if text is None:
        raise UsageError(f"no {path.name} in {path.parent}: `overnight program new` begins one")
    facts = _facts(place)
    metric = facts.metric.name if facts is not None else _metric(place)
    change = None
    if path.name == PROGRAM_FILE:
        with contextlib.suppress(UsageError):
            found = find_session(place.repo, place.tag)
            opened = gather(found)[1].opened
            change = None if opened is None else change_since(opened, text)
    return path, check(text, metric), change


def write_next(place: Place, to: Path | None, *, force: bool) -> Path:
    """Write what follows from a session's results beside program.md.

    Raises:
        UsageError: no session, or what stands there is edited or not ours; names the fix.
    """
    facts, _ = gather(find_session(place.repo, place.tag))
    path = to or place.repo / NEXT_FILE
    here = place.repo / PROGRAM_FILE
    if path.resolve() == here.resolve() or path.name == PROGRAM_FILE:
        raise UsageError(f"{PROGRAM_FILE} is a person's file: give another name than that")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder: make it first")
    _check_replaceable(path, force=force)
    text = program_of(place.repo)
    if text is None:
        groups = Ground(name=place.repo.name, config=facts.config, measured=_of_session(facts))
        text = program(groups)
    save(path, following(text, facts).encode("utf-8", "replace"))
    return path


def _check_replaceable(path: Path, *, force: bool) -> None:
    if not (path.exists() or path.is_symlink()) or (force and path.is_file()):
        return
    try:
        text = program_of(path.parent, path.name) if path.is_file() else None
    except ConfigError:
        text = None
    if text is None or not is_unedited(text):
        raise UsageError(
            f"{path} is there and was edited, or is not ours: give another name with --to, or "
            "--force"
        )


def _facts(place: Place) -> Facts | None:
    try:
        return gather(find_session(place.repo, place.tag))[0]
    except UsageError:
        if place.tag is not None:
            raise
        return None


def _metric(place: Place) -> str | None:
    try:
        resolved = resolve_loop(
            place.repo, flags={}, environ=place.environ, track=track_of(place.repo)
        )
    except ConfigError:
        return None
    return resolved.config.metric.name


def _of_session(facts: Facts | None) -> Measured | None:
    first = facts.baseline if facts is not None else None
    if facts is None or first is None or first.metric is None:
        return None
    return Measured(
        metric=first.metric,
        by=f"experiment 001 of session {facts.tag}",
        peak_vram_mb=first.peak_vram_mb,
        runtime_s=first.runtime_s,
        hardware=first.hardware,
    )


def _measure(place: Place, on_start: Callable[[Start], None], track: Path | None) -> Measured:
    once = run_once(Wanted(repo=place.repo, flags={}, environ=place.environ, track=track), on_start)
    result = once.result
    if not once.good or result.metric is None:
        raise BaselineFailedError(
            f"the code as it lies ended as {once.decision.verdict.value}: {once.why or 'no metric'}"
            "; nothing was written (`overnight once` shows more)"
        )
    measured = _of_once(result)
    assert measured is not None  # good
    return measured


def _of_once(result: ExperimentResult | None) -> Measured | None:
    if result is None or result.metric is None:
        return None
    return Measured(
        metric=result.metric,
        by="measured by one run of the code as it lies",
        peak_vram_mb=result.peak_vram_mb,
        runtime_s=result.runtime_s,
        hardware=result.hardware,
    )


def _frozen(names: list[str], config: LoopConfig) -> list[str]:
    """The files worth naming: code first, as it lies nearest."""
    rest = [n for n in names if n not in config.editable_files and n != PROGRAM_FILE]
    return sorted(rest, key=lambda n: (not n.endswith(".py"), n.count("/"), n))


def _texts(repo: Path, config: LoopConfig) -> dict[str, str]:
    found = {}
    for name in config.editable_files:
        path = repo / name
        try:
            if path.is_file() and path.stat().st_size <= _FILE_BYTES:
                found[name] = path.read_text("utf-8", errors="replace")
        except OSError as error:
            raise InfrastructureError(f"{path}: {error.strerror}") from error
    return found
