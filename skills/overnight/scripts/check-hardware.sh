#!/bin/sh
# Is this machine ready? One JSON object: ok, checks, hardware.
# usage: check-hardware.sh   (from the root of your repository)
set -eu
if ! command -v overnight >/dev/null 2>&1; then
    echo "check-hardware.sh: overnight is not on the PATH: activate the environment that has it, or install it" >&2
    exit 3
fi
exec overnight doctor --json "$@"
