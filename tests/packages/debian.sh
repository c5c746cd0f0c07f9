#!/usr/bin/env bash
# debian.sh PACKAGE: installs the Debian package, runs the server as its unit does, asks it, removes
# and purges the package, and looks what is left.
#
# To be started in mount, network and process namespaces of its own (unshare). The machine's own
# files are below an overlay: whatever the package writes is thrown away.
set -euo pipefail
package="$1"
work="$(mktemp -d)"
mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
root="$work/root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
ip link set lo up
cp "$package" "$root/tmp/whered.deb"

say() {
    printf '%s\n' "$*"
}

inside() {
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"
}

# The value of a key in the installed unit.
unit() {
    sed -n "s/^$1=//p" "$root/lib/systemd/system/whered.service"
}

began="$(date +%s%N)"
inside dpkg --install /tmp/whered.deb
inside whered --version
for file in /etc/whered/whered.toml /usr/share/man/man1/whered-serve.1.gz /usr/share/bash-completion/completions/whered; do
    test -s "$root$file"
done
[ "$(inside stat -c %U:%G:%a /etc/whered/whered.toml)" = root:whered:640 ]

# What systemd does for the unit: its directory, its user, its capabilities.
user="$(unit User)"
[ "$user" = whered ]
inside install -d -m 700 -o "$user" -g "$(unit Group)" "/var/lib/$(unit StateDirectory)"
capabilities="$(unit AmbientCapabilities | tr 'A-Z ' 'a-z,' | sed 's/cap_/+/g')"
as_unit=(setpriv --reuid "$user" --regid "$(unit Group)" --init-groups
    --inh-caps "$capabilities" --ambient-caps "$capabilities" --no-new-privs)
read -r -a serve <<< "$(unit ExecStart)"
inside "${as_unit[@]}" whered check /etc/whered/whered.toml
mkfifo "$work/lines"
inside "${as_unit[@]}" "${serve[@]}" > "$work/lines" 2> "$work/log" &
exec 3< "$work/lines"
while read -r -t 60 line <&3; do
    say "$line"
    [ "$line" != ready ] || break
done
[ "$line" = ready ] || { cat "$work/log"; exit 1; }
server="$(pgrep -x whered)"
[ "$(inside stat -c %U "/proc/$server")" = "$user" ]

inside redis-cli -p 6380 GEOADD vans 8.68 50.11 van-1
answer="$(inside redis-cli -p 6380 GEOSEARCH vans FROMLONLAT 8.7 50.1 BYRADIUS 10 km ASC WITHDIST)"
say "$answer"
[ "$answer" = $'van-1\n1.8089' ]
say "first answer after $((($(date +%s%N) - began) / 1000000)) ms"
inside systemd-analyze verify --man=no whered.service
inside curl -sS --fail http://127.0.0.1:8080/healthz
say
kill -HUP "$server"
kill -TERM "$server"
wait %1

inside dpkg --remove whered
test -e "$root/etc/whered/whered.toml"
test -d "$root/var/lib/whered"
inside dpkg --purge whered
if inside getent passwd whered; then
    exit 1
fi
# What is new in the overlay; notes of dpkg and of what it starts are their own.
cd "$work/upper"
left="$(find . -not -type d -not -type c \
    -not -path './var/lib/dpkg/*' -not -path './var/log/*' -not -path './var/cache/*' \
    -not -path './root*' -not -path './etc/.pwd.lock' \
    -not -regex '\./etc/\(passwd\|group\|shadow\|gshadow\|subuid\|subgid\)-?')"
left+="$(find . -name '*whered*' -not -type c -not -path './var/lib/dpkg/*')"
if [ -n "$left" ]; then
    say "left behind: $left"
    exit 1
fi
say 'nothing is left'
