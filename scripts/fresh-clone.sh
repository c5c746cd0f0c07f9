#!/usr/bin/env bash
# A clone of this commit in another folder, without the shared data folder beside it: all Python
# tests are collected there, and all Rust tests are listed as if that data were absent.
#
#   scripts/fresh-clone.sh PYTHON     PYTHON has the packages of tests/clients/requirements.txt
#
# Collecting and listing run no test. A test that looks for its data during collection fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python="$(realpath --no-symlinks "${1:?usage: scripts/fresh-clone.sh PYTHON}")"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
unset WHERED_REQUIRE WHERED_SHARED

git clone --quiet . "$folder/whered"
(cd "$folder/whered" && "$python" -m pytest --collect-only --quiet -p no:cacheprovider tests | tail -n 1)

WHERED_SHARED="$folder/absent" cargo test --workspace --locked --lib --bins --tests -- --list \
    2> "$folder/errors" > "$folder/list" || { cat "$folder/errors" >&2; exit 1; }
printf '%s Rust tests listed\n' "$(grep -c ': test$' "$folder/list")"
