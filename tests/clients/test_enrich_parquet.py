"""`whered enrich` with Parquet in and out, read back by pyarrow: columns keep their types and values,
added fields have their database's, and a file that was cut is one line."""

import csv
import datetime
import decimal
import ipaddress
import json
import random
import subprocess

import pytest

from conftest import BINARY

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = 20_000
TEXTS = ["8.8.8.8", "193.0.0.1", "2001:4860:4860::8888", "nope", None, "9.9.9.9", "[2001:4860:4860::8888]:443"]
# What the database below says of these: country, number, share, label.
KNOWN = {
    "8.8.8.8": ("US", 15169, 0.5, None),
    "2001:4860:4860::8888": ("US", 15169, None, "x"),
    "[2001:4860:4860::8888]:443": ("US", 15169, None, "x"),
    "193.0.0.1": ("NL", 70000, 1.25, "y"),
}
FIELDS = ["country.iso_code", "asn", "share", "label"]


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    folder = tmp_path_factory.mktemp("databases")
    (folder / "rows.csv").write_text(
        "network,country.iso_code,asn:uint32,share:double,label\n"
        "8.8.8.0/24,US,15169,0.5,\n2001:4860::/32,US,15169,,x\n193.0.0.0/21,NL,70000,1.25,y\n"
    )
    subprocess.run([BINARY, "db", "build", folder / "rows.csv", "-o", folder / "city.mmdb"], check=True, capture_output=True, timeout=30)
    return folder / "city.mmdb"


def enrich(city, *arguments, fields=FIELDS, stdin=None):
    command = [BINARY, "enrich", *map(str, arguments), "--db", city]
    for field in fields:
        command += ["--field", field]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=120)


def table(rows=ROWS, seed=1):
    chance = random.Random(seed)
    texts = [chance.choice(TEXTS) for _ in range(rows)]
    numbers = range(rows)
    return pa.table({
        "id": pa.array(numbers, pa.int64()),
        "client_ip": pa.array(texts, pa.string()),
        "dictionary": pa.array(texts).dictionary_encode(),
        "tags": pa.array([["a", None][: n % 3] for n in numbers], pa.list_(pa.string())),
        "forwarded": pa.array([None if text is None else ["unknown", text] for text in texts], pa.list_(pa.string())),
        "client": pa.array([None if text is None else {"ip": text, "port": 1} for text in texts], pa.struct([("ip", pa.string()), ("port", pa.uint16())])),
        "number": pa.array([None if n % 5 == 0 else int(ipaddress.ip_address("8.8.8.8")) for n in numbers], pa.uint32()),
        "packed": pa.array([ipaddress.ip_address("2001:4860:4860::8888").packed] * rows, pa.binary(16)),
        "time": pa.array([datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=n) for n in numbers], pa.timestamp("us", "UTC")),
        "price": pa.array([decimal.Decimal(n) / 4 for n in numbers], pa.decimal128(12, 2)),
        "large": pa.array(texts, pa.large_string()),
        "view": pa.array(texts).cast(pa.string_view()),
        "map": pa.array([[("a", n)] for n in numbers], pa.map_(pa.string(), pa.int32())),
        "float": pa.array([None if n % 3 == 0 else n / 8 for n in numbers], pa.float32()),
        "day": pa.array([datetime.date(2026, 1, 1)] * rows),
        "bytes": pa.array([b"\x00\xff"] * rows, pa.binary()),
    }).replace_schema_metadata({"owner": "ann"})


def expected(text):
    return KNOWN.get(text, (None,) * 4)


def fault(text):
    return "no IP address" if text in (None, "nope") else None


