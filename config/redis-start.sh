#!/bin/sh
# Starts Redis with the users of redis.acl. Passwords are files, `redis_<user>` in $SECRETS; the
# server's own file of users lies in $RUN (in memory) and holds their SHA-256 alone.
# Usage: redis-start.sh [options of redis-server]
set -eu
here=$(dirname "$0")
SECRETS=${SECRETS:-/run/secrets}
RUN=${RUN:-/run/redis}
users=$RUN/users.acl

umask 077
rules=$(sed '/^#/d; /^$/d' "$here/redis.acl" | tr '\n' ' ' | sed 's/  */ /g; s/ user /\nuser /g')
case $(redis-server --version) in  # 7.0 has no such command, and refuses to hear of it
  *'v=7.0.'*) rules=$(printf '%s\n' "$rules" | sed 's/ +client|setinfo//') ;;
esac
printf '%s\n' "$rules" | while read -r user name rest; do
  case $rest in
    *PASSWORD*)
      file=$SECRETS/redis_$name
      password=$(tr -d '\r\n' <"$file" 2>/dev/null) || password=
      if [ "${#password}" -lt 16 ]; then
        echo "redis: $file must hold a password of at least 16 characters: sh docker/init.sh" >&2
        exit 2
      fi
      hash=$(printf %s "$password" | sha256sum | cut -d' ' -f1)
      rest=$(printf '%s\n' "$rest" | sed "s/PASSWORD/#$hash/")
      ;;
  esac
  printf '%s %s %s\n' "$user" "$name" "$rest"
done >"$users.new"
mv "$users.new" "$users"
exec redis-server "$here/redis.conf" --dir "${DATA:-/data}" --aclfile "$users" "$@"
