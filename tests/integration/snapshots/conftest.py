"""A user's repositories as they come: plain, and as nasty as they get."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from user_repositories import TRAIN, run_git, write


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A clean repository with one commit and an ignored folder."""
    folder = tmp_path / "repo"
    folder.mkdir()
    run_git(folder, "init", "-q", "-b", "main")
    write(
        folder,
        {
            "train.py": TRAIN,
            "prepare.py": "frozen = 1\n",
            "run.sh": "#!/bin/sh\n",
            ".gitignore": "data/\n*.log\n",
            "data/big.bin": b"\0" * 100,
        },
    )
    (folder / "run.sh").chmod(0o755)
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-q", "-m", "first")
    return folder


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[Path]:
    """A file that no program of a handed-over repository may make."""
    place = tmp_path / "EXECUTED"
    yield place

    assert not place.exists(), f"something of the repository was executed: {place.read_text()}"


@pytest.fixture
def nasty_repo(repo: Path, marker: Path) -> Path:
    """Clean, but: all hooks refuse and tell, signing on, no identity, detached HEAD, a stale
    lock, programs configured wherever git takes one, and untracked files with names in NFC, NFD
    and with blanks."""
    write(repo, {".gitattributes": "*.py filter=evil ident eol=crlf export-subst diff=evil\n"})
    write(repo, {"ident.py": "# $Id$ $Format:%H$\n"})
    run_git(repo, "add", ".")
    run_git(repo, "commit", "-q", "-m", "second")
    run_git(repo, "checkout", "-q", "--detach")
    program = repo / ".git" / "evil.sh"
    program.write_text(f'#!/bin/sh\necho "$0 $@" >> {marker}\nexit 1\n')
    program.chmod(0o755)
    for hook in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "update"):
        for name in (hook, "post-index-change", "pre-receive", "post-checkout", "fsmonitor"):
            (repo / ".git" / "hooks" / name).write_bytes(program.read_bytes())
            (repo / ".git" / "hooks" / name).chmod(0o755)
    for key in (
        "core.fsmonitor",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "diff.evil.command",
        "diff.evil.textconv",
        "diff.external",
        "gpg.program",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "uploadpack.packObjectsHook",
        "core.alternateRefsCommand",
        "core.askPass",
        "credential.helper",
    ):
        run_git(repo, "config", key, str(program))
    run_git(repo, "config", "filter.evil.required", "true")
    run_git(repo, "config", "commit.gpgsign", "true")
    run_git(repo, "config", "gpg.format", "openpgp")
    run_git(repo, "config", "core.autocrlf", "true")
    run_git(repo, "config", "user.useConfigOnly", "true")
    write(
        repo,
        {
            "notes ä.md": "nfc",
            "notes a\u0308.md": "nfd",
            "日本/with blank.txt": "x",
            "run.log": "ignored",
        },
    )
    (repo / ".git" / "index.lock").write_bytes(b"")
    return repo
