"""PrefixSet: against the longest prefix of `ipaddress`, files, bad input."""

from __future__ import annotations

import ipaddress
import random

import pytest

import whered

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")


def random_networks(count, seed):
    """Nested networks of both families."""
    chance = random.Random(seed)
    networks = []
    for _ in range(count):
        if chance.random() < 0.3:
            bits, length = 128, chance.choice([0, 16, 29, 32, 48, 56, 64, 127, 128])
            address = 0x2001_0DB8 << 96 | chance.getrandbits(12) << 84 | chance.getrandbits(84)
        else:
            bits, length = 32, chance.choice([0, 8, 12, 16, 20, 24, 28, 31, 32])
            address = 10 << 24 | chance.getrandbits(6) << 18 | chance.getrandbits(18)
        address = address >> (bits - length) << (bits - length)
        cls = ipaddress.IPv4Network if bits == 32 else ipaddress.IPv6Network
        networks.append(cls((address, length)))
    return networks


def longest(networks, address):
    """The naive twin: of all networks that hold the address the longest, of equals the last."""
    best = None
    for number, network in enumerate(networks):
        if address.version == network.version and address in network:
            if best is None or network.prefixlen >= networks[best].prefixlen:
                best = number
    return best


def addresses_around(networks, count, seed):
    chance = random.Random(seed)
    addresses = []
    for _ in range(count):
        network = chance.choice(networks)
        first, last = int(network.network_address), int(network.broadcast_address)
        at = chance.choice([first, last, first - 1, last + 1, chance.randint(first, last)])
        at = max(0, min(at, 2**network.max_prefixlen - 1))
        addresses.append(type(network.network_address)(at))
    return addresses


@pytest.fixture(scope="module")
def networks():
    return random_networks(400, 1)


@pytest.fixture(scope="module")
def prefix_set(networks):
    return whered.PrefixSet([str(n) for n in networks], [f"v{i}" for i in range(len(networks))])


def test_a_match_is_the_longest_prefix(networks, prefix_set):
    addresses = addresses_around(networks, 4_000, 2)
    found = prefix_set.match([str(address) for address in addresses]).to_pydict()
    hits = 0
    for row, address in enumerate(addresses):
        best = longest(networks, address)
        prefix = None if best is None else str(networks[best])
        value = None if best is None else f"v{best}"
        assert (found["prefix"][row], found["value"][row]) == (prefix, value), address
        assert prefix_set.get(address) == (None if best is None else (prefix, value))
        assert (address in prefix_set) == (best is not None)
        hits += best is not None
    assert 1_000 < hits


def test_a_large_set_is_compiled_into_other_forms():
    networks = [ipaddress.IPv4Network((n << 8, 24)) for n in range(1 << 16, (1 << 16) + 40_000)]
    chosen = whered.PrefixSet(pa.array([str(n) for n in networks]), pa.array(range(40_000)))
    rows = pa.array([(1 << 24) + n * 173 for n in range(60_000)], pa.uint32())
    values = chosen.match(rows)["value"].to_pylist()
    for row in range(0, 60_000, 97):
        number = row * 173 >> 8
        assert values[row] == (str(number) if number < 40_000 else None)


def test_len_counts_different_prefixes_and_of_equals_the_last_counts():
    chosen = whered.PrefixSet(["10.0.0.0/8", "10.0.0.1/8", "10.0.0.0-10.255.255.255"], ["a", "b", "c"])
    assert len(chosen) == 1 and chosen["10.1.1.1"] == ("10.0.0.0/8", "c")
    assert repr(chosen) == "<whered.PrefixSet: 1 prefixes>" and chosen.memory_bytes > 0


def test_addresses_ranges_and_mapped_prefixes():
    chosen = whered.PrefixSet(
        ["192.0.2.1", "192.0.2.5-192.0.2.9", "::ffff:198.51.100.0/120", "2001:db8::/32"]
    )
    assert chosen["192.0.2.1"] == ("192.0.2.1/32", None)
    assert chosen["192.0.2.7"] == ("192.0.2.5-192.0.2.9", None)
    assert chosen["198.51.100.9"] == ("198.51.100.0/24", None)
    assert chosen["::ffff:192.0.2.7"] == ("192.0.2.5-192.0.2.9", None)
    assert chosen.get("192.0.2.10", "none") == "none"
    with pytest.raises(KeyError, match="192.0.2.10"):
        chosen["192.0.2.10"]


