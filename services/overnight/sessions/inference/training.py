"""Which script trains, and the command that starts it: from README, shell scripts, pyproject."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from overnight.configuration.interpreter import UV_FLAGS
from overnight.contracts.errors import UsageError
from overnight.sessions.inference.finding import UnknownBindingError
from overnight.sessions.inference.route import route_out
from overnight.sessions.sources import Command, Place, Repository, Script

#: Words of a file's name. What prepares, shows or scores is not what trains.
_TRAINS = frozenset({"train", "training", "pretrain", "finetune", "fit", "main", "run", "speedrun"})
_SERVES = frozenset(
    {"prepare", "preprocess", "download", "data", "dataset", "eval", "evaluate", "test", "tests"}
    | {"plot", "sample", "demo", "infer", "inference", "serve", "app", "setup", "config", "export"}
    | {"launch", "launcher", "tokenize", "tokenizer", "convert", "score", "judge", "grade", "utils"}
    | {"bench", "benchmark", "generate", "visualize", "conftest", "build"}
)
_APPLE = frozenset({"mlx", "mps", "metal", "macos"})
_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?\Z")
_ALONE = "the only script that prints results"
_SHELLS = ("bash", "sh")
_OUTPUT = re.compile(r"--(?:output|out|save|log|checkpoint)[_-]?(?:dir|path|folder)?\Z")
#: Set for one machine by whoever wrote the README; devices are Overnight's to give.
_MACHINE = frozenset({"CUDA_VISIBLE_DEVICES", "WANDB_MODE", "HF_HUB_OFFLINE"})


@dataclass(frozen=True, kw_only=True)
class Training:
    """What is started."""

    script: Script
    words: tuple[str, ...]  #: run_cmd
    evidence: str
    folder: str = ""  #: where it is started, relative
    env: tuple[tuple[str, str], ...] = ()
    env_place: Place | None = None


def find_training(repo: Repository, given: Mapping[str, Any]) -> Training:
    """The training script and its command.

    Raises:
        UsageError: none, or one that does not exist; names the flag. A repository that the system
            is not for: says where to go instead.
    """
    if given.get("run_cmd"):
        return _given(repo, tuple(given["run_cmd"]))
    ranked = sorted(_shown(repo), key=_order(repo))
    best = ranked[0] if ranked else None
    named = repo.script("train.py")
    if named is not None and (best is None or _rank(best[0]) <= _rank(named)):
        best = next((one for one in ranked if one[0] is named), None)
        if best is None:
            return _plain(repo, named, "train.py by its name")
    if best is not None and _rank(best[0]) > 0:
        _refuse_zoo(repo, best, ranked)
        return _started(repo, *best)
    alone = _alone_script(repo)
    if alone is not None:
        shown = next((one for one in ranked if one[0] is alone), None)
        return _started(repo, *shown) if shown else _plain(repo, alone, _ALONE)
    if best is not None and (_prints(best[0]) or _rank(best[0]) == 0):
        return _started(repo, *best)
    raise UnknownBindingError(
        "run_cmd",
        route_out(repo)
        or f"no training script found in {repo.root}: name it with --run-cmd 'python FILE.py'",
    )


def _order(repo: Repository) -> Callable[[tuple[Script, Command]], tuple[int, int, int]]:
    """The likeliest first: by name and prints; then what a README shows next after it prepared
    data (that data is for this command); then the shortest."""
    prepared = next(
        (one.place for one in repo.commands() if any(map(_prepares, one.words))), None
    )  # fmt: skip

    def key(shown: tuple[Script, Command]) -> tuple[int, int, int]:
        script, command = shown
        place = command.place
        follows = (
            prepared is not None and place.file == prepared.file and place.line >= prepared.line
        )
        return -_rank(script), place.line if follows else 10**9, len(command.words)

    return key


def _prepares(word: str) -> bool:
    stem = word.rpartition("/")[2]
    return word.endswith(".py") and stem.startswith(("prepare", "preprocess", "download"))


def _refuse_zoo(
    repo: Repository, best: tuple[Script, Command], ranked: list[tuple[Script, Command]]
) -> None:
    """Several folders that each train something: which one, only a person knows."""
    folders = {command.folder for script, command in ranked if _rank(script) > 0}
    if best[1].folder and len(folders) > 1:
        names = ", ".join(sorted(folders)[:4])
        raise UnknownBindingError(
            "run_cmd",
            f"several folders train something ({names}): name one, "
            f"overnight init {repo.root / best[1].folder}",
        )


def _given(repo: Repository, words: tuple[str, ...]) -> Training:
    named = [word.removeprefix("./") for word in words if word.endswith(".py")]
    script = _target(repo, words, "")
    if script is None and named:
        raise UsageError(f"--run-cmd: {named[0]} does not exist in {repo.root}")
    if script is None:
        script = _alone_script(repo) or Script(file="")
    return Training(script=script, words=words, evidence="given")


def _shown(repo: Repository) -> Iterator[tuple[Script, Command]]:
    """Every command that starts a script of the repository."""
    for command in repo.commands():
        folder = command.folder
        if folder and not (repo.root / folder).is_dir():
            folder = ""  # `git clone X; cd X; python train.py`: this is X
        here = Command(
            words=command.words, place=command.place, folder=folder, env=command.env
        )  # fmt: skip
        script = _target(repo, command.words, folder)
        if script is not None:
            yield script, here
        elif not folder and command.place.file.count("/") == 1 and "README" in command.place.file:
            # The README of a folder means that folder.
            inside = command.place.file.rpartition("/")[0]
            script = _target(repo, command.words, inside)
            if script is not None:
                yield script, Command(
                    words=command.words, place=command.place, folder=inside, env=command.env
                )  # fmt: skip


def _target(repo: Repository, words: tuple[str, ...], folder: str) -> Script | None:
    """The script that a command means: past launchers such as torchrun, uv run, bash."""
    prefix = f"{folder}/" if folder else ""
    found: list[Script] = []
    for before, word in zip(("", *words), words, strict=False):
        script = None
        if before in ("-m", "--module"):
            script = repo.module(word) if not folder else _module_in(repo, folder, word)
        elif word.endswith(".py"):
            script = repo.script(str(PurePosixPath(f"{prefix}{word}")))
        if script is not None:
            found.append(script)
    if found:
        return max(found, key=_rank)  # the first of equals
    inner = _through_shell(repo, words) if not folder else None
    if inner is not None:
        return inner
    program = _without_runner(words)[:1]
    entry = repo.entries.get(program[0]) if program else None
    return repo.module(entry[0].partition(":")[0]) if entry else None


def _module_in(repo: Repository, folder: str, name: str) -> Script | None:
    path = name.replace(".", "/")
    for tail in (f"{path}.py", f"{path}/__main__.py", f"src/{path}.py", f"src/{path}/__main__.py"):
        script = repo.script(f"{folder}/{tail}")
        if script is not None:
            return script
    return None


def _through_shell(repo: Repository, words: tuple[str, ...]) -> Script | None:
    """`bash run.sh`: the best script that run.sh starts."""
    file = next((w.removeprefix("./") for w in words if w.endswith(".sh")), None)
    if file is None:
        return None
    inside = [
        script
        for command in repo.commands()
        if command.place.file == file and command.words[0] not in _SHELLS
        for script in [_target(repo, command.words, "")]
        if script is not None
    ]
    return max(inside, key=_rank, default=None)


def _started(repo: Repository, script: Script, command: Command) -> Training:
    words = _without_runner(command.words)
    entry = repo.entries.get(words[0]) if words else None
    if words[0].endswith(".py"):
        words = ("python", *words)
    elif _PYTHON.match(words[0]):
        words = ("python", *words[1:])
    elif words[0].startswith("./") and words[0].endswith(".sh"):
        words = ("bash", words[0].removeprefix("./"), *words[1:])
    elif entry is not None:
        words = (*_entry_words(script, entry[0]), *words[1:])
    words, moved = _outputs_inside(words)
    if command.folder:
        words = ("env", "-C", command.folder, *words)
    env = [pair for pair in command.env if pair[0] not in _MACHINE]
    place = command.place
    if _needs_source_path(script, words, command.folder) and "PYTHONPATH" not in dict(env):
        env.append(("PYTHONPATH", "src"))
    evidence = f"{command.place}: {command.shown}"
    return Training(
        script=script, words=words, folder=command.folder, env=tuple(env), env_place=place,
        evidence=f"{evidence} ({moved} moved into the tree)" if moved else evidence,
    )  # fmt: skip


def _plain(repo: Repository, script: Script, why: str) -> Training:
    return Training(script=script, words=("python", script.file), evidence=why)


def _without_runner(words: tuple[str, ...]) -> tuple[str, ...]:
    """Nothing is resolved at run time: `uv run X` is X in the environment as it is."""
    if words[:2] in (("poetry", "run"), ("pdm", "run")):
        return words[2:]
    if words[:2] != ("uv", "run"):
        return words
    rest = list(words[2:])
    while rest and rest[0] in UV_FLAGS:
        rest.pop(0)
    if rest[:1] == ["-m"]:
        return ("python", *rest)
    return tuple(rest[1:] if rest[:1] == ["--"] else rest) or words


def _entry_words(script: Script, target: str) -> tuple[str, ...]:
    """A console script runs what is installed, not the candidate: its module instead."""
    module, _, function = target.partition(":")
    if "__main__" in script.text:
        return ("python", "-m", module)
    return ("python", "-c", f"import sys; from {module} import {function}; sys.exit({function}())")


def _needs_source_path(script: Script, words: tuple[str, ...], folder: str) -> bool:
    """A package below src/ is found through its installation otherwise: the user's own copy."""
    inside = script.file.removeprefix(f"{folder}/") if folder else script.file
    return inside.startswith("src/") and ("-m" in words or "-c" in words)


