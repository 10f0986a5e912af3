#!/bin/sh
# Names everything at once that this machine lacks, with the line that installs it.
# usage: preflight.sh setup|test [python]
set -u
what=$1 python=${2:-python3} missing='' packages=''
lack() { missing="$missing\n  $1"; packages="$packages $2"; }

if ! command -v "$python" >/dev/null 2>&1; then
    lack "python 3.11 or newer ($python is not on the PATH)" "python3 python3-venv"
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    lack "python 3.11 or newer ($("$python" --version 2>&1) is older; pass PYTHON=...)" "python3 python3-venv"
elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    lack "python's venv module with pip" "python3-venv"
fi
command -v git >/dev/null 2>&1 || lack "git" "git"
if [ "$what" = test ]; then
    command -v promtool >/dev/null 2>&1 || lack "promtool and prometheus (alert rules, dashboards)" "prometheus"
    command -v redis-server >/dev/null 2>&1 || lack "redis-server (the tests use a real one)" "redis-server"
    if [ "$(uname -s)" = Linux ]; then
        command -v bwrap >/dev/null 2>&1 || lack "bwrap (the sandbox's namespaces)" "bubblewrap"
        command -v faketime >/dev/null 2>&1 || lack "faketime (clocks that jump)" "faketime"
        command -v setpriv >/dev/null 2>&1 || lack "setpriv and prlimit" "util-linux"
    fi
elif [ "$(uname -s)" = Linux ] && ! command -v bwrap >/dev/null 2>&1; then
    echo "note: no bwrap on the PATH: candidates run without namespaces (isolation: none)." >&2
    echo "      apt-get install bubblewrap" >&2
fi
[ -z "$packages" ] && exit 0
printf 'overnight: this machine lacks:%b\n' "$missing" >&2
echo "install with:  apt-get install$packages" >&2
exit 2
