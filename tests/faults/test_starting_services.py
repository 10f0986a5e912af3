"""A service dies with its supervisor even while it still starts and can not see to that itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.e2e import procs

SUPERVISOR = """
import os, sys, time
from pathlib import Path
from overnight.children import Child, ChildSpec

sleeper = (sys.executable, "-c", "import time; time.sleep(60)")
child = Child(
    spec=ChildSpec(name="slow", argv=sleeper),
    log_path=Path(sys.argv[1]),
    lifeline=os.pipe()[0],
    backoff_seconds=1.0,
    backoff_max_seconds=1.0,
)
child.start()
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_service_that_still_imports_dies_with_its_supervisor(tmp_path: Path) -> None:
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(tmp_path / "log")],
        stdout=subprocess.PIPE, env=dict(os.environ),
    )  # fmt: skip
    assert supervisor.stdout is not None
    child = procs.look(int(supervisor.stdout.readline()))
    assert child is not None
    procs.wait_until(lambda: child.argv[1:2] == ["-c"], 10, "it sleeps")
    supervisor.kill()
    supervisor.wait()
    supervisor.stdout.close()
    try:
        procs.wait_until(lambda: not child.alive, 1.0, "it died with its supervisor")
    finally:
        child.kill()
