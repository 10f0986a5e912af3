#!/usr/bin/env bash
# Nothing lost, nothing doubled, nothing left running: shown with real faults in real sessions.
# usage: nothing-lost.sh [short|long]. Uses the packages of .venv here, or of $VENV, like make.
#   short (CI)  half of the fault matrix, with the next commit the other half; each of its checks seen
#               red in a broken product; reliability beside plain rq, short; four minutes of torture
#   long        the matrix and reliability whole and 30 minutes of torture
# MATRIX_PART=I/N plays another part: 1/1 is all of it.
set -euo pipefail
form=${1:-short}
cd "$(dirname "$0")/../.."
venv=$(realpath -ms "${VENV:-.venv}")
python=$venv/bin/python
if [ ! -x "$python" ]; then
    echo "nothing-lost: no environment in $venv; make one: make setup" >&2
    exit 2
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/nothing-lost-XXXXXX")
breaks='' torture=''
trap 'for pid in $breaks $torture; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT
began=$SECONDS
lap() { printf -- '-- %s (%d s)\n' "$1" $((SECONDS - began)); }
here=(env PYTHONPATH="$PWD/services:$PWD" OVERNIGHT_STATE="$work/state"
    OVERNIGHT_DEVICE_LOCKS="$work/locks")
short=$([ "$form" = long ] || echo --short)
minutes=$([ "$form" = long ] && echo 30 || echo 4)

# Torture waits as much as it works: in the short form it runs beside all the rest, which makes the
# machine a worse one for both.
seed=${TORTURE_SEED:-$RANDOM$RANDOM}
bench=("${here[@]}" "$python" -m overnight.cli bench torture --minutes "$minutes" --seed "$seed"
    --dir "$work/torture" --json)
if [ "$form" = short ]; then
    "${bench[@]}" >"$work/torture.out" &
    torture=$!
fi

half=$(($(git rev-list --count HEAD 2>/dev/null || echo 0) % 2 + 1))/2
part=${MATRIX_PART:-$([ "$form" = long ] && echo 1/1 || echo "$half")}
"${here[@]}" "$python" -m tests.faults.matrix --sessions 3 --part "$part" >"$work/matrix" || {
    grep -v ' s$' "$work/matrix"
    exit 1
}
tail -1 "$work/matrix"
lap "fault matrix, part $part"

# A check that stays green in a product that is broken on purpose checks nothing. At the same time,
# since both mostly wait: what plain rq leaves behind, Overnight does not.
"${here[@]}" "$python" -m tests.faults.matrix --sessions 2 --break all >"$work/breaks" 2>&1 &
breaks=$!
failed=0
"${here[@]}" "$python" -m benchmarks.reliability $short || failed=1
lap "beside plain rq"
wait "$breaks" || failed=1
breaks=''
cat "$work/breaks"
lap "each check seen red"
[ "$failed" = 0 ] || exit 1

code=0
if [ -n "$torture" ]; then wait "$torture" || code=$?; else "${bench[@]}" >"$work/torture.out" || code=$?; fi
torture=''
[ "$code" = 0 ] || { tail -40 "$work/torture.out"; exit 1; }
tail -1 "$work/torture.out"
lap "torture"
