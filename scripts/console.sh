#!/usr/bin/env bash
# Makes what the console has of other people's packages: vendor.js, world.json and NOTICE.txt in
# crates/whered-server/console. Versions and hashes: npm/package-lock.json there.
#
#   scripts/console.sh          writes the files
#   scripts/console.sh check    fails if the committed files are not what the packages give
#
# It needs node (20 or later), npm and the npm registry. The files are committed, so building and
# testing whered needs none of these.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../crates/whered-server/console"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp npm/package.json npm/package-lock.json "$scratch"
# npm ci refuses a package whose hash is another. No script of a package runs.
(cd "$scratch" && npm ci --ignore-scripts --no-audit --no-fund --silent)
mkdir "$scratch/made"
node npm/build.mjs "$scratch/node_modules" "$scratch/made"

if [ "${1-}" = check ]; then
    for file in vendor.js world.json NOTICE.txt; do
        cmp "$file" "$scratch/made/$file"
    done
else
    cp "$scratch"/made/* .
fi
