"""`whered enrich` on 1,000 lines of every named log format, held against the generator of the lines."""

import bz2
import gzip
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import BINARY
from log_samples import FORMATS, access, azure, combined, sample, Chance

KNOWN = {"8.8.8.8": "US", "193.0.0.1": "NL", "2001:4860:4860::8888": "US"}


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    folder = tmp_path_factory.mktemp("databases")
    (folder / "rows.csv").write_text("network,country\n8.8.8.0/24,US\n2001:4860::/32,US\n193.0.0.0/21,NL\n")
    subprocess.run([BINARY, "db", "build", folder / "rows.csv", "-o", folder / "city.mmdb"], check=True, capture_output=True, timeout=30)
    return folder / "city.mmdb"


def enrich(city, text, *arguments):
    done = subprocess.run([BINARY, "enrich", "--db", city, "--field", "country", *map(str, arguments)], input=text, capture_output=True, timeout=60)
    return done, [json.loads(line) for line in done.stdout.splitlines()] if done.returncode < 2 else None


def rows(city, text, *arguments):
    command = [BINARY, "enrich", "--db", city, "--field", "country", *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, timeout=60)


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


@pytest.mark.parametrize("make", FORMATS[3:17], ids=lambda make: make.__name__)
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
    assert (b", 1 cut lines\n" in done.stderr) == bool(cut)


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


COMBINED = '{} - - [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 17 "-" "curl/8"\n'
OLD_FORMATS = {
    "combined": ('05:00 +0000] "GET / HTTP/1.1" 200 17\n', "", COMBINED),
    "csv": ("x\n", "", "ann,{},1\n"),
    "csv with a header": ("n,1\n", "user,ip,count\n", "ann,{},1\n"),
    "tsv": ("x\t1\n", "", "ann\t{}\t1\t2\n"),
    "ndjson": ('er":"ann"}\n', "", '{{"ip":"{}","user":"ann"}}\n'),
}


@pytest.mark.parametrize("cut, header, line", OLD_FORMATS.values(), ids=OLD_FORMATS)
def test_a_first_line_that_a_rotation_has_cut_is_skipped_and_counted_in_every_format(city, tmp_path, cut, header, line):
    lines = "".join(line.format(address) for address in ["8.8.8.8", "193.0.0.1", "10.0.0.1", "8.8.8.9"])
    whole, _ = enrich(city, (header + lines).encode(), "--format", "ndjson")
    done, found = enrich(city, (cut + header + lines).encode(), "--format", "ndjson")
    assert found is not None and done.stdout == whole.stdout, (done.stdout, done.stderr)
    assert done.stderr.endswith(b"; skipped: 0 comments, 0 empty lines, 1 cut lines\n"), done.stderr
    assert b"cut" not in whole.stderr
    if header:
        return
    for name in ["a.log", "b.log"]:
        (tmp_path / name).write_text(cut + lines)
    done, _ = enrich(city, b"", "--format", "ndjson", tmp_path / "a.log", tmp_path / "b.log")
    assert done.stdout == whole.stdout * 2 and b", 2 cut lines\n" in done.stderr


@pytest.mark.parametrize("text", ["user,ip\rann,8.8.8.8\rbob,193.0.0.1\r", "user,ip\rann,8.8.8.8\rbob,193.0.0.1"])
def test_lines_that_end_with_a_carriage_return_alone_are_lines(city, text):
    done = rows(city, text.encode())
    assert done.stdout == b"user,ip,country,enrich_error\nann,8.8.8.8,US,\nbob,193.0.0.1,NL,\n", done.stderr


@pytest.mark.parametrize("encoding, name", [("utf-16-le", b"utf-16le"), ("utf-16-be", b"utf-16be")])
def test_utf_16_without_a_mark_is_refused_with_its_name(city, encoding, name):
    done, _ = enrich(city, (COMBINED.format("8.8.8.8") * 5).encode(encoding))
    assert done.returncode == 2 and b"without a byte order mark; allowed: --encoding " + name in done.stderr


def test_zeros_may_follow_gzip_and_other_bytes_are_an_error(city):
    packed = gzip.compress(COMBINED.format("8.8.8.8").encode())
    done, found = enrich(city, packed + bytes(3000))
    assert found is not None and len(found) == 1, done.stderr
    done, _ = enrich(city, packed + b"rest")
    assert done.returncode == 2 and b"other bytes behind its gzip; allowed: " in done.stderr


