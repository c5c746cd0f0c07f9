"""`whered enrich` on 1,000 lines of every named log format, held against the generator of the lines."""

import bz2
import gzip
import json
import lzma
import shutil
import subprocess

import pytest

from conftest import BINARY
from log_samples import FORMATS, access, azure, combined, sample, Chance

KNOWN = {"8.8.8.8": "US", "193.0.0.1": "NL", "2001:4860:4860::8888": "US"}


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    folder = tmp_path_factory.mktemp("databases")
    (folder / "rows.csv").write_text("network,country\n8.8.8.0/24,US\n2001:4860::/32,US\n193.0.0.0/21,NL\n")
    subprocess.run([BINARY, "db", "build", folder / "rows.csv", folder / "city.mmdb"], check=True, capture_output=True, timeout=30)
    return folder / "city.mmdb"


def enrich(city, text, *arguments):
    done = subprocess.run([BINARY, "enrich", "--db", city, "--field", "country", *map(str, arguments)], input=text, capture_output=True, timeout=60)
    return done, [json.loads(line) for line in done.stdout.splitlines()] if done.returncode < 2 else None


def check(found, records):
    assert len(found) == len(records)
    for line, (text, address, parts) in zip(found, records):
        assert line["country"] == KNOWN.get(address), text
        assert line.get("enrich_error") == (None if address else "no IP address"), text
        for name, value in parts.items():
            value = None if value == "-" else value
            assert line[name] == (int(value) if name in ("status", "body_bytes_sent") and value else value), (name, text)


@pytest.mark.parametrize("make", FORMATS, ids=lambda make: make.__name__)
def test_all_lines_of_a_format_are_read_right(city, make):
    header, records = sample(make)
    text = header + "".join(record[0] + "\n" for record in records)
    done, found = enrich(city, text.encode())
    assert found is not None, done.stderr
    check(found, records)
    if header:
        assert f"skipped: {header.count(chr(10))} comments, 0 empty lines".encode() in done.stderr


@pytest.mark.parametrize("make", FORMATS[3:16], ids=lambda make: make.__name__)
def test_a_format_that_is_named_skips_empty_lines_and_a_first_line_that_was_cut(city, make):
    header, records = sample(make, 20)
    name = {"nginx_error": "nginx-error", "sshd": "syslog", "iis": "w3c"}.get(make.__name__, make.__name__)
    cut = "" if header or name == "syslog" else records[0][0][-9:] + "\n"
    text = cut + header + "\r\n\n".join(record[0] for record in records) + "\n"
    done, found = enrich(city, text.encode(), "--input-format", name)
    assert found is not None, done.stderr
    check(found, records)
    assert f"{len(records) - 1} empty lines".encode() in done.stderr
    assert (b"the first line is no whole record" in done.stderr) == bool(cut)


def test_json_arrays_wrapped_arrays_and_pretty_printed_objects_are_records(city):
    _, records = sample(azure, 200)
    objects = [json.loads(record[0]) for record in records]
    for text in [json.dumps(objects), json.dumps(objects, indent=2), json.dumps({"records": objects}), json.dumps({"Records": objects}, indent=1), "\n".join(json.dumps(o, indent=2) for o in objects)]:
        done, found = enrich(city, text.encode())
        assert found is not None, done.stderr
        check(found, records)


def test_a_column_of_json_may_be_an_element_of_an_array(city):
    text = b'{"hops":[{"ip":"10.0.0.1"},{"ip":"8.8.8.8"}],"ips":["193.0.0.1","8.8.8.8"]}\n'
    for column, country in [("hops[1].ip", "US"), ("hops.1.ip", "US"), ("ips[0]", "NL"), ("ips", "NL")]:
        _, found = enrich(city, text, "--column", column)
        assert found[0]["country"] == country, column


@pytest.mark.parametrize("pattern", [
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"',
    '%h - %u %t \\"%r\\" %>s %b \\"%{Referer}i\\" \\"%{User-Agent}i\\"',
])
def test_a_pattern_of_nginx_or_apache_reads_its_own_lines(city, pattern):
    _, records = sample(combined)
    text = "".join(record[0] + "\n" for record in records)
    done, found = enrich(city, text.encode(), "--pattern", pattern)
    assert found is not None, done.stderr
    check(found, records)


def test_the_pattern_decides_where_the_address_is(city):
    text = b"a|193.0.0.1, 10.0.0.1|x y\nb|-|z\n"
    _, found = enrich(city, text, "--pattern", "$host|$http_x_forwarded_for|$rest")
    assert [line["country"] for line in found] == ["NL", None]
    done, _ = enrich(city, text, "--pattern", "$a$b")
    assert done.returncode == 2 and b"--pattern: " in done.stderr and done.stderr.count(b"\n") == 1


def test_anywhere_takes_the_first_public_address(city):
    text = b"x 10.0.0.1 then 8.8.8.8, 193.0.0.1\nno address 1.2.3\nonly 10.0.0.1.\n"
    _, found = enrich(city, text, "--anywhere")
    assert [line["country"] for line in found] == ["US", None, None]
    assert [line.get("enrich_error") for line in found] == [None, "no IP address", None]
    assert found[0]["message"] == "x 10.0.0.1 then 8.8.8.8, 193.0.0.1"


@pytest.mark.parametrize("encoding, flags", [("utf-16", []), ("utf-16-le", ["--encoding", "utf-16le"]), ("utf-16-be", ["--encoding", "utf-16be"]), ("iso-8859-1", ["--encoding", "iso-8859-1"])])
def test_encodings_are_read_as_text(city, encoding, flags):
    _, records = sample(combined, 300)
    text = "".join(record[0] + "\n" for record in records)
    done, found = enrich(city, text.encode(encoding), *flags)
    assert found is not None, done.stderr
    check(found, records)


def packed_by(name, *arguments):
    def pack(text):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
        return subprocess.run([name, *arguments], input=text, capture_output=True, check=True).stdout
    return pack


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress, packed_by("zstd", "-c"), packed_by("lz4", "-c")], ids=["gzip", "xz", "bzip2", "zstd", "lz4"])
def test_packed_input_is_read_and_half_of_it_is_an_error(city, pack):
    _, records = sample(combined, 300)
    packed = pack("".join(record[0] + "\n" for record in records).encode())
    done, found = enrich(city, packed)
    assert found is not None, done.stderr
    check(found, records)
    done, _ = enrich(city, packed[: len(packed) // 2])
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1, done.stderr


def test_a_zip_archive_is_refused_with_the_way(city):
    done, _ = enrich(city, b"PK\x03\x04" + bytes(60))
    assert done.returncode == 2 and b"zip" in done.stderr and b"unzip" in done.stderr


def test_lines_of_a_mixed_log_are_read_by_the_line(city):
    chance = Chance(5)
    records = []
    for number in range(100):
        line, address, parts = access(chance)
        records.append((("a.example:443 " if number % 3 == 0 else "") + line, address, parts))
    done, found = enrich(city, "".join(record[0] + "\n" for record in records).encode())
    assert found is not None, done.stderr
    check(found, records)
    assert [line["vhost"] for line in found] == ["a.example:443" if n % 3 == 0 else None for n in range(100)]


def test_columns_that_change_within_a_log_end_the_run(city):
    text = b"#Fields: date c-ip\n2026-11-20 8.8.8.8\n#Fields: c-ip date\n8.8.8.8 2026-11-20\n"
    done, _ = enrich(city, text)
    assert done.returncode == 2 and b"the columns change at the line #Fields: c-ip date; allowed: " in done.stderr
