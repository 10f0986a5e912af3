"""A session that services run one by one, without a supervisor, each under its user of Redis."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e import procs
from tests.e2e.stage import Finished, Play, Stage
from tests.e2e.truth import read_rows

from guarded_redis import USERS, GuardedRedis

SERVICES = ("recorder", "orchestrator", "r0", "r1")


@pytest.fixture(scope="module")
def guarded() -> Iterator[GuardedRedis]:
    with GuardedRedis() as server:
        yield server


class Cast:
    """The services, as a compose file would start them."""

    def __init__(self, stage: Stage, redis: GuardedRedis) -> None:
        self._stage = stage
        self._redis = redis
        self.plays: dict[str, Play] = {}

    def ask(self, *words: str, user: str = "cli") -> Finished:
        self._stage.environment = self._redis.environ(user)
        try:
            return self._stage.ask(*words)
        finally:
            self._stage.environment = {}

    def open(self, *words: str) -> Finished:
        return self.ask("open", str(self._stage.repo), *words)

    def start(self, *names: str) -> None:
        for name in names:
            service = "runner" if name.startswith("r") and name != "recorder" else name
            words = [service, "--dir", str(self._stage.repo)]
            words += ["--ready-file", str(self._stage.folder / f"{name}.ready")]
            if service == "runner":
                words += ["--slot", name, "--device", f"cpu:{name[1:]}"]
            if service == "orchestrator":
                words += ["--ends-well"]
            self._stage.environment = self._redis.environ(service)
            self.plays[name] = self._stage.start(*words)
            self._stage.environment = {}

    def leave(self, *names: str) -> dict[str, int]:
        """SIGTERM, as `docker compose down` sends it; their exit codes."""
        for name in names:
            self.plays[name].process.send_signal(signal.SIGTERM)
        return {name: self.plays[name].wait(15).code for name in names}

    def ends(self, name: str, seconds: float = 60) -> int:
        """By itself; its exit code."""
        try:
            return self.plays[name].wait(seconds).code
        except subprocess.TimeoutExpired:
            said = [path.read_text() for path in sorted(self._stage.folder.glob("play*"))]
            raise AssertionError("\n".join([f"{name} has not ended", *said])) from None

    def ready(self, name: str) -> str:
        path = self._stage.folder / f"{name}.ready"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def cast(stage: Stage, guarded: GuardedRedis) -> Cast:
    admin = guarded.client()
    admin.flushall()
    admin.execute_command("ACL", "LOG", "RESET")
    return Cast(stage, guarded)


def rows(stage: Stage, kind: str) -> list[dict]:
    return [row["body"] for row in read_rows(stage.root) if row["kind"] == kind]


def decided(stage: Stage) -> int:
    return len(rows(stage, "decision"))


def secrets_in_sight(guarded: GuardedRedis) -> list[str]:
    """Of all processes of this host: where a password stands in arguments or environment."""
    passwords = [guarded.password(user).encode() for user in USERS]
    return [
        f"{pid}/{name}"
        for pid in filter(str.isdigit, os.listdir("/proc"))
        for name in ("cmdline", "environ")
        if any(p in procs._bytes(int(pid), name) for p in passwords)
    ]


def _toy_that_can_be_held(stage: Stage) -> Path:
    """Candidates don't end while the file that is returned is there."""
    stage.toy()
    stage.write(
        {
            "pace.py": "import os, time\n\n\ndef train():\n    time.sleep(0.2)\n"
            '    while os.path.exists("HOLD/hold"):\n        time.sleep(0.05)\n',
        }
    )
    (stage.repo / "HOLD").mkdir()
    stage.bind(reads=["HOLD"])
    return stage.repo / "HOLD" / "hold"


def test_a_session_of_services_leaves_goes_on_and_ends(
    stage: Stage, guarded: GuardedRedis, cast: Cast
) -> None:
    """Opened, run by four services under their users, left by SIGTERM, taken up, stopped."""
    hold = _toy_that_can_be_held(stage)
    opened = cast.open("--max", "5")
    assert opened.code == 0, str(opened)
    assert str(stage.root) in opened.output
    cast.start(*SERVICES)
    procs.wait_until(lambda: decided(stage) >= 1, 60, "one is decided")
    hold.touch()
    procs.wait_until(lambda: len(stage.training()) == 2, 30, "two are held")
    assert secrets_in_sight(guarded) == []
    again = cast.open("--max", "5")
    assert (again.code, "runs already" in again.output) == (0, True), str(again)
    beside = stage.ask("run", str(stage.repo), "--max", "5")
    assert beside.code == 3, str(beside)
    assert "docker compose down" in beside.errors
    assert beside.errors.count("\n") == 1
    assert stage.ask("status", "--dir", str(stage.repo), "--json").last["state"] == "running"
    out_of_reach = stage.ask("pause", "--dir", str(stage.repo))
    assert (out_of_reach.code, "run --rm cli" in out_of_reach.errors) == (3, True), str(
        out_of_reach
    )
    # `down`: what depends first.
    assert cast.leave("orchestrator", "r0", "r1") == {"orchestrator": 0, "r0": 0, "r1": 0}
    assert cast.leave("recorder") == {"recorder": 0}
    assert stage.alive() == []
    assert rows(stage, "session_closed") == []
    before = read_rows(stage.root)
    hold.unlink()

    assert cast.open("--max", "5").code == 0
    cast.start(*SERVICES)

    assert cast.ends("orchestrator", 90) == 0
    assert read_rows(stage.root)[: len(before)] == before
    assert decided(stage) == 6
    assert [b["outcome"] for b in rows(stage, "session_closed")] == ["done"]
    assert {b["runner"] for b in rows(stage, "result") if b["runner"]} == {"r0", "r1"}
    cast.leave("recorder", "r0", "r1")
    assert stage.ask("verify", "--dir", str(stage.repo)).code == 0
    assert guarded.denials() == []
    texts = [p.read_text(errors="replace") for p in stage.folder.glob("play*")]
    assert not [1 for user in USERS for text in texts if guarded.password(user) in text]
    stage.check_nothing_is_left()


