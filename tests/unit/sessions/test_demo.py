"""The demo's folder: the bundled track, copied whole or not at all."""

from __future__ import annotations

import importlib.util
from datetime import date
from pathlib import Path

import pytest

from overnight.configuration import resolve_loop
from overnight.contracts.errors import ConfigError, UsageError
from overnight.sessions import demo
from overnight.sessions.demo import bundled_track, check_can_train, prepare_demo, track_of

DAY = date(2026, 11, 29)


def test_each_demo_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    first = prepare_demo(None, {}, here=tmp_path, today=DAY)
    second = prepare_demo(None, {}, here=tmp_path, today=DAY)

    assert first.repo == tmp_path / "demo" / "2026-11-29-1"
    assert second.repo == tmp_path / "demo" / "2026-11-29-2"
    assert first.new
    assert sorted(p.name for p in (tmp_path / "demo").iterdir()) == ["2026-11-29-1", "2026-11-29-2"]
    for name in ("train.py", "prepare.py", "track.yaml", "data/MANIFEST.json"):
        assert (first.repo / name).read_bytes() == (bundled_track() / name).read_bytes()


def test_settings_stay_with_the_folder_so_that_a_plain_run_goes_on(tmp_path: Path) -> None:
    made = prepare_demo(
        tmp_path / "d",
        {"gate": "steps", "budget": 7.0, "seed": None},
        here=tmp_path,
        today=DAY,
    )
    config = resolve_loop(made.repo, flags={}, environ={}, track=track_of(made.repo)).config

    assert (config.gate, config.budget, config.metric.name) == ("steps", 7.0, "val_bpb")
    assert config.plausible.min == 1.0


def test_a_folder_with_a_track_is_taken_as_it_is(tmp_path: Path) -> None:
    first = prepare_demo(Path("d"), {}, here=tmp_path, today=DAY)
    (first.repo / "train.py").write_text("LR = 1\n")
    again = prepare_demo(Path("d"), {"budget": 3.0}, here=tmp_path, today=DAY)

    assert (again.repo, again.new) == (first.repo, False)
    assert (again.repo / "train.py").read_text() == "LR = 1\n"
    assert not (again.repo / "loop.run.yaml").exists()


def test_a_folder_with_something_else_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(UsageError, match="holds something else"):
        prepare_demo(tmp_path, {}, here=tmp_path, today=DAY)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()

    assert prepare_demo(tmp_path / "d", {}, here=tmp_path, today=DAY).new
    assert (tmp_path / "d" / "track.yaml").is_file()


def test_a_track_yaml_of_something_else_is_not_taken_for_ours(tmp_path: Path) -> None:
    assert track_of(tmp_path) is None
    (tmp_path / "track.yaml").write_text("songs: [a, b]\n")
    assert track_of(tmp_path) is None
    (tmp_path / "track.yaml").write_text("metric: m\nrun_cmd: [: broken\n")
    track = track_of(tmp_path)

    with pytest.raises(ConfigError, match=r"track\.yaml"):
        resolve_loop(tmp_path, flags={}, environ={}, track=track)


def test_without_torch_the_one_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        demo.importlib.util, "find_spec", lambda name: None if name == "torch" else found(name)
    )

    with pytest.raises(UsageError, match=r"pip install 'overnight\[train\]'"):
        check_can_train()
