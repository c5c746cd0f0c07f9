#!/usr/bin/env bash
# Unit tests of the crates whose code differs by processor, for aarch64: by an emulator, unless this
# machine is one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(--package whered-simd --package whered-geo --package whered-ip)
if [ "$(uname -m)" = aarch64 ]; then
    exec cargo test --locked "${packages[@]}" --lib
fi
triple=aarch64-unknown-linux-gnu
if ! rustc --print target-libdir --target "$triple" | xargs test -d; then
    rustup target add "$triple"
fi
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER='qemu-aarch64 -L /usr/aarch64-linux-gnu'
# An emulator is slow: optimised tests take a quarter of the time.
export CARGO_PROFILE_DEV_OPT_LEVEL=1
exec cargo test --locked --target "$triple" "${packages[@]}" --lib
