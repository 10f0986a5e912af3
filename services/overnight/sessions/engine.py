"""What the container engine of this host says of itself and of its images. Looks only.

The executor and the spawner have a client of their own; this one serves `doctor` and openings.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overnight.contracts.errors import InfrastructureError

if TYPE_CHECKING:
    from docker import DockerClient

DEFAULT_HOST = "unix:///var/run/docker.sock"
ASK_SECONDS = 20.0
LOOK_SECONDS = 60.0
NOBODY = "65534:65534"  #: sees of `reads` what a candidate's own user does
LABEL = "overnight.doctor"
EXTRA = "pip install 'overnight[docker]'"


class EngineUnreachableError(InfrastructureError):
    """No engine answers; says where it was looked for."""

    refused = False  #: does its socket refuse this user?


@dataclass(frozen=True, kw_only=True)
class EngineFacts:
    """Of an engine that answers."""

    version: str
    runc: str | None  #: of what starts its containers; None: not told
    nvidia: bool  #: does it know NVIDIA's runtime?
    seccomp: bool


def engine_host(environ: Mapping[str, str]) -> str:
    """Where the engine is looked for."""
    return environ.get("DOCKER_HOST") or DEFAULT_HOST


def facts(environ: Mapping[str, str]) -> EngineFacts:
    """Raises EngineUnreachableError."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    client = _connect(environ)
    try:
        version, info = client.version(), client.info()
    except (DockerException, RequestException) as error:
        raise _unreachable(environ, error) from error
    finally:
        client.close()
    parts = {part.get("Name"): part.get("Version") for part in version.get("Components") or ()}
    return EngineFacts(
        version=str(version.get("Version", "unknown")),
        runc=parts.get("runc"),
        nvidia="nvidia" in (info.get("Runtimes") or {}),
        seccomp=any("seccomp" in option for option in info.get("SecurityOptions") or ()),
    )


def image_id(environ: Mapping[str, str], name: str) -> str | None:
    """The id of a local image; None where there is none. Raises EngineUnreachableError."""
    from docker.errors import DockerException, ImageNotFound
    from requests.exceptions import RequestException

    client = _connect(environ)
    try:
        found = client.images.get(name).id
    except ImageNotFound:
        return None
    except (DockerException, RequestException) as error:
        raise _unreachable(environ, error) from error
    finally:
        client.close()
    return str(found)


def output_of(
    environ: Mapping[str, str], image: str, argv: Sequence[str], reads: Sequence[str]
) -> tuple[str, str]:
    """(what *argv* prints in a container that is thrown away, why it did not start).

    Without network, rights or a writable file; *reads* are seen as a candidate sees them. The
    image's own entry point is not used.

    Raises:
        EngineUnreachableError: no engine, or it lost the container.
    """
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    client = _connect(environ)
    try:
        container = client.containers.create(
            image, list(argv), entrypoint=[], network_mode="none", read_only=True,
            user=NOBODY, cap_drop=["ALL"], security_opt=["no-new-privileges:true"],
            mem_limit="2g", pids_limit=64, labels={LABEL: ""}, working_dir="/",
            volumes={read: {"bind": read, "mode": "ro"} for read in reads},
        )  # fmt: skip
        try:
            container.start()
            container.wait(timeout=int(LOOK_SECONDS))
            return container.logs(stdout=True, stderr=True, tail=50).decode(errors="replace"), ""
        except APIError as error:
            return "", " ".join(str(error.explanation or error).split())[:300]
        finally:
            container.remove(force=True, v=True)
    except (DockerException, RequestException) as error:
        raise _unreachable(environ, error) from error
    finally:
        client.close()


def _connect(environ: Mapping[str, str]) -> DockerClient:
    try:
        import docker
    except ImportError as error:
        raise EngineUnreachableError(f"the docker package is missing: {EXTRA}") from error
    try:
        _knock(engine_host(environ))
        return docker.from_env(environment=dict(environ), timeout=int(ASK_SECONDS))
    except (docker.errors.DockerException, OSError) as error:
        raise _unreachable(environ, error) from error


def _knock(host: str) -> None:
    """Raises OSError where nobody listens: the client's own words for that fill a screen."""
    if not host.startswith("unix://"):
        return
    with socket.socket(socket.AF_UNIX) as knocking:
        knocking.settimeout(ASK_SECONDS)
        knocking.connect(host.removeprefix("unix://"))


def _unreachable(environ: Mapping[str, str], error: Exception) -> EngineUnreachableError:
    why = (error.strerror if isinstance(error, OSError) else None) or "it does not answer"
    told = EngineUnreachableError(f"no container engine at {engine_host(environ)}: {why}")
    told.refused = isinstance(error, PermissionError)
    return told
