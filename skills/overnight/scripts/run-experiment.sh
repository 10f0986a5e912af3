#!/bin/sh
# One experiment of the tree as it is, under the budget and its kill: metric, peak VRAM, verdict.
# usage: run-experiment.sh   (from the root of your repository)
# Keeps nothing, changes nothing. Exit 1: it crashed, ran out of time or printed no metric.
set -eu
if ! command -v overnight >/dev/null 2>&1; then
    echo "run-experiment.sh: overnight is not on the PATH: activate the environment that has it, or install it" >&2
    exit 3
fi
exec overnight once "$@"
