"""A loop's bindings: every bad one is one line that names the key, every source has its rank."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overnight.configuration import ResolvedLoop, resolve_loop
from overnight.contracts.errors import ConfigError
from overnight.contracts.loop import LoopConfig, SessionLimits, Simplicity
from overnight.contracts.status import Direction, Gate
from overnight.contracts.wire import decode, encode

PLAIN = "metric: val_bpb\nrun_cmd: python train.py\neditable_files: train.py\n"

#: design's whole file, every key at the value that this version takes
WHOLE = """
metric:
  name: val_bpb
  direction: minimize
  source: stdout_line
  target: null
constraints: []
guard: null
research: {question: null, starting_hypothesis: null}
run_cmd: [python, train.py]
editable_files: [train.py]
frozen_files: auto
iter_strategy: snapshots
sandbox_root: ./sandbox
gate: time
budget: 300
kill_factor: 2.0
startup_grace: 0
eval_grace: 0
deadline_seconds: null
seed: 0
python: auto
env: {}
pass_env: []
reads: []
network: none
prepare: null
image: null
gpus: 1
scoring: printed
policy:
  autonomy: never_stop
  ask_after_degradations: 3
  approval: none
  prefetch: 1
  simplicity: {per_line: 0.00005, tie_epsilon: auto}
  confirm: {runs: 0, max_share: 0.25}
  limits: {experiments: null, hours: null, gpu_hours: null, usd: null, vram_gb: null,
           per_experiment: {gpu_hours: null, usd: null}}
  require_program: false
proposer: {name: search}
pools: {default: {executor: process, runners: auto, usd_per_hour: null}}
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "train.py").write_text("print('val_bpb: 1')\n")
    (folder / "prepare.py").write_text("")
    return folder


def resolve(
    repo: Path,
    text: str | None = PLAIN,
    *,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    track: str | None = None,
) -> ResolvedLoop:
    if text is not None:
        (repo / "loop.run.yaml").write_text(text)
    track_file = None
    if track is not None:
        track_file = repo.parent / "track.yaml"
        track_file.write_text(track)
    return resolve_loop(repo, flags=flags or {}, environ=environ or {}, track=track_file)


