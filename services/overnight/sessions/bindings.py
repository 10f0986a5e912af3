"""Writes loop.run.yaml: found bindings with their evidence as comments. Writes nothing else."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overnight.configuration import LOOP_FILE, ResolvedLoop, resolve_loop
from overnight.contracts.errors import UsageError
from overnight.sessions.inference import Finding, Inferred, infer

_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./@+-]*\Z")
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_COMMENT_COLUMN = 35

#: In the order in which they are written.
_METRIC = ("metric.name", "metric.direction", "metric.source")
_BEFORE = ("constraints", "run_cmd", "python", "env", "editable_files")
_PLACE = (
    ("iter_strategy", "snapshots", "or branches: a commit an experiment"),
    ("sandbox_root", "./sandbox", "all that Overnight stores"),
)
_BUDGET = ("gate", "budget", "startup_grace")
_AFTER = ("pass_env", "prepare")
_DEFAULTS = {"metric.source": "stdout_line"}


@dataclass(frozen=True, kw_only=True)
class Initialised:
    """What `init` did."""

    path: Path
    written: bool  #: False: the file was there already and is kept
    loop: ResolvedLoop  #: as it loads again, without questions
    findings: Mapping[str, Finding]  #: by dotted key; empty when the file was kept
    warnings: tuple[str, ...]
    kind: str = ""  #: what the repository looks like, in words
    frozen: tuple[str, ...] = ()  #: well-known files that stay as they are


def initialise(
    root: Path, given: Mapping[str, Any], environ: Mapping[str, str], *, force: bool = False
) -> Initialised:
    """Infer *root*'s bindings and write them. A file that is there is kept, unless *force*.

    *given*: dotted key -> value, wins over what is inferred.

    Raises:
        UsageError: a binding can't be inferred, the file kept is wrong, or can't be written.
    """
    kept = kept_bindings(root, environ) if not force else None
    if kept is not None:
        return kept
    root = existing_folder(root)
    return write(root, infer(root, given, environ), environ, force=force)


def existing_folder(root: Path) -> Path:
    """*root* as it really is. Raises UsageError when it is no folder."""
    real = Path(os.path.realpath(root))
    if not real.is_dir():
        raise UsageError(f"{real} is not a folder")
    return real


def kept_bindings(root: Path, environ: Mapping[str, str]) -> Initialised | None:
    """The file that is there already, loaded; None when there is none. Raises UsageError."""
    path = existing_folder(root) / LOOP_FILE
    if not os.path.lexists(path):
        return None
    loop = resolve_loop(path.parent, flags={}, environ=environ)
    return Initialised(path=path, written=False, loop=loop, findings={}, warnings=())


def write(
    root: Path, inferred: Inferred, environ: Mapping[str, str], *, force: bool
) -> Initialised:
    """Write *inferred* as the bindings of *root*.

    Raises:
        UsageError: they would not load, or can't be written. Nothing was written.
    """
    text = loadable(root, inferred, environ)
    path = root / LOOP_FILE
    write_bindings(path, text, force=force)
    return Initialised(
        path=path,
        written=True,
        loop=resolve_loop(root, flags={}, environ=environ),
        findings=inferred.findings(),
        warnings=inferred.warnings,
        kind=inferred.kind,
        frozen=inferred.frozen,
    )


def loadable(root: Path, inferred: Inferred, environ: Mapping[str, str]) -> str:
    """The file's text, loaded before it is written: what does not load is never left behind.

    Raises:
        UsageError: it would not load; names the binding.
    """
    text = render(inferred)
    own = {name: value for name, value in environ.items() if not name.startswith("OVERNIGHT_")}
    resolve_loop(root, flags={}, environ=own, loop_text=text)
    return text


def render(inferred: Inferred) -> str:
    """The file's text."""
    more = dict(inferred.more)
    deep = [key for key in more if "." in key]
    if deep:
        raise UsageError(f"{deep[0]} can't be given to init: add it to {LOOP_FILE} afterwards")
    found = inferred.findings()
    lines = [
        "# Overnight's bindings for this repository. Edit freely; never committed by us.",
        "metric:",
        *(_found(f"  {key.partition('.')[2]}", found[key]) for key in _METRIC if _says(found, key)),
        *(_found(key, found[key]) for key in _BEFORE if _says(found, key)),
        *(_line(key, value_text(more.pop(key, value)), why) for key, value, why in _PLACE),
        *(_found(key, found[key]) for key in _BUDGET if key in found),
        _line(
            "kill_factor",
            value_text(more.pop("kill_factor", 2.0)),
            "killed at kill_factor x budget, plus graces",
        ),
        _line("reads", value_text(found["reads"].value), f"read-only: {found['reads'].evidence}"),
        *(_found(key, found[key]) for key in _AFTER if _says(found, key)),
        f"proposer: {{name: {value_text(more.pop('proposer', 'search'))}}}",
        *(_line(key, value_text(value), "given") for key, value in more.items()),
    ]
    return "\n".join(lines) + "\n"


def _says(found: Mapping[str, Finding], key: str) -> bool:
    """Is there something to write? What is the default anyway is left out."""
    return key in found and found[key].value != _DEFAULTS.get(key)


def _found(key: str, finding: Finding) -> str:
    return _line(key, value_text(finding.value), finding.evidence)


def _line(key: str, spelled: str, comment: str) -> str:
    text = f"{key}: {spelled}"
    return f"{text.ljust(_COMMENT_COLUMN)} # {_one_line(comment)}" if comment else text


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
    if "\\" in text and "'" not in text and text.isprintable() and text == text.strip():
        return f"'{text}'"  # a pattern reads better without doubled backslashes
    return json.dumps(text, ensure_ascii=False)


def value_text(value: Any) -> str:
    """A plain value as YAML on one line. Raises UsageError for anything else."""
    if isinstance(value, str):
        return scalar_text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(value_text(item) for item in value)}]"
    if isinstance(value, Mapping):
        pairs = (f"{scalar_text(str(key))}: {value_text(one)}" for key, one in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, bool | int | float):
        whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
        return str(int(value)) if whole else json.dumps(value)
    raise UsageError(f"a value that can't be written to {LOOP_FILE}: {value!r:.60}")


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)[:160]
