#!/bin/sh
# Makes what compose.yaml needs on this machine: .env, secrets, folders. What is there stays as it is.
# usage: sh docker/init.sh REPO        the repository whose training script shall get better
set -eu
umask 077
fail() { echo "init: $*" >&2; exit 2; }
cd "$(dirname "$0")/.."
here=$(pwd -P)

[ $# -eq 1 ] || fail "usage: sh docker/init.sh REPO"
repo=$(cd "$1" 2>/dev/null && pwd -P) || fail "$1 is no folder"
case $repo in *[!A-Za-z0-9_./@+,-]*) fail "$repo: only letters, digits and _./@+,- in its path, please" ;; esac
case $here in *[!A-Za-z0-9_./@+,-]*) fail "$here: only letters, digits and _./@+,- in its path, please" ;; esac
uid=$(stat -c %u "$repo" 2>/dev/null || stat -f %u "$repo")
gid=$(stat -c %g "$repo" 2>/dev/null || stat -f %g "$repo")
[ "$uid" != 0 ] || fail "$repo belongs to root, and no service runs as root: chown -R YOU $repo"
me=$(id -u)
[ "$me" = "$uid" ] || [ "$me" = 0 ] || fail "$repo belongs to user $uid: run this as that user"
[ -f "$repo/loop.run.yaml" ] || [ -f "$repo/track.yaml" ] || bindings=missing

home=${OVERNIGHT_HOME:-$here/.overnight}
if [ -f .env ]; then
  known=$(sed -n 's/^OVERNIGHT_REPO=//p' .env)
  [ "$known" = "$repo" ] || fail ".env is for $known: change OVERNIGHT_REPO there, or move .env away"
  home=$(sed -n 's/^OVERNIGHT_HOME=//p' .env)
fi
socket=$(printf '%s\n' "${DOCKER_HOST:-}" | sed -n 's|^unix://||p')
profiles=cpu,observability runners=$(nproc 2>/dev/null || echo 1)
image=overnight-sandbox:cpu cuda='' packages=''
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU') || gpus=0
if [ "$gpus" -gt 0 ]; then
  profiles=gpu,observability runners=$gpus image=overnight-sandbox:cuda cuda=1 packages='gcc g++ libc6-dev'
fi

made=''
owned() { [ "$me" = "$uid" ] || chown "$uid:$gid" "$1"; }
folder() { # PATH MODE
  [ -d "$1" ] || { mkdir -p "$1" && chmod "$2" "$1" && owned "$1"; }
}
folder "$home" 711
for name in redis prometheus grafana data secrets; do folder "$home/$name" 700; done
folder "$home/spawner" 711
folder "$home/spawner/profiles" 755
folder "$home/devices" 1777
for name in redis_orchestrator redis_recorder redis_runner redis_cli grafana_admin; do
  file=$home/secrets/$name
  [ ! -s "$file" ] || continue
  head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$file"
  chmod 400 "$file"
  owned "$file"
  made="$made $name"
done
if [ ! -f .env ]; then
  while IFS= read -r line; do
    case $line in
      OVERNIGHT_REPO=*) line=OVERNIGHT_REPO=$repo ;;
      OVERNIGHT_UID=*) line=OVERNIGHT_UID=$uid ;;
      OVERNIGHT_GID=*) line=OVERNIGHT_GID=$gid ;;
      OVERNIGHT_HOME=*) line=OVERNIGHT_HOME=$home ;;
      OVERNIGHT_DEVICE_LOCKS=*) line=OVERNIGHT_DEVICE_LOCKS=$home/devices ;;
      COMPOSE_PROFILES=*) line=COMPOSE_PROFILES=$profiles ;;
      OVERNIGHT_RUNNERS=*) line=OVERNIGHT_RUNNERS=$runners ;;
      OVERNIGHT_SANDBOX_IMAGE=*) line=OVERNIGHT_SANDBOX_IMAGE=$image ;;
      OVERNIGHT_CUDA=*) line=OVERNIGHT_CUDA=$cuda ;;
      OVERNIGHT_SANDBOX_PACKAGES=*) line="OVERNIGHT_SANDBOX_PACKAGES=$packages" ;;
      OVERNIGHT_DOCKER_SOCKET=*) [ -z "$socket" ] || line=OVERNIGHT_DOCKER_SOCKET=$socket ;;
    esac
    printf '%s\n' "$line"
  done <.env.example >.env
  made="$made .env"
fi

echo "repository   $repo (services run as user $uid)"
echo "settings     $here/.env: $(sed -n 's/^COMPOSE_PROFILES=//p' .env), $(sed -n 's/^OVERNIGHT_RUNNERS=//p' .env) at a time"
echo "state        $home"
echo "made now    ${made:- nothing: all was there}"
[ -z "${bindings:-}" ] || echo "next: docker compose run --rm --no-deps cli init      (no loop.run.yaml in the repository yet)"
echo "next: docker compose up -d && docker compose run --rm cli watch"
