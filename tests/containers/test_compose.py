"""The unchanged compose.yaml, up on a real engine: a whole session, left, taken up, looked at."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "integration" / "observability"))

import pytest
from boards import queries
from compose_stack import Stack, a_stack
from docker_engine import Engine

pytestmark = [pytest.mark.usefixtures("images"), pytest.mark.timeout(600)]
IDEAS = 8
SERVICES = {"redis", "recorder", "orchestrator", "spawner", "runner", "prometheus"}
USERS = ("orchestrator", "recorder", "runner", "cli")


@pytest.fixture(scope="module")
def stack(engine: Engine) -> Iterator[Stack]:
    """Up, with three experiments decided and a live candidate; `night` plays it to its end."""
    with a_stack(engine) as made:
        made.init()
        chosen = {k: v for k, v in os.environ.items() if k == "OVERNIGHT_SERVICES_IMAGE"}
        made.settings(
            OVERNIGHT_RUNNERS="2", OVERNIGHT_MAX=str(IDEAS), OVERNIGHT_PROMETHEUS_PORT="0", **chosen
        )
        made.listen()
        made.compose("up", "-d")
        yield made


@pytest.fixture(scope="module")
def seen(stack: Stack) -> dict[str, Any]:
    """What was seen while it ran: services, a candidate, a scrape. Then down, up, to the end."""
    found: dict[str, Any] = {"services": stack.services()}
    stack.until(lambda: _running(stack), "a candidate runs")
    found["candidate"] = _running(stack)[0].attrs
    found["status"] = json.loads(stack.verb("status", "--json").stdout)
    stack.verb("pause")  # to look takes as long as the night: a scrape comes every 15 s
    found["socket"] = {
        name: stack.compose("exec", "-T", name, "test", "!", "-S", "/var/run/docker.sock",
                            check=False).returncode
        for name in sorted(SERVICES - {"orchestrator", "spawner"})
    }  # fmt: skip
    found["environ"] = {
        name: stack.compose("exec", "-T", name, "cat", "/proc/1/environ", "/proc/1/cmdline").stdout
        for name in ("redis", "recorder", "runner")
    }
    found["targets"] = _targets(stack)
    stack.verb("resume")
    stack.until(lambda: len(stack.bodies("decision")) >= 3, "three are decided")
    stack.compose("down")
    found["left"] = [c.name for c in stack.candidates()]
    found["before"] = stack.rows()
    stack.compose("up", "-d")
    stack.until(lambda: "orchestrator" not in stack.services(), "the run is over")
    found["states"] = {
        name: attrs["State"] for name, attrs in stack.services(everything=True).items()
    }
    return found


def _running(stack: Stack) -> list[Any]:
    return [c for c in stack.candidates() if c.status == "running"]


def _targets(stack: Stack) -> dict[str, str]:
    address = stack.compose("port", "prometheus", "9090").stdout.strip()
    host = address.partition(":")[0]
    found: dict[str, str] = {"published at": host}
    give_up = time.monotonic() + 40
    while time.monotonic() < give_up and len(found) < 5:
        with urllib.request.urlopen(f"http://{address}/api/v1/targets", timeout=5) as answer:
            targets = json.load(answer)["data"]["activeTargets"]
        found |= {t["labels"]["job"]: t["health"] for t in targets if t["health"] == "up"}
        time.sleep(0.5)
    return found


def _empty_panels(stack: Stack) -> list[str]:
    """Panels of the dashboards whose query found nothing in all of the night."""
    address = stack.compose("port", "prometheus", "9090").stdout.strip()
    sid, end = stack.rows()[0]["session"], time.time()
    empty = []
    for query in queries():
        text = query.with_(sid, 600, scrape_seconds=15)
        words = urllib.parse.urlencode(
            {"query": text, "start": end - 600, "end": end, "step": 5},
        )
        with urllib.request.urlopen(f"http://{address}/api/v1/query_range?{words}") as answer:
            if not json.load(answer)["data"]["result"]:
                empty.append(f"{query.board}: {query.panel}")
    return empty


def test_two_runners_share_the_night_and_each_attempt_has_a_container_of_its_own(
    stack: Stack, seen: dict[str, Any]
) -> None:
    results = [b for b in stack.bodies("result") if b["runner"]]
    scored = [b for b in results if b["status"] == "scored"]
    spans = [_span(stack, body) for body in scored]

    assert len(stack.bodies("decision")) == IDEAS + 1
    assert {body["runner"] for body in scored} == {"r0", "r1"}
    assert {body["isolation"] for body in scored} == {"container"}
    assert any(a[0] < b[1] and b[0] < a[1] for a in spans for b in spans if a is not b), spans
    # One pair of events an attempt that began, and a container for each.
    assert Counter(stack.created) == Counter(stack.destroyed)
    assert set(Counter(stack.created).values()) == {1}
    ran = {f"{body['id']}-{body['attempt']}" for body in scored}
    told = Counter(name.partition("-")[2] for name in stack.attempts.values())
    assert ran <= set(told)
    assert set(told.values()) == {1}


def _span(stack: Stack, body: dict[str, Any]) -> tuple[float, float]:
    """From issue to result, on one clock: the recorder's."""
    times = [
        datetime.fromisoformat(row["ts"]).timestamp()
        for row in stack.rows()
        if row["kind"] in ("attempt_issued", "result")
        and (row["body"]["id"], row["body"]["attempt"]) == (body["id"], body["attempt"])
    ]
    return times[-1] - body["runtime_s"], times[-1]


