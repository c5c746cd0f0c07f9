"""IP data as users have it: databases in one file for each address family, addresses as logs write
them, lists of addresses, packed files, rows that stand for IPv4 networks, and legacy V6 files held
against geoiplookup6."""

import bz2
import gzip
import io
import json
import lzma
import pathlib
import random
import re
import shutil
import subprocess
import tarfile
import zipfile

import maxminddb
import pytest

from conftest import BINARY, REQUIRED

GEOIP = pathlib.Path("/usr/share/GeoIP/GeoIP.dat")
GEOIP6 = pathlib.Path("/usr/share/GeoIP/GeoIPv6.dat")
TEREDO = "2001:0:4136:e378:8000:63bf:aefd:ba71"


def whered(*arguments, stdin=None, text=True):
    return subprocess.run([BINARY, *map(str, arguments)], input=stdin, capture_output=True, text=text, timeout=120)


def refused(*arguments, **options):
    """The one line of a command that must fail."""
    result = whered(*arguments, **options)
    assert result.returncode == 2, (arguments, result)
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("whered: "), (arguments, result.stderr)
    return lines[0]


def build(path, rows, *arguments):
    result = whered("db", "build", "-", "-o", path, *arguments, stdin="network,n\n" + "".join(f"{network},{n}\n" for network, n in rows))
    assert result.returncode == 0, result.stderr
    return path


def enrich(lines, *arguments):
    """The records as objects, and the line at the end."""
    result = whered("enrich", "--format", "ndjson", *arguments, stdin="".join(line + "\n" for line in lines))
    assert result.returncode in (0, 1), result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()], result.stderr.splitlines()[-1]


@pytest.fixture
def families(tmp_path):
    four = build(tmp_path / "v4.mmdb", [("192.0.2.0/24", "four")], "--ip-version", "4")
    six = build(tmp_path / "v6.mmdb", [("2001:db8::/32", "six")])
    return four, six


@pytest.fixture
def legacy():
    if not GEOIP6.exists() or not shutil.which("geoiplookup6"):
        if "peers" in REQUIRED:
            pytest.fail("packages geoip-database and geoip-bin are not installed")
        pytest.skip("packages geoip-database and geoip-bin are not installed")


def test_two_files_by_family_answer_as_one_database(families):
    four, six = families
    lines = ["ip", "192.0.2.1", "2001:db8::1", "192.0.3.1", "2001:db9::1", "x"]
    for databases in ([f"--db={four}", f"--db={six}"], [f"--db=both={six}", f"--db=both={four}"]):
        for field in ["n"] if "both" not in databases[0] else ["n", "both:n"]:
            records, told = enrich(lines, *databases, "--field", field)
            found = [record["n"] for record in records]
            assert found == ["four", "six", None, None, None]
            assert told.startswith("whered: 5 records: 2 found, 2 not found, 1 bad")
    looked_up = whered("lookup", "--db", six, "--db", four, "--field", "n", "--format", "text", "192.0.2.1", "2001:db8::1")
    assert looked_up.stdout == "192.0.2.1: four\n2001:db8::1: six\n"
    explained = whered("lookup", "--db", six, "--db", four, "--explain", "192.0.2.1", "2001:db8::1")
    assert [json.loads(line)["record"]["n"] for line in explained.stdout.splitlines()] == ["four", "six"]


def test_an_uncovered_family_is_counted_apart_from_not_found(families):
    four, six = families
    lines = ["ip", "192.0.2.1", "2001:db8::1", "192.0.3.1", "2001:db9::1", "::ffff:192.0.2.1"]
    records, told = enrich(lines, "--db", four, "--field", "n")
    assert told == "whered: 5 records: 2 found, 1 not found, 2 of a family that no database covers (IPv6), 0 bad"
    uncovered = "no database covers IPv6 addresses"
    assert [record.get("enrich_error") for record in records] == [None, uncovered, None, uncovered, None]
    assert [record["n"] for record in records] == ["four", None, None, None, "four"]
    _, told = enrich(lines, "--db", six, "--field", "n")
    assert "1 found, 1 not found, 3 of a family that no database covers (IPv4), 0 bad" in told
    result = whered("lookup", "--db", six, "192.0.2.1", "2001:db9::1", "2001:db8::1")
    assert result.returncode == 2 and "no IPv4 networks" in result.stderr and len(result.stdout.splitlines()) == 2


