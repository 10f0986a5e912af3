"""A Docker engine of a test's own, which may be hurt: the one that tests share stays as it is."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import docker
import docker_engine
from tests.e2e import procs
from tests.faults.disks import SmallDisk, small_disk

CLIENT_SECONDS = 30.0


@dataclass
class OwnEngine:
    """One in *folder*, in a network namespace of its own."""

    folder: Path

    @property
    def host(self) -> str:
        """The value of DOCKER_HOST."""
        return f"unix://{self.folder}/docker.sock"

    def start(self) -> None:
        """Start it; it answers then. Again, after it was killed."""
        docker_engine.script("start", str(self.folder), "--alone", DOCKER_HOST="")

    def kill(self) -> None:
        """SIGKILL of the engine and its helper: what runs in containers goes on without them."""
        for place in ("dockerd.pid", "exec/containerd/containerd.pid"):
            found = procs.look(int((self.folder / place).read_text()))
            if found is not None and found.kill():  # the second one dies with the first
                procs.wait_until(lambda process=found: not process.alive, 5, f"{place}: dead")
            (self.folder / place).unlink()  # where nobody reaps them, they look alive

    def stop(self) -> None:
        """End it and all that it started: nobody needs what is in it any more."""
        for process in procs.marked(str(self.folder)):
            process.kill(signal.SIGKILL)
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            place = line.split()[4]
            if place.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)

    def on_a_small_disk(self) -> contextlib.AbstractContextManager[SmallDisk]:
        """What it writes for each container, from now on. It has none now."""
        return small_disk(self.folder / "data" / "containers", "size=24m,mode=710")

    def load(self, image: str, host: str) -> None:
        """Bring *image* over from the engine at *host*."""
        kept = self.folder / "image.tar"
        if not kept.exists():
            subprocess.run(["docker", "-H", host, "save", "-o", kept, image], check=True)
        subprocess.run(
            ["docker", "-H", self.host, "load", "-q", "-i", kept], check=True, capture_output=True
        )

    def client(self) -> contextlib.closing[docker.DockerClient]:
        """A client of it; use as a context manager."""
        return closing(docker.DockerClient(base_url=self.host, timeout=int(CLIENT_SECONDS)))
