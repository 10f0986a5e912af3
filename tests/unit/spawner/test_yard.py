"""What a yard lets in, and what it finds again: with an engine in memory."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.spawner.fakes import IMAGE, FakeEngine, wish, yard_of

from overnight.contracts.errors import (
    InfrastructureError,
    SandboxAwayError,
    SandboxUnavailableError,
)


def refusal(folder: Path, profile: dict[str, Any], **settings: Any) -> str:
    """Why a profile gets no place; "" when it gets one."""
    engine = FakeEngine()
    yard = yard_of(folder, engine, **settings)
    try:
        yard.make(engine, wish(yard, **profile))  # type: ignore[arg-type]
    except SandboxUnavailableError as error:
        assert list((yard.root / "sandboxes").iterdir()) == [], "a refusal left a folder"
        assert yard.living == 0
        return error.reason
    finally:
        yard.close()
    return ""


def test_so_many_sandboxes_at_once_and_no_more(tmp_path: Path) -> None:
    engine = FakeEngine()
    yard = yard_of(tmp_path, engine, max_sandboxes=2)
    name, first = yard.make(engine, wish(yard))  # type: ignore[arg-type]
    yard.make(engine, wish(yard))  # type: ignore[arg-type]

    with pytest.raises(SandboxUnavailableError, match="2 sandboxes run already"):
        yard.make(engine, wish(yard))  # type: ignore[arg-type]

    assert first.close() is None
    yard.forget(name)
    yard.make(engine, wish(yard))  # type: ignore[arg-type]


def test_so_many_starts_a_minute_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("overnight.spawner.yard.time.monotonic", lambda: now[0])
    engine = FakeEngine()
    yard = yard_of(tmp_path, engine, starts_per_minute=2)
    for _ in range(2):
        name, made = yard.make(engine, wish(yard))  # type: ignore[arg-type]
        made.close()
        yard.forget(name)

    with pytest.raises(SandboxUnavailableError, match="in a minute"):
        yard.make(engine, wish(yard))  # type: ignore[arg-type]

    now[0] += 61
    yard.make(engine, wish(yard))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("image", "images", "says"),
    [
        (None, "", ""),
        (None, "other:1", ""),  # its own is always allowed
        (IMAGE, f"other:1, {IMAGE}", ""),
        (IMAGE, "other:1", "not among those allowed"),
        (f"{IMAGE}2", IMAGE, "not among those allowed"),
        ("missing:1", "", "is not there"),
    ],
)
def test_only_images_of_the_list(tmp_path: Path, image: str | None, images: str, says: str) -> None:
    found = refusal(tmp_path, {"image": image}, images=images)

    assert says in found
    assert bool(says) == bool(found)


@pytest.mark.parametrize("allowed", [True, False])
def test_the_hosts_network_only_where_it_is_allowed(tmp_path: Path, allowed: bool) -> None:
    found = refusal(tmp_path, {"network": "host"}, network_host=allowed)

    assert found == ("" if allowed else "network: host is not allowed here")


def test_only_places_below_the_listed_ones_are_shown(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for path in (data / "x", tmp_path / "data2"):
        path.mkdir(parents=True)
    settings = {"reads": str(data)}

    def shown(path: Path | str, folder: str) -> str:
        return refusal(tmp_path / folder, {"reads": (str(path),)}, **settings)

    assert shown(data / "x", "a") == ""
    assert shown(data, "b") == ""
    assert "not among what may be shown" in shown(tmp_path / "data2", "c")
    assert "not among what may be shown" in shown(f"{data}/../data2", "d")
    assert "not among what may be shown" in shown("/usr/share", "e")


@pytest.mark.parametrize("place", ["/", "/etc", "/proc/1", "/var/run/docker.sock"])
def test_no_list_shows_the_hosts_own_places(tmp_path: Path, place: str) -> None:
    assert refusal(tmp_path / "listed", {"reads": (place,)}, reads="/") != ""
    assert refusal(tmp_path / "unlisted", {"reads": (place,)}) != ""


def test_its_own_root_is_never_shown(tmp_path: Path) -> None:
    root = tmp_path / "root"

    assert "would show" in refusal(tmp_path, {"reads": (str(root.parent),)}, reads=str(tmp_path))
    assert "would show" in refusal(tmp_path, {"reads": (str(root.parent),)})


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc"])
def test_a_place_at_home_stays_at_home(tmp_path: Path, name: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    profile = {"reads": (str(data),), "at_home": ((name, str(data)),)}

    assert "can't be shown at home" in refusal(tmp_path / "y", profile)


def test_a_refused_place_costs_no_user_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeEngine()
    yard = yard_of(tmp_path, engine)

    def full(place: Any) -> None:
        place.scratch.mkdir()
        raise OSError(28, "No space left on device", str(place.scratch))

    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr("overnight.spawner.yard.Place.make", full)
        with pytest.raises(SandboxUnavailableError, match="No space left on device"):
            yard.make(engine, wish(yard))  # type: ignore[arg-type]

    assert list((yard.root / "sandboxes").iterdir()) == []
    assert yard.living == 0
    assert len(os.listdir("/proc/self/fd")) == before


def test_two_spawners_do_not_share_a_root_and_the_second_may_try_again(tmp_path: Path) -> None:
    engine = FakeEngine()
    first = yard_of(tmp_path, engine)
    with pytest.raises(InfrastructureError, match="another spawner holds"):
        yard_of(tmp_path, engine)

    first.close()
    yard_of(tmp_path, engine).close()


def test_an_engine_that_is_away_at_its_start_is_asked_again(tmp_path: Path) -> None:
    engine = FakeEngine(down=True)
    with pytest.raises(SandboxAwayError) as away:
        yard_of(tmp_path, engine)

    assert "engine" in away.value.reason
    with (tmp_path / "root" / "held").open() as held, pytest.raises(BlockingIOError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_containers_of_a_dead_spawner_are_found_by_its_label_and_no_other(tmp_path: Path) -> None:
    engine = FakeEngine()
    yard = yard_of(tmp_path, engine)
    own = {"overnight.spawner": yard.id, "overnight.sandbox": "s1", "overnight.runner": "r0"}
    yard.close()
    stranger = {"overnight.spawner": "another", "overnight.runner": "r0"}
    engine.labels = {"mine": own, "theirs": stranger, "nobody's": {}}

    again = yard_of(tmp_path, engine)

    assert again.orphaned == 1
    assert again.tidy({"runner": "r1"}).ended == 0
    assert again.tidy({"runner": "r0"}).ended == 1
    assert set(engine.labels) == {"theirs", "nobody's"}


def test_what_the_engine_does_not_remove_stays_with_its_reason_and_is_removed_later(
    tmp_path: Path,
) -> None:
    engine = FakeEngine()
    yard = yard_of(tmp_path, engine)
    own = {"overnight.spawner": yard.id, "overnight.sandbox": "s1"}
    yard.close()
    engine.labels = {"mine": own}
    again = yard_of(tmp_path, engine)
    engine.down = True

    (stuck,) = again.tidy({}).stuck
    engine.down = False

    assert "can't be removed" in stuck.reason
    assert "the engine does not answer" in stuck.reason
    assert again.tidy({}).ended == 1
    assert engine.labels == {}
