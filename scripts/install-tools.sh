#!/usr/bin/env bash
# Installs the programs that this repository needs and the machine lacks.
#
#   scripts/install-tools.sh run     what the demo's try-it commands use: redis-cli, dig, curl
#   scripts/install-tools.sh test    that, and what the tests compare with
#   scripts/install-tools.sh bench   the rivals that bench/versus links or starts, and their data
#   scripts/install-tools.sh venv    Python packages of tests/clients/requirements.txt into .venv
#   scripts/install-tools.sh packages   what make packages needs, a cross compiler among it
#   scripts/install-tools.sh debian     what the Debian package alone and its tests need
#   scripts/install-tools.sh arm64      a cross compiler and an emulator for aarch64
#   scripts/install-tools.sh console    Chromium, and what drives it into .venv
#   scripts/install-tools.sh deny    cargo-deny by cargo install; any version that is there will do
#
# By apt-get, dnf, apk or brew, as root or through sudo. It installs nothing that is there, starts
# no service, and is quick when there is nothing to do. Where it cannot install, it says what is
# missing and goes on; only `test` fails for that, when WHERED_REQUIRE asks for `peers`. Tests that
# need what is missing are skipped, or fail where WHERED_REQUIRE names it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

policy=/usr/sbin/policy-rc.d
deny_version=0.20.2
deb_version=3.8.0

say() {
    printf 'install: %s\n' "$*"
}

# Runs a command as root. Without a terminal sudo must not ask for a password.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif [ -t 0 ]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

can_be_root() {
    [ "$(id -u)" = 0 ] || command -v sudo > /dev/null
}

# Whether a thing is there. Most things are programs; some are not.
is_there() {
    case "$1" in
    python-venv) python3 -c 'import ensurepip, venv' > /dev/null 2>&1 || [ -x .venv/bin/python ] ;;
    dpdk-headers) pkg-config --exists libdpdk ;;
    legacy-database) [ -f /usr/share/GeoIP/GeoIP.dat ] ;;
    legacy-headers) cc -include GeoIPCity.h -x c -fsyntax-only /dev/null > /dev/null 2>&1 ;;
    maxminddb.h) echo '#include <maxminddb.h>' | cc -E - > /dev/null 2>&1 ;;
    postgres) ls /usr/lib/postgresql/*/bin/postgres > /dev/null 2>&1 || command -v postgres > /dev/null ;;
    sqlite-headers) echo '#include <sqlite3.h>' | cc -E - > /dev/null 2>&1 ;;
    chromium) is_there chromium-browser || is_there google-chrome || command -v chromium > /dev/null ;;
    python-maxminddb) /usr/bin/python3 -c 'from maxminddb import extension' > /dev/null 2>&1 ;;
    knot-geoip) ls /usr/lib/*/knot/modules-*/geoip.so > /dev/null 2>&1 ;;
    pdns-bind) ls /usr/lib/*/pdns/libbindbackend.so > /dev/null 2>&1 ;;
    pdns-geoip) ls /usr/lib/*/pdns/libgeoipbackend.so > /dev/null 2>&1 ;;
    nginx-geoip2) [ -f /usr/lib/nginx/modules/ngx_http_geoip2_module.so ] ;;
    nginx-geoip) [ -f /usr/lib/nginx/modules/ngx_http_geoip_module.so ] && [ -f /usr/lib/nginx/modules/ngx_stream_geoip_module.so ] ;;
    nginx-modsecurity) [ -f /usr/lib/nginx/modules/ngx_http_modsecurity_module.so ] ;;
    apache-geoip) [ -f /usr/lib/apache2/modules/mod_geoip.so ] ;;
    proftpd-geoip) [ -f /usr/lib/proftpd/mod_geoip.so ] ;;
    python-geoip) /usr/bin/python3 -c 'import GeoIP' > /dev/null 2>&1 ;;
    perl-geoip) perl -MGeo::IP -e 1 > /dev/null 2>&1 ;;
    lua-geoip) lua5.1 -e 'require "geoip.country"' > /dev/null 2>&1 ;;
    *) command -v "$1" > /dev/null ;;
    esac
}

