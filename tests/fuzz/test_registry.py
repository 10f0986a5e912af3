"""No parser of untrusted bytes without its fuzz."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.fuzz.parsers import EXEMPT, PARSERS

SERVICES = Path(__file__).resolve().parents[2] / "services" / "overnight"
_NAMED = re.compile(r"(decode|parse|loads?)(_|$)|read_")


def _public_parsers() -> set[str]:
    """Qualified names of public functions and methods that are named like a parser."""
    found = set()
    for path in SERVICES.rglob("*.py"):
        module = ".".join(path.relative_to(SERVICES).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and _NAMED.match(node.name):
                found.add(f"{module}.{node.name}".replace(".__init__", ""))
    return found


def test_every_parser_has_its_fuzz_or_a_reason_why_not() -> None:
    covered = {name for parser in PARSERS.values() for name in parser.covers}
    found = _public_parsers()

    assert sorted(found - covered - EXEMPT.keys()) == []
    assert sorted((covered | EXEMPT.keys()) - found) == [], "no such function any more"
