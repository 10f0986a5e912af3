"""What `doctor` looks at: devices through NVML, agents, modules inside a real sandbox, the rows."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fake_gpus import FakeGpus, uuid

from overnight.configuration.interpreter import ResolvedCommand
from overnight.sessions.readiness import examine
from overnight.sessions.readiness.agents import check_agents
from overnight.sessions.readiness.check import Check
from overnight.sessions.readiness.first import Changes, yours
from overnight.sessions.readiness.hardware import find_hardware
from overnight.sessions.readiness.machine import check_disk
from overnight.sessions.readiness.probe import look_inside, needed_modules


@pytest.fixture
def gpus(tmp_path: Path) -> FakeGpus:
    """Three cards, the second one lost."""
    made = FakeGpus(tmp_path / "nvml.json", cards=3)
    made.host["cards"][1] = None
    made.save()
    return made


@pytest.mark.parametrize("as_bytes", [False, True])
def test_devices_are_named_by_uuid_and_a_lost_one_hides_no_other(
    as_bytes: bool, gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml: Any = gpus.load(monkeypatch)
    shut: list[bool] = []
    monkeypatch.setattr(nvml, "nvmlShutdown", lambda: shut.append(True))
    if as_bytes:  # as older releases of the module answer
        monkeypatch.setattr(nvml, "nvmlDeviceGetUUID", lambda handle: handle.encode())
    found = find_hardware({}, lambda: nvml).plain()

    assert [(gpu["name"], gpu["uuid"], gpu["vram_mb"]) for gpu in found["gpus"]] == [
        ("NVIDIA H100 80GB HBM3", uuid(0), 81559),
        ("NVIDIA H100 80GB HBM3", uuid(2), 81559),
    ]
    assert (found["driver"], found["cuda"]) == ("570.133.20", "12.8")
    assert set(found) == {"gpus", "cuda", "driver", "mlx", "platform", "uv"}
    assert shut == [True]


def test_instances_of_a_card_in_mig_mode_are_what_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = FakeGpus(tmp_path / "nvml.json")
    gpus.add(0, mig=[gpus.instance(0, 0, 1), gpus.instance(0, 1, 2)])
    found = find_hardware({}, lambda: gpus.load(monkeypatch))

    assert [gpu.uuid for gpu in found.gpus] == ["MIG-0-1-0", "MIG-0-2-0"]
    assert found.shown == "2 x NVIDIA H100 MIG 1g.10gb, 9 GiB each, driver 570.133.20"


def test_without_driver_or_module_there_is_no_gpu_and_no_fault(
    gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Any:
        raise ImportError("no module named pynvml")

    gpus.host["init_error"] = 9
    gpus.save()
    for load in (missing, lambda: gpus.load(monkeypatch)):
        found = find_hardware({}, load)
        assert (found.gpus, found.driver, found.cuda) == ((), None, None)
        assert found.shown.startswith("no GPU; cpu ")


def test_no_gpu_is_a_warning_a_broken_one_too_and_whole_ones_are_none(
    gpus: FakeGpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("print(f'val_loss: {1}')\n")

    def device() -> Check:
        load = lambda: gpus.load(monkeypatch)  # noqa: E731
        found = examine(tmp_path, {"PATH": "/usr/bin:/bin"}, nvml=load)
        return next(check for check in found.checks if check.name == "device")

    whole = "2 x NVIDIA H100 80GB HBM3, 79 GiB each, driver 570.133.20"
    broken = device()
    assert broken.status == "warn"
    assert broken.detail == f"{whole}; card 1: NVML says: GPU is lost"
    del gpus.host["cards"][1]
    gpus.save()
    assert (device().status, device().detail) == ("ok", whole)
    gpus.host["init_error"] = 9
    gpus.save()
    assert device().status == "warn"


@pytest.mark.parametrize(
    ("file", "fix"),
    [("requirements.txt", "overnight setup"), ("notes.txt", "activate the environment that has")],
)
def test_setup_is_no_fix_where_it_would_install_nothing(
    file: str, fix: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import not_there_at_all\nprint(f'val_loss: {1}')\n")
    (tmp_path / file).write_text("x\n")
    rows = examine(tmp_path, {"PATH": "/usr/bin:/bin"}).checks
    row = next(one for one in rows if one.name == "imports")

    assert row.status == "fail"
    assert row.fix.startswith(fix)


def test_a_row_that_is_not_ok_must_name_its_fix() -> None:
    with pytest.raises(ValueError, match="without a fix"):
        Check(name="disk", status="warn", detail="full")


# ------------------------------------------------------------------------------ coding agents


def program(folder: Path, name: str, text: str = "echo 2.1.0") -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_agents_are_asked_for_their_version_alone_and_logins_are_never_read(tmp_path: Path) -> None:
    bin_, home = tmp_path / "bin", tmp_path / "home"
    log = tmp_path / "calls"
    program(bin_, "claude", f"echo \"$@\" >>{log}; echo '2.1.290 (Claude Code)'")
    program(bin_, "codex", f'echo "$@" >>{log}; echo codex-cli 0.140')
    (home / ".claude").mkdir(parents=True)
    secret = home / ".claude/.credentials.json"
    secret.write_text("TOKEN")
    secret.chmod(0o000)
    rows = check_agents({"PATH": str(bin_), "HOME": str(home)}, None)

    assert [(row.status, row.detail) for row in rows] == [
        ("ok", "claude 2.1.290 (Claude Code), login in ~/.claude/.credentials.json"),
        ("warn", "codex codex-cli 0.140, no login seen"),
    ]
    assert log.read_text() == "--version\n--version\n"


@pytest.mark.parametrize(
    ("environ", "wanted", "status"),
    [
        ({}, None, "ok"),
        ({}, "claude", "fail"),
        ({}, "trainer9000", "fail"),
        ({"OPENAI_API_KEY": "x"}, "codex", "ok"),
    ],
)
def test_a_wanted_agent_must_be_there(
    tmp_path: Path, environ: dict[str, str], wanted: str | None, status: str
) -> None:
    if environ:
        program(tmp_path / "bin", "codex")
    (row,) = check_agents({"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path), **environ}, wanted)

    assert row.status == status
    assert "x" not in row.detail.split(), "no key is shown"


# ------------------------------------------------------------------- inside a sandbox


def test_only_imports_that_must_be_there_are_looked_for(tmp_path: Path) -> None:
    files = {
        "train.py": "import os, torch\nimport model\nfrom pkg.data import x\n"
        "try:\n    import flash_attn\nexcept ImportError:\n    pass\n"
        "def late():\n    import wandb\n",
        "model.py": "import einops\n",
        "pkg/__init__.py": "",
        "pkg/data.py": "from . import other\nimport tiktoken\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    assert needed_modules(tmp_path, ["python", "train.py"], []) == {
        "os", "torch", "einops", "tiktoken",
    }  # fmt: skip


def test_a_real_sandbox_says_which_modules_and_reads_a_candidate_would_miss(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open/x.bin").write_text("1")
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "y.bin").write_text("1")
    (closed / "y.bin").chmod(0o000)
    command = ResolvedCommand(python=Path(sys.executable), argv=("no-such-thing",), origin="test")
    seen = look_inside(command, {"json", "nosuchmodule"}, (str(tmp_path / "open"), str(closed)))

    assert seen.problem == ""
    assert (seen.python or "").startswith("3.")
    assert seen.missing == ("nosuchmodule",)
    assert not seen.program
    if seen.isolation == "namespaces":
        assert seen.closed == ((str(closed), f"not readable: {closed}/y.bin"),)
        assert seen.seccomp


def test_a_python_that_does_not_start_is_a_row_and_no_traceback(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    program(tmp_path, "python", "exit 3")
    command = ResolvedCommand(python=broken, argv=(str(broken),), origin="test")

    assert str(broken) in look_inside(command, set(), ()).problem


# ---------------------------------------------------------------------------- what is yours


@pytest.mark.parametrize(
    ("changed", "strategy", "text"),
    [
        ((), "snapshots", "nothing uncommitted; the baseline is HEAD 228791f"),
        ((" M train.py", "?? notes.md"), "snapshots",
         "M train.py, ?? notes.md are part of the baseline, as it lies (HEAD 228791f)"),
        ((" M train.py",), "branches",
         "M train.py is NOT part of the baseline (HEAD 228791f): commit first, or snapshots"),
        (tuple(f"?? {n}" for n in range(9)), "snapshots",
         "?? 0, ?? 1, ?? 2, ?? 3, ?? 4, ?? 5 and 3 more are part of the baseline, as it lies "
         "(HEAD 228791f)"),
    ],
)  # fmt: skip
def test_what_is_uncommitted_is_said_to_count_or_not(
    changed: tuple[str, ...], strategy: str, text: str
) -> None:
    assert yours(Changes(branch="main", head="228791f", changed=changed), strategy) == text


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", ["train.py", "prepare.py", "pyproject.toml", "README.md"])
def test_a_named_pipe_in_the_place_of_a_file_makes_nobody_wait(tmp_path: Path, name: str) -> None:
    (tmp_path / "train.py").write_text("print('val_loss: 1.0')\n")
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)

    found = examine(tmp_path, {"PATH": "/usr/bin:/bin"})

    assert found.checks


def test_a_folder_of_another_user_is_told_before_the_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_disk(tmp_path / "sandbox", 0.0).status != "fail"

    monkeypatch.setattr(os, "access", lambda path, mode: False)
    row = check_disk(tmp_path / "sandbox", 0.0)

    assert (row.status, row.detail) == ("fail", f"{tmp_path} is not yours to write in")
    assert "sandbox_root" in row.fix


def test_the_disk_is_counted_as_the_session_that_pauses_for_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10_000_000_000))

    row = check_disk(tmp_path, 10.0)

    assert (row.status, row.detail) == ("ok", f"10.0 GB free below {tmp_path}")
    assert check_disk(tmp_path, 10.1).status == "fail"
