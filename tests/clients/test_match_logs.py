"""`whered match` on 1,000 lines of every log format: the verdict of each record by its own source
address, and what a log does not say is never assumed."""

import gzip
import ipaddress
import json
import subprocess

import pytest

from conftest import BINARY
from log_samples import FORMATS, combined, iptables, sample, vpc

NETWORKS = ["8.8.8.0/24", "2001:4860::/32"]


def match(tmp_path, rules, text, *arguments):
    (tmp_path / "a.rules").write_text(rules)
    command = [BINARY, "match", "--rules", tmp_path / "a.rules", "--format", "json", *map(str, arguments)]
    done = subprocess.run(command, input=text, capture_output=True, timeout=60)
    return done, [json.loads(line) for line in done.stdout.splitlines()]


def is_listed(address):
    address = ipaddress.ip_address(address)
    return any(address in ipaddress.ip_network(network) for network in NETWORKS)


SOURCES = "chain input policy accept {\n  src {" + " ".join(NETWORKS) + "} drop\n}\n"


@pytest.mark.parametrize("make", FORMATS, ids=lambda make: make.__name__)
def test_every_record_of_a_log_is_matched_by_its_source(tmp_path, make):
    header, records = sample(make)
    done, found = match(tmp_path, SOURCES, (header + "".join(record[0] + "\n" for record in records)).encode())
    records = [record for record in records if record[1] is not None]
    assert done.returncode == 0, done.stderr
    assert [line["source"] for line in found] == [record[1] for record in records]
    assert [line["verdict"] for line in found] == ["drop" if is_listed(record[1]) else "accept" for record in records]


@pytest.mark.parametrize("make", [combined, FORMATS[3], FORMATS[-1]], ids=lambda make: make.__name__)
def test_what_a_log_does_not_say_makes_a_verdict_maybe(tmp_path, make):
    rules = "chain input policy accept {\n  src 10.0.0.0/8 drop\n  proto tcp dst 192.0.2.0/24 drop\n}\n"
    _, records = sample(make, 100)
    done, found = match(tmp_path, rules, "".join(record[0] + "\n" for record in records).encode())
    assert done.returncode == 0, done.stderr
    for line, (_, address, _) in zip(found, records, strict=True):
        is_open = not address.startswith("10.") and ":" not in address
        assert line["verdict"] == ("maybe" if is_open else "drop" if address.startswith("10.") else "accept"), line
        assert line["destination"] is None and line["protocol"] is None
    line = '1.1.1.1 - - [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 17\n'
    command = [BINARY, "match", "--rules", tmp_path / "a.rules"]
    text = subprocess.run(command, input=line.encode(), capture_output=True, timeout=60).stdout.decode()
    assert text == (
        f"1.1.1.1 - -: maybe: drop by {tmp_path}/a.rules:3 (input 2), depends on the protocol and the destination at "
        f"{tmp_path}/a.rules:3; otherwise accept by the policy of input\n"
    )


def test_flow_logs_have_destination_ports_protocol_and_bytes(tmp_path):
    rules = "chain input policy accept {\n  proto tcp dst 10.0.0.2 dport 22 drop\n  state new reject\n}\n"
    header = "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action log-status\n"
    for before in ["", header]:
        _, records = sample(vpc, 300)
        done, found = match(tmp_path, rules, (before + "".join(record[0] + "\n" for record in records)).encode())
        flows = [record for record in records if record[1] is not None]
        assert done.returncode == 0 and len(found) == len(flows), done.stderr
        assert f"{len(records) - len(flows)} records without an address".encode() in done.stderr
        for line, (text, address, _) in zip(found, flows):
            assert line["verdict"] == ("drop" if "." in address else "maybe"), text
            assert line["destination_port"] == 22 and line["protocol"] == 6


def test_flow_logs_of_two_families_in_one_record_are_wrong_lines(tmp_path):
    line = "2 1 eni-1 2001:db8::1 10.0.0.2 5 22 6 20 4249 1418530010 1418530070 ACCEPT OK\n"
    done, found = match(tmp_path, SOURCES, line.encode(), "--input-format", "vpc")
    assert done.returncode == 2 and found == []
    assert b"standard input:1: found '10.0.0.2': allowed is an address of the source's family" in done.stderr


