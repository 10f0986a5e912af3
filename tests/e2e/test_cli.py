"""The command line as a person and a script use it: real Redis, real sandbox, real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.cli_driver import (
    TRAIN,
    Cli,
    Done,
    exit_code,
    finish,
    make_repo,
    on_a_terminal,
    read_terminal,
    until,
    wait_for_none,
)

STATUS_KEYS = {
    "tag", "state", "baseline", "best", "counts", "in_flight", "session_dir", "endpoints",
}  # fmt: skip
RESULT_KEYS = {
    "id", "attempt", "role", "status", "reason", "metric", "trust", "parent", "commit",
    "hypothesis", "proposer", "runtime_s", "peak_vram_mb", "isolation", "survivors", "hardware",
    "runner",
}  # fmt: skip


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Cli, Path, Done]:
    """A session that ran to its end. Only looked at, never changed: copy it to go on with it."""
    base = tmp_path_factory.mktemp("finished")
    cli = Cli(base)
    repo = make_repo(base / "repo", sleep=0.1)
    return (
        cli,
        repo,
        cli("run", repo, "--max", 4, "--runners", 2, "--json", "--desc", "how warm is too warm"),
    )


def copy_of(finished: tuple[Cli, Path, Done], tmp_path: Path) -> Path:
    repo = tmp_path / "moved"
    shutil.copytree(finished[1], repo, symlinks=True)
    return repo


def test_run_says_one_event_a_line_and_ends_with_the_status(
    finished: tuple[Cli, Path, Done],
) -> None:
    _, repo, done = finished
    *events, last = done.lines

    assert (done.code, done.err) == (0, "")
    assert {"opened", "ready", "session_opened", "proposed", "attempt_issued", "result",
            "decision", "session_closed"} <= {e["event"] for e in events}  # fmt: skip
    assert last.keys() >= STATUS_KEYS
    assert "event" not in last
    assert last["session_dir"] == str(repo / "sandbox")
    assert last["baseline"] == 1.4
    assert sum(last["counts"].values()) == 5
    assert next(e for e in events if e["event"] == "ready")["isolation"] == "namespaces"


def test_results_tsv_holds_each_decided_experiment_exactly_once(
    finished: tuple[Cli, Path, Done],
) -> None:
    _, repo, done = finished
    decisions = [e for e in done.lines if e.get("event") == "decision"]

    wanted = ["commit\tval_bpb\tmemory_gb\tstatus\tdescription"]
    wanted += [
        f"iter{d['id']}\t{d['metric']:.6f}\t0.5\t{d['verdict']}\t{d['hypothesis']}"
        for d in decisions
    ]
    assert (repo / "sandbox/results.tsv").read_text().splitlines() == wanted
    assert wanted[1] == "iter1\t1.400000\t0.5\tkeep\tbaseline"
    assert sorted(d["id"] for d in decisions) == [1, 2, 3, 4, 5]


def test_what_was_tried_can_be_read_by_scripts(finished: tuple[Cli, Path, Done]) -> None:
    cli, repo, done = finished
    at = ("--dir", repo, "--json")
    rows = cli.inside("results", *at).json
    best = done.lines[-1]["best"]
    shown = cli.inside("show", "best", *at).json
    waited = cli.inside("wait", 2, *at)

    assert all(row.keys() >= RESULT_KEYS for row in rows)
    assert [r["metric"] for r in rows] == sorted(r["metric"] for r in rows)
    assert rows[0]["id"] == best["id"] == shown["id"]
    assert shown.keys() >= RESULT_KEYS | {"diff", "log_tail", "timings", "claims", "replicates"}
    assert "val_bpb" in shown["log_tail"]
    assert "+LR" in shown["diff"]
    assert list(shown["timings"]) == ["export", "start", "run", "collect", "destroy"]
    assert [r["id"] for r in cli.inside("results", "--top", 2, *at).json] == [
        r["id"] for r in rows[:2]
    ]
    assert {r["status"] for r in cli.inside("results", "--status", "keep", *at).json} == {"keep"}
    assert cli.inside("results", "--status", "timeout", *at).json == []
    assert cli.inside("diff", 1, *at).json == {"id": 1, "diff": ""}
    assert cli.inside("log", 1, *at).json["log"].endswith("peak_vram_mb: 512.0\n")
    assert (waited.code, waited.json["id"]) == (0, 2)
    assert cli.inside("verify", *at).json["ok"] is True
    status = cli.inside("status", *at).json
    assert status["description"] == "how warm is too warm"
    assert {k: status[k] for k in STATUS_KEYS - {"endpoints"}} == {
        k: done.lines[-1][k] for k in STATUS_KEYS - {"endpoints"}
    }


def test_the_best_diff_applies_to_the_users_files(
    finished: tuple[Cli, Path, Done], tmp_path: Path
) -> None:
    cli, repo, done = finished
    shutil.copy(repo / "train.py", tmp_path)
    patch = cli.inside("diff", "best", "--dir", repo).out
    subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=tmp_path, check=True)
    ran = subprocess.run(
        [*cli.argv()[:1], "train.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert f"val_bpb: {done.lines[-1]['best']['metric']:.6f}" in ran.stdout


def test_asking_a_session_that_nobody_runs_is_exit_3_and_names_the_verb(
    finished: tuple[Cli, Path, Done],
) -> None:
    cli, repo, _ = finished
    for words in (("stop",), ("pause",), ("resume",), ("drain",)):
        done = cli.inside(*words, "--dir", repo)

        assert (done.code, done.out) == (3, "")
        assert done.err.startswith("overnight: ")
        assert done.err.count("\n") == 1
        assert "no stack runs for this session: overnight up" in done.err


def test_what_does_not_exist_is_one_line_and_exit_2(finished: tuple[Cli, Path, Done]) -> None:
    cli, repo, _ = finished
    for words in (
        ("show", 77, "--dir", repo),
        ("log", 77, "--dir", repo),
        ("wait", 99, "--dir", repo),
        ("diff", "worst", "--dir", repo),
        ("log", 1, "--attempt", 9, "--dir", repo),
        ("results", "--status", "good", "--dir", repo),
        ("status", "nosuchtag", "--dir", repo),
        ("status", "--dir", repo / "nowhere"),
        ("run", repo, "--max", "-1"),
        ("run", repo, "--max", "four"),
        ("run", repo, "--proposer", "oracle"),
        ("run", repo, "--budget", "0"),
        ("run", repo, "--tag", "a b"),
        ("frobnicate",),
    ):
        done = cli.inside(*words)

        assert (done.code, done.out) == (2, ""), words
        assert done.err.startswith("overnight: "), done.err
        assert done.err.count("\n") == 1, done.err


def test_running_again_converges_also_in_a_moved_folder(
    finished: tuple[Cli, Path, Done], tmp_path: Path, cli: Cli
) -> None:
    repo = copy_of(finished, tmp_path)
    more = cli("run", repo, "--max", 6)
    again = cli("run", repo, "--max", 6, "--json")
    rows = cli.inside("results", "--dir", repo, "--json").json

    assert (more.code, more.err) == (0, "")
    assert "(resumed)" in more.out
    assert "chain ok" in more.out
    assert "0 left running" in more.out
    assert "\x1b" not in more.out
    assert again.code == 0
    assert not [e for e in again.lines if e.get("event") == "proposed"]
    assert sorted(r["id"] for r in rows) == [1, 2, 3, 4, 5, 6, 7]
    assert {r["attempt"] for r in rows} == {1}
    assert cli.inside("verify", "--dir", repo).code == 0
    assert len((repo / "sandbox/results.tsv").read_text().splitlines()) == 8


def test_other_bindings_are_refused_on_resume(
    finished: tuple[Cli, Path, Done], tmp_path: Path, cli: Cli
) -> None:
    repo = copy_of(finished, tmp_path)
    done = cli.inside("run", repo, "--budget", 7)

    assert done.code == 2
    assert "budget" in done.err
    assert "--tag" in done.err
    assert done.err.count("\n") == 1


def test_verify_names_the_line_of_a_changed_byte(
    finished: tuple[Cli, Path, Done], tmp_path: Path, cli: Cli
) -> None:
    repo = copy_of(finished, tmp_path)
    ledger = repo / "sandbox/ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    lines[6] = lines[6].replace(b'"ts":"2', b'"ts":"3')
    ledger.write_bytes(b"".join(lines))
    done = cli.inside("verify", "--dir", repo, "--json")
    told = cli.inside("verify", "--dir", repo)
    status = cli.inside("status", "--dir", repo)

    assert done.code == 1
    assert done.json["ok"] is False
    assert done.json["problems"][0]["line"] == 7
    assert told.code == 1
    assert told.out.startswith("ledger.jsonl:7: ")
    assert status.code == 3
    assert "line 7" in status.err
    assert status.err.count("\n") == 1


def test_one_interrupt_cancels_reports_the_best_and_resumes_exactly(
    tmp_path: Path, cli: Cli
) -> None:
    repo = make_repo(tmp_path / "repo", sleep=1.5)
    running = cli.start("run", repo, "--max", 4, "--runners", 2, "--json")
    until(running, event="attempt_issued", id=3)
    time.sleep(0.3)
    asked = time.monotonic()
    running.send_signal(signal.SIGINT)
    done = finish(running)
    took = time.monotonic() - asked
    events = done.lines
    after = cli("run", repo, "--max", 4, "--json")
    rows = cli.inside("results", "--dir", repo, "--json").json

    assert (done.code, done.err) == (0, "")
    assert "stopping" in {e.get("event") for e in events}
    assert [e["id"] for e in events if e.get("status") == "cancelled"]
    assert events[-1]["state"] == "closed"
    kept = [e["id"] for e in events if e.get("event") == "decision" and e["verdict"] == "keep"]
    assert events[-1]["best"]["id"] == (kept[-1] if kept else 1)
    assert took < 10
    assert after.code == 0
    assert sorted(r["id"] for r in rows) == [1, 2, 3, 4, 5]
    assert all(r["status"] in ("keep", "discard") for r in rows)
    assert max(r["attempt"] for r in rows) == 2
    assert cli.inside("verify", "--dir", repo).code == 0


def test_a_second_interrupt_kills_and_leaves_nothing(tmp_path: Path, cli: Cli) -> None:
    mark = f"mark{os.getpid()}x{time.time_ns()}"
    repo = make_repo(tmp_path / mark, sleep=60)
    loop = repo / "loop.run.yaml"
    loop.write_text(loop.read_text().replace("train.py\neditable", f"train.py {mark}\neditable"))
    running = cli.start("run", repo, "--json")
    until(running, event="attempt_issued", id=1)
    time.sleep(0.7)
    assert [p for p in wait_for_none(mark, 0) if "train.py" in p]
    running.send_signal(signal.SIGINT)
    until(running, event="stopping")
    running.send_signal(signal.SIGINT)
    asked = time.monotonic()
    done = finish(running)

    assert done.code == 130
    assert done.lines[-1].keys() >= STATUS_KEYS
    assert time.monotonic() - asked < 5
    assert wait_for_none(mark, 2) == []
    assert not list((tmp_path / "state").glob("*/redis.sock"))


def test_a_second_run_is_refused_with_the_holders_pid_and_the_first_goes_on(
    tmp_path: Path, cli: Cli
) -> None:
    repo = make_repo(tmp_path / "repo", sleep=0.5)
    running = cli.start("run", repo, "--max", 3, "--json")
    until(running, event="session_opened")
    second = cli.inside("run", repo, "--max", 3)
    watched = cli("watch", "--dir", repo)
    done = finish(running)

    assert (second.code, second.out) == (3, "")
    assert f"pid {running.pid}" in second.err
    assert second.err.count("\n") == 1
    assert done.code == 0
    assert sum(done.lines[-1]["counts"].values()) == 4
    assert watched.code == 0
    assert "  004   " in watched.out
    assert "chain ok" in watched.out


def test_a_session_in_the_background_is_steered_and_ended(tmp_path: Path, cli: Cli) -> None:
    repo = make_repo(tmp_path / "repo", sleep=0.3)
    at = ("--dir", repo, "--json")
    up = cli("up", repo, "--json")
    try:
        status = cli.inside("status", *at).json
        paused = cli("pause", *at, "--why", "lunch")
        held = cli.inside("status", *at).json
        resumed = cli("resume", *at)
        twice = cli.inside("up", repo)
    finally:
        down = cli("down", *at)
    again = cli.inside("down", *at)

    assert up.code == 0
    assert up.json["pid"] == status["pid"]
    assert status["endpoints"].keys() >= {"recorder", "r0"}
    assert (paused.code, paused.json["action"]) == (0, "pause")
    assert (held["state"], held["why"]) == ("paused", "lunch")
    assert resumed.code == 0
    assert (twice.code, twice.out) == (3, "")
    assert f"pid {up.json['pid']}" in twice.err
    assert (down.code, down.json["was_running"]) == (0, True)
    assert again.json["was_running"] is False
    assert wait_for_none(str(repo), 2) == []
    assert cli.inside("verify", *at).json["ok"] is True


def test_stop_waits_until_the_session_is_closed(tmp_path: Path, cli: Cli) -> None:
    repo = make_repo(tmp_path / "repo", sleep=0.3)
    running = cli.start("run", repo, "--json")
    until(running, event="decision", id=1)
    stopped = cli("stop", "--dir", repo, "--json")
    done = finish(running)

    assert stopped.code == 0
    assert done.code == 0
    assert done.lines[-1]["state"] == "closed"
    assert not (repo / "sandbox/stack.json").exists()


def test_a_reader_that_leaves_early_does_not_end_the_run(tmp_path: Path, cli: Cli) -> None:
    repo = make_repo(tmp_path / "repo")
    running = cli.start("run", repo, "--max", 2, "--json")
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.readline()
    running.stdout.close()
    code = running.wait(60)
    words = running.stderr.read()
    running.stderr.close()

    assert (code, words) == (0, "")
    assert cli.inside("status", "--dir", repo, "--json").json["candidates"] == 2


def test_a_lost_terminal_does_not_end_the_run(tmp_path: Path, cli: Cli) -> None:
    repo = make_repo(tmp_path / "repo")
    with on_a_terminal(cli, "run", repo, "--max", 3) as (pid, terminal):
        seen = read_terminal(terminal, "baseline")
        os.close(terminal)  # the kernel sends SIGHUP, and writing gives EIO from now on
        code = exit_code(pid)

    assert "sandbox: namespaces, no network" in seen
    assert code == 0
    assert sum(cli.inside("status", "--dir", repo, "--json").json["counts"].values()) == 4


HOSTILE = (
    TRAIN
    + """
