#!/usr/bin/env bash
# Format, clippy and tests of the packages that have changed, for the loop while typing.
#
#   scripts/quick.sh          does it
#   scripts/quick.sh list     prints what it would choose
#
# Changed is every file that differs from where this branch left main, and every new file. A
# package is the nearest folder above a changed file with a Cargo.toml. Packages that use a changed
# one are not chosen: `make test` has them. Packages outside the workspace (fuzz, bench/versus) are
# compiled and not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() {
    printf 'quick: %s\n' "$*"
}

# Where this branch left main; without a main, the last commit.
base() {
    git merge-base HEAD main 2> /dev/null ||
        git merge-base HEAD origin/main 2> /dev/null || echo HEAD
}

# The folder of the package that a file belongs to; empty for files of the root.
package_of() {
    local folder="$1"
    while [ "$folder" != . ]; do
        folder="$(dirname "$folder")"
        if [ "$folder" != . ] && [ -f "$folder/Cargo.toml" ]; then
            echo "$folder"
            return
        fi
    done
}

changed="$({
    git diff --name-only "$(base)"
    git ls-files --others --exclude-standard
} | sort -u)"

inside=()
outside=()
others=()
seen=' '
while IFS= read -r file; do
    if [ -z "$file" ]; then
        continue
    fi
    folder="$(package_of "$file")"
    if [ -z "$folder" ]; then
        others+=("$file")
        continue
    fi
    case "$seen" in
    *" $folder "*) continue ;;
    esac
    seen+="$folder "
    if [ "$folder" = fuzz ] || [ "$folder" = bench/versus ]; then
        outside+=("$folder")
    else
        inside+=("$(sed -n 's/^name = "\(.*\)"$/\1/p' "$folder/Cargo.toml" | head -n 1)")
    fi
done <<< "$changed"

say "packages: ${inside[*]:-none}${outside[*]:+; compiled only: ${outside[*]}}"
if [ "${#others[@]}" -gt 0 ]; then
    say "of no package, left to make test: ${others[*]}"
fi
if [ "${1:-}" = list ]; then
    exit
fi

if [ "${#inside[@]}" -gt 0 ]; then
    chosen=()
    for name in "${inside[@]}"; do
        chosen+=(--package "$name")
    done
    cargo fmt "${chosen[@]}"
    cargo clippy "${chosen[@]}" --all-targets -- -D warnings
    cargo test "${chosen[@]}"
fi
for folder in "${outside[@]}"; do
    cargo fmt --manifest-path "$folder/Cargo.toml"
    cargo clippy --manifest-path "$folder/Cargo.toml" --bins --examples -- -D warnings
done
say 'done'
