"""metric.source, constraints and guard: one line for each way to get them wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.configuration.test_loop import PLAIN, refusal, repo, resolve

from overnight.contracts.loop import CommandSource, Constraint, JsonSource, LoopConfig, RegexSource
from overnight.contracts.wire import decode, encode

__all__ = ["repo"]


AT = JsonSource.model_validate({"json": "out/r.json", "key": "a.b"})


def sourced(source: str) -> str:
    metric = f"metric: {{name: val_bpb, direction: minimize, source: {source}}}"
    return PLAIN.replace("metric: val_bpb", metric)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("stdout_line", "stdout_line"),
        ("null", "stdout_line"),
        (r"{regex: 'val:(\S+)'}", RegexSource(regex=r"val:(\S+)", take="last")),
        (r"{regex: 'v(?:a|b)(\S+)', take: min}", RegexSource(regex=r"v(?:a|b)(\S+)", take="min")),
        ("{json: out/r.json, key: a.b}", AT),
        ("{command: python prepare.py -x}", CommandSource(command=("python", "prepare.py", "-x"))),
        ("{command: [sh, -c, 'cat x | y']}", CommandSource(command=("sh", "-c", "cat x | y"))),
    ],
)  # fmt: skip
def test_a_source_is_read(repo: Path, source: str, found: object) -> None:
    config = resolve(repo, sourced(source)).config

    assert config.metric.source == found
    assert decode(LoopConfig, encode(config)) == config, "survives the ledger"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("5", "{regex: '...'}, {json: FILE, key: KEY} or {command: [...]}, not 5"),
        ("stdout", "must be stdout_line"),
        ("{}", "must be stdout_line"),
        ("{gym: arith}", "{gym: ...} is not in this version"),
        ("{regex: '(a)', json: x}", "has regex and json: keep one"),
        ("{regex: '(a)', tke: min}", ".tke is not a known key here (there are: regex, take)"),
        ("{take: min}", "must be stdout_line"),
        ("{regex: '(a)', take: median}", ".take must be one of last, min, max, only, not 'median'"),
        ("{regex: 'a'}", ".regex: 'a' has 0 groups, not one: put the number into one"),
        ("{regex: '(a)(b)'}", ".regex: '(a)(b)' has 2 groups, not one: write (?:...)"),
        ("{regex: '(a'}", ".regex: '(a' is no regular expression: missing ), unterminated"),
        ("{regex: '(a){99999999999}'}", "is no regular expression"),
        ("{regex: '(?L)(a)'}", "is no regular expression"),
        ("{regex: 5}", ".regex must be a regular expression, not 5"),
        ("{regex: ''}", ".regex must be a regular expression"),
        ("{json: r.json}", ".key must be text, not null: write {json: results.json"),
        ("{json: 5, key: a}", ".json must be text, not 5"),
        ("{json: /etc/passwd, key: a}", "relative path inside the repository"),
        ("{json: ../x.json, key: a}", "relative path inside the repository"),
        ("{json: train.py, key: a}", "train.py is editable: a proposal could write the number"),
        ("{json: link/r.json, key: a}", "link is a link: only what lies in the tree is taken"),
        ("{json: folder, key: a}", "folder is a folder"),
        ("{regex: '(a)" + "b" * 600 + "'}", ".regex is too long"),
        ("{json: r.json, key: " + "k" * 300 + "}", ".key is too long"),
        ("{json: r.json, key: [a]}", ".key must be text"),
        ("{command: [" + ", ".join(["a"] * 300) + "]}", ".command is too long"),
        ("{command: []}", "is empty"),
        ("{command: 'a && b'}", "'&&' needs a shell"),
        ("{command: 5}", "must be a list of words, not 5"),
        ("{command: [python, missing.py]}", "missing.py does not exist"),
        ("{command: [python, train.py]}", "train.py is editable, so that a candidate could change"),
        ("{command: [python, ./train.py]}", "train.py is editable"),
        ("{command: [python, -m, train]}", "train.py is editable"),
    ],
)  # fmt: skip
def test_a_wrong_source_is_one_line_with_the_fix(repo: Path, source: str, words: str) -> None:
    (repo / "folder").mkdir()
    (repo / "link").symlink_to("folder")
    message = refusal(repo, sourced(source))

    assert message.startswith("loop.run.yaml:1: metric.source")
    assert words in message


def test_the_metrics_file_must_be_one_that_a_run_can_write(repo: Path) -> None:
    (repo / "out").mkdir()
    (repo / "out" / "r.json").write_text("{}")
    text = sourced("{json: out/r.json, key: a}")

    assert "out is frozen, so that no run can write out/r.json" in refusal(
        repo, text + "frozen_files: [out]\n"
    )
    assert "shows" in refusal(repo, text + "reads: [out]\n")
    assert resolve(repo, text).config.frozen_files == "auto"


def test_a_source_comes_from_the_environment_too(repo: Path) -> None:
    environ = {"OVERNIGHT_METRIC__SOURCE": "{regex: 'x:(\\d+)', take: max}"}

    assert resolve(repo, PLAIN, environ=environ).config.metric.source == RegexSource(
        regex=r"x:(\d+)", take="max"
    )


def test_constraints_are_read(repo: Path) -> None:
    text = (
        PLAIN
        + r"""constraints:
  - {name: peak_vram_mb, max: 79000}
  - {name: acc, min: 0.5, max: 1, regex: 'acc=(\S+)'}
