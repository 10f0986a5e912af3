"""The printed metric: one grammar, any chunking, bounded memory."""

from __future__ import annotations

import math
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.contracts.experiment import Claim
from overnight.runner.parse import LINE_BYTES, MAX_CLAIMS, TAIL_LINES, MetricParser, Parsed

SUMMARY = b"""step 10 loss 2.1
---
val_bpb:          0.997900
training_seconds: 300.1
peak_vram_mb:     45060.2
device:           cuda:0
"""


def parse(stdout: bytes = b"", stderr: bytes = b"", name: str = "val_bpb") -> Parsed:
    parser = MetricParser(name)
    parser.feed("stdout", stdout)
    parser.feed("stderr", stderr)
    return parser.finish()


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"val_bpb: 0.9979", 0.9979),
        (b"val_bpb:0.9979", 0.9979),
        (b"  val_bpb :\t0.9979 \t", 0.9979),
        (b"val_bpb: 9.97e-01", 0.997),
        (b"val_bpb: -1", -1.0),
        (b"val_bpb: +2.5E+3", 2500.0),
        (b"val_bpb: 0", 0.0),
        (b"val_bpb: 1e-999", 0.0),
        (b"\x1b[32mval_bpb: 0.99\x1b[0m", 0.99),
        (b"\x1b]0;title\x07val\x1b[1m_bpb: 0.99", 0.99),
        (b"\xc2\x9b32mval_bpb: 0.99", 0.99),
        (b"val_bpb: 0." + b"1" * 4000, float("0." + "1" * 4000)),
    ],
)
def test_a_plain_number_is_the_value(line: bytes, value: float) -> None:
    parsed = parse(line + b"\n")

    assert (parsed.value, parsed.problem, parsed.flags) == (value, None, ())


@pytest.mark.parametrize(
    "text",
    [
        "0,997",
        "1,234.5",
        "0.997 bpb",
        "99%",
        "1_0",
        "\u0661\u0662",
        "\uff11",
        ".5",
        "5.",
        "0x1p3",
        "",
        "1e",
        "--1",
        "1 2",
        "tensor(0.9)",
        "0.9\u00a0",
        "0.9\x00",
        "1\x080.9",
        "None",
        "nano",
        "\u0660.9",
        "0." + "1" * 5000,
        "1" * 5000,
    ],
)
def test_anything_else_is_unparsable_and_never_guessed(text: str) -> None:
    parsed = parse(f"val_bpb: {text}\n".encode())

    assert (parsed.value, parsed.problem) == (None, "metric_unparsable")
    assert parsed.raw is not None
    assert len(parsed.raw) <= 64


@pytest.mark.parametrize(
    "text",
    [
        "nan",
        "NaN",
        "-nan",
        "+NAN",
        "nan(ind)",
        "inf",
        "-inf",
        "Infinity",
        "INF",
        "1e999",
        "-1e999",
        "1.#INF",
        "-1.#IND",
        "9" * 400,
    ],
)
def test_nan_inf_and_overflow_are_nonfinite(text: str) -> None:
    parsed = parse(f"val_bpb: {text}\n".encode())

    assert (parsed.value, parsed.problem) == (None, "nonfinite")


@pytest.mark.parametrize(
    "line",
    [
        b"best_val_bpb: 0.5",
        b"val_bpb2: 0.5",
        b"val_bpb=0.5",
        b"step 3 val_bpb: 0.5",
        b"VAL_BPB: 0.5",
        b"val_bpb\xff: 0.5",
        b"> val_bpb: 0.5",
        b"best_val_bpb=0.5",
        "val_bpb\uff1a 0.5".encode(),
    ],
)
def test_lookalikes_are_no_metric_lines(line: bytes) -> None:
    assert parse(line + b"\n").problem == "no_metric"
    assert parse(b"val_bpb: 0.9\n" + line + b"\n").value == 0.9


