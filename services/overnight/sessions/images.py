"""`image: {build: DIR}`: what goes into the image, its name by that, and whether it is built.

What is sent to the engine are the files of the tree below DIR, without those that candidates edit:
code comes by snapshot, so that an edit of it never asks for another image.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from overnight.configuration import ResolvedLoop, SpawnerSettings, load_settings
from overnight.configuration.image import DOCKERFILE
from overnight.contracts.errors import InfrastructureError, UsageError
from overnight.contracts.loop import ImageBuild, LoopConfig
from overnight.ledger.fold import SessionState
from overnight.sessions.engine import EngineUnreachableError, engine_host, image_id
from overnight.sessions.preparing import DONE, Plan, Stamp, Step, carry_out_prepare, read_stamp
from overnight.snapshots.manifest import EXECUTABLE
from overnight.snapshots.tree import FolderTree, scan

REPOSITORY = "overnight-build"
BUILD_STAMP = "image.json"  #: in sandbox_root: the last build, for who has no engine to ask
LABEL = "overnight.build"
_NAME_DIGITS = 16


def settled(loop: ResolvedLoop, environ: Mapping[str, str], kept: str | None) -> ResolvedLoop:
    """*loop* with its image by name. *kept*: what the session that is taken up runs in; it goes
    on with that, as it does with its files, whatever became of the Dockerfile.

    Raises:
        UsageError: the image is not built, or not there; names the command.
    """
    image = loop.config.image
    if image is None:
        return loop
    if isinstance(image, str):
        if _is_there(image, environ) is False:
            raise UsageError(f"image {image} is not there: docker pull {image}, or correct it")
        return loop
    own = kept is not None and kept.startswith(f"{REPOSITORY}:")
    name = kept if kept is not None and own else name_of(loop)
    stamp = read_stamp(loop.session_root, BUILD_STAMP)
    there = _is_there(name, environ)
    if there is None:
        there = stamp is not None and stamp.state == DONE and name in stamp.argv
    if there:
        return replace(loop, config=loop.config.model_copy(update={"image": name}))
    told = f"image {{build: {image.build}}}"
    if own:
        raise UsageError(
            f"{told}: {name}, which this session runs in, is gone: put its files back as they "
            "were and run `overnight prepare`, or open another session with --tag"
        )
    raise UsageError(f"{told}{_state(stamp)}: run `overnight prepare`")


def _state(stamp: Stamp | None) -> str:
    """What is known of a build whose image is not there."""
    if stamp is None:
        return " is not built yet"
    if stamp.state != DONE:
        return ": the last build did not end well"
    return " is not built as it is now"


def _is_there(name: str, environ: Mapping[str, str]) -> bool | None:
    """None: no engine can be asked here, e.g. in a service's own container."""
    try:
        return image_id(environ, name) is not None
    except EngineUnreachableError:
        return None


def image_name(config: LoopConfig) -> str | None:
    """Of a configuration that is settled. None: the executor's own, or no container."""
    assert not isinstance(config.image, ImageBuild)
    return config.image


def another_image(
    config: LoopConfig, state: SessionState, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """A note where the image's name means another one than the session's best ran in. Libraries
    may differ then, and with them what a result is compared with."""
    if not config.in_container or state.incumbent is None:
        return ()
    best = state.experiments[state.incumbent].final
    name = image_name(config) or load_settings(SpawnerSettings, environ).image
    try:
        now = image_id(environ, name)
    except EngineUnreachableError:
        return ()
    if now is None or best is None or best.image in (None, now):
        return ()
    return (
        f"image {name} is another one by now ({_short(now)}) than what the best so far ran in "
        f"({_short(str(best.image))}): for a comparison among equals begin anew with --tag NAME",
    )


def _short(identity: str) -> str:
    return identity.removeprefix("sha256:")[:12]


def name_of(loop: ResolvedLoop) -> str:
    """What the image of *loop*'s build is called, by all that goes into it. Raises UsageError."""
    digest = hashlib.sha256()
    for path, executable, content in _context(loop):
        for part in (path.encode(), b"x" if executable else b"-", content):
            digest.update(len(part).to_bytes(8, "big") + part)
    return f"{REPOSITORY}:{digest.hexdigest()[:_NAME_DIGITS]}"


def plan_build(loop: ResolvedLoop, environ: Mapping[str, str]) -> Plan | None:
    """How the image is built; None where nothing is.

    Raises:
        UsageError: there is no builder, or the tree can't be read.
    """
    image = loop.config.image
    if not isinstance(image, ImageBuild):
        return None
    docker = shutil.which("docker", path=environ.get("PATH"))
    if docker is None:
        raise UsageError(
            f"image {{build: {image.build}}}: no docker on the PATH: install the engine's command"
        )
    argv = (docker, "build", "--label", LABEL, "--tag", name_of(loop), ".")
    folder = "" if image.build == "." else f"{image.build}/"
    why = f"the image of {folder}{DOCKERFILE}, with network"
    return Plan(root=loop.repo, steps=(Step(argv=argv, why=why),))


def build(
    plan: Plan, loop: ResolvedLoop, environ: Mapping[str, str], before: Callable[[Step], None]
) -> int:
    """Build it in a copy of what goes into it. Returns the builder's exit code.

    Raises:
        SessionHeldError: another `prepare` of this repository runs.
        UsageError, InfrastructureError: it can't be started, or the copy not be made.
    """
    (step,) = plan.steps
    with _copied(loop) as folder:
        moved = replace(plan, steps=(replace(step, cwd=folder),))
        engine = {**environ, "DOCKER_HOST": engine_host(environ)}
        return carry_out_prepare(moved, loop.session_root, engine, before, BUILD_STAMP)


@contextmanager
def _copied(loop: ResolvedLoop) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="overnight-build-"))
    try:
        for path, executable, content in _context(loop):
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            place.chmod(0o755 if executable else 0o644)
        yield folder
    except OSError as error:
        raise InfrastructureError(f"{folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _context(loop: ResolvedLoop) -> Iterator[tuple[str, bool, bytes]]:
    """(path below DIR, executable, content) of each file, in order."""
    image = loop.config.image
    assert isinstance(image, ImageBuild)
    below = PurePosixPath(image.build)
    listing = scan(loop.repo, loop.session_root)
    wanted = tuple(
        file
        for file in listing.files
        if PurePosixPath(file.path).is_relative_to(below)
        and file.path not in loop.config.editable_files
    )
    if str(below / DOCKERFILE) not in {file.path for file in wanted}:
        raise UsageError(f"image {{build: {below}}}: git ignores its {DOCKERFILE}: let it be seen")
    tree: FolderTree = replace(listing, files=wanted)
    for file, content in tree.contents():
        path = str(PurePosixPath(file.path).relative_to(below))
        yield path, file.mode == EXECUTABLE, content
