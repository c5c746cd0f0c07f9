"""Rules: against a naive evaluator over columns of packets, formats, bad input."""

from __future__ import annotations

import ipaddress
import random
import re

import pytest

import whered

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

EDGE = """\
chain input policy drop {
    state {established related} accept
    src 10.0.0.0/8 proto tcp dport {22 443} accept
    src 2001:db8::/32 proto udp dport 1000-2000 accept
    proto icmp accept
    src {192.0.2.0/24 198.51.100.7} not dst 10.0.0.0/8 reject
    proto tcp sport 0-1023 log "low"
    in eth+ accept
}
"""


class Naive:
    """An ordered list of rules as Python functions of a packet: the first that holds decides."""

    def __init__(self, rules, policy):
        self.rules, self.policy = rules, policy

    def match(self, packet):
        for line, verdict, holds in self.rules:
            if holds(packet):
                return verdict, line
        return self.policy, None


def within(address, *networks):
    address = ipaddress.ip_address(address)
    networks = map(ipaddress.ip_network, networks)
    return any(address.version == network.version and address in network for network in networks)


NAIVE = Naive(
    [
        (2, "accept", lambda p: p["state"] in ("established", "related")),
        (
            3,
            "accept",
            lambda p: within(p["source"], "10.0.0.0/8")
            and p["protocol"] == "tcp"
            and p["destination_port"] in (22, 443),
        ),
        (
            4,
            "accept",
            lambda p: within(p["source"], "2001:db8::/32")
            and p["protocol"] == "udp"
            and 1000 <= p["destination_port"] <= 2000,
        ),
        (5, "accept", lambda p: p["protocol"] == "icmp"),
        (
            6,
            "reject",
            lambda p: within(p["source"], "192.0.2.0/24", "198.51.100.7/32")
            and not within(p["destination"], "10.0.0.0/8"),
        ),
        (8, "accept", lambda p: p["input"].startswith("eth")),
    ],
    "drop",
)


def random_packets(count, seed):
    chance = random.Random(seed)
    v4 = ["10.1.2.3", "192.0.2.9", "198.51.100.7", "198.51.100.8", "11.0.0.1"]
    v6 = ["2001:db8::1", "2001:db9::1", "::1"]
    packets = []
    for _ in range(count):
        family = chance.choice([v4, v4, v6])
        packets.append(
            {
                "source": chance.choice(family),
                "destination": chance.choice(family),
                "protocol": chance.choice(["tcp", "tcp", "udp", "icmp", "gre"]),
                "source_port": chance.choice([0, 22, 1023, 1024, 65535]),
                "destination_port": chance.choice([22, 443, 444, 999, 1000, 2000, 2001]),
                "state": chance.choice(["new", "new", "established", "related", "invalid"]),
                "input": chance.choice(["eth0", "eth1", "lo", ""]),
            }
        )
    return packets


@pytest.fixture(scope="module")
def rules():
    return whered.Rules.parse(EDGE, name="edge.rules")


def columns(packets):
    return {name: [packet[name] for packet in packets] for name in packets[0]}


def as_arrow(packets):
    return {name: pa.array(values) for name, values in columns(packets).items()}


def as_chunks(packets):
    arrays = as_arrow(packets)
    return {
        name: pa.chunked_array([array[:at], array[at:at], array[at:]])
        for at, (name, array) in enumerate(arrays.items(), 3)
    }


def as_slices(packets):
    return {name: array[5:] for name, array in as_arrow(packets[:5] + packets).items()}


def as_polars(packets):
    frame = pl.DataFrame(packets).with_columns(pl.col("state").cast(pl.Categorical))
    return {name: frame[name] for name in frame.columns}


def as_pandas(packets):
    frame = pd.DataFrame(packets)
    frame["destination_port"] = frame["destination_port"].astype(float)
    return {name: frame[name] for name in frame.columns}


@pytest.mark.parametrize("form", [columns, as_arrow, as_chunks, as_slices, as_polars, as_pandas])
def test_a_match_is_what_a_naive_evaluator_says(rules, form):
    packets = random_packets(2_500, 1)
    found = rules.match(**form(packets)).to_pydict()
    lines = EDGE.splitlines()
    for row, packet in enumerate(packets):
        verdict, line = NAIVE.match(packet)
        assert (found["verdict"][row], found["line"][row]) == (verdict, line), packet
        rule = found["rule"][row]
        assert (rule is None) == (line is None)
        if line is not None:
            assert re.findall(r"\w+", rule)[-1] == re.findall(r"\w+", lines[line - 1])[-1]
    assert set(found["verdict"]) == {"accept", "reject", "drop"}


