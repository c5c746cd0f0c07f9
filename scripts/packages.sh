#!/usr/bin/env bash
# Packages of the program: a Debian package, tarballs with a static program, container images.
#
#   scripts/packages.sh all [PROFILE]          everything below into target/packages
#   scripts/packages.sh deb [PROFILE]          whered_VERSION_ARCH.deb, linked dynamically
#   scripts/packages.sh tarball [PROFILE]      whered-VERSION-ARCH-linux.tar.gz, a static program
#   scripts/packages.sh image [PROFILE]        whered-VERSION-ARCH-image.tar.gz with that program
#   scripts/packages.sh arm64 [PROFILE]        tarball and image for aarch64, cross-compiled
#   scripts/packages.sh check [PROFILE]        deb, tarball, image, but for what lacks a program
#   scripts/packages.sh install PROFILE PREFIX [DESTDIR]   what `make install` does
#
# PROFILE is release (the default) or dev. SOURCE_DATE_EPOCH is the date of all files; without it,
# that of the last commit. The static programs have glibc, not musl: sines and cosines of musl
# differ in the last bit, and replies to GEO commands are Redis's byte for byte.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

what="${1:-}" profile="${2:-release}"
case "$profile" in
dev) built=debug quick=yes ;;
release) built=release quick='' ;;
*)
    echo "packages: the profile '$profile' is unknown; allowed: release, dev" >&2
    exit 2
    ;;
esac
target="${CARGO_TARGET_DIR:-$PWD/target}"
out="$PWD/target/packages"
version="$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)"
machine="$(uname -m)"
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH="$(git show --no-patch --format=%ct HEAD 2> /dev/null || date +%s)"
fi

say() {
    printf 'packages: %s\n' "$*"
}

# need PROGRAM...: ends with the reason and code 3 where one is absent.
need() {
    local name
    for name in "$@"; do
        if ! command -v "$name" > /dev/null; then
            say "missing: $name (scripts/install-tools.sh packages installs it)" >&2
            exit 3
        fi
    done
}

# The program that is linked dynamically; it also writes its manual pages and completions.
build_program() {
    program="$target/$built/whered"
    # Below sudo there is often no cargo: the user has built the program before.
    if ! command -v cargo > /dev/null && [ -x "$program" ]; then
        say "no cargo here: $program as it is"
        return
    fi
    cargo build --package whered --profile "$profile" --locked
}

# build_static MACHINE: the static program of an architecture.
build_static() {
    local triple="$1-unknown-linux-gnu"
    if [ "$1" != "$machine" ]; then
        need "$1-linux-gnu-gcc"
        if ! rustc --print target-libdir --target "$triple" | xargs test -d; then
            rustup target add "$triple"
        fi
        export "CC_${1}_unknown_linux_gnu=$1-linux-gnu-gcc"
        export "CARGO_TARGET_${1^^}_UNKNOWN_LINUX_GNU_LINKER=$1-linux-gnu-gcc"
    fi
    RUSTFLAGS='-C target-feature=+crt-static' \
        cargo build --package whered --profile "$profile" --locked --target "$triple"
    static="$target/$triple/$built/whered"
}

# The folder of the configuration: /etc, but for a prefix of its own.
etc_of() {
    case "$1" in
    /usr | /usr/local) echo /etc/whered ;;
    *) echo "$1/etc/whered" ;;
    esac
}

