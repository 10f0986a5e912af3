"""The container engine: the few requests that the spawner makes of it, and its errors in a line."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, NotFound

from overnight.contracts.errors import SandboxAwayError, SandboxUnavailableError

NAME = "docker"  #: of the executor, in errors
ANSWER_SECONDS = 60.0
#: A part of the engine's words -> what to do about it.
FIXES = {
    "could not select device driver": "install the NVIDIA container toolkit",
    "no space left on device": "the engine's disk is full: make room, or `docker system prune`",
    "bind source path does not exist": "correct `reads`, that folder is not there",
    "pids limit": "the kernel has no pids controller",
}
REFUSED = "its socket is not yours: join the group docker and log in anew"


class EngineDownError(SandboxAwayError):
    """Nobody answers at its socket."""


@dataclass(frozen=True)
class Image:
    """One that is there."""

    id: str
    env: Mapping[str, str]


@dataclass(frozen=True)
class Stopped:
    """How a container ended."""

    exit_code: int
    oom: bool


class Engine:
    """One client, for one thread. Every failure is a SandboxUnavailableError with its fix."""

    def __init__(self, address: str, version: str = "auto") -> None:
        self._address = address
        with self._said("it does not answer"):
            self._api = docker.APIClient(
                base_url=address, version=version, timeout=int(ANSWER_SECONDS)
            )
        self.version: str = self._api.api_version

    def close(self) -> None:
        """Let its connections go."""
        self._api.close()

    def describe(self) -> str:
        """Name and version."""
        with self._said("it does not answer"):
            answer = self._api.version()
        return f"{answer.get('Platform', {}).get('Name') or 'Docker'} {answer.get('Version')}"

    def image(self, name: str) -> Image:
        """The local image of that name or id."""
        try:
            with self._said(f"image {name}"):
                found = self._api.inspect_image(name)  # type: ignore[no-untyped-call]
        except SandboxUnavailableError as error:
            if isinstance(error.__cause__, NotFound):
                reason = (
                    f"image {name} is not there: build it with `make containers`, or set `image:`"
                )
                raise SandboxAwayError(NAME, reason) from error.__cause__
            raise
        words = (item.partition("=") for item in found["Config"].get("Env") or ())
        return Image(found["Id"], {name: value for name, _, value in words})

    def create(self, body: dict[str, Any]) -> str:
        """A container's id; it does not run yet."""
        with self._said("no container could be made"):
            created: dict[str, Any] = self._api.create_container_from_config(  # type: ignore[no-untyped-call]
                body
            )
        return str(created["Id"])

    def start(self, container: str) -> int:
        """Run it; the host's number of its first process."""
        with self._said("the container did not start"):
            self._api.start(container)
            state = self._api.inspect_container(container)["State"]
        if not state["Pid"]:
            reason = f"the container ended at once: {state.get('Error') or state.get('ExitCode')}"
            raise SandboxUnavailableError(NAME, reason)
        return int(state["Pid"])

    def stopped(self, container: str, pid: int) -> Stopped:
        """How it ended, whose first process was *pid*; waits until the engine has noticed that."""
        with self._said("the container was lost"):
            state = self._api.inspect_container(container)["State"]
            if state["Pid"] not in (0, pid):
                raise SandboxUnavailableError(NAME, "the container was started again from outside")
            self._api.wait(container, timeout=int(ANSWER_SECONDS))
            state = self._api.inspect_container(container)["State"]
        return Stopped(int(state["ExitCode"]), bool(state.get("OOMKilled")))

    def kill(self, container: str) -> None:
        """SIGKILL, where its first process can't be reached by number. Idempotent."""
        with contextlib.suppress(SandboxUnavailableError), self._said("kill"):
            self._api.kill(container)

    def free(self, container: str) -> bool:
        """Kill one that was paused from outside: no signal of ours reaches it. Was it?"""
        with contextlib.suppress(SandboxUnavailableError), self._said("pause"):
            if self._api.inspect_container(container)["State"].get("Paused"):
                self._api.kill(container)
                return True
        return False

    def remove(self, container: str) -> None:
        """Kill and remove it. Idempotent."""
        try:
            with self._said("the container could not be removed"):
                self._api.remove_container(container, force=True, v=True)
        except SandboxUnavailableError as error:
            if not isinstance(error.__cause__, NotFound) and not _is_going(error.__cause__):
                raise

    def labelled(self, labels: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """Containers, running or not, that carry all of *labels* -> all their labels."""
        wanted = [f"{name}={value}" for name, value in labels.items()]
        with self._said("containers could not be listed"):
            found = self._api.containers(all=True, filters={"label": wanted})
        return {item["Id"]: dict(item.get("Labels") or {}) for item in found}

    @contextmanager
    def _said(self, what: str) -> Iterator[None]:
        try:
            yield
        except (APIError, DockerException, requests.RequestException, OSError) as error:
            kind = SandboxUnavailableError if isinstance(error, APIError) else EngineDownError
            raise kind(NAME, self._why(what, error)) from error

    def _why(self, what: str, error: Exception) -> str:
        if not isinstance(error, APIError):
            cause = _cause(error)
            do = REFUSED if cause == os.strerror(errno.EACCES) else "start it"
            return f"the Docker engine at {self._address} does not answer ({cause}): {do}"
        words = _line(error.explanation or error)
        fix = next((fix for part, fix in FIXES.items() if part in words.lower()), None)
        return f"{what}: {words}" + (f": {fix}" if fix else "")


def _cause(error: BaseException) -> str:
    """The system's own words, which libraries wrap in many of theirs."""
    queue: list[object] = [error]
    for found in queue:
        if isinstance(found, OSError) and found.strerror:
            return found.strerror
        if isinstance(found, BaseException) and len(queue) < 20:
            queue += [*found.args, found.__cause__, found.__context__]
        elif isinstance(found, tuple):
            queue += found
    return _line(error)


def _is_going(error: BaseException | None) -> bool:
    return isinstance(error, APIError) and "already in progress" in str(error)


def _line(error: object) -> str:
    return " ".join(str(error).split())[:500]
