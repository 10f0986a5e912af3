"""A real session, scraped by a real Prometheus: every panel tells what `status` tells.

One night for all tests of this module: a few experiments end, then one runs and one waits in the
queue for as long as we look, so that nothing changes between two answers. The recorder was killed.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "e2e"))

from boards import NAMES, Query, annotations, queries, session_variable
from cli_driver import Cli, finish, make_repo, wait_for_none

from prometheus_server import PrometheusServer

PAGE = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text("utf-8")
LOOKED_SECONDS = 3.0  #: services look at Redis every 2 s; a scrape comes each second
HOSTILE = 'evil"} 1\n# HELP overnight_evil x\novernight_evil{a="'
TRAIN = """\
import os, time
LR = 0.1
time.sleep(0.1)
while os.path.exists("HOLD/hold"):
    time.sleep(0.05)
print("---")
print(f"val_bpb: {abs(LR - 0.5) + 1:.6f}")
"""
LOOP = """\
metric: val_bpb
run_cmd: python train.py
editable_files: train.py
budget: 60
min_free_gb: 0.001
reads: [HOLD]
pools: {default: {runners: 1}}
"""


@dataclass(frozen=True)
class Night:
    """What the tests look at."""

    prometheus: PrometheusServer
    sid: str
    status: dict[str, Any]  #: while nothing changed
    began: float  #: monotonic

    @property
    def seconds(self) -> int:
        """Since Prometheus is there."""
        return math.ceil(time.monotonic() - self.began)

    def answer(self, query: Query) -> list[tuple[dict[str, str], list[float]]]:
        """As Grafana would get it."""
        text = query.with_(self.sid, self.seconds)
        if query.instant:
            return [(labels, [value]) for labels, value in self.prometheus.now(text)]
        return self.prometheus.over(text, self.seconds)


def _wait(seconds: float, what: str, condition: Any) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"after {seconds} s still not: {what}"
        time.sleep(0.1)
    return found


def _start_again(service: str, session: Path, status: Any) -> None:
    """Kill it: it comes back at another port, and its series stand there twice in a range."""
    pid = json.loads((session / "stack.json").read_text())["children"][service]
    old = status()["endpoints"][service]
    os.kill(pid, signal.SIGKILL)
    _wait(20, "it serves again", lambda: status()["endpoints"][service] != old)


def _recorders(prometheus: PrometheusServer) -> list[str]:
    return [labels["instance"] for labels, _ in prometheus.now("overnight_ledger_rows")]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    base = tmp_path_factory.mktemp("night")
    held, targets = base / "held", base / "targets"
    for folder in (held, targets):
        folder.mkdir()
    (held / "hold").touch()
    train, loop = (text.replace("HOLD", str(held)) for text in (TRAIN, LOOP))
    repo = make_repo(base / "repo", train=train, loop=loop)
    cli = Cli(base)
    cli.env["OVERNIGHT_SUPERVISOR_TARGETS_DIR"] = str(targets)

    def status() -> dict[str, Any]:
        told: dict[str, Any] = cli.inside("status", "--dir", repo, "--json").json
        return told

    began = time.monotonic()
    with PrometheusServer(base / "prometheus", targets) as prometheus:
        run = cli.start("run", repo, "--json", "--desc", HOSTILE)
        try:
            _wait(30, "all services are scraped", lambda: prometheus.value("sum(up)") == 3)
            _wait(20, "no keep yet", lambda: prometheus.value("overnight_keeps_total") == 0)
            (held / "hold").unlink()
            _wait(40, "a few verdicts", lambda: sum(status()["counts"].values()) >= 4)
            (held / "hold").touch()
            _wait(20, "one waits", lambda: (status()["in_flight"], status()["queued"]) == (2, 1))
            _start_again("recorder", repo / "sandbox", status)
            here = [urlsplit(status()["endpoints"]["recorder"]).netloc]
            _wait(20, "it is scraped at its new place", lambda: _recorders(prometheus) == here)
            rows = status()["rows"]
            time.sleep(LOOKED_SECONDS)
            told = status()
            assert told["rows"] == rows
            sid = json.loads((repo / "sandbox" / "session.json").read_text())["sid"]
            yield Night(prometheus, sid, told, began)
            assert status()["rows"] == rows
            assert [path.name for path in targets.iterdir()] == [f"{sid}.json"]
        finally:
            (held / "hold").unlink(missing_ok=True)
            run.terminate()
            done = finish(run)
        assert done.code == 0, done.err
        assert list(targets.iterdir()) == []
        _wait(10, "Prometheus forgets them", lambda: prometheus.now("up") == [])
    assert wait_for_none(str(base), 5.0) == []


@pytest.mark.parametrize("query", list(queries()), ids=lambda q: f"{q.board}-{q.panel}")
def test_every_panel_has_data_without_an_error(night: Night, query: Query) -> None:
    found = night.answer(query)

    assert found, "no series"
    for labels, values in found:
        assert any(math.isfinite(value) for value in values), labels


@pytest.mark.parametrize("query", list(annotations()), ids=lambda q: f"{q.board}-{q.panel}")
def test_annotations_mark_each_keep_once(night: Night, query: Query) -> None:
    """Grafana shows the points that are 1. Two keeps within a second are one."""
    (found,) = night.answer(query)
    _, values = found
    kept = night.status["counts"]["keep"]

    assert set(values) <= {0.0, 1.0}
    assert 1 <= sum(values) <= kept


def test_the_panels_tell_what_status_tells(night: Night) -> None:
    told, ask = night.status, night.prometheus.value
    panels = {
        (query.board, query.panel, number): [values[-1] for _, values in night.answer(query)]
        for number, query in enumerate(queries())
    }

    def shown(board: str, panel: str) -> list[float]:
        return [v for (b, p, _), vs in panels.items() if (b, p) == (board, panel) for v in vs]

    assert shown("tonight", "Best so far") == [told["best"]["metric"]]
    assert shown("tonight", "Best and baseline") == [told["best"]["metric"], told["baseline"]]
    assert shown("tonight", "Experiments") == [sum(told["counts"].values())]
    assert told["state"] == "running"
    assert shown("tonight", "State") == [1]
    assert shown("tonight", "In flight and queued") == [told["in_flight"], told["queued"], 1]
    assert shown("tonight", "Device time") == pytest.approx([told["device_hours"] * 3600], abs=0.01)
    assert sorted(shown("tonight", "Verdicts")) == sorted(n for n in told["counts"].values() if n)
    assert shown("fleet", "Runners alive") == [1, 1]
    (busy,) = shown("fleet", "Busy")
    assert 0.5 < busy <= 1
    for panel in ("Survivors", "Quarantined", "Services down"):
        assert shown("fleet", panel) == [0], panel

    for verdict, number in told["counts"].items():
        assert ask(f'overnight_experiments{{status="{verdict}"}}') == number, verdict
    assert ask("overnight_incumbent_experiment") == told["best"]["id"]
    assert ask("overnight_approvals_waiting") == len(told["approvals"])
    assert ask("overnight_ledger_rows") == told["rows"]
    ((info, _),) = night.prometheus.now("overnight_session_info")
    for label in ("tag", "metric", "direction"):
        assert info[label] == told[label]


@pytest.mark.parametrize("board", NAMES)
def test_the_session_variable_finds_the_session_by_its_tag(night: Night, board: str) -> None:
    query, regex = session_variable(board)
    inner = re.fullmatch(r"query_result\((.*)\)", query)
    assert inner is not None
    ((labels, _),) = night.prometheus.now(inner[1].replace("$__range", f"{night.seconds}s"))
    # Grafana shows a result in this form to the pattern.
    line = "{" + ",".join(f'{k}="{v}"' for k, v in sorted(labels.items())) + "} 1 0"
    found = re.search(regex.strip("/").replace("(?<", "(?P<"), line)

    assert found is not None
    assert found["value"] == night.sid
    assert found["text"] == night.status["tag"]


def test_what_is_scraped_is_what_is_documented(night: Night) -> None:
    names = night.prometheus.get("label/__name__/values")["data"]
    scraped = {re.sub(r"_(bucket|sum|count)$", "", n) for n in names if n.startswith("overnight_")}
    told = dict(re.findall(r"^\| `(overnight_\w+)` \| .*? \| .*?\| (.*?) \|", PAGE, re.M))
    elsewhere = {name for name, served_by in told.items() if served_by == "spawner"}
    elsewhere |= {name for name in told if "GPU" in _meaning(name)}

    assert scraped <= set(told)
    assert set(told) - scraped == elsewhere


def _meaning(name: str) -> str:
    found = re.search(rf"^\| `{name}` .*\| (.*) \|$", PAGE, re.M)
    assert found is not None
    return found[1]


def test_text_of_a_person_makes_no_series(night: Night) -> None:
    assert night.status["description"].startswith("evil")
    assert night.prometheus.now('{__name__=~".*evil.*"}') == []


def test_a_healthy_night_raises_no_alert(night: Night) -> None:
    assert night.prometheus.get("alerts")["data"]["alerts"] == []
    rules = night.prometheus.get("rules")["data"]["groups"]
    assert {rule["health"] for group in rules for rule in group["rules"]} == {"ok"}
