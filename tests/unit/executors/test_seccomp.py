"""The filter does to each call what its table says, on both architectures."""

from __future__ import annotations

import errno
import struct

import pytest

from overnight.executors.seccomp import ALLOW, DENIED, KILL_PROCESS, MACHINES, REFUSE, program

EPERM, ENOSYS, NO_FAMILY = (REFUSE | n for n in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT))


def verdict(machine: str, call: int, argument: int = 0, arch: int | None = None) -> int:
    """What the kernel would do: a classic BPF machine in a dozen lines."""
    code = program(machine)
    assert code is not None
    steps = list(struct.iter_unpack("<HBBI", code))
    memory = {0: call, 4: MACHINES[machine].audit_arch if arch is None else arch, 16: argument}
    accumulator = at = 0
    while True:
        operation, on_true, on_false, value = steps[at]
        at += 1
        if operation == 0x20:
            accumulator = memory[value]
        elif operation == 0x06:
            return value
        else:
            holds = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: bool(accumulator & value),
            }[operation]
            at += on_true if holds else on_false


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_every_denied_call_is_denied_and_nothing_else(machine: str) -> None:
    found = MACHINES[machine]
    denied = {numbers[found.column] for numbers in DENIED.values()} - {None}
    refused = {call for call in range(500) if verdict(machine, call, 1) == EPERM}

    assert refused == denied
    assert verdict(machine, found.clone3) == ENOSYS


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_threads_and_forks_pass_and_new_namespaces_do_not(machine: str) -> None:
    clone = MACHINES[machine].clone

    assert verdict(machine, clone, 0x003D0F00) == ALLOW
    assert verdict(machine, clone, 17) == ALLOW
    for bit in (0x00020000, *(1 << n for n in range(25, 31))):
        assert verdict(machine, clone, 17 | bit) == EPERM


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_only_socket_families_that_a_namespace_confines_pass(machine: str) -> None:
    passed = {f for f in range(64) if verdict(machine, MACHINES[machine].socket, f) == ALLOW}

    assert passed == {1, 2, 10, 16}
    assert verdict(machine, MACHINES[machine].socket, 40) == NO_FAMILY


def test_another_architecture_s_calls_kill_and_the_second_abi_is_closed() -> None:
    assert verdict("x86_64", 0, arch=0x40000003) == KILL_PROCESS
    assert verdict("x86_64", 0x40000000) == EPERM
    assert verdict("aarch64", 0x40000000) == ALLOW


def test_an_unknown_architecture_has_no_filter() -> None:
    assert program("riscv64") is None
