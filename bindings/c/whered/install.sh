#!/bin/sh
# install.sh LIBRARY PREFIX: installs a built libwhered.so with header, pkg-config and CMake files.
#
#   cargo build --release --package whered-c
#   bindings/c/whered/install.sh target/release/libwhered.so /usr/local
set -eu
library="$1" prefix="$2"
here="$(dirname "$0")"
version="$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$here/../../../Cargo.toml")"

mkdir -p "$prefix/lib/pkgconfig" "$prefix/lib/cmake/whered" "$prefix/include"
cp "$library" "$prefix/lib/libwhered.so.0"
ln -sf libwhered.so.0 "$prefix/lib/libwhered.so"
cp "$here/include/whered.h" "$prefix/include/"
cp "$here/wheredConfig.cmake" "$prefix/lib/cmake/whered/"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/whered.pc.in" \
    > "$prefix/lib/pkgconfig/whered.pc"
