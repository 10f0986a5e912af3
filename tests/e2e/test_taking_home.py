"""One night in a part of a dirty monorepo, and what is taken home from it, also after a move."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.cli_driver import Cli, finish, make_repo, processes_with, until
from tests.golden.make import HERE
from tests.integration.snapshots.user_repositories import fingerprint, run_git, write

from overnight.contracts.rows import ROW_VERSION

TRAIN = """\
import os

LR = 0.1
WARMUP = 0.3
DECAY = 0.02

gap = abs(LR - 0.05) + abs(WARMUP - 0.2) + abs(DECAY - 0.01)
with open(os.path.join(os.environ["OVERNIGHT_OUT"], "model.pt"), "w") as file:
    file.write(f"weights of {LR} {WARMUP} {DECAY}\\n" * 1000)
print("---")
print(f"val_bpb: {1 + gap:.9f}")
"""
LOOP = """\
metric: val_bpb
run_cmd: python train.py
editable_files: train.py
budget: 20
pools: {default: {runners: 2}}
"""


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Cli, Path]:
    """The session's folder is models/gpt; data.py was edited and not committed."""
    base = tmp_path_factory.mktemp("night")
    repo = make_repo(base / "mono" / "models" / "gpt", train=TRAIN, loop=LOOP)
    write(repo, {"data.py": "SHARDS = 1\n"})
    write(base / "mono", {"README": "all our models\n", ".gitignore": "loop.run.yaml\n"})
    run_git(base / "mono", "init", "-q", "-b", "main")
    run_git(base / "mono", "add", ".")
    run_git(base / "mono", "commit", "-q", "-m", "start")
    run_git(base / "mono", "config", "user.name", "Ada")
    run_git(base / "mono", "config", "user.email", "ada@example.org")
    write(repo, {"data.py": "SHARDS = 8\n"})
    cli = Cli(base / "private")
    done = cli("run", repo, "--max", 8, "--tag", "mar5", "--json")
    assert done.code == 0, done
    assert done.lines[-1]["counts"]["keep"] > 1, "a change was kept"
    return cli, repo


def _kept(cli: Cli, repo: Path) -> list[int]:
    """The baseline and what leads from it to the best."""
    rows = {row["id"]: row for row in cli.inside("results", "--dir", repo, "--json").json}
    path = [cli.inside("status", "--dir", repo, "--json").json["best"]["id"]]
    while path[0] != 1:
        path.insert(0, rows[path[0]]["parent"])
    return path


def _outs(repo: Path) -> list[int]:
    return sorted(
        int(out.parent.name.removeprefix("iter")) for out in repo.glob("sandbox/iter*/out")
    )


def test_only_what_led_to_the_best_has_its_weights(night: tuple[Cli, Path]) -> None:
    cli, repo = night

    assert _outs(repo) == _kept(cli, repo)


def test_the_best_weights_are_copied_whole(night: tuple[Cli, Path], tmp_path: Path) -> None:
    cli, repo = night
    best = _kept(cli, repo)[-1]

    done = cli.inside("weights", "best", "--to", tmp_path / "best.pt", "--dir", repo, "--json")
    again = cli.inside("weights", "best", "--to", tmp_path / "best.pt", "--dir", repo)

    assert (done.json["id"], done.json["file"]) == (best, "model.pt")
    text = (tmp_path / "best.pt").read_text()
    assert text == (repo / f"sandbox/iter{best}/out/model.pt").read_text()
    assert (again.code, len(again.err.splitlines())) == (2, 1)


def test_the_best_code_comes_home_and_the_checkout_stays(night: tuple[Cli, Path]) -> None:
    cli, repo = night
    top, kept = repo.parents[1], _kept(cli, repo)

    def new(path: str) -> bool:
        return path.startswith((".git/objects", ".git/refs/heads/overnight", "models/gpt/sandbox"))

    before = fingerprint(top, without=new)
    done = cli.inside("apply", "--dir", repo, "--json")

    assert done.code == 0, done
    assert fingerprint(top, without=new) == before
    assert [c["experiments"] for c in done.json["commits"]] == [[number] for number in kept[1:]]
    assert done.json["own_edits"] == ["models/gpt/data.py"]
    changed = run_git(top, "diff", "--name-only", "main", "overnight/mar5").split()
    assert changed == ["models/gpt/data.py", "models/gpt/train.py"]
    code = run_git(top, "show", "overnight/mar5:models/gpt/train.py")
    assert code == (repo / f"sandbox/iter{kept[-1]}/code_snapshot/train.py").read_text()
    assert run_git(top, "fsck", "--strict") == ""


