"""The house: sizes, names and what a file may say, checked over the tracked tree."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 6


def _tracked(*patterns: str) -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).is_file()]


SERVICES = _tracked("services/*.py")


def _functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text("utf-8"))
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


@pytest.mark.parametrize("path", SERVICES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_is_small_enough_to_live_in(path: Path) -> None:
    lines = path.read_text("utf-8").count("\n")

    assert lines <= MAX_MODULE_LINES

    for function in _functions(path):
        length = (function.end_lineno or 0) - function.lineno + 1
        assert length <= MAX_FUNCTION_LINES, f"{function.name}: {length} lines"
        arguments = function.args
        positional = len(arguments.posonlyargs) + len(arguments.args)
        own = positional - (1 if positional and arguments.args[:1] and
                            arguments.args[0].arg in ("self", "cls") else 0)  # fmt: skip
        is_command = "cli" in path.parts  # typer's options are parameters
        assert is_command or own <= MAX_PARAMETERS, f"{function.name}: {own} parameters"


@pytest.mark.parametrize("path", SERVICES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_says_in_its_first_line_what_it_is(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""

    assert docstring.strip(), "no module docstring"
    assert docstring.split("\n\n")[0].rstrip().endswith((".", "!", "?"))


def test_no_room_is_called_utils_or_common() -> None:
    assert [p for p in SERVICES if p.stem in ("utils", "util", "common", "helpers", "misc")] == []


def test_nobody_catches_everything() -> None:
    """`except Exception` only where a process begins; bare except nowhere."""
    edges = ("__main__", "lifeline")
    found = []
    for path in SERVICES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ExceptHandler):
                name = node.type.id if isinstance(node.type, ast.Name) else ""
                if node.type is None or (name == "Exception" and path.stem not in edges):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}")

    assert found == []


def test_only_configuration_reads_the_environment() -> None:
    readers = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SERVICES
        if "configuration" not in path.parts
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if "os.environ" in line or "os.getenv" in line
    ]

    assert readers == []


def test_the_extras_are_the_named_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {"train", "docker", "kubernetes", "gateway", "llm", "report", "dev", "all"}

    assert set(project["optional-dependencies"]) == wanted


@pytest.mark.parametrize(
    ("group", "names"),
    [("overnight.executors", {"process"}), ("overnight.proposers", {"search", "random"})],
)
def test_built_ins_come_through_the_same_door(group: str, names: set[str]) -> None:
    assert names <= {point.name for point in entry_points(group=group)}


def test_the_lock_file_names_no_index_and_hashes_everything() -> None:
    text = (ROOT / "ci" / "requirements.txt").read_text("utf-8")
    pins = [line for line in text.splitlines() if line and line[0] not in "# "]

    assert "http" not in text
    assert "--index" not in text
    assert pins
    assert all("==" in pin and pin.rstrip().endswith("\\") for pin in pins)
    assert text.count("--hash=sha256:") >= len(pins)


def test_no_tracked_text_names_a_machines_own_paths() -> None:
    homes = [] if Path.home() == Path("/root") else [str(Path.home())]  # root's is no secret
    bad = []
    for path in _tracked():
        if path.suffix in (".xz", ".png", ".npz", ".gz", ".bin"):
            continue
        text = path.read_text("utf-8", errors="replace")
        for word in (f"{place}/" for place in [*homes, str(ROOT)]):
            if word in text:
                bad.append(f"{path.relative_to(ROOT)}: {word}")

    assert bad == []
