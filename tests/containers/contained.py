"""A real session whose candidates run in containers, seen from outside."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import docker
from own_engine import OwnEngine
from tests.e2e import procs, truth
from tests.e2e.stage import Play, Stage, until

from overnight.sessions.torture import recount

IMAGE = "python:3.11-slim-bookworm"  #: has what a Python of the host needs
SOON_SECONDS = 60.0  #: for a moment to come
ENVIRONMENT = {
    "OVERNIGHT_ORCHESTRATOR_LOST_AFTER_SECONDS": "3",
    "OVERNIGHT_RUNNER_LEASE_SECONDS": "2",
    "OVERNIGHT_RUNNER_RENEW_SECONDS": "0.5",
    "OVERNIGHT_RUNNER_RESEND_SECONDS": "0.5",
}
Row = dict[str, Any]


@dataclass
class Contained:
    """One stage with a session on an engine of its own."""

    stage: Stage
    engine: OwnEngine
    candidates: int
    play: Play = field(init=False)
    began: float = field(default_factory=time.time)

    def begin(self, train_seconds: float, runners: int = 1) -> None:
        """Bind the toy and start its session."""
        self.stage.environment = {**ENVIRONMENT, "DOCKER_HOST": self.engine.host}
        pool = {"runners": runners, "executor": "docker"}
        self.stage.toy(train_seconds, image=IMAGE, pools={"default": pool})
        self.start()

    def start(self) -> None:
        """The same command, every time."""
        words = ("run", str(self.stage.repo), "--max", str(self.candidates), "--json")
        self.play = self.stage.start(*words)

    # -- what is there now ------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        """The ledger by now."""
        return truth.read_rows(self.stage.root)

    def results(self) -> list[Row]:
        """Bodies of all results by now."""
        return list(recount.bodies(self.rows(), "result"))

    def lost(self) -> list[Row]:
        """Results that say that it was our fault."""
        return [body for body in self.results() if body["status"] == "infra"]

    def decided(self) -> int:
        """Experiments with a decision by now."""
        return len(truth.decision_of(self.rows()))

    def containers(self, **filters: Any) -> list[Any]:
        """Of this session, running or not."""
        with self.engine.client() as client:
            found = client.containers.list(all=True, filters=filters, ignore_removed=True)
        return [each for each in found if each.labels.get("overnight.sid") == self.sid]

    @property
    def sid(self) -> str:
        """The session's id."""
        return str(json.loads((self.stage.root / "session.json").read_text())["sid"])

    # -- moments ----------------------------------------------------------------------------------

    def wait(self, condition: Any, what: str, seconds: float = SOON_SECONDS) -> float:
        """Until it holds; the run must go on meanwhile."""
        return until(condition, seconds, what, self.play)

    def wait_for(self, decided: int) -> None:
        """Until so many experiments are decided."""
        self.wait(lambda: self.decided() >= decided, f"{decided} decisions")

    def wait_training(self) -> procs.Process:
        """Until a candidate trains in a container; its process."""
        self.wait(self.stage.training, "a candidate trains")
        found = self.stage.training()
        return found[0] if found else self.wait_training()

    def wait_says(self, words: str, seconds: float = SOON_SECONDS) -> None:
        """Until a service says that it waits, and why."""

        def said() -> bool:
            waiting = (self.stage.stack() or {}).get("waiting", {})
            return any(words in why for why in waiting.values())

        self.wait(said, f"a service says {words!r}: {self.stage.stack()}", seconds)

    def service(self, name: str) -> procs.Process:
        """Wait until the service runs, and give it."""
        self.wait(lambda: self.stage.service(name), f"{name} runs")
        found = self.stage.service(name)
        return found if found is not None else self.service(name)

    # -- the end ----------------------------------------------------------------------------------

    def finish(self, seconds: float = 120.0) -> list[Row]:
        """It ends well, each experiment on its own merit, and nothing is left; bodies of infra."""
        finished = self.play.wait(seconds)
        assert finished.code == 0, f"{finished}\n{self.logs()}"
        rows = truth.check_session(self.stage.root, self.candidates)
        verdicts = Counter(d["verdict"] for d in truth.decision_of(rows).values())
        assert set(verdicts) <= {"keep", "discard"}, verdicts
        finals = truth.final_of(rows).values()
        assert {body["status"] for body in finals} == {"scored"}
        verified = self.stage.ask("verify", "--dir", str(self.stage.root))
        assert verified.code == 0, verified
        self.check_attempts(rows)
        self.check_nothing_is_left()
        return self.lost()

    def check_attempts(self, rows: list[Row]) -> None:
        """Each attempt that failed by our fault is followed by the next one."""
        issued = Counter(body["id"] for body in recount.bodies(rows, "attempt_issued"))
        lost = Counter(body["id"] for body in self.lost())
        assert issued == Counter(list(truth.decision_of(rows))) + lost

    def check_pairs(self) -> None:
        """The engine, which lived all the time, saw each container made once and removed once."""
        with self.engine.client() as client:
            events = client.api.events(
                since=int(self.began), until=int(time.time()) + 1, decode=True,
                filters={"type": "container", "event": ["create", "destroy"]},
            )  # fmt: skip
            mine = [e for e in events if e["Actor"]["Attributes"].get("overnight.sid") == self.sid]
        made = Counter(e["id"] for e in mine if e["Action"] == "create")
        removed = Counter(e["id"] for e in mine if e["Action"] == "destroy")
        # One that it failed to make is removed without ever having been made.
        assert made == Counter({name: removed[name] for name in made})
        attempts = Counter(
            e["Actor"]["Attributes"]["overnight.id"] for e in mine if e["Action"] == "create"
        )
        assert set(attempts.values()) == {1}, f"two containers for one attempt: {attempts}"
        issued = list(recount.bodies(self.rows(), "attempt_issued"))
        assert len(attempts) <= len(issued)

    def check_nothing_is_left(self) -> None:
        """No container, process, folder of a sandbox or socket folder of the session."""
        procs.wait_until(lambda: not self.stage.alive(), 3, "no process is left", 0.1)
        try:
            assert [c.attrs["State"] for c in self.containers()] == []
        except docker.errors.DockerException as error:
            raise AssertionError(f"the engine does not answer at the end: {error}") from error
        assert list((self.stage.root / "spawner" / "sandboxes").iterdir()) == []
        assert not (self.stage.folder / "state").exists(), "a socket folder is left"

    def logs(self) -> str:
        """The last lines of each service."""
        found = sorted((self.stage.root / "logs").glob("*.log"))
        return "\n".join(f"{p.name}: {p.read_text(errors='replace')[-1500:]}" for p in found)
