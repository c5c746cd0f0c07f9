"""UPDATE (RFC 2136) by dnspython and nsupdate, with the messages that certbot, lego and others send."""

import subprocess

import dns.message
import dns.query
import dns.rcode
import dns.tsig
import dns.tsigkeyring
import dns.update
import dns.xfr
import dns.zone
import pytest

from conftest import BINARY, eventually, program

HOSTS = "YW5vdGhlciBzZWNyZXQgb2YgYXQgbGVhc3QgMTYgYnl0ZXM="
CERTBOT = "bWFrZSB5b3VyIG93biBzZWNyZXQgaGVyZSwgcGxlYXNl"
OWNER = "YSBzZWNyZXQgb2YgdGhlIHpvbmUncyBvd25lciwgbG9uZw=="
TOKEN = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0"
CONFIG = f"""
data_dir = "data"

[dns]
listen = ["127.0.0.1:0"]

[resp]
listen = ["127.0.0.1:0"]

[[tsig_key]]
name = "certbot"
secret = "{CERTBOT}"

[[tsig_key]]
name = "hosts"
algorithm = "hmac-sha512"
secret = "{HOSTS}"

[[tsig_key]]
name = "owner"
secret = "{OWNER}"

[[zone]]
name = "child.example.com"
path = "child.zone"

[[zone]]
name = "example.com"
path = "example.com.zone"
allow_transfer = ["key:hosts"]

[[zone.update]]
key = "certbot"
acme = true

[[zone.update]]
key = "hosts"
names = ["*.dyn.example.com"]
types = ["A", "AAAA", "TXT"]

[[zone.update]]
key = "hosts"
names = ["any.example.com"]

[[zone.update]]
key = "owner"
"""
ZONE = """$TTL 1h
@    SOA ns hostmaster 1 1d 2h 4w 5m
@    NS  ns
ns   A   192.0.2.1
any  A   192.0.2.2
_acme-challenge.old  CNAME  elsewhere.example.net.
"""


@pytest.fixture
def server(serve, tmp_path):
    (tmp_path / "whered.toml").write_text(CONFIG)
    (tmp_path / "whered.toml").chmod(0o600)
    (tmp_path / "example.com.zone").write_text(ZONE)
    (tmp_path / "child.zone").write_text(ZONE)
    return serve("--config", "whered.toml")


def update(key, secret, algorithm=dns.tsig.HMAC_SHA512):
    ring = dns.tsigkeyring.from_text({key: secret})
    return dns.update.UpdateMessage("example.com", keyring=ring, keyname=key, keyalgorithm=algorithm)


def hosts():
    return update("hosts", HOSTS)


def send(server, message, over=dns.query.tcp):
    return over(message, "127.0.0.1", port=server.dns, timeout=5).rcode()


def answers(server, name, kind="A"):
    reply = dns.query.udp(dns.message.make_query(name, kind), "127.0.0.1", port=server.dns, timeout=5)
    return sorted(item.to_text() for rrset in reply.answer for item in rrset)


def serial(server):
    return int(answers(server, "example.com", "SOA")[0].split()[2])


@pytest.mark.parametrize("over", [dns.query.udp, dns.query.tcp])
def test_an_update_is_served_at_once_and_its_answer_is_signed(server, over):
    message = hosts()
    message.add("laptop.dyn", 60, "A", "192.0.2.77")
    # dnspython refuses an answer whose signature does not hold.
    assert send(server, message, over) == dns.rcode.NOERROR
    assert answers(server, "laptop.dyn.example.com") == ["192.0.2.77"]
    assert serial(server) == 2


