"""Documents name files, tests, metrics and verbs that exist, and each can be found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from overnight.cli import app, bench, deadletter, program, prompt, skills, truth

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    str(page.relative_to(ROOT)) for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
)
FOLDERS = "services|tests|docs|scripts|benchmarks|harness|config|ci"
_PATH = re.compile(rf"[`(]((?:{FOLDERS})/[\w./-]+)(?:::(\w+))?[`)]")
_LINK = re.compile(r"\]\(([\w./-]+)(?:#[\w-]+)?\)")


@pytest.mark.parametrize("document", PAGES)
def test_every_file_that_a_document_names_exists(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    named = [(ROOT / path, test) for path, test in _PATH.findall(text)]
    linked = [(ROOT / document).parent / path for path in _LINK.findall(text)]

    missing = [str(path.relative_to(ROOT)) for path, _ in named if not path.exists()]
    missing += [str(path) for path in linked if not path.exists()]
    missing += [f"{path.name}::{test}" for path, test in named
                if test and f"def {test}(" not in path.read_text("utf-8")]  # fmt: skip

    assert missing == []


def test_every_document_is_found_from_the_readme() -> None:
    found, left = {"README.md"}, ["README.md"]
    while left:
        page = left.pop()
        for path in _LINK.findall((ROOT / page).read_text("utf-8")):
            named = (ROOT / page).parent.joinpath(path).resolve()
            name = str(named.relative_to(ROOT))
            if name.endswith(".md") and name not in found:
                found.add(name)
                left.append(name)

    assert [page for page in PAGES if page not in found] == []


def test_every_verb_is_in_the_readme_s_table() -> None:
    table = re.findall(r"^\| (`.*?) \| ", (ROOT / "README.md").read_text("utf-8"), re.M)
    told = {call for row in table for call in re.findall(r"`([a-z]+(?: [a-z]+)?)", row)}
    groups = {"bench": bench.bench, "ledger": truth.ledger, "deadletter": deadletter.deadletter,
              "program": program.program, "prompt": prompt.prompt,
              "skills": skills.skills}  # fmt: skip
    verbs = {verb.__name__.rstrip("_") for verb in app.VERBS}
    for group, typed in groups.items():
        for command in typed.registered_commands:
            assert command.callback is not None
            verbs.add(f"{group} {command.name or command.callback.__name__}")

    assert told == verbs
