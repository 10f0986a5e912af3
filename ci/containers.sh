#!/usr/bin/env bash
# Everything that tests/containers needs, as far as it is not there: engine, Compose, images.
# usage: containers.sh [DIR]   The engine that is started for it in DIR is ended again, its images stay
#                              there. Without DIR, and where an engine answers already: in that one.
set -euo pipefail
cd "$(dirname "$0")/.."
began=$SECONDS
lap() { printf -- '-- %s (%d s)\n' "$1" $((SECONDS - began)); }
if [ $# = 1 ]; then
    trap 'bash ci/engine.sh stop "$1"' EXIT
    DOCKER_HOST=$(bash ci/engine.sh start "$1")
    export DOCKER_HOST
fi
lap "engine"
bash ci/compose.sh
lap "compose and buildx"
bash docker/airgapped/build.sh
lap "base images"
bash docker/build.sh
lap "images"
