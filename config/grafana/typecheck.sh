#!/usr/bin/env bash
# Checks the dashboards against Grafana's own TypeScript types (@grafana/schema of the version that
# compose.yaml runs). Needs npm; not part of `make test`, which must run on a bare machine. 10 s.
# usage: config/grafana/typecheck.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
echo '{"private": true, "type": "module"}' >package.json
npm install --silent --no-audit --no-fund @grafana/schema@11.6.0 typescript@5.7.3
python3 "$here/typed.py" >dashboards.ts
npx --no-install tsc --noEmit --strict --skipLibCheck --target es2022 --module esnext \
    --moduleResolution bundler dashboards.ts
echo "dashboards: Grafana's types take them"
