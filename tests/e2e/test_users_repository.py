"""A session leaves the user's repository as it was: every file, ref and setting of theirs."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from pathlib import Path

import pytest
from tests.e2e import truth
from tests.e2e.stage import PACE, TRAIN, Stage

HOOKS = ("pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "post-checkout",
         "reference-transaction", "update", "post-index-change", "pre-auto-gc")  # fmt: skip
REFUSE = "#!/bin/sh\ntouch hook-was-run\necho 'no commits on a Sunday' >&2\nexit 1\n"
OURS = ("sandbox", "loop.run.yaml")
OUR_REFS = (".git/refs/heads/autoresearch", ".git/refs/heads/exp")


def _git(repo: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words],
        cwd=repo,
        env={
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            **{f"GIT_{who}_NAME": "User" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": "user@example.org" for who in ("AUTHOR", "COMMITTER")},
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def _make(stage: Stage, *, dirty: bool, locked: bool) -> None:
    """Someone's grown repository, with everything that can get in the way."""
    repo = stage.repo
    stage.write(
        {
            "train.py": TRAIN,
            "pace.py": PACE.format(step_seconds=0.002),
            "data/größe 数据.txt": "weights\n",
            ".gitignore": "*.cache\n",
        }
    )
    _git(repo, "init", "-q", "-b", "main")
    _git(repo, "add", "-A")
    _git(repo, "commit", "-q", "-m", "first")
    stage.write({"notes.txt": "n\n"})
    _git(repo, "add", "-A")
    _git(repo, "commit", "-q", "-m", "second")
    _git(repo, "tag", "v1")
    _git(repo, "pack-refs", "--all")
    _git(repo, "checkout", "-q", "--detach", "HEAD")
    _git(repo, "config", "commit.gpgsign", "true")
    _git(repo, "config", "tag.gpgsign", "true")
    _git(repo, "config", "user.signingkey", "nobody")
    _git(repo, "config", "core.logAllRefUpdates", "always")
    stage.write({"untracked äöü.txt": "mine\n", "big.cache": "ignored\n"})
    if not dirty:  # such a name can't be in a candidate's tree: `snapshots` says so and refuses
        (repo / os.fsdecode(b"latin-\xe9.txt")).write_text("not UTF-8\n")
    (repo / "link").symlink_to("notes.txt")
    (repo / "empty").mkdir()
    if dirty:
        stage.write({"train.py": TRAIN + "# not committed\n", "staged.py": "S = 1\n"})
        _git(repo, "add", "staged.py")
    for name in HOOKS:
        hook = repo / ".git" / "hooks" / name
        hook.write_text(REFUSE)
        hook.chmod(0o755)
    if locked:
        (repo / ".git" / "index.lock").touch()


def _fingerprint(repo: Path) -> dict[str, str]:
    """Every path below *repo* that is not ours: kind, mode, time and content."""
    found: dict[str, str] = {}
    for here, folders, files in os.walk(repo):
        for name in [*folders, *files]:
            path = Path(here, name)
            inside = path.relative_to(repo).as_posix()
            if inside in OURS or inside.startswith((*OUR_REFS, *(f"{o}/" for o in OURS))):
                continue
            status = path.lstat()
            what = ""
            if stat.S_ISLNK(status.st_mode):
                what = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                what = f"{status.st_mtime_ns} {digest}"
            found[inside] = f"{oct(status.st_mode)} {status.st_uid} {what}"
        folders[:] = [f for f in folders if Path(here, f).relative_to(repo).as_posix() not in OURS]
    return found


def _refs(repo: Path) -> dict[str, str]:
    lines = _git(repo, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.split(" ") for line in lines)


@pytest.mark.parametrize(
    ("strategy", "dirty", "locked"),
    [("branches", False, True), ("snapshots", True, True), ("snapshots", True, False)],
    ids=["clean-branches", "dirty-snapshots", "dirty-snapshots-unlocked"],
)
def test_nothing_of_the_user_changes(
    stage: Stage, strategy: str, dirty: bool, locked: bool
) -> None:
    _make(stage, dirty=dirty, locked=locked)
    stage.bind(iter_strategy=strategy)
    before, refs, shown = _fingerprint(stage.repo), _refs(stage.repo), _status(stage.repo)

    finished = stage.run(5, "--tag", "mar5")
    after = _fingerprint(stage.repo)
    new = sorted(set(after) - set(before))
    new_refs = {name: at for name, at in _refs(stage.repo).items() if name not in refs}

    assert finished.code == 0, finished
    assert finished.last["counts"]["keep"] >= 2, "a session without a keep shows little"
    assert {k: v for k, v in after.items() if before.get(k, v) != v} == {}
    assert sorted(set(before) - set(after)) == []
    assert _status(stage.repo) == shown
    rows = truth.check_session(stage.root, 5)
    proposed = {row["body"]["id"]: row["body"] for row in rows if row["kind"] == "proposed"}
    if strategy == "snapshots":
        assert new == []
        assert new_refs == {}
    else:
        best = finished.last["best"]["id"]
        assert [path for path in new if not path.startswith(".git/objects/")] == []
        assert new_refs.pop("refs/heads/autoresearch/mar5") == proposed[best]["commit"]
        names = {int(name.split("/")[-1].split("-")[0]): at for name, at in new_refs.items()}
        assert all(name.startswith("refs/heads/exp/mar5/") for name in new_refs)
        assert {i: names.get(i) for i in range(2, 7)} == {
            i: proposed[i]["commit"] for i in range(2, 7)
        }
        assert _git(stage.repo, "log", "-1", "--format=%s", proposed[best]["commit"]).startswith(
            "exp: "
        )
    stage.check_nothing_is_left()


def _status(repo: Path) -> str:
    lines = _git(repo, "status", "--porcelain", "-b").splitlines()
    return "\n".join(line for line in lines if not line.endswith(OURS) and "sandbox/" not in line)
