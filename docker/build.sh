#!/usr/bin/env bash
# Builds the images, both at once: overnight-sandbox:cpu (or :cuda) and overnight-services:latest.
# usage: build.sh [cpu|cuda] [services|sandbox] [--no-cache]   (default: cpu, both, what is built stays)
# The base image is pulled, or was made by docker/airgapped/build.sh before.
# A torch wheel that the pip of $PYTHON, .venv or python3 finds without an index goes before the public one.
set -euo pipefail
device=cpu which=both options=()
for word in "$@"; do
    case $word in
        cpu | cuda) device=$word ;;
        services | sandbox) which=$word ;;
        --no-cache) options=(--no-cache) ;;
        *) echo "usage: build.sh [cpu|cuda] [services|sandbox] [--no-cache]" >&2; exit 2 ;;
    esac
done
cd "$(dirname "$0")/.."
torch=${TORCH_SPEC:-$(sed -n 's/^ARG TORCH_SPEC=//p' docker/sandbox.Dockerfile)}
base=$(sed -n 's/^ARG PYTHON_IMAGE=//p' docker/services.Dockerfile)
if ! docker version >/dev/null 2>&1; then
    echo "build: no Docker engine answers: start Docker, or name an engine by DOCKER_HOST" >&2
    exit 3
fi
if ! docker image inspect "$base" >/dev/null 2>&1 && ! docker pull -q "$base" >/dev/null; then
    echo "build: $base can't be pulled: without a registry, \`make airgapped\` makes it of Debian's packages" >&2
    exit 3
fi
began=$SECONDS
work=$(mktemp -d)
server=''
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
export DOCKER_BUILDKIT=1

build() { # image, file, options
    local image=$1 file=$2
    shift 2
    if ! docker build -t "$image" -f "docker/$file" "${options[@]}" "$@" . >"$work/${image%%:*}.log" 2>&1; then
        tail -20 "$work/${image%%:*}.log" >&2
        echo "build: $image was not built" >&2
        return 3
    fi
    printf -- '-- %s (%d s)\n' "$image" $((SECONDS - began))
}

# Serves a wheel at hand to the build. Its address goes in as a secret: it is no part of the cache's key.
offer_wheel() {
    local python=${PYTHON:-.venv/bin/python}
    [ -x "$python" ] || python=python3
    mkdir "$work/wheels"
    "$python" -m pip download -q --no-deps --no-index --disable-pip-version-check -d "$work/wheels" "$torch" \
        >/dev/null 2>&1 || return 0
    "$python" -u -m http.server 0 --bind 127.0.0.1 --directory "$work/wheels" >"$work/port" 2>/dev/null &
    server=$!
    for _ in $(seq 100); do grep -q ' port ' "$work/port" 2>/dev/null && break; sleep 0.1; done
    printf '[global]\nfind-links = http://127.0.0.1:%s/\n' "$(sed -E 's/.* port ([0-9]+).*/\1/' "$work/port")" >"$work/pip.conf"
    sandbox+=(--network host --secret "id=pip,src=$work/pip.conf")
}

children=()
if [ "$which" != sandbox ]; then
    build overnight-services:latest services.Dockerfile &
    children+=($!)
fi
if [ "$which" != services ]; then
    sandbox=(--build-arg "TORCH_SPEC=$torch")
    if [ "$device" = cuda ]; then
        sandbox+=(--build-arg CUDA=1 --build-arg "DEBIAN_PACKAGES=gcc g++ libc6-dev")
    else
        sandbox+=(${TORCH_CPU_INDEX:+--build-arg "TORCH_CPU_INDEX=$TORCH_CPU_INDEX"})
        offer_wheel
    fi
    build "overnight-sandbox:$device" sandbox.Dockerfile "${sandbox[@]}" &
    children+=($!)
fi
failed=0
for child in "${children[@]}"; do wait "$child" || failed=3; done
# What the new one replaced; a sandbox may stand in a result, so those stay.
docker image prune -f --filter "label=org.opencontainers.image.title=overnight services" >/dev/null || true
exit "$failed"