@pytest.mark.parametrize(
    "prefixes",
    [
        ["10.0.0.0/8", "2001:db8::/32"],
        (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("2001:db8::/32")),
        pa.array(["10.0.0.0/8", "2001:db8::/32"]),
        pa.array(["10.0.0.0/8", "2001:db8::/32"], pa.string_view()),
        pa.array(["x", "10.0.0.0/8", "2001:db8::/32"])[1:],
        pa.array(["10.0.0.0/8", "2001:db8::/32"]).dictionary_encode(),
        pa.chunked_array([["10.0.0.0/8"], [], ["2001:db8::/32"]]),
        pl.Series(["10.0.0.0/8", "2001:db8::/32"]),
        pd.Series(["10.0.0.0/8", "2001:db8::/32"]),
    ],
    ids=lambda value: type(value).__module__ + "." + type(value).__name__,
)
def test_prefixes_of_every_kind_of_column(prefixes):
    chosen = whered.PrefixSet(prefixes, [7, None])
    assert chosen["10.1.2.3"] == ("10.0.0.0/8", "7")
    assert chosen["2001:db8::1"] == ("2001:db8::/32", None)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((["10.0.0.0/8", None],), {}, ValueError, "row 1: the prefix is null"),
        ((["10.0.0.0/33"],), {}, ValueError, 'row 0: "10.0.0.0/33"'),
        ((["10.0.0.0/8", ""],), {}, ValueError, "row 1: "),
        ((["10.0.0.9-10.0.0.1"],), {}, ValueError, "row 0: "),
        ((["10.0.0.1-::1"],), {}, ValueError, "row 0: "),
        ((["10.0.0.1/8"],), {"strict": True}, ValueError, "allowed is 10.0.0.0/8"),
        ((["10.0.0.0/8"], ["a", "b"]), {}, ValueError, "prefixes has 1 rows and values has 2"),
        (("10.0.0.0/8",), {}, TypeError, "prefixes is a column"),
        (([1.5],), {}, TypeError, "prefixes is a column of Float64"),
        ((["10.0.0.0/8"], [1.5]), {}, TypeError, "values is a column of Float64"),
    ],
)
def test_bad_prefixes_are_refused(arguments, options, error, message):
    with pytest.raises(error) as raised:
        whered.PrefixSet(*arguments, **options)
    assert message in str(raised.value)


def test_an_empty_set_matches_nothing():
    chosen = whered.PrefixSet([])
    assert len(chosen) == 0 and "10.0.0.1" not in chosen
    assert chosen.match(["10.0.0.1", "::1"]).to_pydict() == {"prefix": [None] * 2, "value": [None] * 2}


@pytest.mark.parametrize("strings", ["utf8_view", "utf8", "large_utf8", "dictionary"])
def test_answers_have_the_type_that_was_asked_for(prefix_set, networks, strings):
    column = [str(address) for address in addresses_around(networks, 300, 3)] + [None, "x", ""]
    expected = prefix_set.match(column).to_pydict()
    table = prefix_set.match(column, strings=strings)
    assert table.to_pydict() == expected
    types = {
        "utf8_view": pa.string_view(),
        "utf8": pa.string(),
        "large_utf8": pa.large_string(),
        "dictionary": pa.dictionary(pa.int32(), pa.string()),
    }
    assert pa.table(table).schema.field("prefix").type == types[strings]
    assert pl.DataFrame(table)["value"].cast(pl.String).to_list() == expected["value"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["10.1.2.3", None, "x", "2001:db8::1"]),
        pa.array(["?", "10.1.2.3", None, "x", "2001:db8::1", "?"])[1:5],
        pa.chunked_array([["10.1.2.3", None], [], ["x", "2001:db8::1"]]),
        pl.Series(["10.1.2.3", None, "x", "2001:db8::1"]),
        pd.Series(["10.1.2.3", None, "x", "2001:db8::1"]),
        pa.array(["10.1.2.3", None, "x", "2001:db8::1"]).dictionary_encode(),
        ["[10.1.2.3]:443", None, "x", ipaddress.ip_address("2001:db8::1")],
    ],
    ids=lambda value: type(value).__module__ + "." + type(value).__name__,
)
def test_matches_of_every_kind_of_column(column):
    chosen = whered.PrefixSet(["10.0.0.0/8", "2001:db8::/32", "0.0.0.0/32"], ["a", "b", "zero"])
    assert chosen.match(column)["value"].to_pylist() == ["a", None, None, "b"]
    assert chosen.match(column, threads=3)["value"].to_pylist() == ["a", None, None, "b"]
    with pytest.raises(ValueError, match='row 2: "x" is no IP address'):
        chosen.match(column, invalid="raise")


def test_addresses_as_numbers_and_octets():
    chosen = whered.PrefixSet(["10.0.0.0/8", "2001:db8::/32"], ["a", "b"])
    numbers = pa.array([0x0A010203, None, 0], pa.uint32())
    assert chosen.match(numbers)["value"].to_pylist() == ["a", None, None]
    octets = pa.array([ipaddress.ip_address("2001:db8::1").packed, b"\0" * 16], pa.binary(16))
    assert chosen.match(octets)["value"].to_pylist() == ["b", None]