def test_only_what_follows_the_last_rule_counts() -> None:
    parsed = parse(b"val_bpb: 3\n---\nval_bpb: 2\n --- \nval_bpb: 1\nval_bpb: 0.9\n")

    assert parsed.value == 0.9
    assert parsed.flags == ("multiple_metric_lines",)


def test_a_metric_above_the_last_rule_alone_does_not_count_even_with_one_on_stderr() -> None:
    parsed = parse(b"val_bpb: 3\n---\ndone\n", b"val_bpb: 0.1\n")

    assert (parsed.value, parsed.problem) == (None, "no_metric")
    assert parsed.flags == ("metric_before_rule",)


def test_the_same_value_twice_is_one_value() -> None:
    assert parse(b"val_bpb: 0.90\nval_bpb: 9e-1\n").value == 0.9


def test_different_values_without_a_rule_are_ambiguous() -> None:
    parsed = parse(b"val_bpb: 1.2\nval_bpb: 0.9\n")

    assert (parsed.value, parsed.problem) == (None, "ambiguous_metric")
    assert parsed.raw == "1.2 ... 0.9"


def test_stderr_counts_only_where_stdout_has_none() -> None:
    on_stderr = parse(b"hello\n", b"val_bpb: 0.9\n")
    on_both = parse(b"val_bpb: 0.8\n", b"val_bpb: 0.9\n")

    assert (on_stderr.value, on_stderr.flags) == (0.9, ("metric_on_stderr",))
    assert (on_both.value, on_both.flags) == (0.8, ())


def test_a_rule_on_stderr_is_no_rule() -> None:
    parsed = parse(b"", b"val_bpb: 1\n---\nval_bpb: 2\n")

    assert parsed.problem == "ambiguous_metric"
    assert parse(b"val_bpb: 1\n", b"---\n").value == 1.0


def test_progress_bars_end_lines_too() -> None:
    assert parse(b"step 1\rstep 2\rval_bpb: 0.9\n").value == 0.9
    assert parse(b"val_bpb: 0.9\rdone").value == 0.9
    assert parse(b"val_bpb: 0.9\r\n").value == 0.9
    assert parse(b"val_bpb: 0.9").value == 0.9


def test_the_summary_gives_claims_and_memory() -> None:
    parsed = parse(b"epoch: 3\n" + SUMMARY)

    assert parsed.value == 0.9979
    assert parsed.peak_vram_mb == 45060.2
    assert parsed.claims == (
        Claim(name="training_seconds", value="300.1"),
        Claim(name="peak_vram_mb", value="45060.2"),
        Claim(name="device", value="cuda:0"),
    )


@pytest.mark.parametrize("text", ["nan", "inf", "-5", "1e999", "1e300", "12 GB"])
def test_impossible_memory_is_none(text: str) -> None:
    assert parse(f"---\nval_bpb: 1\npeak_vram_mb: {text}\n".encode()).peak_vram_mb is None


def test_claims_are_bounded_and_without_a_rule_only_numbers() -> None:
    many = "".join(f"name{i}: {i}\n" for i in range(1000))
    parsed = parse(many.encode() + b"peak_vram_mb: 7\nWarning: careful\n")

    assert len(parsed.claims) == MAX_CLAIMS + 1
    assert parsed.peak_vram_mb == 7.0
    assert all(claim.name != "Warning" for claim in parsed.claims)


def test_an_endless_line_costs_no_memory() -> None:
    """256 MiB here in 64 KiB chunks; the state does not grow, so 1 GiB is no other case."""
    parser = MetricParser("val_bpb")
    chunk = b"val_bpb: " + b"1" * (64 * 1024 - 9)
    tracemalloc.start()
    try:
        for _ in range(4096):
            parser.feed("stdout", chunk)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    parser.feed("stdout", b"\nval_bpb: 1\n")
    parsed = parser.finish()

    assert peak_bytes < 1024**2
    assert parsed.problem == "ambiguous_metric"  # the endless line was a metric line, unparsable
    assert len(parsed.tail) < 2 * LINE_BYTES


