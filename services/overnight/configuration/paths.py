"""Checks a loop's paths against the repository: what may be edited, frozen, read, written."""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from overnight.configuration.yaml_file import shown
from overnight.contracts.errors import ConfigError

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


def repo_paths(repo: Path, paths: tuple[str, ...], where: str, *, folders: bool) -> tuple[str, ...]:
    """*paths* in their shortest form, each a real file (or folder) of the repository.

    Raises:
        ConfigError: outside the repository, a link, missing, of the wrong kind, twice.
    """
    result: list[str] = []
    for path in paths:
        clean = _inside(path, where)
        if clean in result:
            raise ConfigError(f"{where}: {clean} stands twice")
        _check_entry(repo, clean, where, folders=folders)
        result.append(clean)
    return tuple(result)


def folder_of(repo: Path, path: str, where: str) -> Path:
    """The folder *path* of the repository, absolute; `.` is the repository itself.

    Raises:
        ConfigError: outside the repository, through a link, or no folder.
    """
    if set(path.split("/")) <= {"", "."} and path.startswith("."):
        return repo
    clean = _inside(path, where)
    _check_entry(repo, clean, where, folders=True)
    if not (repo / clean).is_dir():
        raise ConfigError(f"{where}: {clean} is no folder")
    return repo / clean


def check_frozen(editable: tuple[str, ...], frozen: tuple[str, ...], where: str) -> None:
    """Nothing is both editable and frozen. Raises ConfigError."""
    for entry in frozen:
        for path in editable:
            if PurePosixPath(path).is_relative_to(entry):
                raise ConfigError(f"{where}: {entry} covers the editable file {path}")


def session_root(repo: Path, sandbox_root: str, environ: Mapping[str, str], where: str) -> Path:
    """The session's directory, absolute. It need not exist.

    Raises:
        ConfigError: the repository itself, around it, in its .git, or a relative path out of it.
    """
    text = expand(sandbox_root, environ, where)
    if not text or "\0" in text:
        raise ConfigError(f"{where}: {shown(sandbox_root)} is no folder name")
    base = Path(os.path.realpath(repo))
    given = Path(text)
    absolute = Path(os.path.normpath(given if given.is_absolute() else base / given))
    real = Path(os.path.realpath(absolute))
    for path in (absolute, real):
        if base.is_relative_to(path):
            raise ConfigError(f"{where}: {text} holds the repository: name a folder of its own")
        if path.is_relative_to(base) and ".git" in path.relative_to(base).parts:
            raise ConfigError(f"{where}: {text} lies in .git: name a folder of its own")
    if not given.is_absolute() and not real.is_relative_to(base):
        raise ConfigError(
            f"{where}: {text} leads out of the repository: give an absolute path instead"
        )
    if real.exists() and not real.is_dir():
        raise ConfigError(f"{where}: {text} is not a folder")
    return real


def read_paths(
    repo: Path,
    reads: tuple[str, ...],
    environ: Mapping[str, str],
    where: str,
    private: Mapping[Path, str],
    *,
    may_come: bool = False,
) -> tuple[str, ...]:
    """*reads* as absolute paths that exist. *private* folders (-> their names) stay out of reach.

    may_come: `prepare:` makes what is not there yet; whoever starts a run looks again.

    Raises:
        ConfigError: missing, an unknown variable, or something private would become readable.
    """
    result: list[str] = []
    for read in reads:
        text = expand(read, environ, where)
        if not text or "\0" in text:
            raise ConfigError(f"{where}: {shown(read)} is no path")
        absolute = Path(os.path.normpath(Path(os.path.realpath(repo)) / text))
        if not absolute.exists() and not may_come:
            raise ConfigError(f"{where}: {absolute} does not exist: correct or remove it")
        for folder, name in private.items():
            for path in (absolute, Path(os.path.realpath(absolute))):
                if folder.is_relative_to(path) or path.is_relative_to(folder):
                    raise ConfigError(f"{where}: {absolute} would show candidates {name}: {folder}")
        if str(absolute) not in result:
            result.append(str(absolute))
    return tuple(result)


