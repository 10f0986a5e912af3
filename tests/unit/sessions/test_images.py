"""The image of `{build: DIR}` is named by what goes into it, and a session goes on with its own."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from overnight.configuration import ResolvedLoop, resolve_loop
from overnight.contracts.errors import UsageError
from overnight.sessions.images import BUILD_STAMP, build, image_name, name_of, plan_build, settled

TEXT = (
    "metric: m\nrun_cmd: python train.py\neditable_files: train.py\n"
    "pools: {default: {executor: docker}}\nimage: {build: env}\n"
)
NO_ENGINE = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
#: In place of the builder: says what it was called with and what lies there, and fails if told.
BUILDER = """\
#!/bin/sh
echo "$DOCKER_HOST $*" >> "$SEEN"
find . -type f | sort >> "$SEEN"
exit "${BUILDER_ENDS_WITH:-0}"
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / "env").mkdir(parents=True)
    (folder / "train.py").write_text("LR = 1\n")
    (folder / "env/Dockerfile").write_text("FROM python:3.11-slim-bookworm\n")
    (folder / "env/requirements.txt").write_text("einops==0.8.0\n")
    (folder / ".gitignore").write_text("env/secret\n")
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "docker").write_text(BUILDER)
    (tools / "docker").chmod(0o755)
    return {"PATH": f"{tools}:/usr/bin:/bin", "SEEN": str(tmp_path / "seen"), **NO_ENGINE}


def loop_of(repo: Path, text: str = TEXT) -> ResolvedLoop:
    return resolve_loop(repo, flags={}, environ={}, loop_text=text)


def prepared(repo: Path, environ: dict[str, str]) -> tuple[ResolvedLoop, int]:
    loop = loop_of(repo)
    plan = plan_build(loop, environ)
    assert plan is not None
    return loop, build(plan, loop, environ, lambda step: None)


def test_only_what_goes_into_it_makes_another_image(repo: Path) -> None:
    before = name_of(loop_of(repo))
    (repo / "train.py").write_text("LR = 2\n")
    (repo / "notes.md").write_text("below another folder\n")
    (repo / "env/secret").write_text("git ignores it\n")
    same = name_of(loop_of(repo))
    (repo / "env/requirements.txt").write_text("einops==0.8.1\n")
    other = name_of(loop_of(repo))
    (repo / "env/requirements.txt").chmod(0o755)

    assert before == same
    assert len({before, other, name_of(loop_of(repo))}) == 3
    assert before.startswith("overnight-build:")


def test_an_editable_file_beside_the_dockerfile_is_not_in_the_image(repo: Path) -> None:
    (repo / "Dockerfile").write_text("FROM a\n")
    loop = loop_of(repo, TEXT.replace("{build: env}", "{build: .}"))
    before = name_of(loop)
    (repo / "train.py").write_text("LR = 2\n")
    same = name_of(loop)
    (repo / "notes.md").write_text("of the repository\n")

    assert before == same != name_of(loop)


def test_the_builder_gets_a_copy_of_just_that(repo: Path, environ: dict[str, str]) -> None:
    (repo / "env/secret").write_text("git ignores it\n")
    loop, code = prepared(repo, environ)
    called, *files = Path(environ["SEEN"]).read_text().splitlines()
    stamp = json.loads((loop.session_root / BUILD_STAMP).read_text())

    assert code == 0
    assert called == (
        f"{NO_ENGINE['DOCKER_HOST']} build --label overnight.build --tag {name_of(loop)} ."
    )
    assert files == ["./Dockerfile", "./requirements.txt"]
    assert stamp["state"] == "done"
    assert list(Path("/tmp").glob("overnight-build-*")) == []


def test_a_session_starts_only_with_an_image_that_is_built(
    repo: Path, environ: dict[str, str]
) -> None:
    told = r"image \{build: env\} is not built yet: run `overnight prepare`"
    with pytest.raises(UsageError, match=told):
        settled(loop_of(repo), NO_ENGINE, None)
    loop, _ = prepared(repo, environ)
    name = image_name(settled(loop, NO_ENGINE, None).config)
    assert name == name_of(loop)

    (repo / "env/Dockerfile").write_text("FROM python:3.12-slim-bookworm\n")
    with pytest.raises(UsageError, match="is not built as it is now: run `overnight prepare`"):
        settled(loop_of(repo), NO_ENGINE, None)


def test_a_build_that_failed_is_none(repo: Path, environ: dict[str, str]) -> None:
    loop, code = prepared(repo, {**environ, "BUILDER_ENDS_WITH": "7"})

    assert code == 7
    with pytest.raises(UsageError, match="overnight prepare"):
        settled(loop, NO_ENGINE, None)


def test_a_session_goes_on_with_the_image_that_it_began_with(
    repo: Path, environ: dict[str, str]
) -> None:
    loop, _ = prepared(repo, environ)
    kept = name_of(loop)
    (repo / "env/Dockerfile").write_text("FROM python:3.12-slim-bookworm\n")
    with pytest.raises(UsageError, match="which this session runs in, is gone"):
        settled(loop_of(repo), NO_ENGINE, "overnight-build:0123456789abcdef")

    assert settled(loop_of(repo), NO_ENGINE, kept).config.image == kept


def test_without_an_engine_to_ask_a_name_is_taken_as_it_is(repo: Path) -> None:
    loop = loop_of(repo)
    named = replace(loop, config=loop.config.model_copy(update={"image": "a:1"}))
    none = replace(loop, config=loop.config.model_copy(update={"image": None}))

    assert settled(named, NO_ENGINE, None).config.image == "a:1"
    assert settled(none, NO_ENGINE, "b:1").config.image is None


def test_without_a_builder_that_is_said(repo: Path) -> None:
    with pytest.raises(UsageError, match="no docker on the PATH"):
        plan_build(loop_of(repo), {"PATH": "/nowhere"})


def test_a_dockerfile_that_git_ignores_is_said(repo: Path) -> None:
    (repo / ".gitignore").write_text("Dockerfile\n")

    with pytest.raises(UsageError, match="git ignores its Dockerfile"):
        name_of(loop_of(repo))
