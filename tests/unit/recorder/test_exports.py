"""results.tsv and experiments.jsonl: exact, one record a line, replaced when not ours."""

from __future__ import annotations

import csv
import json
import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.contracts.errors import InfrastructureError
from overnight.contracts.status import Role, Status
from overnight.contracts.wire import loads
from overnight.recorder.exports import (
    ExportEntry,
    Exports,
    commit_label,
    jsonl_line,
    tsv_header,
    tsv_line,
)

BASELINE = ExportEntry(
    id=1,
    label="iter1",
    commit="a" * 40,
    branch="iter1",
    role=Role.BASELINE,
    status=Status.KEEP,
    reason=None,
    metric=0.9979004,
    hypothesis="the tree as it is",
    proposer="orchestrator",
    attempt=1,
    peak_vram_mb=45060.2,
    runtime_s=325.9,
)
SECOND = replace(
    BASELINE,
    id=2,
    label="iter2",
    branch="iter2",
    role=Role.CANDIDATE,
    status=Status.DISCARD,
    metric=1.0050001,
    hypothesis="switch to GeLU",
    proposer="search",
    parent=1,
    peak_vram_mb=None,
)
ODD_TEXT = 'a\tb\nc\rd\x0be\x0cf\x1cg\x85h\u2028i\u2029j "k" \x1b[31ml\x00'

finite = st.floats(allow_nan=False, allow_infinity=False)
entries = st.builds(
    ExportEntry,
    id=st.integers(1, 10**7),
    label=st.sampled_from(["iter3", "abc1234"]),
    commit=st.none() | st.just("b" * 40),
    branch=st.text(),
    role=st.sampled_from(Role),
    status=st.sampled_from(Status),
    reason=st.sampled_from([None, "oom", "train", "nonfinite"]),
    metric=st.none() | st.floats(),
    hypothesis=st.text() | st.just(ODD_TEXT) | st.text("\ud800\u2028\x85\t\"\\'=+-@\n"),
    proposer=st.text(),
    attempt=st.none() | st.integers(1, 9),
    peak_vram_mb=st.none() | st.floats(),
    runtime_s=st.none() | st.floats(),
    notes=st.text() | st.just(ODD_TEXT),
)


def test_the_lines_are_exactly_as_promised() -> None:
    assert tsv_header("val_bpb") == "commit\tval_bpb\tmemory_gb\tstatus\tdescription\n"
    assert tsv_line(BASELINE) == "iter1\t0.997900\t44.0\tkeep\tbaseline\n"
    assert tsv_line(SECOND) == "iter2\t1.005000\t0.0\tdiscard\tswitch to GeLU\n"


@pytest.mark.parametrize(
    ("status", "reason", "metric", "line"),
    [
        (Status.KEEP, None, 0.5, "0.500000\t1.0\tkeep\twider"),
        (Status.DISCARD, None, 0.5, "0.500000\t1.0\tdiscard\twider"),
        (Status.HELD, "implausible", 0.5, "0.500000\t1.0\tdiscard\twider"),
        (Status.PRUNED, None, 0.5, "0.500000\t1.0\tdiscard\twider"),
        (Status.PRUNED, None, None, "0.000000\t0.0\tcrash\twider"),
        (Status.TIMEOUT, "train", None, "0.000000\t0.0\tcrash\twider (timeout)"),
        (Status.CRASH, "oom", None, "0.000000\t0.0\tcrash\twider (OOM)"),
        (Status.CRASH, "nonfinite", None, "0.000000\t0.0\tcrash\twider"),
        (Status.REJECTED, "tampered", 0.5, "0.500000\t1.0\tdiscard\twider"),
    ],
)
def test_every_verdict_has_its_line(
    status: Status, reason: str | None, metric: float | None, line: str
) -> None:
    entry = replace(
        SECOND, status=status, reason=reason, metric=metric, hypothesis="wider", peak_vram_mb=1024.0
    )

    assert tsv_line(entry) == f"iter2\t{line}\n"


@pytest.mark.parametrize("status", [Status.INFRA, Status.CANCELLED, Status.SCORED])
def test_what_says_nothing_of_the_idea_has_no_tsv_line(status: Status) -> None:
    assert tsv_line(replace(SECOND, status=status, metric=None)) is None