def test_prerequisites_decide_as_rfc_2136_says(server):
    message = hosts()
    message.absent("laptop.dyn")
    message.add("laptop.dyn", 60, "A", "192.0.2.77")
    assert send(server, message) == dns.rcode.NOERROR
    assert send(server, message) == dns.rcode.YXDOMAIN
    for prerequisite, rcode in [
        (lambda message: message.present("nobody.dyn"), dns.rcode.NXDOMAIN),
        (lambda message: message.present("laptop.dyn", "AAAA"), dns.rcode.NXRRSET),
        (lambda message: message.present("laptop.dyn", "A", "192.0.2.78"), dns.rcode.NXRRSET),
        (lambda message: message.absent("laptop.dyn", "A"), dns.rcode.YXRRSET),
    ]:
        message = hosts()
        prerequisite(message)
        message.delete("laptop.dyn", "A")
        assert send(server, message) == rcode
    assert answers(server, "laptop.dyn.example.com") == ["192.0.2.77"]
    message = hosts()
    message.present("laptop.dyn", "A", "192.0.2.77")
    message.replace("laptop.dyn", 30, "A", "192.0.2.78")
    assert send(server, message) == dns.rcode.NOERROR
    assert answers(server, "laptop.dyn.example.com") == ["192.0.2.78"]


def test_what_no_policy_allows_is_refused(server):
    for change in [
        lambda message: message.add("www", 60, "A", "192.0.2.77"),
        lambda message: message.add("a.dyn", 60, "MX", "10 a.dyn"),
        lambda message: message.delete("a.dyn"),
        lambda message: message.add("@", 60, "NS", "ns.elsewhere.net."),
    ]:
        message = hosts()
        change(message)
        assert send(server, message) == dns.rcode.REFUSED
    # Without a key; with one for challenges alone; with all of a name.
    message = dns.update.UpdateMessage("example.com")
    message.add("a.dyn", 60, "A", "192.0.2.77")
    assert send(server, message) == dns.rcode.REFUSED
    message = update("certbot", CERTBOT, dns.tsig.HMAC_SHA256)
    message.add("a.dyn", 60, "A", "192.0.2.77")
    assert send(server, message) == dns.rcode.REFUSED
    message = hosts()
    message.delete("any")
    assert send(server, message) == dns.rcode.NOERROR
    assert answers(server, "any.example.com") == []
    assert serial(server) == 2


def test_a_key_for_challenges_sets_tokens_alone(server):
    for change in [
        lambda message: message.add("_acme-challenge.www", 60, "TXT", "no token"),
        lambda message: message.add("_acme-challenge.www", 60, "A", "192.0.2.9"),
        lambda message: message.add("www", 60, "TXT", TOKEN),
    ]:
        message = update("certbot", CERTBOT, dns.tsig.HMAC_SHA256)
        change(message)
        assert send(server, message) == dns.rcode.REFUSED
    # A token and something else together.
    message = update("certbot", CERTBOT, dns.tsig.HMAC_SHA256)
    message.add("_acme-challenge.www", 60, "TXT", TOKEN)
    message.delete("any", "A")
    assert send(server, message) == dns.rcode.REFUSED
    # Names of the zone below, which says itself who may do that.
    message = update("certbot", CERTBOT, dns.tsig.HMAC_SHA256)
    message.add("_acme-challenge.child", 60, "TXT", TOKEN)
    assert send(server, message) == dns.rcode.REFUSED
    assert answers(server, "_acme-challenge.child.example.com", "TXT") == []


def test_records_at_a_challenge_name_go_by_a_key_for_the_zone_alone(server):
    old = "_acme-challenge.old.example.com"
    message = update("certbot", CERTBOT, dns.tsig.HMAC_SHA256)
    message.delete("_acme-challenge.old")
    assert send(server, message) == dns.rcode.NOERROR
    assert answers(server, old, "CNAME") == ["elsewhere.example.net."]
    message = update("owner", OWNER, dns.tsig.HMAC_SHA256)
    message.delete("_acme-challenge.old")
    assert send(server, message) == dns.rcode.NOERROR
    assert answers(server, old, "CNAME") == []
    assert serial(server) == 2


def test_what_the_rules_of_rfc_2136_ignore_keeps_nothing_else_away(server):
    message = update("owner", OWNER, dns.tsig.HMAC_SHA256)
    message.delete("@", "SOA")
    message.add("www", 60, "A", "192.0.2.77")
    assert send(server, message) == dns.rcode.NOERROR
    assert answers(server, "www.example.com") == ["192.0.2.77"]
    assert serial(server) == 2


