"""A metric found by a person's pattern: every line, any chunking, and never without an end."""

from __future__ import annotations

import math
import signal
import threading
import time
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.contracts.loop import CommandSource, Constraint, JsonSource, RegexSource
from overnight.runner.lines import LINE_BYTES
from overnight.runner.parse import MetricParser, Parsed
from overnight.runner.timebox import CHUNK_SECONDS

LOSS = r"val_loss:([0-9.eE+-]+)"
SPEEDRUN = b"".join(
    b"step:%d/9 val_loss:%.4f train_time:%dms\n" % (step, 4 - step / 10, step * 100)
    for step in range(10)
)
Take = Literal["last", "min", "max", "only"]


def parse(
    stdout: bytes = b"", stderr: bytes = b"", *, regex: str = LOSS, take: Take = "last",
    constraints: tuple[Constraint, ...] = (),
) -> Parsed:  # fmt: skip
    parser = MetricParser("val_loss", RegexSource(regex=regex, take=take), constraints)
    parser.feed("stdout", stdout)
    parser.feed("stderr", stderr)
    return parser.finish()


@pytest.mark.parametrize(
    ("take", "value"), [("last", 3.1), ("min", 3.1), ("max", 4.0), ("only", None)]
)
def test_of_many_matches_the_one_that_was_asked_for_counts(take: Take, value: float | None) -> None:
    parsed = parse(SPEEDRUN, take=take)

    assert parsed.value == value
    if value is None:
        assert parsed.problem == "ambiguous_metric"
        assert parsed.why == (
            f"/{LOSS}/ finds different values of val_loss (take: only): 4.0000 ... 3.1000"
        )


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"val_loss:9.97e-01", 0.997),
        (b"\x1b[32mval_loss:\x1b[1m0.99\x1b[0m", 0.99),
        (b"step 1\rstep 2\rval_loss:0.9", 0.9),
        (b"val_loss:0.9\r\n", 0.9),
        (b"val_loss:2 val_loss:1", 1.0),
        (b"val_loss:-0.5", -0.5),
        (b"best_val_loss:0.5", 0.5),  # a pattern means what it says
        ("\u00e9\u2028 val_loss:1 \u00e9".encode(), 1.0),
        (b"\xff val_loss:1", 1.0),
        (b"---\nval_loss:1\n---\n", 1.0),  # the rule of the summary is not the pattern's
    ],
)
def test_the_group_is_the_value_wherever_it_stands(line: bytes, value: float) -> None:
    assert parse(line).value == value


@pytest.mark.parametrize(
    ("regex", "line", "problem"),
    [
        (r"loss=(\S+)", b"loss=nan", "nonfinite"),
        (r"loss=(\S+)", b"loss=-inf", "nonfinite"),
        (r"loss=(\S+)", b"loss=1e999", "nonfinite"),
        (r"loss=(\S+)", b"loss=1,234", "metric_unparsable"),
        (r"loss=(\S+)", b"loss=0.997bpb", "metric_unparsable"),
        (r"loss=(.*)", b"loss=", "metric_unparsable"),
        (r"loss=(.*)", "loss=1\u00a0".encode(), "metric_unparsable"),
        (r"loss=(\S+)", "loss=\u0661".encode(), "metric_unparsable"),
        (r"loss=(\S+)", b"nothing", "no_metric"),
        (r"loss=(\S+)", b"", "no_metric"),
        (r"^loss=(\S+)$", b"the loss=1", "no_metric"),
        (r"(?:a|b(\d))", b"a", "no_metric"),
    ],
)
def test_the_grammar_of_a_value_is_the_same_as_in_a_summary(
    regex: str, line: bytes, problem: str
) -> None:
    parsed = parse(line, regex=regex)

    assert (parsed.value, parsed.problem) == (None, problem)
    assert parsed.why.isprintable()
    assert parsed.why


@pytest.mark.parametrize("take", ["min", "max"])
def test_the_best_of_a_run_that_diverged_is_no_result(take: Take) -> None:
    """The smallest of 3.2, nan, 3.1 would hide that the training broke."""
    parsed = parse(b"l=3.2\nl=nan\nl=3.1\n", regex=r"l=(\S+)", take=take)

    assert (parsed.value, parsed.problem) == (None, "nonfinite")
    assert parse(b"l=3.2\nl=nan\nl=3.1\n", regex=r"l=(\S+)").value == 3.1


def test_the_same_value_often_is_one_value() -> None:
    assert parse(b"val_loss:0.90\nval_loss:9e-1\n", take="only").value == 0.9


def test_stderr_counts_only_where_stdout_has_no_match() -> None:
    assert parse(b"val_loss:1\n", b"val_loss:2\n").value == 1.0
    alone = parse(b"nothing\n", b"val_loss:2\n")

    assert (alone.value, alone.flags) == (2.0, ("metric_on_stderr",))


def test_a_number_whose_end_is_cut_off_is_none() -> None:
    line = b"x" * (LINE_BYTES - 11) + b"val_loss:123456\n"

    assert parse(line).problem == "metric_unparsable"
    assert parse(b"val_loss:7 " + b"x" * 2 * LINE_BYTES).value == 7.0


@given(st.lists(st.integers(0, len(SPEEDRUN)), max_size=8).map(sorted))
def test_the_bounds_of_chunks_change_nothing(places: list[int]) -> None:
    parser = MetricParser("val_loss", RegexSource(regex=LOSS, take="min"))
    for start, end in zip([0, *places], [*places, len(SPEEDRUN)], strict=True):
        parser.feed("stdout", SPEEDRUN[start:end])

    assert parser.finish() == parse(SPEEDRUN, take="min")


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_give_either_a_finite_value_or_a_problem(stdout: bytes, stderr: bytes) -> None:
    parsed = parse(b"l=" + stdout, stderr, regex=r"l=(.*)")

    assert (parsed.value is None) != (parsed.problem is None)
    assert parsed.value is None or math.isfinite(parsed.value)


