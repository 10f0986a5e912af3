"""The five things to know before anything is done: mode, repository, hardware, session, limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from overnight.configuration import LOOP_FILE, ResolvedLoop
from overnight.configuration.plain_file import read_plain
from overnight.contracts.errors import OvernightError, UsageError
from overnight.sessions.locate import find_session
from overnight.sessions.readiness.hardware import Hardware
from overnight.sessions.sources import MAX_FILE_BYTES
from overnight.sessions.view import current_status
from overnight.snapshots import userrepo

_EVALUATOR = re.compile(
    r"^(MAX_SEQ_LEN|EVAL_TOKENS|TIME_BUDGET)\s*(?::\s*\w+\s*)?=\s*([^#\n]+)", re.M
)
_PREPARES = ("prepare.py", "train.py")
MAX_NAMED = 6


@dataclass(frozen=True, kw_only=True)
class FirstChecks:
    """One line each."""

    mode: str
    repo: str
    hardware: str
    session: str
    constraints: str

    def plain(self) -> dict[str, str]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What git says of the user's work tree."""

    branch: str | None  #: None: no branch is checked out
    head: str | None  #: None: no commit yet
    changed: tuple[str, ...]  #: as `git status --short` shows them, without what is ignored


def first_checks(
    root: Path, loop: ResolvedLoop | None, hardware: Hardware, environment: str
) -> FirstChecks:
    """What stands. *environment*: the interpreter in words."""
    state, session = _session(root)
    return FirstChecks(
        mode=_mode(root, loop, state),
        repo=f"{_repo(root)}; environment: {environment}",
        hardware=hardware.shown,
        session=session,
        constraints=_constraints(root, loop, locked=state is not None),
    )


def changes(root: Path) -> Changes | None:
    """What is not committed below *root*; None outside git. Raises UsageError: `.git` is broken."""
    found = userrepo.find(root)
    if found is None:
        return None
    try:
        home = Path.home()
    except RuntimeError:
        home = None
    git = found.git(home=home)
    _, branch, _ = git.attempt("symbolic-ref", "-q", "--short", "HEAD")
    _, head, _ = git.attempt("rev-parse", "-q", "--verify", "--short", "HEAD^{commit}")
    listed = git.run("status", "--porcelain=v1", "-z", "--no-renames", "--", str(found.folder))
    lines = [line.decode(errors="replace") for line in listed.split(b"\0") if line]
    kept = tuple(_below(line, found.prefix) for line in lines if not _is_ours(line, found.prefix))
    return Changes(
        branch=branch.decode().strip() or None,
        head=head.decode().strip() or None,
        changed=kept,
    )


def yours(found: Changes | None, strategy: str) -> str:
    """Whether what is not committed is part of the baseline, in one line."""
    if found is None:
        return "no git here: the folder as it lies is the baseline"
    if not found.changed:
        return f"nothing uncommitted; the baseline is HEAD {found.head or '(no commit yet)'}"
    named = ", ".join(" ".join(line.split()) for line in found.changed[:MAX_NAMED])
    more = len(found.changed) - MAX_NAMED
    named += f" and {more} more" if more > 0 else ""
    named += " is" if len(found.changed) == 1 else " are"
    if strategy == "branches":
        return f"{named} NOT part of the baseline (HEAD {found.head}): commit first, or snapshots"
    return f"{named} part of the baseline, as it lies (HEAD {found.head or 'none'})"


def _is_ours(line: str, prefix: str) -> bool:
    return line[3:].removeprefix(prefix) == LOOP_FILE


def _below(line: str, prefix: str) -> str:
    return line[:3] + line[3:].removeprefix(prefix)


def _repo(root: Path) -> str:
    try:
        found = changes(root)
    except UsageError as error:
        return str(error)
    if found is None:
        return "a folder outside git"
    where = f"branch {found.branch}" if found.branch else "no branch"
    count = len(found.changed)
    dirty = f", {count} uncommitted" if count else ", clean"
    return f"{where} at {found.head or 'no commit'}{dirty}"


def _session(root: Path) -> tuple[str | None, str]:
    """(state, one line)."""
    try:
        status = current_status(find_session(root))
    except UsageError:
        return None, "none yet: the first run is the unmodified baseline"
    except OvernightError as error:
        return "broken", str(error)
    best = status["best"]
    metric = f"best {status['metric']} {best['metric']:.6g}" if best else "no baseline yet"
    state = str(status["state"])
    return state, f"{status['tag']}: {state}, {status['candidates']} ideas tried, {metric}"


def _mode(root: Path, loop: ResolvedLoop | None, state: str | None) -> str:
    """The one mode to be in now, with its command."""
    if loop is None:
        return "setup: overnight init"
    if state in ("running", "paused", "draining", "stopping"):
        return "running: overnight watch"
    if state is not None:
        return "results: overnight report"
    if not (root / "program.md").is_file():
        return "loop: overnight run (a programme first: overnight once, then overnight program new)"
    return "loop: overnight run"


def _constraints(root: Path, loop: ResolvedLoop | None, *, locked: bool) -> str:
    parts = []
    for name in _PREPARES:
        text = (read_plain(root / name, MAX_FILE_BYTES) or b"").decode("utf-8", "replace")
        for match in _EVALUATOR.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            parts.append(f"{match[1]} = {match[2].strip()} ({name}:{line})")
    if loop is not None:
        vram = loop.config.policy.limits.vram_gb
        parts.append(f"VRAM at most {vram:g} GB" if vram else "no VRAM limit")
        parts += [_bound(one.name, one.min, one.max) for one in loop.config.constraints]
    fixed = "fixed by the session" if locked else "may change until the first run"
    return f"{', '.join(parts) or 'none stated'}; {fixed}"


def _bound(name: str, least: float | None, most: float | None) -> str:
    bounds: Mapping[str, float | None] = {"at least": least, "at most": most}
    return " ".join([name, *(f"{word} {value:g}" for word, value in bounds.items()
                             if value is not None)])  # fmt: skip
