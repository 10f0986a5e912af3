"""doctor's rows for containers: old versions warn and say why, what is missing names its fix."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from overnight.sessions import engine
from overnight.sessions.engine import EngineFacts
from overnight.sessions.readiness import examine
from overnight.sessions.readiness.check import Check
from overnight.sessions.readiness.container import (
    check_gpus,
    check_runc,
    check_spawner,
    check_toolkit,
)
from overnight.sessions.readiness.hardware import Gpu, Hardware

ENGINE = EngineFacts(version="27.0", runc="1.2.8", nvidia=False, seccomp=True)


def hardware(gpus: int) -> Hardware:
    found = tuple(Gpu(name="A", uuid=f"GPU-{n}", vram_mb=1) for n in range(gpus))
    return Hardware(gpus=found, cuda=None, driver=None, mlx=None, platform="Linux", uv=None)


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("1.1.5+ds1", "warn"),
        ("1.2.7", "warn"),
        ("1.2.8", "ok"),
        ("1.3.0", "warn"),
        ("1.3.2", "warn"),
        ("1.3.3", "ok"),
        ("1.4.0-rc.3", "ok"),
        ("2.0.0", "ok"),
        ("v1", "warn"),
        (None, "warn"),
    ],
)
def test_a_runc_with_known_holes_is_a_warning_that_names_them(
    version: str | None, status: str
) -> None:
    row = check_runc(version)

    assert row.status == status
    for hole in ("CVE-2025-31133", "CVE-2025-52565", "CVE-2025-52881"):
        assert (hole in row.detail + row.fix) == (status == "warn")


@pytest.mark.parametrize(
    ("version", "runtime", "status"),
    [
        ("1.17.7", True, "warn"),
        ("1.17.8", True, "ok"),
        ("1.18.0-rc.2", False, "ok"),
        (None, True, "warn"),
        (None, False, "fail"),
    ],
)
def test_a_gpu_needs_a_toolkit_without_a_known_hole(
    version: str | None, runtime: bool, status: str
) -> None:
    facts = EngineFacts(version="27.0", runc="1.2.8", nvidia=runtime, seccomp=True)
    row = check_toolkit(version, facts)

    assert row.status == status
    assert ("CVE-2025-23266" in row.detail + row.fix) == (status == "warn")


@pytest.mark.parametrize(
    ("there", "wanted", "status"), [(8, 8, "ok"), (2, 8, "fail"), (0, 2, "fail")]
)
def test_an_experiment_gets_no_more_gpus_than_there_are(
    there: int, wanted: int, status: str
) -> None:
    row = check_gpus(wanted, hardware(there))

    assert row.status == status
    assert f"{wanted}" in row.detail


def test_who_a_candidate_is_depends_on_who_runs_the_spawner() -> None:
    assert "of its own" in check_spawner({}, user=0).detail
    assert "your user id" in check_spawner({}, user=1000).detail
    assert "/run/s.sock" in check_spawner({"OVERNIGHT_SPAWNER": "/run/s.sock"}, user=1000).detail


def test_without_an_engine_one_row_says_so_and_no_sandbox_of_processes_is_asked(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text("print('m: 1')\n")
    (tmp_path / "loop.run.yaml").write_text(
        "metric: m\nrun_cmd: python train.py\neditable_files: train.py\n"
        "pools: {default: {executor: docker}}\n"
    )
    found = examine(tmp_path, {"PATH": "/usr/bin:/bin", "DOCKER_HOST": "unix:///nowhere/x.sock"})
    rows: dict[str, Check] = {row.name: row for row in found.checks}

    assert rows["engine"].status == "fail"
    assert rows["engine"].detail == (
        "no container engine at unix:///nowhere/x.sock: No such file or directory"
    )
    assert "DOCKER_HOST" in rows["engine"].fix
    assert rows["interpreter"].detail == "the image's own"
    assert not {"sandbox", "image", "imports"} & rows.keys()
    assert not found.ok


def test_a_socket_that_refuses_the_user_is_not_told_to_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("print('m: 1')\n")
    (tmp_path / "loop.run.yaml").write_text(
        "metric: m\nrun_cmd: python train.py\neditable_files: train.py\n"
        "pools: {default: {executor: docker}}\n"
    )

    def refuse(host: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(engine, "_knock", refuse)
    found = examine(tmp_path, {"PATH": "/usr/bin:/bin"})
    row = next(row for row in found.checks if row.name == "engine")

    assert "Permission denied" in row.detail
    assert "usermod -aG docker" in row.fix
    assert "start" not in row.fix
