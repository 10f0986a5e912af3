"""Every command that the skill, its pages, its scripts and the prompts name really runs.

One repository and one session for all of them, in an order in which a person would use them.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from tests.e2e.cli_driver import Cli, Done, fingerprint, finish, wait_for_none

ROOT = Path(__file__).resolve().parents[2]
SKILL = ROOT / "skills" / "overnight"
PAGES = [SKILL / "SKILL.md", *sorted((SKILL / "references").glob("*.md"))]
TRACKS = ROOT / "harness" / "tracks"
SCRIPTS = sorted((SKILL / "scripts").glob("*.sh"))
PROMPTS = ("setup", "iteration", "summary", "contract")

#: What a page leaves open -> what it is here. `--max` is smaller: it is the same verb, sooner over.
PLACEHOLDERS = {
    "SKILL/": f"{SKILL}/",
    "VERB": "results",
    "NAME": "val_bpb",
    " ID": " 2",
    "TEXT": "no",
    "--max 20": "--max 4",
}
#: Played in the background until `drain` ends it.
LIVE = 'overnight run --max 20 --desc "session-1"'
#: Of what is steered: so many ideas that it does not end before.
MANY = {"--max 20": "--max 900"}
#: Commands of the pages that no test runs, and why.
OUTSIDE = {
    "curl -LsSf https://astral.sh/uv/install.sh | sh": "somebody else's installer, by network",
    "git clone https://github.com/karpathy/autoresearch": "by network; a stand-in is made here",
    "overnight run": "never ends by itself; the plan has it with --max",
    "overnight demo": "half a minute of training: tests/e2e/test_cli.py and make demo run it",
    "nvidia-smi": "no GPU here, and the driver's own tool",
}
#: (command, exit code), in an order in which they make sense. One may stand in it twice.
PLAN: tuple[tuple[str, int], ...] = (
    ("overnight VERB --help", 0),
    ("overnight prompt setup", 2),  # neither session nor bindings yet
    ("overnight init --yes", 0),
    ("overnight init --metric NAME --direction minimize", 0),
    ("overnight init", 0),
    ("overnight doctor --json", 0),
    ("bash SKILL/scripts/check-hardware.sh", 0),
    ("overnight status --json", 2),  # no session yet
    ("overnight setup", 0),
    ("overnight prepare", 0),
    ("overnight setup --seq-len 512", 0),
    ("bash SKILL/scripts/setup.sh", 0),
    ("bash SKILL/scripts/setup.sh --seq-len 512", 0),
    ("overnight setup autoresearch", 0),
    ("overnight prepare autoresearch", 0),
    ("overnight once", 0),
    ("overnight once --json", 0),
    ("bash SKILL/scripts/run-experiment.sh", 0),
    ("overnight program new", 0),
    ("overnight program check", 0),
    ("overnight prompt setup", 0),
    ("overnight prompt contract", 0),
    ('bash SKILL/scripts/run-loop.sh --max 20 --desc "session-1"', 0),
    (LIVE, 0),
    ("overnight status --json", 0),
    ("overnight wait 2", 0),
    ('overnight steer "smaller learning rates first"', 0),
    ("overnight approve ID", 2),  # nobody is asked here
    ("overnight reject ID --why TEXT", 2),
    ("overnight pause", 0),
    ("overnight resume", 0),
    ("overnight drain", 0),
    ("overnight up --max 20", 0),
    ("overnight stop", 0),
    ("overnight wait", 0),
    ("overnight report", 0),
    ("overnight program next", 0),
    ("overnight prompt iteration", 0),
    ("overnight prompt summary", 0),
    ("overnight results", 0),
    ("overnight results --json", 0),
    ("overnight results --top 10", 0),
    ("overnight results --status crash", 0),
    ("bash SKILL/scripts/show-results.sh --top 10", 0),
    ("overnight show best", 0),
    ("overnight show best --json", 0),
    ("overnight diff best", 0),
    ("overnight log best", 0),
    ("overnight verify", 0),
    ("overnight verify --json", 0),
    ("awk -F'\\t' '$4==\"keep\"' sandbox/results.tsv | sort -t\"$(printf '\\t')\" -k2 -n", 0),
    ("awk -F'\\t' 'NR>1 {print $4}' sandbox/results.tsv | sort | uniq -c", 0),
    ("overnight apply best", 0),
    ("overnight weights best --to best.safetensors", 0),
    ("overnight clean --dry-run", 0),
    ("overnight runs", 0),
)
#: Verbs that start processes, or change where they stand: as a process of their own.
_ALONE = ("run", "up", "once", "setup", "prepare")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
_INLINE = re.compile(r"`((?:overnight|bash|nvidia-smi|uv|git|curl)(?: [^`]+)?)`")

TRAIN = """\
import os
import time

