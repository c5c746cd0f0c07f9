#!/usr/bin/env bash
# Every version of Cargo.lock against the RustSec advisory database, without the network.
#
# Needs cargo-deny (or cargo-audit) and a copy of the database that it has fetched before. Without
# them this says what is missing and passes: `make deny` has held the lock file against the
# banned versions of deny.toml.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

home="${CARGO_HOME:-$HOME/.cargo}"

if cargo deny --version > /dev/null 2>&1 && [ -n "$(ls "$home/advisory-dbs" 2> /dev/null)" ]; then
    exec cargo deny --offline check advisories
elif cargo audit --version > /dev/null 2>&1 && [ -d "$home/advisory-db" ]; then
    exec cargo audit --no-fetch
fi
echo 'advisories: no database at hand (cargo deny fetch): only the banned versions of deny.toml were checked'
