"""
Makes the pictures in docs/images/ from one real session of the bundled track.

    python -m benchmarks.images                 # 2 to 3 minutes, one runner, fixed steps
    python -m benchmarks.images --session DIR   # from a session that is there already
    python -m benchmarks.images --check         # from a tiny session, kept nowhere; half a minute

With fixed steps and one runner the same machine gives the same ideas and the same figures; only
durations differ from one time to the next. What a picture shows is what the command printed.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from PIL import Image
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "docs" / "images"
COLUMNS = 104
LIMIT_BYTES = 300_000
DEMO = ("demo", "--experiments", "14", "--gate", "steps", "--budget", "60", "--runners", "1")
TINY = ("demo", "--experiments", "2", "--gate", "steps", "--budget", "4", "--runners", "1")
#: Name -> the words of the command that it shows; `run` is the demo itself.
SHOWN = {
    "results": ("results", "--top", "8"),
    "report": ("report",),
    "report-full": ("report", "--full"),
}
_FONT_FACE = re.compile(r"\s*@font-face \{\{.*?\}\}\n", re.DOTALL)  # they name a host
COLOURS = 64


def main() -> None:
    """Run, take, check the size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--session", type=Path, help="a demo's folder; default: a new one")
    parser.add_argument("--check", action="store_true", help="can they be made? keeps nothing")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ovi-") as name:
        folder = Path(name)
        place = folder / "images" if chosen.check else PLACE
        place.mkdir(parents=True, exist_ok=True)
        make(place, folder, TINY if chosen.check else DEMO, chosen.session)
        sizes = {path.name: path.stat().st_size for path in sorted(place.iterdir())}
    print(*(f"{size:>8} {name}" for name, size in sizes.items()), sep="\n")
    kept = {path.name for path in PLACE.iterdir()}
    assert kept == set(sizes) or chosen.session, f"{PLACE} holds {sorted(kept)}"
    assert sum(sizes.values()) < LIMIT_BYTES, "too large to keep"


def make(place: Path, folder: Path, demo: tuple[str, ...], session: Path | None) -> None:
    """All pictures, from *session* or from a new one in *folder*."""
    if session is None:
        session = folder / "demo"
        text = on_a_terminal((*demo, "--dir", "demo"), folder, plain=True)
        draw(place / "run.svg", "overnight " + " ".join(demo), text)
    here = session.parent
    for name, words in SHOWN.items():
        text = on_a_terminal((*words, "--dir", session.name), here)
        draw(place / f"{name}.svg", "overnight " + " ".join(words), text)
    picture = folder / "curve.png"
    on_a_terminal(("report", "--png", str(picture), "--dir", session.name), here)
    small(picture, place / "curve.png")


def on_a_terminal(words: tuple[str, ...], here: Path, *, plain: bool = False) -> str:
    """What a command prints on a terminal of COLUMNS; *plain*: through a pipe."""
    argv = [sys.executable, "-m", "overnight.cli", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "services"), "TERM": "xterm-256color"}
    if plain:
        done = subprocess.run(argv, cwd=here, env=env, capture_output=True, text=True, check=True)
        return done.stdout
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    process = subprocess.Popen(argv, cwd=here, env=env, stdout=theirs, stderr=theirs)
    os.close(theirs)
    data = b""
    try:
        while block := os.read(ours, 65536):
            data += block
    except OSError:
        pass  # Linux says so when the other end is closed
    os.close(ours)
    assert process.wait() == 0, data.decode()
    return data.decode().replace("\r\n", "\n")


def draw(path: Path, title: str, text: str) -> None:
    """The text as a terminal's window, without anything from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text.rstrip()), soft_wrap=False)
    form = _FONT_FACE.sub("\n", CONSOLE_SVG_FORMAT).replace("Fira Code, ", "")
    svg = console.export_svg(title=title, code_format=form, unique_id=f"overnight-{path.stem}")
    assert "http" not in svg.replace("http://www.w3.org", "").replace("https://www.textualize", "")
    path.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")


def small(picture: Path, to: Path) -> None:
    """Few colours are enough for a curve."""
    Image.open(picture).convert("RGB").quantize(COLOURS).save(to, optimize=True)


if __name__ == "__main__":
    main()
