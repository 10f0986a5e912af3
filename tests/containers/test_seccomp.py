"""The container's filter on a real engine: what is denied is, and what trains still does."""

from __future__ import annotations

import ctypes
import json
import platform
from pathlib import Path

import pytest
from docker_engine import Engine

from overnight.executors.container_seccomp import allowed, profile_text
from overnight.executors.seccomp import DENIED, MACHINES

PROGRAMS = Path(__file__).parent / "programs"
IMAGE = "overnight-sandbox:cpu"  #: built by the same script that starts these tests
NEWER_THAN_LIBSECCOMP_2_5 = {
    "cachestat", "fchmodat2", "futex_requeue", "futex_wait", "futex_wake", "map_shadow_stack",
    "mseal",
}  # fmt: skip
EPERM, ENOSYS, NO_FAMILY = 1, 38, 97
SECONDS = 120


def run(engine: Engine, label: str, program: str, *words: str) -> str:
    """What *program* prints in a container with our filter; it has to end with 0."""
    name, _, value = label.partition("=")
    container = engine.client.containers.create(
        IMAGE, ["python3", f"/programs/{program}", *words], entrypoint=[], labels={name: value},
        volumes={str(PROGRAMS): {"bind": "/programs", "mode": "ro"}},
        network_mode="none", read_only=True, user="65534:65534", cap_drop=["ALL"],
        security_opt=["no-new-privileges:true", f"seccomp={profile_text()}"],
        tmpfs={"/tmp": "rw,exec,nosuid,nodev,size=256m,mode=1777"}, shm_size="256m",
        pids_limit=512, mem_limit="2g", environment={"HOME": "/tmp"}, working_dir="/tmp",
    )  # fmt: skip
    container.start()
    code = container.wait(timeout=SECONDS)["StatusCode"]
    output = container.logs(stderr=False).decode()
    assert code == 0, container.logs(stdout=False, tail=50).decode(errors="replace")
    return output


@pytest.fixture(scope="module")
def numbers() -> dict[str, int]:
    """Denied call -> its number on this machine."""
    column = MACHINES[platform.machine()].column
    return {name: n for name, row in DENIED.items() if (n := row[column]) is not None}


def test_every_denied_call_is_refused(engine: Engine, label: str, numbers: dict[str, int]) -> None:
    answers = json.loads(run(engine, label, "denied.py", json.dumps(numbers)))

    assert answers["filter"] == 2
    assert answers["no_new_privs"] == 1
    assert {name: e for name, e in answers["calls"].items() if e != EPERM} == {}
    assert answers["calls"].keys() == numbers.keys()


def test_namespaces_other_families_and_a_second_abi_are_refused(engine: Engine, label: str) -> None:
    machine = MACHINES[platform.machine()]
    asked = {"clone": machine.clone, "clone3": machine.clone3, "socket": machine.socket}
    answers = json.loads(run(engine, label, "walls.py", json.dumps(asked)))

    assert answers["clone3"] == ENOSYS
    assert set(answers["new_namespaces"].values()) == {EPERM}
    assert len(answers["new_namespaces"]) == 7
    refused = {int(f): e for f, e in answers["families"].items() if e == NO_FAMILY}
    assert set(range(64)) - refused.keys() == {1, 2, 10, 16}
    assert answers["second_abi"] != 0, "an x32 call went through"


def test_python_with_processes_threads_and_shared_memory_runs(engine: Engine, label: str) -> None:
    assert run(engine, label, "ordinary.py").split("\n")[-2] == "all of it works"


def test_torch_with_loaders_gloo_and_several_threads_trains(engine: Engine, label: str) -> None:
    """Loader workers by fork and by spawn, a collective of two ranks, shared tensors."""
    assert run(engine, label, "training.py").split("\n")[-2] == "all of it trains"


def test_no_name_on_the_list_is_a_slip_of_the_pen() -> None:
    """The engine skips a name that it does not know: what was meant would be refused."""
    library = ctypes.CDLL("libseccomp.so.2")  # came with the engine
    unknown = {
        name for name in allowed() if library.seccomp_syscall_resolve_name(name.encode()) == -1
    }

    assert unknown <= NEWER_THAN_LIBSECCOMP_2_5
