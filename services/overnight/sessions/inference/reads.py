"""What candidates must see beside their tree: caches in the home folder, data, ignored data."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from overnight.sessions.inference.finding import Finding
from overnight.sessions.sources import Repository, Script, read_repository
from overnight.snapshots import userrepo

_JOIN = r"""["']\s*(?:,|\)?\s*/)\s*["']"""
#: `~/.cache/x`, home / ".cache/x", f"{home}/.cache/x", join(home, ".cache", "x").
_CACHE = re.compile(rf"""(?<![\w.-])\.cache/([\w.-]+)|["']\.cache{_JOIN}([\w.-]+)["']""")
_HOME = re.compile(
    r"""["']~/((?!\.cache/)[\w./-]+)["']|home\(\)\s*/\s*["']((?!\.cache\b)[\w./-]+)["']"""
)
_VARIABLE = re.compile(r"""environ(?:\.get\(|\[)\s*["'](\w+)["']|getenv\(\s*["'](\w+)["']""")
_HUB = re.compile(
    r"^\s*(?:from\s+|import\s+(?:[\w.]+,\s*)*)"
    r"(?:huggingface_hub|transformers|datasets|kernels|diffusers|timm)\b",
    re.M,
)
_LIBRARY_CACHES = (
    (_HUB, "~/.cache/huggingface", "HF_HOME"),
    (re.compile(r"^\s*(?:from|import)\s+tiktoken\b", re.M), "~/.cache/tiktoken",
     "TIKTOKEN_CACHE_DIR"),
    (re.compile(r"\btorch\.hub\b|torchvision\.models", re.M), "~/.cache/torch", "TORCH_HOME"),
    (re.compile(r"sklearn\.datasets\s+import\s+[\w, ]*fetch_", re.M), "~/scikit_learn_data",
     "SCIKIT_LEARN_DATA"),
    (re.compile(r"^\s*(?:from|import)\s+nltk\b", re.M), "~/nltk_data", "NLTK_DATA"),
    (re.compile(r"\bkeras\.datasets\b", re.M), "~/.keras", "KERAS_HOME"),
)  # fmt: skip
#: Ignored by git and no data: environments, caches, what a run leaves.
_NO_DATA = frozenset(
    {".venv", "venv", "env", ".env", "__pycache__", "node_modules", "sandbox", "wandb", "mlruns"}
    | {"lightning_logs", "runs", "logs", "log", "outputs", "multirun", "build", "dist", ".git"}
    | {".idea", ".vscode", "checkpoints", "ckpt", "out", "results.tsv", "run.log"}
)
_SYSTEM = ("/dev", "/proc", "/sys", "/usr", "/bin", "/lib", "/etc", "/run")
_SHORT_LIVED = ("/tmp", "/var/tmp")  # noqa: S108 - what code writes there is no data
_NO_VARIABLE = frozenset({"HOME", "TMPDIR", "PWD", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH"})
#: Never shown, whatever names them.
_SECRET = frozenset(
    {".ssh", ".aws", ".gnupg", ".netrc", ".kaggle", ".config", ".docker", ".azure", ".kube"}
    | {".git-credentials", ".pypirc", ".npmrc", ".huggingface", ".wandb"}
)
MAX_IGNORED = 2000
_DATA_FILE = re.compile(r"[\w-][\w./-]*\.(?!pyc?\b)[A-Za-z]\w{0,7}")


@dataclass(frozen=True, kw_only=True)
class Reads:
    """Places shown read-only, and variables that the code finds them by."""

    places: Finding
    pass_env: Finding | None


def find_reads(
    repo: Repository, given: Mapping[str, Any], environ: Mapping[str, str], prepare: Finding | None
) -> Reads:
    """Whatever is named by the code and is there; or will be, once *prepare* has run."""
    variables = _variables(repo, environ)
    passed = Finding(value=list(variables), evidence=", ".join(variables.values()))
    pass_env = passed if variables else None
    if given.get("reads"):
        return Reads(places=Finding.given(list(given["reads"])), pass_env=pass_env)
    kept = _places(repo, environ, prepare)
    evidence = ", ".join(kept.values()) if kept else "nothing outside the repository is named"
    return Reads(places=Finding(value=list(kept), evidence=evidence), pass_env=pass_env)


def unseen(root: Path, reads: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, str]:
    """Places that the code of *root* names and that are there, but that no candidate would see
    with *reads* (absolute) alone: place -> what names it."""
    found = _places(read_repository(root), environ, None)
    real = _real_places(Path(os.path.realpath(root)), found, environ)
    return {
        place: named
        for place, named in found.items()
        if not any(real[place].is_relative_to(read) for read in reads)
    }


def _places(
    repo: Repository, environ: Mapping[str, str], prepare: Finding | None
) -> dict[str, str]:
    """Place -> what names it."""
    found: dict[str, str] = {}
    home = Path(environ["HOME"]) if environ.get("HOME") else None
    for script in repo.scripts:
        for path, place in _of_script(script, home, may_come=prepare is not None):
            found.setdefault(path, place)
    for name, place in _variables(repo, environ).items():
        for path in _without_token(environ[name]):
            found.setdefault(path, place)
    for path, place in (*_ignored(repo), *(_awaited(repo, prepare) if prepare else ())):
        found.setdefault(path, place)
    return _outermost(repo.root, found, environ)


def _of_script(script: Script, home: Path | None, *, may_come: bool) -> Iterator[tuple[str, str]]:
    def line(match: re.Match[str]) -> str:
        return f"{script.file}:{script.text.count(chr(10), 0, match.end()) + 1}"

    if home is not None:
        for match in _CACHE.finditer(script.text):
            name = match[1] or match[2]
            if may_come or (home / ".cache" / name).is_dir():
                yield f"~/.cache/{name}", line(match)
        for match in _HOME.finditer(script.text):
            path = (match[1] or match[2]).strip("/")
            if path and (home / path).exists():
                yield f"~/{path}", line(match)
        for pattern, place, _ in _LIBRARY_CACHES:
            used = pattern.search(script.text)
            if used and (home / place.removeprefix("~/")).is_dir():
                for path in _without_token(place, home):
                    yield path, line(used)
    for text in script.texts:
        if _is_data(text.value) and not _is_in(text.value, _SHORT_LIVED):
            yield text.value.rstrip("/"), str(text.place)


def _without_token(place: str, home: Path | None = None) -> list[str]:
    """A hub's cache without the login that lies in it."""
    real = (
        Path(str(home) + place[1:]) if home is not None and place.startswith("~") else Path(place)
    )
    if not (real / "token").is_file():
        return [place]
    return [f"{place}/{name}" for name in ("hub", "datasets") if (real / name).is_dir()]


def _is_data(path: str) -> bool:
    """Is *path* absolute, there, and no part of the system?"""
    if not os.path.isabs(path) or "\0" in path or os.path.normpath(path).count("/") < 2:
        return False
    return not _is_in(path, _SYSTEM) and os.path.exists(path)


def _is_in(path: str, tops: tuple[str, ...]) -> bool:
    clean = os.path.normpath(path)
    return any(clean == top or clean.startswith(f"{top}/") for top in tops)


def _variables(repo: Repository, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that the code, or a library of it, asks for and that lead to a place here; with
    what asks."""
    found: dict[str, str] = {}
    for script in repo.scripts:
        asked = [(match[1] or match[2], match) for match in _VARIABLE.finditer(script.text)]
        for pattern, _, variable in _LIBRARY_CACHES:
            asked += [(variable, match) for match in pattern.finditer(script.text)]
        for name, match in asked:
            value = environ.get(name, "")
            if name in _NO_VARIABLE or name.startswith(("OVERNIGHT_", "XDG_")):
                continue
            if _is_data(value):
                line = script.text.count("\n", 0, match.end()) + 1
                found.setdefault(name, f"{script.file}:{line} {name}")
    return found


def _ignored(repo: Repository) -> Iterator[tuple[str, str]]:
    """Git-ignored places of the repository that the code names by any part of their path."""
    found = userrepo.find(repo.root)
    if found is None:
        return
    listed = found.git().run(
        "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"
    )
    names = [os.fsdecode(name) for name in listed.split(b"\0") if name][:MAX_IGNORED]
    for name in names:
        clean = name.rstrip("/")
        parts = clean.split("/")
        if set(parts) & _NO_DATA or parts[-1].endswith((".pyc", ".log", ".egg-info", ".pt", ".so")):
            continue
        if (
            any(part.startswith(".") for part in parts)
            or (repo.root / clean / "pyvenv.cfg").exists()
        ):
            continue
        place = _who_names(repo, parts)
        if place is not None:
            yield clean, f"{place}, ignored by git"


def _awaited(repo: Repository, prepare: Finding) -> Iterator[tuple[str, str]]:
    """Files that the preparing script makes beside itself, or where it says: those that git
    ignores and that another script names."""
    found = userrepo.find(repo.root)
    maker = next((one for one in map(repo.script, prepare.value) if one is not None), None)
    if found is None or maker is None:
        return
    git = replace(found.git(), literal=False)
    folder = maker.file.rpartition("/")[0]
    others = {
        text.value.rpartition("/")[2] for one in repo.scripts if one is not maker
        for text in one.texts
    }  # fmt: skip
    for text in maker.texts:
        name = text.value.removeprefix("./")
        if not _DATA_FILE.fullmatch(name) or name.rpartition("/")[2] not in others:
            continue
        places = dict.fromkeys([f"{folder}/{name}" if folder else name, name])
        for place in places:
            code, _, _ = git.attempt("check-ignore", "-q", "--no-index", "--", place)
            if code == 0:
                yield place, f"{text.place} makes it"
                break


def _who_names(repo: Repository, parts: list[str]) -> str | None:
    for script in repo.scripts:
        if script.file.rpartition("/")[0] and script.file.rpartition("/")[0] in "/".join(parts):
            continue  # the script that lies beside the data and made it
        for text in script.texts:
            named = set(text.value.strip("./").split("/"))
            if parts[-1] in named or (len(parts) == 1 and parts[0] in named):
                return str(text.place)
    return None


def _outermost(root: Path, found: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Without those that lie below another one, hold the repository, or are nobody's to read."""
    places = _real_places(root, found, environ)
    return {
        path: evidence
        for path, evidence in found.items()
        if not any(
            places[path] != other and places[path].is_relative_to(other)
            for other in places.values()
        )
        and not root.is_relative_to(places[path])
        and not set(places[path].parts) & _SECRET
    }


def _real_places(
    root: Path, found: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, Path]:
    home = environ.get("HOME", "")
    texts = {path: home + path[1:] if path.startswith("~") else path for path in found}
    return {path: Path(os.path.normpath(root / text)) for path, text in texts.items()}
