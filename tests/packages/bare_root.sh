#!/usr/bin/env bash
# bare_root.sh ROOT: a root directory with nothing but the static program, in namespaces of its own
# (unshare). Names must be found in /etc/hosts and by DNS, and TLS must find its authorities.
#
# The DNS server is another process of the program, since it answers names.
set -euo pipefail
root="$1"
ip link set lo up
here="$(mktemp -d)"
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT

cat > "$here/dns.toml" << 'END'
[dns]
listen = ["127.0.0.1:53"]
[[zone]]
name = "example.com"
path = "example.com.zone"
END
cat > "$here/example.com.zone" << 'END'
$TTL 1h
@    SOA ns1 hostmaster 1 1h 10m 1w 5m
@    NS  ns1
ns1  A   127.0.0.1
door A   127.0.0.1
tls  A   127.0.0.1
END
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test \
    -addext 'basicConstraints=critical,CA:TRUE' -keyout "$here/ca.key" -out "$here/ca.pem" 2> /dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=tls.example.com \
    -keyout "$here/tls.key" -out "$here/tls.csr" 2> /dev/null
printf 'subjectAltName=DNS:tls.example.com\n' > "$here/names"
openssl x509 -req -in "$here/tls.csr" -CA "$here/ca.pem" -CAkey "$here/ca.key" -CAcreateserial \
    -days 2 -extfile "$here/names" -out "$here/tls.pem" 2> /dev/null
openssl s_server -accept 8443 -cert "$here/tls.pem" -key "$here/tls.key" -www > /dev/null 2>&1 &

# A runtime makes the root so; a folder of tests is closed to others.
chmod 755 "$root"
mkdir -p "$root/etc/ssl/certs" "$root/tmp" "$root/proc"
mount -t proc proc "$root/proc"
cat "$here/ca.pem" >> "$root/etc/ssl/certs/ca-certificates.crt"
echo 'nameserver 127.0.0.1' > "$root/etc/resolv.conf"
printf '127.0.0.1 localhost\n127.0.0.1 filed.test\n' > "$root/etc/hosts"
# Services that a static program must not load.
echo 'hosts: mymachines resolve [!UNAVAIL=return] files myhostname dns' > "$root/etc/nsswitch.conf"
cat > "$root/tmp/serve.toml" << 'END'
[resp]
[http]
hosts = ["filed.test", "door.example.com"]
[dns]
[[zone]]
name = "example.com"
path = "example.com.zone"
[[pool]]
name = "www"
owners = ["www.example.com"]
[[pool.site]]
name = "fra"
at = { longitude = 8.68, latitude = 50.11 }
addresses = ["192.0.2.10"]
check = [{ url = "https://tls.example.com:8443/", interval_seconds = 1 }]
END
cp "$here/example.com.zone" "$root/tmp/"
inside() {
    chroot --userspec 65532:65532 "$root" /usr/bin/whered "$@"
}

# wait_for FILE: until a server says that it is ready.
wait_for() {
    local turn
    for turn in $(seq 600); do
        if grep -q '^ready' "$1"; then return; fi
        sleep 0.1
    done
    echo "after $turn turns no server is ready:"
    cat "$1"
    exit 1
}

"$root/usr/bin/whered" serve --config "$here/dns.toml" > "$here/dns.log" 2>&1 &
wait_for "$here/dns.log"
inside check /tmp/serve.toml
began="$(date +%s%N)"
inside serve --config /tmp/serve.toml > "$here/serve.log" 2>&1 &
wait_for "$here/serve.log"
curl -sS --fail http://127.0.0.1:8080/healthz
echo
echo "first answer after $((($(date +%s%N) - began) / 1000000)) ms"
for host in localhost filed.test door.example.com; do
    inside feeds --json --server "http://$host:8080"
done
if inside feeds --json --server http://absent.example.com:8080; then
    echo 'a name that does not exist was found'
    exit 1
fi
for turn in $(seq 100); do
    state="$(curl -sS http://127.0.0.1:8080/metrics | sed -n 's/^whered_site_checks_total{.*result="good".*} //p')"
    if [ "${state:-0}" -gt 0 ]; then
        echo "names are found, and TLS finds its authorities (turn $turn)"
        exit 0
    fi
    sleep 0.1
done
echo 'the check by HTTPS has no good result:'
cat "$here/serve.log"
exit 1
