#!/bin/sh
# First-time set-up: the environment, then the data. The only script that installs or fetches.
# usage: setup.sh [--seq-len N]   (from the root of your repository)
set -eu
if ! command -v overnight >/dev/null 2>&1; then
    echo "setup.sh: overnight is not on the PATH: activate the environment that has it, or install it" >&2
    exit 3
fi
overnight setup "$@"
if [ -f prepare.py ] || grep -s '^prepare:' loop.run.yaml | grep -qv 'null'; then
    exec overnight prepare
fi
