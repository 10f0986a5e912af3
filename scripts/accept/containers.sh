#!/usr/bin/env bash
# Containers, by the real parts: a Docker engine, Compose, base images made of Debian's packages, and the
# unchanged image files and compose.yaml. usage: containers.sh [pytest's options]
# Uses the packages of .venv here, or of $VENV. What is missing is installed, started and built. An engine
# that answers already is used and left as it is, with its images; one started here is gone at the end.
# $OVERNIGHT_CONTAINERS: where ci/containers.sh has been before, so that nothing is built twice.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
cd "$here"
venv=$(realpath -ms "${VENV:-.venv}")
if [ ! -x "$venv/bin/python" ]; then
    echo "containers: no environment in $venv; make one: make setup" >&2
    exit 2
fi
folder=${OVERNIGHT_CONTAINERS:-$(mktemp -d /tmp/overnight-containers-XXXXXX)}
began=$SECONDS
lap() { printf -- '-- %s (%d s)\n' "$1" $((SECONDS - began)); }
finish() {
    bash ci/engine.sh stop "$folder"
    [ -n "${OVERNIGHT_CONTAINERS:-}" ] || rm -rf "$folder"
}
trap finish EXIT
DOCKER_HOST=$(bash ci/engine.sh start "$folder")
export DOCKER_HOST
bash ci/containers.sh
lap "engine, Compose, images"

PYTHONPATH=services:. "$venv/bin/python" -m pytest -q -p no:cacheprovider --durations=10 -n 2 \
    --dist loadfile "$@" tests/containers
lap "tests/containers"

# In an engine of our own whatever stands there now was left by a test.
if [ -e "$folder/dockerd.pid" ] && [ -n "$(docker ps -aq)" ]; then
    echo "containers: left behind:" >&2
    docker ps -a --format '{{.Names}} {{.Image}} {{.Status}} {{.Labels}}' >&2
    exit 1
fi
lap "no container is left"
