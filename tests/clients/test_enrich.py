"""`whered enrich` held against Python: its csv and json modules read what we write, and maxminddb
says what should stand there, for 20,000 random records of each format, good and bad."""

import csv
import gzip
import io
import ipaddress
import json
import os
import random
import re
import select
import subprocess

import maxminddb
import pytest

from conftest import BINARY, REPOSITORY

RECORDS = 20_000
FIELDS = ["country.iso_code", "city.names.en", "autonomous_system_number", "location.latitude", "net:label"]
NAMES = [*FIELDS[:4], "label"]
SPLIT_FAULTS = {"empty line", "not a log line", "a quote that does not end", "wrong number of columns", "not a JSON object"}


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    """A city database and a second one, whose labels need every kind of escape."""
    folder = tmp_path_factory.mktemp("databases")
    rows = (REPOSITORY / "crates/whered/demo/addresses.csv").read_text()
    (folder / "city.csv").write_text(rows)
    with open(folder / "net.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["network", "label", "country.iso_code"])
        for number, label in enumerate(['a,b', 'say "hi"', "tab\there", "line\nend", "back\\slash", "é☃", "semi;colon", "plain"]):
            writer.writerow([f"{10 + number}.0.0.0/8", label, "ZZ"])
            writer.writerow([f"2001:db8:{number}::/48", label, "ZZ"])
    readers = {}
    for name in ["city", "net"]:
        path = folder / f"{name}.mmdb"
        subprocess.run([BINARY, "db", "build", folder / f"{name}.csv", "-o", path], check=True, capture_output=True, timeout=30)
        readers[name] = maxminddb.open_database(path)
    return folder, readers


def enrich(databases, *arguments, stdin=None, cwd=None, fields=FIELDS):
    folder, _ = databases
    command = [BINARY, "enrich", *map(str, arguments), "--db", folder / "city.mmdb", "--db", folder / "net.mmdb"]
    for field in fields:
        command += ["--field", field]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=120, cwd=cwd)


def bare(text):
    """The address in a text, by rules written down a second time."""
    text = text.strip(" \t\r\n\f")
    if match := re.fullmatch(r"\[([^\]]*)\](:[0-9]{1,5})?", text, re.ASCII):
        text = match[1]
    elif match := re.fullmatch(r"([0-9.]+):[0-9]{1,5}", text, re.ASCII):
        text = match[1]
        if ":" in text:
            return None
    if match := re.fullmatch(r"([0-9a-fA-F:.]*:[0-9a-fA-F:.]*)%.+", text, re.DOTALL):
        text = match[1]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if address.version == 6 and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def values(databases, text):
    """What the fields of an address are; nothing if it is none."""
    address = bare(text)
    if address is None:
        return None
    found = {name: reader.get(address) or {} for name, reader in databases[1].items()}

    def field(record, path):
        for name in path.split("."):
            record = record.get(name) if isinstance(record, dict) else None
        return record

    return [field(found["net"], "label") if name == "label" else field(found["city"], name) for name in NAMES]


def an_address(chance):
    kind = chance.randrange(14)
    four = f"{chance.choice([8, 10, 11, 12, 13, 14, 15, 16, 17, 192, 200])}.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(256)}"
    if kind < 7:
        return chance.choice([four, "8.8.8.8", "1.1.1.1", "192.0.2.7", "193.0.0.1"])
    six = str(ipaddress.ip_address(0x2001_0DB8 << 96 | chance.randrange(9) << 80 | chance.getrandbits(chance.choice([8, 64]))))
    return [six, "2001:4860:4860::8888", f"::ffff:{four}", f"[{six}]:443", f"{four}:8080", chance.choice(["-", "", "unknown", "1.2.3", "1.2.3.04", "::g", "[::1", four + ".1", "fe80::1%eth0"]), six][kind - 7]


def counts(done):
    match = re.fullmatch(rb"whered: (\d+) records: (\d+) found, (\d+) not found, (\d+) bad( \(the first: .*\))?\n", done.stderr)
    assert match, done.stderr
    return [int(match[n]) for n in range(1, 5)]


