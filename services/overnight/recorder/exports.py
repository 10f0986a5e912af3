"""results.tsv and experiments.jsonl: what people open. Built from the fold, never read back."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from overnight.contracts.errors import InfrastructureError
from overnight.contracts.status import Role, Status, Trust
from overnight.contracts.untrusted import tsv_cell
from overnight.faultpoints import Step, reach
from overnight.ledger.aside import place_aside
from overnight.ledger.plain import write_new
from overnight.ledger.writer import sync_folder

TSV_NAME = "results.tsv"
JSONL_NAME = "experiments.jsonl"
QUARANTINE = "quarantine"
MB_PER_GB = 1024
NO_TEXT = "(none)"  #: an empty last column is lost by editors that trim lines

_FINITE = frozenset({Status.KEEP, Status.DISCARD, Status.HELD, Status.PRUNED, Status.REJECTED})
_LINES = _FINITE | {Status.CRASH, Status.TIMEOUT}
#: Where some reader ends a line or a terminal obeys (DEL, C1, U+2028, U+2029), and what UTF-8
#: can't hold. json.dumps has escaped C0 before.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class ExportEntry:
    """One experiment at its final decision."""

    id: int
    label: str  #: results.tsv's commit column, see commit_label
    commit: str | None  #: 40 hex digits
    branch: str
    role: Role
    status: Status  #: the verdict of its decision
    reason: str | None
    metric: float | None
    hypothesis: str
    proposer: str
    attempt: int | None = None  #: None: it never ran
    trust: Trust = Trust.PRINTED
    parent: int | None = None
    peak_vram_mb: float | None = None
    runtime_s: float | None = None
    notes: str = ""
    isolation: str | None = None
    survivors: int | None = None
    hardware: str | None = None
    runner: str | None = None

    @property
    def finite_metric(self) -> float | None:
        """The metric, where the verdict is one that rests on a finite one."""
        if self.status not in _FINITE or self.metric is None or not math.isfinite(self.metric):
            return None
        return self.metric


def commit_label(iter_strategy: str, experiment_id: int, commit: str | None) -> str:
    """7 digits of the commit with `branches`, where it exists for the user; else iter<N>."""
    if iter_strategy == "branches" and commit is not None:
        return commit[:7]
    return f"iter{experiment_id}"


def tsv_header(metric_name: str) -> str:
    """The first line of results.tsv, ended."""
    return f"commit\t{metric_name}\tmemory_gb\tstatus\tdescription\n"


def tsv_line(entry: ExportEntry) -> str | None:
    """One line of results.tsv, ended; None for what has none there."""
    if entry.status not in _LINES or (entry.status is Status.REJECTED and entry.attempt is None):
        return None
    metric = entry.finite_metric
    word, memory_gb = "crash", 0.0
    if metric is not None:
        word = "keep" if entry.status is Status.KEEP else "discard"
        memory_gb = (_finite(entry.peak_vram_mb) or 0.0) / MB_PER_GB
    text = "baseline" if entry.role is Role.BASELINE else tsv_cell(entry.hypothesis) or NO_TEXT
    cells = (
        tsv_cell(entry.label),
        f"{metric if metric is not None else 0.0:.6f}",
        f"{memory_gb:.1f}",
        word,
        text + _suffix(entry),
    )
    return "\t".join(cells) + "\n"


def jsonl_line(entry: ExportEntry) -> str:
    """One line of experiments.jsonl, ended: strict JSON, one line for every common reader."""
    value: dict[str, Any] = {
        "id": entry.id,
        "branch": entry.branch,
        "hypothesis": entry.hypothesis,
        "metric": entry.finite_metric,
        "runtime_s": _finite(entry.runtime_s),
        "notes": entry.notes,
        "attempt": entry.attempt,
        "role": entry.role.value,
        "status": entry.status.value,
        "reason": entry.reason,
        "trust": entry.trust.value,
        "parent": entry.parent,
        "commit": entry.commit,
        "proposer": entry.proposer,
        "peak_vram_mb": _finite(entry.peak_vram_mb),
        "isolation": entry.isolation,
        "survivors": entry.survivors,
        "hardware": entry.hardware,
        "runner": entry.runner,
    }
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text) + "\n"


class Exports:
    """The two files in *folder*. One writer at a time: whoever holds the ledger's lock."""

    def __init__(self, folder: Path, metric_name: str) -> None:
        self._folder = folder
        self._metric_name = metric_name
        self._ids: set[int] = set()  #: exported by now
        self._left: dict[str, tuple[int, int, int]] = {}  #: how we left each file; empty: unknown

    def append(self, entry: ExportEntry) -> bool:
        """Add one experiment's lines.

        False, and nothing is written, where that would not give what rebuild gives: the
        experiment is exported already, or a file is not as we left it. Call rebuild then.

        Raises:
            InfrastructureError: the folder can't be written; the next append returns False.
        """
        if entry.id in self._ids or not self.untouched:
            return False
        self._left = {}
        reach(Step.RECORDER_EXPORT)
        self._add(TSV_NAME, tsv_line(entry) or "")
        reach(Step.RECORDER_HALF_EXPORTED)
        self._add(JSONL_NAME, jsonl_line(entry))
        self._ids.add(entry.id)
        self._left = self._found()
        return True

    @property
    def untouched(self) -> bool:
        """Do both files stand as we left them?"""
        return bool(self._left) and self._left == self._found()

    def matches(self, entries: Iterable[ExportEntry]) -> bool:
        """Are both files exactly what *entries*, in the order of their decisions, give?"""
        final = _final(entries)
        found = self._found()
        texts = self._texts(final)
        same = all(_read(self._folder / name) == text for name, text in texts.items())
        self._ids = set(final) if same else set()
        self._left = found if same and found == self._found() else {}
        return same

    def rebuild(self, entries: Iterable[ExportEntry]) -> None:
        """Write both files anew; a torn or foreign one is kept in quarantine/.

        Raises:
            InfrastructureError: the folder can't be written; the old files still stand.
        """
        final = _final(entries)
        ours, self._left = self._left, {}
        for name, text in self._texts(final).items():
            path = self._folder / name
            try:
                new = _written(path.with_name(f".{name}.new"), text)
                reach(Step.RECORDER_REBUILD)
                known = name in ours and _mark(path) == ours[name]
                if not known and _odd(path, text):
                    kept = _quarantine(path, self._folder / QUARANTINE)
                    log.warning("export_quarantined", file=name, kept=kept)
                new.replace(path)  # a reader sees the old file or the new one
                sync_folder(self._folder)
            except OSError as error:
                raise _unwritable(path, error) from error
        self._ids = set(final)
        self._left = self._found()

    def _texts(self, final: dict[int, ExportEntry]) -> dict[str, bytes]:
        tsv = "".join(tsv_line(entry) or "" for entry in final.values())
        return {
            TSV_NAME: (tsv_header(self._metric_name) + tsv).encode(),
            JSONL_NAME: "".join(jsonl_line(entry) for entry in final.values()).encode(),
        }

    def _found(self) -> dict[str, tuple[int, int, int]]:
        marks = {name: _mark(self._folder / name) for name in (TSV_NAME, JSONL_NAME)}
        return {name: mark for name, mark in marks.items() if mark is not None}

    def _add(self, name: str, text: str) -> None:
        if not text:
            return
        path, data = self._folder / name, text.encode()
        try:
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                written = os.write(handle, data)
            finally:
                os.close(handle)
        except OSError as error:
            raise _unwritable(path, error) from error
        if written != len(data):
            raise InfrastructureError(f"{path.name}: the disk is full; free space and start again")