def test_a_wrong_secret_or_an_unknown_key_changes_nothing(server):
    for key, secret in [("hosts", CERTBOT), ("nobody", HOSTS)]:
        message = update(key, secret)
        message.add("a.dyn", 60, "A", "192.0.2.77")
        with pytest.raises(dns.exception.DNSException):
            send(server, message)
    assert answers(server, "a.dyn.example.com") == []


def test_updates_outlive_kill_9_and_reloads_until_they_are_discarded(server, tmp_path):
    for number in range(20):
        message = hosts()
        message.add(f"h{number}.dyn", 60, "A", f"192.0.2.{number}")
        assert send(server, message) == dns.rcode.NOERROR
    server.kill()
    server.start()
    assert answers(server, "h19.dyn.example.com") == ["192.0.2.19"]
    assert serial(server) == 21
    (tmp_path / "example.com.zone").write_text(ZONE.replace("hostmaster 1", "hostmaster 2") + "new A 192.0.2.3\n")

    def is_reloaded():
        assert answers(server, "new.example.com") == ["192.0.2.3"]

    eventually(is_reloaded)
    assert answers(server, "h7.dyn.example.com") == ["192.0.2.7"]
    assert serial(server) == 22
    command = [str(BINARY), "zone", "discard", "example.com", "--server", f"redis://127.0.0.1:{server.resp}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert "20 records added, 0 removed" in done.stdout, done.stdout + done.stderr
    assert answers(server, "h7.dyn.example.com") == []
    assert serial(server) == 23


def test_a_zone_is_listed_by_axfr_and_changed_as_external_dns_does(server):
    ring = dns.tsigkeyring.from_text({"hosts": HOSTS})

    def listed(serial=None):
        zone = dns.zone.Zone("example.com")
        query, _ = dns.xfr.make_query(zone, serial=serial, keyring=ring, keyname="hosts", keyalgorithm=dns.tsig.HMAC_SHA512)
        dns.query.inbound_xfr("127.0.0.1", zone, query, port=server.dns, timeout=5, lifetime=20)
        return {f"{name} {item}" for name, _, item in zone.iterate_rdatas()}

    before = listed()
    message = hosts()
    message.add("app.dyn", 300, "A", "192.0.2.9")
    message.add("app.dyn", 300, "TXT", '"heritage=external-dns,external-dns/owner=me"')
    assert send(server, message) == dns.rcode.NOERROR
    added = {line for line in listed() - before if not line.startswith("@")}
    assert added == {"app.dyn 192.0.2.9", 'app.dyn "heritage=external-dns,external-dns/owner=me"'}
    with pytest.raises(dns.exception.DNSException):
        zone = dns.zone.Zone("example.com")
        dns.query.inbound_xfr("127.0.0.1", zone, port=server.dns, timeout=5, lifetime=5)


def test_nsupdate_sets_and_removes_a_challenge_as_acme_sh_does(server):
    name = "_acme-challenge.www.example.com"

    def nsupdate(*lines):
        text = "\n".join([f"server 127.0.0.1 {server.dns}", *lines, "send", ""])
        command = [program("nsupdate", "bind9-dnsutils"), "-y", f"hmac-sha256:certbot:{CERTBOT}"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=20)
        assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr

    nsupdate(f'update add {name}. 60 in txt "{TOKEN}"')
    assert answers(server, name, "TXT") == [f'"{TOKEN}"']
    # lego removes what is left from another time in the same message.
    other = TOKEN.replace("L", "M")
    nsupdate(f"update delete {name}. TXT", f'update add {name}. 120 in txt "{other}"')
    assert answers(server, name, "TXT") == [f'"{other}"']
    nsupdate(f'update delete {name}. 60 txt "{other}"')
    assert answers(server, name, "TXT") == []
    assert serial(server) == 1, "tokens are no part of the zone"
