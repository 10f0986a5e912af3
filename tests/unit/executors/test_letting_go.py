"""A sandbox whose removal fails is let go: held by a runner that lives, it would look alive."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conformance.bench import LABELS, Bench

from overnight.executors.process import ProcessExecutor
from overnight.executors.tree import Place


def test_what_could_not_be_removed_is_nobodys_and_ended_by_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = ProcessExecutor({"lock_dir": str(tmp_path / "locks"), "isolation": "none"})
    bench = Bench(executor, tmp_path)
    sandbox = executor.prepare(bench.spec(("true",)))

    def fail(place: Place) -> None:
        raise LookupError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(Place, "remove", fail)
        with pytest.raises(LookupError):
            sandbox.destroy()
    swept = executor.reconcile(LABELS)

    assert (swept.ended, swept.held, swept.stuck) == (1, 0, ())
    assert list((tmp_path / "locks").glob("sandbox-*")) == []
