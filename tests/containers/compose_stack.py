"""compose.yaml as a user starts it: a folder with its files, docker/init.sh, up, down, a toy."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import docker
from docker_engine import ROOT, Engine

USER = 1000  #: whose the repository is where root plays the tests
UP_SECONDS = 180.0
#: Grafana has no image without a registry; ports and names are this stack's own.
OVERRIDE = """\
services:
  grafana: {profiles: !override [never]}
"""
TRAIN = """\
import time

LR = 0.1
WARMUP = 0.3
DECAY = 0.02

time.sleep(4)
print(f"val_bpb: {1 + abs(LR - 0.05) + abs(WARMUP - 0.2) + abs(DECAY - 0.01):.6f}")
"""
BINDINGS = """\
metric: {name: val_bpb, direction: minimize, source: stdout_line}
run_cmd: [python, train.py]
editable_files: [train.py]
budget: 5
deadline_seconds: 60
proposer: {name: random}
gpus: 0
"""


@dataclass
class Stack:
    """One clone of the compose files with one repository."""

    engine: Engine
    folder: Path
    created: list[str] = field(default_factory=list)  #: experiments' containers, as the engine told
    destroyed: list[str] = field(default_factory=list)
    attempts: dict[str, str] = field(default_factory=dict)  #: container -> attempt

    def __post_init__(self) -> None:
        self.name = self.folder.name
        for name in ("compose.yaml", ".env.example"):
            shutil.copy(ROOT / name, self.folder)
        for name in ("config", "docker"):
            shutil.copytree(ROOT / name, self.folder / name)
        (self.folder / "ci.yaml").write_text(OVERRIDE)
        self.repo.mkdir()
        (self.repo / "train.py").write_text(TRAIN)
        (self.repo / "loop.run.yaml").write_text(BINDINGS)
        if os.geteuid() == 0:
            for path in (self.repo, *self.repo.iterdir()):
                os.chown(path, USER, USER)

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    @property
    def root(self) -> Path:
        """The session's folder."""
        return self.repo / "sandbox"

    @property
    def home(self) -> Path:
        return self.folder / ".overnight"

    def init(self) -> str:
        """The one command before `up`."""
        done = subprocess.run(
            ["sh", str(self.folder / "docker" / "init.sh"), str(self.repo)],
            capture_output=True, text=True, check=True,
            env={"PATH": os.environ["PATH"], "DOCKER_HOST": self.engine.host},
        )  # fmt: skip
        return done.stdout

    def settings(self, **changed: str) -> None:
        """Edit .env."""
        path = self.folder / ".env"
        lines = [
            line for line in path.read_text().splitlines() if line.split("=")[0] not in changed
        ]
        lines += [f"{name}={value}" for name, value in changed.items()]
        path.write_text("\n".join(lines) + "\n")

    def compose(
        self, *words: str, check: bool = True, seconds: float = UP_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """`docker compose WORDS`. AssertionError when it fails."""
        done = subprocess.run(
            ["docker", "compose", "-p", self.name, "-f", "compose.yaml", "-f", "ci.yaml", *words],
            cwd=self.folder, capture_output=True, text=True, check=False, timeout=seconds,
            env={k: v for k, v in os.environ.items() if not k.startswith("OVERNIGHT_")}
            | {"DOCKER_HOST": self.engine.host},
        )  # fmt: skip
        if check and done.returncode != 0:
            said = subprocess.run(
                ["docker", "compose", "-p", self.name, "logs", "--tail", "20"],
                cwd=self.folder, capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip
            raise AssertionError(
                f"compose {' '.join(words)}:\n{done.stderr}\n{said.stdout[-6000:]}"
            )
        return done

    def verb(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """A verb of `overnight`, as a person gives it."""
        return self.compose("run", "--rm", "--no-deps", "-T", "cli", *words, check=check)

    def services(self, everything: bool = False) -> dict[str, dict[str, Any]]:
        """What the engine says of each service's container."""
        label = f"com.docker.compose.project={self.name}"
        found = self.engine.client.containers.list(all=everything, filters={"label": label})
        return {c.labels["com.docker.compose.service"]: c.attrs for c in found}

    def rows(self) -> list[dict[str, Any]]:
        """The ledger by now."""
        path = self.root / "ledger.jsonl"
        text = path.read_bytes() if path.exists() else b""
        return [json.loads(line) for line in text.split(b"\n")[:-1]]

    def bodies(self, kind: str) -> list[dict[str, Any]]:
        return [row["body"] for row in self.rows() if row["kind"] == kind]

    def candidates(self) -> list[Any]:
        """Containers of experiments that are there now."""
        sid = json.loads((self.root / "session.json").read_text())["sid"]
        found = self.engine.client.containers.list(
            all=True, filters={"label": f"overnight.sid={sid}"}, ignore_removed=True
        )
        return list(found)

    def until(self, condition: Callable[[], object], what: str, seconds: float = 90.0) -> None:
        give_up = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > give_up:
                said = self.compose("logs", "--tail", "15", check=False).stdout
                raise AssertionError(f"after {seconds} s still not: {what}\n{said[-6000:]}")
            time.sleep(0.1)

    def listen(self) -> None:
        """Note each container of an experiment from now on: the engine forgets soon."""
        # A client of its own: the answer never ends.
        client = docker.DockerClient(base_url=self.engine.host)
        events = client.events(
            decode=True, filters={"type": "container", "event": ["create", "destroy"]}
        )

        def note() -> None:
            for event in events:
                labels = event["Actor"]["Attributes"]
                if str(labels.get("overnight.id", "")).startswith(self._sid()):
                    self.attempts[event["id"]] = labels["overnight.id"]
                    {"create": self.created, "destroy": self.destroyed}[event["Action"]].append(
                        event["id"]
                    )

        Thread(target=note, daemon=True).start()

    def _sid(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            return str(json.loads((self.root / "session.json").read_text())["sid"])
        return "-"

    def close(self) -> None:
        """Nothing of it stays."""
        self.compose("--profile", "*", "down", "-v", "--timeout", "20", check=False)
        for container in self.engine.client.containers.list(
            all=True, filters={"label": f"com.docker.compose.project={self.name}"}
        ):
            container.remove(force=True, v=True)


@contextlib.contextmanager
def a_stack(engine: Engine) -> Iterator[Stack]:
    """A fresh one, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="ovc-")).resolve()
    folder.chmod(0o755)
    # A project's name is lower case; mkdtemp's letters are.
    stack = Stack(engine, folder)
    try:
        yield stack
    finally:
        stack.close()
        shutil.rmtree(folder, ignore_errors=True)
