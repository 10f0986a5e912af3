"""Builds bubblewrap's arguments from values: what a sandbox sees, and the chain that drops rights.

Pure but for `look`. The order of the options matters: bubblewrap performs them one by one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

WORK, OUT, HOME, TEMPORARY = "/w", "/out", "/tmp/home", "/tmp/tmp"  # noqa: S108 - in the sandbox
HOSTNAME = "sandbox"
OWN_PLACES = ("/w", "/out", "/proc", "/dev", "/sys")  #: no bind of a caller may lie there
#: What the shell between bubblewrap and the command may add to the environment.
SHELL_ADDS = ("PWD", "OLDPWD", "SHLVL", "_")
#: Waits for the wall deadline on stdin, then starts the second timer while it is still not the
#: candidate's user, so that the candidate can't stop it. No word from the runner: nothing starts.
#: At the end it says on the same way when the command began and ended, for a runner that was
#: stopped meanwhile. The shell's own words on a signal are no output of the candidate.
GATE = (
    "printf '\\n' >&0 && read -r seconds && timer=$1 && shift || exit 125; "
    "exec 3>&2 2>/dev/null; read -r began rest </proc/uptime; "
    '"$timer" -s KILL "$seconds" "$@" </dev/null 2>&3 3>&-; code=$?; '
    'read -r ended rest </proc/uptime; printf \'%s %s\\n\' "$began" "$ended" >&0; exit $code'
)
ETC_FILES = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime",
             "nsswitch.conf")  # fmt: skip
NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/services", "/etc/gai.conf",
                 "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs",
                 "/etc/ca-certificates")  # fmt: skip
KERNEL_FACTS = ("/sys/devices/system/cpu", "/sys/devices/system/node")  #: thread pools read these


@dataclass(frozen=True, kw_only=True)
class Tools:
    """Programs the sandbox needs, as absolute paths that exist inside it too."""

    bwrap: str
    timeout: str
    setpriv: str | None  #: only root needs it
    env: str


@dataclass(frozen=True, kw_only=True)
class Host:
    """What of this host every sandbox sees, read-only."""

    trees: tuple[str, ...]  #: folders, outermost first
    links: tuple[tuple[str, str], ...]  #: (target, name), like ("usr/bin", "/bin")
    files: tuple[str, ...]  #: single places below /etc and /sys
    network_files: tuple[str, ...]  #: seen beside them with network: host


@dataclass(frozen=True)
class Freeze:
    """One mount below the working directory."""

    path: str  #: relative to it
    source: str  #: on the host
    writable: bool  #: True for a folder that only must not be renamed


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One sandbox, as a value."""

    host: Host
    uid: int | None  #: the slot's unprivileged user; None: we are an ordinary user ourselves
    disable_userns: bool  #: bubblewrap can (0.8 and newer); only for an ordinary user
    reads: tuple[str, ...]  #: checked folders and files, visible read-only at the same place
    work: str
    out: str
    frozen: tuple[Freeze, ...]  #: parents first
    env: Mapping[str, str]
    network: str
    tmp_bytes: int
    at_home: tuple[tuple[str, str], ...] = ()  #: (place below HOME, what is seen there, read-only)
    nodes: tuple[str, ...] = ()  #: device files of the granted GPUs; not run on a GPU


@dataclass(frozen=True, kw_only=True)
class Descriptors:
    """Open descriptors that bubblewrap inherits."""

    status: int
    block: int
    seccomp: int | None
    passwd: int
    group: int
    hosts: int


def look(root: str = "/") -> Host:
    """What this host has of what a sandbox needs."""
    trees, links = ["/usr"], []
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        place = os.path.join(root, name)
        if os.path.islink(place):
            links.append((os.readlink(place), f"/{name}"))
        elif os.path.isdir(place):
            trees.append(f"/{name}")
    if os.path.isdir(os.path.join(root, "nix/store")):
        trees.append("/nix/store")
    etc = [f"/etc/{name}" for name in ETC_FILES]
    return Host(
        trees=tuple(trees),
        links=tuple(links),
        files=tuple(p for p in (*etc, *KERNEL_FACTS) if os.path.exists(root + p)),
        network_files=tuple(p for p in NETWORK_FILES if os.path.exists(root + p)),
    )


def find_tools(as_root: bool) -> Tools | None:
    """The programs on this host, or None when one is missing."""
    search = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/run/current-system/sw/bin"
    bwrap = shutil.which("bwrap") or shutil.which("bwrap", path=search)
    timeout, env = shutil.which("timeout", path=search), shutil.which("env", path=search)
    setpriv = shutil.which("setpriv", path=search)
    if bwrap is None or timeout is None or env is None or (as_root and setpriv is None):
        return None
    return Tools(bwrap=bwrap, timeout=timeout, env=env, setpriv=setpriv if as_root else None)


def freezes(work: str, frozen: Mapping[str, str]) -> tuple[Freeze, ...]:
    """Mounts that make *frozen* (relative path -> source) unchangeable, parents first.

    A frozen file below a folder that may be renamed is not frozen, so that every folder above
    one is mounted on itself: a mount point can't be renamed or removed.
    """
    mounts: dict[tuple[str, ...], Freeze] = {}
    for parts, path in sorted((PurePosixPath(path).parts, path) for path in frozen):
        above = [parts[:depth] for depth in range(1, len(parts))]
        if any(folder in mounts and not mounts[folder].writable for folder in above):
            continue  # a folder above it is frozen as a whole
        for folder in above:
            name = "/".join(folder)
            mounts.setdefault(folder, Freeze(name, f"{work}/{name}", writable=True))
        mounts[parts] = Freeze("/".join(parts), frozen[path], writable=False)
    return tuple(mounts[parts] for parts in sorted(mounts))


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """*paths* without those that lie below another one."""
    kept: list[str] = []
    for path in sorted({os.path.normpath(path) for path in paths}):
        if not any(is_below(path, above) for above in kept):
            kept.append(path)
    return tuple(kept)


