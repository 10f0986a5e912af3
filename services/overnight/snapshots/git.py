"""Every git process that Overnight starts: plumbing only, in a clean environment, without hooks.

It does not know what a snapshot is.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from overnight.contracts.errors import UsageError
from overnight.snapshots.errors import GitFailedError, SnapshotMissingError, disk_errors

_COMMIT = re.compile(r"[0-9a-f]{40}")
_COMMAND_SECONDS = 600.0  #: no plumbing command of ours is near this; a hung disk is

#: Nothing of the repository's own configuration may start a program or reach out.
_OPTIONS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.logAllRefUpdates=false",
    "core.attributesFile=/dev/null",
    "core.protectNTFS=false",  # names are checked by us; `git~1` is a fine name here
    "core.quotePath=false",
    "core.fsync=committed,reference",
    "core.compression=1",
    "protocol.allow=never",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "diff.external=",
    "fastimport.unpackLimit=100",
)

AUTHOR_NAME = "Overnight"
AUTHOR_EMAIL = "overnight@localhost"


def valid_commit(commit: str) -> str:
    """*commit* itself when it is 40 hex digits, so that it can never be read as an option.

    Raises:
        SnapshotMissingError: it is anything else.
    """
    if not _COMMIT.fullmatch(commit):
        raise SnapshotMissingError(f"not a commit id: {commit[:60]!r}")
    return commit


def git_binary() -> str:
    """The path of git. Raises UsageError with the fix when there is none."""
    found = shutil.which("git")
    if found is None:
        raise UsageError("git is not on the PATH: install it (apt-get install git)")
    return found


def environment(
    binary: str, home: Path | None, extra: Mapping[str, str], *, users_config: bool = False
) -> dict[str, str]:
    """The whole environment of a git process. Nothing is inherited: a GIT_INDEX_FILE of a hook
    that started us must not reach our own commands.

    *home* is only given where the user's own ignore file shall count, or with *users_config*:
    then the configuration outside the repository is read too.
    """
    nobody = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    return {
        "PATH": f"{Path(binary).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home) if home else "/nonexistent",
        "LC_ALL": "C",
        "LANGUAGE": "C",
        **({} if users_config else nobody),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_DEFAULT_HASH": "sha1",
        "GIT_AUTHOR_NAME": AUTHOR_NAME,
        "GIT_AUTHOR_EMAIL": AUTHOR_EMAIL,
        "GIT_COMMITTER_NAME": AUTHOR_NAME,
        "GIT_COMMITTER_EMAIL": AUTHOR_EMAIL,
        **extra,
    }


@dataclass(frozen=True, kw_only=True)
class Git:
    """One repository to run plumbing in, named by its folders, never searched for."""

    git_dir: Path
    work_tree: Path | None = None
    folder: Path | None = None  #: working directory; only it and what lies below is listed
    index_file: Path | None = None  #: always a temporary one of ours where an index is needed
    home: Path | None = None
    config: tuple[str, ...] = ()  #: further `name=value` options
    literal: bool = True  #: names are names, not patterns; check-ignore knows no such mode
    environ: Mapping[str, str] = field(default_factory=dict)  #: further variables
    users_config: bool = False  #: only to ask for a value of the user's own configuration

    def argv(self, *arguments: str) -> list[str]:
        """The whole command line of one plumbing command."""
        options = (*_OPTIONS, f"safe.directory={self.work_tree or self.git_dir}", *self.config)
        return [
            git_binary(),
            "--no-pager",
            "--no-replace-objects",
            *(("--literal-pathspecs",) if self.literal else ()),
            *(part for option in options for part in ("-c", option)),
            *arguments,
        ]

    def _environment(self) -> dict[str, str]:
        extra = {**self.environ, "GIT_DIR": str(self.git_dir)}
        if self.work_tree is not None:
            extra["GIT_WORK_TREE"] = str(self.work_tree)
        if self.index_file is not None:
            extra["GIT_INDEX_FILE"] = str(self.index_file)
        return environment(git_binary(), self.home, extra, users_config=self.users_config)

    def run(self, *arguments: str, stdin: bytes | IO[bytes] = b"") -> bytes:
        """The output of one command.

        Raises:
            GitFailedError: it ended with an error; the message names the command and its words.
        """
        code, output, errors = self.attempt(*arguments, stdin=stdin)
        if code != 0:
            raise GitFailedError(f"git {arguments[0]}: {first_line(errors) or f'exit {code}'}")
        return output

    def run_into(self, target: IO[bytes], *arguments: str, stdin: bytes) -> None:
        """Like `run`, with the output in a file: a pack may be large."""
        with disk_errors(f"git {arguments[0]}"), tempfile.TemporaryFile() as feed:
            feed.write(stdin)
            feed.seek(0)
            done = subprocess.run(
                self.argv(*arguments),
                env=self._environment(),
                cwd=self.folder or self.git_dir,
                stdin=feed,
                stdout=target,
                stderr=subprocess.PIPE,
                timeout=_COMMAND_SECONDS,
                check=False,
            )
        if done.returncode != 0:
            words = first_line(done.stderr) or f"exit {done.returncode}"
            raise GitFailedError(f"git {arguments[0]}: {words}")

    def attempt(self, *arguments: str, stdin: bytes | IO[bytes] = b"") -> tuple[int, bytes, bytes]:
        """(exit code, output, errors) of one command, for those whose failure is an answer."""
        try:
            done = subprocess.run(
                self.argv(*arguments),
                env=self._environment(),
                cwd=self.folder or self.git_dir,
                capture_output=True,
                timeout=_COMMAND_SECONDS,
                check=False,
                input=stdin if isinstance(stdin, bytes) else None,
                stdin=None if isinstance(stdin, bytes) else stdin,
            )
        except subprocess.TimeoutExpired as error:
            raise GitFailedError(f"git {arguments[0]} gave no answer for 10 minutes") from error
        except OSError as error:
            raise GitFailedError(f"git {arguments[0]}: {error.strerror}") from error
        return done.returncode, done.stdout, done.stderr

    def feed(self, arguments: tuple[str, ...], chunks: Iterable[bytes]) -> bytes:
        """The output of a command that reads a long stream and says little.

        When *chunks* raises, the command sees its input end too early and is waited for.
        """
        with (
            disk_errors(f"git {arguments[0]}"),
            tempfile.TemporaryFile() as errors,
            self._start(arguments, errors) as process,
        ):
            entry, exit_ = _pipe(process.stdin), _pipe(process.stdout)
            try:
                for chunk in chunks:
                    entry.write(chunk)
                entry.close()
            except BrokenPipeError:
                pass  # its exit code and words say why
            except BaseException:
                process.kill()
                raise
            output = exit_.read()
            code = process.wait(_COMMAND_SECONDS)
            if code != 0:
                errors.seek(0)
                words = first_line(errors.read(65536)) or f"exit {code}"
                raise GitFailedError(f"git {arguments[0]}: {words}")
        return output

    def blobs(self, ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """(id, raw content) of each blob, in order, exactly as stored: no filter, no conversion.

        Raises:
            SnapshotMissingError: one is missing, corrupt or not a blob.
        """
        with (
            disk_errors("git cat-file"),
            tempfile.TemporaryFile() as request,
            tempfile.TemporaryFile() as errors,
        ):
            request.write("".join(f"{valid_commit(blob)}\n" for blob in ids).encode())
            request.seek(0)
            with self._start(("cat-file", "--batch"), errors, request) as process:
                try:
                    yield from _read_batch(_pipe(process.stdout))
                except BaseException:
                    process.kill()
                    raise
                if process.wait(_COMMAND_SECONDS) != 0:
                    errors.seek(0)
                    raise SnapshotMissingError(first_line(errors.read(65536)))

    def _start(
        self, arguments: tuple[str, ...], errors: IO[bytes], request: IO[bytes] | None = None
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.argv(*arguments),
            env=self._environment(),
            cwd=self.folder or self.git_dir,
            stdin=request or subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:  # never: each is asked for as a pipe
        raise GitFailedError("git was started without its pipes")
    return stream


def first_line(words: bytes) -> str:
    """Git's first line of complaint, short and printable."""
    text = words.decode(errors="replace").strip().partition("\n")[0]
    return "".join(char if char.isprintable() else " " for char in text)[:300]


def _read_batch(stream: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    while header := stream.readline():
        words = header.decode().split()
        if len(words) != 3 or words[1] != "blob":
            raise SnapshotMissingError(f"object {header.decode(errors='replace').strip()[:80]}")
        size_bytes = int(words[2])
        content = stream.read(size_bytes)
        if len(content) != size_bytes or stream.read(1) != b"\n":
            raise SnapshotMissingError(f"object {words[0]} is cut short")
        yield words[0], content