def test_names_that_are_there_are_refused_unless_a_prefix_makes_others(city, tmp_path):
    (tmp_path / "a.csv").write_text("ip\n8.8.8.8\n")
    (tmp_path / "a.ndjson").write_text('{"ip":"8.8.8.8"}\n{"ip":"x"}\n')
    for name in ["a.csv", "a.ndjson"]:
        once = tmp_path / f"once-{name}"
        done = rows(city, b"", tmp_path / name, "-o", once)
        assert done.returncode == 0, done.stderr
        done = rows(city, b"", once)
        assert done.returncode == 2 and b"'country' already; allowed: other names, by --prefix" in done.stderr
    done = rows(city, b"", tmp_path / "once-a.csv", "--prefix", "new.")
    assert done.stdout == b"ip,country,enrich_error,new.country,new.enrich_error\n8.8.8.8,US,,US,\n"
    done, found = enrich(city, b"", tmp_path / "once-a.ndjson", "--prefix", "new.")
    assert found[1] == {"ip": "x", "country": None, "enrich_error": "no IP address", "new.country": None, "new.enrich_error": "no IP address"}
    # One fault of an earlier run stays one.
    (tmp_path / "b.ndjson").write_text('{"ip":"8.8.8.8"}\n{"ip":"x","enrich_error":"earlier"}\n')
    done, found = enrich(city, b"", tmp_path / "b.ndjson")
    assert found[1] == {"ip": "x", "enrich_error": "earlier", "country": None} and done.stdout.count(b"enrich_error") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_unfinished_file(city, tmp_path, number):
    command = [BINARY, "enrich", "--db", city, "--field", "country", "-o", tmp_path / "out.ndjson"]
    run = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    run.stdin.write((COMBINED.format("8.8.8.8") * 100).encode())
    run.stdin.flush()
    deadline = time.monotonic() + 20
    while not list(tmp_path.glob("out.ndjson.*")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    run.send_signal(number)
    assert run.wait(timeout=20) == 128 + number
    run.stdin.close()
    run.stderr.close()
    assert list(tmp_path.iterdir()) == []


# A process begins with the memory of the one that made it: a small one makes the one to measure.
MEASURE = """
import os, subprocess, sys
run = subprocess.Popen(sys.argv[1:])
_, status, usage = os.wait4(run.pid, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def run_measured(command, write):
    """The exit code, standard error and the most memory in MiB of a command with this input."""
    read_end, write_end = os.pipe()
    command = [sys.executable, "-c", MEASURE, *map(str, command), "-o", "/dev/null"]
    run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=write_end)
    os.close(write_end)
    try:
        write(run.stdin)
        run.stdin.close()
    except BrokenPipeError:
        pass
    memory = int(run.stdout.read())
    run.stdout.close()
    code = run.wait(timeout=20)
    with os.fdopen(read_end, "rb") as errors:
        return code, errors.read(), memory >> 10


LONG = {
    "a log line": (COMBINED.format("8.8.8.8").encode(), b"x", b"\n"),
    "a CSV cell": (b"ip,text\n8.8.8.8,a\n8.8.8.8,", b"x", b"\n"),
    "a JSON record": (b'{"ip":"8.8.8.8"}\n{"ip":"8.8.8.8","text":"', b"x", b'"}\n'),
    "an element of a JSON array": (b'[{"ip":"8.8.8.8"},{"ip":"8.8.8.8","text":"', b"x", b'"}]'),
    "the first line": (b"", b"x", b"\n"),
}


@pytest.mark.parametrize("before, byte, behind", LONG.values(), ids=LONG)
def test_a_record_beyond_the_limit_is_one_line_and_takes_no_more_memory_than_the_limit(city, before, byte, behind):
    def write(stdin):
        stdin.write(before)
        for _ in range(70):
            stdin.write(byte * 1_000_000)
        stdin.write(behind)
    command = [BINARY, "enrich", "--db", city, "--field", "country"]
    code, errors, memory = run_measured(command, write)
    assert code == 2 and errors.count(b"\n") == 1, errors
    assert b"standard input: a record of more than 64 MiB; allowed: less" in errors
    assert memory < 400


def test_a_record_of_64_mib_is_read_and_one_byte_more_is_not(city):
    most = 64 << 20
    line = b'{"ip":"8.8.8.8","text":"%s"}'
    for size, code in [(most, 0), (most + 1, 2)]:
        text = line % (b"x" * (size - len(line) + 2))
        assert len(text) == size
        for end in [b"\n" + line % b"", b""]:
            done = subprocess.run([BINARY, "enrich", "--db", city, "--field", "country", "-o", "/dev/null"], input=text + end, capture_output=True, timeout=120)
            assert done.returncode == code, (size, end, done.stderr)


def test_a_quoted_cell_beyond_the_limit_makes_its_line_bad_and_the_rest_goes_on(city):
    def write(stdin):
        stdin.write(b'ip,text\n8.8.8.8,"')
        for _ in range(5):
            stdin.write((b"x" * 99 + b"\n") * 10_000)
        stdin.write(b'"\n193.0.0.1,a\n')
    command = [BINARY, "enrich", "--db", city, "--field", "country"]
    code, errors, memory = run_measured(command, write)
    assert code == 0 and b"1 found" in errors and b"a quote that does not end" in errors, errors
    assert memory < 400
