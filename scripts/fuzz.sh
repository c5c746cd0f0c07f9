#!/usr/bin/env bash
# The fuzz targets of fuzz/: `check` compiles them, `run SECONDS` runs each that long.
#
# What a run finds worth keeping goes to fuzz/target/corpus; the committed corpus, fuzz/corpus,
# is only read. An input that breaks something goes to fuzz/artifacts.
#
# Running needs a nightly compiler and cargo-fuzz; compiling needs only a C++ compiler, for the
# fuzzing engine. What is missing is said. Only `run` fails for it: `check` is part of the tests
# and passes over what the machine cannot do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() {
    printf 'fuzz: %s\n' "$*"
}

if [ ! -f fuzz/Cargo.toml ]; then
    say 'there are no fuzz targets'
    exit 0
fi

case "${1:-}" in
check)
    if ! command -v c++ > /dev/null; then
        say 'no C++ compiler: not compiled'
        exit 0
    fi
    cargo check --locked --manifest-path fuzz/Cargo.toml --target-dir fuzz/target --bins --examples
    ;;
run)
    seconds="${2:-60}"
    if ! cargo +nightly --version > /dev/null 2>&1; then
        say 'missing: a nightly compiler (rustup toolchain install nightly --profile minimal)' >&2
        exit 2
    fi
    if ! cargo +nightly fuzz --version > /dev/null 2>&1; then
        say 'missing: cargo-fuzz (cargo install cargo-fuzz --locked)' >&2
        exit 2
    fi
    targets="$(cargo +nightly fuzz list --fuzz-dir fuzz)"
    for target in $targets; do
        say "$target for $seconds s"
        found="fuzz/target/corpus/$target"
        committed="fuzz/corpus/$target"
        dictionary="fuzz/dictionaries/$target.dict"
        mkdir -p "$found" "$committed"
        options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048)
        if [ -f "$dictionary" ]; then
            options+=(-dict="$dictionary")
        fi
        cargo +nightly fuzz run --fuzz-dir fuzz "$target" "$found" "$committed" -- "${options[@]}"
    done
    ;;
*)
    echo 'usage: scripts/fuzz.sh check | run [SECONDS]' >&2
    exit 2
    ;;
esac