def refusal(repo: Path, text: str | None = PLAIN, **more: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(repo, text, **more)
    message = str(caught.value)
    assert message.isprintable(), "one line"
    return message.replace(str(repo), "REPO")


def test_the_whole_file_of_this_version_gives_the_defaults(repo: Path) -> None:
    minimal = LoopConfig.model_validate_json(
        '{"metric": {"name": "val_bpb"}, "run_cmd": ["python", "train.py"],'
        ' "editable_files": ["train.py"]}'
    )

    assert resolve(repo, WHOLE).config == minimal


def test_a_file_of_the_scalar_bindings_alone_loads(repo: Path) -> None:
    text = (
        "metric: val_loss\nentrypoint: uv run train.py\neditable_files: train.py\n"
        "sandbox_root: ./runs\niter_strategy: branches\ngate: time\nbudget: 60\n"
    )
    found = resolve(repo, text)

    assert found.config.metric.direction is Direction.MINIMIZE
    assert found.config.run_cmd == ("uv", "run", "train.py")
    assert found.config.editable_files == ("train.py",)
    assert found.config.budget == 60.0
    assert found.session_root == repo / "runs"


def test_the_resolved_config_survives_the_ledger(repo: Path) -> None:
    config = resolve(repo, WHOLE).config

    assert decode(LoopConfig, encode(config)) == config


LINE = "loop.run.yaml:4: "
BAD_KEYS = {
    "budgte: 3": "budgte is not a known key: did you mean budget?",
    "xyzzy: 3": "xyzzy is not a known key",
    "policy: {prefech: 1}": "policy.prefech is not a known key: did you mean prefetch?",
    "budget: 300\nbudget: 60": "budget stands twice (first on line 4)",
    "budget: abc": "budget: must be a number without a unit, not 'abc'",
    "budget: 5m": "budget: must be a number without a unit, not '5m'",
    "budget: null": "budget: must be a number, not null",
    "budget: -1": "budget: -1 is out of range: input should be greater than 0",
    "budget: [1]": "budget: must be a number, not [1]",
    "kill_factor: 0.5": "kill_factor: 0.5 is out of range: "
    "input should be greater than or equal to 1",
    "seed: 1.5": "seed: must be a whole number, not 1.5",
    "seed: true": "seed: must be a whole number, not true",
    "gate: wall": "gate: must be time, cpu_time, epochs or steps, not wall",
    "network: open": "network: must be none or host, not open",
    "env: {A: 1}": 'env.A: must be text, not 1 (write "1" in quotes)',
    "env: {A: true}": 'env.A: must be text, not true (write "true" in quotes)',
    "env: [a]": "env must be a mapping, not ['a']",
    "env: {HOME: /x}": "env.HOME: HOME is set by Overnight itself: remove it",
    "pass_env: OVERNIGHT_SEED": "pass_env: OVERNIGHT_SEED is set by Overnight itself: remove it",
    "policy: 3": "policy must be a mapping, not 3",
    "entrypoint: a": "entrypoint and run_cmd are the same key: keep one",
    "pools: {default: {runners: many}}": "pools.default.runners: "
    "must be auto or a whole number from 1 to 1024, not 'many'",
    "frozen_files: 3": "frozen_files: must be auto or a list of paths, not 3",
    "plausible: {min: 0}": "plausible can be set by a track.yaml only",
    "python: ./nope": "python: REPO/nope is no program that can be run",
    "reads: /none/such": "reads: /none/such does not exist: correct or remove it",
    "reads: $NOPE/x": "reads: '$NOPE/x': the variable NOPE is not set",
    "reads: ~other/x": "reads: '~other/x': only ~/ of the current user is understood",
    "reads: .": "reads: REPO would show candidates the session's folder: REPO/sandbox",
    "sandbox_root: .": "sandbox_root: . holds the repository: name a folder of its own",
    "sandbox_root: /": "sandbox_root: / holds the repository: name a folder of its own",
    "sandbox_root: .git/x": "sandbox_root: .git/x lies in .git: name a folder of its own",
    "sandbox_root: ../x": "sandbox_root: ../x leads out of the repository: "
    "give an absolute path instead",
    "sandbox_root: train.py": "sandbox_root: train.py is not a folder",
    "frozen_files: [train.py]": "frozen_files: train.py covers the editable file train.py",
    "frozen_files: [nope.py]": "frozen_files: nope.py does not exist in REPO: "
    "correct the name or add the file",
}


@pytest.mark.parametrize("lines", BAD_KEYS)
def test_a_bad_key_is_named_with_its_line(repo: Path, lines: str) -> None:
    text = PLAIN + lines + "\n"
    message = refusal(repo, text)

    line = "loop.run.yaml:5: " if "\n" in lines else LINE
    assert message == line + BAD_KEYS[lines]


BAD_METRICS = {
    "metric: 3": "loop.run.yaml:1: metric must be a mapping, not 3",
    "metric: a b": "loop.run.yaml:1: metric.name: 'a b' is not a valid name",
    "metric: {name: score}": "loop.run.yaml:1: metric.direction is missing: "
    "write minimize or maximize",
    "metric: {name: x, direction: down}": "loop.run.yaml:1: metric.direction: "
    "must be minimize or maximize, not down",
    "metric: val_accuracy": "loop.run.yaml:1: metric: val_accuracy reads as higher is better, "
    "the short form means lower: write metric: {name: val_accuracy, direction: maximize} "
    "(or minimize)",
}


@pytest.mark.parametrize("metric", BAD_METRICS)
def test_a_bad_metric_is_named(repo: Path, metric: str) -> None:
    assert refusal(repo, PLAIN.replace("metric: val_bpb", metric)) == BAD_METRICS[metric]


BAD_COMMANDS = {
    "python train.py && rm x": "'&&' needs a shell and none is used: give a list of arguments, "
    "or put the command into a script (run_cmd: bash run.sh)",
    "python train.py | tee log": "'|' needs a shell",
    "python train.py > run.log 2>&1": "'>' needs a shell",
    "python train.py; ls": "';' needs a shell",
    "python $HOME/train.py": "'$' needs a shell",
    'python "$HOME/train.py"': "'$' needs a shell",
    "python `which x`": "'`' needs a shell",
    "python *.py": "'*' needs a shell",
    "python ~/train.py": "'~' needs a shell",
    "LR=3 python train.py": "'LR=3' sets a variable: put it under env: instead",
    "python 'train.py": "can't be split into arguments: no closing quotation",
    "": "is empty: name the command, e.g. python train.py",
    "python nope.py": "nope.py does not exist in REPO: correct the name or add the file",
    "python ../train.py": "'../train.py' leads out of the repository",
    "./run.sh": "./run.sh does not exist in REPO: correct the name or add the file",
    "./train.py": "./train.py can't be executed: chmod +x ./train.py",
}


@pytest.mark.parametrize("command", BAD_COMMANDS)
def test_a_command_that_can_not_be_run_is_named_with_the_fix(repo: Path, command: str) -> None:
    text = PLAIN.replace("run_cmd: python train.py", f"run_cmd: {json.dumps(command)}")
    message = refusal(repo, text)

    # The clean form of ./run.sh is run.sh in messages on existence.
    expected = BAD_COMMANDS[command].replace("./run.sh", "run.sh")
    assert message.startswith(f"loop.run.yaml:2: run_cmd: {expected}")


def test_quotes_and_escapes_split_as_a_shell_would(repo: Path) -> None:
    text = PLAIN.replace("python train.py", r"""python train.py --note 'a & b' --x=\$1 "c d" '$'""")

    assert resolve(repo, text).config.run_cmd == (
        "python", "train.py", "--note", "a & b", "--x=$1", "c d", "$",
    )  # fmt: skip


BAD_FILES = {
    "/etc/passwd": "must be a relative path inside the repository",
    "../x.py": "must be a relative path inside the repository",
    "nope.py": "nope.py does not exist in REPO: correct the name or add the file",
    "link.py": "link.py goes through a symbolic link: name the file itself",
    "linked/train.py": "linked/train.py goes through a symbolic link: name the file itself",
    "folder": "folder is a folder: name the files in it",
    ".": "'.' is the repository itself: name files in it",
    ".git/config": "'.git/config' lies in .git",
    "loop.run.yaml": "loop.run.yaml is Overnight's own",
    "sandbox/x.py": "sandbox/x.py is Overnight's own",
}


@pytest.mark.parametrize("path", BAD_FILES)
def test_a_file_that_must_not_be_edited_is_named(repo: Path, path: str) -> None:
    (repo / "folder").mkdir()
    (repo / "sandbox").mkdir()
    (repo / "sandbox/x.py").write_text("")
    (repo.parent / "elsewhere").mkdir()
    (repo.parent / "elsewhere/train.py").write_text("")
    (repo / "linked").symlink_to(repo.parent / "elsewhere")
    (repo / "link.py").symlink_to("train.py")
    message = refusal(repo, PLAIN.replace("editable_files: train.py", f"editable_files: {path}"))

    assert message.startswith("loop.run.yaml:3: editable_files")
    assert message.endswith(BAD_FILES[path])


def test_the_same_file_twice_is_seen_through_its_spelling(repo: Path) -> None:
    text = PLAIN.replace("editable_files: train.py", "editable_files: [train.py, ./train.py]")

    assert refusal(repo, text) == "loop.run.yaml:3: editable_files: train.py stands twice"


LATER = [
    "scoring: audited",
    "policy: {confirm: {runs: 2}}",
    "proposer: {name: llm, model: x}",
    "proposer: agent",
    "pools: {default: {executor: kubernetes}}",
    "pools: {gpu: {executor: process}}",
]


@pytest.mark.parametrize("line", LATER)
def test_a_feature_that_does_not_exist_yet_says_so(repo: Path, line: str) -> None:
    message = refusal(repo, PLAIN + line + "\n")

    assert message.startswith(LINE + line.split(":")[0])
    assert "is not in this version" in message


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("{autonomy: ask, ask_after_degradations: 5}", "ask_after_degradations", 5),
        ("{simplicity: {per_line: 0}}", "simplicity", Simplicity(per_line=0.0)),
        ("{simplicity: {tie_epsilon: 0.01}}", "simplicity", Simplicity(tie_epsilon=0.01)),
        ("{limits: {vram_gb: 24}}", "limits", SessionLimits(vram_gb=24.0)),
        ("{repair_tries: 0}", "repair_tries", 0),
    ],
)
def test_what_the_policy_takes(repo: Path, line: str, key: str, value: object) -> None:
    assert getattr(resolve(repo, PLAIN + f"policy: {line}\n").config.policy, key) == value


