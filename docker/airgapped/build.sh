#!/usr/bin/env bash
# Stand-ins for the public base images, made from Debian's packages alone: for machines that reach a
# Debian mirror and no image registry. They carry the public names, so every file here builds unchanged.
# They prove the wiring, not the published versions. Never push them: they hold this machine's CA bundle.
# usage: build.sh     needs an engine (DOCKER_HOST) and, for a first run, mmdebstrap and root.
# A name that is there already, a published image or a stand-in, is left as it is.
# Debian's mirror: $DEBIAN_MIRROR, else mmdebstrap's default. CA bundle: $CA_BUNDLE, else the machine's.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
began=$SECONDS
lap() { printf -- '-- %s (%d s)\n' "$1" $((SECONDS - began)); }
has() { docker image inspect "$1" >/dev/null 2>&1; }

base=debian:bookworm-slim
names=(python:3.11-slim-bookworm redis:7-alpine prom/prometheus:v2.53.0)

if ! docker version >/dev/null 2>&1; then
    echo "airgapped: no Docker engine answers: start Docker, or name an engine by DOCKER_HOST" >&2
    exit 3
fi
missing=()
for name in "${names[@]}"; do has "$name" || missing+=("$name"); done
((${#missing[@]})) || exit 0
echo "making stand-ins of Debian's packages for ${missing[*]}: a minute or two"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if ! has "$base"; then
    command -v mmdebstrap >/dev/null || { echo "airgapped: no mmdebstrap: apt-get install mmdebstrap" >&2; exit 3; }
    mmdebstrap --quiet --variant=minbase --include=ca-certificates --dpkgopt=force-unsafe-io \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' --aptopt='Acquire::Languages "none"' \
        bookworm "$work/base.tar" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}
    docker import -c 'CMD ["bash"]' -c 'LABEL overnight.stand-in="debian bookworm by mmdebstrap"' \
        "$work/base.tar" "$base" >/dev/null
    rm "$work/base.tar"
    lap "$base"
fi
cp "${CA_BUNDLE:-/etc/ssl/certs/ca-certificates.crt}" "$work/ca-certificates.crt"
cp "$here/redis-entrypoint.sh" "$work/"

# All at once: they wait for downloads most of the time.
children=()
for name in "${missing[@]}"; do
    kind=${name%%:*}
    docker build -q -t "$name" -f "$here/${kind##*/}.Dockerfile" "$work" >"$work/${kind##*/}.log" 2>&1 &
    children+=($!)
done
for i in "${!children[@]}"; do
    kind=${missing[i]%%:*}
    wait "${children[i]}" || { cat "$work/${kind##*/}.log" >&2; echo "airgapped: ${missing[i]} was not built" >&2; exit 3; }
    lap "${missing[i]}"
done
