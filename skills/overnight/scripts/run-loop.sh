#!/bin/sh
# The loop: run, keep or revert, repeat. Resumes the session that is there.
# usage: run-loop.sh [--max N] [--desc TEXT]   (from the root of your repository)
# Ctrl-C (SIGINT) ends what runs, reports the best and keeps all.
set -eu
if ! command -v overnight >/dev/null 2>&1; then
    echo "run-loop.sh: overnight is not on the PATH: activate the environment that has it, or install it" >&2
    exit 3
fi
exec overnight run "$@"
