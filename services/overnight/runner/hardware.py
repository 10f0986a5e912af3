"""What this runner's results are comparable with: the hardware class, and its device's lock."""

from __future__ import annotations

import fcntl
import os
import platform
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import structlog

from overnight.contracts.errors import InfrastructureError, SessionHeldError

log = structlog.get_logger()


@lru_cache(maxsize=1)
def hardware_class() -> str:
    """One line naming machine and processor, e.g. `cpu x86_64 Xeon 8488C x2`."""
    model = platform.processor() or "unknown"
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        model = platform.processor() or "unknown"
    return " ".join(f"cpu {platform.machine()} {model} x{os.cpu_count()}".split())[:200]


def gpu_class(names: Sequence[str], driver: str | None) -> str:
    """The same of a runner that has GPUs, e.g. `gpu NVIDIA A100-SXM4-40GB x2, driver 570.133.20`.

    What results are comparable under is the cards: a host's processors are not named.
    """
    kinds = " and ".join(sorted(set(names)))
    more = f", driver {driver}" if driver else ""
    return " ".join(f"gpu {kinds} x{len(names)}{more}".split())[:200]


class DeviceLock:
    """A host-local lock on one device or CPU slot, held while this object is open.

    Never in Redis: the kernel frees it the moment its holder is gone.
    """

    kind = "device lock"
    shared = True  #: by all users of the host

    def __init__(self, folder: Path, device: str) -> None:
        self._path = folder / f"{device.replace(':', '-').replace('/', '_')}.lock"
        self._fd: int | None = None

    @property
    def name(self) -> str:
        """What people see of it."""
        return self._path.stem

    @property
    def path(self) -> Path:
        """The lock's file."""
        return self._path

    def acquire(
        self,
        stop: Callable[[], bool],
        on_busy: Callable[[str], None] = lambda why: None,
        poll_seconds: float = 0.5,
    ) -> None:
        """Wait until the device is free; tells *on_busy* once who holds it.

        Raises:
            SessionHeldError: *stop* said so before it was free.
            InfrastructureError: the lock folder can't be used.
        """
        fd = self._opened()
        said = False
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = os.pread(fd, 20, 0).decode(errors="replace").strip()
                if not said:
                    log.warning("device_busy", device=self.name, holder_pid=holder)
                    on_busy(f"{self.name} is held by pid {holder}")
                    said = True
                if stop():
                    os.close(fd)
                    raise SessionHeldError(f"{self.name} is held by pid {holder}") from None
                time.sleep(poll_seconds)
        self._keep(fd)

    def try_acquire(self) -> bool:
        """Take it if it is free. Raises InfrastructureError as `acquire`."""
        fd = self._opened()
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._keep(fd)
        return True

    def holder(self) -> str:
        """The pid of whoever has it, as it wrote it; empty where nobody did."""
        fd = self._opened()
        try:
            return os.pread(fd, 20, 0).decode(errors="replace").strip()
        finally:
            os.close(fd)

    def _keep(self, fd: int) -> None:
        """Ours; the pid is for people."""
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        """Let go. Idempotent."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _opened(self) -> int:
        try:
            return self._open()
        except OSError as error:
            fix = ": chmod 1777 its folder, or set OVERNIGHT_DEVICE_LOCKS" if self.shared else ""
            fix = fix if isinstance(error, PermissionError) else ""
            raise InfrastructureError(f"{self.kind} {self._path}: {error.strerror}{fix}") from error

    def _open(self) -> int:
        return _open_shared(self._path)


class SlotLock(DeviceLock):
    """A slot of one session: whoever holds it owns the slot's folder, outbox and claim."""

    kind = "slot lock"
    shared = False

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._fd: int | None = None

    @property
    def name(self) -> str:
        """What people see of it."""
        return f"slot {self._path.parent.name}"

    def _open(self) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _open_shared(path: Path) -> int:
    """A lock file that every user of the host may lock; the first one makes it."""
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o1777)
    try:
        # Not with O_CREAT: kernels refuse that for another user's file in a shared folder.
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        os.fchmod(fd, 0o666)
        return fd
