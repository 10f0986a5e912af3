#!/bin/sh
# What was tried, best first.
# usage: show-results.sh [--top N]   (from the root of your repository)
set -eu
if ! command -v overnight >/dev/null 2>&1; then
    echo "show-results.sh: overnight is not on the PATH: activate the environment that has it, or install it" >&2
    exit 3
fi
exec overnight results "$@"
