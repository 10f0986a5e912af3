"""A sandbox that is refused for its device holds nothing back: the slot takes the next job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conformance.bench import Bench
from tests.fake_gpus import FakeGpus, uuid

from overnight.contracts.errors import SandboxUnavailableError
from overnight.devices.inventory import take_inventory
from overnight.executors import process
from overnight.executors.process import ProcessExecutor


@pytest.mark.parametrize(
    "changes", [{"devices": ("GPU-gone",)}, {"command": ()}], ids=["a device", "a command"]
)
def test_nothing_is_reserved_for_what_is_refused(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = FakeGpus(tmp_path / "nvml.json", cards=1)
    module = gpus.load(monkeypatch)
    monkeypatch.setattr(process, "take_inventory", lambda: take_inventory(lambda: module))
    executor = ProcessExecutor({"lock_dir": str(tmp_path / "locks")})
    bench = Bench(executor, tmp_path)
    with pytest.raises(SandboxUnavailableError):
        executor.prepare(bench.spec(**{"command": ("true",), **changes}))
    swept = executor.reconcile({})

    assert (swept.held, swept.ended, swept.stuck) == (0, 0, ())
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("scratch")] == []
    sandbox = executor.prepare(bench.spec(("true",), devices=(uuid(0),)))
    assert executor.reconcile({}).held == 1, "what is prepared is told"
    sandbox.destroy()