# lay_out PROGRAM PREFIX FOLDER: all files of an installation below a folder, as they are in PREFIX.
lay_out() {
    local from="$1" prefix="$2" to="$3" strip=strip
    rm -rf "$to"
    install -d "$to/bin" "$to/share/man/man1" "$to/share/bash-completion/completions" \
        "$to/share/zsh/site-functions" "$to/share/fish/vendor_completions.d" \
        "$to/lib/systemd/system" "$to/lib/sysusers.d"
    case "$(LC_ALL=C readelf --file-header "$from")" in
    *AArch64*) [ "$machine" = aarch64 ] || strip=aarch64-linux-gnu-strip ;;
    esac
    need "$strip"
    "$strip" --strip-all --remove-section=.comment -o "$to/bin/whered" "$from"
    chmod 755 "$to/bin/whered"
    "$program" man --output "$to/share/man/man1"
    gzip --best --no-name "$to"/share/man/man1/*
    "$program" completions bash > "$to/share/bash-completion/completions/whered"
    "$program" completions zsh > "$to/share/zsh/site-functions/_whered"
    "$program" completions fish > "$to/share/fish/vendor_completions.d/whered.fish"
    sed -e "s|/usr/bin/whered|$prefix/bin/whered|" -e "s|/etc/whered/|$(etc_of "$prefix")/|" packaging/systemd/whered.service \
        > "$to/lib/systemd/system/whered.service"
    install -m 644 packaging/systemd/whered.sysusers "$to/lib/sysusers.d/whered.conf"
}

# The same bytes from the same sources: names in order, one date, no users.
pack() {
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --create "$@" | compress
}

# A quick look at packages of the profile dev need not be small.
compress() {
    gzip "-$([ -n "$quick" ] && echo 1 || echo 9)" --no-name
}

deb() {
    need cargo-deb dpkg-shlibdeps strip
    build_program
    lay_out "$program" /usr "$out/files"
    rm -f "$out"/*.deb
    cargo deb --package whered --no-build --no-strip --quiet --deb-revision 1 --output "$out/" \
        ${quick:+--fast}
}

tarball() {
    local name="whered-$version-$1-linux"
    lay_out "$static" /usr/local "$out/$name"
    install -d "$out/$name/share/doc/whered"
    install -m 644 packaging/whered.toml LICENSE-APACHE LICENSE-MIT README.md "$out/$name/share/doc/whered/"
    pack --directory "$out" "$name" > "$out/$name.tar.gz"
    rm -rf "${out:?}/$name"
    say "$out/$name.tar.gz"
}

# image MACHINE: from nothing, with the static program, certificates and a user who is not root.
image() {
    local name="whered-$1-image" arch=amd64 id root certificates=/etc/ssl/certs/ca-certificates.crt
    local -a buildah=(buildah --root "$out/buildah" --runroot "$out/buildah-run" --storage-driver vfs)
    need buildah
    if [ ! -f "$certificates" ]; then
        say "missing: $certificates (Debian: ca-certificates)" >&2
        exit 3
    fi
    [ "$1" = x86_64 ] || arch=arm64
    root="$out/image-root"
    lay_out "$static" /usr "$root/usr"
    rm -rf "${root:?}/usr/lib" "${root:?}/usr/share"
    install -d "$root/etc/whered" "$root/etc/ssl/certs" "$root/var/lib"
    install -d -m 1777 "$root/tmp"
    install -m 644 packaging/whered.toml "$root/etc/whered/"
    install -m 644 "$certificates" "$root/etc/ssl/certs/"
    echo 'whered:x:65532:65532:whered server:/var/lib/whered:/usr/bin/whered' > "$root/etc/passwd"
    echo 'whered:x:65532:' > "$root/etc/group"
    id="$("${buildah[@]}" from --format docker --arch "$arch" scratch)"
    "${buildah[@]}" copy --quiet "$id" "$root" / > /dev/null
    # Only what the server writes is the server's.
    install -d "$out/image-data"
    "${buildah[@]}" copy --quiet --chown 65532:65532 --chmod 700 "$id" "$out/image-data" /var/lib/whered > /dev/null
    "${buildah[@]}" config --arch "$arch" --os linux --user 65532:65532 \
        --entrypoint '["/usr/bin/whered"]' --cmd 'serve --config /etc/whered/whered.toml' \
        --volume /var/lib/whered --port 6380 --port 8080 --port 5300/udp --port 5300/tcp \
        --healthcheck 'CMD /usr/bin/whered feeds --json' --healthcheck-interval 10s --healthcheck-timeout 5s \
        --label org.opencontainers.image.title=whered \
        --label "org.opencontainers.image.version=$version" \
        --label 'org.opencontainers.image.licenses=MIT OR Apache-2.0' "$id"
    "${buildah[@]}" commit --quiet --squash --format docker --timestamp "$SOURCE_DATE_EPOCH" \
        "$id" "whered:$version" > /dev/null
    rm -f "$out/image.tar"
    "${buildah[@]}" push --quiet "whered:$version" "docker-archive:$out/image.tar:localhost/whered:$version"
    compress < "$out/image.tar" > "$out/whered-$version-$1-image.tar.gz"
    "${buildah[@]}" rm "$id" > /dev/null
    rm -rf "$root" "$out/image-data" "$out/image.tar" "$out/buildah" "$out/buildah-run"
    say "$out/whered-$version-$1-image.tar.gz"
}

install_program() {
    local prefix="$1" destination="$2" files="$out/files-of-install" etc
    if [[ "$prefix" != /* ]]; then
        echo "packages: PREFIX is '$prefix'; allowed: an absolute path" >&2
        exit 2
    fi
    build_program
    lay_out "$program" "$prefix" "$files"
    etc="$destination$(etc_of "$prefix")"
    install -d "$destination$prefix" "$etc"
    cp -R "$files/." "$destination$prefix/"
    if [ ! -e "$etc/whered.toml" ]; then
        install -m 644 packaging/whered.toml "$etc/"
    fi
    rm -rf "$files"
    say "installed in $destination$prefix; the configuration is $etc/whered.toml"
}

mkdir -p "$out"
case "$what" in
deb) deb ;;
tarball | image)
    build_program
    build_static "$machine"
    "$what" "$machine"
    ;;
arm64)
    build_program
    build_static aarch64
    tarball aarch64
    image aarch64
    ;;
all)
    deb
    build_static "$machine"
    tarball "$machine"
    image "$machine"
    if [ "$machine" != aarch64 ]; then
        build_static aarch64
        tarball aarch64
        image aarch64
    fi
    (cd "$out" && sha256sum -- *.deb *.tar.gz > SHA256SUMS)
    ls -l "$out"
    ;;
install) install_program "${3:?the folder of the installation is missing}" "${4:-}" ;;
check)
    # What lacks a program is passed over with the reason, unless this machine promises to have it.
    for kind in deb tarball image; do
        code=0
        scripts/packages.sh "$kind" "$profile" || code=$?
        if [ "$code" != 0 ] && { [ "$code" != 3 ] || [[ ",${WHERED_REQUIRE:-}," == *,peers,* ]]; }; then
            exit "$code"
        fi
    done
    ;;
*)
    echo 'usage: scripts/packages.sh all | check | deb | tarball | image | arm64 [PROFILE], or install PROFILE PREFIX [DESTDIR]' >&2
    exit 2
    ;;
esac