def test_it_goes_on_after_down_and_up(stack: Stack, seen: dict[str, Any]) -> None:
    assert seen["left"] == [], "a container of an experiment is left after down"
    assert stack.rows()[: len(seen["before"])] == seen["before"]
    assert [b["outcome"] for b in stack.bodies("session_closed")] == ["done"]
    assert [body["action"] for body in stack.bodies("control")] == ["pause", "resume"]
    assert (stack.home / "redis" / "appendonlydir").is_dir()
    assert stack.verb("verify", "--json").returncode == 0
    assert stack.candidates() == []


def test_a_run_that_is_over_ends_its_orchestrator_alone(seen: dict[str, Any]) -> None:
    states = {name: (s["Status"], s["ExitCode"]) for name, s in seen["states"].items()}

    assert states.pop("orchestrator") == ("exited", 0)
    assert states.pop("session") == states.pop("data") == states.pop("sandbox") == ("exited", 0)
    assert {state for state, _ in states.values()} == {"running"}


def test_a_candidate_is_locked_in(seen: dict[str, Any]) -> None:
    host = seen["candidate"]["HostConfig"]
    user = int(seen["candidate"]["Config"]["User"].partition(":")[0])

    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert user > 0
    assert host["Memory"] > 0 < host["PidsLimit"]


def test_services_have_no_more_rights_than_they_need(seen: dict[str, Any]) -> None:
    services = seen["services"]
    assert set(services) == SERVICES

    for name, attrs in services.items():
        host = attrs["HostConfig"]
        assert host["ReadonlyRootfs"] is True, name
        assert host["CapDrop"] == ["ALL"], name
        assert host["Privileged"] is False, name
        # The engine takes labels off whoever sees the host's processes.
        options = set(host["SecurityOpt"]) - ({"label=disable"} if name == "spawner" else set())
        assert options == {"no-new-privileges:true"}, name
        assert host["Memory"] > 0 < host["PidsLimit"], name
        assert (attrs["Config"]["User"].partition(":")[0] == "0") == (name == "spawner"), name
        assert bool(host["CapAdd"]) == (name == "spawner"), name
        sockets = [m for m in attrs["Mounts"] if m["Destination"].endswith("docker.sock")]
        assert bool(sockets) == (name == "spawner"), name
        writable = {m["Destination"] for m in attrs["Mounts"] if m["RW"]}
        assert not any(place in ("/", "/etc", "/var", "/home") for place in writable), name


def test_only_prometheus_has_a_port_and_only_for_this_machine(seen: dict[str, Any]) -> None:
    ports = {
        name: [b["HostIp"] for bound in (a["HostConfig"]["PortBindings"] or {}).values()
               for b in bound]
        for name, a in seen["services"].items()
    }  # fmt: skip

    assert {name: hosts for name, hosts in ports.items() if hosts} == {"prometheus": ["127.0.0.1"]}
    assert seen["targets"] == {
        "published at": "127.0.0.1",
        **dict.fromkeys(("orchestrator", "recorder", "runner", "spawner"), "up"),
    }


def test_nobody_but_the_spawner_sees_the_engine(seen: dict[str, Any]) -> None:
    assert set(seen["socket"].values()) == {0}


def test_no_password_stands_in_an_environment_or_a_command(
    stack: Stack, seen: dict[str, Any]
) -> None:
    passwords = [(stack.home / "secrets" / f"redis_{user}").read_text() for user in USERS]
    told = json.dumps(seen["services"]) + json.dumps(seen["environ"])
    logs = stack.compose("logs").stdout

    assert all(len(password) >= 32 for password in passwords)
    assert not [p for p in passwords if p in told or p in logs]


def test_a_persons_verbs_reach_it(seen: dict[str, Any]) -> None:
    assert seen["status"]["state"] == "running"
    assert seen["status"]["in_flight"] >= 1


