"""loop.run.yaml is written whole or not at all, never over another, and loads without questions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from overnight.configuration import load_yaml
from overnight.contracts.errors import UsageError
from overnight.sessions.bindings import initialise, scalar_text, write_bindings

TRAIN = "loss = 1.0\nprint(f'val_loss: {loss:.6f}')\n"

WRITTEN = f"""\
# Overnight's bindings for this repository. Edit freely; never committed by us.
metric:
  name: val_loss                    # train.py:2 prints it
  direction: minimize               # by its name: lower is better
run_cmd: [python, train.py]         # train.py by its name
python: auto                        # {sys.executable}: Overnight's own
editable_files: [train.py]          # the training script; all else stays frozen
iter_strategy: snapshots            # or branches: a commit an experiment
sandbox_root: ./sandbox             # all that Overnight stores
gate: time                          # what the budget counts
budget: 300                         # seconds; the default. Better: what one run takes
kill_factor: 2                      # killed at kill_factor x budget, plus graces
reads: []                           # read-only: nothing outside the repository is named
proposer: {{name: search}}
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "répo"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_says_what_was_found_and_why(repo: Path) -> None:
    done = initialise(repo, {}, {})

    assert done.written
    assert done.path.read_text() == WRITTEN
    assert names(repo) == ["loop.run.yaml", "train.py"], "nothing else is written"
    assert done.loop.config.metric.name == "val_loss"
    assert done.loop.config.run_cmd == ("python", "train.py")


def test_a_file_that_is_there_is_kept_and_loads_without_questions(repo: Path) -> None:
    initialise(repo, {}, {})
    own = WRITTEN.replace("300", "60")
    (repo / "loop.run.yaml").write_text(own)
    done = initialise(repo, {}, {})

    assert not done.written
    assert done.loop.config.budget == 60.0
    assert (repo / "loop.run.yaml").read_text() == own


def test_force_replaces_even_a_broken_file(repo: Path) -> None:
    (repo / "loop.run.yaml").write_text("metric: [\n")
    with pytest.raises(UsageError, match=r"^loop\.run\.yaml:2: not YAML"):
        initialise(repo, {}, {})
    done = initialise(repo, {}, {}, force=True)

    assert done.path.read_text() == WRITTEN


def test_what_the_user_gives_is_written_with_the_rest(repo: Path) -> None:
    more: dict[str, Any] = {
        "iter_strategy": "branches",
        "proposer": "random",
        "seed": 3,
        "budget": 2.5,
        "metric.direction": None,
    }
    config = initialise(repo, more, {}).loop.config

    assert config.iter_strategy == "branches"
    assert config.proposer.name == "random"
    assert config.seed == 3
    assert config.budget == 2.5


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"metric.direction": "down"}, "metric.direction: must be minimize or maximize, not down"),
        ({"editable_files": ["nope.py"]}, "editable_files: nope.py does not exist in"),
        ({"gate": "moon"}, "gate: must be time, cpu_time, epochs or steps, not moon"),
        ({"policy.prefetch": 0}, "policy.prefetch can't be given to init"),
    ],
)
def test_what_would_not_load_is_never_written(
    repo: Path, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        initialise(repo, more, {})

    assert message in str(caught.value)
    assert names(repo) == ["train.py"]


def test_a_variable_does_not_decide_what_is_written(repo: Path) -> None:
    done = initialise(repo, {}, {"OVERNIGHT_BUDGET": "1"})

    assert done.path.read_text() == WRITTEN
    assert done.loop.config.budget == 1.0


def test_of_two_writers_one_wins_and_the_other_is_told(repo: Path) -> None:
    path = repo / "loop.run.yaml"
    outcomes: list[str] = []
    together = threading.Barrier(8)

    def write(number: int) -> None:
        together.wait()
        try:
            write_bindings(path, f"# {number}\n" * 2000, force=False)
            outcomes.append("written")
        except UsageError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert outcomes.count("written") == 1
    assert outcomes.count(f"{path} is there already: give --force to replace it") == 7
    assert len(set(path.read_text().splitlines())) == 1, "whole, by one writer"
    assert names(repo) == ["loop.run.yaml", "train.py"]


def test_a_dangling_link_is_not_written_through(repo: Path, tmp_path: Path) -> None:
    (repo / "loop.run.yaml").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError):
        initialise(repo, {}, {})

    assert not (tmp_path / "elsewhere").exists()


def test_a_read_only_folder_is_one_line_and_nothing_is_left(repo: Path) -> None:
    """A read-only mount: root ignores modes."""
    bwrap = shutil.which("bwrap")
    assert bwrap is not None, "bwrap is missing: apt-get install bubblewrap"
    code = (
        "import sys, pathlib\n"
        "from overnight.contracts.errors import UsageError\n"
        "from overnight.sessions.bindings import initialise\n"
        "try:\n"
        "    initialise(pathlib.Path(sys.argv[1]), {}, {})\n"
        "except UsageError as error:\n"
        "    print(error)\n"
    )
    services = Path(__file__).parents[3] / "services"
    done = subprocess.run(
        [bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
         sys.executable, "-c", code, str(repo)],
        capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": str(services), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip

    assert done.stdout == (
        f"can't write {repo}/loop.run.yaml: Read-only file system: make the folder writable, "
        "or give every binding as a flag or variable\n"
    ), done.stderr
    assert names(repo) == ["train.py"]


def test_a_full_disk_leaves_nothing_half_written(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UsageError, match="No space left on device"):
        initialise(repo, {}, {})

    assert names(repo) == ["train.py"]


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"])))
def test_any_text_is_written_so_that_every_reader_takes_it_for_the_same(text: str) -> None:
    line = f"key: [{scalar_text(text)}]\n"

    assert load_yaml(line, "x") == {"key": [text]}
    assert yaml.safe_load(line) == {"key": [text]}


@pytest.mark.parametrize(
    "text", ["yes", "null", "1e3", "1", "a: b", "# x", "~", "", "a,b", "-", "."]
)
def test_text_that_looks_like_something_else_is_quoted(text: str) -> None:
    assert yaml.safe_load(f"[{scalar_text(text)}]") == [text]