class Tally:
    """What the counts at the end should be."""

    def __init__(self):
        self.counts = [0, 0, 0, 0]

    def add(self, fields, fault):
        self.counts[0] += 1
        self.counts[3 if fault else 1 if any(value is not None for value in fields) else 2] += 1


NOTHING = [None] * len(NAMES)


def judged(databases, text, fault=None):
    """Fields and fault of a record whose address is written like that."""
    fields = None if fault else values(databases, text)
    return (NOTHING, fault or "no IP address") if fields is None else (fields, None)


def json_line(members, fields, fault):
    members = [*members, *zip(NAMES, fields)]
    return members + [("enrich_error", fault)] if fault else members


def shown(value):
    return "" if value is None else str(value)


def csv_cells(cells, delimiter):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\r\n").writerow(["x", *cells])
    return out.getvalue()[1:-2]


def tsv_text(text):
    for plain, escaped in [("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")]:
        text = text.replace(plain, escaped)
    return text


LOG_NAMES = ["remote_addr", "ident", "remote_user", "time_local", "request", "status", "body_bytes_sent", "http_referer", "http_user_agent"]


def log_records(chance):
    """Lines, and for each its parts and rest, or nothing."""
    for _ in range(RECORDS):
        if chance.random() < 0.03:
            yield chance.choice([b"", b"hello", b"1.1.1.1 - - [x", b'1.1.1.1 - - [x] "GET', b'1.1.1.1 - - [x] "GET" 200', b"\0\0", b"8.8.8.8"]), None
            continue
        # A bracket or blank would make another part of it.
        address = an_address(chance).replace("[::1", "-") or "-"
        if address.startswith("["):
            address = "-"
        agent = chance.choice(["curl/8", "-", "Mozilla (é)", 'say \\"x\\"', "a\\\\", "", "nul\0", "x" * chance.randrange(300), "\udcff\udcfe"])
        parts = [address, "-", chance.choice(["-", "bob"]), "10/Nov/2026:13:55:36 +0000", chance.choice(["GET / HTTP/1.1", "-", ""]), chance.choice(["200", "-", "007"]), chance.choice(["0", "17", "-"])]
        line = '{} {} {} [{}] "{}" {} {}'.format(*parts)
        rest = None
        if chance.random() < 0.8:
            parts += [chance.choice(["-", "https://example.com/?a=b"]), agent]
            line += ' "{}" "{}"'.format(*parts[7:])
            if chance.random() < 0.2:
                rest = '"10.0.0.1" 0.003'
                line += " " + rest
        yield line.encode("utf-8", "surrogateescape"), (parts, rest)