def is_below(path: str, above: str) -> bool:
    """Is *path* the same place as *above*, or inside it?"""
    return path == above or above == "/" or path.startswith(above + "/")


def options(layout: Layout, fds: Descriptors) -> tuple[str, ...]:
    """All of bubblewrap's options; handed over by `--args` so that no `ps` shows them."""
    return (
        *_namespaces(layout),
        *_environment(layout.env),
        *_system(layout, fds),
        *_candidate(layout),
        *_handover(layout, fds),
    )


def chain(layout: Layout, tools: Tools, token: str, command: tuple[str, ...]) -> tuple[str, ...]:
    """What runs inside: gate, second timer, drop of all rights, clean environment, command."""
    own = [name for name in SHELL_ADDS if name not in layout.env]
    cleaned = (tools.env, *(part for name in own for part in ("-u", name)), *command)
    return ("/bin/sh", "-c", GATE, f"overnight-{token}", tools.timeout,
            *_drop(layout.uid, tools), *cleaned)  # fmt: skip


def _drop(uid: int | None, tools: Tools) -> tuple[str, ...]:
    if uid is None or tools.setpriv is None:
        return ()
    return (tools.setpriv, "--reuid", str(uid), "--regid", str(uid), "--clear-groups",
            "--no-new-privs", "--bounding-set", "-all", "--inh-caps", "-all",
            "--ambient-caps", "-all", "--")  # fmt: skip


def _namespaces(layout: Layout) -> list[str]:
    made = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if layout.network == "none":
        made.append("--unshare-net")
    if layout.uid is None:
        made.append("--unshare-user")
        if layout.disable_userns:
            made.append("--disable-userns")
    return [*made, "--die-with-parent", "--new-session", "--hostname", HOSTNAME]


def _environment(env: Mapping[str, str]) -> list[str]:
    sets = [part for name, value in sorted(env.items()) for part in ("--setenv", name, value)]
    return ["--clearenv", *sets]


def _system(layout: Layout, fds: Descriptors) -> list[str]:
    files = [*layout.host.files]
    data = [(fds.passwd, "/etc/passwd"), (fds.group, "/etc/group")]
    if layout.network == "host":
        files += layout.host.network_files
    if "/etc/hosts" not in files:
        data.append((fds.hosts, "/etc/hosts"))
    size = str(layout.tmp_bytes)
    reads = outermost(layout.reads)
    parts = ["--perms", "0755", "--dir", "/etc"]
    made = {"/", "/etc"}
    for tree in layout.host.trees:
        parts += [*_parents(tree, made), "--ro-bind", tree, tree]
    for target, name in layout.host.links:
        parts += ["--symlink", target, name]
    for file in files:
        parts += [*_parents(file, made), "--ro-bind", file, file]
    for number, name in data:
        parts += ["--perms", "0644", "--ro-bind-data", str(number), name]
    parts += ["--perms", "1777", "--size", size, "--tmpfs", "/tmp"]  # noqa: S108 - in the sandbox
    made.add("/tmp")  # noqa: S108 - in the sandbox
    for folder in (HOME, TEMPORARY):
        parts += ["--perms", "1777", "--dir", folder]
    for read in reads:
        parts += [*_parents(read, made), "--ro-bind", read, read]
    made.add(HOME)
    for name, source in layout.at_home:
        place = f"{HOME}/{name}"
        # Open to all: the candidate may put caches of its own beside the ones it reads.
        parts += [*_parents(place, made, "1777"), "--ro-bind", source, place]
    parts += ["--proc", "/proc", "--dev", "/dev"]
    made.add("/dev")
    for node in layout.nodes:
        parts += [*_parents(node, made), "--dev-bind-try", node, node]
    parts += ["--perms", "1777", "--size", size, "--tmpfs", "/dev/shm"]  # noqa: S108 - in the sandbox
    return [*parts, "--remount-ro", "/dev"]


def _candidate(layout: Layout) -> list[str]:
    parts = ["--bind", layout.work, WORK]
    for freeze in layout.frozen:
        verb = "--bind" if freeze.writable else "--ro-bind"
        parts += [verb, freeze.source, f"{WORK}/{freeze.path}"]
    return [*parts, "--bind", layout.out, OUT, "--chdir", WORK]


def _handover(layout: Layout, fds: Descriptors) -> list[str]:
    parts = ["--json-status-fd", str(fds.status), "--block-fd", str(fds.block)]
    if fds.seccomp is not None:
        parts += ["--seccomp", str(fds.seccomp)]
    parts += ["--remount-ro", "/", "--cap-drop", "ALL"]
    if layout.uid is not None:
        # Without SETPCAP setpriv would leave the bounding set full and still succeed.
        for right in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            parts += ["--cap-add", right]
    return parts


def _parents(path: str, made: set[str], mode: str = "0755") -> list[str]:
    """Bubblewrap would make missing parents 0700 and root's: make each one first."""
    parts: list[str] = []
    for parent in reversed(Path(path).parents):
        if str(parent) not in made:
            made.add(str(parent))
            parts += ["--perms", mode, "--dir", str(parent)]
    return parts
