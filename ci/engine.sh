#!/usr/bin/env bash
# A Docker engine for tests and CI, started by hand on a Debian machine as root: no systemd needed.
# usage: engine.sh start DIR [--alone]  prints what DOCKER_HOST must be
#        engine.sh stop DIR             ends the engine that was started in DIR, no other
# An engine that answers at DOCKER_HOST or at the default socket is used as it is, and nothing is started.
#   --alone  always a new one, in a network namespace of its own: it serves `--network none` and builds
#            without a network. (Two engines on one network take each other's bridge away.)
set -euo pipefail
fail() { echo "engine: $*" >&2; exit 3; }
usage() { echo "usage: engine.sh start DIR [--alone] | stop DIR" >&2; exit 2; }
answers() { docker -H "$1" version >/dev/null 2>&1; }

# Installs Debian's engine, and mmdebstrap for the stand-in images, where they are missing.
install() {
    local need=()
    command -v dockerd >/dev/null && command -v docker >/dev/null || need+=(docker.io)
    command -v mmdebstrap >/dev/null || need+=(mmdebstrap)
    ((${#need[@]})) || return 0
    command -v apt-get >/dev/null || fail "no dockerd on the PATH and no apt-get to install it: install Docker, or set DOCKER_HOST"
    [ "$(id -u)" = 0 ] || fail "installing ${need[*]} takes root: apt-get install ${need[*]}"
    # Its service would start a second engine beside ours.
    local refuse=/usr/sbin/policy-rc.d made=''
    if [ ! -e "$refuse" ]; then printf '#!/bin/sh\nexit 101\n' >"$refuse" && chmod +x "$refuse" && made=$refuse; fi
    {
        apt-get update -qq &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${need[@]}"
    } >"$1/apt.log" 2>&1 || { tail -5 "$1/apt.log" >&2; rm -f ${made:+"$made"}; fail "apt-get could not install ${need[*]}"; }
    rm -f ${made:+"$made"}
}

start() {
    local folder=$1 alone=${2:-} host
    if [ -z "$alone" ]; then
        for host in ${DOCKER_HOST:-} unix:///var/run/docker.sock; do
            if command -v docker >/dev/null && answers "$host"; then echo "$host"; return; fi
        done
    fi
    mkdir -p "$folder"
    folder=$(cd "$folder" && pwd -P)
    host=unix://$folder/docker.sock
    ((${#folder} < 90)) || fail "$folder is too long for a unix socket: take a shorter folder"
    exec 9>"$folder/lock" && flock 9 # two callers with one folder share one engine
    install "$folder"
    if answers "$host"; then echo "$host"; return; fi
    [ "$(id -u)" = 0 ] || fail "starting an engine takes root; or set DOCKER_HOST to one that runs"
    local other='' pid wrap=() options=()
    if [ -n "$alone" ]; then
        wrap=(unshare --net) options=(--bridge=none --iptables=false --ip6tables=false)
    else
        for pid in $(pgrep -x dockerd); do
            [ "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" ] || other=$pid
        done
        [ -z "$other" ] || fail "another engine runs (pid $other): set DOCKER_HOST to it, two on one network disturb each other"
    fi
    setsid "${wrap[@]}" dockerd --data-root "$folder/data" --exec-root "$folder/exec" \
        --pidfile "$folder/dockerd.pid" -H "$host" "${options[@]}" \
        9>&- </dev/null >"$folder/dockerd.log" 2>&1 &
    for _ in $(seq 300); do
        if answers "$host"; then echo "$host"; return; fi
        kill -0 $! 2>/dev/null || break
        sleep 0.1
    done
    tail -20 "$folder/dockerd.log" >&2
    fail "dockerd does not answer; its log is $folder/dockerd.log"
}

# An engine leaves mounts behind, such as the network namespace of `--network host`: nobody could remove DIR.
unmount() {
    local point
    while read -r point; do umount -l "$point"; done < <(
        awk -v below="$1/" 'index($5, below) == 1 { print $5 }' /proc/self/mountinfo | sort -r
    )
}

stop() {
    local folder
    folder=$(cd "$1" 2>/dev/null && pwd -P) || return 0
    end "$folder"
    unmount "$folder"
}

end() {
    local folder=$1 pid
    [ -s "$folder/dockerd.pid" ] || return 0
    pid=$(<"$folder/dockerd.pid")
    # The number may be somebody else's by now.
    tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF -- "--pidfile $folder/dockerd.pid" || return 0
    kill "$pid"
    for _ in $(seq 300); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -9 "$pid"
    fail "dockerd (pid $pid) had to be killed; its log is $folder/dockerd.log"
}

case "${1:-} $#" in
    'start 2' | 'start 3') [ "${3:---alone}" = --alone ] || usage; start "$2" "${3:-}" ;;
    'stop 2') stop "$2" ;;
    *) usage ;;
esac