BACKTRACKS = [
    (r"(a+)+$", "a" * 4000 + "b"),
    (r"(?:a|a)*b(x)", "a" * 4000),
    (r"a*a*a*a*(b)", "a" * 4096),
    (r".*.*.*(\d)x", "z" * 4096),
    (r"(?:(?:\w+\s?)+)(\d)$", "ab " * 1300),
    (r"(?:a?){50}a{50}(b)", "a" * 4096),
]


@pytest.mark.parametrize(("regex", "line"), BACKTRACKS)
def test_a_pattern_that_backtracks_without_end_is_given_up(regex: str, line: str) -> None:
    """However often the output repeats the line: the runner has a deadline to keep."""
    began = time.process_time()
    parsed = parse((line.encode() + b"\n") * 50, regex=regex)
    spent = time.process_time() - began

    assert (parsed.value, parsed.problem) == (None, "metric_unparsable")
    assert parsed.why.endswith("takes too long on this output: write a simpler one")
    assert spent < 4 * CHUNK_SECONDS
    assert parsed.tail.count("\n") == 49, "the rest of the output is read on"


def test_a_flood_of_honest_lines_is_no_reason_to_give_up() -> None:
    """As they come from a pipe, 64 KiB at a time."""
    parser = MetricParser("val_loss", RegexSource(regex=r"step:\d+/\d+ val_loss:(\S+) .*ms"))
    chunk = SPEEDRUN * (65536 // len(SPEEDRUN))
    for _ in range(30):
        parser.feed("stdout", chunk)

    assert parser.finish().value == 3.1


def test_a_pattern_leaves_no_timer_and_no_handler_behind() -> None:
    parse((b"a" * 4000 + b"b\n") * 2, regex=r"(a+)+$")

    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL


def test_outside_the_main_thread_a_pattern_is_refused_and_nothing_hangs() -> None:
    """Signals reach the main thread alone: elsewhere nothing could end it."""
    caught: list[BaseException] = []

    def work() -> None:
        try:
            parse(b"val_loss:1\n")
        except ValueError as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)

    assert len(caught) == 1


PEAK = Constraint(name="peak", max=5000, regex=r"peak memory: (\d+) MiB")
STEPS = Constraint(name="steps", min=10)


def test_constraints_are_measured_by_their_last_number() -> None:
    parsed = parse(
        b"peak memory: 3000 MiB\nsteps: 9\nval_loss:1\nsteps: 12\npeak memory: 4000 MiB\n",
        b"steps: 99\n",
        constraints=(PEAK, STEPS),
    )

    assert parsed.measures == {"peak": 4000.0, "steps": 12.0}
    assert parsed.value == 1.0


@pytest.mark.parametrize("text", ["nan", "12 steps", "1,000", "", "inf"])
def test_a_constraint_whose_last_number_is_none_was_not_measured(text: str) -> None:
    parsed = parse(f"steps: 5\nsteps: {text}\n".encode(), constraints=(STEPS,))

    assert parsed.measures == {}


def test_a_constraint_may_stand_on_stderr_and_beside_a_plain_metric() -> None:
    parser = MetricParser("val_bpb", "stdout_line", (STEPS, Constraint(name="val_bpb", max=2)))
    parser.feed("stderr", b"steps: 11\n")
    parser.feed("stdout", b"---\nval_bpb: 1.5\n")
    parsed = parser.finish()

    assert parsed.measures == {"steps": 11.0, "val_bpb": 1.5}
    assert parsed.value == 1.5


def test_a_constraint_that_backtracks_is_flagged_and_not_measured() -> None:
    slow = Constraint(name="slow", max=1, regex=r"(?:a|a)*b(x)")
    parser = MetricParser("val_bpb", "stdout_line", (slow,))
    parser.feed("stdout", b"a" * 4000 + b"\nval_bpb: 1\n")
    parsed = parser.finish()

    assert (parsed.value, parsed.measures, parsed.flags) == (1.0, {}, ("slow_pattern",))


@pytest.mark.parametrize(
    "source",
    [JsonSource.model_validate({"json": "r.json", "key": "a"}), CommandSource(command=("x",))],
)
def test_with_another_source_a_printed_line_is_no_metric(
    source: JsonSource | CommandSource,
) -> None:
    parser = MetricParser("val_bpb", source)
    parser.feed("stdout", b"val_bpb: 0.1\n")

    assert parser.finish().problem == "no_metric"


def test_the_last_words_hold_both_ends_and_stay_short() -> None:
    parser = MetricParser("val_bpb")
    parser.feed("stderr", b'Traceback (most recent call last):\n  File "x"\nValueError: why\n')
    parser.feed("stdout", b"".join(b"line %d %s\n" % (i, b"x" * 200) for i in range(99)))
    tail = parser.finish().log_tail

    assert "line 98" in tail
    assert tail.endswith("ValueError: why")
    assert len(tail) <= 4000
    assert len(tail.split("\n")) <= 50


def test_the_last_words_come_from_the_end() -> None:
    parser = MetricParser("val_bpb")
    parser.feed("stdout", b"".join(b"line %d %s\n" % (i, b"x" * 900) for i in range(99)))
    tail = parser.finish().log_tail

    assert len(tail) == 4000
    assert "line 98" in tail
