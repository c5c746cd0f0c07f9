"""dig and dnspython against the demonstration's zone and pool."""

import socket
import struct
import subprocess

import dns.edns
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import pytest

from conftest import program

# (a client's subnet in the demonstration's database, the nearest site's addresses, the scope)
CLIENTS = [
    ("192.0.2.0/26", "192.0.2.10", "2001:db8:0:1::10"),
    ("192.0.2.64/26", "192.0.2.74", "2001:db8:0:2::74"),
    ("192.0.2.128/26", "192.0.2.138", "2001:db8:0:3::138"),
    ("192.0.2.192/26", "192.0.2.202", "2001:db8:0:4::202"),
]


def dig(server, *arguments):
    command = [program("dig", "bind9-dnsutils"), "@127.0.0.1", "-p", str(server.dns), "+tries=1", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ask(server, name, kind="A", subnet=None, over=dns.query.udp, **options):
    if subnet is not None:
        address, length = subnet.split("/")
        options["options"] = [dns.edns.ECSOption(address, int(length))]
        options["use_edns"] = 0
    query = dns.message.make_query(name, kind, **options)
    reply = over(query, "127.0.0.1", port=server.dns, timeout=5)
    assert reply.id == query.id
    return reply


def texts(section):
    return sorted(item.to_text() for rrset in section for item in rrset)


@pytest.mark.parametrize("subnet, ipv4, ipv6", CLIENTS)
def test_each_client_is_sent_to_its_nearest_site(demo, subnet, ipv4, ipv6):
    reply = ask(demo, "www.example.com", "A", subnet)
    assert texts(reply.answer) == [ipv4]
    scope = [option for option in reply.options if isinstance(option, dns.edns.ECSOption)]
    assert scope[0].to_text().startswith(f"ECS {subnet} scope/")
    assert scope[0].scopelen == 26
    assert texts(ask(demo, "www.example.com", "AAAA", subnet).answer) == [ipv6]


def test_dig_shows_the_subnet_and_its_scope(demo):
    out = dig(demo, "www.example.com", "A", "+subnet=192.0.2.128/26")
    assert "192.0.2.138" in out
    assert "; CLIENT-SUBNET: 192.0.2.128/26/26" in out
    assert "flags: qr aa rd;" in out


def test_an_answer_that_does_not_depend_on_the_client_has_scope_zero(demo):
    reply = ask(demo, "mail.example.com", "A", "192.0.2.0/26")
    assert texts(reply.answer) == ["192.0.2.25"]
    assert reply.options[0].scopelen == 0


@pytest.mark.parametrize("over", [dns.query.udp, dns.query.tcp], ids=["udp", "tcp"])
def test_ordinary_records_over_both_transports(demo, over):
    assert texts(ask(demo, "example.com", "NS", over=over).answer) == ["ns1.example.com.", "ns2.example.com."]
    assert texts(ask(demo, "example.com", "MX", over=over).answer) == ["10 mail.example.com."]
    assert texts(ask(demo, "example.com", "TXT", over=over).answer) == ['"v=spf1 mx -all"']
    assert texts(ask(demo, "anything.apps.example.com", over=over).answer) == ["192.0.2.90"]
    soa = ask(demo, "example.com", "SOA", over=over).answer[0][0]
    assert soa.serial == 2026112001
    chain = ask(demo, "blog.example.com", "A", over=over)
    assert chain.answer[0].rdtype == dns.rdatatype.CNAME and len(chain.answer) == 2


def test_no_name_and_no_data_carry_the_soa(demo):
    for name, rcode in [("nothing.example.com", dns.rcode.NXDOMAIN), ("mail.example.com", dns.rcode.NOERROR)]:
        reply = ask(demo, name, "MX")
        assert reply.rcode() == rcode and not reply.answer
        assert reply.authority[0].rdtype == dns.rdatatype.SOA
        assert reply.authority[0].ttl == 60


def test_names_outside_are_refused(demo):
    assert ask(demo, "example.org").rcode() == dns.rcode.REFUSED


def test_garbage_is_survived(demo):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for size in range(0, 600, 7):
            sender.sendto(bytes((size * 31 + n) % 256 for n in range(size)), ("127.0.0.1", demo.dns))
    with socket.create_connection(("127.0.0.1", demo.dns), timeout=5) as half:
        half.sendall(struct.pack("!H", 500) + b"\x00" * 20)
    assert texts(ask(demo, "mail.example.com").answer) == ["192.0.2.25"]


def test_pipelined_queries_over_one_connection_are_all_answered(demo):
    queries = [dns.message.make_query(f"n{n}.apps.example.com", "A") for n in range(50)]
    with socket.create_connection(("127.0.0.1", demo.dns), timeout=5) as connection:
        wires = [query.to_wire() for query in queries]
        connection.sendall(b"".join(struct.pack("!H", len(wire)) + wire for wire in wires))
        stream = connection.makefile("rb")
        replies = []
        for _ in queries:
            (length,) = struct.unpack("!H", stream.read(2))
            replies.append(dns.message.from_wire(stream.read(length)))
    assert [reply.id for reply in replies] == [query.id for query in queries]
    assert all(texts(reply.answer) == ["192.0.2.90"] for reply in replies)