def test_a_file_that_answers_for_no_family_is_refused(families, tmp_path):
    four, six = families
    more = build(tmp_path / "more.mmdb", [("198.51.100.0/24", "more")])
    for arguments in (["lookup", "--db", four, "--db", more, "::1"], ["enrich", "--db", f"a={four}", "--db", f"a={more}"]):
        line = refused(*arguments, stdin="")
        assert "more.mmdb" in line and "one file for each family" in line
    assert "the same NAME for both" in refused("enrich", "--db", four, "--db", four, stdin="")


def test_addresses_as_people_write_them_are_read(families):
    four, six = families
    for written in ["192.0.2.1:80", "::ffff:192.0.2.1", "[::ffff:192.0.2.1]:443", " 192.0.2.1 "]:
        assert whered("lookup", "--db", four, "--field", "n", "--format", "text", written).stdout == "192.0.2.1: four\n"
    for written in ["[2001:db8::1]:443", "2001:db8::1%eth0", "[2001:db8::1%2]"]:
        assert whered("lookup", "--db", six, "--field", "n", "--format", "text", written).stdout == "2001:db8::1: six\n"


LOG = ' - - [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 17 "-" "curl/8"'


def test_lists_of_addresses_are_lists(tmp_path):
    rows = [("203.0.112.0/24", "client"), ("10.0.0.0/8", "proxy"), ("198.41.0.0/16", "other")]
    database = build(tmp_path / "lists.mmdb", rows)
    texts = ["203.0.112.7, 10.0.0.1", "10.0.0.1, 203.0.112.7, 198.41.0.4:80", "unknown, 203.0.112.7", "10.0.0.9", "10.0.0.1, 192.168.0.1"]
    expected = {
        "first": ["client", "proxy", "client", "proxy", "proxy"],
        "last": ["proxy", "other", "client", "proxy", None],
        "public": ["client", "client", "client", "proxy", "proxy"],
    }
    shapes = {
        "log": [text + LOG for text in texts],
        "csv": ["time,x_forwarded_for"] + [f'1,"{text}"' for text in texts],
        "tsv": ["time\tx_forwarded_for"] + [f"1\t{text}" for text in texts],
        "ndjson": [json.dumps({"time": 1, "forwarded": text}) for text in texts],
        "arrays": [json.dumps({"time": 1, "forwarded": text.split(", ")}) for text in texts],
    }
    for choice, found in expected.items():
        for shape, lines in shapes.items():
            records, _ = enrich(lines, "--db", database, "--field", "n", "--list", choice)
            assert [record["n"] for record in records] == found, (shape, choice)
    records, _ = enrich(shapes["log"], "--db", database, "--field", "n")
    assert [record["remote_addr"] for record in records] == texts and "vhost" not in records[0]
    hosts = [f"www.example:443 {line}" for line in shapes["log"]]
    records, _ = enrich(hosts, "--db", database, "--field", "n")
    assert [(record["vhost"], record["n"]) for record in records] == [("www.example:443", n) for n in expected["first"]]


def test_escapes_quotes_and_trailing_commas_in_addresses_are_read(tmp_path):
    database = build(tmp_path / "lists.mmdb", [("203.0.112.0/24", "client"), ("10.0.0.0/8", "proxy")])
    shapes = {
        "escapes": [r'{"ip":"203.0.112.\u0037"}', r'{"\u0069p":"203.0.112.7"}', r'{"ip":["203.0.112.\u0037","10.0.0.1"]}'],
        "quotes in JSON": [json.dumps({"ip": '"203.0.112.7", 10.0.0.1'}), json.dumps({"ip": ["203.0.112.7, 10.0.0.1", "10.0.0.2"]})],
        "quotes in CSV": ["time,ip", '1,"""203.0.112.7"", 10.0.0.1"'],
        "trailing comma": ["203.0.112.7," + LOG, "203.0.112.7 ," + LOG, "203.0.112.7, -" + LOG],
    }
    for shape, lines in shapes.items():
        records, _ = enrich(lines, "--db", database, "--field", "n")
        assert records and all(record["n"] == "client" for record in records), (shape, records)


