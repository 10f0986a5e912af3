"""Promises name files and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("GUARANTEES.md", "SECURITY.md", "docs/reliability.md")
FOLDERS = "services|tests|docs|scripts|benchmarks|harness|config|ci"
_PATH = re.compile(rf"[`(]((?:{FOLDERS})/[\w./-]+)(?:::(\w+))?[`)]")
_LINK = re.compile(r"\]\(([\w./-]+)(?:#[\w-]+)?\)")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_that_a_promise_names_exists(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    named = [(ROOT / path, test) for path, test in _PATH.findall(text)]
    linked = [(ROOT / document).parent / path for path in _LINK.findall(text)]

    missing = [str(path.relative_to(ROOT)) for path, _ in named if not path.exists()]
    missing += [str(path) for path in linked if not path.exists()]
    missing += [f"{path.name}::{test}" for path, test in named
                if test and f"def {test}(" not in path.read_text("utf-8")]  # fmt: skip

    assert named or linked
    assert missing == []


@pytest.mark.parametrize("number", range(1, 8))
def test_every_promise_has_its_tests_or_says_that_it_is_none(number: int) -> None:
    text = (ROOT / "GUARANTEES.md").read_text("utf-8")
    section = text.split(f"\n## I{number} ")[1].split("\n## ")[0]

    if "not promised" in section.splitlines()[0]:
        assert "Shown by" not in section
    else:
        assert re.search(r"Shown by: `tests/", section)
        assert "Not promised:" in section
