#!/bin/sh
# Options or a configuration file alone mean redis-server, as in the published image; and as there, the
# server answers other containers.
set -eu
case "${1:-}" in
    '' | -* | *.conf) set -- redis-server "$@" ;;
esac
if [ "$1" = redis-server ]; then
    set -- "$@" --protected-mode no
fi
exec "$@"
