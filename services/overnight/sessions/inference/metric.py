"""The metric and where it is read: a printed line, a pattern, a JSON file, a scoring command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from overnight.configuration import direction_by_name
from overnight.sessions.inference.finding import GIVEN, Finding, UnknownBindingError
from overnight.sessions.inference.training import Training
from overnight.sessions.sources import Command, Place, Printed, Prose, Repository, Script, Written

STDOUT_LINE = "stdout_line"
#: Words of names that are printed beside a metric but are none.
_NO_METRIC = frozenset(
    {"seconds", "secs", "time", "mb", "gb", "vram", "memory", "mem", "params", "param", "steps"}
    | {"step", "epoch", "epochs", "tokens", "lr", "mfu", "depth", "seed", "batch", "device"}
    | {"percent", "size", "flops", "iter", "iters", "grad", "norm", "samples", "m", "fold", "eta"}
    | {"elapsed", "rank", "world", "loaded", "saved", "dt", "ms", "parameters", "rows", "features"}
    | {"total", "number", "num", "n", "using", "saving", "loading", "tok", "throughput", "split"}
    | {"path", "dir", "file", "name", "version", "port", "count", "length", "len", "id", "index"}
)
_HELD_OUT = frozenset({"val", "valid", "validation", "eval", "test", "dev", "heldout", "cv"})
_HELD_OUT_NAME = re.compile(r"(?<![\w.])(?:val|valid|validation|eval|test|dev)_[a-z0-9_]+(?!\w)")
_HELD_OUT_BEFORE = r"\b(?:val|valid|validation|eval|evaluation|test|dev|held-?out)[ _-]"
_TRAINING = frozenset({"train", "training", "smooth", "running", "best", "min", "minimum", "max"})
_TRAINING |= {"maximum", "lowest", "highest"}
_SUMMARY = frozenset({"mean", "avg", "average", "final", "cv", "overall"})
_DECLARES = re.compile(
    r"\b(?:metric|objective|goal|optimi[sz]e|minimi[sz]e|maximi[sz]e|scored? by|"
    r"(?:lower|higher|smaller|larger) is better)\b",
    re.I,
)
_BOUND = r"(?:<=?|>=?|≤|≥|below|under|above|at most|at least|no more than|not exceed|within)"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """Its name, and its source as loop.run.yaml writes it."""

    name: Finding
    source: Finding


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    name: str
    place: Place
    verb: str
    source: Any = STDOUT_LINE
    repeated: str | None = None
    how: int = 0  #: 0 its own line, 1 a file or a pattern, 2 another command's


def find_metric(repo: Repository, training: Training, given: Mapping[str, Any]) -> Metric:
    """What is optimised.

    Raises:
        UnknownBindingError: none, or several that nothing tells apart; names the flag.
    """
    everything = _candidates(repo, training)
    name = given.get("metric.name")
    if name:
        found = [one for one in everything if one.name == name]
        best = min(found, key=lambda one: one.how, default=None)
        evidence = f"given; {best.place} {best.verb}" if best is not None else GIVEN
        best = _last_of_many(best, everything, training.script) if best is not None else None
        return Metric(name=Finding(value=name, evidence=evidence), source=_source(best, given))
    chosen = _declared(repo, everything) or _chosen(repo, everything) or _only_named(repo, training)
    if chosen is None:
        raise UnknownBindingError(
            "metric.name",
            f"no metric found: {training.script.file} must print a line `NAME: NUMBER`, "
            "e.g. print(f'val_loss: {loss:.6f}'); or name it with --metric NAME",
        )
    if chosen.repeated is not None and _is_fold(chosen.repeated):
        raise UnknownBindingError(
            "metric.name",
            f"{chosen.place} prints {chosen.name} once for each {chosen.repeated}: print their "
            "mean as a line of its own, or name what counts with --metric NAME",
        )
    evidence = f"{chosen.place} {chosen.verb}"
    chosen = _last_of_many(chosen, everything, training.script)
    return Metric(name=Finding(value=chosen.name, evidence=evidence), source=_source(chosen, given))


def _last_of_many(chosen: _Candidate, everything: list[_Candidate], script: Script) -> _Candidate:
    """A line that is printed again and again is ambiguous as a line; the last one counts.

    Not where a `---` says which one is the summary.
    """
    lines = [one for one in everything if one.name == chosen.name and one.source == STDOUT_LINE]
    summary = any(text.value.strip("\n").startswith("---") for text in script.texts)
    if chosen.source != STDOUT_LINE or summary or not any(one.repeated for one in lines):
        return chosen
    regex = rf"^\s*{re.escape(chosen.name)}\s*:\s*(\S+)\s*$".replace(r"\-", "-")
    return replace(chosen, source={"regex": regex, "take": "last"})


def printed_names(repo: Repository, training: Training) -> dict[str, Printed]:
    """All numbers that the training prints, by name: what a constraint may be about."""
    local = [*training.script.printed, *_imported(repo, training.script)]
    return {one.name: one for one in reversed(local)}


def _source(candidate: _Candidate | None, given: Mapping[str, Any]) -> Finding:
    wanted = given.get("metric.source")
    if wanted:
        return Finding.given(wanted)
    if candidate is None:
        return Finding(value=STDOUT_LINE, evidence="a line `NAME: NUMBER` on standard output")
    return Finding(value=candidate.source, evidence=str(candidate.place))


def _candidates(repo: Repository, training: Training) -> list[_Candidate]:
    script = training.script
    result = [_of_print(one) for one in (*script.printed, *_imported(repo, script))]
    for one in (script, *_modules(repo, script)):
        result += [_of_file(written, repo, training) for written in one.written]
    result += [
        _of_print(one) for other in repo.scripts for one in other.printed
        if one.in_table and other is not script
    ]  # fmt: skip
    result += _by_command(repo, training)
    result += [
        _Candidate(name=one.name, place=one.place, verb="shows it") for one in repo.samples()
    ]
    return result


def _of_print(one: Printed) -> _Candidate:
    source: Any = STDOUT_LINE
    verb = "prints it"
    if one.regex is not None:
        source = {"regex": one.regex, "take": "last"}
        verb = "logs it, for the framework's tables" if one.in_table else "prints it inside a line"
    return _Candidate(
        name=one.name, place=one.place, verb=verb, source=source, repeated=one.repeated,
        how=0 if one.regex is None else 1,
    )  # fmt: skip


def _of_file(one: Written, repo: Repository, training: Training) -> _Candidate:
    folder = (_option(training.words, one.option) if one.option else None) or one.folder
    if not folder and one.option:
        folder = _told_folder(repo, one.file)
    parts = [training.folder, folder, one.file]
    file = "/".join(part.strip("/").removeprefix("./") for part in parts if part.strip("./"))
    return _Candidate(
        name=one.name, place=one.place, verb=f"writes it to {file}", how=1,
        source={"json": file, "key": one.name},
    )  # fmt: skip


def _told_folder(repo: Repository, file: str) -> str:
    """Where the prose says that *file* is written, if the code computes its folder."""
    path = re.compile(rf"(?<![\w./~-])(?:\./)?((?:\w[\w.-]*/)+){re.escape(file)}(?![\w/])")
    found = {match[1] for line in repo.prose for match in path.finditer(line.text)}
    return found.pop() if len(found) == 1 else ""


def _option(words: tuple[str, ...], name: str) -> str | None:
    """The value of `--name` in a command."""
    spellings = {f"--{name}", f"--{name.replace('_', '-')}"}
    for at, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in spellings:
            return value if equals else (words[at + 1] if at + 1 < len(words) else None)
    return None


def _by_command(repo: Repository, training: Training) -> list[_Candidate]:
    """A second command of the README whose script prints the number that the first does not."""
    result = []
    for command in repo.commands():
        script = _scoring(repo, command)
        if script is None or script is training.script or training.script.imports(script):
            continue
        words = ("python", *command.words[1:])
        for one in script.printed:
            if one.regex is None:
                result.append(
                    _Candidate(
                        name=one.name,
                        place=one.place,
                        verb=f"prints it ({command.place})",
                        how=2,
                        source={"command": list(words)},
                    )
                )
    return result


def _scoring(repo: Repository, command: Command) -> Script | None:
    is_python = command.words[0].startswith("python") and not command.folder
    if not is_python or len(command.words) < 2 or not command.words[1].endswith(".py"):
        return None
    script = repo.script(command.words[1].removeprefix("./"))
    stem = script.file.lower() if script is not None else ""
    scores = any(word in stem for word in ("scor", "eval", "grade", "judge", "test", "bench"))
    return script if scores else None


def _imported(repo: Repository, script: Script) -> list[Printed]:
    return [one for other in _modules(repo, script) for one in other.printed]


def _modules(repo: Repository, script: Script) -> list[Script]:
    return [other for other in repo.scripts if other is not script and script.imports(other)]


def _chosen(repo: Repository, candidates: Iterable[_Candidate]) -> _Candidate | None:
    """The best of what the run itself says; then what its README shows."""
    possible = [one for one in candidates if may_be_metric(one.name)]
    said = [one for one in possible if one.verb != "shows it"]
    for group in (said, possible):
        best = _best(group)
        best = _monitored(repo, group) or best
        if len(best) > 1:
            best = _mentioned(repo, best) or best
        if len(best) > 1:
            names = ", ".join(f"{one.name} ({one.place})" for one in best)
            raise UnknownBindingError(
                "metric.name", f"several metrics are printed: {names}: choose with --metric NAME"
            )
        if best:
            return best[0]
    return None


def _declared(repo: Repository, candidates: list[_Candidate]) -> _Candidate | None:
    """The one that the README calls the metric, whatever its name, but no constraint."""
    found: dict[str, _Candidate] = {}
    for one in candidates:
        held_out = _has_held_out(candidates, one.name)
        if one.verb != "shows it" and any(
            _declares(line, one.name) and not (held_out and _is_of_held_out(line.text, one.name))
            for line in repo.prose
        ):
            before = found.get(one.name)
            if before is None or one.how < before.how:
                found[one.name] = one
    strong = [
        one for one in found.values() if any(_is_called(line, one.name) for line in repo.prose)
    ]
    if len(strong) == 1:
        return strong[0]
    # A training loss that some sentence says is minimised is not what counts; a training time is.
    fit = [
        one for one in found.values()
        if not _words(one.name) & _TRAINING or not may_be_metric(one.name)
    ]  # fmt: skip
    return fit[0] if len(fit) == 1 else None


def _has_held_out(candidates: list[_Candidate], name: str) -> bool:
    """Is `val_loss` printed beside `loss`?"""
    return any(
        _words(one.name) & _HELD_OUT and _words(one.name) - _HELD_OUT == _words(name)
        for one in candidates
    )


def _is_of_held_out(text: str, name: str) -> bool:
    """`the lowest validation loss`: that is not about `loss`, which may be the training's."""
    plain = re.sub(_HELD_OUT_BEFORE + _spelled(name), "", text, flags=re.I)
    return not mentions(plain, name)


