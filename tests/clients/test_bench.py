"""`whered bench`: the data that it makes is read by others, and its measuring program agrees with itself."""

import json
import subprocess

import maxminddb
import pytest

from conftest import BINARY, program


def whered(*arguments):
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    done = whered("bench", "data", "--out", folder, "--scale", "small", "--seed", "7")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == [str(folder / "city.mmdb"), str(folder / "asn.mmdb")]
    return folder


def test_the_same_seed_gives_the_same_files(data, tmp_path):
    assert whered("bench", "data", "--out", tmp_path, "--scale", "small", "--seed", "7").returncode == 0
    for name in ["city.mmdb", "asn.mmdb"]:
        assert (tmp_path / name).read_bytes() == (data / name).read_bytes()


def test_made_up_data_has_the_real_ones_shape_for_other_readers(data):
    with maxminddb.open_database(data / "city.mmdb") as city:
        assert city.metadata().database_type == "GeoLite2-City"
        record = city.get("1.2.3.4")
        assert set(record) <= {"city", "continent", "country", "location", "postal", "registered_country", "subdivisions"}
        assert set(record["country"]["names"]) == {"de", "en", "es", "fr", "ja", "pt-BR", "ru", "zh-CN"}
        assert isinstance(record["location"]["latitude"], float)
        assert city.get("::ffff:1.2.3.4") == record
        assert city.get("2002:102:304::") == record
        assert city.get("2001:0:102:304::") == record
    with maxminddb.open_database(data / "asn.mmdb") as asn:
        found = [record for _, record in zip(range(100), (record for _, record in asn))]
        assert all(set(record) == {"autonomous_system_number", "autonomous_system_organization"} for record in found)


def test_mmdblookup_reads_the_data(data):
    path = program("mmdblookup", "mmdb-bin")
    done = subprocess.run(
        [path, "-f", data / "city.mmdb", "-i", "1.2.3.4", "country", "iso_code"], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    assert "<utf8_string>" in done.stdout


def test_measuring_gives_rows_whose_checksums_agree(data):
    done = whered("bench", "lookup", "--db", data / "city.mmdb", "--addresses", 2000, "--round", 200, "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["settings"]["addresses"] == 2000
    names = {row["engine"] for row in report["rows"]}
    assert {"whered-stream", "whered-tree", "whered-memory", "whered-compact", "whered-fast"} <= names
    tasks = {row["task"] for row in report["rows"]}
    assert {"binary->row/batch", "binary->record/single", "text->fields/batch", "binary->copies/single"} <= tasks
    checksums = {}
    for row in report["rows"]:
        assert row["cpu_nanoseconds"] > 0
        wants = row["task"].split("->")[1].split("/")[0].replace("copies", "fields").replace("row", "record")
        checksums.setdefault((row["addresses"], wants, row["count"]), set()).add(row["checksum"])
    assert all(len(found) == 1 for found in checksums.values()), checksums
    means = {(row["engine"], row["addresses"]): row["mean"] for row in report["memory_accesses"]}
    assert means["whered-compact", "networks4"] < means["whered-memory", "networks4"]


def test_the_table_is_for_people_and_threads_share_the_work(data):
    done = whered("bench", "lookup", "--db", data / "city.mmdb", "--addresses", 1000, "--round", 100, "--threads", 2)
    assert done.returncode == 0, done.stderr
    assert "threads: 2" in done.stdout
    assert "networks4  binary->fields/batch   whered-compact" in done.stdout
    assert "memory accesses of a lookup" in done.stdout


def test_wrong_calls_give_one_line(data, tmp_path):
    for arguments in [
        ("bench", "lookup", "--db", tmp_path / "missing.mmdb"),
        ("bench", "lookup", "--db", data / "city.mmdb", "--threads", "0"),
        ("bench", "lookup", "--db", data / "city.mmdb", "--core", "100000"),
        ("bench", "data", "--out", data / "city.mmdb"),
    ]:
        done = whered(*arguments)
        assert done.returncode == 2, arguments
        assert len(done.stderr.splitlines()) == 1, (arguments, done.stderr)
