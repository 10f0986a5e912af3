"""Makes each call by its number with empty arguments, and prints the errno of each."""

import ctypes
import json
import sys

libc = ctypes.CDLL(None, use_errno=True)
calls = {}
for name, number in json.loads(sys.argv[1]).items():
    ctypes.set_errno(0)
    done = libc.syscall(number, 0, 0, 0, 0, 0, 0)
    calls[name] = 0 if done >= 0 else ctypes.get_errno()
with open("/proc/self/status") as file:
    status = dict(line.split(":\t", 1) for line in file if ":\t" in line)
print(
    json.dumps(
        {
            "calls": calls,
            "filter": int(status["Seccomp"]),
            "no_new_privs": int(status["NoNewPrivs"]),
        }
    )
)
