"""The system call filter as raw classic BPF: a table and a small assembler, no dependency.

It denies what a training run never needs and an attacker does: tracing, new namespaces, mounts,
kernel keyrings, io_uring, clocks, and socket families that no network namespace confines.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable
from dataclasses import dataclass

LOAD, JUMP_EQUAL, JUMP_ABOVE, JUMP_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
OFFSET_NUMBER, OFFSET_ARCH, OFFSET_ARGUMENT_0 = 0, 4, 16  # struct seccomp_data, little endian
ALLOW, KILL_PROCESS, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
NEW_NAMESPACES = 0x7E020000  # CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}
FAMILIES = (1, 2, 10, 16)  # UNIX, INET, INET6, NETLINK; VSOCK and ALG are in no namespace

# name: (x86_64, aarch64); None where the architecture has no such call
DENIED: dict[str, tuple[int, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "syslog": (103, 116),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "iopl": (172, None),
    "ioperm": (173, None),
}


@dataclass(frozen=True)
class Machine:
    """What differs between two architectures."""

    audit_arch: int
    column: int  #: of the table above
    clone: int
    clone3: int
    socket: int
    x32: bool  #: the second ABI whose numbers start at bit 30 must be closed too


MACHINES = {
    "x86_64": Machine(0xC000003E, 0, clone=56, clone3=435, socket=41, x32=True),
    "aarch64": Machine(0xC00000B7, 1, clone=220, clone3=435, socket=198, x32=False),
}


def program(machine: str) -> bytes | None:
    """The filter for `bwrap --seccomp`, or None for an architecture that has no table yet."""
    found = MACHINES.get(machine)
    if found is None:
        return None
    code = [
        _step(LOAD, OFFSET_ARCH),
        _step(JUMP_EQUAL, found.audit_arch, 1, 0),
        _step(RETURN, KILL_PROCESS),
        _step(LOAD, OFFSET_NUMBER),
    ]
    if found.x32:
        code += [_step(JUMP_ABOVE, 0x40000000, 0, 1), _refuse(errno.EPERM)]
    for numbers in DENIED.values():
        number = numbers[found.column]
        if number is not None:
            code += [_step(JUMP_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    # clone3 hides its flags behind a pointer: not there, so that libc falls back to clone.
    code += [_step(JUMP_EQUAL, found.clone3, 0, 1), _refuse(errno.ENOSYS)]
    code += _when(found.clone, [_step(JUMP_BITS, NEW_NAMESPACES, 0, 1), _refuse(errno.EPERM)])
    code += _when(found.socket, _only(FAMILIES))
    code += [_step(RETURN, ALLOW)]
    return b"".join(code)


def _step(code: int, value: int, on_true: int = 0, on_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, on_true, on_false, value)


def _refuse(number: int) -> bytes:
    return _step(RETURN, REFUSE | number)


def _when(call: int, block: list[bytes]) -> list[bytes]:
    """Run *block* with the call's first argument loaded; allow what falls through it."""
    inner = [_step(LOAD, OFFSET_ARGUMENT_0), *block, _step(RETURN, ALLOW)]
    return [_step(JUMP_EQUAL, call, 0, len(inner)), *inner]


def _only(values: Iterable[int]) -> list[bytes]:
    allowed = [
        step for value in values for step in (_step(JUMP_EQUAL, value, 0, 1), _step(RETURN, ALLOW))
    ]
    return [*allowed, _refuse(errno.EAFNOSUPPORT)]
