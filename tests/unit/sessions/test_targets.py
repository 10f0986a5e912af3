"""A session tells a Prometheus of its host where its services serve, and takes it back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from overnight.contracts.errors import ConfigError
from overnight.sessions.targets import Targets

SID = "0123456789ab"
ENDPOINTS = {
    "recorder": "http://127.0.0.1:4101/metrics",
    "r0": "http://127.0.0.1:4103/metrics",
    "orchestrator": "http://127.0.0.1:4102/metrics",
}


def test_each_service_is_a_target_that_names_its_job(tmp_path: Path) -> None:
    Targets(str(tmp_path), SID).tell(ENDPOINTS)

    assert json.loads((tmp_path / f"{SID}.json").read_text()) == [
        {"targets": ["127.0.0.1:4102"], "labels": {"job": "orchestrator"}},
        {"targets": ["127.0.0.1:4103"], "labels": {"job": "runner"}},
        {"targets": ["127.0.0.1:4101"], "labels": {"job": "recorder"}},
    ]
    assert (tmp_path / f"{SID}.json").stat().st_mode & 0o777 == 0o644


def test_what_changed_replaces_the_file_and_the_end_removes_it(tmp_path: Path) -> None:
    targets = Targets(str(tmp_path), SID)
    targets.tell(ENDPOINTS)
    targets.tell({"recorder": "http://127.0.0.1:5000/metrics"})

    assert [path.name for path in tmp_path.iterdir()] == [f"{SID}.json"]
    assert "127.0.0.1:5000" in (tmp_path / f"{SID}.json").read_text()
    targets.forget()
    assert list(tmp_path.iterdir()) == []


def test_nobody_is_told_without_a_folder_and_a_folder_must_be_one(tmp_path: Path) -> None:
    targets = Targets("", SID)
    targets.tell(ENDPOINTS)
    targets.forget()

    with pytest.raises(ConfigError, match=r"TARGETS_DIR: .*nowhere is not a folder"):
        Targets(str(tmp_path / "nowhere"), SID)


def test_a_folder_that_is_gone_costs_the_session_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "targets"
    folder.mkdir()
    targets = Targets(str(folder), SID)
    folder.rmdir()
    targets.tell(ENDPOINTS)
    folder.mkdir()
    targets.tell(ENDPOINTS)

    assert (folder / f"{SID}.json").exists()