def test_columns_keep_types_and_values_and_fields_have_those_of_their_database(city, tmp_path):
    before = table()
    pq.write_table(before, tmp_path / "in.parquet", row_group_size=3000, compression="snappy")
    done = enrich(city, tmp_path / "in.parquet", "-o", tmp_path / "out.parquet")
    assert done.returncode == 0, done.stderr
    after = pq.read_table(tmp_path / "out.parquet")
    assert after.schema.names == [*before.schema.names, *FIELDS, "enrich_error"]
    for name in before.schema.names:
        assert after[name].type == before[name].type, name
        assert after[name].to_pylist() == before[name].to_pylist(), name
    assert [after[name].type for name in FIELDS] == [pa.string(), pa.uint32(), pa.float64(), pa.string()]
    assert after.schema.metadata[b"owner"] == b"ann"
    texts = before["client_ip"].to_pylist()
    for row, (text, found) in enumerate(zip(texts, zip(*(after[name].to_pylist() for name in FIELDS)))):
        assert found == expected(text), row
    assert after["enrich_error"].to_pylist() == [fault(text) for text in texts]
    found = sum(text in KNOWN for text in texts)
    bad = sum(fault(text) is not None for text in texts)
    assert done.stderr.startswith(f"whered: {ROWS} records: {found} found, {ROWS - found - bad} not found, {bad} bad".encode())
    described = [pq.ParquetFile(tmp_path / name).schema for name in ["in.parquet", "out.parquet"]]
    for at in range(len(described[0])):
        # A decimal may be written in another width, with the same precision.
        logical = [str(schema.column(at)).split("logical_type")[1] for schema in described]
        assert logical[0] == logical[1]


@pytest.mark.parametrize("column", ["client_ip", "2", "dictionary", "client.ip", "large", "view", "forwarded", "number", "packed"])
def test_column_names_a_column_of_text_lists_numbers_or_bytes(city, tmp_path, column):
    before = table(500)
    pq.write_table(before, tmp_path / "in.parquet")
    done = enrich(city, tmp_path / "in.parquet", "--column", column, "-o", tmp_path / "out.parquet")
    assert done.returncode == 0, done.stderr
    found = pq.read_table(tmp_path / "out.parquet")["country.iso_code"].to_pylist()
    texts = before["client_ip"].to_pylist()
    by_column = {
        "number": [None if n % 5 == 0 else "US" for n in range(500)],
        "packed": ["US"] * 500,
    }
    assert found == by_column.get(column, [expected(text)[0] for text in texts])


@pytest.mark.parametrize("column, found", [("price", "Decimal128(12, 2)"), ("none", "no such column"), ("client", "Struct")])
def test_a_column_that_holds_no_addresses_is_refused(city, tmp_path, column, found):
    pq.write_table(table(5), tmp_path / "in.parquet")
    done = enrich(city, tmp_path / "in.parquet", "--column", column, "-o", tmp_path / "out.parquet")
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1
    assert found in done.stderr.decode() and "allowed" in done.stderr.decode()
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
def test_files_of_every_compression_and_without_a_name_are_read(city, tmp_path, compression):
    pq.write_table(table(300), tmp_path / "in", compression=compression)
    done = enrich(city, tmp_path / "in", "-o", tmp_path / "out.parquet")
    assert done.returncode == 0, done.stderr
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 300


def test_several_files_are_one_and_other_columns_are_refused(city, tmp_path):
    for number in range(3):
        pq.write_table(table(100, number), tmp_path / f"{number}.parquet")
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    done = enrich(city, *paths, "-o", tmp_path / "out.parquet")
    assert done.returncode == 0, done.stderr
    together = pa.concat_tables([table(100, number) for number in range(3)], promote_options="default")
    assert pq.read_table(tmp_path / "out.parquet")["client_ip"].to_pylist() == together["client_ip"].to_pylist()
    pq.write_table(table(5).drop(["day"]), tmp_path / "other.parquet")
    done = enrich(city, paths[0], tmp_path / "other.parquet", "-o", tmp_path / "no.parquet")
    assert done.returncode == 2 and b"has 15 columns; allowed: the same 16 columns" in done.stderr
    (tmp_path / "x.csv").write_text("ip\n8.8.8.8\n")
    done = enrich(city, paths[0], tmp_path / "x.csv", "-o", tmp_path / "no.parquet")
    assert done.returncode == 2 and b"is no Parquet file" in done.stderr
    assert not (tmp_path / "no.parquet").exists()


