#!/usr/bin/env bash
# The product on one machine, as a researcher meets it: a fresh clone, an empty environment, somebody
# else's repositories. usage: one-machine.sh [short|long]. Uses the packages of .venv here, or of $VENV.
#   short (CI)  eight foreign repositories and one that lies; the walk from init to apply; a session of
#               10,000 experiments; every command of the skill; the pictures in docs, made anew
#   long        the same, the walk in docs played line by line, and search against its controls
set -euo pipefail
form=${1:-short}
here=$(cd "$(dirname "$0")/../.." && pwd)
venv=$(cd "$here" && realpath -ms "${VENV:-.venv}")
if [ ! -x "$venv/bin/python" ]; then
    echo "one-machine: no environment in $venv; make one: make setup" >&2
    exit 2
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/one-machine-XXXXXX")
trap 'rm -rf "$work"' EXIT
clone=$work/overnight
began=$SECONDS
lap() { printf -- '-- %s (%d s)\n' "$1" $((SECONDS - began)); }
mkdir "$work/home"
git clone -q "$here" "$clone"

# Nothing of ours but a path, a home and a place for temporary files. The packages are those that
# `make setup` installed; the code is the clone's.
newcomer=(env -i -C "$clone" PATH="$PATH" HOME="$work/home" TMPDIR="${TMPDIR:-/tmp}" ONE_MACHINE_FORM="$form"
    PYTHONPATH="$clone/services:$clone" OVERNIGHT_STATE="$work/state" OVERNIGHT_DEVICE_LOCKS="$work/locks")

"${newcomer[@]}" "$venv/bin/python" -m pytest -q -p no:cacheprovider --durations=5 -n 3 \
    --dist loadfile tests/acceptance
lap "foreign repositories, the walk, 10,000 experiments, the skill"

"${newcomer[@]}" "$venv/bin/python" -m benchmarks.images --check
lap "pictures in docs"

if [ "$form" = long ]; then
    "${newcomer[@]}" "$venv/bin/python" -m benchmarks.walk --check
    lap "the walk in docs"
    "${newcomer[@]}" "$venv/bin/python" -m benchmarks.search
    lap "search against its controls"
fi
