"""verify: is the history whole, and does every decision follow from it?"""

from __future__ import annotations

import typer

from overnight.cli import output
from overnight.cli.options import HERE, AsJson, Dir, Tag, session


def verify(tag: Tag = None, directory: Dir = HERE, as_json: AsJson = False) -> None:
    """Check the ledger: chain, head, every rule and every decision. Exit 1 when it is not ok."""
    from overnight.sessions.verify import verify as check

    found = check(session(directory, tag).files.root)
    if as_json:
        output.emit(found.as_json())
    else:
        for problem in found.problems:
            output.say(f"ledger.jsonl:{problem.line}: {output.safe(problem.what, 500)}")
        verdict = "chain ok, every decision follows" if found.ok else "NOT ok"
        output.say(f"ledger {found.rows} rows, {verdict}")
    if not found.ok:
        raise typer.Exit(1)
