#!/usr/bin/env bash
# What the spine must show, as a newcomer meets it: in a fresh clone, in an empty environment.
# usage: spine.sh [short|long]. Uses the packages of .venv here, or of $VENV, like make.
#   short (CI)  demo with fixed steps and one seed; demo beside busy loops; 40 kills; the proofs
#   long        three demos by CPU-time, their median; all to the letter; about 15 minutes
set -euo pipefail
form=${1:-short}
here=$(cd "$(dirname "$0")/../.." && pwd)
venv=$(cd "$here" && realpath -ms "${VENV:-.venv}")
if [ ! -x "$venv/bin/python" ]; then
    echo "spine: no environment in $venv; make one: make setup" >&2
    exit 2
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/spine-XXXXXX")
clone=$work/overnight
busy=()
began=$SECONDS
idle() { ((${#busy[@]} == 0)) || kill "${busy[@]}" 2>/dev/null || true; busy=(); }
kills=
trap 'idle; [ -z "$kills" ] || kill "$kills" 2>/dev/null || true; rm -rf "$work"' EXIT
lap() { printf -- '-- %s (%d s)\n' "$1" $((SECONDS - began)); }
mkdir "$work/home"
git clone -q "$here" "$clone"

# Nothing of ours but a path, a home and a place for temporary files. The packages are those that
# `make setup` installed; the code is the clone's.
newcomer=(env -i -C "$clone" PATH="$PATH" HOME="$work/home" TMPDIR="${TMPDIR:-/tmp}"
    PYTHONPATH="$clone/services" OVERNIGHT_STATE="$work/state" OVERNIGHT_DEVICE_LOCKS="$work/locks")
proofs=("${newcomer[@]}" SPINE_FORM="$form" "$venv/bin/python" -m pytest -q -s -p no:cacheprovider)
overnight=("${newcomer[@]}" "$venv/bin/python" -m overnight.cli)
demo() { # folder, options; leaves the status in <folder>.json
    local folder=$work/$1
    shift
    "${newcomer[@]}" make -s -o "$venv/.installed" VENV="$venv" \
        DEMO_ARGS="--dir $folder --json $*" demo >"$folder.out" || { tail -5 "$folder.out"; exit 1; }
    "${overnight[@]}" status --dir "$folder" --json >"$folder.json"
    "${overnight[@]}" verify --dir "$folder" --json
}
gain() { "$venv/bin/python" "$clone/scripts/accept/checks/gain.py" "$@"; }

if [ "$form" = long ]; then
    for seed in 1 2 3; do demo "demo$seed" --seed "$seed"; done
    gain "demo" 3 "$work"/demo?.json
else
    demo demo --gate steps --experiments 4 --seed 1
    gain "demo" 3 "$work/demo.json"
fi
lap "demo"

for _ in $(seq "$(nproc)"); do
    (while :; do :; done) &
    busy+=($!)
done
if [ "$form" = long ]; then demo busy; else demo busy --experiments 3 --budget 3 --seed 1; fi
idle
gain "beside $(nproc) busy loops" 0.1 "$work/busy.json"
lap "demo beside busy loops"

# In the short form at the same time: both mostly wait, and a busy machine is the harder one.
failed=0
"${proofs[@]}" tests/faults/test_kills.py >"$work/kills.out" 2>&1 &
kills=$!
kills_end() {
    wait "$kills" || failed=1
    kills=
    cat "$work/kills.out"
    lap "40 kills"
}
[ "$form" = short ] || kills_end
"${proofs[@]}" tests/faults/test_nasty_children.py tests/faults/test_starting_services.py \
    tests/e2e/test_attacker.py tests/e2e/test_users_repository.py tests/e2e/test_verify.py \
    tests/e2e/test_metric_cases.py || failed=1
lap "proofs"
[ -z "$kills" ] || kills_end
exit "$failed"