# The package that brings a thing: package_of MANAGER THING. Empty: this manager has none.
package_of() {
    case "$1:$2" in
    *:curl | *:valgrind | *:strace | *:make | *:git | *:openssl | *:zstd) echo "$2" ;;
    *:lintian | *:buildah) echo "$2" ;;
    *:chromium) echo chromium ;;
    *:dpkg-shlibdeps) echo dpkg-dev ;;
    *:readelf) echo binutils ;;
    *:aarch64-linux-gnu-gcc) echo 'gcc-aarch64-linux-gnu libc6-dev-arm64-cross' ;;
    *:qemu-aarch64) echo qemu-user ;;
    *:systemd-sysusers) echo systemd ;;
    *:pgrep) echo procps ;;
    *:setpriv) echo util-linux ;;
    apt-get:cc) echo 'gcc libc6-dev' ;;
    apk:cc) echo build-base ;;
    dnf:cc) echo gcc ;;
    apt-get:redis-cli) echo redis-tools ;;
    apt-get:redis-server) echo redis-server ;;
    *:redis-cli | *:redis-server) echo redis ;;
    *:mariadbd) echo mariadb-server ;;
    apt-get:postgres) echo postgresql ;;
    *:postgres) echo postgresql-server ;;
    apt-get:dig) echo bind9-dnsutils ;;
    dnf:dig) echo bind-utils ;;
    apk:dig) echo bind-tools ;;
    brew:dig) echo bind ;;
    apt-get:mmdblookup) echo mmdb-bin ;;
    *:mmdblookup) echo libmaxminddb ;;
    apt-get:geoiplookup) echo geoip-bin ;;
    dnf:geoiplookup) echo GeoIP ;;
    apk:geoiplookup | brew:geoiplookup) echo geoip ;;
    apt-get:legacy-database) echo geoip-database ;;
    dnf:legacy-database) echo GeoIP-data ;;
    apt-get:legacy-headers) echo libgeoip-dev ;;
    dnf:legacy-headers) echo GeoIP-devel ;;
    apk:legacy-headers) echo geoip-dev ;;
    brew:legacy-headers) echo geoip ;;
    apt-get:dpdk-headers) echo libdpdk-dev ;;
    dnf:dpdk-headers) echo dpdk-devel ;;
    apk:dpdk-headers) echo dpdk-dev ;;
    apt-get:maxminddb.h) echo libmaxminddb-dev ;;
    dnf:maxminddb.h) echo libmaxminddb-devel ;;
    apk:maxminddb.h) echo libmaxminddb-dev ;;
    brew:maxminddb.h) echo libmaxminddb ;;
    apt-get:sqlite-headers) echo libsqlite3-dev ;;
    dnf:sqlite-headers) echo sqlite-devel ;;
    apk:sqlite-headers) echo sqlite-dev ;;
    brew:sqlite-headers) echo sqlite ;;
    apt-get:python-maxminddb | dnf:python-maxminddb) echo python3-maxminddb ;;
    apk:python-maxminddb) echo py3-maxminddb ;;
    *:nginx) echo nginx ;;
    apt-get:nginx-geoip2) echo libnginx-mod-http-geoip2 ;;
    dnf:nginx-geoip2) echo nginx-mod-http-geoip2 ;;
    apk:nginx-geoip2) echo nginx-mod-http-geoip2 ;;
    apt-get:nginx-geoip) echo 'libnginx-mod-http-geoip libnginx-mod-stream-geoip' ;;
    apt-get:nginx-modsecurity) echo libnginx-mod-http-modsecurity ;;
    apt-get:apache-geoip) echo 'apache2 libapache2-mod-geoip' ;;
    apt-get:proftpd-geoip) echo 'proftpd-core proftpd-mod-geoip' ;;
    apt-get:pdns-geoip) echo 'pdns-server pdns-backend-geoip' ;;
    apt-get:python-geoip) echo python3-geoip ;;
    apt-get:perl-geoip) echo libgeo-ip-perl ;;
    apt-get:lua-geoip) echo 'lua5.1 lua-geoip' ;;
    apt-get:webalizer | apt-get:awffull | apt-get:subnetcalc | apt-get:netsniff-ng) echo "$2" ;;
    apt-get:named) echo bind9 ;;
    *:named) echo bind ;;
    *:nsd) echo nsd ;;
    *:knotd) echo knot ;;
    *:rbldnsd) echo rbldnsd ;;
    *:gdnsd) echo gdnsd ;;
    apt-get:pdns_server) echo pdns-server ;;
    *:pdns_server) echo pdns ;;
    apt-get:pdns-bind) echo pdns-backend-bind ;;
    apt-get:knot-geoip) echo knot-module-geoip ;;
    apt-get:dnssec-signzone) echo bind9-utils ;;
    *:unshare) echo util-linux ;;
    *:iptables) echo iptables ;;
    *:nft) echo nftables ;;
    *:ipset) echo ipset ;;
    dnf:ip) echo iproute ;;
    *:ip) echo iproute2 ;;
    *:pkg-config) echo pkg-config ;;
    *:cmake) echo cmake ;;
    apt-get:python-venv) echo 'python3 python3-venv' ;;
    dnf:python-venv | apk:python-venv | brew:python-venv) echo python3 ;;
    esac
}

