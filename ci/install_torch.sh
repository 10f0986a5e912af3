#!/bin/sh
# Installs torch: the CUDA build where a GPU is seen, else a CPU build without surprises.
# usage: install_torch.sh VENV; TORCH_CPU_INDEX names an index of CPU builds (may be out of reach).
set -eu
venv=$1 version=2.13.0
pip="$venv/bin/python -m pip install -qq --disable-pip-version-check --no-input"
"$venv/bin/python" -c 'import torch' 2>/dev/null && exit 0
if command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1; then
    echo "torch: a GPU is here, taking the CUDA build (several GB)"
    exec $pip 'torch>=2.6'
fi
if [ "$(uname -s)" = Darwin ]; then
    exec $pip "torch==$version"
fi
# A wheel at hand (a find-links folder) first, then the CPU index, then whatever the index gives.
$pip --no-deps --no-index "torch==$version" 2>/dev/null && exit 0
if [ -n "${TORCH_CPU_INDEX:-}" ]; then
    $pip --no-deps --retries 0 --timeout 15 --index-url "$TORCH_CPU_INDEX" "torch==$version+cpu" 2>/dev/null && exit 0
fi
echo "torch: no CPU build within reach, taking the default one (may be several GB)"
exec $pip "torch==$version"