from prepare import MAX_SEQ_LEN, TIME_BUDGET

LR = 0.1
WARMUP = 0.3
DECAY = 0.02

time.sleep(0.3)
gap = abs(LR - 0.05) + abs(WARMUP - 0.2) + abs(DECAY - 0.01)
with open(os.path.join(os.environ["OVERNIGHT_OUT"], "model.safetensors"), "w") as file:
    file.write("weights")
print("---")
print(f"val_bpb: {1 + gap:.6f}")
print(f"peak_vram_mb: {512.0:.1f}")
"""
PREPARE = """\
\"\"\"Fixed: data, budget, evaluation.\"\"\"
TIME_BUDGET = 300    # seconds of training
MAX_SEQ_LEN = 2048   # tokens
EVAL_TOKENS = 20971520

if __name__ == "__main__":
    print("nothing to prepare")
"""
README = """\
# toy

Lower `val_bpb` is better. `python train.py` trains, `python prepare.py` prepares.
"""


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return [text for named, text in _BLOCK.findall(page.read_text("utf-8")) if named == language]


def commands(page: Path) -> list[str]:
    """Every command of a page, in shell blocks and between back quotes."""
    text = page.read_text("utf-8")
    found = [line for block in blocks(page, "sh") for line in block.splitlines()]
    return found + _INLINE.findall(_BLOCK.sub("", text))


def filled(command: str, table: Mapping[str, str]) -> str:
    """The command with what it leaves open put in."""
    for name, value in table.items():
        command = command.replace(name, value)
    return command


class Bench:
    """A repository of a researcher's, with `overnight` on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.repo = folder / "repo"
        self.cli = Cli(folder)
        self.bin = folder / "bin"
        self.mark = f"mark-{os.urandom(8).hex()}"
        self.bin.mkdir()
        shim = self.bin / "overnight"
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m overnight.cli "$@"\n')
        shim.chmod(0o755)
        (self.bin / "python").symlink_to(sys.executable)
        self.cli.env |= {"PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}"}
        self.cli.env |= {"STAGE_MARK": self.mark, "HOME": str(folder)}
        for place in (self.repo, self.repo / "autoresearch"):
            place.mkdir()
            for name, text in (("train.py", TRAIN), ("prepare.py", PREPARE), ("README.md", README)):
                (place / name).write_text(text)
        (folder / ".gitconfig").write_text("[user]\nname = N\nemail = n@example.org\n")
        self.git("init", "-q", "-b", "main")
        self.git("add", "train.py", "prepare.py", "README.md")
        self.git("commit", "-q", "-m", "toy")

    def git(self, *words: str) -> None:
        """Git in the repository."""
        subprocess.run(["git", *words], cwd=self.repo, env=self.cli.env, check=True)

    def start(self, command: str) -> subprocess.Popen[str]:
        """A run in the background, as soon as its session runs."""
        process = self.cli.start(*shlex.split(command)[1:], cwd=self.repo)
        deadline = time.monotonic() + 60
        while (now := self.cli.inside("status", "--json")).code or now.json["pid"] is None:
            assert process.poll() is None, finish(process)
            assert time.monotonic() < deadline, now
            time.sleep(0.1)
        return process

    def run(self, command: str) -> Done:
        """One command of a page, as it stands there but for its placeholders."""
        command = filled(command, MANY if command.startswith("overnight up") else PLACEHOLDERS)
        words = command.split()
        if words[0] == "overnight" and words[1] not in _ALONE and '"' not in command:
            return self.cli.inside(*words[1:])
        ran = subprocess.run(
            ["bash", "-c", command], cwd=self.repo, env=self.cli.env, capture_output=True,
            text=True, timeout=120, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        return Done(ran.returncode, ran.stdout, ran.stderr)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One for all; nothing of it outlives the tests."""
    made = Bench(tmp_path_factory.mktemp("skill"))
    before = Path.cwd()
    os.chdir(made.repo)
    yield made
    os.chdir(before)
    made.cli("down", cwd=made.repo)
    assert wait_for_none(str(made.repo), 5) == []


def test_every_command_of_the_skill_and_the_prompts_is_in_the_plan(bench: Bench) -> None:
    named = {command for page in PAGES for command in commands(page)}

    assert named - OUTSIDE.keys() <= {command for command, _ in PLAN}
    assert OUTSIDE.keys() <= named, "an exception for what no page says"


def test_every_command_runs_and_ends_as_it_should(bench: Bench) -> None:
    before = fingerprint(bench.repo)
    odd = []
    for command, code in PLAN:
        if command == LIVE:
            live = bench.start(filled(command, MANY))
            continue
        done = bench.run(command)
        if command == "overnight drain":
            assert finish(live).code == 0
        if done.code != code or "Traceback" in done.err:
            odd.append(f"{command}: {done.code}, not {code}: {done.out[-200:]} {done.err[-300:]}")

    assert not odd, "\n".join(odd)
    after = fingerprint(bench.repo)
    changed = {name for name in before if after.get(name) != before[name]}
    assert {name for name in changed if not name.startswith(".git/")} == {"prepare.py"}, "--seq-len"


@pytest.mark.parametrize("kind", PROMPTS)
def test_every_command_of_a_prompt_is_in_the_plan(kind: str) -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "tests/golden/prompts").glob(f"{kind}*")]
    named = {call for text in texts for call in _INLINE.findall(text) if call[:3] == "ove"}

    assert texts
    assert named <= {command for command, _ in PLAN}


def test_the_guides_example_is_a_complete_program(bench: Bench, tmp_path: Path) -> None:
    (text,) = blocks(SKILL / "references" / "program-md-guide.md", "markdown")
    (tmp_path / "program.md").write_text(text)
    done = bench.cli.inside("program", "check", "--file", tmp_path / "program.md")

    assert done.code == 0, done.out
    assert "still open" not in done.out


@pytest.mark.parametrize("track", sorted(p.parent.name for p in TRACKS.glob("*/track.yaml")))
def test_every_bundled_track_has_a_complete_program(track: str, bench: Bench) -> None:
    done = bench.cli.inside("program", "check", TRACKS / track)

    assert done.code == 0, done.out


def test_the_skill_is_installed_by_its_verb_and_its_copies_scripts_run(bench: Bench) -> None:
    place = bench.repo.parent / "agent"
    done = bench.cli.inside("skills", "install", "--to", place, "--json")
    again = bench.cli.inside("skills", "install", "--to", place)
    ran = bench.run(f"bash {place}/overnight/scripts/check-hardware.sh autoresearch")

    assert done.code == 0, done
    assert set(done.json["written"]) == {
        str(path.relative_to(SKILL)) for path in (*PAGES, *SCRIPTS)
    }
    assert "up to date" in again.out
    assert {"gpus", "cuda", "driver", "mlx", "platform", "uv"} <= ran.json["hardware"].keys()
    assert {"ok", "checks", "hardware"} <= ran.json.keys()


def test_the_front_matter_is_what_agents_read() -> None:
    _, matter, body = (SKILL / "SKILL.md").read_text("utf-8").split("---\n", 2)
    told = yaml.safe_load(matter)

    assert told["name"] == SKILL.name == "overnight"
    assert re.fullmatch(r"[a-z0-9-]{1,64}", told["name"])
    assert 100 < len(told["description"]) <= 1024
    assert set(told) <= {"name", "description", "license", "compatibility", "metadata"}
    assert len(body.splitlines()) < 500, "a front door, no tutorial"


def test_the_front_door_names_each_page_and_script_and_no_other() -> None:
    text = (SKILL / "SKILL.md").read_text("utf-8")
    pages = set(re.findall(r"`(references/[\w.-]+)`", text))
    scripts = set(re.findall(r"`([\w-]+\.sh)\b", text))

    assert pages == {f"references/{page.name}" for page in PAGES[1:]}
    assert scripts == {script.name for script in SCRIPTS}


@pytest.mark.parametrize(
    "words",
    [
        "skill-autoresearch", "LangSmith", "Braintrust", "Weave", "Promptfoo", "ml-autoresearch",
        "survey", "Apple Silicon", "community forks", "TIME_BUDGET = 300", "MAX_SEQ_LEN",
        "EVAL_TOKENS", "program.md", "results.tsv", "Choose ONE",
    ],
)  # fmt: skip
def test_the_front_door_says_what_the_seed_says(words: str) -> None:
    assert words in (SKILL / "SKILL.md").read_text("utf-8")


def test_the_boundary_has_four_rows_and_five_modes_stand_below_it() -> None:
    text = (SKILL / "SKILL.md").read_text("utf-8")
    boundary = text.split("## The boundary")[1].split("\n## ")[0]
    rows = [line for line in boundary.splitlines() if line.startswith("| ")]

    assert len(rows) == 1 + 4
    assert re.findall(r"^## Mode (\w):", text, re.M) == list("ABCDE")


def test_the_table_by_vram_is_the_formula_that_it_names() -> None:
    text = (SKILL / "references" / "hardware-config.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) GB \| (\d+) \| (\d+) \| (\d+) \| ([\d.]+) GB \|", text, re.M)

    assert len(rows) == 8
    for vram, length, batch, tokens, peak in (tuple(map(float, row)) for row in rows):
        assert peak == pytest.approx(0.8 + 44.2 * batch * length / 262144, abs=0.05)
        assert peak < 0.85 * vram, "no head room"
        assert tokens % (batch * length) == 0, "the evaluation would be cut short"
        assert 2**19 % (batch * length) == 0, "does not divide upstream's TOTAL_BATCH_SIZE"
    assert "Computed, not measured" in text


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_without_overnight_says_so_in_one_line(script: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        ["/bin/sh", str(script)], cwd=tmp_path, env={"PATH": str(tmp_path)}, check=False,
        capture_output=True, text=True,
    )  # fmt: skip

    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (3, "", 1)
    assert ran.stderr.startswith(f"{script.name}: overnight is not on the PATH")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_takes_the_flags_that_its_usage_names(script: Path, bench: Bench) -> None:
    usage = script.read_text("utf-8").splitlines()[2]
    flags = set(re.findall(r"--[\w-]+", usage))
    wanted = {"setup.sh": {"--seq-len"}, "run-loop.sh": {"--max", "--desc"},
              "show-results.sh": {"--top"}}  # fmt: skip
    told = bench.cli.inside(*_verb(script), "--help").out

    assert flags == wanted.get(script.name, set())
    assert all(flag in told for flag in flags)
    assert script.stat().st_mode & stat.S_IXUSR
    refused = bench.run(f"bash {script} --no-such-flag")
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def _verb(script: Path) -> list[str]:
    """What the script ends in, without its arguments."""
    words = re.findall(r"^(?:exec )?overnight (.*)$", script.read_text("utf-8"), re.M)
    return [word for word in words[0].split() if not word.startswith(("-", '"'))]
