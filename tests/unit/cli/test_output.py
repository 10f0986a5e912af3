"""Standard output whose reader is slow, stalled or gone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from overnight.cli import output

PRELUDE = """
import sys
from overnight.cli import output
output.prepare()
"""


def child(code: str) -> subprocess.Popen[bytes]:
    """A process that writes to a pipe; who calls reads, stalls or leaves."""
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_what_is_written_comes_out_whole_and_in_order() -> None:
    writer = child("""
out = output.Outlet()
for number in range(5000):
    out.write(f"{number}\\n")
out.write_last("end\\n")
out.close()
""")
    out, err = writer.communicate(timeout=30)

    assert (writer.returncode, err) == (0, b"")
    assert out.decode().split() == [*map(str, range(5000)), "end"]


@pytest.mark.parametrize(
    "code",
    [
        "out = output.Outlet()\nfor n in range(3000): out.write('x' * 100)\nout.close()",
        "for n in range(3000): output.say('x' * 100)",
        "for n in range(3000): output.show('x' * 100)",
    ],
)
def test_a_reader_that_leaves_is_no_error_also_at_exit(code: str) -> None:
    writer = child(code)
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.read(10)
    writer.stdout.close()
    words = writer.stderr.read()
    writer.stderr.close()

    assert (writer.wait(30), words) == (0, b"")


def test_a_stalled_reader_never_stalls_the_writer_and_gets_the_end() -> None:
    writer = child("""
output.QUEUE_LINES = 10
out = output.Outlet()
for _ in range(100):
    out.write("x" * 70_000 + "\\n")  # more than a pipe holds
print(out.dropped, file=sys.stderr, flush=True)
out.write_last("the end\\n")
out.close()
""")
    assert writer.stderr is not None
    dropped = int(writer.stderr.readline())  # said before anything is read
    out, _ = writer.communicate(timeout=30)
    lines = out.decode().splitlines()

    assert dropped >= 85
    assert len(lines) == 100 - dropped + 1
    assert lines[-1] == "the end"


def test_json_is_one_ascii_line_that_drives_nothing() -> None:
    text = output.as_json({"a": "\x1b]0;x\x07\n\u202e"})

    assert text.isascii()
    assert "\x1b" not in text
    assert "\n" not in text
    assert json.loads(text) == {"a": "\x1b]0;x\x07\n\u202e"}


def test_an_error_is_one_safe_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.fail("first\nsecond \x1b[31m[bold]red\x07 \u2028end")

    assert capsys.readouterr().err == "overnight: first second [bold]red end\n"


def test_rich_takes_texts_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    output.show("[bold]x[/bold] :skull: [link=http://x]y[/link]")

    assert capsys.readouterr().out == "[bold]x[/bold] :skull: [link=http://x]y[/link]\n"