@pytest.mark.parametrize(
    "line",
    [
        "{autonomy: maybe}",
        "{ask_after_degradations: 0}",
        "{simplicity: {per_line: -1}}",
        "{simplicity: {tie_epsilon: small}}",
        "{simplicity: {tie_epsilon: .nan}}",
        "{limits: {vram_gb: 0}}",
        "{repair_tries: 99}",
    ],
)
def test_what_the_policy_refuses_names_the_key(repo: Path, line: str) -> None:
    message = refusal(repo, PLAIN + f"policy: {line}\n")

    assert "\n" not in message
    key = re.findall(r"([a-z_]+):", line)[-1]
    assert key in message


def test_no_file_at_all_names_init(repo: Path) -> None:
    assert refusal(repo, None) == (
        "no loop.run.yaml in REPO: run `overnight init` there "
        "(metric, run_cmd, editable_files unset)"
    )
    assert refusal(repo, "metric: val_bpb\n") == (
        "loop.run.yaml: run_cmd, editable_files missing: add it, or run `overnight init` again"
    )


def test_flag_beats_environment_beats_file_beats_track_beats_default(repo: Path) -> None:
    track = "name: tiny\nbudget: 1\nkill_factor: 3\ngate: steps\nseed: 5\nplausible: {min: 0.1}\n"
    text = PLAIN + "budget: 2\nkill_factor: 4\ngate: cpu_time\n"
    environ = {"OVERNIGHT_BUDGET": "3", "OVERNIGHT_KILL_FACTOR": "5"}
    found = resolve(repo, text, track=track, environ=environ, flags={"budget": 4})

    assert found.config.budget == 4.0
    assert found.config.kill_factor == 5.0
    assert found.config.gate is Gate.CPU_TIME
    assert found.config.seed == 5
    assert found.config.plausible.min == 0.1
    assert found.config.network == "none"
    assert [found.origin(key) for key in ("budget", "kill_factor", "gate", "seed", "network")] == [
        "--budget",
        "OVERNIGHT_KILL_FACTOR",
        "loop.run.yaml:6",
        "track.yaml:5",
        "default",
    ]


