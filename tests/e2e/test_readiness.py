"""doctor, setup, prepare: what they say, what they start, and that no other verb installs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.e2e import procs
from tests.e2e.cli_driver import Cli, Done, exit_code, fingerprint, on_a_terminal, read_terminal

TRAIN = "import time\nfrom prepare import DATA\nLR = 0.1\nopen(DATA + '/x')\n"
TRAIN += "print(f'val_loss: {abs(LR - 0.5):.6f}')\n"
PREPARE = """\
import os
import sys
MAX_SEQ_LEN = 2048  # tokens
TIME_BUDGET = 20
DATA = os.path.join(os.path.expanduser("~"), ".cache", "mine")
if __name__ == "__main__":
    print("fetching", flush=True)
    if "SLOW" in os.environ:
        import time; time.sleep(60)
    os.makedirs(DATA, exist_ok=True)
    open(os.path.join(DATA, "x"), "w").close()
    sys.exit(int(os.environ.get("FAILS", "0")))
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path)
    (tmp_path / "home").mkdir()
    made.env |= {"HOME": str(tmp_path / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    return made


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "prepare.py").write_text(PREPARE)
    return folder


def shim(cli: Cli, folder: Path, *names: str) -> Path:
    """Programs of these names come first on the PATH and note how they are called."""
    folder.mkdir(exist_ok=True)
    log = folder / "calls"
    for name in names:
        script = '#!/bin/sh\necho "$(basename "$0") $*" >>"$(dirname "$0")/calls"\n'
        (folder / name).write_text(script + "echo uv 0.5.1\n")
        (folder / name).chmod(0o755)
    cli.env["PATH"] = f"{folder}{os.pathsep}{cli.env['PATH']}"
    return log


def refused(done: Done, *parts: str) -> None:
    assert (done.code, done.out) == (2, ""), done
    assert done.err.count("\n") == 1, done.err
    for part in parts:
        assert part in done.err, done.err


# ------------------------------------------------------------------------------------------ doctor


def test_doctor_has_its_shape_and_fails_only_for_what_stops_a_run(repo: Path, cli: Cli) -> None:
    before = fingerprint(repo)
    done = cli.inside("doctor", repo, "--json")

    assert done.code == 1, done
    assert set(done.json) == {"ok", "checks", "hardware", "first"}
    assert set(done.json["hardware"]) == {"gpus", "cuda", "driver", "mlx", "platform", "uv"}
    assert set(done.json["first"]) == {"mode", "repo", "hardware", "session", "constraints"}
    rows = {row["name"]: row for row in done.json["checks"]}
    assert [n for n, row in rows.items() if row["status"] == "fail"] == ["data"]
    assert rows["data"]["fix"] == "overnight prepare"
    assert all(row["fix"] for row in rows.values() if row["status"] != "ok")
    assert "MAX_SEQ_LEN = 2048 (prepare.py:3)" in done.json["first"]["constraints"]
    assert fingerprint(repo) == before, "it looks only"

    assert cli("prepare", repo, "--json").code == 0
    assert cli.inside("init", repo, "--yes").code == 0
    done = cli.inside("doctor", repo)
    assert done.code == 0, done
    assert f"ready   next: overnight run {repo}" in done.out


def test_a_cache_that_the_code_names_and_no_candidate_sees_is_told(repo: Path, cli: Cli) -> None:
    assert cli("prepare", repo, "--json").code == 0
    (repo / "loop.run.yaml").write_text(
        "metric: val_loss\nrun_cmd: python train.py\neditable_files: train.py\n"
    )
    (row,) = [r for r in cli.inside("doctor", repo, "--json").json["checks"] if r["name"] == "data"]

    assert row["status"] == "warn"
    assert row["detail"] == "prepare.py:5 names ~/.cache/mine, which no candidate sees"
    assert row["fix"] == "add ~/.cache/mine under `reads:` in loop.run.yaml"


def test_a_module_that_is_not_installed_is_named_before_the_night(repo: Path, cli: Cli) -> None:
    (repo / "train.py").write_text("import nosuchmodule\n" + TRAIN)
    (row,) = [r for r in cli.inside("doctor", repo, "--json").json["checks"]
              if r["name"] == "imports"]  # fmt: skip

    assert (row["status"], row["detail"]) == ("fail", "not found inside the sandbox: nosuchmodule")
    assert row["fix"].startswith("activate the environment that has them")


# ------------------------------------------------------------------------------------------- setup


def test_setup_says_what_it_runs_and_syncs_the_lock_as_it_is(
    repo: Path, cli: Cli, tmp_path: Path
) -> None:
    (repo / "uv.lock").write_text("version = 1\n")
    refused(cli.inside("run", repo, "--max", 1), "no loop.run.yaml", "overnight init")
    log = shim(cli, tmp_path / "bin", "uv")
    done = cli("setup", repo, "--seq-len", 512)

    assert done.code == 0, done
    assert log.read_text().splitlines() == ["uv sync --frozen", "uv --version"]
    lines = done.out.splitlines()
    assert lines[0] == ("prepare.py:3 MAX_SEQ_LEN 2048 -> 512; fixed once a session exists")
    assert f"will run in {repo}:" in lines[1]
    assert "uv sync --frozen" in lines[2]
    assert lines[-1] == f"setup done   next: overnight prepare {repo}"
    assert "MAX_SEQ_LEN = 512  # tokens\n" in (repo / "prepare.py").read_text()


def test_setup_without_uv_names_the_line_that_installs_it(repo: Path, cli: Cli) -> None:
    (repo / "uv.lock").write_text("version = 1\n")
    cli.env["PATH"] = "/usr/bin:/bin"

    refused(cli.inside("setup", repo), "no uv on the PATH", "curl -LsSf https://astral.sh/uv")


def test_a_step_that_fails_is_exit_1_and_the_next_one_is_not_run(
    repo: Path, cli: Cli, tmp_path: Path
) -> None:
    (repo / "requirements.txt").write_text("x\n")
    shim(cli, tmp_path / "bin", "python3")
    (tmp_path / "bin/python3").write_text("#!/bin/sh\nexit 7\n")
    done = cli("setup", repo)

    assert done.code == 1
    assert "ended with 7" in done.err
    assert "-m pip install" in done.out, "said"
    assert not (repo / ".venv").exists()


# ----------------------------------------------------------------------------------------- prepare


def test_a_run_without_its_data_names_the_one_command_and_goes_after_it(
    repo: Path, cli: Cli, tmp_path: Path
) -> None:
    assert cli.inside("init", repo, "--yes").code == 0
    refused(
        cli.inside("run", repo, "--max", 1),
        f"data is missing, {tmp_path}/home/.cache/mine",
        f"run `overnight prepare {repo}` first (python prepare.py)",
    )
    assert not (repo / "sandbox").exists()

    done = cli("prepare", repo)
    assert done.code == 0, done
    assert "$ " in done.out
    assert "fetching" in done.err, "what it prints is seen"
    assert done.out.splitlines()[-1] == f"prepare done   next: overnight run {repo}"

    ran = cli("run", repo, "--max", 0, "--json")
    assert ran.code == 0, ran
    assert ran.lines[-1]["baseline"] == 0.4, "its own HOME shows the user's cache"
    refused(
        cli.inside("setup", repo, "--seq-len", 256), "MAX_SEQ_LEN is fixed for session", "--tag"
    )
    assert "MAX_SEQ_LEN = 2048" in (repo / "prepare.py").read_text()


def test_a_prepare_that_did_not_end_well_is_no_data(repo: Path, cli: Cli, tmp_path: Path) -> None:
    assert cli.inside("init", repo, "--yes").code == 0
    cli.env["FAILS"] = "3"
    done = cli("prepare", repo)
    assert (done.code, "ended with 3" in done.err) == (1, True)
    refused(cli.inside("run", repo, "--max", 1), "the last `overnight prepare", "did not end well")

    cli.env |= {"FAILS": "0", "SLOW": "1"}
    with cli.start("prepare", repo) as process:
        stamp = repo / "sandbox/prepare.json"
        deadline = time.monotonic() + 30
        while '"running"' not in stamp.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        second = cli("prepare", repo)
        assert second.code == 3, second
        assert f"(pid {process.pid})" in second.err
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    refused(cli.inside("run", repo, "--max", 1), "did not end well")
    del cli.env["SLOW"]
    assert procs.marked(str(tmp_path)) == [], "what it started ended with it"
    assert cli("prepare", repo).code == 0
    assert '"done"' in stamp.read_text()


def test_nothing_to_prepare_is_one_line(repo: Path, cli: Cli) -> None:
    (repo / "prepare.py").unlink()

    refused(cli.inside("prepare", repo), "nothing to prepare")


# ---------------------------------------------------------------------------- nobody else installs


def test_no_other_verb_starts_an_installer(repo: Path, cli: Cli, tmp_path: Path) -> None:
    """uv is asked for its version by doctor and init, and for nothing more."""
    subprocess.run([sys.executable, "prepare.py"], cwd=repo, env=cli.env, check=True)
    (repo / "requirements.txt").write_text("x\n")
    installers = ("uv", "pip", "pip3", "curl", "wget", "conda", "apt-get", "npm")
    log = shim(cli, tmp_path / "bin", *installers)
    calls: list[tuple[object, ...]] = [
        ("init", repo, "--yes"), ("doctor", repo), ("run", repo, "--max", 1),
        ("status", "--dir", repo), ("results", "--dir", repo), ("report", "--dir", repo),
        ("show", 1, "--dir", repo), ("verify", "--dir", repo), ("once", repo),
        ("apply", "--dir", repo), ("runs", repo), ("clean", "--dir", repo, "--dry-run"),
    ]  # fmt: skip
    for words in calls:
        done = cli(*words) if words[0] in ("run", "once") else cli.inside(*words)
        assert done.code in (0, 1, 2), (words, done)

    assert set(log.read_text().splitlines()) == {"uv --version"}


def test_on_a_terminal_init_proposes_and_a_changed_answer_counts(repo: Path, cli: Cli) -> None:
    (repo / "prepare.py").write_text("DATA = '.'\n")
    (repo / "train.py").write_text("LR = 0.1\nprint(f'score: {LR}')\n")
    answers = ["higher", "", "", "", "", "7", "", "y", "n"]
    with on_a_terminal(cli, "init", repo) as (pid, terminal):
        for answer in answers:
            read_terminal(terminal, until_text=": " if answer in ("y", "n") else " > ")
            os.write(terminal, answer.encode() + b"\n")
        rest = read_terminal(terminal)
        assert exit_code(pid) == 0

    text = (repo / "loop.run.yaml").read_text()
    assert "direction: maximize" in text
    assert "budget: 7 " in text
    assert "next: overnight run" in rest
