"""The other checker: what of a session that is over still runs, or lies about on the host.

    python -I leftovers.py SESSION_DIR [--seen FILE]

Prints one JSON object; exit 0 when nothing is left, 1 when something is. Like `recount.py` it
imports the standard library and nothing of Overnight. Linux only.

--seen: JSON of what an observer saw while the session ran, see `Seen`. Without it only what carries
the session's path is looked for.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Seen:
    """What to look for beside the session's own path."""

    #: In arguments or environment of whatever belongs to it. Better than the path, which also
    #: stands in the arguments of whoever looks at the session.
    marks: tuple[str, ...] = ()
    namespaces: tuple[int, ...] = ()  #: numbers of PID namespaces that somebody still holds open
    tokens: tuple[str, ...] = ()  #: of its sandboxes; they name their control groups
    records: str | None = None  #: the executor's folder of records
    sockets: str | None = None  #: folder of the embedded services' sockets
    locks: str | None = None  #: folder of device locks


def leftovers(root: Path, seen: Seen) -> list[str]:
    """Processes, control groups, mounts, records, sockets and locked devices of the session."""
    found = [f"process {pid}: {words}" for pid, words in processes(root, seen)]
    groups = {f"overnight-{token}" for token in seen.tokens}
    for folder, names, _ in os.walk(CGROUPS) if groups else ():
        found += [f"control group {os.path.join(folder, name)}" for name in names if name in groups]
    if f" {root}/" in Path("/proc/self/mountinfo").read_text():
        found.append(f"a mount below {root}")
    for path in Path(seen.records).glob("sandbox-*.json") if seen.records else ():
        if str(root) in _text(path):
            found.append(f"sandbox record {path}")
    if seen.sockets and os.path.isdir(seen.sockets):
        found += [f"socket folder {path}" for path in Path(seen.sockets).iterdir()]
    if seen.locks and os.path.isdir(seen.locks):
        found += [f"locked device {path}" for path in Path(seen.locks).iterdir()
                  if path.suffix != ".lock"]  # fmt: skip
    return found


def processes(root: Path, seen: Seen) -> Iterator[tuple[int, str]]:
    """Live processes by mark, control group or namespace, but for whoever runs this checker."""
    marks = [mark.encode() for mark in seen.marks or (str(root),)]
    groups = [f"overnight-{token}".encode() for token in seen.tokens]
    ours = {os.getpid(), *_ancestors(os.getpid())}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        fields = _stat(pid)
        if pid in ours or fields is None or fields[0] in "ZX":
            continue
        words = _bytes(pid, "cmdline")
        everywhere = words + b"\0" + _bytes(pid, "environ")
        found = any(mark in everywhere for mark in marks) or _namespace(pid) in seen.namespaces
        if found or (groups and any(group in _bytes(pid, "cgroup") for group in groups)):
            yield pid, words.replace(b"\0", b" ").decode(errors="replace")[:200].strip()


def _ancestors(pid: int) -> Iterator[int]:
    while (fields := _stat(pid)) is not None and (pid := int(fields[1])) > 0:
        yield pid


def _namespace(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return None


def _bytes(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _stat(pid: int) -> list[str] | None:
    """The fields after the name, which may hold anything: state, parent, ..."""
    text = _bytes(pid, "stat")
    return text[text.rindex(b")") + 2 :].decode().split() if text else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""  # it went while we looked


def main() -> int:
    """Look, print, and say by the exit code whether nothing is left."""
    parser = argparse.ArgumentParser(description="looks for what a session left running")
    parser.add_argument("session_dir", type=Path)
    parser.add_argument("--seen", type=Path)
    options = parser.parse_args()
    plain = json.loads(options.seen.read_text()) if options.seen else {}
    found = leftovers(options.session_dir.absolute(), Seen(**plain))
    sys.stdout.write(json.dumps({"orphans": found}) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