"""
    )
    assert resolve(repo, text).config.constraints == (
        Constraint(name="peak_vram_mb", max=79000.0),
        Constraint(name="acc", min=0.5, max=1.0, regex=r"acc=(\S+)"),
    )
    assert resolve(repo, PLAIN + "constraints: null\n").config.constraints == ()


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        ("5", "must be a list: [{name: peak_vram_mb, max: 79000}]"),
        ("{name: a, max: 1}", "must be a list"),
        ("[5]", "[0] must be a mapping"),
        ("[{max: 5}]", "[0].name is missing"),
        ("[{name: a}]", "[0] bounds nothing: add min or max"),
        ("[{name: a, mx: 5}]", "[0].mx is not a known key here (there are: max, min, name, regex)"),
        ("[{name: a, max: big}]", "[0].max must be a number, not 'big'"),
        ("[{name: a, max: true}]", "[0].max must be a number, not true"),
        ("[{name: a, max: .nan}]", "[0].max must be a number"),
        ("[{name: a, min: 2, max: 1}]", "[0]: min 2 is above max 1"),
        ("[{name: a, max: 1}, {name: a, min: 1}]", "[1]: 'a' stands twice"),
        ("[{name: a, max: 1, regex: 'x'}]", "[0].regex: 'x' has 0 groups, not one"),
        ("[{name: 'a b', max: 1}]", "0.name: 'a b' is not a valid name"),
        ("[" + ", ".join(f"{{name: a{i}, max: 1}}" for i in range(17)) + "]", "is too long"),
    ],
)
def test_a_wrong_constraint_is_one_line_with_the_fix(
    repo: Path, constraints: str, words: str
) -> None:
    message = refusal(repo, PLAIN + f"constraints: {constraints}\n")

    assert message.startswith("loop.run.yaml:4: constraints")
    assert words in message


def test_a_guard_is_split_like_the_run_command(repo: Path) -> None:
    assert resolve(repo, PLAIN + "guard: pytest -q 'a b'\n").config.guard == ("pytest", "-q", "a b")
    assert resolve(repo, PLAIN + "guard: [pytest]\n").config.guard == ("pytest",)
    assert resolve(repo, PLAIN + "guard: null\n").config.guard is None


def test_a_shell_s_line_that_ends_in_a_script_is_not_taken_for_its_name(repo: Path) -> None:
    line = "cd lib && python check.py"

    guarded = resolve(repo, PLAIN + f"guard: [sh, -c, '{line}']\n")
    ran = resolve(repo, PLAIN.replace("run_cmd: python train.py", f"run_cmd: [sh, -c, '{line}']"))

    assert guarded.config.guard == ("sh", "-c", line)
    assert ran.config.run_cmd == ("sh", "-c", line)


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        ("[]", "is empty"),
        ("''", "is empty"),
        ("a | b", "'|' needs a shell"),
        ("[python, train.py, --check]", "train.py is editable, so that a candidate could change"),
        ("python -m train", "train.py is editable"),
        ("python nothing.py", "nothing.py does not exist"),
        ("5", "must be a list, not 5"),
        ("uv run train.py", "train.py is editable"),
        ("[sh, -c, 'cd . && python train.py']", "train.py is editable"),
        ("[sh, -c, 'python ./train.py; true']", "train.py is editable"),
        ("uv pip list", "only `uv run COMMAND` of uv is understood"),
    ],
)
def test_a_wrong_guard_is_one_line_with_the_fix(repo: Path, guard: str, words: str) -> None:
    message = refusal(repo, PLAIN + f"guard: {guard}\n")

    assert message.startswith("loop.run.yaml:4: guard")
    assert words in message