def test_a_run_that_was_stopped_goes_on_with_the_next_opening_and_with_no_restart(
    stage: Stage, cast: Cast
) -> None:
    stage.toy(0.2)
    cast.open("--max", "40")
    cast.start("recorder", "orchestrator", "r0")
    procs.wait_until(lambda: decided(stage) >= 2, 60, "two are decided")
    stopped = cast.ask("stop", "--dir", str(stage.repo))
    assert stopped.code == 0, str(stopped)
    assert cast.ends("orchestrator", 10) == 0
    # A restart after a fault asks for nothing: a person stopped it.
    cast.start("orchestrator")
    assert cast.ends("orchestrator", 30) == 0
    assert len(rows(stage, "session_closed")) == 1

    assert cast.open("--max", "40").code == 0
    cast.start("orchestrator")
    procs.wait_until(lambda: [b for b in rows(stage, "control") if b["action"] == "resume"], 20, "")
    count = decided(stage)
    procs.wait_until(lambda: decided(stage) > count, 30, "it goes on")
    # Killed and started again by a restart policy, it goes on, and asks for nothing twice.
    cast.plays["orchestrator"].kill()
    cast.start("orchestrator")
    count = decided(stage)
    procs.wait_until(lambda: decided(stage) > count, 30, "it goes on")

    assert len([b for b in rows(stage, "control") if b["action"] == "resume"]) == 1
    assert cast.leave("orchestrator", "r0", "recorder") == {
        "orchestrator": 0,
        "r0": 0,
        "recorder": 0,
    }


def test_services_follow_the_session_that_takes_the_place_of_one_that_failed(
    stage: Stage, cast: Cast
) -> None:
    """A recorder that stays up serves the folder that was moved away; it leaves to be restarted."""
    stage.write({"train.py": "raise SystemExit(1)\n"})
    stage.bind()
    cast.open("--max", "1")
    cast.start("recorder", "orchestrator", "r0")
    assert cast.ends("orchestrator", 60) == 0  # the run is over, badly
    assert [b["outcome"] for b in rows(stage, "session_closed")] == ["baseline_failed"]
    stage.toy(0.1)

    opened = cast.open("--max", "1")

    assert "failed-1" in opened.output, str(opened)
    assert cast.ends("recorder", 15) == 3
    assert cast.ends("r0", 15) == 3
    cast.start("recorder", "orchestrator", "r0")
    assert cast.ends("orchestrator", 60) == 0
    assert decided(stage) == 2
    cast.leave("recorder", "r0")


def test_a_run_and_services_refuse_each_other(stage: Stage, cast: Cast) -> None:
    stage.toy(0.2)
    run = stage.start("run", str(stage.repo), "--max", "1000", "--json")  # it outlasts the test
    procs.wait_until(lambda: decided(stage) >= 1, 60, "one is decided")
    refused = cast.open()
    assert (refused.code, "overnight stop" in refused.errors) == (3, True), str(refused)
    cast.start("orchestrator")
    assert cast.ends("orchestrator", 20) == 3
    run.process.send_signal(signal.SIGINT)
    assert run.wait(30).code == 0
    assert cast.open().code == 0
    cast.start("recorder")
    procs.wait_until(lambda: cast.ready("recorder"), 20, "it is ready")

    beside = stage.ask("run", str(stage.repo), "--max", "20")

    assert beside.code == 3
    assert "served by a recorder" in beside.errors
    assert beside.errors.count("\n") == 1
    cast.leave("recorder")


def test_a_wrong_password_is_told_where_health_is_asked_for(
    stage: Stage, guarded: GuardedRedis, cast: Cast, tmp_path: Path
) -> None:
    stage.toy(0.1)
    assert cast.open("--max", "1").code == 0
    file = guarded.password_file("recorder")
    right = file.read_text()
    file.write_text("guessed-guessed-guessed\n")
    try:
        cast.start("recorder")
        procs.wait_until(lambda: "waiting" in cast.ready("recorder"), 20, "it says so")
        logged = (
            cast.plays["recorder"].errors.read_text() + cast.plays["recorder"].output.read_text()
        )

        last = cast.ready("recorder").splitlines()[-1]
        assert "OVERNIGHT_REDIS_PASSWORD_FILE" in last
        assert "guessed" not in last + logged
        assert len([line for line in logged.splitlines() if "service_waits" in line]) == 1
    finally:
        file.write_text(right)
    procs.wait_until(lambda: '{"waiting": null}' in cast.ready("recorder"), 20, "it works")
    assert cast.leave("recorder") == {"recorder": 0}