def test_cleaning_takes_no_row_and_no_export(night: tuple[Cli, Path]) -> None:
    cli, repo = night
    exports = [(repo / "sandbox" / n).read_bytes() for n in ("results.tsv", "experiments.jsonl")]
    would = cli.inside("clean", "--dry-run", "--dir", repo, "--json").json

    did = cli.inside("clean", "--dir", repo, "--json").json

    assert did["gone"] == would["gone"]
    assert [item["kind"] for item in did["gone"]] == ["slots", "slots"]
    assert did["failed"] == []
    assert exports == [
        (repo / "sandbox" / n).read_bytes() for n in ("results.tsv", "experiments.jsonl")
    ]
    assert cli.inside("verify", "--dir", repo).code == 0


def test_a_cleaned_session_goes_on_in_a_repository_that_moved_as_did_its_git_folder(
    night: tuple[Cli, Path], tmp_path: Path
) -> None:
    cli, old = night
    top = shutil.move(old.parents[1], tmp_path / "elsewhere")
    (top / ".git").rename(tmp_path / "git-folder")
    (top / ".git").write_text(f"gitdir: {tmp_path / 'git-folder'}\n")
    repo = top / "models" / "gpt"
    try:
        assert cli.inside("clean", "--dir", repo).code == 0
        assert cli.inside("status", "--dir", repo).code == 0
        assert len(cli.inside("results", "--dir", repo, "--json").json) == 9
        saved = cli.inside("weights", "--to", tmp_path / "w", "--dir", repo)
        applied = cli.inside("apply", "--onto", "again", "--dir", repo, "--json")
        assert (saved.code, applied.code) == (0, 0), applied
        assert applied.json["repo"] == str(repo)
        assert cli("run", repo, "--max", 9, "--json").code == 0
        assert cli.inside("verify", "--dir", repo).code == 0
        (run,) = cli.inside("runs", repo, "--json").json
        assert (run["tag"], run["state"], run["experiments"]) == ("mar5", "closed", 9)
        assert processes_with(str(tmp_path)) == []
    finally:
        shutil.move(top, old.parents[1])


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    yield Cli(tmp_path / "private")
    assert processes_with(str(tmp_path)) == []


def test_a_nearly_full_disk_pauses_the_session_until_a_person_sees_to_it(
    cli: Cli, tmp_path: Path
) -> None:
    repo = make_repo(tmp_path / "repo", sleep=0.01)
    bindings = (repo / "loop.run.yaml").read_text()
    write(repo, {"loop.run.yaml": bindings + "min_free_gb: 1000000000\n"})
    process = cli.start("run", repo, "--max", 1, "--json")
    (*_, paused) = until(process, event="control", action="pause")
    status: dict[str, Any] = cli.inside("status", "--dir", repo, "--json").json
    resumed = cli("resume", "--dir", repo)
    (*_, again) = until(process, event="control", action="pause")
    assert cli("stop", "--dir", repo).code == 0
    assert finish(process).code == 0

    assert paused["by"] == "orchestrator"
    assert "less than min_free_gb 1e+09: `overnight clean` would free 0 MB now" in paused["why"]
    assert (status["state"], status["why"]) == ("paused", paused["why"])
    assert resumed.code == 0
    assert again["seq"] > paused["seq"]
    write(repo, {"loop.run.yaml": bindings + "min_free_gb: 0.000001\n"})
    going_on = cli("run", repo, "--max", 1, "--json")
    assert going_on.lines[-1]["candidates"] == 1, going_on


def test_a_session_of_version_1_goes_on_as_a_copy(cli: Cli, tmp_path: Path) -> None:
    with tarfile.open(HERE / "session-v1.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    repo, tag = tmp_path / "repo", f"mar5-v{ROW_VERSION}"
    assert cli.inside("migrate", repo).code == 0

    done = cli("run", repo, "--tag", tag, "--max", 9, "--json")

    assert done.code == 0, done
    assert (done.lines[-1]["candidates"], done.lines[-1]["tag"]) == (9, tag)
    assert done.lines[-1]["best"]["metric"] <= 1.082
    root = repo / f"sandbox-{tag}"
    assert cli.inside("verify", "--dir", root).code == 0
    lines = (root / "ledger.jsonl").read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert len((root / "results.tsv").read_text().splitlines()) == 11
    assert len((root / "experiments.jsonl").read_text().splitlines()) == 10
