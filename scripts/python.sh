#!/usr/bin/env bash
# The Python package of bindings/python.
#
#   scripts/python.sh wheels    the release wheel for every Python from 3.10 on, one for the
#                               free-threaded Python 3.14, and the source package, in
#                               bindings/python/dist
#   scripts/python.sh check     format and lints of its Rust
#   scripts/python.sh test      builds it without optimisation; runs all tests on this Python, and
#                               those that need no other package on every other Python that is here
#   scripts/python.sh spark     the tests of whered.spark with pyspark; needs Java 17
#   scripts/python.sh bench     installs it, optimised, beside the rivals of make bench-python
#
# Its tools and the packages that it is tested with go to bindings/python/.venv. Spark and rivals
# need older packages, and go to bench/versus/python/.venv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../bindings/python"

venv="$PWD/.venv"
rivals="$PWD/../../bench/versus/python"

say() {
    printf 'python: %s\n' "$*"
}

# make_venv [FOLDER REQUIREMENTS]: a folder with what a file lists in it, made again when that file
# has changed. Without arguments it holds the tools.
make_venv() {
    local venv="${1:-$venv}" requirements="${2:-requirements.txt}"
    if ! python3 -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))' 2> /dev/null; then
        say 'missing: Python 3.10 or newer with the module venv (Debian: python3-venv)' >&2
        exit 2
    fi
    if ! cmp --silent "$requirements" "$venv/requirements.txt"; then
        rm -rf "$venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"
        cp "$requirements" "$venv/requirements.txt"
    fi
}

# Every Python from 3.10 on that is here, one of each version, but not the venv's own.
other_pythons() {
    local own candidates candidate version
    own="$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_config_var("VERSION"))')"
    candidates="$(
        compgen -c | grep -E '^python3\.[0-9]+t?$' | sort -u
        printf '%s\n' "$(pyenv root 2> /dev/null)"/versions/*/bin/python3.* | grep -E 'python3\.[0-9]+t?$' || true
    )"
    for candidate in $candidates; do
        version="$("$candidate" -c 'import sys, sysconfig, venv, ensurepip
if sys.version_info >= (3, 10): print(sysconfig.get_config_var("py_version_nodot"), sysconfig.get_config_var("Py_GIL_DISABLED") or 0)' 2> /dev/null || true)"
        if [ -n "$version" ] && [ "$version" != "${own/./} 0" ]; then
            echo "$version $candidate"
        fi
    done | sort -u -k 1,2 | awk '{ print $2, $3 }'
}

# install_beside_rivals PROFILE...: the package in the folder that has Spark and the rivals.
install_beside_rivals() {
    make_venv
    make_venv "$rivals/.venv" "$rivals/requirements.txt"
    export PYO3_PYTHON="$venv/bin/python"
    rm -rf target/wheels
    "$venv/bin/maturin" build --quiet "$@" --locked --out target/wheels
    "$rivals/.venv/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/*-abi3-*.whl
}

case "${1:-}" in
wheels)
    make_venv
    rm -rf dist
    "$venv/bin/maturin" build --release --locked --out dist
    # Free-threaded Pythons have a stable interface from 3.15 on; this wheel is for 3.14 and needs
    # no such Python here.
    free_threaded="$PWD/target/free-threaded.txt"
    printf '%s\n' implementation=CPython version=3.14 shared=true build_flags=Py_GIL_DISABLED > "$free_threaded"
    PYO3_CONFIG_FILE="$free_threaded" "$venv/bin/maturin" build --release --locked --no-default-features \
        --interpreter python3.14t --target-dir target/free-threaded --out dist
    "$venv/bin/maturin" sdist --out dist
    ls -l dist
    ;;
check)
    make_venv
    export PYO3_PYTHON="$venv/bin/python"
    cargo fmt -- --check
    cargo clippy --locked --all-targets -- -D warnings
    ;;
test)
    make_venv
    export PYO3_PYTHON="$venv/bin/python"
    rm -rf target/wheels
    "$venv/bin/maturin" build --quiet --profile dev --locked --out target/wheels
    "$venv/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/*-abi3-*.whl
    "$venv/bin/python" -m pytest tests
    other_pythons | while read -r is_free candidate; do
        folder="$(mktemp -d)"
        wheel="$(ls target/wheels/*-abi3-*.whl)"
        if [ "$is_free" = 1 ]; then
            "$venv/bin/maturin" build --quiet --profile dev --locked --no-default-features \
                --interpreter "$candidate" --out "$folder/wheels"
            wheel="$(ls "$folder"/wheels/*.whl)"
        fi
        "$candidate" -m venv "$folder/venv"
        "$folder/venv/bin/pip" install --quiet --disable-pip-version-check pytest "$wheel"
        say "$("$folder/venv/bin/python" --version), with no other package"
        "$folder/venv/bin/python" -m pytest -p no:cacheprovider tests < /dev/null
        rm -rf "$folder"
    done
    ;;
spark)
    install_beside_rivals --profile dev
    "$rivals/.venv/bin/python" -m pytest tests/test_spark.py
    ;;
bench)
    install_beside_rivals --release
    ;;
*)
    sed -n '2,15s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