def archive_of(content):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as file:
        entry = tarfile.TarInfo("access.log")
        entry.size = len(content)
        file.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


def packed(content):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("x", content)
    yield "xz", lzma.compress(content)
    yield "bzip2", bz2.compress(content)
    yield "zip", archive.getvalue()
    yield "lz4", b"\x04\x22\x4d\x18\x64\x40\xa7" + content


def test_packed_files_are_unpacked_or_refused_with_the_way(families, tmp_path):
    four, _ = families
    path = tmp_path / "file"
    jobs = {
        b"ip\n192.0.2.1\n": [["enrich", path, "--db", four, "--field", "n"], ["enrich", "--db", four, "--field", "n"]],
        b"network,n\n192.0.2.0/24,1\n": [["db", "build", path, "-o", tmp_path / "out.mmdb"], ["db", "build", "-", "-o", tmp_path / "out.mmdb"]],
        four.read_bytes(): [["db", "info", path], ["db", "verify", path], ["lookup", "--db", path, "::1"], ["enrich", "--db", path]],
        b"chain input policy accept\n": [["rules", "check", path]],
        b"$ORIGIN example.com.\n": [["zone", "check", path, "--origin", "example.com"]],
    }
    for content, commands in jobs.items():
        for name, bytes_ in packed(content):
            for command in commands:
                path.write_bytes(content)
                plain = whered(*command, stdin=content, text=False)
                path.write_bytes(bytes_)
                result = whered(*command, stdin=bytes_, text=False)
                told = result.stderr.decode()
                is_table = content.startswith((b"ip", b"network"))
                if is_table and name in ("xz", "bzip2"):
                    assert result.returncode == 0 and result.stdout == plain.stdout, (command, name, result)
                    continue
                assert result.returncode == 2 and result.stdout == b"", (command, name, result)
                if is_table and name == "lz4":
                    # No reader takes what only begins as it does.
                    assert told.count("\n") == 1 and "lz4" in told.lower(), (command, told)
                    continue
                assert f"is packed with {name}," in told and "unpack it first (" in told, (command, told)
    for command in jobs[four.read_bytes()]:
        path.write_bytes(gzip.compress(four.read_bytes()))
        assert "is packed with gzip," in refused(*command, stdin="")
    path.write_bytes(gzip.compress(lzma.compress(b"ip\n192.0.2.1\n")))
    assert "is packed twice, with xz inside; allowed: once" in refused("enrich", path, "--db", four, "--field", "n")
    for content, commands in jobs.items():
        archive = archive_of(content)
        for bytes_ in [archive, gzip.compress(archive)]:
            path.write_bytes(bytes_)
            for command in commands:
                result = whered(*command, stdin=bytes_, text=False)
                told = result.stderr.decode()
                assert result.returncode == 2 and result.stdout == b"", (command, result)
                assert "is a tar archive," in told or "is packed with gzip," in told, (command, told)
    packed_list = whered("lookup", "--db", four, stdin=gzip.compress(b"192.0.2.1\n"), text=False)
    assert packed_list.returncode == 2 and b"standard input: is packed with gzip" in packed_list.stderr
    assert packed_list.stderr.count(b"\n") == 1
    rows = tmp_path / "rows.ndjson.gz"
    rows.write_bytes(gzip.compress(b'{"network":"192.0.2.0/24","record":{"n":1}}\n'))
    assert whered("db", "build", rows, "-o", tmp_path / "rows.mmdb").returncode == 0
    assert whered("db", "dump", tmp_path / "rows.mmdb").stdout == '{"network":"192.0.2.0/24","prefix":"192.0.2.0/24","record":{"n":1}}\n'


