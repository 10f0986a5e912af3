"""A device is one runner's at a time, and free the moment its holder is gone."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from overnight.contracts.errors import InfrastructureError, SessionHeldError
from overnight.runner import hardware
from overnight.runner.hardware import DeviceLock, hardware_class


def test_a_held_device_is_waited_for_until_told_to_stop(tmp_path: Path) -> None:
    first = DeviceLock(tmp_path / "locks", "cpu:0")
    first.acquire(lambda: False)
    with pytest.raises(SessionHeldError, match=f"pid {os.getpid()}"):
        DeviceLock(tmp_path / "locks", "cpu:0").acquire(lambda: True)
    DeviceLock(tmp_path / "locks", "cpu:1").acquire(lambda: True)
    first.release()
    DeviceLock(tmp_path / "locks", "cpu:0").acquire(lambda: True)


def test_the_kernel_frees_it_when_its_holder_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time; from pathlib import Path\n"
            "from overnight.runner.hardware import DeviceLock\n"
            "DeviceLock(Path(sys.argv[1]), 'GPU-1').acquire(lambda: False)\n"
            "print('held', flush=True); time.sleep(60)",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(SessionHeldError):
        DeviceLock(tmp_path, "GPU-1").acquire(lambda: True)

    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    began = time.monotonic()
    DeviceLock(tmp_path, "GPU-1").acquire(lambda: True)

    assert time.monotonic() - began < 10.0


def test_every_user_of_the_host_may_lock_it(tmp_path: Path) -> None:
    DeviceLock(tmp_path / "locks", "cpu:0").acquire(lambda: True)

    assert stat.S_IMODE((tmp_path / "locks").stat().st_mode) == 0o1777
    assert stat.S_IMODE((tmp_path / "locks" / "cpu-0.lock").stat().st_mode) == 0o666


def test_an_impossible_lock_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InfrastructureError, match="device lock"):
        DeviceLock(tmp_path / "file", "cpu:0").acquire(lambda: True)


def test_the_hardware_class_is_one_line() -> None:
    assert hardware_class().startswith("cpu ")
    assert "\n" not in hardware_class()


def test_a_folder_of_locks_that_another_user_keeps_to_himself_names_both_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(hardware, "_open_shared", refuse)
    with pytest.raises(InfrastructureError, match=r"chmod 1777 .*OVERNIGHT_DEVICE_LOCKS"):
        DeviceLock(tmp_path, "cpu:0").acquire(lambda: True)
