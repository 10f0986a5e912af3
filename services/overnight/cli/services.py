"""orchestrator, runner, recorder, spawner: each in the foreground, all arguments passed through.

Without a supervisor, as in a container, it finds its session by the repository's folder.
"""

from __future__ import annotations

import importlib
import os
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

NAMES = ("orchestrator", "runner", "recorder", "spawner")
OF_A_SESSION = frozenset({"orchestrator", "runner", "recorder"})
MOVED = 3  #: exit code where the session was moved away: a fault, to be started again


def run(name: str, argv: Sequence[str]) -> int:
    """Be that service until it ends. Returns its exit code."""
    supervised_or_asked = not {"--lifeline-fd", "--help", "-h"}.isdisjoint(argv)
    if supervised_or_asked or name not in OF_A_SESSION:
        return _main(name, argv)
    return _alone(name, argv)


def _main(name: str, argv: Sequence[str]) -> int:
    code: int = importlib.import_module(f"overnight.{name}.__main__").main(list(argv))
    return code


def _alone(name: str, words: Sequence[str]) -> int:
    """Without a supervisor: what that one would say is found out, or told by more options.

    --dir also takes a repository, --tag names one of its sessions; --redis is REDIS_URL by
    default, and --pool the session's own. --ready-file PATH gets what a supervisor is told.
    --ends-well: 0 when the run is over whatever came of it, for who restarts what fails.
    """
    from overnight.configuration import process_environ
    from overnight.sessions.serving import leave_when_moved, served_session

    parser = ArgumentParser(prog=f"overnight {name}", add_help=False, allow_abbrev=False)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--tag", default="")
    parser.add_argument("--redis", default=process_environ().get("REDIS_URL"))
    parser.add_argument("--pool")
    parser.add_argument("--ready-file", type=Path)
    parser.add_argument("--ends-well", action="store_true")
    given, others = parser.parse_known_args(words)
    if given.dir is None:
        return _main(name, others)  # which says all that it needs
    found = served_session(given.dir, given.tag or None)
    ours = ["--dir", str(found.files.root), "--pool", given.pool or f"default-{found.sid}"]
    ours += ["--redis", given.redis] if given.redis else []
    if given.ready_file is not None:
        fd = os.open(given.ready_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        ours += ["--ready-fd", str(fd)]
    moved = leave_when_moved(found)
    code = _main(name, [*ours, *others])
    if moved.is_set():
        return MOVED
    return 0 if code == 1 and given.ends_well else code


def quiet() -> None:
    """Nothing but what is grave is logged: standard output is the verb's own."""
    from overnight import telemetry

    telemetry.configure("cli", level="critical")
