"""The checkers seen red: what must not happen is done to a whole session, and is counted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import truth

from overnight.sessions.torture import leftovers, recount

Row = dict[str, Any]
METRICS = {1: 2.0, 2: 1.5, 3: None, 4: 1.75}  #: by experiment; 3 crashed
MARK = "torture-of-a-test"


def _row(kind: str, key: str, **body: object) -> Row:
    return {"v": 1, "ts": "", "session": "0123456789ab", "kind": kind, "key": key, "body": body}


def _result(number: int, attempt: int, sender: str, status: str, reason: str | None = None) -> Row:
    metric = METRICS[number] if status == "scored" else None
    return _row(
        "result", f"result:{number}:{attempt}:{sender}", id=number, attempt=attempt,
        sender=sender, status=status, reason=reason, metric=metric,
        peak_vram_mb=512.0, log_truncated=False,
    )  # fmt: skip


def _issued(number: int, attempt: int) -> Row:
    return _row("attempt_issued", f"attempt:{number}:{attempt}", id=number, attempt=attempt)


def _whole() -> list[Row]:
    """Four experiments; the second lost its first runner, whose result came late."""
    config = {"metric": {"name": "val_bpb", "direction": "minimize"}}
    rows = [_row("session_opened", "open:1", epoch=1, config=config, branch=None)]
    best = None
    for number, metric in METRICS.items():
        rows.append(_row(
            "proposed", f"proposed:{number}", id=number, parent=best, tree_digest=str(number),
            commit=f"{number:040d}", hypothesis=f'LR "1e-{number}"', rejection=None,
        ))  # fmt: skip
        attempts = 2 if number == 2 else 1
        rows.append(_issued(number, 1))
        if attempts == 2:
            rows += [_result(2, 1, "orchestrator", "infra", "lost"), _issued(2, 2)]
        ended = ("crash", "exit_code") if metric is None else ("scored", None)
        rows.append(_result(number, attempts, "r0", *ended))
        kept = metric is not None and (best is None or metric < METRICS[best])
        verdict = ("keep" if kept else "discard") if metric is not None else "crash"
        rows.append(_row(
            "decision", f"decision:{number}:1", id=number, verdict=verdict, reason=ended[1],
            incumbent_before=best, incumbent_after=number if kept else best,
            rests_on=[len(rows)],
        ))  # fmt: skip
        best = number if kept else best
    rows.append({**_result(2, 1, "r0", "scored"), "kind": "superseded"})
    rows.append(_row("session_closed", "closed:1", outcome="drained", detail=""))
    return rows


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of that session."""
    truth.write_rows(tmp_path, _whole())
    table = ["commit\tval_bpb\tmemory_gb\tstatus\tdescription"]
    lines = []
    verdicts = {1: "keep", 2: "keep", 3: "crash", 4: "discard"}
    for number, metric in METRICS.items():
        what = "baseline" if number == 1 else f"LR '1e-{number}'"
        memory = "0.0" if metric is None else "0.5"
        table.append(f"iter{number}\t{metric or 0:.6f}\t{memory}\t{verdicts[number]}\t{what}")
        lines.append(json.dumps({
            "id": number, "branch": f"iter{number}", "hypothesis": f'LR "1e-{number}"',
            "metric": metric, "runtime_s": 0.1, "notes": "", "status": verdicts[number],
        }))  # fmt: skip
        folder = tmp_path / f"iter{number}"
        (folder / "out").mkdir(parents=True)
        for attempt in (1, 2) if number == 2 else (1,):
            name = "run.log" if attempt == 1 else f"run.{attempt}.log"
            (folder / name).write_text(f"step 1\n---\n\x1b[1mval_bpb: {metric}\x1b[0m\r\n")
    (tmp_path / "results.tsv").write_text("\n".join([*table, ""]))
    (tmp_path / "experiments.jsonl").write_text("\n".join([*lines, ""]))
    return tmp_path


def _kinds(root: Path, **more: list[str]) -> dict[str, int]:
    """Findings by kind, where there are any."""
    found = recount.recount(root, **more).as_json()
    return {k: len(found[k]) for k in ("lost", "doubled", "problems") if found[k]}


def _doctor(root: Path, change: Callable[[list[Row]], list[Row]]) -> None:
    """Change the rows, and compute the chain anew as a careful forger would."""
    truth.write_rows(root, change(truth.read_rows(root)))


def _without(kind: str, number: int) -> Callable[[list[Row]], list[Row]]:
    """All rows but the last one of that kind."""

    def drop(rows: list[Row]) -> list[Row]:
        index = max(i for i, row in enumerate(rows)
                    if row["kind"] == kind and row["body"].get("id") == number)  # fmt: skip
        return rows[:index] + rows[index + 1 :]

    return drop


def test_a_whole_session_is_found_whole(root: Path) -> None:
    found = recount.recount(root)

    assert found.findings == []
    assert found.as_json() == {
        "ok": True, "rows": 21, "experiments": 4, "attempts": 5, "superseded": 1,
        "verdicts": {"keep": 2, "crash:exit_code": 1, "discard": 1},
        "lost": [], "doubled": [], "problems": [],
    }  # fmt: skip