def test_a_flag_that_was_not_given_sets_nothing(repo: Path) -> None:
    assert resolve(repo, flags={"budget": None}).config.budget == 300.0


def test_the_environment_reaches_deep_keys_and_keeps_text_as_text(repo: Path) -> None:
    environ = {
        "OVERNIGHT_POLICY__PREFETCH": "0",
        "OVERNIGHT_ENV__LR": "1e-3",
        "OVERNIGHT_ENV__EMPTY": "",
        "OVERNIGHT_RUN_CMD": "python -u train.py",
        "OVERNIGHT_EDITABLE_FILES": "[train.py, prepare.py]",
        "OVERNIGHT_POOLS__DEFAULT__RUNNERS": "2",
        "OVERNIGHT_METRIC": "val_loss",
        "OVERNIGHT_BUDGET": "",
        "OVERNIGHT_STATE": "/x",
        "OVERNIGHT_RUNNER_LEASE_SECONDS": "3",
        "OVERNIGHT_SOMETHING_ELSE": "1",
    }
    config = resolve(repo, environ=environ).config

    assert config.policy.prefetch == 0
    assert config.env == {"LR": "1e-3", "EMPTY": ""}
    assert config.run_cmd == ("python", "-u", "train.py")
    assert config.editable_files == ("train.py", "prepare.py")
    assert config.pools["default"].runners == 2
    assert config.metric.name == "val_loss"
    assert config.budget == 300.0


