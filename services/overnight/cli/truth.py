"""verify and ledger repair: is the history whole, and what to do when it is not."""

from __future__ import annotations

import typer

from overnight.cli import output
from overnight.cli.options import HERE, AsJson, Dir, Tag, session


def verify(tag: Tag = None, directory: Dir = HERE, as_json: AsJson = False) -> None:
    """Check the ledger and derive every decision again. Exit 1 when not ok."""
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


ledger = typer.Typer(help="The ledger's own verbs.", no_args_is_help=True)


@ledger.command()
def repair(tag: Tag = None, directory: Dir = HERE, as_json: AsJson = False) -> None:
    """Cut a damaged ledger after its last whole row. quarantine/ keeps it."""
    from overnight.recorder.repair import repair as mend

    found = session(directory, tag)
    done = mend(found.files, found.sid)
    if as_json:
        output.emit(
            {
                "repaired": done.needed,
                "rows": done.kept_rows,
                "dropped_lines": done.dropped_lines,
                "reason": done.reason,
                "quarantine": str(done.quarantine) if done.quarantine else None,
            }
        )
    elif not done.needed:
        output.say(f"ledger {done.kept_rows} rows, nothing to repair")
    else:
        output.say(f"{output.safe(done.reason, 500)}: {done.dropped_lines} lines left the ledger")
        output.say(
            f"the original is {output.safe(str(done.quarantine), 500)}; what is gone runs again"
        )
