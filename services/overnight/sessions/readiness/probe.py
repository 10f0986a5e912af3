"""Starts one real sandbox with the user's Python in it and asks what it sees there."""

from __future__ import annotations

import ast
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overnight.configuration.interpreter import ResolvedCommand
from overnight.contracts.errors import InfrastructureError, OvernightError
from overnight.contracts.execution import Deadline, SandboxSpec
from overnight.plugins import EXECUTORS, load
from overnight.sessions.engine import output_of

PROBE_SECONDS = 60.0
MAX_LOOKED_AT = 2000  #: files of one `reads` entry
_MARK = "overnight-probe: "
_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?\Z")
#: Runs with the user's Python, which may be old. It imports nothing of the packages that it finds.
_CODE = """\
import importlib.util, json, os, platform, sys
names, reads, program, most = json.loads(sys.argv[1])
def found(name):
    try:
        return importlib.util.find_spec(name) is not None
    except Exception:
        return False
def closed(path):
    if not os.path.exists(path):
        return "not there"
    if not os.access(path, os.R_OK):
        return "not readable: " + path
    seen = 0
    for folder, folders, files in os.walk(path):
        for name in folders + files:
            place = os.path.join(folder, name)
            seen += 1
            if seen > most:
                return None
            if os.path.exists(place) and not os.access(place, os.R_OK):
                return "not readable: " + place
    return None
status = open("/proc/self/status").read() if os.path.exists("/proc/self/status") else ""
filtered = [line.split()[1] for line in status.splitlines() if line.startswith("Seccomp:")]
import shutil
print("MARK" + json.dumps({
    "python": platform.python_version(),
    "missing": [name for name in names if not found(name)],
    "reads": {path: closed(path) for path in reads},
    "program": shutil.which(program) is not None,
    "seccomp": filtered == ["2"],
}))
""".replace("MARK", _MARK)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a candidate of this repository would see."""

    isolation: str  #: namespaces or none
    cpu_source: str | None  #: cgroup, perf or proc
    python: str | None = None  #: version; None: it did not start
    missing: tuple[str, ...] = ()  #: modules that no import would find
    closed: tuple[tuple[str, str], ...] = ()  #: (read, why it can't be read)
    program: bool = False  #: does the run command's program exist?
    seccomp: bool = False
    problem: str = ""  #: why nothing is known


def look_inside(command: ResolvedCommand, modules: Iterable[str], reads: tuple[str, ...]) -> Seen:
    """Start it, once. Whatever is wrong is a value."""
    asked = json.dumps([sorted(set(modules)), list(reads), command.argv[0], MAX_LOOKED_AT])
    folder = Path(tempfile.mkdtemp(prefix="overnight-doctor-"))
    try:
        executor = load(EXECUTORS, "process")({})
        (folder / "snapshot").mkdir()
        spec = SandboxSpec(
            sandbox_id=folder.name,
            labels={"sid": folder.name},
            command=(str(command.python), "-c", _CODE, asked),
            env={"PYTHONDONTWRITEBYTECODE": "1"},
            frozen=(),
            reads=tuple(Path(read) for read in reads),
            interpreter=command.python,
            scratch=folder / "scratch",
            log_path=folder / "run.log",
        )
        chunks: list[bytes] = []
        sandbox = executor.prepare(spec)
        try:
            sandbox.start(folder / "snapshot")
            ended = sandbox.wait(
                Deadline(wall_seconds=PROBE_SECONDS), lambda _, b: chunks.append(b)
            )
        finally:
            sandbox.destroy()
        said = b"".join(chunks).decode(errors="replace")
        return _seen(executor.isolation, ended.cpu_source, f"ended by {ended.exit}", said)
    except OvernightError as error:
        return Seen(isolation="none", cpu_source=None, problem=str(error))
    except OSError as error:
        raise InfrastructureError(f"{folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def look_into_image(
    image: str, program: str, modules: Iterable[str], reads: tuple[str, ...],
    environ: Mapping[str, str],
) -> Seen:  # fmt: skip
    """The same in a container of *image*. Whatever is wrong is a value."""
    python = program if _PYTHON.match(Path(program).name) else "python"
    asked = json.dumps([sorted(set(modules)), list(reads), program, MAX_LOOKED_AT])
    try:
        output, problem = output_of(environ, image, (python, "-c", _CODE, asked), reads)
    except OvernightError as error:
        output, problem = "", str(error)
    if "executable file not found" in problem:  # of the engine's words the part that counts
        problem = f"{python} is not in the image"
    if problem:
        return Seen(isolation="container", cpu_source=None, problem=problem)
    return _seen("container", None, "nothing was printed", output)


def _seen(isolation: str, cpu_source: str | None, silent: str, output: str) -> Seen:
    line = next((line for line in output.splitlines() if line.startswith(_MARK)), None)
    if line is None:
        last = output.strip().splitlines()[-1:] or [silent]
        return Seen(isolation=isolation, cpu_source=cpu_source, problem=last[0][:200])
    answer: dict[str, Any] = json.loads(line.removeprefix(_MARK))
    closed = tuple((path, why) for path, why in answer["reads"].items() if why is not None)
    return Seen(
        isolation=isolation,
        cpu_source=cpu_source,
        python=str(answer["python"]),
        missing=tuple(answer["missing"]),
        closed=closed,
        program=bool(answer["program"]),
        seccomp=bool(answer["seccomp"]),
    )


def needed_modules(root: Path, words: Iterable[str], editable: Iterable[str]) -> set[str]:
    """Top-level modules that the scripts of the command import for sure, their own ones aside.

    What is imported inside a `try`, an `if` or a function may be absent on purpose.
    """
    pending = [name for name in (*words, *editable) if name.endswith(".py")]
    seen: set[str] = set()
    wanted: set[str] = set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        folder = (root / name).parent
        for module in _imports(root / name):
            top = module.partition(".")[0]
            own = _own(root, folder, module)
            if own:
                pending += own
            elif not _is_own(root, folder, top):
                wanted.add(top)
    return wanted


def _imports(path: Path) -> list[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    found: list[str] = []
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            found += [name.name for name in statement.names]
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            found.append(statement.module)
    return found


def _own(root: Path, folder: Path, module: str) -> list[str]:
    """The files of the repository that *module* is."""
    path = module.replace(".", "/")
    tops = [folder, root, root / "src"]
    found = [top / tail for top in tops for tail in (f"{path}.py", f"{path}/__init__.py")]
    return [str(one.relative_to(root)) for one in found if one.is_file()
            and one.is_relative_to(root)]  # fmt: skip


def _is_own(root: Path, folder: Path, top: str) -> bool:
    tops = (folder, root, root / "src")
    return any((one / top).is_dir() or (one / f"{top}.py").is_file() for one in tops)