def test_rejected_before_running_has_no_tsv_line() -> None:
    assert tsv_line(replace(SECOND, status=Status.REJECTED, metric=None, attempt=None)) is None


def test_labels_are_seven_digits_with_branches_else_iter() -> None:
    assert commit_label("branches", 4, "0123456789" * 4) == "0123456"
    assert commit_label("snapshots", 4, "0123456789" * 4) == "iter4"
    assert commit_label("branches", 4, None) == "iter4"


def test_c1_03_nan_never_makes_invalid_json() -> None:
    line = jsonl_line(replace(SECOND, metric=float("nan"), runtime_s=float("inf")))

    value = loads(line)
    assert isinstance(value, dict)
    assert value["metric"] is None
    assert value["runtime_s"] is None


def test_c1_14_a_crash_is_null_in_jsonl_and_a_zero_only_in_tsv() -> None:
    crash = replace(SECOND, status=Status.CRASH, reason="no_metric", metric=0.0)

    assert json.loads(jsonl_line(crash))["metric"] is None
    assert tsv_line(crash) == "iter2\t0.000000\t0.0\tcrash\tswitch to GeLU\n"


def test_jsonl_starts_with_the_six_keys_and_keeps_full_precision_and_utf8() -> None:
    entry = replace(SECOND, metric=0.1234567890123, hypothesis="größer 模型 🚀\t\u2028", notes="n")
    line = jsonl_line(entry)
    value = json.loads(line)

    assert list(value)[:6] == ["id", "branch", "hypothesis", "metric", "runtime_s", "notes"]
    assert value["metric"] == 0.1234567890123
    assert value["hypothesis"] == entry.hypothesis
    assert "größer 模型 🚀\\t\\u2028" in line


@given(st.lists(entries, max_size=5))
def test_every_reader_sees_one_record_a_line(some: list[ExportEntry]) -> None:
    lines = [line for line in map(tsv_line, some) if line is not None]
    text = tsv_header("val_bpb") + "".join(lines)
    text.encode()

    assert len(text.splitlines()) == len(text.split("\n")) - 1 == len(lines) + 1
    for quoting in (csv.QUOTE_NONE, csv.QUOTE_MINIMAL):
        rows = list(csv.reader(text.splitlines(keepends=True), delimiter="\t", quoting=quoting))
        assert [len(row) for row in rows] == [5] * (len(lines) + 1)
        for row in rows[1:]:
            float(row[1]), float(row[2])
            assert row[3] in {"keep", "discard", "crash"}
            assert row[4]
            assert not row[4].startswith(("=", "+", "-", "@"))


@given(entries)
def test_every_jsonl_line_is_strict_json_of_one_line(entry: ExportEntry) -> None:
    line = jsonl_line(entry)
    line.encode()
    value = loads(line)

    assert isinstance(value, dict)
    assert line.splitlines() == [line[:-1]]
    assert value["hypothesis"] == entry.hypothesis
    assert value["notes"] == entry.notes


def read(folder: Path) -> tuple[str, str]:
    return (folder / "results.tsv").read_text(), (folder / "experiments.jsonl").read_text()


def quarantined(folder: Path) -> dict[str, str]:
    place = folder / "quarantine"
    return {path.name: path.read_text() for path in place.iterdir()} if place.exists() else {}


@pytest.fixture
def exports(tmp_path: Path) -> Exports:
    built = Exports(tmp_path, "val_bpb")
    built.rebuild([BASELINE])
    return built


def test_appending_and_rebuilding_give_the_same_bytes(exports: Exports, tmp_path: Path) -> None:
    rejected = replace(SECOND, id=3, status=Status.REJECTED, metric=None, attempt=None)
    assert exports.append(SECOND)
    assert exports.append(rejected)
    appended = read(tmp_path)
    exports.rebuild([BASELINE, SECOND, rejected])

    assert read(tmp_path) == appended
    assert appended[0].count("\n") == 3
    assert appended[1].count("\n") == 3
    assert quarantined(tmp_path) == {}


def test_a_new_process_goes_on_after_a_match(exports: Exports, tmp_path: Path) -> None:
    again = Exports(tmp_path, "val_bpb")

    assert not again.append(SECOND)  # it can't know what stands there
    assert again.matches([BASELINE])
    assert again.append(SECOND)
    assert again.matches([BASELINE, SECOND])
    assert not again.matches([BASELINE])


