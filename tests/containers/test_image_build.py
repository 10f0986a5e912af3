"""`image: {build: DIR}` as a user meets it: prepared by one verb, used by a session, kept by it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.errors import ImageNotFound
from docker_engine import Engine
from tests.e2e.cli_driver import Cli

BASE = "python:3.11-slim-bookworm"
#: All of this is the image's own wish, and none of it is followed.
DOCKERFILE = f"""\
FROM {BASE}
COPY word /opt/word
ENTRYPOINT ["/bin/false"]
CMD ["/bin/false"]
USER root
WORKDIR /nowhere
"""
TRAIN = """\
import os
LR = 0.1
assert os.getuid() != 0
print("saw", open("/opt/word").read())
print(f"val_bpb: {abs(LR - 0.5) + 1:.6f}")
"""
LOOP = """\
metric: val_bpb
run_cmd: python3 train.py
editable_files: train.py
budget: 60
image: {build: env}
pools: {default: {executor: docker, runners: 1}}
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / "env").mkdir(parents=True)
    (folder / "train.py").write_text(TRAIN)
    (folder / "loop.run.yaml").write_text(LOOP)
    (folder / "env/word").write_text("before")
    (folder / "env/Dockerfile").write_text(DOCKERFILE)
    return folder


@pytest.fixture
def cli(tmp_path: Path, engine: Engine) -> Iterator[Cli]:
    made = Cli(tmp_path)
    made.env["DOCKER_HOST"] = engine.host
    before = {image.id for image in engine.client.images.list()}
    yield made
    for image in engine.client.images.list(filters={"label": "overnight.build"}):
        if image.id not in before:
            engine.client.images.remove(image.id, force=True)


def rows_of(cli: Cli, repo: Path) -> dict[str, dict[str, str]]:
    """Rows of doctor by name."""
    return {row["name"]: row for row in cli("doctor", repo, "--json").json["checks"]}


def test_prepare_builds_it_and_a_session_runs_in_it_and_keeps_it(
    cli: Cli, repo: Path, engine: Engine
) -> None:
    told = f"image {{build: env}} is not built yet: run `overnight prepare {repo}`"
    refused = cli("run", repo, "--max", 0)
    missing = rows_of(cli, repo)

    assert (refused.code, refused.err) == (2, f"overnight: {told}\n")
    assert (missing["image"]["status"], missing["image"]["fix"]) == ("fail", "overnight prepare")
    assert not (repo / "sandbox").exists()

    prepared = cli("prepare", repo, "--json", seconds=300)
    (step,) = prepared.json["steps"]
    name = step["argv"][-2]
    there = rows_of(cli, repo)

    assert prepared.code == 0
    assert prepared.json["ok"]
    assert engine.client.images.get(name).id
    assert there["image"]["status"] == there["command"]["status"] == "ok"
    assert there["imports"]["status"] == "ok"

    first = cli("run", repo, "--max", 0, "--json", seconds=120)
    shown = cli("show", 1, "--dir", repo, "--json").json

    assert first.code == 0, first.err
    assert "saw before" in shown["log_tail"]
    assert shown["image"] == engine.client.images.get(name).id
    assert shown["isolation"] == "container"

    (repo / "env/word").write_text("after")
    goes_on = cli("run", repo, "--max", 1, "--json", seconds=120)
    second = cli("show", 2, "--dir", repo, "--json").json
    another = cli("run", repo, "--tag", "other", "--max", 0)

    assert goes_on.code == 0, goes_on.err
    assert second["image"] == shown["image"]
    assert "saw before" in second["log_tail"]
    assert another.code == 2
    assert "is not built as it is now: run `overnight prepare" in another.err

    engine.client.images.get(BASE).tag(*name.split(":"))
    moved = cli("run", repo, "--max", 1, "--json", seconds=120)
    notes = [line["text"] for line in moved.lines if line.get("event") == "note"]

    assert any(f"image {name} is another one by now" in note for note in notes), moved.lines[:6]

    engine.client.images.remove(name, force=True)
    gone = cli("run", repo, "--max", 2)
    assert gone.code == 2
    assert f"{name}, which this session runs in, is gone" in gone.err


def test_a_build_that_fails_is_told_and_starts_no_session(
    cli: Cli, repo: Path, engine: Engine
) -> None:
    (repo / "env/Dockerfile").write_text(f"FROM {BASE}\nRUN echo no such thing && exit 7\n")
    prepared = cli("prepare", repo, "--json", seconds=300)

    assert prepared.code == 1
    assert not prepared.json["ok"]
    assert "no such thing" in prepared.err
    assert "the last build did not end well: run `ov" in cli("run", repo, "--max", 0).err
    name = prepared.json["steps"][0]["argv"][-2]
    with pytest.raises(ImageNotFound):
        engine.client.images.get(name)


def test_doctor_says_what_the_image_lacks(cli: Cli, repo: Path) -> None:
    (repo / "loop.run.yaml").write_text(LOOP.replace("{build: env}", BASE))
    (repo / "train.py").write_text("import no_such_module\n" + TRAIN)
    imports = rows_of(cli, repo)["imports"]
    (repo / "loop.run.yaml").write_text(
        LOOP.replace("{build: env}", BASE).replace("python3 train.py", "nosuchprogram train.py")
    )
    command = rows_of(cli, repo)["command"]
    (repo / "loop.run.yaml").write_text(LOOP.replace("{build: env}", "no/such:image"))
    image = rows_of(cli, repo)["image"]

    assert (imports["status"], imports["detail"]) == ("fail", "not in the image: no_such_module")
    assert command["status"] == "fail"
    assert command["detail"].endswith(" is not in the image")
    assert (image["status"], image["detail"]) == ("fail", "no/such:image is not there")
    assert json.dumps(image)
