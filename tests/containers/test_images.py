"""The built images: what is in them, what is not, and what a change of code builds again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from docker_engine import ROOT, Engine

SERVICES = "overnight-services:latest"
SANDBOX = "overnight-sandbox:cpu"
pytestmark = pytest.mark.usefixtures("images")
#: What an image adds to the environment, and the base image's own.
PLAIN = {"PATH", "LANG", "HOME", "HOSTNAME", "PWD", "NVIDIA_DRIVER_CAPABILITIES", "PIP_CERT",
         "SSL_CERT_FILE", "GPG_KEY", "PYTHON_VERSION", "PYTHON_SHA256"}  # fmt: skip
FIND = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"


def test_services_hold_every_client_they_need_and_no_torch() -> None:
    needed = ["overnight", "redis", "rq", "git", "docker"]
    found = _in(SERVICES, "python", "-c", FIND, *needed, "torch", "safetensors", "pytest")

    assert json.loads(found.replace("'", '"')) == needed


@pytest.mark.parametrize("service", ["orchestrator", "recorder", "runner", "spawner"])
def test_every_service_starts_by_its_command(service: str) -> None:
    said = _run(
        "docker", "run", "--rm", "--network=none", "--read-only", SERVICES, service, "--help"
    )

    assert f"usage: overnight {service}" in said


def test_the_services_find_their_plug_ins_and_bundled_tracks() -> None:
    code = (
        "from importlib.metadata import entry_points\n"
        "from overnight.sessions.demo import bundled_track\n"
        "print(sorted(e.name for e in entry_points(group='overnight.executors')))\n"
    )

    assert "process" in _in(SERVICES, "python", "-c", code)


@pytest.mark.parametrize("image", [SERVICES, SANDBOX])
def test_an_image_runs_as_nobody_and_nobody_can_become_root(engine: Engine, image: str) -> None:
    user = engine.client.images.get(image).attrs["Config"]["User"]

    assert user == "65534:65534"
    assert _in(image, "id", "-u") == "65534"


def test_the_sandbox_has_torch_on_a_read_only_root_without_a_network() -> None:
    code = "import torch, numpy, safetensors.torch; print(float(torch.ones(3) @ torch.ones(3)))"

    assert _in(SANDBOX, "python", "-c", code) == "3.0"


def test_a_bundled_track_trains_in_the_sandbox() -> None:
    track = ROOT / "harness/tracks/tiny_lm"

    said = _run("docker", "run", "--rm", "--network=none", "--read-only", "--cap-drop=ALL",
                "--tmpfs=/tmp", f"--volume={track}:/work:ro", "--env=OVERNIGHT_BUDGET=5", SANDBOX,
                "python", "train.py")  # fmt: skip

    assert "\nval_bpb: " in said
    assert "\nnum_steps:        5\n" in said


def test_the_sandbox_has_the_tools_that_hold_an_experiment() -> None:
    found = _in(
        SANDBOX,
        "sh",
        "-c",
        "for tool in sh env timeout; do command -v $tool; done; stat -c %a /tmp",
    )

    assert [Path(path).name for path in found.split()] == ["sh", "env", "timeout", "1777"]
    assert _root("find / -xdev -type f -perm /6000") == ""


def test_the_sandbox_holds_none_of_our_services_and_no_credentials() -> None:
    ours = _in(SANDBOX, "python", "-c", FIND, "overnight", "redis", "rq", "git", "docker")
    files = _root("find / -xdev \\( -iname '*overnight*' -o -name .netrc -o -name 'pip.conf' "
                  "-o -name '*.pyc' -path '*/pip/*/cache/*' -o -name 'id_*' -path '*/.ssh/*' "
                  "-o -name docker.sock \\) -print; find /run/secrets /root/.cache /tmp -type f "
                  "2>/dev/null")  # fmt: skip
    names = {line.partition("=")[0] for line in _in(SANDBOX, "env").splitlines()}

    assert ours == "[]"
    assert files == ""
    assert names <= PLAIN


@pytest.mark.parametrize("image", [SERVICES, SANDBOX])
def test_no_address_of_the_building_machine_stands_in_an_image(image: str) -> None:
    history = _run("docker", "history", "--no-trunc", "--format", "{{.CreatedBy}}", image)
    config = _run("docker", "image", "inspect", "--format", "{{json .Config}}", image)

    assert "COPY" in history
    assert "127.0.0.1" not in history + config
    assert str(ROOT) not in history + config


def test_a_change_of_code_builds_no_package_again(engine: Engine, tmp_path: Path) -> None:
    changed = f"overnight-test:{uuid4().hex}"
    context = _copy_of_the_context(tmp_path)
    with (context / "services/overnight/__init__.py").open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    try:
        _build(context, "services.Dockerfile", changed)
        before, after = _layers(engine, SERVICES), _layers(engine, changed)
    finally:
        engine.client.images.remove(changed, force=True)

    differing = [new for old, new in zip(before, after, strict=True) if old != new]
    assert differing == after[-2:]  # the wheel, and its installation


def test_a_build_is_sent_nothing_that_is_not_named(tmp_path: Path) -> None:
    context = tmp_path / "context"
    for name in (".git/config", ".venv/x.py", "sandbox/session.json", ".env", "tests/x.py",
                 "services/overnight/__pycache__/x.pyc", "docker/secrets/x.txt",
                 "services/overnight/kept.py", "docker/services.txt"):  # fmt: skip
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        (context / name).write_text("x", "utf-8")
    shutil.copy(ROOT / ".dockerignore", context)
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY . /\n", "utf-8")
    out = tmp_path / "out"

    _run("docker", "build", "-q", "-f", str(tmp_path / "Dockerfile"), "--output", str(out),
         str(context), DOCKER_BUILDKIT="1")  # fmt: skip

    sent = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    assert sent == ["docker/services.txt", "services/overnight/kept.py"]


@pytest.fixture
def service(engine: Engine, label: str) -> Iterator[str]:
    """A container whose first process calls itself a recorder and serves metrics on request."""
    code = (
        "import http.server, pathlib, sys, time\n"
        "while not pathlib.Path('/tmp/up').exists(): time.sleep(0.05)\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self): self.send_response(200); self.end_headers()\n"
        "http.server.HTTPServer(('127.0.0.1', 9102), H).serve_forever()\n"
    )
    name = f"overnight-test-{uuid4().hex[:8]}"
    _run("docker", "run", "-d", "--name", name, "--label", label, "--network=none",
         "--health-interval=0.2s", "--health-retries=1", "--health-start-period=1ms",
         "--entrypoint=python", SERVICES, "-c", code, "recorder")  # fmt: skip
    return name


def test_a_container_is_healthy_when_its_service_answers(engine: Engine, service: str) -> None:
    container = engine.client.containers.get(service)

    assert _health(container, "unhealthy")
    assert container.exec_run(["touch", "/tmp/up"]).exit_code == 0
    assert _health(container, "healthy")


def test_a_stand_in_says_that_it_is_one(engine: Engine) -> None:
    for name in ("python:3.11-slim-bookworm", "redis:7-alpine", "prom/prometheus:v2.53.0"):
        attributes = engine.client.images.get(name).attrs
        published = bool(attributes["RepoDigests"])

        assert published or "overnight.stand-in" in (attributes["Config"]["Labels"] or {})


def _health(container: object, wanted: str) -> bool:
    until = time.monotonic() + 20.0
    while time.monotonic() < until:
        container.reload()  # type: ignore[attr-defined]
        if container.attrs["State"]["Health"]["Status"] == wanted:  # type: ignore[attr-defined]
            return True
        time.sleep(0.1)
    return False


def _copy_of_the_context(folder: Path) -> Path:
    context = folder / "context"
    context.mkdir()
    tracked = _run("git", "-C", str(ROOT), "ls-files", "-z", "services", "harness", "skills",
                   "docker", "pyproject.toml", "README.md", "LICENSE", ".dockerignore")  # fmt: skip
    for name in filter(None, tracked.split("\0")):
        target = context / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return context


def _layers(engine: Engine, image: str) -> list[str]:
    layers: list[str] = engine.client.images.get(image).attrs["RootFS"]["Layers"]
    return layers


def _build(context: Path, file: str, image: str) -> None:
    _run("docker", "build", "-q", "-f", str(context / "docker" / file), "-t", image, str(context),
         DOCKER_BUILDKIT="1")  # fmt: skip


def _in(image: str, *command: str) -> str:
    """Its output, run as an experiment would be."""
    return _run("docker", "run", "--rm", "--network=none", "--read-only", "--cap-drop=ALL",
                "--security-opt=no-new-privileges", "--tmpfs=/tmp", "--entrypoint=", image,
                *command)  # fmt: skip


def _root(script: str) -> str:
    """Output of a shell that sees all files of the sandbox's image."""
    return _run("docker", "run", "--rm", "--network=none", "--user=0", SANDBOX, "sh", "-c",
                f"{script}; true")  # fmt: skip


def _run(*argv: str, **environ: str) -> str:
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, **environ},
    )
    assert done.returncode == 0, f"{argv}: {done.stderr[-2000:]}"
    return done.stdout.strip()
