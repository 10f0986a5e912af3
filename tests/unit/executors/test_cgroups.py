"""Control groups of both versions, on a tree of plain files."""

from __future__ import annotations

from pathlib import Path

import pytest

from overnight.contracts.execution import Limits
from overnight.executors import cgroups

LIMITS = Limits(memory_bytes=1000, pids=40)
V1_PLACE = "5:pids:/\n4:memory:/user/me\n2:cpuacct:/hidden\n"
V2_PLACE = "0::/user/me\n"


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    (tmp_path / "memory/user/me").mkdir(parents=True)
    (tmp_path / "cpuacct").mkdir()
    (tmp_path / "pids").mkdir()
    return tmp_path


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    (tmp_path / "user/me").mkdir(parents=True)
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    return tmp_path


def test_v1_groups_stand_below_our_own_or_at_the_visible_root(v1: Path) -> None:
    group = cgroups.create("g", LIMITS, v1, V1_PLACE)

    assert group is not None
    assert sorted(p for p in v1.rglob("g")) == [
        v1 / "cpuacct/g",
        v1 / "memory/user/me/g",
        v1 / "pids/g",
    ]
    assert set(group.entrances()) == {
        str(v1 / p / "tasks") for p in ("cpuacct/g", "memory/user/me/g", "pids/g")
    }
    assert cgroups.find("g", v1, V1_PLACE) is not None
    assert cgroups.find("other", v1, V1_PLACE) is None
    assert group.remove()
    assert list(v1.rglob("g")) == []


def test_v1_figures_are_read(v1: Path) -> None:
    group = cgroups.create("g", LIMITS, v1, V1_PLACE)
    assert group is not None
    (v1 / "cpuacct/g/cpuacct.usage").write_text("1500000000\n")
    (v1 / "memory/user/me/g/memory.oom_control").write_text("under_oom 0\noom_kill 2\n")
    (v1 / "cpuacct/g/cgroup.procs").write_text("12\n13\n")

    assert (group.cpu_seconds(), group.oom_kills(), group.pids()) == (1.5, 2, [12, 13])
    assert not group.limits_memory()


def test_v2_figures_are_read_and_limits_written(v2: Path) -> None:
    group = cgroups.create("g", LIMITS, v2, V2_PLACE)
    assert group is not None
    folder = v2 / "user/me/g"
    (folder / "cpu.stat").write_text("usage_usec 250000\nuser_usec 1\n")
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    (folder / "memory.max").write_text("max")

    assert (group.cpu_seconds(), group.oom_kills()) == (0.25, 1)
    assert group.limits_memory()
    assert group.entrances() == ()


def test_a_group_without_a_controller_says_so(v2: Path) -> None:
    group = cgroups.create("g", LIMITS, v2, V2_PLACE)
    assert group is not None

    assert (group.cpu_seconds(), group.oom_kills(), group.limits_memory()) == (None, 0, False)


def test_no_hierarchy_at_all_gives_no_group(tmp_path: Path) -> None:
    assert cgroups.create("g", LIMITS, tmp_path, "") is None
    assert cgroups.create("g", LIMITS, tmp_path / "nowhere", V2_PLACE) is None
