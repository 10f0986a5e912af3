"""What image files may say: public names, locked packages, nothing fetched on the side."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILES = sorted(
    path.relative_to(ROOT).as_posix() for path in ROOT.glob("docker/**/*Dockerfile")
)
LOCKS = ("ci/requirements.txt", "docker/services.txt", "docker/sandbox.txt")
#: A registry's host stands before the first slash and has a dot or a port.
_HOST = re.compile(r"^[^/]*[.:][^/]*/|^localhost/")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ \\;]+)", re.MULTILINE)


@pytest.mark.parametrize("file", DOCKERFILES)
def test_a_dockerfile_pulls_no_syntax_and_fetches_by_packages_alone(file: str) -> None:
    text = (ROOT / file).read_text("utf-8")

    # A syntax line pulls a frontend from a registry, before anything else is looked at.
    assert not re.search(r"^#\s*(syntax|check)\s*=", text, re.MULTILINE)
    assert not re.search(r"^\s*ADD\b", text, re.MULTILINE | re.IGNORECASE)
    assert not re.search(r"\b(curl|wget)\b", text)
    assert set(re.findall(r"https?://[^\s\"']+", text)) <= {"https://download.pytorch.org/whl/cpu"}


@pytest.mark.parametrize("file", DOCKERFILES)
def test_base_images_have_public_names_without_a_host(file: str) -> None:
    text = (ROOT / file).read_text("utf-8")
    stages = {name.lower() for name in re.findall(r"^FROM .* AS (\S+)", text, re.MULTILINE)}
    bases = set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) - stages
    names = {base for base in bases if not base.startswith("$")} | set(_image_arguments(text))

    assert names
    assert [name for name in names if _HOST.match(name) or ":" not in name] == []


def test_the_stand_ins_carry_every_base_image_s_name() -> None:
    script = (ROOT / "docker/airgapped/build.sh").read_text("utf-8")
    made = set(re.search(r"^names=\((.*)\)$", script, re.MULTILINE)[1].split())  # type: ignore[index]
    used = {name for file in ROOT.glob("docker/*.Dockerfile")
            for name in _image_arguments(file.read_text("utf-8"))}  # fmt: skip
    composed = re.findall(r"^ +image: (\S+)$", (ROOT / "compose.yaml").read_text("utf-8"), re.M)
    used |= {name for name in composed if not name.startswith("$")}

    # Debian has no Grafana: it is left out where no registry is in reach.
    assert used == made | {"grafana/grafana:11.6.0"}


def test_nothing_is_sent_to_a_build_but_what_is_named() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
             if line and not line.startswith("#")]  # fmt: skip
    named = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}

    assert rules[0] == "*"
    assert named <= {"docker/*.txt", "docker/healthcheck.py", "pyproject.toml", "README.md",
                     "LICENSE", "services", "harness", "skills"}  # fmt: skip


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_a_version_and_a_hash_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text("utf-8")
    entries = re.split(r"\n(?=[A-Za-z])", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))

    assert "#    make lock\n" in text
    assert len(entries) > 5
    assert [entry.splitlines()[0] for entry in entries
            if not _PIN.match(entry) or "--hash=sha256:" not in entry] == []  # fmt: skip
    assert not re.search(r"://|^--|^-[a-z] ", text, re.MULTILINE)


def test_the_services_are_locked_to_what_pyproject_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["docker"]]
    pins = _pins("docker/services.txt")

    assert [text for text in wanted if not _meets(pins, Requirement(text))] == []


def test_images_and_tests_run_the_same_versions() -> None:
    tested = _pins("ci/requirements.txt")
    installed = _pins("docker/services.txt").items() | _pins("docker/sandbox.txt").items()

    assert [pin for pin in installed if pin not in tested.items()] == []


def test_services_lock_no_torch_and_the_sandbox_nothing_that_services_talk_with() -> None:
    assert {"torch", "safetensors"} & _pins("docker/services.txt").keys() == set()
    assert {"redis", "rq", "docker", "pydantic"} & _pins("docker/sandbox.txt").keys() == set()


def test_every_image_builds_with_the_torch_that_make_setup_installs() -> None:
    dockerfile = (ROOT / "docker/sandbox.Dockerfile").read_text("utf-8")
    script = (ROOT / "ci/install_torch.sh").read_text("utf-8")
    spec = re.search(r"^ARG TORCH_SPEC=torch==(\S+)$", dockerfile, re.MULTILINE)
    version = re.search(r"\bversion=(\S+)", script)

    assert spec is not None
    assert version is not None
    assert spec[1] == version[1]


def _image_arguments(dockerfile: str) -> list[str]:
    return re.findall(r"^ARG \w+_IMAGE=(\S+)$", dockerfile, re.MULTILINE)


def _pins(lock: str) -> dict[str, str]:
    text = (ROOT / lock).read_text("utf-8")
    return {canonicalize_name(name): version for name, version in _PIN.findall(text)}


def _meets(pins: dict[str, str], wanted: Requirement) -> bool:
    version = pins.get(canonicalize_name(wanted.name))
    return version is not None and wanted.specifier.contains(version)
