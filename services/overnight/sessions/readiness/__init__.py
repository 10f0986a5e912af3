"""Is this host, and this repository on it, ready for a night? Looks only; installs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overnight.configuration import LOOP_FILE, ResolvedLoop, resolve_command, resolve_loop
from overnight.configuration.interpreter import OWN, ResolvedCommand, shown_python
from overnight.contracts.errors import ConfigError, OvernightError, UsageError
from overnight.sessions.bindings import existing_folder, render
from overnight.sessions.inference import UnknownBindingError, infer
from overnight.sessions.inference.reads import unseen
from overnight.sessions.preflight import check_plugins, check_sources
from overnight.sessions.preparing import REQUIREMENTS
from overnight.sessions.readiness.agents import check_agents
from overnight.sessions.readiness.check import Check, fail, ok, warn
from overnight.sessions.readiness.container import check_containers
from overnight.sessions.readiness.first import FirstChecks, changes, first_checks, yours
from overnight.sessions.readiness.hardware import Hardware, check_device, find_hardware
from overnight.sessions.readiness.machine import check_disk, check_git, check_redis, check_uv
from overnight.sessions.readiness.probe import Seen, look_inside, look_into_image, needed_modules
from overnight.snapshots.tree import check_editable, scan

__all__ = ["Check", "Hardware", "Readiness", "examine", "surroundings"]


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """All rows, in the order in which they are looked at."""

    checks: tuple[Check, ...]
    hardware: Hardware
    first: FirstChecks

    @property
    def ok(self) -> bool:
        """Can a session run? A warning does not forbid it."""
        return all(check.status != "fail" for check in self.checks)

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "ok": self.ok,
            "checks": [
                {"name": c.name, "status": c.status, "detail": c.detail, "fix": c.fix}
                for c in self.checks
            ],
            "hardware": self.hardware.plain(),
            "first": self.first.plain(),
        }


def examine(
    root: Path,
    environ: Mapping[str, str],
    *,
    agent: str | None = None,
    nvml: Callable[[], Any] | None = None,
) -> Readiness:
    """Look at everything once.

    Raises:
        UsageError: *root* is no folder.
    """
    root = existing_folder(root)
    hardware = find_hardware(environ, nvml)
    bindings, loop = _bindings(root, environ)
    is_bound = (root / LOOP_FILE).exists()
    command, interpreter = _interpreter(loop, environ)
    rows = [check_git(environ), check_redis(environ), bindings]
    if loop is not None:
        rows += [_tree(loop), interpreter]
        if loop.config.in_container:
            container = check_containers(loop, hardware, environ)
            rows += container.rows
            if container.image is not None and command is not None and command.python is None:
                rows += _inside_image(loop, container.image, command.argv[0], environ)
        elif command is not None:
            rows += _inside(loop, command, environ)
    else:
        ours = ResolvedCommand(python=Path(sys.executable), argv=("true",), origin=OWN)
        rows.append(_sandbox(look_inside(ours, (), ())))
    rows.append(check_uv(environ, hardware.uv, root))
    least = loop.config.min_free_gb if loop is not None else None
    rows.append(check_disk(loop.session_root if loop is not None else root, least))
    rows.append(check_device(hardware))
    rows += check_agents(environ, agent)
    first = first_checks(root, loop if is_bound else None, hardware, interpreter.detail)
    return Readiness(checks=tuple(rows), hardware=hardware, first=first)


def surroundings(loop: ResolvedLoop, environ: Mapping[str, str]) -> tuple[FirstChecks, str]:
    """The five first checks of a bound repository, and whether its uncommitted changes count."""
    _, interpreter = _interpreter(loop, environ)
    found = first_checks(loop.repo, loop, find_hardware(environ), interpreter.detail)
    return found, yours(changes(loop.repo), loop.config.iter_strategy)


def _bindings(root: Path, environ: Mapping[str, str]) -> tuple[Check, ResolvedLoop | None]:
    """The bindings as they are, or as `init` would write them."""
    if not (root / LOOP_FILE).exists():
        return _unbound(root, environ)
    try:
        loop = resolve_loop(root, flags={}, environ=environ)
        check_plugins(loop.config)
        check_sources(loop.repo, loop.config.editable_files)
    except ConfigError as error:
        return fail("bindings", str(error), f"correct that line of {LOOP_FILE}"), None
    except UsageError as error:
        return fail("bindings", str(error), "correct that file"), None
    return ok("bindings", f"{LOOP_FILE}: {_bound(loop)}"), loop


def _unbound(root: Path, environ: Mapping[str, str]) -> tuple[Check, ResolvedLoop | None]:
    try:
        loop = resolve_loop(
            root, flags={}, environ=environ, loop_text=render(infer(root, {}, environ))
        )
    except UnknownBindingError as error:
        if error.key == "run_cmd":  # nothing to train here, which is no fault of the host
            return warn("bindings", str(error), "overnight init, in the repository"), None
        return fail("bindings", str(error), "overnight init, with that flag"), None
    except UsageError as error:
        return fail("bindings", str(error), "correct that, then overnight init"), None
    return warn("bindings", f"no {LOOP_FILE} yet; would be: {_bound(loop)}", "overnight init"), loop


def _bound(loop: ResolvedLoop) -> str:
    metric = loop.config.metric
    return f"{metric.name}, {metric.direction}; {' '.join(loop.config.run_cmd)}"


def _interpreter(
    loop: ResolvedLoop | None, environ: Mapping[str, str]
) -> tuple[ResolvedCommand | None, Check]:
    if loop is None:
        return None, ok("interpreter", "unknown until there are bindings")
    try:
        command = resolve_command(loop.repo, loop.config, environ)
    except UsageError as error:
        return None, fail("interpreter", str(error), "overnight setup")
    if command.python is None:
        return command, ok("interpreter", command.origin)
    python = shown_python(command.python, loop.repo)
    return command, ok("interpreter", f"{python} ({command.origin})")


def _tree(loop: ResolvedLoop) -> Check:
    try:
        listing = scan(loop.repo, loop.session_root)
        check_editable(listing, loop.config.editable_files)
    except OvernightError as error:
        return fail("tree", str(error), "correct what this names")
    size = sum(file.size_bytes for file in listing.files) / 1024**2
    detail = (
        f"{len(listing.files)} files, {size:.1f} MiB; edits {_list(loop.config.editable_files)}"
    )
    if listing.left_out:
        first = listing.left_out[0]
        return warn("tree", f"{detail}; left out: {first.path}", f"{first.path} is {first.why}")
    return ok("tree", detail)


def _inside(
    loop: ResolvedLoop, command: ResolvedCommand, environ: Mapping[str, str]
) -> list[Check]:
    """What only a sandbox can tell."""
    config = loop.config
    modules = needed_modules(loop.repo, config.run_cmd, config.editable_files)
    there = tuple(read for read in config.reads if Path(read).exists())
    seen = look_inside(command, modules, there)
    rows = [_sandbox(seen)]
    if seen.problem:
        return rows
    rows.append(_start(loop, command, seen))
    rows.append(_imports(loop, seen))
    rows.append(_data(loop, seen, environ))
    return rows


def _inside_image(
    loop: ResolvedLoop, image: str, program: str, environ: Mapping[str, str]
) -> list[Check]:
    """What only a container of the image can tell."""
    config = loop.config
    modules = needed_modules(loop.repo, config.run_cmd, config.editable_files)
    there = tuple(read for read in config.reads if Path(read).exists())
    seen = look_into_image(image, program, modules, there, environ)
    shown = " ".join(config.run_cmd)
    if seen.problem or not seen.program:
        told = seen.problem or f"{program} is not in the image"
        return [fail("command", told, "name an image that has it, or correct run_cmd")]
    rows = [ok("command", f"{shown}: starts with Python {seen.python} inside the container")]
    if seen.missing:
        told = f"not in the image: {_list(seen.missing)}"
        rows.append(fail("imports", told, "add them to the image, or name one that has them"))
    else:
        rows.append(ok("imports", "all top-level imports resolve inside the container"))
    return [*rows, _data(loop, seen, environ)]


def _sandbox(seen: Seen) -> Check:
    if seen.problem:
        fix = "apt-get install bubblewrap, or correct what this names"
        return fail("sandbox", seen.problem, fix)
    if seen.isolation == "none":
        return warn(
            "sandbox", "isolation: none; limits and kills work, walls do not",
            "on Linux: apt-get install bubblewrap, and allow user namespaces",
        )  # fmt: skip
    parts = ["bubblewrap, namespaces", "seccomp" if seen.seccomp else "no seccomp",
             f"CPU counted by {seen.cpu_source}"]  # fmt: skip
    if not seen.seccomp:
        return warn("sandbox", ", ".join(parts), "a kernel with seccomp filters")
    return ok("sandbox", ", ".join(parts))


def _start(loop: ResolvedLoop, command: ResolvedCommand, seen: Seen) -> Check:
    shown = " ".join(loop.config.run_cmd)
    if not seen.program:
        return fail(
            "command", f"{command.argv[0]} is not seen inside the sandbox",
            "name its folder under `reads:`, or install it in the environment",
        )  # fmt: skip
    return ok("command", f"{shown}: starts with Python {seen.python} inside the sandbox")


def _imports(loop: ResolvedLoop, seen: Seen) -> Check:
    if seen.missing:
        told = f"not found inside the sandbox: {_list(seen.missing)}"
        if any((loop.repo / name).exists() for name in REQUIREMENTS):
            fix = "overnight setup (or install them in that environment)"
        else:  # setup has nothing to go by
            fix = (
                "activate the environment that has them, or name it: python: PATH in loop.run.yaml"
            )
        return fail("imports", told, fix)
    return ok("imports", "all top-level imports resolve inside the sandbox")


def _data(loop: ResolvedLoop, seen: Seen, environ: Mapping[str, str]) -> Check:
    missing = [read for read in loop.config.reads if not Path(read).exists()]
    prepare = "overnight prepare" if loop.config.prepare else "correct or remove it under `reads:`"
    if missing:
        return fail("data", f"not there: {_list(missing)}", prepare)
    if seen.closed:
        path, why = seen.closed[0]
        return fail("data", f"{path}: {why}", f"chmod -R a+rX {path}")
    unread = unseen(loop.repo, loop.config.reads, environ)
    if unread:
        place, named = next(iter(unread.items()))
        detail = f"{named} names {place}, which no candidate sees"
        return warn("data", detail, f"add {place} under `reads:` in {LOOP_FILE}")
    if not loop.config.reads:
        return ok("data", "nothing outside the tree is read")
    return ok("data", f"readable inside the sandbox: {_list(loop.config.reads)}")


def _list(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