def test_columns_without_rows():
    chosen = whered.PrefixSet(["10.0.0.0/8"])
    for empty in ([], pa.array([], pa.string()), pa.chunked_array([], pa.string())):
        table = chosen.match(empty)
        assert len(table) == 0 and table.names == ["prefix", "value"]
        assert pl.DataFrame(table).schema == {"prefix": pl.String, "value": pl.String}


def test_long_columns_on_threads(prefix_set):
    numbers = np.random.default_rng(4).integers(10 << 24, (10 << 24) + (1 << 24), 300_000)
    column = pa.array(numbers.astype(np.uint32))
    one = pa.table(prefix_set.match(column)).to_pydict()
    assert pa.table(prefix_set.match(column, threads=4)).to_pydict() == one
    assert len(one["value"]) == 300_000


@pytest.mark.parametrize(
    ("column", "options", "error", "message"),
    [
        ([1.5], {}, TypeError, "column is a column of Float64"),
        ("10.0.0.1", {}, TypeError, "column is a column"),
        (7, {}, TypeError, "column is a column"),
        (["10.0.0.1"], {"strings": "str"}, ValueError, 'strings="str"'),
        (["10.0.0.1"], {"invalid": "skip"}, ValueError, 'invalid="skip"'),
        (["10.0.0.1"], {"threads": 0}, ValueError, "threads=0"),
    ],
)
def test_bad_arguments_of_match_are_refused(prefix_set, column, options, error, message):
    with pytest.raises(error) as raised:
        prefix_set.match(column, **options)
    assert message in str(raised.value)


@pytest.mark.parametrize("address", [7, None, b"10.0.0.1", 1.5])
def test_what_is_no_address_is_a_type_error(prefix_set, address):
    for ask in (prefix_set.get, prefix_set.__contains__, prefix_set.__getitem__):
        with pytest.raises(TypeError):
            ask(address)


def test_a_text_that_is_no_address_is_a_value_error(prefix_set):
    with pytest.raises(ValueError, match='"x" is no IPv4 or IPv6 address'):
        prefix_set.get("x")


FILES = {
    "plain": "# comment\n192.0.2.0/24 ; more\n198.51.100.5-198.51.100.9\n",
    "ipset": 'create s hash:net\nadd s 192.0.2.0/24 comment "why"\nadd s 198.51.100.5\n',
    "nft": "table inet t {\n set s {\n type ipv4_addr\n flags interval\n"
    ' elements = { 192.0.2.0/24 comment "why", 198.51.100.5-198.51.100.9 timeout 1h }\n }\n}\n',
    "json": '["198.51.100.5", {"prefix": "192.0.2.0/24", "value": "why"}]',
    "csv": "network,geoname_id\n192.0.2.0/24,why\n198.51.100.5/32,2\n",
}


@pytest.mark.parametrize("format", FILES)
@pytest.mark.parametrize("is_named", [False, True])
def test_files_of_every_format(tmp_path, format, is_named):
    path = tmp_path / "set"
    path.write_text(FILES[format])
    chosen = whered.PrefixSet.read(path, format=format if is_named else None)
    assert len(chosen) == 2 and "198.51.100.5" in chosen
    value = None if format == "plain" else "why"
    assert chosen["192.0.2.200"] == ("192.0.2.0/24", value)


def test_one_set_of_a_file_with_several(tmp_path):
    path = tmp_path / "dump"
    path.write_text("create a hash:ip\ncreate b hash:ip\nadd a 192.0.2.1\nadd b 192.0.2.2\n")
    assert "192.0.2.2" in whered.PrefixSet.read(str(path), name="b")
    with pytest.raises(ValueError, match="one of several: a, b"):
        whered.PrefixSet.read(path)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"192.0.2.0/33\n", {}, 'line 1, column 11: found "33"'),
        (b"192.0.2.1/24\n", {"strict": True}, "bits set behind its length"),
        (b"\x1f\x8b\x08rest", {}, "gzip"),
        (b"\xff\xfe\x00", {}, "line 1, column 1"),
        (b"192.0.2.1\n", {"format": "yaml"}, "allowed is plain, ipset, nft"),
    ],
)
def test_bad_files_are_refused_with_their_place(tmp_path, content, options, message):
    path = tmp_path / "set"
    path.write_bytes(content)
    with pytest.raises(ValueError) as raised:
        whered.PrefixSet.read(path, **options)
    assert message in str(raised.value)


def test_a_file_cut_at_every_byte_is_read_or_refused(tmp_path):
    path = tmp_path / "set"
    for content in FILES.values():
        for end in range(len(content)):
            path.write_text(content[:end])
            try:
                assert len(whered.PrefixSet.read(path)) <= 2
            except ValueError as refused:
                assert str(path) in str(refused)


def test_files_that_cannot_be_read_are_errors_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        whered.PrefixSet.read(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        whered.PrefixSet.read(tmp_path)
