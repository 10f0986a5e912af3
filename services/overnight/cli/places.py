"""How to name a session's folder on the command line, as short as it can be said from here."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

#: `overnight VERB` in a sentence of ours, be it a hint or an error's fix.
_CALL = re.compile(
    r"(?<![\w/.-])overnight (?=(?:demo|init|doctor|setup|prepare|once|run|status|watch"
    r"|results|show|diff|log|wait|pause"
    r"|resume|drain|stop|steer|approve|reject|up|down|verify|ledger|deadletter|bench|apply"
    r"|report|program|weights|clean|runs|migrate|--help)\b)"
)
#: An error's fix that means the session which was asked for, up to where --dir has its place.
_FIX = re.compile(
    r"\bovernight (?:deadletter (?:list|drop \S+)|ledger repair|watch|stop|down|up|migrate|prepare"
    r"|approve [0-9]+)(?=`|$)"
)


def as_called(text: str, *, elsewhere: bool = False) -> str:
    """*text* with its commands as they work from here; *elsewhere*: after a `cd` too."""
    command = called(sys.argv[0], shutil.which("overnight"), Path.cwd(), elsewhere=elsewhere)
    return _CALL.sub(lambda _: f"{command} ", text)


def as_meant(text: str, argv: Sequence[str], here: Path) -> str:
    """An error's *text* whose fix works from *here*: it names the session that *argv* named."""
    named, tag = _named(argv) or ".", _tag(argv)
    root = Path(os.path.normpath(here / named))
    repo = root.parent if (root / "session.json").is_file() else root
    option = "" if root == here else f" --dir {shlex.quote(named)}"
    argument = "" if repo == here else f" {shlex.quote(shown(repo, here))}"
    place = "" if root == here else f" {shlex.quote(named)}"
    places = {"up": argument, "prepare": argument, "migrate": place}
    if tag:
        places |= {"up": f"{argument} --tag {tag}"}
        places |= {verb: f"{option} {tag}" for verb in ("watch", "stop", "down")}
    return _FIX.sub(lambda m: m[0] + places.get(m[0].rpartition(" ")[2], option), text)


def _tag(argv: Sequence[str]) -> str:
    """What --tag is given: another session than the one that lies there."""
    for at, word in enumerate(argv):
        if word == "--tag" and at + 1 < len(argv):
            return shlex.quote(argv[at + 1])
        if word.startswith("--tag="):
            return shlex.quote(word.removeprefix("--tag="))
    return ""


def _named(argv: Sequence[str]) -> str | None:
    """What --dir is given, or REPO; nothing when neither is."""
    if argv[:1] in (["run"], ["up"], ["once"]):
        pairs = itertools.pairwise(argv)
        return next((w for before, w in pairs if _stands_alone(before, w)), None)
    for at, word in enumerate(argv):
        if word == "--dir" and at + 1 < len(argv):
            return argv[at + 1]
        if word.startswith("--dir="):
            return word.removeprefix("--dir=")
    return None


def _stands_alone(before: str, word: str) -> bool:
    """Is *word* no option, and no option's value?"""
    takes_none = not before.startswith("-") or "=" in before or before in ("--json", "--detach")
    return takes_none and not word.startswith("-")


def called(program: str, on_path: str | None, here: Path, *, elsewhere: bool = False) -> str:
    """The command that *program* was started by: its name where the PATH finds it, else its place.

    Not started by the script of that name (`python -m`): nothing is known but the name.
    """
    path = Path(os.path.normpath(here / program))
    if path.name != "overnight" or (on_path is not None and here / on_path == path):
        return "overnight"
    named = str(path) if elsewhere else shown(path, here)
    return shlex.quote(named if "/" in named else f"./{named}")


def shown(path: Path, here: Path) -> str:
    """*path* as one types it: relative where it lies below *here*."""
    if path == here:
        return "."
    try:
        return str(path.relative_to(here))
    except ValueError:
        return str(path)


def dir_option(root: Path, here: Path) -> str:
    """` --dir X` for the session in *root*; nothing where it is found without."""
    if root == here / "sandbox":
        return ""
    named = root.parent if root.name == "sandbox" else root
    return f" --dir {shlex.quote(shown(named, here))}"
