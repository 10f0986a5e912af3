"""The abuse catalogue: which test shows which row in which profile. Writes docs/hardening.md.

    python -m tests.hardening [--write]

Without --write it says what is missing. Nothing is listed by hand: a test says which rows it shows
in its docstring (`P03: /tmp. P04: ...`), a class (`profile = ...`) or a module (`PROFILE = ...`)
where it is played. The files are read, not run, so that the answer is the same for every user and
needs no engine. Exit 1: a row has no test.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "hardening.md"
MARKER = "<!-- from here on written by `python -m tests.hardening --write` -->"
FOLDERS = ("conformance", "containers", "unit")  #: below tests/, where rows are shown

AS_ROOT, AS_USER, NO_WALLS = "process, root", "process, ordinary user", "process, no walls"
DOCKER, CARDS = "docker", "cards"
COLUMNS = {
    AS_ROOT: "as root",
    AS_USER: "as a user",
    NO_WALLS: "no walls",
    DOCKER: "docker",
    CARDS: "cards",
}
EVERYWHERE = (AS_ROOT, AS_USER, DOCKER)  #: what is asked of a row unless it says otherwise

_ROW = re.compile(r"\b(P\d\d)\b(?::\s*([^.]*))?")
_BEGINS = re.compile(r"P\d\d\b")


@dataclass(frozen=True)
class Row:
    """One hostile thing, and what becomes of it."""

    hostile: str
    expected: str
    needed: tuple[str, ...] = EVERYWHERE


ROWS: dict[str, Row] = {
    "P01": Row(
        "a fork bomb",
        "forks fail with EAGAIN at `pids`, all of it is gone at the deadline, "
        "programs of the host start meanwhile",
    ),
    "P02": Row(
        "a memory bomb",
        "`oom`, told apart from a crash, from a kill of its own and from one of ours; "
        "the runner goes on",
    ),
    "P03": Row(
        "filling every folder",
        "temporary ones end with ENOSPC at `tmp_bytes`, one file with EFBIG at `file_bytes`, "
        "all files together are killed at `disk_bytes`; there is no other place to write",
    ),
    "P04": Row(
        "millions of empty files",
        "killed at `disk_files`; in a container's temporary folders ENOSPC at the same number",
    ),
    "P05": Row(
        "output as fast as it can",
        "read and counted to the deadline, head and tail kept: run.log stays below 10 MiB, "
        "our memory bounded, the engine keeps nothing",
    ),
    "P06": Row("one endless line", "the same: its start and its end are kept"),
    "P07": Row("ignoring every signal", "SIGKILL at the deadline"),
    "P08": Row(
        "daemons: double forks, sessions of their own", "dead with the run, no survivor counted"
    ),
    "P10": Row("open files and threads without end", "EMFILE at `open_files`, EAGAIN at `pids`"),
    "P13": Row(
        "giant files by fallocate or truncate, core dumps",
        "EFBIG at `file_bytes`, no core file",
    ),
    "P14": Row(
        "lies about time: patches, clocks, LD_PRELOAD",
        "EPERM for every clock; times are taken by the runner alone",
    ),
    "P15": Row(
        "tracing and reading other processes, the first one too", "EPERM by the system call filter"
    ),
    "P16": Row(
        "killing everything: kill(-1), the runner, the first process",
        "only itself ends; processes of the host have no number inside",
    ),
    "P17": Row(
        "looking for secrets: environments, arguments, mounts, cloud metadata",
        "no secret of runner or spawner in any file of /proc, no route anywhere",
    ),
    "P18": Row(
        "ways out: TCP, UDP, DNS, abstract, vsock, netlink, raw",
        "ENETUNREACH, EPERM or EAFNOSUPPORT; no listener of the host is visited",
    ),
    "P19": Row(
        "changing what it may only read: modes, links, remounts, renames",
        "EROFS, EPERM or EBUSY; snapshot, frozen files and data have the same digest afterwards",
    ),
    "P20": Row(
        "traps for whoever collects its files",
        "plain files within limits are taken, no link is followed, no device can be made",
    ),
    "P21": Row(
        "memory of a card that stays in use when its process is dead",
        "the card takes no job until it is clear; an alert",
        (CARDS,),
    ),
    "P22": Row(
        "a card that hangs, fails (Xid) or is lost",
        "not the idea's fault: `infra`, run again, and the card rests",
        (CARDS,),
    ),
}


@dataclass(frozen=True, order=True)
class Shown:
    """One test that shows a row."""

    row: str
    path: str  #: of its file
    test: str
    part: str  #: what of the row, in the test's own words
    profiles: tuple[str, ...]


@dataclass
class _Suite:
    path: str
    profile: str | None
    bases: tuple[str, ...]
    tests: dict[str, str]  #: name -> docstring


def collect(folders: Iterable[Path]) -> list[Shown]:
    """Every test below *folders* that says a row, with where it is played."""
    suites: dict[str, _Suite] = {}
    found: dict[tuple[str, str], tuple[str, set[str]]] = {}

    def play(path: str, test: str, words: str, profile: str) -> None:
        found.setdefault((path, test), (words, set()))[1].add(profile)

    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            module = ast.parse(path.read_text("utf-8"))
            alone = _Suite(name, _constant(module.body, "PROFILE"), (), _tests(module.body))
            if alone.profile is not None:
                for test, words in alone.tests.items():
                    play(name, test, words, alone.profile)
            for node in ast.walk(module):  # a class may stand below an `if`
                if isinstance(node, ast.ClassDef):
                    bases = tuple(base.id for base in node.bases if isinstance(base, ast.Name))
                    profile = _constant(node.body, "profile")
                    suite = _Suite(name, profile, bases, _tests(node.body))
                    if suite.tests or profile is not None:
                        suites[node.name] = suite
    for suite in suites.values():
        if suite.profile is not None:
            for owner in _ancestry(suite, suites):
                for test, words in owner.tests.items():
                    play(owner.path, test, words, suite.profile)
    return sorted(
        Shown(row, path, test, part, tuple(p for p in COLUMNS if p in profiles))
        for (path, test), (words, profiles) in found.items()
        for row, part in _rows(words)
    )


def missing(shown: list[Shown]) -> list[str]:
    """What is asked of a row and shown by no test; and rows that are none."""
    covered = {(item.row, profile) for item in shown for profile in item.profiles}
    lacks = [f"{row}: no test in the profile {profile!r}"
             for row, what in ROWS.items() for profile in what.needed
             if (row, profile) not in covered]  # fmt: skip
    strange = sorted({item.row for item in shown} - ROWS.keys())
    return lacks + [f"{row}: no row of the catalogue" for row in strange]


def page(before: str, shown: list[Shown]) -> str:
    """docs/hardening.md anew: what a person wrote stays, up to the marker."""
    words = before.partition(MARKER)[0].rstrip("\n")
    titles = ("", "hostile", "what becomes of it", *COLUMNS.values())
    lines = [f"{words}\n\n{MARKER}\n", _line(titles), _line(["---"] * len(titles))]
    for row, what in ROWS.items():
        counts = [sum(i.row == row and profile in i.profiles for i in shown) for profile in COLUMNS]
        cells = [str(count or "") for count in counts]
        lines.append(_line([row, what.hostile, what.expected, *cells]))
    lines.append("\n## The tests\n")
    for row in ROWS:
        lines.append(f"**{row}** {ROWS[row].hostile}\n")
        for item in (item for item in shown if item.row == row):
            where = "; ".join(item.profiles)
            part = f": {item.part}" if item.part else ""
            lines.append(f"- `{item.path}::{item.test}`{part} ({where})")
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    """Returns the exit code."""
    shown = collect(ROOT / "tests" / name for name in FOLDERS)
    text = page(PAGE.read_text("utf-8"), shown)
    if "--write" in sys.argv[1:]:
        PAGE.write_text(text, "utf-8")
        print(f"{PAGE.relative_to(ROOT)}: {len(ROWS)} rows, {len({i.test for i in shown})} tests")
    lacks = missing(shown)
    for line in lacks:
        print(line, file=sys.stderr)
    return 1 if lacks else 0


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _ancestry(suite: _Suite, suites: dict[str, _Suite]) -> Iterator[_Suite]:
    yield suite
    for base in suite.bases:
        if base in suites:
            yield from _ancestry(suites[base], suites)


def _tests(body: list[ast.stmt]) -> dict[str, str]:
    return {node.name: ast.get_docstring(node) or ""
            for node in body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}  # fmt: skip


def _constant(body: list[ast.stmt], name: str) -> str | None:
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if names == [name]:
                return str(node.value.value)
    return None


def _rows(words: str) -> list[tuple[str, str]]:
    if not _BEGINS.match(words):
        return []
    return [(row, " ".join(part.split())) for row, part in _ROW.findall(words)]


if __name__ == "__main__":
    sys.exit(main())
