"""Whose name stands on a commit that goes into the user's own repository."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from overnight.contracts.errors import UsageError
from overnight.snapshots.tags import one_line
from overnight.snapshots.userrepo import UserRepo


@dataclass(frozen=True, kw_only=True)
class Person:
    """A name and a mail address, as git knows them."""

    name: str
    email: str


def author(found: UserRepo, environ: Mapping[str, str]) -> Person:
    """Whom `git commit` would name in that repository.

    Raises:
        UsageError: git knows no name, or no mail address; names the two commands.
    """
    name, email = _known(found, environ, "NAME"), _known(found, environ, "EMAIL")
    if not name or not email:
        missing = "name" if not name else "mail address"
        raise UsageError(
            f"git knows no {missing} to put on commits: `git config --global user.name YOU` and "
            "`git config --global user.email YOU@EXAMPLE`"
        )
    return Person(name=name, email=email)


def _known(found: UserRepo, environ: Mapping[str, str], what: str) -> str:
    """From the environment or the user's configuration, in git's own order."""
    given = _plain(environ.get(f"GIT_AUTHOR_{what}", ""))
    if given:
        return given
    home = environ.get("HOME")
    git = found.git(home=Path(home) if home else None)
    places = {k: environ[k] for k in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL") if k in environ}
    git = replace(git, environ=places, users_config=True)
    for section in ("author", "user"):
        code, output, _ = git.attempt("config", "--get", f"{section}.{what.lower()}")
        if code == 0 and _plain(output.decode(errors="replace")):
            return _plain(output.decode(errors="replace"))
    return ""


def _plain(text: str) -> str:
    """Without what a commit's header can't hold."""
    return one_line(text.translate({ord("<"): None, ord(">"): None}))