BAD_VARIABLES = {
    ("OVERNIGHT_BUGDET", "7"): "OVERNIGHT_BUGDET is not a known key: "
    "did you mean OVERNIGHT_BUDGET?",
    ("OVERNIGHT_BUDGET", "x"): "OVERNIGHT_BUDGET: must be a number without a unit, not 'x'",
    ("OVERNIGHT_POLICY__FOO", "1"): "OVERNIGHT_POLICY__FOO is not a known key",
    ("OVERNIGHT_SCORING", "audited"): "OVERNIGHT_SCORING: 'audited' is not in this version "
    "(only: printed)",
    ("OVERNIGHT_READS", "[a"): "OVERNIGHT_READS:1: not YAML: "
    "expected ',' or ']', but got '<stream end>'",
    ("OVERNIGHT_BUDGET", "1e999"): "OVERNIGHT_BUDGET: the number '1e999' is out of range",
    ("OVERNIGHT_STATE", "here"): "OVERNIGHT_STATE: must be an absolute path, not 'here'",
}


@pytest.mark.parametrize("variable", BAD_VARIABLES)
def test_a_bad_variable_is_named(repo: Path, variable: tuple[str, str]) -> None:
    assert refusal(repo, environ=dict([variable])) == BAD_VARIABLES[variable]


def test_short_and_long_form_of_one_key_contradict(repo: Path) -> None:
    environ = {"OVERNIGHT_METRIC": "a", "OVERNIGHT_METRIC__TARGET": "1"}

    assert refusal(repo, environ=environ) == (
        "OVERNIGHT_METRIC__TARGET contradicts the shorter form of the same key: keep one"
    )


def test_another_proposer_does_not_inherit_the_options_of_the_first(repo: Path) -> None:
    text = PLAIN + "proposer: {name: search, startup: 5}\n"

    assert resolve(repo, text).config.proposer.options == {"startup": 5}
    assert resolve(repo, text, flags={"proposer.name": "random"}).config.proposer.options == {}
    assert resolve(repo, text, flags={"proposer.name": "search"}).config.proposer.options == {
        "startup": 5
    }


def test_another_metric_does_not_inherit_the_direction_of_the_first(repo: Path) -> None:
    text = PLAIN.replace("metric: val_bpb", "metric: {name: val_acc, direction: maximize}")

    assert resolve(repo, text, flags={"metric.name": "val_loss"}).config.metric.direction is (
        Direction.MINIMIZE
    )


def test_reads_are_expanded_from_the_given_environment(repo: Path, tmp_path: Path) -> None:
    for name in ("home/.cache", "data", "repo/local"):
        (tmp_path / name).mkdir(parents=True)
    text = PLAIN + "reads: ['~/.cache', '${DATA}', local, '~/.cache/']\n"
    environ = {"HOME": str(tmp_path / "home"), "DATA": str(tmp_path / "data")}

    assert resolve(repo, text, environ=environ).config.reads == (
        str(tmp_path / "home/.cache"),
        str(tmp_path / "data"),
        str(repo / "local"),
    )