def test_a_second_final_result_is_doubled(root: Path) -> None:
    """By another runner, for an attempt of its own; and for the same attempt."""
    _doctor(root, lambda rows: [*rows[:-1], _issued(4, 2), _result(4, 2, "r1", "scored"), rows[-1]])
    (root / "iter4" / "run.2.log").write_text("val_bpb: 1.75\n")

    assert _kinds(root) == {"doubled": 1}

    truth.write_rows(root, [*_whole(), _result(4, 1, "r1", "scored")])

    assert _kinds(root)["doubled"] == 2, "the experiment and its attempt"


def test_a_second_decision_is_doubled(root: Path) -> None:
    again = {**_whole()[4], "key": "decision:1:2"}
    _doctor(root, lambda rows: [*rows, again])

    assert _kinds(root)["doubled"] == 1


@pytest.mark.parametrize("kind", ["proposed", "attempt_issued", "result", "decision"])
@pytest.mark.parametrize("number", METRICS)
def test_a_dropped_row_is_lost_though_the_chain_is_whole(
    root: Path, kind: str, number: int
) -> None:
    _doctor(root, _without(kind, number))

    assert _kinds(root).get("lost", 0) >= 1


def test_an_experiment_that_ran_and_has_no_row_at_all_is_lost(root: Path) -> None:
    _doctor(root, lambda rows: [r for r in rows if r["body"].get("id") != 4])

    assert _kinds(root)["lost"] == 1


def test_what_was_given_up_may_end_twice_if_it_was_requeued_between(root: Path) -> None:
    wish = _row("control", "control:requeue:4:18", action="requeue", id=4)
    given_up = [_result(4, 1, "orchestrator", "infra", "gave_up"),
                _row("decision", "decision:4:0", id=4, verdict="infra", reason="gave_up",
                     incumbent_before=2, incumbent_after=2, rests_on=[18])]  # fmt: skip

    def change(rows: list[Row], middle: list[Row]) -> list[Row]:
        decision = {**rows[18], "body": {**rows[18]["body"], "rests_on": [21 + len(middle)]}}
        again = [_issued(4, 2), _result(4, 2, "r1", "scored"), decision]
        return [*rows[:17], *given_up, *middle, *again, *rows[19:]]

    (root / "iter4" / "run.2.log").write_text("val_bpb: 1.75\n")
    whole = truth.read_rows(root)
    truth.write_rows(root, change(whole, []))
    assert _kinds(root)["doubled"] == 2

    truth.write_rows(root, change(whole, [wish]))

    assert recount.recount(root).findings == []


def _replaced(kind: str, number: int, **body: object) -> Callable[[list[Row]], list[Row]]:
    def change(rows: list[Row]) -> list[Row]:
        return [
            {**row, "body": {**row["body"], **body}}
            if row["kind"] == kind and row["body"].get("id") == number
            else row
            for row in rows
        ]

    return change


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("a worse one is kept", _replaced("decision", 4, verdict="keep", incumbent_after=4)),
        ("a better one is discarded", _replaced("decision", 2, verdict="discard")),
        ("a crash is kept", _replaced("decision", 3, verdict="keep")),
        ("the incumbent is forgotten", _replaced("decision", 4, incumbent_before=1)),
        ("it rests on nothing", _replaced("decision", 2, rests_on=[1])),
        ("another metric than was printed", _replaced("result", 4, metric=1.6)),
        ("superseded out of nothing", _replaced("superseded", 2, attempt=3)),
        ("another verdict than exported", _replaced("result", 3, reason="oom")),
    ],
)
def test_rows_that_contradict_each_other_are_a_problem(
    root: Path, what: str, change: Callable[[list[Row]], list[Row]]
) -> None:
    _doctor(root, change)
    if "exported" in what:  # crash:oom is exported with a suffix
        _doctor(root, _replaced("decision", 3, reason="oom"))

    assert _kinds(root).get("problems", 0) >= 1


def test_a_decision_before_its_result_has_no_evidence(root: Path) -> None:
    rows = _whole()
    at = next(i for i, row in enumerate(rows) if row["kind"] == "decision")
    rows[at - 1], rows[at] = rows[at], rows[at - 1]
    truth.write_rows(root, rows)

    assert _kinds(root)["problems"] >= 1


def test_a_changed_byte_a_torn_row_and_a_lagging_head_are_problems(root: Path) -> None:
    path = root / "ledger.jsonl"
    whole = path.read_bytes()
    at = whole.index(b"1.5")

    for bytes_ in (whole[:at] + b"1.4" + whole[at + 3 :], whole[:-1], whole + b'{"v":1'):
        path.write_bytes(bytes_)
        assert _kinds(root).get("problems", 0) >= 1, bytes_[-40:]
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))

    assert _kinds(root) == {"problems": 1}


def test_a_key_with_two_rows_is_a_problem(root: Path) -> None:
    _doctor(root, lambda rows: [*rows, rows[-1]])

    assert _kinds(root) == {"problems": 1}