print("\\x1b]0;owned\\x07\\x1b[2J[bold red]not markup[/bold red] :skull:")
if LR != 0.1:
    raise ValueError("\\x1b]0;owned\\x07[bold]shown as it is[/bold] \\u202e")
"""
)


def test_hostile_output_is_inert_on_a_terminal(tmp_path: Path, cli: Cli) -> None:
    repo = make_repo(tmp_path / "repo", train=HOSTILE)
    with on_a_terminal(cli, "run", repo, "--max", 2) as (pid, terminal):
        seen = read_terminal(terminal)
        code = exit_code(pid)
    shown = [cli.inside(*words, "--dir", repo) for words in (("show", 2), ("log", 2), ("results",))]
    raw = cli.inside("log", 2, "--raw", "--dir", repo)

    assert code == 0
    assert "\x1b[31mcrash: ValueError: [bold]shown" in seen  # our own red, their own words
    for text in (seen, *(done.out for done in shown)):
        assert "\x1b]" not in text
        assert "\x1b[2J" not in text
        assert "\x07" not in text
        assert "\u202e" not in text
    assert "[bold red]not markup[/bold red] :skull:" in shown[1].out
    assert "\x1b]0;owned\x07" in raw.out


def test_a_failed_baseline_is_exit_1_with_its_reason_and_makes_room(
    tmp_path: Path, cli: Cli
) -> None:
    repo = make_repo(tmp_path / "repo", train="print('val_bbp: 1.5')\n")
    silent = cli("run", repo, "--max", 2)
    (repo / "train.py").write_text(TRAIN.replace("SLEEP", "0.1"))
    mended = cli("run", repo, "--max", 0, "--json")

    assert silent.code == 1
    assert "crash: printed no metric: saw 'val_bbp: 1.5'" in silent.out
    failed = "baseline failed: no line 'val_bpb: <number>' in the output; saw 'val_bbp: 1.5'; fix"
    assert failed in silent.out
    assert "overnight log 1" in silent.out
    assert mended.code == 0
    assert mended.lines[-1]["baseline"] == 1.4
    assert any("failed-1" in e.get("text", "") for e in mended.lines)


def test_init_finds_the_bindings_and_run_takes_them(tmp_path: Path, cli: Cli) -> None:
    repo = make_repo(tmp_path / "repo", sleep=0.1)
    (repo / "loop.run.yaml").unlink()
    told = cli.inside("init", repo, "--yes")
    kept = cli.inside("init", repo, "--yes", "--metric", "other")
    again = cli.inside("init", repo, "--json", "--force", "--budget", 9)
    ran = cli("run", repo, "--max", 0, "--json")

    assert told.code == 0
    assert "train.py:5 prints it" in told.out
    assert kept.code == 0
    assert "not used" in kept.out
    bindings: dict[str, Any] = again.json
    assert (bindings["metric"]["name"], bindings["budget"]) == ("val_bpb", 9.0)
    assert bindings["run_cmd"] == ["python", "train.py"]
    assert bindings["written"] is True
    assert ran.code == 0
    assert ran.lines[-1]["baseline"] == 1.4


def test_the_demo_trains_the_bundled_track_in_a_folder_of_its_own(tmp_path: Path, cli: Cli) -> None:
    done = cli(
        *("demo", "--experiments", 0, "--gate", "steps", "--budget", 3, "--json"), cwd=tmp_path
    )
    (made,) = (tmp_path / "demo").iterdir()
    resumed = cli("demo", "--experiments", 0, "--dir", made, "--json", cwd=tmp_path)

    assert done.code == 0, done.err
    assert 1.0 < done.lines[-1]["baseline"] < 6.0
    assert json.loads(resumed.out.splitlines()[0])["resumed"] is True
    assert sum(resumed.lines[-1]["counts"].values()) == 1