def test_a_flood_of_lines_costs_no_memory() -> None:
    parser = MetricParser("val_bpb")
    lines = b"".join(b"key%d: %d\n" % (i, i) for i in range(1000)) + b"x" * 5000 + b"\r"
    tracemalloc.start()
    try:
        for _ in range(20):
            parser.feed("stdout", lines)
            parser.feed("stderr", lines)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak_bytes < 4 * 1024**2
    assert parser.finish().problem == "no_metric"


def test_the_tail_is_the_last_lines_of_both_pipes_safe_and_without_progress() -> None:
    parser = MetricParser("val_bpb")
    parser.feed("stdout", b"\n".join(b"line %d" % i for i in range(100)) + b"\n\n")
    parser.feed("stderr", b"\x1b[31mred\x1b[0m\x07\n")
    parser.feed("stdout", b"1%\r2%\r100%\r\n50%\r60%")
    parsed = parser.finish()
    lines = parsed.tail.split("\n")

    assert len(lines) == TAIL_LINES
    assert lines[-4:] == ["line 99", "red", "100%", "60%"]
    assert parsed.error_tail == "red"


def test_a_traceback_survives_the_stdout_that_python_flushes_after_it() -> None:
    parser = MetricParser("val_bpb")
    parser.feed("stderr", b"Traceback (most recent call last):\nValueError: bad\n")
    parser.feed("stdout", b"step\n" * 500)
    parsed = parser.finish()

    assert "ValueError" not in parsed.tail
    assert parsed.error_tail.endswith("ValueError: bad")


fragments = st.sampled_from(
    [
        b"val_bpb: 0.9",
        b"val_bpb: 0.8",
        b"val_bpb: nan",
        b"\r\n",
        b"\n",
        b"\r",
        b"---",
        b"\x1b[32m",
        b"\x1b]0;t\x07",
        "\u00e9\u2028".encode(),
        b"\xff",
        b"peak_vram_mb: 12",
        b"x" * 4090,
        b" ",
        b"\xc2\x9b1m",
        b"\xe2\x80",
        b"other: 1",
    ]
)
writes = st.lists(
    st.tuples(
        st.sampled_from(["stdout", "stderr"]), st.lists(fragments, max_size=12).map(b"".join)
    ),
    max_size=8,
)


@given(writes, st.data())
def test_the_bounds_of_chunks_change_nothing(
    output: list[tuple[str, bytes]], data: st.DataObject
) -> None:
    whole, cut = MetricParser("val_bpb"), MetricParser("val_bpb")
    for stream, content in output:
        whole.feed(stream, content)
        places = data.draw(st.lists(st.integers(0, len(content)), max_size=6).map(sorted))
        for start, end in zip([0, *places], [*places, len(content)], strict=True):
            cut.feed(stream, content[start:end])

    assert cut.finish() == whole.finish()


def test_every_single_byte_chunking_gives_the_same() -> None:
    text = b"\x1b[1mval_bpb\x1b[0m: 9.5\xc3\xa9e-01\r\n---\r\nval_bpb: 9.5e-01\r\npeak_vram_mb: 3\n"
    parser = MetricParser("val_bpb")
    for byte in text:
        parser.feed("stdout", bytes([byte]))

    assert parser.finish() == parse(text)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_give_either_a_finite_value_or_a_problem(stdout: bytes, stderr: bytes) -> None:
    parsed = parse(b"val_bpb:" + stdout, stderr)

    assert (parsed.value is None) != (parsed.problem is None)
    assert parsed.value is None or math.isfinite(parsed.value)


@given(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["{!r}", "{:.6f}", "{:e}"])
)
def test_every_way_to_print_a_float_is_read_back(number: float, form: str) -> None:
    text = form.format(number)
    parsed = parse(f"val_bpb: {text}\n".encode())

    assert parsed.value == float(text)
