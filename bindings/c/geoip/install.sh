#!/bin/sh
# install.sh LIBRARY PREFIX: installs a built libGeoIP.so with headers and pkg-config file.
#
#   cargo build --release --package whered-geoip
#   bindings/c/geoip/install.sh target/release/libGeoIP.so /opt/whered-geoip
#
# PREFIX is a folder of its own unless the original is to be replaced: programs that are started
# with LD_LIBRARY_PATH=PREFIX/lib take this library, all others the system's.
set -eu
library="$1" prefix="$2"
here="$(dirname "$0")"

mkdir -p "$prefix/lib/pkgconfig" "$prefix/include"
# Under another name first: programs that run have the old file mapped.
cp "$library" "$prefix/lib/libGeoIP.so.1.new"
mv -f "$prefix/lib/libGeoIP.so.1.new" "$prefix/lib/libGeoIP.so.1"
ln -sf libGeoIP.so.1 "$prefix/lib/libGeoIP.so"
cp "$here/include/GeoIP.h" "$here/include/GeoIPCity.h" "$here/include/whered_geoip.h" \
    "$prefix/include/"
sed -e "s|@PREFIX@|$prefix|" "$here/geoip.pc.in" > "$prefix/lib/pkgconfig/geoip.pc"
