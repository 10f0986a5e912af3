"""Health of the service that this container runs: its metrics endpoint answers. 0 or 1.

A container that runs something else, a verb that ends for instance, is always healthy. The standard
library alone: it runs every few seconds beside each service.
"""

import os
import re
import sys
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path

ANSWER_SECONDS = 4.0
_PORT = re.compile(r"OVERNIGHT_([A-Z]+)_METRICS_PORT")


def port_of(command: bytes, environ: Mapping[str, str]) -> int | None:
    """The metrics port of the service in *command*, a /proc/PID/cmdline; None: no service."""
    words = command.decode("utf-8", "replace").split("\0")
    for name, value in environ.items():
        match = _PORT.fullmatch(name)
        if match and match[1].lower() in words and value.isdecimal() and int(value):
            return int(value)
    return None


def problem_at(port: int) -> str | None:
    """What is wrong with the endpoint at *port* of this host; None: it answers."""
    connection = HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/metrics")
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        return f"no metrics at port {port}: {error or type(error).__name__}"
    finally:
        connection.close()
    return None if status == 200 else f"port {port} answers {status}"


def main() -> int:
    """Asks the first process's service; under an init that process names it too."""
    port = port_of(Path("/proc/1/cmdline").read_bytes(), os.environ)
    problem = None if port is None else problem_at(port)
    if problem:
        print(problem)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
