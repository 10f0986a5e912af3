"""What the host must have whatever the repository: git, Redis, room on the disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from overnight.configuration import redis_source
from overnight.contracts.errors import OvernightError
from overnight.sessions.readiness.check import Check, fail, ok, warn
from overnight.sessions.readiness.hardware import said

GB = 1_000_000_000  #: as `min_free_gb` counts
LEAST_FREE_BYTES = GB  #: below this a session is likely to end on a full disk
NIGHT_BYTES = 6 * GB  #: what a night of experiments with small checkpoints takes


def check_git(environ: Mapping[str, str]) -> Check:
    """Every tree is stored with it."""
    program = shutil.which("git", path=environ.get("PATH", os.defpath))
    version = said(program, "--version") if program else None
    if not version:
        return fail("git", "not on the PATH", "apt-get install git")
    return ok("git", version.removeprefix("git version "))


def check_redis(environ: Mapping[str, str]) -> Check:
    """A server to start, or one that runs already."""
    try:
        source = redis_source(environ)
    except OvernightError as error:
        return fail("redis", str(error).partition(":")[0], "apt-get install redis-server")
    return ok("redis", source.origin)


def check_uv(environ: Mapping[str, str], version: str | None, root: Path) -> Check:
    """Only a repository locked by uv wants it, and only to be set up."""
    if version:
        return ok("uv", version)
    if (root / "uv.lock").exists() and not (root / ".venv").exists():
        return fail(
            "uv", "not on the PATH, and uv.lock has no .venv yet",
            "curl -LsSf https://astral.sh/uv/install.sh | sh, then `overnight setup`",
        )  # fmt: skip
    return ok("uv", "not there, and not needed: candidates use the environment as it is")


def check_disk(folder: Path, least_gb: float | None = None) -> Check:
    """Where the session lies."""
    place = next(p for p in (folder, *folder.parents) if p.is_dir())
    if not os.access(place, os.W_OK | os.X_OK):
        fix = "be its owner, or name another `sandbox_root`"
        return fail("disk", f"{place} is not yours to write in", fix)
    free = shutil.disk_usage(place).free
    detail = f"{free / GB:.1f} GB free below {place}"
    least = LEAST_FREE_BYTES if least_gb is None else int(least_gb * GB)
    if free < least:
        return fail("disk", detail, "free some space, or name another `sandbox_root`")
    if free < NIGHT_BYTES:
        return warn("disk", detail, f"a night may take {NIGHT_BYTES // GB} GB: free some space")
    return ok("disk", detail)