def test_rows_that_stand_for_ipv4_networks_are_found_or_refused_with_their_line(tmp_path):
    path = build(tmp_path / "a.mmdb", [("1.2.0.0/16", "a"), ("::ffff:5.6.7.0/120", "b"), ("::9.9.9.0/120", "c")])
    reader = maxminddb.open_database(path)
    for address, n in {"1.2.3.4": "a", "5.6.7.8": "b", "9.9.9.9": "c"}.items():
        assert reader.get(address) == {"n": n} == reader.get(f"::ffff:{address}")
        assert whered("lookup", "--db", path, "--field", "n", "--format", "text", f"::ffff:{address}").stdout == f"{address}: {n}\n"
    for network in ["2002::/16", "2002:808:808::/48", "2002:808:808:1::/64"]:
        rows = f"network,n\n1.2.0.0/16,a\n{network},x\n"
        line = refused("db", "build", "-", "-o", tmp_path / "b.mmdb", stdin=rows)
        assert "standard input: line 3" in line and network in line and "--no-ipv4-aliases" in line
        kept = build(tmp_path / "b.mmdb", [("1.2.0.0/16", "a"), (network, "x")], "--no-ipv4-aliases")
        assert maxminddb.open_database(kept).get(network.split("/")[0]) == {"n": "x"}
    address = refused("db", "build", "-", "-o", tmp_path / "b.mmdb", stdin="address,n\n2002:1::1,x\n")
    assert "line 2" in address


def countries_by_geoiplookup6(addresses):
    found = []
    for address in addresses:
        out = subprocess.run(["geoiplookup6", "-f", GEOIP6, address], capture_output=True, text=True, timeout=30).stdout
        match = re.search(r": ([A-Z0-9]{2}), ", out)
        found.append(match[1] if match else None)
    return found


def test_teredo_addresses_are_looked_up_by_their_client_as_libgeoip_does(legacy, tmp_path):
    chance = random.Random(43)
    clients = [chance.getrandbits(32) for _ in range(60)]
    teredo = [f"2001:0:{chance.getrandbits(16):x}:{chance.getrandbits(16):x}:{chance.getrandbits(16):x}:{chance.getrandbits(16):x}:{(client ^ 0xFFFFFFFF) >> 16:x}:{(client ^ 0xFFFF) & 0xFFFF:x}" for client in clients]
    addresses = [TEREDO, *teredo, "2001:1::1", "2001:4860:4860::8888", "2002:5102:458e::1", "::81.2.69.142"]
    expected = countries_by_geoiplookup6(addresses)
    assert expected[0] == "GB" and sum(country is not None for country in expected) > 40
    converted = tmp_path / "converted.mmdb"
    result = whered("db", "convert", GEOIP6, "-o", converted)
    assert result.returncode == 0 and "Teredo" in result.stderr
    for database in [GEOIP6, converted]:
        for arguments in (["--mode", "stream"], ["--mode", "memory"]):
            result = whered("lookup", "--db", database, "--field", "country.iso_code", *arguments, stdin="\n".join(addresses))
            assert [json.loads(line)["country.iso_code"] for line in result.stdout.splitlines()] == expected
        records, _ = enrich(["ip", *addresses], "--db", database, "--field", "country.iso_code")
        assert [record["country.iso_code"] for record in records] == expected
    records, _ = enrich(["ip", *addresses, "81.2.69.142"], "--db", GEOIP, "--db", GEOIP6, "--field", "country.iso_code")
    assert [record["country.iso_code"] for record in records] == [*expected, "GB"]


def test_check_tells_of_a_field_that_no_record_has(families, tmp_path):
    four, six = families
    config = tmp_path / "whered.toml"
    config.write_text('[[database]]\nname = "x"\npaths = ["v4.mmdb", "v6.mmdb"]\nfields = ["n", "contry.iso_code"]\n')
    result = whered("check", config)
    assert result.returncode == 0, result.stderr
    assert [line for line in result.stdout.splitlines() if "fields" in line] == [
        f"{config}:4:10: remark: 'fields' of the database 'x' has 'contry.iso_code', which no record of it has"
    ]
    assert "no record has it in" in refused("enrich", "--db", four, "--field", "contry.iso_code", stdin="")
