"""`overnight once`: a person's tree as it lies, one answer, and not a trace of it afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.e2e.cli_driver import LOOP, TRAIN, Cli, finish, make_repo, processes_with

GOOD = TRAIN.replace("SLEEP", "0.1")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def everything(folder: Path) -> dict[str, bytes]:
    """Each file below *folder* with its bytes, git's own included."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_dirty_tree_is_run_as_it_lies_and_left_as_it_was(cli: Cli, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", train="print('val_bpb: 9')\n")
    git = ["git", "-C", str(repo), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    (repo / "train.py").write_text(f"import helper\n{GOOD}")  # not committed, as is the helper
    (repo / "helper.py").write_text("")
    before = everything(repo)
    done = cli("once", repo)

    assert done.code == 0, str(done)
    lines = done.out.splitlines()
    assert lines[0].startswith("runs `python train.py` for at most 40 s   sandbox: namespaces")
    assert lines[1] == "  metric    val_bpb 1.4000   (minimize)"
    assert lines[2] == "  memory    0.5 GB of video memory"
    assert lines[-2] == "  verdict   good: a session could begin with it; nothing was kept"
    assert lines[-1] == f"next: overnight run {repo}"
    assert done.err == ""
    assert everything(repo) == before


def test_json_is_one_object_with_the_fields_of_results(cli: Cli, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", sleep=0.1)
    with (repo / "loop.run.yaml").open("a") as file:
        file.write("constraints: [{name: peak_vram_mb, max: 600}]\nguard: [sh, -c, exit 0]\n")
    done = cli("once", repo, "--json", "--budget", "7")
    (told,) = done.lines

    assert done.code == 0, str(done)
    assert (told["good"], told["status"], told["metric"]) == (True, "scored", 1.4)
    assert (told["guard"], told["measures"]) == ("passed", {"peak_vram_mb": 512.0})
    assert (told["peak_vram_mb"], told["deadline_s"]) == (512.0, 14.0)
    assert told["isolation"] == "namespaces"
    assert told["survivors"] == 0


@pytest.mark.parametrize(
    ("train", "verdict", "last"),
    [
        ("raise ValueError('bad \\x1b[31mshape')\n", "crash:exit_code   ValueError: bad shape",
         "    | ValueError: bad shape"),
        ("print('accuracy: 1')\n", "crash:no_metric   no line 'val_bpb: <number>' in the output",
         "    | accuracy: 1"),
        ("import time\nprint('begins')\ntime.sleep(60)\n", "timeout:train   killed after ",
         "    | begins"),
    ],
)  # fmt: skip
def test_a_bad_result_shows_its_last_lines_and_exits_1(
    cli: Cli, tmp_path: Path, train: str, verdict: str, last: str
) -> None:
    repo = make_repo(tmp_path / "repo", train=train)
    done = cli("once", repo, "--budget", "1")

    assert done.code == 1, str(done)
    assert f"  verdict   {verdict}" in done.out
    assert done.out.splitlines()[-1] == last
    assert "\x1b" not in done.out
    assert sorted(p.name for p in repo.iterdir()) == ["loop.run.yaml", "train.py"]


@pytest.mark.parametrize(
    ("loop", "words"),
    [
        (LOOP.replace("metric", "metrik"), "metrik is not a known key: did you mean metric?"),
        (LOOP + "guard: python train.py\n", "train.py is editable"),
        (LOOP.replace("python train.py", "python gone.py"), "gone.py does not exist"),
    ],
)
def test_wrong_bindings_are_one_line_and_nothing_runs(
    cli: Cli, tmp_path: Path, loop: str, words: str
) -> None:
    repo = make_repo(tmp_path / "repo", loop=loop)
    done = cli.inside("once", repo)

    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert done.err.count("\n") == 1
    assert sorted(p.name for p in repo.iterdir()) == ["loop.run.yaml", "train.py"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_running_and_nothing_kept(
    cli: Cli, tmp_path: Path, number: int
) -> None:
    mark = f"600.{int.from_bytes(os.urandom(6))}"
    process = _hanging(cli, tmp_path / "repo", mark)
    process.send_signal(number)
    process.send_signal(number)  # a second one, while it ends
    done = finish(process, 20)

    assert done.code == 130, str(done)
    assert done.err == "overnight: interrupted: nothing runs any more, nothing was kept\n"
    assert processes_with(mark) == []
    assert sorted(p.name for p in (tmp_path / "repo").iterdir()) == ["loop.run.yaml", "train.py"]


def test_what_a_killed_one_left_is_gone_with_the_next(cli: Cli, tmp_path: Path) -> None:
    mark = f"600.{int.from_bytes(os.urandom(6))}"
    repo = tmp_path / "repo"
    process = _hanging(cli, repo, mark)
    process.kill()
    finish(process, 20)
    deadline = time.monotonic() + 5
    while processes_with(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_with(mark) == [], "a sandbox dies with whoever watched it"
    assert len(list(repo.glob(".overnight-once-*"))) == 1
    (repo / "train.py").write_text(GOOD)
    done = cli("once", repo)

    assert done.code == 0, str(done)
    assert sorted(p.name for p in repo.iterdir()) == ["loop.run.yaml", "train.py"]


def _hanging(cli: Cli, repo: Path, mark: str) -> subprocess.Popen[str]:
    """`once` while its training sleeps; *mark* is how long, so that it is seen from outside."""
    make_repo(repo, train=f"import subprocess\nsubprocess.run(['sleep', '{mark}'])\n")
    process = cli.start("once", repo)
    deadline = time.monotonic() + 30
    while not processes_with(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_with(mark)
    assert process.poll() is None
    return process