def test_a_packet_has_the_same_fate_as_in_a_column(rules):
    for packet in random_packets(300, 2):
        verdict, line = NAIVE.match(packet)
        found = rules.match_packet(**packet)
        assert (found["verdict"], found["line"]) == (verdict, line), packet
        is_noted = packet["protocol"] == "tcp" and packet["source_port"] <= 1023
        assert found["noted"] == ([7] if is_noted and line in (8, None) else [])


def test_one_value_counts_for_all_rows(rules):
    table = rules.match(
        source=["10.1.2.3", "11.0.0.1"],
        destination=["10.0.0.1", "10.0.0.1"],
        protocol=6,
        source_port=40_000,
        destination_port=22,
        state="new",
        input="lo",
    )
    assert table["verdict"].to_pylist() == ["accept", "drop"]
    assert table["line"].to_pylist() == [3, None]


def test_long_columns_on_threads(rules):
    packets = random_packets(5_000, 3) * 30
    one = pa.table(rules.match(**as_arrow(packets))).to_pydict()
    assert pa.table(rules.match(**as_arrow(packets), threads=4)).to_pydict() == one
    assert len(one["line"]) == 150_000


def test_rows_without_an_address_or_a_protocol_are_null():
    rules = whered.Rules.parse("chain input policy drop {\n  proto tcp dport 22 accept\n}\n")
    columns = {
        "source": ["10.0.0.1", None, "x", "10.0.0.1", "10.0.0.1", "10.0.0.1", "::1"],
        "destination": ["10.0.0.2"] * 7,
        "protocol": ["tcp", "tcp", "tcp", None, "tpc", "tcp", "tcp"],
        "destination_port": [22, 22, 22, 22, 22, None, 22],
    }
    table = rules.match(**columns)
    assert table["verdict"].to_pylist() == ["accept", None, None, None, None, "drop", None]
    messages = {
        2: 'row 0: "x" is no IP address',
        4: 'row 0: protocol="tpc": allowed are a protocol',
        6: "row 0: source ::1 and destination 10.0.0.2: allowed is one family",
    }
    for row in range(7):
        one = {name: values[row : row + 1] for name, values in columns.items()}
        if row in messages:
            with pytest.raises(ValueError) as raised:
                rules.match(**one, invalid="raise")
            assert messages[row] in str(raised.value)
        else:
            rules.match(**one, invalid="raise")


@pytest.mark.parametrize("port", [-1, 65536, 22.5, 1e30, float("inf")])
def test_numbers_that_are_no_port_are_null_or_raise(port):
    rules = whered.Rules.parse("chain input policy drop {\n  proto tcp dport 22 accept\n}\n")
    packet = {"source": ["10.0.0.1"], "protocol": "tcp", "destination_port": pa.array([float(port)])}
    assert rules.match(**packet)["verdict"].to_pylist() == [None]
    with pytest.raises(ValueError, match="row 0: destination_port=.*allowed are 0 to 65535"):
        rules.match(**packet, invalid="raise")


def test_a_field_that_rules_look_at_must_be_given(rules):
    with pytest.raises(ValueError, match="edge.rules:2 asks for the packet's state: pass state="):
        rules.match(source=["10.0.0.1"], destination=["10.0.0.1"], protocol="tcp")
    with pytest.raises(ValueError, match="asks for the packet's state"):
        rules.match_packet("10.0.0.1")
    simple = whered.Rules.parse("chain input policy drop {\n  src 10.0.0.0/8 accept\n}\n")
    assert simple.match(source=["10.0.0.1", "::1"])["verdict"].to_pylist() == ["accept", "drop"]
    # A chain that packets do not enter asks for nothing.
    other = "chain input policy drop {\n  src 1.0.0.0/8 drop\n}\nchain output policy drop {\n  out lo accept\n}\n"
    assert whered.Rules.parse(other).match(source=["::1"])["verdict"].to_pylist() == ["drop"]
    with pytest.raises(ValueError, match="asks for the packet's output"):
        whered.Rules.parse(other, chain="output").match(source=["::1"])