def test_packets_that_the_kernel_logs_are_known_but_for_their_state(tmp_path):
    rules = """chain input policy drop {
        in eth0 proto tcp dport 22 flags {syn} of {syn ack} accept
        proto tcp reject
        proto udp dport 53 with ttl 64 accept
        icmp 3/1 accept
        icmpv6 echo-request with ttl 64 accept
        with source-mac 52:54:00:65:43:21 drop
        proto gre state new accept
    }
    """
    _, records = sample(iptables, 1000)
    text = "".join(record[0] + "\n" for record in records) + "Nov 20 12:00:00 gate kernel: eth0: link up\n"
    done, found = match(tmp_path, rules, text.encode())
    assert done.returncode == 0 and b"1 messages about no packet" in done.stderr, done.stderr
    for line, (record, address, parts) in zip(found, records, strict=True):
        kind = parts["PROTO"]
        expected = "reject" if kind == "TCP" and "ACK PSH" in record else "accept"
        assert (line["source"], line["verdict"]) == (address, expected), record
    gre = "IN=eth0 OUT= SRC=192.0.2.1 DST=192.0.2.2 LEN=60 TOS=0x00 PREC=0x00 TTL=64 ID=1 PROTO=47\n"
    _, found = match(tmp_path, rules, gre.encode())
    assert found[0]["verdict"] == "maybe" and found[0]["protocol"] == 47
    _, found = match(tmp_path, rules, gre.encode(), "--state", "new")
    # Without MAC= nobody knows the sender's; whatever it is, the packet is dropped or accepted.
    assert found[0]["verdict"] == "maybe"
    _, found = match(tmp_path, rules, gre.encode(), "--state", "new", "--with", "source-mac=00:00:00:00:00:01")
    assert found[0]["verdict"] == "accept"


def test_objects_have_the_members_beside_the_source(tmp_path):
    rules = "chain input policy accept {\n  proto udp dst 192.0.2.53 dport 53 drop\n}\n"
    for record in [
        {"source": {"ip": "8.8.8.8", "port": 5}, "destination": {"ip": "192.0.2.53", "port": 53}, "network": {"transport": "udp"}},
        {"src_ip": "8.8.8.8", "src_port": 5, "dest_ip": "192.0.2.53", "dest_port": 53, "proto": "UDP"},
        {"jsonPayload": {"connection": {"src_ip": "8.8.8.8", "dest_ip": "192.0.2.53", "src_port": 5, "dest_port": 53, "protocol": 17}}},
    ]:
        for text in [json.dumps(record) + "\n", json.dumps([record]), json.dumps({"Records": [record]}, indent=1)]:
            done, found = match(tmp_path, rules, text.encode())
            assert done.returncode == 0 and [line["verdict"] for line in found] == ["drop"], (record, done.stderr)
    _, found = match(tmp_path, rules, b'{"ip":"8.8.8.8"}\n')
    assert found[0]["verdict"] == "maybe"


def test_a_pattern_an_encoding_a_packing_and_a_column_are_as_of_enrich(tmp_path):
    line = "[x] 8.8.8.8 192.0.2.1:443\n"
    pattern = ["--pattern", "[$time_local] $remote_addr $server_addr:$server_port"]
    _, found = match(tmp_path, SOURCES, line.encode(), *pattern)
    assert (found[0]["source"], found[0]["destination"], found[0]["destination_port"]) == ("8.8.8.8", "192.0.2.1", 443)
    _, found = match(tmp_path, SOURCES, gzip.compress(line.encode("utf-16")), *pattern)
    assert found[0]["verdict"] == "drop"
    _, found = match(tmp_path, SOURCES, b"to 8.8.8.8\n", "--anywhere")
    assert found[0]["verdict"] == "drop"
    _, found = match(tmp_path, SOURCES, b"a;8.8.8.8\nb;x\n", "--input-format", "csv", "--column", "2")
    assert [line["source"] for line in found] == ["8.8.8.8"]
    done, _ = match(tmp_path, SOURCES, b"a\n", "--input-format", "parquet")
    assert done.returncode == 2 and b"allowed: " in done.stderr


def test_lines_of_words_and_tables_of_both_addresses_are_read_as_before(tmp_path):
    done, found = match(tmp_path, SOURCES, b"8.8.8.8 192.0.2.1 tcp 5 22\n8.8.8.8 x tcp\n")
    assert done.returncode == 2 and found[0]["destination"] == "192.0.2.1"
    assert b"standard input:2: found 'x': allowed is " in done.stderr
    done, _ = match(tmp_path, SOURCES, b"src,port\n8.8.8.8,5\n")
    assert done.returncode == 2 and b"found no column destination" in done.stderr