def _declares(line: Prose, name: str) -> bool:
    text = "" if line.in_code else about(line.text, name)
    if not _DECLARES.search(text):
        return False
    bounded = rf"{_spelled(name)}[`*\"]*\s+(?:\w+\s+){{0,3}}{_BOUND}"
    return re.search(bounded, text, re.I) is None


def _is_called(line: Prose, name: str) -> bool:
    """`the metric is NAME`, `objective: NAME`."""
    called = r"\b(?:metric|objective|goal|target|score)\b(?:\s+\w+){0,2}\s*(?:is|:|=)?\s*[`*\"']*"
    return re.search(rf"{called}{_spelled(name)}(?!\w)", line.text, re.I) is not None


def _only_named(repo: Repository, training: Training) -> _Candidate | None:
    lines = [*repo.prose, *lines_of(training.script)]
    named = [
        _Candidate(
            name=match[0], place=line.place,
            verb="names it (no script prints it as plain text: check)",
        )
        for line in lines
        for match in _HELD_OUT_NAME.finditer(line.text)
        if direction_by_name(match[0]) is not None and may_be_metric(match[0])
    ]  # fmt: skip
    best = _best(named)
    return best[0] if len(best) == 1 else None


def _best(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    """The candidates of the highest rank, each name once: its best source, printed last."""
    last: dict[str, _Candidate] = {}
    for one in candidates:
        before = last.get(one.name)
        if before is None or one.how <= before.how:
            last[one.name] = one
    if not last:
        return []
    top = min(_rank(one) for one in last.values())
    return [one for one in last.values() if _rank(one) == top]


def _rank(one: _Candidate) -> tuple[int, int, int, int, int]:
    words = _words(one.name)
    held_out = 2 if words & _TRAINING else 0 if words & _HELD_OUT else 1
    known = 0 if direction_by_name(one.name) is not None else 1
    fold = 1 if one.repeated is not None and _is_fold(one.repeated) else 0
    return fold, held_out, known, 0 if words & _SUMMARY else 1, one.how


def _is_fold(variable: str) -> bool:
    return bool(re.search(r"fold|split|train_i|test_i|train_id|tr_i", variable))


def may_be_metric(name: str) -> bool:
    """Is *name* no time, size or counter?"""
    return not _words(name) & _NO_METRIC


def _words(name: str) -> set[str]:
    return set(re.split(r"[_/.@-]", name.lower()))


def _mentioned(repo: Repository, candidates: list[_Candidate]) -> list[_Candidate]:
    """The one candidate that the prose names, if it is one only."""
    found = [
        one for one in candidates
        if any(mentions(line.text, one.name) for line in repo.prose if line.place != one.place)
    ]  # fmt: skip
    return found if len(found) == 1 else []


def _monitored(repo: Repository, candidates: Iterable[_Candidate]) -> list[_Candidate]:
    """The one that a framework is told to keep the best of."""
    settings = [kept for one in repo.scripts for kept in one.kept] + list(repo.settings)
    names = {kept.name for kept in settings if kept.name}
    found = {one.name: one for one in candidates if one.name in names}
    return list(found.values()) if len(found) == 1 else []


def _spelled(name: str) -> str:
    """`val_loss` as prose may write it: val_loss, val loss, val-loss, validation loss."""
    return r"[ _-]".join(
        "val(?:idation)?" if part == "val" else re.escape(part) for part in name.split("_")
    )


def mentions(text: str, name: str) -> bool:
    """Does *text* name the metric?"""
    return re.search(rf"(?<!\w){_spelled(name)}(?!\w)", text, re.I) is not None


def about(text: str, name: str) -> str:
    """What of a line is about *name*: its clause, and the next one if that names nothing else."""
    clauses = re.split(r"(?<=[.;!?])\s+", text)
    for at, clause in enumerate(clauses):
        if mentions(clause, name):
            following = clauses[at + 1] if at + 1 < len(clauses) else ""
            other = re.search(r"[`*]|\w_\w", following)
            return clause if other else f"{clause} {following}"
    return ""


def lines_of(script: Script) -> list[Prose]:
    """A script's lines, for what its comments and docstrings say."""
    return [
        Prose(text=text, place=Place(file=script.file, line=number))
        for number, text in enumerate(script.text.splitlines(), 1)
    ]