def test_every_field_is_looked_at():
    text = """\
chain input policy drop {
    proto icmp icmp 8 accept
    proto tcp flags syn of {syn ack} accept
    dscp 46 accept
    mark 7 accept
    out wan accept
}
"""
    rules = whered.Rules.parse(text)
    base = dict(icmp_type=0, icmp_code=0, tcp_flags=0, dscp=0, mark=0, output="", protocol="gre")

    def line(**fields):
        return rules.match_packet("10.0.0.1", **{**base, **fields})["line"]

    assert line() is None
    assert line(protocol="icmp", icmp_type=8) == 2
    assert line(protocol="tcp", tcp_flags="syn") == 3
    assert line(protocol="tcp", tcp_flags=18) is None and line(protocol="tcp", tcp_flags="syn,ack") is None
    assert line(dscp="ef") == 4 and line(mark=7) == 5 and line(output="wan") == 6
    table = rules.match(source=["10.0.0.1"] * 2, **{**base, "output": ["wan", None]})
    assert table["line"].to_pylist() == [6, None]


def test_columns_without_rows(rules):
    packets = {name: [] for name in random_packets(1, 4)[0]}
    table = rules.match(**packets)
    assert len(table) == 0 and table.names == ["verdict", "line", "rule"]
    assert pl.DataFrame(table).schema == {"verdict": pl.String, "line": pl.Int32, "rule": pl.String}


@pytest.mark.parametrize("strings", ["utf8_view", "utf8", "large_utf8", "dictionary"])
def test_answers_have_the_type_that_was_asked_for(rules, strings):
    packets = as_arrow(random_packets(200, 5))
    table = rules.match(**packets, strings=strings)
    assert table.to_pydict() == rules.match(**packets).to_pydict()
    types = {
        "utf8_view": pa.string_view(),
        "utf8": pa.string(),
        "large_utf8": pa.large_string(),
        "dictionary": pa.dictionary(pa.int32(), pa.string()),
    }
    assert pa.table(table).schema.field("verdict").type == types[strings]


IPTABLES = """\
*filter
:INPUT DROP [0:0]
:FORWARD ACCEPT [0:0]
-A INPUT -s 10.0.0.0/8 -p tcp -m tcp --dport 22 -j ACCEPT
-A FORWARD -s 192.0.2.0/24 -j DROP
COMMIT
"""


def test_formats_are_told_by_their_content_or_by_name(tmp_path):
    path = tmp_path / "rules"
    path.write_text(IPTABLES)
    for rules in (whered.Rules.read(path), whered.Rules.read(str(path), format="iptables")):
        assert len(rules) == 2
        table = rules.match(source=["10.0.0.1"], protocol="tcp", destination_port=22)
        assert table.to_pydict()["line"] == [4] and table["verdict"][0] == "accept"
    forward = whered.Rules.read(path, chain="FORWARD", table="filter")
    assert forward.match(source=["192.0.2.1", "10.0.0.1"])["verdict"].to_pylist() == ["drop", "accept"]
    assert repr(forward) == "<whered.Rules: 1 rules, entered by chain FORWARD>"
    bench = whered.Rules.parse("@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t22 : 22\t0x06/0xFF\n")
    assert len(bench) == 1


SETS = "chain input policy accept {\n    src @blocked drop\n}\n"


def test_sets_that_the_file_lacks_are_refused_with_their_line_or_given():
    with pytest.raises(ValueError, match='edge:2: found set "blocked", whose members are not in'):
        whered.Rules.parse(SETS, name="edge")
    blocked = whered.PrefixSet(["192.0.2.0/24", "2001:db8::/32"])
    rules = whered.Rules.parse(SETS, sets={"blocked": blocked})
    table = rules.match(source=["192.0.2.9", "10.0.0.1", "2001:db8::1"])
    assert table["verdict"].to_pylist() == ["drop", "accept", "drop"]
    assert rules.match_packet("192.0.2.9")["line"] == 2
    with pytest.raises(ValueError, match='sets has "unknown", which no rule asks for'):
        whered.Rules.parse(SETS, sets={"blocked": blocked, "unknown": blocked})
    with pytest.raises(TypeError):
        whered.Rules.parse(SETS, sets={"blocked": ["192.0.2.0/24"]})