def test_the_queue_gives_a_service_its_own_rights_alone(stack: Stack, seen: dict[str, Any]) -> None:
    try_it = (
        "from overnight.jobqueue.connection import connect; import redis\n"
        "c = connect('redis://redis:6379/0')\n"
        "for words in ('FLUSHALL', 'KEYS *', 'CONFIG GET *', 'EVAL return(1) 0', 'GET foreign'):\n"
        "    try: c.execute_command(*words.split()); print('allowed', words)\n"
        "    except redis.exceptions.NoPermissionError: print('refused')\n"
    )
    for name in ("recorder", "runner"):
        said = stack.compose("exec", "-T", name, "python", "-c", try_it).stdout

        assert said.split() == ["refused"] * 5, name


def test_every_service_may_be_killed_and_the_night_goes_on(
    stack: Stack, seen: dict[str, Any]
) -> None:
    """The processes themselves, from outside: what `docker kill` ends, Docker starts no more."""
    more = IDEAS + 4
    stack.settings(OVERNIGHT_MAX=str(more))
    stack.compose("up", "-d")
    for name in ("recorder", "runner", "redis", "orchestrator", "spawner"):
        stack.until(lambda: _running(stack), "a candidate runs")
        pid = stack.services()[name]["State"]["Pid"]
        os.kill(pid, signal.SIGKILL)
        stack.until(lambda n=name, p=pid: _is_back(stack, n, p), f"{name} is back", 30)
    stack.until(lambda: "orchestrator" not in stack.services(), "the run is over")

    decided = [body["id"] for body in stack.bodies("decision")]
    assert sorted(decided) == list(range(1, more + 2))
    assert {body["verdict"] for body in stack.bodies("decision")} <= {"keep", "discard"}
    assert [b["outcome"] for b in stack.bodies("session_closed")] == ["done", "done"]
    assert stack.verb("verify", "--json").returncode == 0
    stack.until(lambda: stack.candidates() == [], "no container of an experiment is left", 20)


def _is_back(stack: Stack, name: str, old: int) -> bool:
    attrs = stack.services().get(name)
    return attrs is not None and attrs["State"]["Pid"] not in (0, old)


def test_every_panel_of_the_dashboards_has_data(stack: Stack, seen: dict[str, Any]) -> None:
    """By compose.yaml's names and addresses; what they show: tests/integration/observability.

    At the end of the night: rates need two scrapes, and one comes each 15 seconds.
    """
    stack.until(lambda: not _empty_panels(stack), f"all have data, not: {_empty_panels(stack)}", 40)


def test_a_wrong_password_is_one_clear_line(stack: Stack, seen: dict[str, Any]) -> None:
    file = stack.home / "secrets" / "redis_recorder"
    right = file.read_text()
    stack.compose("stop", "recorder")
    stack.compose("up", "-d", "--no-deps", "redis")
    file.chmod(0o600)
    file.write_text("guessed-guessed-guessed")
    try:
        stack.compose("up", "-d", "--no-deps", "--force-recreate", "recorder")
        stack.until(lambda: _waits(stack), "it says so", 30)
        time.sleep(2)

        [line] = _waits(stack)
        assert "OVERNIGHT_REDIS_PASSWORD_FILE" in line
        assert "guessed" not in stack.compose("logs", "recorder").stdout
        ready = stack.compose("exec", "-T", "recorder", "tail", "-n", "1", "/run/overnight/ready")
        assert "waiting" in ready.stdout
    finally:
        file.write_text(right)


def _waits(stack: Stack) -> list[str]:
    logs = stack.compose("logs", "--no-log-prefix", "recorder").stdout
    return [line for line in logs.splitlines() if "service_waits" in line]


def test_without_the_first_command_up_names_it(engine: Engine) -> None:
    with a_stack(engine) as fresh:
        done = fresh.compose("up", "-d", check=False)

    assert done.returncode != 0
    assert "sh docker/init.sh REPO" in done.stderr.splitlines()[-1]


def test_the_first_command_replaces_nothing_and_refuses_what_can_not_work(engine: Engine) -> None:
    with a_stack(engine) as fresh:
        first = fresh.init()
        secrets = {p.name: p.read_text() for p in (fresh.home / "secrets").iterdir()}
        fresh.settings(OVERNIGHT_RUNNERS="7")
        again = fresh.init()

        assert "docker compose up -d" in first.splitlines()[-1]
        assert "nothing: all was there" in again
        assert {p.name: p.read_text() for p in (fresh.home / "secrets").iterdir()} == secrets
        assert "OVERNIGHT_RUNNERS=7" in (fresh.folder / ".env").read_text()
        assert {p.stat().st_mode & 0o77 for p in (fresh.home / "secrets").iterdir()} == {0}