def test_rows_become_json_and_cells(city, tmp_path):
    before = table(200)
    pq.write_table(before, tmp_path / "in.parquet")
    done = enrich(city, tmp_path / "in.parquet")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 200, done.stderr
    texts = before["client_ip"].to_pylist()
    for line, row, text in zip(lines, before.to_pylist(), texts):
        assert tuple(line[name] for name in FIELDS) == expected(text)
        assert line.get("enrich_error") == fault(text)
        for name in ["id", "client_ip", "dictionary", "tags", "forwarded", "client", "number", "large", "view", "float"]:
            assert line[name] == row[name], name
        assert line["time"] == row["time"].strftime("%Y-%m-%dT%H:%M:%SZ") and line["bytes"] == "00ff"
        assert decimal.Decimal(str(line["price"])) == row["price"]
    done = enrich(city, tmp_path / "in.parquet", "-o", tmp_path / "out.csv")
    assert done.returncode == 0
    with open(tmp_path / "out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["client_ip"] for row in rows] == [text or "" for text in texts]
    assert [row["asn"] for row in rows] == ["" if expected(text)[1] is None else str(expected(text)[1]) for text in texts]
    assert json.loads(rows[1]["tags"]) == ["a"]


def test_logs_and_tables_become_columns_of_text(city, tmp_path):
    line = '8.8.8.8 - ann [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 17 "-" "curl/8"\n'
    done = enrich(city, "-o", tmp_path / "log.parquet", stdin=(line * 2 + "broken\n").encode())
    assert done.returncode == 0, done.stderr
    rows = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert [row["remote_addr"] for row in rows] == ["8.8.8.8", "8.8.8.8", None]
    assert rows[0]["ident"] is None and rows[0]["status"] == "200" and rows[0]["asn"] == 15169
    assert rows[2]["rest"] == "broken" and rows[2]["enrich_error"] == "not a log line"
    done = enrich(city, "-o", tmp_path / "table.parquet", stdin=b'user,ip\n"a ""b""",193.0.0.1\nx\n')
    assert done.returncode == 0, done.stderr
    rows = pq.read_table(tmp_path / "table.parquet").to_pylist()
    assert rows[0] == {"user": 'a "b"', "ip": "193.0.0.1", "line": None, **dict(zip(FIELDS, KNOWN["193.0.0.1"])), "enrich_error": None}
    assert rows[1]["line"] == "x" and rows[1]["enrich_error"] == "wrong number of columns"
    for stdin, message in [(b"ip,ip\n8.8.8.8,1\n", b"two columns of the output have the name 'ip'")]:
        done = enrich(city, "-o", tmp_path / "no.parquet", stdin=stdin)
        assert done.returncode == 2 and message in done.stderr, done.stderr
        assert not (tmp_path / "no.parquet").exists()


def test_a_file_cut_anywhere_is_one_line_and_no_output(city, tmp_path):
    pq.write_table(table(50).select(["client_ip", "tags"]), tmp_path / "in.parquet")
    whole = (tmp_path / "in.parquet").read_bytes()
    chance = random.Random(3)
    for size in {0, 1, 3, 4, 8, 12, len(whole) - 1, len(whole) - 8, *(chance.randrange(len(whole)) for _ in range(20))}:
        (tmp_path / "cut.parquet").write_bytes(whole[:size])
        done = enrich(city, tmp_path / "cut.parquet", "-o", tmp_path / "out.parquet")
        assert done.returncode == 2 and done.stderr.count(b"\n") == 1, (size, done.stderr)
        assert b"cut.parquet: cannot be read as Parquet: " in done.stderr
        assert not list(tmp_path.glob("out.parquet*"))


def test_a_second_run_keeps_the_faults_of_the_first_and_refuses_a_field_that_is_there(city, tmp_path):
    pq.write_table(table(200), tmp_path / "in.parquet")
    assert enrich(city, tmp_path / "in.parquet", "-o", tmp_path / "one.parquet", fields=["asn"]).returncode == 0
    done = enrich(city, tmp_path / "one.parquet", "--column", "packed", "-o", tmp_path / "two.parquet", fields=["label"])
    assert done.returncode == 0, done.stderr
    one, two = pq.read_table(tmp_path / "one.parquet"), pq.read_table(tmp_path / "two.parquet")
    assert two.schema.names == [*table(1).schema.names, "asn", "label", "enrich_error"]
    assert two["enrich_error"].to_pylist() == one["enrich_error"].to_pylist()
    done = enrich(city, tmp_path / "one.parquet", "--column", "packed", fields=["label"])
    found = [json.loads(line).get("enrich_error") for line in done.stdout.splitlines()]
    assert found == one["enrich_error"].to_pylist()
    done = enrich(city, tmp_path / "one.parquet", "-o", tmp_path / "no.parquet", fields=["asn"])
    assert done.returncode == 2 and b"has a column 'asn' already; allowed: " in done.stderr


def test_parquet_on_standard_input_is_read_as_a_file_is(city, tmp_path):
    pq.write_table(table(300), tmp_path / "in.parquet")
    whole = (tmp_path / "in.parquet").read_bytes()
    from_file = enrich(city, tmp_path / "in.parquet")
    for arguments in [[], ["-"], ["--input-format", "parquet"]]:
        done = enrich(city, *arguments, stdin=whole)
        assert done.returncode == 0 and done.stdout == from_file.stdout, done.stderr
    done = enrich(city, "-o", tmp_path / "out.parquet", stdin=whole)
    assert done.returncode == 0 and pq.read_table(tmp_path / "out.parquet").num_rows == 300, done.stderr
    for size in [4, 5, 100, len(whole) - 1]:
        done = enrich(city, stdin=whole[:size])
        assert done.returncode == 2 and done.stderr.startswith(b"whered: standard input: ") and done.stderr.count(b"\n") == 1, (size, done.stderr)
    done = enrich(city, "-", "-", "--input-format", "parquet", stdin=whole)
    assert done.returncode == 2 and b"asked for twice" in done.stderr


def test_objects_become_columns_of_their_members(city, tmp_path):
    records = [{"ip": "8.8.8.8", "n": 1.50, "tags": ["a", {"b": None}], "e": "é\"", "nothing": None} for _ in range(100)]
    records += [{"ip": "193.0.0.1", "new": True, "line": 7}, {"n": "text"}]
    text = "".join(json.dumps(record) + "\n" for record in records) + "broken\n" + '{"ip":"x","enrich_error":"earlier"}\n{"ip":"8.8.8.8","enrich_error":"earlier"}\n'
    done = enrich(city, "-o", tmp_path / "out.parquet", stdin=text.encode())
    assert done.returncode == 0, done.stderr
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.schema.names == ["ip", "n", "tags", "e", "nothing", "other_members", "line", *FIELDS, "enrich_error"]
    rows = found.to_pylist()
    assert len(rows) == 105
    assert rows[0]["n"] == "1.5" and json.loads(rows[0]["tags"]) == ["a", {"b": None}] and rows[0]["e"] == 'é"' and rows[0]["nothing"] is None
    assert json.loads(rows[100]["other_members"]) == {"new": True, "line": 7} and rows[100]["asn"] == KNOWN["193.0.0.1"][1]
    assert rows[101]["n"] == "text" and rows[101]["enrich_error"] == "no such member"
    assert rows[102]["line"] == "broken" and rows[102]["ip"] is None and rows[102]["enrich_error"] == "not a JSON object"
    assert [row["enrich_error"] for row in rows[103:]] == ["no IP address", "earlier"]
    array = json.dumps(records[:50])
    done = enrich(city, "-o", tmp_path / "array.parquet", stdin=array.encode())
    assert done.returncode == 0 and pq.read_table(tmp_path / "array.parquet").num_rows == 50, done.stderr