def test_rules_about_places_are_refused_with_their_line():
    text = "chain input policy accept {\n    src 10.0.0.0/8 accept\n    src country DE drop\n}\n"
    with pytest.raises(ValueError, match=r"^edge:3"):
        whered.Rules.parse(text, name="edge")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("chain input policy maybe {\n}\n", {}, "rules:1:20"),
        ("chain input policy drop {\n  src 10.0.0.0/33 accept\n  proto x accept\n}\n", {}, "rules:3:"),
        ("", {}, "rules"),
        (EDGE, {"format": "yaml"}, 'format="yaml": allowed are own, iptables, nft, classbench'),
        (EDGE, {"format": "ipset"}, "allowed is a format that is read"),
        (EDGE, {"chain": "output"}, 'chain="output": allowed are input'),
        (EDGE, {"table": "filter"}, "these rules have no tables"),
        (IPTABLES, {"table": "mangle"}, "mangle"),
        ("*mangle\n:INPUT ACCEPT [0:0]\n-A INPUT -j DROP\nCOMMIT\n" + IPTABLES, {}, "rules:3:1"),
    ],
)
def test_bad_rules_are_refused_with_their_place(text, options, message):
    with pytest.raises(ValueError) as raised:
        whered.Rules.parse(text, **options)
    assert message in str(raised.value)


def test_other_tables_can_be_skipped():
    text = "*mangle\n:INPUT ACCEPT [0:0]\n-A INPUT -j DROP\nCOMMIT\n" + IPTABLES
    assert len(whered.Rules.parse(text, skip_tables=True)) == 2


def test_prefixes_with_host_bits_are_warned_of():
    with pytest.warns(UserWarning, match="10.0.0.1/8.*taken as 10.0.0.0/8"):
        rules = whered.Rules.parse("chain input policy drop {\n  src 10.0.0.1/8 accept\n}\n")
    assert rules.match_packet("10.9.9.9")["verdict"] == "accept"


@pytest.mark.filterwarnings("ignore:.*bits set behind")
def test_a_text_cut_at_every_byte_is_read_or_refused():
    for text in (EDGE[:200], IPTABLES):
        for end in range(len(text)):
            try:
                whered.Rules.parse(text[:end])
            except ValueError as refused:
                assert str(refused).startswith("rules")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"source": ["10.0.0.1", "10.0.0.2"]}, ValueError, "source has 2 rows and destination has 1"),
        ({"protocol": ["tcp"] * 3}, ValueError, "source has 1 rows and protocol has 3"),
        ({"protocol": "tpc"}, ValueError, 'protocol="tpc": allowed are a protocol'),
        ({"destination_port": 65536}, ValueError, "allowed are 0 to 65535"),
        ({"state": "old"}, ValueError, "allowed are new, established"),
        ({"state": 1}, ValueError, "allowed are new, established"),
        ({"destination_port": 1.5}, TypeError, "destination_port is a column"),
        ({"input": pa.array([1.5])}, TypeError, "input is a column of Float64"),
        ({"colour": "red"}, TypeError, 'no field "colour": allowed are protocol'),
        ({"source": 7}, TypeError, "source is a column"),
        ({"strings": "str"}, ValueError, 'strings="str"'),
        ({"threads": 0}, ValueError, "threads=0"),
    ],
)
def test_bad_arguments_of_match_are_refused(rules, changes, error, message):
    packet = {**columns(random_packets(1, 6)), **changes}
    with pytest.raises(error) as raised:
        rules.match(**packet)
    assert message in str(raised.value)


def test_bad_packets_are_refused(rules):
    packet = random_packets(1, 7)[0]
    for changes, error in [
        ({"source": "x"}, ValueError),
        ({"source": 7}, TypeError),
        ({"source": "::1", "destination": "10.0.0.1"}, ValueError),
        ({"protocol": "x"}, ValueError),
        ({"protocol": ["tcp"]}, TypeError),
        ({"colour": 7}, TypeError),
    ]:
        with pytest.raises(error):
            rules.match_packet(**{**packet, **changes})


def test_files_that_cannot_be_read_are_errors_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        whered.Rules.read(tmp_path / "missing")
    path = tmp_path / "rules"
    path.write_bytes(b"chain input policy drop {\n\xff\n}\n")
    with pytest.raises(ValueError, match="rules:2: found bytes that are no text"):
        whered.Rules.read(path)


def test_a_verdict_that_depends_on_a_limit_is_maybe() -> None:
    rules = whered.Rules.parse(
        "*filter\n:INPUT DROP [0:0]\n"
        "-A INPUT -p tcp --dport 22 -m limit --limit 3/min -j ACCEPT\n"
        "-A INPUT -p tcp --dport 80 -j ACCEPT\nCOMMIT\n"
    )
    assert len(rules) == 2
    packets = {"source": ["192.0.2.1"] * 3, "protocol": "tcp", "destination_port": [22, 80, 443]}
    assert rules.match(**packets)["verdict"].to_pylist() == ["maybe", "accept", "drop"]
    packet = rules.match_packet("192.0.2.1", protocol="tcp", destination_port=22)
    assert packet["verdict"] == "maybe"
