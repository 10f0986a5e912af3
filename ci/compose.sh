#!/usr/bin/env bash
# Docker Compose v2 and buildx as plugins of the docker command, from Debian 13's packages. The suite is
# not added to this machine's apt, and nothing is installed into the system.
# usage: compose.sh [FOLDER]  (default: $DOCKER_CONFIG, else ~/.docker). Does nothing when both are there.
set -euo pipefail
docker compose version >/dev/null 2>&1 && docker buildx version >/dev/null 2>&1 && exit 0
plugins=${1:-${DOCKER_CONFIG:-$HOME/.docker}}/cli-plugins
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
if ! command -v apt-get >/dev/null || [ ! -e "$keyring" ]; then
    echo "compose: not a Debian machine: install Docker's compose and buildx plugins" >&2
    exit 3
fi
# The mirror that this machine uses already.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    sed -nE 's/^(URIs: *|deb +(\[[^]]*\] *)?)(http[^ ]*\/debian\/?)( .*)?$/\3/p' | sed -n 1p) || true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists,cache/archives}/partial "$work/parts"
echo "deb [signed-by=$keyring] ${mirror:-http://deb.debian.org/debian} trixie main" >"$work/sources.list"
cat >"$work/apt.conf" <<CONF
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "$work/parts";
Dir::State::lists "$work/lists";
Dir::Cache "$work/cache";
APT::Sandbox::User "";
Acquire::Languages "none";
CONF
cd "$work"
export APT_CONFIG=$work/apt.conf
apt-get update -qq
apt-get download -qq docker-compose docker-buildx
for package in *.deb; do dpkg-deb -x "$package" unpacked; done
mkdir -p "$plugins"
install -m 755 unpacked/usr/libexec/docker/cli-plugins/* "$plugins/"
docker compose version >/dev/null 2>&1 || { echo "compose: the plugins in $plugins do not run" >&2; exit 3; }