def check_command_files(repo: Path, command: tuple[str, ...], where: str) -> None:
    """The script that *command* runs exists in the repository. Raises ConfigError with the fix."""
    program = command[0]
    if "/" in program and not os.path.isabs(program):
        _check_entry(repo, _inside(program, where), where, folders=False, links=True)
        if not os.access(repo / program, os.X_OK):
            raise ConfigError(f"{where}: {program} can't be executed: chmod +x {program}")
        return
    folder = ""
    if command[:2] == ("env", "-C") and len(command) > 3:  # a folder of a monorepo
        folder = _inside(command[2], where)
        _check_entry(repo, folder, where, folders=True)
        folder, command = f"{folder}/", command[3:]
    script = next((word for word in command[1:] if _is_script(word)), None)
    if script is not None and os.path.isabs(script):
        if Path(script).is_relative_to(repo):
            raise ConfigError(f"{where}: {script}: name it relative to the repository")
    elif script is not None:
        inside = _inside(f"{folder}{script}", where)
        _check_entry(repo, inside, where, folders=False, links=True)


def _is_script(word: str) -> bool:
    """Is it a script's name? `cd src && python train.py`, a shell's argument, is none."""
    is_alone = not any(char.isspace() or char in "&|;()<>$" for char in word)
    return word.endswith((".py", ".sh")) and word[0] != "-" and is_alone


def expand(text: str, environ: Mapping[str, str], where: str) -> str:
    """*text* with a leading `~` and `$NAME` replaced from *environ*. Raises ConfigError."""
    if text == "~" or text.startswith("~/"):
        home = environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
        text = home + text[1:]
    elif text.startswith("~"):
        raise ConfigError(f"{where}: {shown(text)}: only ~/ of the current user is understood")

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        found = environ.get(name)
        if not found:
            raise ConfigError(f"{where}: {shown(text)}: the variable {name} is not set")
        return found

    return _VARIABLE.sub(value, text)


def _inside(path: str, where: str) -> str:
    if not path.strip():
        raise ConfigError(f"{where}: holds an empty path")
    if path.startswith(("/", "~")):
        raise ConfigError(f"{where}: {shown(path)} is not relative to the repository")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ConfigError(f"{where}: {shown(path)} leads out of the repository")
    if not parts:
        raise ConfigError(f"{where}: {shown(path)} is the repository itself: name files in it")
    if parts[0].lower() == ".git":
        raise ConfigError(f"{where}: {shown(path)} lies in .git")
    if "\\" in path or not path.isprintable():
        raise ConfigError(f"{where}: {shown(path)} holds a backslash or a control character")
    return "/".join(parts)


def _check_entry(repo: Path, path: str, where: str, *, folders: bool, links: bool = False) -> None:
    """*path* exists, is of the right kind and, unless *links*, is reached without a link."""
    here = repo
    mode = 0
    for part in path.split("/"):
        here = here / part
        try:
            mode = os.lstat(here).st_mode
        except OSError as error:
            raise ConfigError(
                f"{where}: {path} does not exist in {repo}: correct the name or add the file"
            ) from error
        if stat.S_ISLNK(mode):
            if not links:
                raise ConfigError(
                    f"{where}: {path} goes through a symbolic link: name the file itself"
                )
            if not Path(os.path.realpath(here)).is_relative_to(os.path.realpath(repo)):
                raise ConfigError(f"{where}: {path} is a link out of the repository")
            try:
                mode = os.stat(here).st_mode
            except OSError as error:
                raise ConfigError(f"{where}: {path} is a link to nothing") from error
    if stat.S_ISREG(mode) or (folders and stat.S_ISDIR(mode)):
        return
    kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
    raise ConfigError(f"{where}: {path} is {kind}: name the files in it")