def _outputs_inside(words: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """`--output_dir /tmp/x` lies outside of what a candidate may leave: `--output_dir x`."""
    result, moved = list(words), ""
    for at, word in enumerate(words):
        option, _, value = word.partition("=")
        if not _OUTPUT.match(option):
            continue
        value = value or (words[at + 1] if at + 1 < len(words) else "")
        if value.startswith(("/", "~")):
            inside = PurePosixPath(value).name or "out"
            target = at if "=" in word else at + 1
            result[target] = f"{option}={inside}" if "=" in word else inside
            moved = option
    return tuple(result), moved


def _alone_script(repo: Repository) -> Script | None:
    top = [one for one in repo.scripts if "/" not in one.file and _prints(one)]
    top = [one for one in top if _rank(one) > 0] if len(top) > 1 else top
    return top[0] if len(top) == 1 else None


def _prints(script: Script) -> bool:
    return bool(script.printed or script.written)


def _rank(script: Script) -> int:
    """By the file's name, then by whether it says a result."""
    path = PurePosixPath(script.file)
    words = set(re.split(r"[^a-z]+", path.stem.lower()))
    words |= (
        set(re.split(r"[^a-z]+", path.parent.name.lower())) if path.stem == "__main__" else set()
    )
    if words & {"train", "training", "pretrain", "finetune"}:
        name = 4
    elif words & _SERVES:
        name = -2
    else:
        name = 2 if words & _TRAINS else 0
    if words & _APPLE and sys.platform != "darwin":
        name -= 1
    return name + (1 if _prints(script) else 0)