def test_a_link_does_not_open_the_session_to_candidates(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to(repo)

    assert "would show candidates the session's folder" in refusal(
        repo, PLAIN + f"reads: {tmp_path / 'way'}\n"
    )


def test_the_embedded_services_stay_out_of_reach(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    environ = {"OVERNIGHT_STATE": "/tmp"}

    assert "would show candidates the embedded services' folder" in refusal(
        repo, PLAIN + f"reads: {tmp_path / 'state'}\n", environ=environ
    )


def test_an_absolute_sandbox_root_elsewhere_is_taken(repo: Path, tmp_path: Path) -> None:
    text = PLAIN + f"sandbox_root: {tmp_path / 'big disk'}\n"

    assert resolve(repo, text).session_root == tmp_path / "big disk"


def test_a_sandbox_root_that_is_a_link_out_of_the_repository_is_refused(
    repo: Path, tmp_path: Path
) -> None:
    (repo / "sandbox").symlink_to(tmp_path)

    assert "holds the repository" in refusal(repo)
    (repo / "sandbox").unlink()
    (tmp_path / "other").mkdir()
    (repo / "sandbox").symlink_to(tmp_path / "other")
    assert "leads out of the repository" in refusal(repo)


KEYS = """metric run_cmd entrypoint editable_files frozen_files sandbox_root gate budget seed env
reads policy proposer pools constraints name direction source default runners confirm x"""
KEY = st.sampled_from(KEYS.split())
VALUE = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
        st.sampled_from(["val_bpb", "train.py", "python train.py", "auto", "minimize", "time"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEY, inner, max_size=4)),
    max_leaves=8,
)  # fmt: skip


def assert_config_or_one_line(repo: Path, environ: dict[str, str]) -> None:
    message = ""
    try:
        config = resolve_loop(repo, flags={}, environ=environ).config
    except ConfigError as error:
        message = str(error)
    else:
        assert decode(LoopConfig, encode(config)) == config
    assert message.isprintable(), repr(message)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.dictionaries(KEY, VALUE, max_size=6), st.text(max_size=80)))
def test_any_text_is_a_config_or_one_line(repo: Path, value: dict[str, Any] | str) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    for whole in (text, PLAIN + text):
        (repo / "loop.run.yaml").write_bytes(whole.encode("utf-8", "replace"))
        assert_config_or_one_line(repo, {})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(KEY, VALUE, max_size=3))
def test_any_keys_beside_the_plain_ones_are_a_config_or_one_line(
    repo: Path, more: dict[str, Any]
) -> None:
    base = {"metric": "val_bpb", "run_cmd": "python train.py", "editable_files": "train.py"}
    (repo / "loop.run.yaml").write_text(json.dumps(base | more))
    assert_config_or_one_line(repo, {})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(KEY, st.text(max_size=30))
def test_any_variable_is_a_config_or_one_line(repo: Path, key: str, value: str) -> None:
    (repo / "loop.run.yaml").write_text(PLAIN)
    assert_config_or_one_line(repo, {f"OVERNIGHT_{key.upper()}": value})


def test_the_bundled_track_is_a_whole_loop() -> None:
    track = Path(__file__).parents[3] / "harness/tracks/tiny_lm"
    found = resolve_loop(track, flags={}, environ={}, track=track / "track.yaml")

    assert found.config.metric.name == "val_bpb"
    assert found.config.gate is Gate.CPU_TIME
    assert found.origin("budget").startswith("track.yaml:")


def test_a_folder_whose_name_is_not_utf8_is_refused_at_once(tmp_path: Path) -> None:
    """Its path stands in JSON files, which could not be read again."""
    folder = tmp_path / os.fsdecode(b"x\xff")
    folder.mkdir()
    with pytest.raises(ConfigError, match="is not UTF-8"):
        resolve_loop(folder, flags={}, environ={})
