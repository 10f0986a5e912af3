#!/bin/sh
# Makes the project's own environment. usage: install.sh PYTHON VENV
set -eu
python=$1 venv=$2
quiet="-qq --disable-pip-version-check --no-input"
began=$(date +%s)
if [ ! -x "$venv/bin/python" ]; then
    "$python" -m venv "$venv"
fi
echo "installing into $venv (first time only): locked packages, then torch"
"$venv/bin/python" -m pip install $quiet --require-hashes -r ci/requirements.txt
sh ci/install_torch.sh "$venv"
"$venv/bin/python" -m pip install $quiet --no-deps --no-build-isolation -e .
touch "$venv/.installed"
size=$(du -sm "$venv" | cut -f1)
echo "installed $size MB in $(($(date +%s) - began)) s"