@pytest.mark.parametrize("name", ["results.tsv", "experiments.jsonl"])
@pytest.mark.parametrize(
    "change", [lambda text: text[:-5], lambda text: text.replace(b"1.5", b"0.5"), lambda _: None]
)
def test_an_export_that_says_something_else_is_a_problem(
    root: Path, name: str, change: Callable[[bytes], bytes | None]
) -> None:
    new = change((root / name).read_bytes())
    (root / name).unlink() if new is None else (root / name).write_bytes(new)

    assert _kinds(root) == {"problems": 1}


def test_what_should_not_lie_there_is_a_problem(root: Path) -> None:
    (root / "iter2" / "out" / "passwd").symlink_to("/etc/passwd")
    (root / "stack.json").touch()
    (root / "runners" / "r0" / "outbox").mkdir(parents=True)
    (root / "runners" / "r0" / "outbox" / "result_9_1_r0.json").touch()
    (root / "runners" / "r0" / "claimed").touch()

    assert _kinds(root) == {"problems": 4}


def test_a_forged_word_and_a_canary_are_problems(root: Path) -> None:
    (root / "canary").touch()
    _doctor(root, _replaced("proposed", 2, analysis="by forged-1234"))

    found = _kinds(root, forged=["forged-1234"], canaries=[str(root / "canary")])

    assert found == {"problems": 2}


def test_the_script_alone_says_it_by_its_exit_code(root: Path) -> None:
    command = [sys.executable, "-I", "-S", recount.__file__, str(root)]
    right = subprocess.run(command, capture_output=True, text=True, check=False)
    _doctor(root, _without("decision", 4))
    wrong = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (right.returncode, json.loads(right.stdout)["lost"]) == (0, [])
    assert (wrong.returncode, len(json.loads(wrong.stdout)["lost"])) == (1, 1)


# -- leftovers --------------------------------------------------------------------------------


@pytest.fixture
def left() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a process that somebody forgot."""
    started = []

    def start(*words: str, **env: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(words, env={"PATH": os.environ["PATH"], **env})
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def _left(root: Path, **seen: object) -> list[str]:
    return leftovers.leftovers(root, leftovers.Seen(**seen))  # type: ignore[arg-type]


def test_nothing_is_left_of_nothing(root: Path) -> None:
    assert _left(root) == []


def test_a_process_is_found_by_the_mark_in_its_arguments_or_environment(
    root: Path, left: Callable[..., subprocess.Popen[bytes]]
) -> None:
    by_words = left(sys.executable, "-S", "-c", "import time; time.sleep(60)", MARK)
    by_environment = left("sleep", "60", A_MARK=MARK)
    left("sleep", "60")

    found = {int(what.split()[1].rstrip(":")) for what in _left(root, marks=(MARK,))}

    assert found == {by_words.pid, by_environment.pid}


def test_a_process_that_lost_its_mark_is_found_by_its_namespace(
    root: Path, left: Callable[..., subprocess.Popen[bytes]]
) -> None:
    name = str(600 + os.getpid())
    left("unshare", "--user", "--map-root-user", "--pid", "--fork", "sleep", name)
    own, found = leftovers._namespace(os.getpid()), {}
    until = time.monotonic() + 10
    while not found and time.monotonic() < until:
        pids = [int(pid) for pid in os.listdir("/proc") if pid.isdigit()]
        inside = [p for p in pids if leftovers._bytes(p, "cmdline") == f"sleep\0{name}\0".encode()]
        found = {p: n for p in inside if (n := leftovers._namespace(p)) not in (None, own)}
    if not found:
        pytest.skip("this host gives no namespaces")
    (pid, number), *_ = found.items()
    try:
        by_namespace = _left(root, marks=(MARK,), namespaces=(number,))
        by_mark = _left(root, marks=(MARK,))
    finally:
        os.kill(pid, signal.SIGKILL)

    assert by_namespace == [f"process {pid}: sleep {name}"]
    assert by_mark == []


def test_folders_records_and_devices_are_left_too(root: Path, tmp_path: Path) -> None:
    for name in ("sockets", "locks", "records"):
        (tmp_path / name).mkdir()
    places = {name: str(tmp_path / name) for name in ("sockets", "locks", "records")}
    (tmp_path / "locks" / "cpu0.lock").touch()
    (tmp_path / "records" / "sandbox-1.json").write_text('{"scratch": "/of/another/session"}')
    assert _left(root, **places) == []

    (tmp_path / "sockets" / "0123456789ab-x").mkdir()
    (tmp_path / "locks" / "cpu0.quarantined").touch()
    (tmp_path / "records" / "sandbox-2.json").write_text(json.dumps({"scratch": str(root)}))

    assert len(_left(root, **places)) == 3


def test_a_control_group_is_left_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "CGROUPS", root / "cgroup")
    (root / "cgroup" / "memory" / "overnight-12ab").mkdir(parents=True)

    assert len(_left(root, tokens=("12ab", "34cd"))) == 1
    assert _left(root, tokens=("34cd",)) == []
