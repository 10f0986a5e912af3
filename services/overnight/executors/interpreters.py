"""Where a Python and its packages live: the folders a sandbox must see to run it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from overnight.contracts.errors import SandboxUnavailableError

NAME = "process"  #: of the executor, in errors
ASK = (
    "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix, sys.exec_prefix, "
    "sys.base_exec_prefix]))"
)
ASK_SECONDS = 30.0
MAX_LINKS = 40


class Interpreters:
    """Asks each interpreter once."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[str, ...]] = {}

    def places(self, interpreter: Path) -> tuple[str, ...]:
        """Folders that must be visible at the same place for *interpreter* to run.

        Raises:
            SandboxUnavailableError: it is not there or does not start.
        """
        if interpreter not in self._known:
            self._known[interpreter] = _ask(interpreter)
        return self._known[interpreter]


def _ask(interpreter: Path) -> tuple[str, ...]:
    if not interpreter.is_absolute() or not os.access(interpreter, os.X_OK):
        raise SandboxUnavailableError(NAME, f"no Python at {interpreter}: set `python:`")
    try:
        answer = subprocess.run(
            [str(interpreter), "-I", "-c", ASK],
            env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_SECONDS, check=True,
        )  # fmt: skip
        prefixes = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SandboxUnavailableError(NAME, f"{interpreter} does not start as a Python") from error
    return tuple(dict.fromkeys([*prefixes, *_hops(str(interpreter))]))


def _hops(path: str) -> list[str]:
    """The folder of each name on the way from *path* through its links to the real file."""
    folders: list[str] = []
    for _ in range(MAX_LINKS):
        folders.append(os.path.dirname(path))
        if not os.path.islink(path):
            break
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
    return folders
