"""`whered db`: building, converting, printing and comparing database files, and wrong input."""

import csv
import json
import os
import pathlib
import pty
import subprocess

import pytest

from conftest import BINARY, REPOSITORY, REQUIRED

GEOIP = pathlib.Path("/usr/share/GeoIP/GeoIP.dat")
ROWS = REPOSITORY / "crates/whered/demo/addresses.csv"


def whered(*arguments, stdin=None, cwd=None):
    return subprocess.run(
        [BINARY, "db", *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=60, cwd=cwd
    )


def done(*arguments, **options):
    """Standard output of a command that must succeed."""
    result = whered(*arguments, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(*arguments, **options):
    """The one line of a command that must fail."""
    result = whered(*arguments, **options)
    assert result.returncode == 2, (arguments, result)
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("whered: "), (arguments, result.stderr)
    assert "panicked" not in lines[0]
    return lines[0]


@pytest.fixture
def city(tmp_path):
    done("build", ROWS, "-o", tmp_path / "city.mmdb", "--build-epoch-seconds", 1)
    return tmp_path / "city.mmdb"


@pytest.fixture
def legacy():
    if not GEOIP.exists():
        if "peers" in REQUIRED:
            pytest.fail("package geoip-database is not installed")
        pytest.skip("package geoip-database is not installed")
    return GEOIP


def test_what_is_dumped_is_built_again_byte_for_byte(city, tmp_path):
    rows = done("dump", city, "--types")
    metadata, *networks = map(json.loads, rows.splitlines())
    assert metadata["metadata"]["database_type"] == "whered-City"
    assert len(networks) == 39
    assert all(set(row) == {"network", "prefix", "typed_record"} for row in networks)
    assert all(row["network"] == row["prefix"] for row in networks)
    done("build", "--input-format", "ndjson", "-", "-o", tmp_path / "a.mmdb", stdin=rows)
    (tmp_path / "rows.ndjson").write_text(rows)
    done("build", "rows.ndjson", "-o", "b.mmdb", "--build-epoch-seconds", 1, cwd=tmp_path)
    for name in "ab":
        assert done("diff", city, tmp_path / f"{name}.mmdb") == ""
    # Dumped rows come in address order, so that the bytes of two more generations are equal.
    rows = done("dump", tmp_path / "b.mmdb", "--types")
    done("build", "--input-format", "ndjson", "--build-epoch-seconds", 1, "-", "-o", tmp_path / "c.mmdb", stdin=rows)
    assert (tmp_path / "c.mmdb").read_bytes() == (tmp_path / "b.mmdb").read_bytes()


def test_chosen_fields_as_csv_and_ndjson_are_rows_too(city, tmp_path):
    fields = ("--field", "country.iso_code", "--field", "location.latitude")
    lines = done("dump", city, "--format", "csv", "--types", *fields).splitlines()
    assert lines[0] == "network,country.iso_code:string,location.latitude:double"
    table = {row[0]: row[1:] for row in csv.reader(lines[1:])}
    objects = [json.loads(line) for line in done("dump", city, *fields).splitlines()]
    assert len(objects) == len(table) == 39
    for found in objects:
        cells = table[found["network"]]
        assert cells[0] == found.get("country.iso_code", "")
        assert cells[1] == str(found.get("location.latitude", ""))
    done("build", "-", "-o", tmp_path / "csv.mmdb", stdin="\n".join(lines))
    ndjson = done("dump", city, "--types", *fields)
    assert '"location.latitude:double":' in ndjson
    done("build", "--input-format", "ndjson", "-", "-o", tmp_path / "ndjson.mmdb", stdin=ndjson)
    assert done("diff", tmp_path / "csv.mmdb", tmp_path / "ndjson.mmdb") == ""


def test_a_converted_legacy_file_says_the_same(legacy, tmp_path):
    for name, version in [("GeoIP.dat", "4"), ("GeoIPv6.dat", "6")]:
        old, new = legacy.with_name(name), tmp_path / f"{name}.mmdb"
        done("convert", old, "-o", new)
        assert done("diff", old, new) == ""
        assert ": ok (" in done("verify", new)
        info = done("info", new)
        assert f"ip version      {version}" in info and "MaxMind DB 2.0" in info
    assert "legacy GeoIP, edition 1\n" in done("info", legacy)
    assert "is a MaxMind DB file; allowed: legacy" in refused("convert", tmp_path / "GeoIP.dat.mmdb", "-o", tmp_path / "x.mmdb")


def test_differences_as_text_json_and_counts(tmp_path):
    def build(name, rows):
        done("build", "--input-format", "ndjson", "-", "-o", tmp_path / name, stdin="".join(json.dumps(row) + "\n" for row in rows))
        return tmp_path / name

    old = build("old.mmdb", [
        {"network": "192.0.2.0/24", "a": {"b": 1, "c": "x"}},
        {"network": "198.51.100.0/24", "a": 1},
        {"network": "2001:db8::/32", "a": [1, 2]},
    ])
    new = build("new.mmdb", [
        {"network": "192.0.2.0/25", "a": {"c": "x", "b": 1}},
        {"network": "192.0.2.128/25", "a": {"b": 2, "d": True}},
        {"network": "203.0.113.0/24", "a": 1},
        {"network": "2001:db8::/32", "a": [1]},
    ])
    same = whered("diff", old, old)
    assert (same.returncode, same.stdout, same.stderr) == (0, "", "")
    result = whered("diff", old, new)
    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout == (
        '~ 192.0.2.128/25 a.b: 1 -> 2, a.c: "x" -> none, a.d: none -> true\n'
        '- 198.51.100.0/24 {"a":1}\n'
        '+ 203.0.113.0/24 {"a":1}\n'
        "~ 2001:db8::/32 a.1: 2 -> none\n"
    )
    result = whered("diff", old, new, "--format", "json")
    assert result.returncode == 1
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"prefix": "192.0.2.128/25", "network": "192.0.2.128/25", "change": "changed",
         "fields": {"a.b": {"old": 1, "new": 2}, "a.c": {"old": "x"}, "a.d": {"new": True}}},
        {"prefix": "198.51.100.0/24", "network": "198.51.100.0/24", "change": "removed", "old": {"a": 1}},
        {"prefix": "203.0.113.0/24", "network": "203.0.113.0/24", "change": "added", "new": {"a": 1}},
        {"prefix": "2001:db8::/32", "network": "2001:db8::/32", "change": "changed", "fields": {"a.1": {"old": 2}}},
    ]
    assert whered("diff", old, new, "--summary").stdout == "1 added, 1 removed, 2 changed\n"


