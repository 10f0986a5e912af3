"""How large the images are and how long they take to build, into docs/containers.md.

    python -m benchmarks.container_images            # needs an engine; minutes, without a cache
    python -m benchmarks.container_images --print    # writes nothing

What is built carries the usual names, so a machine has the newest afterwards.
"""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "containers.md"
COMMAND = "python -m benchmarks.container_images"
BASES = ("debian:bookworm-slim", "python:3.11-slim-bookworm", "redis:7-alpine",
         "prom/prometheus:v2.53.0")  # fmt: skip
OURS = {"services": "overnight-services:latest", "sandbox": "overnight-sandbox:cpu"}
CHANGED = "services/overnight/__init__.py"
_BLOCK = re.compile(rf"(<!-- measured: {re.escape(COMMAND)} -->\n\n).*?(?=\n<!-- end -->)", re.S)


@dataclass(frozen=True)
class Image:
    """One image as measured; None: not measured."""

    name: str
    size_bytes: int
    cold_seconds: float | None = None
    unchanged_seconds: float | None = None
    changed_seconds: float | None = None
    stand_in: bool = False


def main(argv: Sequence[str] = ()) -> int:
    """Measures, prints, writes."""
    with tempfile.TemporaryDirectory(prefix="overnight-images-") as folder:
        checkout = _frozen(Path(folder))
        bases = _bases_seconds(checkout)
        text = page_part(measured(checkout), bases)
    print(text)
    if "--print" not in argv:
        page = PAGE.read_text("utf-8")
        new, found = _BLOCK.subn(lambda block: block[1] + text, page)
        if not found:
            print(f"{PAGE}: no place for the table", file=sys.stderr)
            return 2
        PAGE.write_text(new, "utf-8")
    return 0


def measured(checkout: Path) -> list[Image]:
    """Each image cold, again, and after a change of one file of ours."""
    images = []
    for kind, name in OURS.items():
        cold = _timed(checkout, "docker/build.sh", kind, "--no-cache")
        unchanged = _timed(checkout, "docker/build.sh", kind)
        changed = _after_a_change(checkout) if kind == "services" else None
        images.append(Image(name, _size(name) or 0, cold, unchanged, changed))
    for name in BASES:
        images.append(Image(name, _size(name) or 0, stand_in=_is_stand_in(name)))
    return images


def page_part(images: Sequence[Image], bases_seconds: float | None) -> str:
    """The table, and where it was measured."""
    lines = ["| image | size | built cold | nothing changed | code changed |",
             "| --- | --- | --- | --- | --- |"]  # fmt: skip
    lines += [
        f"| `{image.name}`{' (stand-in)' if image.stand_in else ''} | "
        f"{image.size_bytes / 1e6:,.0f} MB | {_seconds(image.cold_seconds)} | "
        f"{_seconds(image.unchanged_seconds)} | {_seconds(image.changed_seconds)} |"
        for image in images
    ]
    told = f"Measured on {_today()}: {_machine()}. Sizes include the base image."
    if bases_seconds is not None:
        told += f" All stand-ins together: {bases_seconds:.0f} s from nothing."
    return "\n".join([told, "", *lines, ""])


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def _bases_seconds(checkout: Path) -> float | None:
    """What all stand-ins together took; None where one was there already."""
    none_there = all(_size(name) is None for name in BASES)
    took = _timed(checkout, "docker/airgapped/build.sh")
    return took if none_there else None


def _after_a_change(checkout: Path) -> float:
    """Seconds of a build in which one file of ours is another; the image is as before after it."""
    file = checkout / CHANGED
    before = file.read_bytes()
    file.write_bytes(before + f"\n# {time.time_ns()}\n".encode())
    try:
        return _timed(checkout, "docker/build.sh", "services")
    finally:
        file.write_bytes(before)
        _timed(checkout, "docker/build.sh", "services")


def _frozen(folder: Path) -> Path:
    """A copy of the tracked files as they lie: an edit meanwhile is no part of a figure."""
    for name in filter(None, _output("git", "-C", str(ROOT), "ls-files", "-z").split("\0")):
        if (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    return folder


def _timed(checkout: Path, script: str, *words: str) -> float:
    began = time.monotonic()
    done = subprocess.run(
        ["bash", script, *words],
        cwd=checkout,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{script} {' '.join(words)}: {done.stderr[-2000:]}")
    return time.monotonic() - began


def _size(image: str) -> int | None:
    told = _output("docker", "image", "inspect", "--format", "{{.Size}}", image)
    return int(told) if told else None


def _is_stand_in(image: str) -> bool:
    label = '{{index .Config.Labels "overnight.stand-in"}}'
    return bool(_output("docker", "image", "inspect", "--format", label, image))


def _output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def _machine() -> str:
    engine = _output("docker", "version", "--format", "{{.Server.Version}}")
    lines = Path("/etc/os-release").read_text("utf-8").splitlines()
    names = [line.split("=", 1)[1].strip('"') for line in lines if line.startswith("PRETTY_NAME=")]
    return (
        f"{os.cpu_count()} shared cores, {names[0]}, Linux {os.uname().release.split('-')[0]}, "
        f"Docker engine {engine}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