def test_an_empty_session_has_a_header(tmp_path: Path) -> None:
    Exports(tmp_path, "val_bpb").rebuild([])

    assert read(tmp_path) == (tsv_header("val_bpb"), "")


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-5],
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text + "\0\0\0",
        lambda text: text + "mine\n",
        lambda text: text.replace("keep", "lost"),
        lambda text: text.replace("val_bpb", "accuracy"),
    ],
)
@pytest.mark.parametrize("live", [True, False])
def test_a_file_that_is_not_ours_is_kept_aside_and_rebuilt(
    exports: Exports, tmp_path: Path, damage: object, live: bool
) -> None:
    path = tmp_path / "results.tsv"
    good = path.read_text()
    assert callable(damage)
    path.write_bytes(damage(good).encode())
    used = exports if live else Exports(tmp_path, "val_bpb")

    assert not used.append(SECOND)
    assert not used.matches([BASELINE])
    used.rebuild([BASELINE])
    assert path.read_text() == good
    assert {name: text.encode() for name, text in quarantined(tmp_path).items()}.keys() == {
        "results.tsv.1"
    }
    assert (tmp_path / "quarantine/results.tsv.1").read_bytes() == damage(good).encode()
    assert used.append(SECOND)


def test_a_deleted_file_comes_back_and_nothing_is_quarantined(
    exports: Exports, tmp_path: Path
) -> None:
    before = read(tmp_path)
    (tmp_path / "experiments.jsonl").unlink()

    assert not exports.append(SECOND)
    exports.rebuild([BASELINE])
    assert read(tmp_path) == before
    assert quarantined(tmp_path) == {}


def test_whole_lines_that_only_lag_behind_are_not_quarantined(
    exports: Exports, tmp_path: Path
) -> None:
    fresh = Exports(tmp_path, "val_bpb")
    assert not fresh.matches([BASELINE, SECOND])
    fresh.rebuild([BASELINE, SECOND])

    assert fresh.matches([BASELINE, SECOND])
    assert quarantined(tmp_path) == {}


def test_a_later_decision_replaces_the_line_in_its_place(exports: Exports, tmp_path: Path) -> None:
    third = replace(SECOND, id=3, label="iter3")
    exports.append(SECOND)
    exports.append(third)
    changed = replace(SECOND, status=Status.CRASH, reason="exit_code", metric=None)

    assert not exports.append(changed)
    exports.rebuild([BASELINE, SECOND, third, changed])
    lines = read(tmp_path)[0].splitlines()
    assert [line.split("\t")[0] for line in lines[1:]] == ["iter1", "iter2", "iter3"]
    assert lines[2].split("\t")[3] == "crash"
    assert quarantined(tmp_path) == {}


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_what_is_no_plain_file_neither_blocks_nor_is_followed(
    exports: Exports, tmp_path: Path, kind: str
) -> None:
    path, victim = tmp_path / "results.tsv", tmp_path / "victim"
    victim.write_bytes(path.read_bytes())
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(victim)

    assert not exports.append(SECOND)
    assert not exports.matches([BASELINE])
    exports.rebuild([BASELINE, SECOND])
    assert exports.matches([BASELINE, SECOND])
    assert victim.read_text().count("\n") == 2


def test_a_full_disk_is_said_and_the_old_file_stands(exports: Exports, tmp_path: Path) -> None:
    before = read(tmp_path)
    many = [replace(SECOND, id=i) for i in range(2, 2000)]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(InfrastructureError, match=r"results\.tsv"):
            exports.rebuild([BASELINE, *many])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert read(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["experiments.jsonl", "results.tsv"]


def test_a_torn_append_is_said_and_healed_by_the_rebuild(exports: Exports, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size_bytes = (tmp_path / "results.tsv").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes + 10, hard))
    try:
        with pytest.raises(InfrastructureError):
            exports.append(SECOND)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert not exports.append(SECOND)
    exports.rebuild([BASELINE, SECOND])
    assert exports.matches([BASELINE, SECOND])
    assert list(quarantined(tmp_path)) == ["results.tsv.1"]