def plain(text):
    """What JSON can hold of bytes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def log_members(parts, rest):
    for name, text in zip(LOG_NAMES, parts + ["-"] * (9 - len(parts))):
        if text == "-":
            yield name, None
        elif name in ("status", "body_bytes_sent") and text.isdigit() and (text == "0" or text[0] != "0"):
            yield name, int(text)
        else:
            yield name, plain(text)
    if rest is not None:
        yield "rest", rest


@pytest.mark.parametrize("threads", [1, 5])
def test_logs_become_objects(databases, tmp_path, threads):
    tally, lines, expected = Tally(), [], []
    for line, parsed in log_records(random.Random(1)):
        lines.append(line)
        if parsed is None:
            fields = NOTHING
            members = [("line", line.decode())]
            fault = "empty line" if not line else "a quote that does not end" if b"[x" in line and not line.endswith(b"200") else "not a log line"
        else:
            fields, fault = judged(databases, parsed[0][0])
            members = log_members(*parsed)
        tally.add(fields, fault)
        expected.append(json_line(members, fields, fault))
    (tmp_path / "access.log").write_bytes(b"\n".join(lines) + b"\n")
    done = enrich(databases, "access.log", "--threads", threads, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line, object_pairs_hook=list) for line in done.stdout.decode().splitlines()] if b"\x85" not in done.stdout else [json.loads(line, object_pairs_hook=list) for line in done.stdout.decode().split("\n")[:-1]]
    assert len(found) == len(expected)
    for line, have, want in zip(lines, found, expected):
        assert have == want, line
    assert counts(done) == tally.counts


def test_logs_keep_their_lines_or_become_tables(databases):
    lines, same, table = [], [], []
    for line, parsed in log_records(random.Random(2)):
        fields, fault = (NOTHING, None) if parsed is None else judged(databases, parsed[0][0])
        if parsed is None:
            fault = "empty line" if not line else "a quote that does not end" if b"[x" in line and not line.endswith(b"200") else "not a log line"
        lines.append(line)

        def quoted(value):
            text = "-" if value is None else str(value)
            text = text.replace("\\", "\\\\").replace('"', '\\"')
            return ' "' + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\x{ord(m[0]):02x}", text) + '"'

        end = "".join(map(quoted, fields)) + (f' "enrich_error: {fault}"' if fault else "")
        same.append(line + end.encode() + b"\r\n")
        cells = [""] * 9 + [line.decode()] if parsed is None else [*parsed[0], *[""] * (9 - len(parsed[0])), parsed[1] or ""]
        table.append([*cells, *map(shown, fields), fault or ""])
    text = b"\r\n".join(lines)
    done = enrich(databases, "--format", "same", "--input-format", "combined", stdin=text + b"\r\n")
    assert done.stdout.splitlines(keepends=True) == b"".join(same).splitlines(keepends=True)
    assert done.stdout == b"".join(same)
    done = enrich(databases, "--format", "csv", "--input-format", "combined", stdin=text)
    rows = list(csv.reader(io.StringIO(done.stdout.decode("utf-8", "surrogateescape"), newline="")))
    assert rows[0] == [*LOG_NAMES, "rest", *NAMES, "enrich_error"]
    assert rows[1:] == table
    done = enrich(databases, "--format", "tsv", "--input-format", "combined", stdin=text)
    tsv = ["\t".join(map(tsv_text, row)) for row in rows]
    assert done.stdout.decode("utf-8", "surrogateescape").split("\n") == [*tsv, ""]


def csv_records(chance, delimiter):
    """Raw rows, their cells and fault."""
    for _ in range(RECORDS):
        cells = [chance.choice(["1", "", "x y", "é", 'say "hi"', "a,b;c", "two\nlines", "nul\0"]), an_address(chance), "z" * chance.randrange(30)]
        fault = None
        if chance.random() < 0.02:
            cells = chance.choice([["only"], ["a", "8.8.8.8"], ["a", "8.8.8.8", "c", "d"]])
            fault = "wrong number of columns"
        raw = delimiter.join('"{}"'.format(cell.replace('"', '""')) if chance.random() < 0.2 or re.search(r'[",;\n]', cell) else cell for cell in cells)
        yield raw, cells, fault


@pytest.mark.parametrize("delimiter,end", [(",", "\n"), (";", "\r\n")])
def test_rows_keep_their_bytes_and_are_read_by_python(databases, delimiter, end):
    tally = Tally()
    header = delimiter.join(["when", "client_ip", "what"])
    raws, expected = [], [header + csv_cells([*NAMES, "enrich_error"], delimiter)]
    objects, tsv = [], ["\t".join(["when", "client_ip", "what", *NAMES, "enrich_error"])]
    for raw, cells, fault in csv_records(random.Random(3), delimiter):
        fields, fault = judged(databases, cells[1] if len(cells) > 1 else "", fault)
        tally.add(fields, fault)
        raws.append(raw)
        missing = [""] * (3 - len(cells))
        expected.append(raw + delimiter * len(missing) + csv_cells([*map(shown, fields), fault or ""], delimiter))
        tsv.append("\t".join(map(tsv_text, [*cells, *missing, *map(shown, fields), fault or ""])))
        members = [("line", raw)] if fault in SPLIT_FAULTS else zip(["when", "client_ip", "what"], cells)
        objects.append(json_line(members, fields, fault))
    text = end.join([header, *raws]).encode()
    done = enrich(databases, stdin=text)
    assert done.stdout.decode() == "".join(line + end for line in expected[:-1]) + expected[-1] + "\n"
    assert counts(done) == tally.counts
    rows = list(csv.reader(io.StringIO(done.stdout.decode(), newline=""), delimiter=delimiter))
    assert len(rows) == RECORDS + 1 and all(len(row) >= 9 for row in rows)
    done = enrich(databases, "--format", "ndjson", stdin=text)
    assert [json.loads(line, object_pairs_hook=list) for line in done.stdout.decode().split("\n")[:-1]] == objects
    done = enrich(databases, "--format", "tsv", stdin=text)
    assert done.stdout.decode() == "".join(line + "\n" for line in tsv)


def test_tab_separated_rows(databases):
    chance, raws, expected, objects = random.Random(4), [], [], []
    for _ in range(RECORDS):
        cells = [an_address(chance), chance.choice(["", '"', 'a"b', "x,y", "\\t"])]
        if chance.random() < 0.02:
            cells.append("more")
        fault = "wrong number of columns" if len(cells) == 3 else None
        fields, fault = judged(databases, cells[0], fault)
        raws.append("\t".join(cells))
        expected.append("\t".join([raws[-1], *(tsv_text(shown(field)) for field in fields), fault or ""]))
        members = [("line", raws[-1])] if fault in SPLIT_FAULTS else zip(["column_1", "column_2"], cells)
        objects.append(json_line(members, fields, fault))
    text = "\n".join(raws).encode()
    done = enrich(databases, "--input-format", "tsv", "--column", "1", "--header", "no", stdin=text)
    assert done.stdout.decode().split("\n") == [*expected, ""]
    done = enrich(databases, "--input-format", "tsv", "--column", "column_1", "--header", "no", "--format", "ndjson", stdin=text)
    assert [json.loads(line, object_pairs_hook=list) for line in done.stdout.decode().split("\n")[:-1]] == objects


def test_objects_get_members(databases):
    chance, tally, lines, expected = random.Random(5), Tally(), [], []
    for _ in range(RECORDS):
        address = an_address(chance)
        record = {"n": chance.choice([1, -0.5, 1e300, None, True]), "source": {"ip": address, "deep": [{"ip": "9.9.9.9"}, []]}, "text": chance.choice(["", "é", '"', "\n", "☃", "{}"])}
        line = json.dumps(record, ensure_ascii=chance.random() < 0.5, separators=chance.choice([(",", ":"), (" , ", " : ")]))
        fault = None
        roll = chance.random()
        if roll < 0.02:
            line = chance.choice(["", "nope", "[1]", line[:-1], line + "x", '{"a":\0}', '{"a":01}'])
            fault = "not a JSON object" if line else "empty line"
        elif roll < 0.04:
            line, fault = chance.choice(["{}", '{"source":{}}', '{"source":{"ip":5}}', '{"ip":"8.8.8.8"}']), "no such member"
        elif roll < 0.06:
            line = f"  {line} \t"
        fields, fault = judged(databases, address, fault)
        tally.add(fields, fault)
        lines.append(line)
        members = [("line", line)] if fault in SPLIT_FAULTS or fault == "empty line" else json.loads(line, object_pairs_hook=list)
        expected.append(json_line(members, fields, fault))
    done = enrich(databases, "--column", "source.ip", "--input-format", "ndjson", stdin="\n".join(lines).encode())
    found = [json.loads(line, object_pairs_hook=list) for line in done.stdout.decode().split("\n")[:-1]]
    for line, have, want in zip(lines, found, expected, strict=True):
        assert have == want, line
    assert counts(done) == tally.counts
    good = "\n".join(line for line in lines[:1000] if line.startswith('{"n"'))
    assert enrich(databases, stdin=good.encode()).stdout == enrich(databases, "--column", "source.ip", stdin=good.encode()).stdout


LOG = b'8.8.8.8 - - [10/Nov/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 17 "-" "curl/8"\n'


def packed(kind, data):
    if kind == "plain":
        return data
    if kind == "gzip":
        # Two members, as log rotation that appends makes them.
        return gzip.compress(data[: len(data) // 2]) + gzip.compress(data[len(data) // 2 :])
    return b""


@pytest.mark.parametrize("inputs", ["combined", "csv", "tsv", "ndjson"])
@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_every_format_packed_and_not(databases, tmp_path, inputs, ending):
    text = {
        "combined": LOG * 30_000,
        "csv": b"ip,n\n" + b"8.8.8.8,1\n" * 30_000,
        "tsv": b"ip\tn\n" + b"8.8.8.8\t1\n" * 30_000,
        "ndjson": b'{"ip":"8.8.8.8"}\n' * 30_000,
    }[inputs]
    plain = enrich(databases, "--format", "same", stdin=text)
    assert plain.returncode == 0 and counts(plain)[:2] == [30_000, 30_000]
    # What we packed is unpacked by others, and by ourselves.
    name = f"out.log{ending}"
    (tmp_path / "in.log").write_bytes(text)
    done = enrich(databases, "in.log", "--format", "same", "-o", name, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    made = (tmp_path / name).read_bytes()
    if ending == ".gz":
        assert gzip.decompress(made) == plain.stdout
        assert len(made) < len(plain.stdout) / 5
    elif ending == "":
        assert made == plain.stdout
    again = enrich(databases, name, "--format", "same", "--threads", 3, cwd=tmp_path)
    assert again.stdout == enrich(databases, "--format", "same", stdin=plain.stdout).stdout
    if ending == ".gz":
        (tmp_path / "two.gz").write_bytes(packed("gzip", text))
        done = enrich(databases, "two.gz", "--format", "same", cwd=tmp_path)
        assert done.stdout == plain.stdout


def test_odd_inputs(databases, tmp_path):
    for text, code in [(b"", 1), (b"\n", 1), (LOG[:-1], 0), (LOG.replace(b"\n", b"\r\n"), 0), (b"\xef\xbb\xbfip\n8.8.8.8\n", 0), (b"10.255.0.1\n", 0), (b"203.0.113.77,a\n100.64.0.1,b\n", None)]:
        done = enrich(databases, stdin=text)
        assert code is None or done.returncode == code, (text, done.stderr)
    assert enrich(databases, "--column", "1", stdin=b"100.64.0.1\n").returncode == 1
    # A line far longer than a block, among others.
    long = LOG.replace(b"curl", b"c" * 5_000_000)
    done = enrich(databases, stdin=LOG + long + LOG)
    lines = done.stdout.split(b"\n")
    assert counts(done)[:2] == [3, 3] and len(lines) == 4 and len(lines[1]) > 5_000_000
    # One quote that never ends is one bad record, not the rest of the file.
    rows = b"ip,what\n" + b"8.8.8.8,x\n" * 1000 + b'8.8.8.8,"x\n' + b"8.8.8.8,x\n" * 300_000
    done = enrich(databases, stdin=rows)
    assert counts(done) == [301_001, 301_000, 0, 1]
    assert b"record 1001, a quote that does not end" in done.stderr
    # Several inputs with the same header are one; another header is an error.
    for name, text in [("a.csv", b"ip,n\n8.8.8.8,1"), ("b.csv", b"ip,n\r\n1.1.1.1,2\n"), ("c.csv", b"n,ip\n"), ("d.csv", b"")]:
        (tmp_path / name).write_bytes(text)
    done = enrich(databases, "a.csv", "d.csv", "b.csv", cwd=tmp_path, fields=["country.iso_code"])
    assert done.stdout == b"ip,n,country.iso_code,enrich_error\n8.8.8.8,1,US,\n1.1.1.1,2,AU,\n"
    done = enrich(databases, "a.csv", "c.csv", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr == b"whered: c.csv: its header is not that of the first input\n"


def test_order_is_kept_over_many_threads(databases):
    lines = [LOG.replace(b"curl/8", b"%d" % number) for number in range(60_000)]
    done = enrich(databases, "--threads", 16, "--format", "same", stdin=b"".join(lines))
    end = enrich(databases, "--format", "same", stdin=LOG).stdout[len(LOG) - 1 :]
    assert done.stdout == b"".join(line[:-1] + end for line in lines)


def test_a_live_log_is_not_held_back(databases):
    folder, _ = databases
    command = [BINARY, "enrich", "--db", folder / "city.mmdb", "--field", "country.iso_code"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        for _ in range(3):
            process.stdin.write(LOG)
            process.stdin.flush()
            assert select.select([process.stdout], [], [], 20)[0], "nothing came within 20 seconds"
            assert json.loads(process.stdout.readline())["country.iso_code"] == "US"
        process.stdin.close()
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.wait(timeout=10)


def test_a_closed_pipe_is_no_failure(databases, tmp_path):
    (tmp_path / "a.log").write_bytes(LOG * 100_000)
    command = f"'{BINARY}' enrich a.log --db '{databases[0] / 'city.mmdb'}' | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_wrong_input_is_one_line_and_leaves_no_output(databases, tmp_path):
    folder, _ = databases
    (tmp_path / "a.log").write_bytes(LOG * 10)
    (tmp_path / "names.csv").write_bytes(b"name,place\na,b\n")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(os.urandom(100_000) + LOG)[:-50_000])
    (tmp_path / "a.ndjson").write_bytes(b'{"a":"b"}\n')
    (tmp_path / "folder").mkdir()
    city = ["--db", folder / "city.mmdb"]
    for arguments, words in [
        (["missing.log", *city], "missing.log: "),
        (["folder", *city], "folder: is a folder"),
        (["names.csv", *city], "name one by --column"),
        (["a.ndjson", *city], "name one by --column"),
        (["names.csv", *city, "--column", "what"], "allowed: 1 to 2 or name, place"),
        (["a.log", *city, "--column", "99"], "no such part"),
        (["cut.gz", *city, "--input-format", "combined"], "cut.gz: "),
        (["a.log", "--db", "a.log"], "a.log"),
        (["a.log"], "--db"),
        (["a.log", *city, *city], "NAME="),
        (["a.log", *city, "--field", "no.such.field"], "no record has it in city"),
        (["a.log", *city, "--field", "a..b"], "--field a..b"),
        (["a.log", *city, "--field", "country", "--field", "country"], "asked for twice"),
        (["a.log", *city, "--threads", "0"], "allowed: 1 to 1024"),
        (["a.log", *city, "-o", "folder"], "folder: is a folder"),
        (["a.log", *city, "-o", "missing/out.csv"], "missing/out.csv"),
        (["a.ndjson", *city, "--column", "a", "-o", "out.csv"], "allowed as --format"),
        (["a.log", *city, "-o", "/dev/full"], "/dev/full: "),
    ]:
        target = [] if "-o" in arguments else ["-o", "out.x"]
        done = subprocess.run([BINARY, "enrich", *map(str, arguments), *target], capture_output=True, text=True, timeout=30, cwd=tmp_path)
        assert done.returncode == 2, arguments
        assert len(done.stderr.splitlines()) == 1 and words in done.stderr, (arguments, done.stderr)
        assert "panicked" not in done.stderr
    assert not list(tmp_path.glob("out*"))


def test_the_usual_fields_and_the_first_database_that_has_one(databases):
    done = enrich(databases, stdin=b'{"ip":"11.0.0.1"}\n', fields=[])
    assert list(json.loads(done.stdout)) == ["ip", "country.iso_code", "city.names.en", "location.latitude", "location.longitude", "autonomous_system_number"]
    done = enrich(databases, stdin=b'{"ip":"11.0.0.1"}\n', fields=["label", "country.iso_code", "net:country.iso_code"])
    assert json.loads(done.stdout) == {"ip": "11.0.0.1", "label": 'say "hi"', "city:country.iso_code": None, "net:country.iso_code": "ZZ"}


def test_an_index_beside_the_database_changes_nothing_and_a_wrong_one_is_told(databases, tmp_path):
    (tmp_path / "city.mmdb").write_bytes((databases[0] / "city.mmdb").read_bytes())
    (tmp_path / "net.mmdb").write_bytes((databases[0] / "net.mmdb").read_bytes())
    chance = random.Random(11)
    lines = "".join(f"{an_address(chance)}\n" for _ in range(5000)).encode()
    here = (tmp_path, databases[1])
    arguments = ["--input-format", "csv", "--header", "no", "--column", "1"]
    for form in ["same", "ndjson"]:
        plain = enrich(databases, *arguments, "--format", form, stdin=lines)
        assert counts(plain)[1] > 1000
        # All fields are in it, then some, one of them in another place, then none of them.
        for fields in [FIELDS[:4], ["location.latitude", "city.names.en"], ["continent"], []]:
            for form_of_index, name, chosen in [("compact", "city", fields), ("fast", "net", ["label"])]:
                command = [BINARY, "db", "index", tmp_path / f"{name}.mmdb", "--form", form_of_index]
                command += [argument for field in chosen for argument in ("--field", field)]
                done = subprocess.run(command, capture_output=True, timeout=30, check=True)
                size = (tmp_path / f"{name}.mmdb.index").stat().st_size
                assert re.fullmatch(rf".*/{name}\.mmdb\.index: [0-9]+ records, {size} bytes\n", done.stdout.decode())
            done = enrich(here, *arguments, "--format", form, stdin=lines)
            assert (done.stdout, done.stderr) == (plain.stdout, plain.stderr)
    good = (tmp_path / "city.mmdb.index").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "city.mmdb", "city.mmdb.index", "net.mmdb", "net.mmdb.index"]
    damaged = bytearray(good)
    damaged[len(good) // 2] ^= 1
    wrong = {
        b"": "fewer bytes",
        b"no index at all": "no index",
        good[:-1]: "checksum",
        bytes(damaged): "checksum",
        (tmp_path / "net.mmdb.index").read_bytes(): "another database",
    }
    for content, what in wrong.items():
        (tmp_path / "city.mmdb.index").write_bytes(content)
        done = enrich(here, *arguments, "--format", "ndjson", stdin=lines)
        told, rest = done.stderr.split(b"\n", 1)
        assert told.startswith(f"whered: {tmp_path}/city.mmdb.index: ".encode()), told
        assert told.endswith(b"; it is not used"), told
        assert (done.stdout, rest) == (plain.stdout, plain.stderr), what
    (tmp_path / "city.mmdb.index").unlink()
    (tmp_path / "city.mmdb.index").mkdir()
    done = enrich(here, *arguments, "--format", "ndjson", stdin=lines)
    assert (done.stdout, done.stderr.count(b"\n"), done.returncode) == (plain.stdout, 2, 0)
    broken = subprocess.run([BINARY, "db", "index", tmp_path / "net.mmdb.index"], capture_output=True, timeout=30)
    assert (broken.returncode, broken.stderr.count(b"\n")) == (2, 1)


def test_an_output_leaves_all_other_files_as_they_are(databases, tmp_path):
    folder, _ = databases
    (tmp_path / "in.csv").write_text("ip\n8.8.8.8\n")
    (tmp_path / "out.csv.new").write_text("precious")
    (tmp_path / "kept.csv").write_text("old")
    (tmp_path / "kept.csv").chmod(0o600)
    (tmp_path / "out.csv").symlink_to("kept.csv")
    assert enrich(databases, "in.csv", "-o", "out.csv", cwd=tmp_path).returncode == 0
    assert (tmp_path / "out.csv.new").read_text() == "precious"
    assert (tmp_path / "out.csv").is_symlink() and "US" in (tmp_path / "kept.csv").read_text()
    assert (tmp_path / "kept.csv").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "kept.csv", "out.csv", "out.csv.new"]
    before = (folder / "city.mmdb").read_bytes()
    done = enrich(databases, "in.csv", "-o", folder / "city.mmdb", cwd=tmp_path)
    assert done.returncode == 2 and b"it is the database" in done.stderr
    assert (folder / "city.mmdb").read_bytes() == before