package_manager() {
    local name
    for name in apt-get dnf apk brew; do
        if command -v "$name" > /dev/null; then
            echo "$name"
            return
        fi
    done
}

# Debian starts a package's service while installing it, unless this policy says no.
# A policy that the machine has already is left as it is.
forbid_services() {
    if [ ! -e "$policy" ]; then
        trap allow_services EXIT
        trap 'exit 1' INT TERM
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" > /dev/null &&
            as_root chmod 755 "$policy"
    fi
}

allow_services() {
    as_root rm -f "$policy"
}

# Installs packages: install_packages MANAGER PACKAGE...
install_packages() {
    local manager="$1"
    shift
    case "$manager" in
    apt-get)
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
            -o DPkg::Lock::Timeout=300 --no-install-recommends install "$@" > /dev/null
        ;;
    dnf) as_root dnf -q -y install "$@" ;;
    apk) as_root apk add --quiet "$@" ;;
    brew) brew install --quiet "$@" ;;
    esac
}

# Installs all packages at once; if that fails, each alone, since one unknown name stops all.
install_what_can_be() {
    local manager="$1" package
    shift
    say "$manager install $*"
    if [ "$manager" = apt-get ]; then
        if ! forbid_services; then
            say "cannot write $policy, and services must not start"
            return
        fi
        as_root apt-get -qq update || say 'apt-get update failed; going on with the old lists'
    fi
    if ! install_packages "$manager" "$@"; then
        for package in "$@"; do
            install_packages "$manager" "$package" || say "$manager has not installed $package"
        done
    fi
}

# What of the named things is not there, one a line.
missing_of() {
    local thing
    for thing in "$@"; do
        if ! is_there "$thing"; then
            echo "$thing"
        fi
    done
}

# Installs what is missing of the named things; tells what stays missing. Never fails.
provide() {
    local missing manager thing names='' packages
    missing="$(missing_of "$@")"
    if [ -z "$missing" ]; then
        return
    fi
    manager="$(package_manager)"
    for thing in $missing; do
        names+=" $(package_of "$manager" "$thing")"
    done
    if [ -z "$manager" ] || [ -z "${names// /}" ]; then
        say 'no package manager here that brings what is missing'
    elif [ "$manager" != brew ] && ! can_be_root; then
        say "neither root nor sudo: cannot install$names"
    else
        read -r -a packages <<< "$names"
        install_what_can_be "$manager" "${packages[@]}"
    fi
    missing="$(missing_of "$@" | tr '\n' ' ')"
    if [ -n "$missing" ]; then
        say "missing: $missing"
    fi
}

