"""What a container's first process is: a gate before the command, and a lifeline.

It runs without any environment, so that /proc/1/environ is empty. It speaks with the spawner by
named pipes, not through the engine: output keeps its order, and when the spawner dies the kernel
closes the lifeline, and everything inside is killed. The first process alone can't be stopped or
killed from inside: so it holds the lifeline, and does nothing else. Another one tells the spawner
that the command is over; a candidate may kill that one, which counts as its end.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping

from overnight.contracts.spawning import Profile

WORK, OUT, HOME, TEMPORARY = "/w", "/out", "/tmp/home", "/tmp/tmp"  # noqa: S108 - in the sandbox
SHELL, ENV, TIMEOUT = "/bin/sh", "/usr/bin/env", "timeout"  #: every image must have them
OUTSIDE = 128 + signal.SIGKILL  #: exit code of a container that somebody killed
#: Told by the gate instead of OUTSIDE when the command itself was killed. A command that exits with
#: this very code is taken for one that was.
INSIDE = 247
LINE = "/.overnight"  #: where the pipes are
#: Its own messages go nowhere; without the exec the shell would say how the command died. `timeout`
#: gives the command back the signals that a shell takes from what runs behind it. An empty line is
#: a reminder to bury orphans (`jobs` waits for all that are dead).
SCRIPT = f"""\
exec 3<{LINE}/go 4>{LINE}/err 2>/dev/null
mkdir -p {TEMPORARY}
read -r seconds <&3 || exit 125
{{
  exec 3<&- 5>{LINE}/code
  (exec {TIMEOUT} -s KILL "$seconds" "$@" </dev/null >{LINE}/out 2>&4 4>&- 5>&-)
  code=$?
  [ "$code" = {OUTSIDE} ] && code={INSIDE}
  echo "$code" >&5
}} &
exec 4>&-
while read -r code <&3; do
  [ -n "$code" ] && exit "$code"
  jobs >/dev/null
done
exit 125
"""
PYTHONS = ("python", "python3")  #: as first word they mean the session's interpreter
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Of the image's own variables: where its programs and libraries lie. No other passes.
FROM_IMAGE = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH")


def argv(profile: Profile, image_env: Mapping[str, str], more_env: Mapping[str, str]) -> list[str]:
    """The container's whole command line."""
    command = list(profile.command)
    if profile.interpreter is not None and command[0] in PYTHONS:
        command[0] = profile.interpreter
    env = environment(profile, image_env, more_env)
    words = [f"{name}={value}" for name, value in env.items()]
    return [ENV, "-i", SHELL, "-c", SCRIPT, "gate", ENV, "-i", *words, *command]


def environment(
    profile: Profile, image_env: Mapping[str, str], more_env: Mapping[str, str]
) -> dict[str, str]:
    """All that the command sees."""
    base = {name: image_env[name] for name in FROM_IMAGE if image_env.get(name)}
    base.setdefault("PATH", SYSTEM_PATH)
    if profile.interpreter is not None:
        base["PATH"] = f"{profile.interpreter.rpartition('/')[0]}:{base['PATH']}"
    ours = {"HOME": HOME, "TMPDIR": TEMPORARY, "PATH": base.pop("PATH"), "OVERNIGHT_OUT": OUT}
    return {"LANG": "C.UTF-8", **base, **profile.env, **more_env, **ours}


def exit_word(told: bytes) -> bytes:
    """What the first process is to exit with, by what was told of the command's end."""
    word = told.strip()
    known = word.isdigit() and int(word) < 256
    return b"%d\n" % (int(word) if known else INSIDE)


def ending(code: int) -> tuple[int | None, int | None]:
    """Exit code and signal of the command, from the code of its gate."""
    if code == INSIDE:
        return None, signal.SIGKILL
    if 128 < code < 128 + signal.NSIG:
        return None, code - 128
    return code, None
