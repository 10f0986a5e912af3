"""The container's filter and the process sandbox's refuse the same, and the kept file is it."""

from __future__ import annotations

import errno

from tests.unit.executors.container_profile import FILE

from overnight.executors.container_seccomp import ALLOWED, allowed, profile, profile_text
from overnight.executors.seccomp import DENIED, FAMILIES, NEW_NAMESPACES

WITH_CONDITIONS = {"clone", "clone3", "personality", "socket", "socketpair"}


def verdict(call: str, argument: int = 0) -> int:
    """What the engine's filter answers: 0 to let the call through, else an errno."""
    answers = {
        rule.get("errnoRet", errno.EPERM) if rule["action"] == "SCMP_ACT_ERRNO" else 0
        for rule in profile()["syscalls"]
        if call in rule["names"] and all(_holds(test, argument) for test in rule.get("args", ()))
    }
    assert len(answers) <= 1, f"{call}({argument}): two rules with different ends"
    return answers.pop() if answers else errno.EPERM


def _holds(test: dict[str, int], argument: int) -> bool:
    assert test["index"] == 0
    return {
        "SCMP_CMP_EQ": argument == test["value"],
        "SCMP_CMP_GT": argument > test["value"],
        "SCMP_CMP_MASKED_EQ": argument & test["value"] == test.get("valueTwo"),
    }[str(test["op"])]


def test_every_call_that_the_process_sandbox_denies_is_denied_here_too() -> None:
    assert {verdict(call) for call in DENIED} == {errno.EPERM}
    assert not DENIED.keys() & (allowed() | WITH_CONDITIONS)


def test_a_call_that_nobody_thought_of_is_refused() -> None:
    assert profile()["defaultAction"] == "SCMP_ACT_ERRNO"
    assert verdict("a_call_of_next_year") == errno.EPERM


def test_threads_and_children_pass_and_new_namespaces_do_not() -> None:
    assert verdict("clone", 0x003D0F00) == 0
    assert verdict("clone", 17) == 0
    for bit in range(32):
        expected = errno.EPERM if NEW_NAMESPACES >> bit & 1 else 0
        assert verdict("clone", 17 | 1 << bit) == expected
    assert verdict("clone3") == errno.ENOSYS


def test_only_socket_families_that_a_namespace_confines_are_there() -> None:
    families = range(300)

    assert {f for f in families if verdict("socket", f) == 0} == set(FAMILIES)
    assert {f for f in families if verdict("socketpair", f) == 0} == {1}
    assert {verdict("socket", f) for f in families} == {0, errno.EAFNOSUPPORT}
    assert verdict("socket", 1 << 32 | 1) == errno.EAFNOSUPPORT  # compared in 64 bits


def test_a_layout_without_chance_is_refused() -> None:
    assert verdict("personality", 0xFFFFFFFF) == 0
    assert verdict("personality", 0x0040000) == errno.EPERM  # ADDR_NO_RANDOMIZE


def test_no_call_stands_in_two_groups() -> None:
    names = [name for group in ALLOWED.values() for name in group.split()]

    assert len(names) == len(set(names))
    assert not WITH_CONDITIONS & set(names), "a rule without condition would win"


def test_the_kept_file_is_what_the_tables_say() -> None:
    """If not: python -m tests.unit.executors.container_profile, read it, commit it."""
    assert FILE.read_text("utf-8") == profile_text()