# Cargo cannot come from here: rustup is each user's own.
need_cargo() {
    if ! command -v cargo > /dev/null; then
        say 'missing: cargo; install rustup from https://rustup.rs and run this again' >&2
        exit 1
    fi
}

make_venv() {
    local wanted=tests/clients/requirements.txt stamp=.venv/requirements.installed
    if [ -x .venv/bin/python ] && cmp -s "$wanted" "$stamp"; then
        return
    fi
    say "Python packages of $wanted into .venv"
    rm -rf .venv
    python3 -m venv .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$wanted"
    cp "$wanted" "$stamp"
}

# What drives the browser, beside what .venv has.
install_playwright() {
    local wanted=tests/console/requirements.txt stamp=.venv/console.installed
    if cmp -s "$wanted" "$stamp"; then
        return
    fi
    say "Python packages of $wanted into .venv"
    if .venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$wanted"; then
        cp "$wanted" "$stamp"
    else
        say 'playwright cannot be installed'
    fi
}

# Without optimisation: it runs for seconds and would be compiled for minutes.
install_deny() {
    if cargo deny --version > /dev/null 2>&1; then
        return
    fi
    say "cargo-deny $deny_version by cargo install"
    cargo install cargo-deny --version "$deny_version" --locked --debug --quiet
}

# As for cargo-deny.
install_cargo_deb() {
    if cargo deb --version > /dev/null 2>&1; then
        return
    fi
    say "cargo-deb $deb_version by cargo install"
    cargo install cargo-deb --version "$deb_version" --locked --debug --quiet
}

for_run=(cc curl redis-cli dig)
for_test=("${for_run[@]}" redis-server mariadbd postgres mmdblookup geoiplookup legacy-database legacy-headers valgrind
    strace python-venv maxminddb.h python-maxminddb nginx nginx-geoip2 named nsd knotd gdnsd rbldnsd pkg-config cmake openssl
    zstd unshare iptables nft ipset ip
    nginx-geoip nginx-modsecurity apache-geoip proftpd-geoip pdns-geoip python-geoip perl-geoip lua-geoip
    webalizer awffull subnetcalc netsniff-ng)

case "${1:-}" in
run)
    need_cargo
    provide "${for_run[@]}"
    ;;
test)
    need_cargo
    provide "${for_test[@]}"
    if [[ ",${WHERED_REQUIRE:-}," == *,peers,* ]] && [ -n "$(missing_of "${for_test[@]}")" ]; then
        say 'WHERED_REQUIRE asks for peers: cannot go on without them' >&2
        exit 1
    fi
    ;;
bench)
    need_cargo
    provide cc pkg-config maxminddb.h legacy-headers dpdk-headers legacy-database redis-server \
        nsd knotd knot-geoip gdnsd named dnssec-signzone pdns_server pdns-bind pdns-geoip \
        mariadbd postgres sqlite-headers
    ;;
venv)
    make_venv
    ;;
packages)
    need_cargo
    provide cc readelf dpkg-shlibdeps lintian buildah unshare openssl curl redis-cli
    if [ "$(uname -m)" = x86_64 ]; then
        provide aarch64-linux-gnu-gcc qemu-aarch64
    fi
    install_cargo_deb
    ;;
arm64)
    need_cargo
    if [ "$(uname -m)" = x86_64 ]; then
        provide cc aarch64-linux-gnu-gcc qemu-aarch64
    fi
    ;;
debian)
    need_cargo
    provide cc readelf dpkg-shlibdeps lintian unshare curl redis-cli systemd-sysusers pgrep setpriv
    install_cargo_deb
    ;;
console)
    provide chromium
    install_playwright
    ;;
deny)
    need_cargo
    install_deny
    ;;
*)
    echo 'usage: scripts/install-tools.sh run | test | bench | venv | packages | debian | arm64 | console | deny' >&2
    exit 2
    ;;
esac
