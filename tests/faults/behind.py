"""`python -m tests.faults.behind MODULE [ARGS]`: a service whose way to Redis is the test's.

BEHIND={"recorder": URL, "r0": URL, ...}: what a service (or a runner's slot) named there is given
as --redis instead. The others are given what the supervisor says. The product reads none of it.
"""

from __future__ import annotations

import json
import os
import runpy
import sys

from overnight.sessions import supervisor


def main() -> None:
    """Become the module."""
    del sys.argv[0]
    words = sys.argv
    name = words[0].removeprefix("overnight.")
    if "--slot" in words:
        name = words[words.index("--slot") + 1]
    url = json.loads(os.environ.get("BEHIND", "{}")).get(name)
    if url and "--redis" in words:
        words[words.index("--redis") + 1] = url
    supervisor.SERVICE_ENTRY = (sys.executable, "-m", "tests.faults.behind")
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
