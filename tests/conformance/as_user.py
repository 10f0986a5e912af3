"""Runs one suite class as an ordinary user: `unshare --mount python as_user.py FOLDER CLASS`.

Started by root in a mount namespace of its own, where it may open root's closed home just wide
enough for the interpreter, then gives up being root for good.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

USER = 54321
SUITE = Path(__file__).with_name("test_process_executor.py")


def open_way(prefix: Path, aside: Path) -> None:
    """Make *prefix* reachable for everybody, showing nothing else of a closed parent."""
    closed = [p for p in reversed(prefix.parents) if not p.stat().st_mode & 0o001]
    if not closed:
        return
    aside.mkdir()
    for command in (
        ["mount", "--bind", str(prefix), str(aside)],
        ["mount", "-t", "tmpfs", "-o", "mode=755", "none", str(closed[0])],
        ["mkdir", "-p", str(prefix)],
        ["mount", "--bind", str(aside), str(prefix)],
    ):
        subprocess.run(command, check=True)


def main() -> None:
    folder, name = Path(sys.argv[1]), sys.argv[2]
    open_way(Path(sys.base_prefix), folder / "aside")
    base = Path(f"/tmp/overnight-user-{os.getpid()}")
    base.mkdir()
    try:
        os.chown(base, USER, USER)
        who = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", "--"]
        words = [*who, sys.executable, "-m", "pytest", str(SUITE), "-k", name, "--tb=short",
                 "-p", "no:cacheprovider", "--basetemp", str(base / "t")]  # fmt: skip
        env = {**os.environ, "HOME": str(base), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.exit(subprocess.run(words, env=env).returncode)
    finally:
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