def _final(entries: Iterable[ExportEntry]) -> dict[int, ExportEntry]:
    """A later decision replaces an earlier one of the same experiment, in its place."""
    return {entry.id: entry for entry in entries}


def _suffix(entry: ExportEntry) -> str:
    if entry.status is Status.TIMEOUT:
        return " (timeout)"
    return " (OOM)" if entry.status is Status.CRASH and entry.reason == "oom" else ""


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _mark(path: Path) -> tuple[int, int, int] | None:
    """What changes when anyone else writes the file; None where there is no plain file."""
    try:
        info = path.lstat()
    except OSError:
        return None
    return (info.st_ino, info.st_size, info.st_mtime_ns) if stat.S_ISREG(info.st_mode) else None


def _read(path: Path) -> bytes | None:
    """The bytes of a plain file; None for anything else (a pipe put there must not block us)."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read()


def _odd(path: Path, text: bytes) -> bool:
    """Would replacing lose anything? Not where whole lines of the new text stand there."""
    if not os.path.lexists(path):
        return False
    old = _read(path)
    return old is None or not (text.startswith(old) and (not old or old.endswith(b"\n")))


def _quarantine(path: Path, folder: Path) -> str:
    kept = place_aside(folder, path.name)
    path.rename(kept)
    return f"{folder.name}/{kept.name}"


def _written(path: Path, text: bytes) -> Path:
    """*path* with *text* safely on disk; no file where that failed."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    write_new(path, text)
    return path


def _unwritable(path: Path, error: OSError) -> InfrastructureError:
    why = error.strerror or type(error).__name__
    return InfrastructureError(f"{path}: can't be written ({why}); free space or mend its rights")