def test_wrong_input_is_one_line_with_its_place(city, tmp_path):
    (tmp_path / "rows.csv").write_text("network,a:uint16\n10.0.0.0/8,1\n11.0.0.0/8,65536\n")
    (tmp_path / "open.csv").write_text('network,a\n10.0.0.0/8,"x\n')
    (tmp_path / "rows.ndjson").write_text('{"network":"10.0.0.0/8"}\n{"network":"10.0.0.0/8","a":01}\n')
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "cut.mmdb").write_bytes(city.read_bytes()[:-40])
    damaged = bytearray(city.read_bytes())
    damaged[damaged.index(b"Mountain View") + 3] = 0xFF
    (tmp_path / "damaged.mmdb").write_bytes(damaged)
    at = damaged.index(b"Mou\xfftain") + 3
    for arguments, words in [
        (("build", "rows.csv", "-o", "x.mmdb"), "rows.csv: line 3, column a:uint16: found \"65536\"; allowed:"),
        (("build", "open.csv", "-o", "x.mmdb"), "line 2: found a quote in cell 2 that is never closed"),
        (("build", "rows.ndjson", "-o", "x.mmdb"), "rows.ndjson: line 2, column 29: found a number that begins with 0"),
        (("build", "missing.csv", "-o", "x.mmdb"), "missing.csv: "),
        (("build", ".", "-o", "x.mmdb"), "is a folder"),
        (("build", "empty", "-o", "x.mmdb"), "no header"),
        (("build", "rows.csv", "-o", "x.mmdb", "--input-format", "xml"), "csv, tsv, ndjson"),
        (("build", "rows.csv", "-o", "x.mmdb", "--ip-version", "5"), "allowed: 4, 6"),
        (("convert", "empty", "-o", "x.mmdb"), "empty: not a MaxMind DB or GeoIP file"),
        (("convert", "missing.dat", "-o", "x.mmdb"), "missing.dat: "),
        (("dump", "cut.mmdb"), "cut.mmdb: "),
        (("dump", "city.mmdb", "--format", "csv"), "--field PATH"),
        (("dump", "city.mmdb", "--field", "a..b"), "--field a..b: bad field path"),
        (("dump", "city.mmdb", "--format", "csv", "--types", "--field", "country"), "field country is a map"),
        (("diff", "city.mmdb", "missing.mmdb"), "missing.mmdb: "),
        (("diff", "empty", "city.mmdb"), "empty: "),
        (("diff", "city.mmdb"), "<NEW>"),
        (("verify", "damaged.mmdb"), f"at byte {at} (city.names.en): found bytes that are no UTF-8 text"),
        (("info", "missing.mmdb"), "missing.mmdb: "),
    ]:
        assert words in refused(*arguments, cwd=tmp_path), arguments
    assert "standard input: line 1" in refused("build", "-", "-o", "x.mmdb", stdin="x\n", cwd=tmp_path)
    assert not (tmp_path / "x.mmdb").exists()
    # What can be told of a damaged file is told before its fault.
    result = whered("diff", city, tmp_path / "damaged.mmdb")
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1


def test_closed_pipes_are_no_failure_of_dump_and_diff(city, tmp_path):
    rows = "network,a\n" + "".join(f"10.{i >> 8}.{i & 255}.0/24,{i}\n" for i in range(20000))
    done("build", "-", "-o", tmp_path / "many.mmdb", stdin=rows)
    for command in [f"dump '{tmp_path}/many.mmdb'", f"diff '{city}' '{tmp_path}/many.mmdb'"]:
        script = f"'{BINARY}' db {command} | head -n 1; exit ${{PIPESTATUS[0]}}"
        result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
        remarks = result.stderr.splitlines()
        assert result.returncode == 0 and all(line.startswith("whered: remark: ") for line in remarks)
        assert len(remarks) == command.startswith("dump")
        assert len(result.stdout.splitlines()) == 1


def test_progress_is_drawn_on_a_terminal_only(tmp_path):
    rows = "network,a\n" + "".join(f"10.{i >> 8}.{i & 255}.0/24,{i}\n" for i in range(60000))
    (tmp_path / "rows.csv").write_text(rows)
    result = whered("build", "rows.csv", "-o", "x.mmdb", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    ours, theirs = pty.openpty()
    command = [BINARY, "db", "build", "rows.csv", "-o", "x.mmdb"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    drawn = b""
    while True:
        try:
            read = os.read(ours, 65536)
        except OSError:
            break
        if not read:
            break
        drawn += read
    os.close(ours)
    assert b"60000 networks" in process.stdout.read()
    assert process.wait(timeout=30) == 0
    assert b"MiB" in drawn or b"KiB" in drawn
