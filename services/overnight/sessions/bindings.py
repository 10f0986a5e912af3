"""Writes loop.run.yaml: found bindings with their evidence as comments. Writes nothing else."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overnight.configuration import LOOP_FILE, ResolvedLoop, resolve_loop
from overnight.contracts.errors import UsageError
from overnight.sessions.inference import Finding, Inferred, infer

_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./@+-]*\Z")
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_COMMENT_COLUMN = 36


_PLACE = (
    ("iter_strategy", "snapshots", "or branches: a commit an experiment"),
    ("sandbox_root", "./sandbox", "all that Overnight stores"),
    ("gate", "time", "what the budget counts"),
)


@dataclass(frozen=True, kw_only=True)
class Initialised:
    """What `init` did."""

    path: Path
    written: bool  #: False: the file was there already and is kept
    loop: ResolvedLoop  #: as it loads again, without questions
    findings: Mapping[str, Finding]  #: by dotted key; empty when the file was kept
    warnings: tuple[str, ...]


def initialise(
    root: Path, given: Mapping[str, Any], environ: Mapping[str, str], *, force: bool = False
) -> Initialised:
    """Infer *root*'s bindings and write them. A file that is there is kept, unless *force*.

    *given*: dotted key -> value, wins over what is inferred.

    Raises:
        UsageError: a binding can't be inferred, the file kept is wrong, or can't be written.
    """
    root = Path(os.path.realpath(root))
    if not root.is_dir():
        raise UsageError(f"{root} is not a folder")
    path = root / LOOP_FILE
    if os.path.lexists(path) and not force:
        loop = resolve_loop(root, flags={}, environ=environ)
        return Initialised(path=path, written=False, loop=loop, findings={}, warnings=())
    inferred = infer(root, given, environ)
    text = render(inferred)
    # Loaded before it is written: what does not load is never left behind.
    own = {name: value for name, value in environ.items() if not name.startswith("OVERNIGHT_")}
    resolve_loop(root, flags={}, environ=own, loop_text=text)
    write_bindings(path, text, force=force)
    loop = resolve_loop(root, flags={}, environ=environ)
    return Initialised(
        path=path,
        written=True,
        loop=loop,
        findings=inferred.findings(),
        warnings=inferred.warnings,
    )


def render(inferred: Inferred) -> str:
    """The file's text."""
    found = inferred.findings()
    more = dict(inferred.more)
    deep = [key for key in more if "." in key]
    if deep:
        raise UsageError(f"{deep[0]} can't be given to init: add it to {LOOP_FILE} afterwards")

    def line(key: str, spelled: str, comment: str) -> str:
        text = f"{key}: {spelled}"
        return f"{text.ljust(_COMMENT_COLUMN)}# {_one_line(comment)}" if comment else text

    def fixed(key: str, default: Any, comment: str) -> str:
        return line(key, value_text(more.pop(key, default)), comment)

    lines = [
        "# Overnight's bindings for this repository. Edit freely; never committed by us.",
        "metric:",
        line("  name", scalar_text(found["metric.name"].value), found["metric.name"].evidence),
        line("  direction", found["metric.direction"].value, found["metric.direction"].evidence),
        line("run_cmd", _list(found["run_cmd"].value), found["run_cmd"].evidence),
        line(
            "editable_files", _list(found["editable_files"].value), found["editable_files"].evidence
        ),
        *(fixed(*one) for one in _PLACE),
        line("budget", _number(found["budget"].value), found["budget"].evidence),
        fixed("kill_factor", 2.0, "killed at kill_factor x budget, plus graces"),
        line("reads", _list(found["reads"].value), f"read-only: {found['reads'].evidence}"),
        f"proposer: {{name: {value_text(more.pop('proposer', 'search'))}}}",
        *(line(key, value_text(value), "given") for key, value in more.items()),
    ]
    return "\n".join(lines) + "\n"


def write_bindings(path: Path, text: str, *, force: bool) -> None:
    """Put *text* at *path* whole or not at all; another writer's file is never overwritten.

    Raises:
        UsageError: there is a file (unless *force*), or the folder can't be written.
    """
    temporary = path.parent / f".{path.name}.{secrets.token_hex(6)}"
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _put(temporary, path, force=force)
    except OSError as error:
        if error.errno == errno.EEXIST:
            raise UsageError(f"{path} is there already: give --force to replace it") from error
        raise UsageError(
            f"can't write {path}: {error.strerror}: make the folder writable, or give every "
            "binding as a flag or variable"
        ) from error
    finally:
        with contextlib.suppress(OSError):  # on a read-only folder it was never there
            temporary.unlink(missing_ok=True)


def _put(temporary: Path, path: Path, *, force: bool) -> None:
    if force:
        os.replace(temporary, path)
        return
    try:
        os.link(temporary, path)  # unlike a rename, fails where a file is
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        # No hard links on this file system.
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        os.replace(temporary, path)


def scalar_text(text: str) -> str:
    """*text* as a YAML scalar that every reader takes for the same text."""
    if _PLAIN.match(text) and text.lower() not in _RESERVED and text not in (".", ".."):
        return text
    return json.dumps(text, ensure_ascii=False)


def value_text(value: Any) -> str:
    """A plain value as YAML on one line. Raises UsageError for anything else."""
    if isinstance(value, str):
        return scalar_text(value)
    if isinstance(value, list | tuple):
        return _list([str(item) for item in value])
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise UsageError(f"a value that can't be written to {LOOP_FILE}: {value!r:.60}")


def _list(items: Iterable[str]) -> str:
    return f"[{', '.join(scalar_text(item) for item in items)}]"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)[:160]
