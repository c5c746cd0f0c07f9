"""`whered-bench`: the data that it makes is read by others, and its measuring program agrees with itself."""

import json
import socket
import subprocess

import maxminddb
import pytest

from conftest import BINARY, REQUIRED, program


def bench(*arguments):
    return subprocess.run([BINARY.with_name("whered-bench"), *map(str, arguments)], capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    done = bench("data", "--out", folder, "--scale", "small", "--seed", "7")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == [str(folder / "city.mmdb"), str(folder / "asn.mmdb")]
    return folder


def test_the_same_seed_gives_the_same_files(data, tmp_path):
    assert bench("data", "--out", tmp_path, "--scale", "small", "--seed", "7").returncode == 0
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
    done = bench("lookup", "--db", data / "city.mmdb", "--addresses", 2000, "--round", 200, "--format", "json")
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
    done = bench("lookup", "--db", data / "city.mmdb", "--addresses", 1000, "--round", 100, "--threads", 2)
    assert done.returncode == 0, done.stderr
    assert "threads: 2" in done.stdout
    assert "networks4  binary->fields/batch   whered-compact" in done.stdout
    assert "memory accesses of a lookup" in done.stdout


def geo(tmp_path, *arguments):
    """A run that is too short to say anything about speed; all on one core, which every machine has."""
    short = ["--rounds", 1, "--seconds", 0.02, "--driver-core", 0, "--json", tmp_path / "geo.json"]
    done = bench("geo", "--points", 3000, *short, *arguments)
    assert done.returncode == 0, done.stderr
    return done, json.loads((tmp_path / "geo.json").read_text())


def test_geo_measures_every_class_and_scenario_of_its_own_server(tmp_path):
    done, report = geo(tmp_path)
    listed = bench("geo", "--list").stdout.split("\n")
    classes = [line.split()[0] for line in listed if "/" in line.split(" ")[0]]
    rows = {row["class"]: row for row in report["rows"]}
    assert classes and set(classes) <= set(rows)
    assert {"everysec/moves-200m/8x16", "two-threads/moves-200m/8x16", "beside-search/with-search/search/1x1"} <= set(rows)
    assert all(rows[name]["cpu_nanoseconds"] > 0 and rows[name]["operations"] > 0 for name in classes)
    assert rows["beside-search/with-search/search/1x1"]["elements_per_reply"] > 500
    loads = {load["what"]: load["points"] for load in report["loads"]}
    assert loads == {"load": 3000, "all-moved": 3000, "everysec": 3000, "two-threads": 3000, "fewer-points": 1000}
    assert "nearest-5km-dense/8x16" in done.stdout and "wanted 95000 to 106000" in done.stdout


def test_geo_drives_a_redis_that_runs_already_and_leaves_members_at_home(tmp_path):
    path = program("redis-server", "redis-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", tmp_path]
    redis = subprocess.Popen([path, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert any("Ready to accept connections" in line for line in redis.stdout)
        server = ["--server", f"127.0.0.1:{port}", "--pid", redis.pid]
        _, first = geo(tmp_path, *server, "--classes", "radius,geopos,moves")
        _, again = geo(tmp_path, *server, "--classes", "radius,box")
    finally:
        redis.kill()
        redis.communicate()
    assert first["loads"][0]["what"] == "load" and again["loads"][0]["what"] == "had the points"
    members = lambda report: [row["elements_per_reply"] for row in report["rows"] if row["class"] == "radius-200km/8x1"]
    assert members(first) == members(again)
    circle = first["census"]["in_circle_of_200_km"]
    assert abs(members(first)[0] - circle) <= 1 and [row["class"] for row in again["rows"]][2] == "box-200km/8x1"


def test_wrong_calls_give_one_line(data, tmp_path):
    for arguments in [
        ("lookup", "--db", tmp_path / "missing.mmdb"),
        ("lookup", "--db", data / "city.mmdb", "--threads", "0"),
        ("lookup", "--db", data / "city.mmdb", "--core", "100000"),
        ("data", "--out", data / "city.mmdb"),
        ("geo", "--classes", "no-such-class"),
        ("geo", "--points", "3"),
        ("geo", "--server", "127.0.0.1:1"),
    ]:
        done = bench(*arguments)
        assert done.returncode == 2, arguments
        assert len(done.stderr.splitlines()) == 1, (arguments, done.stderr)


def test_the_program_says_where_its_bench_command_went():
    done = subprocess.run([BINARY, "bench", "geo", "--points", "3"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1 and "whered-bench" in done.stderr


@pytest.mark.parametrize(("kind", "programs"), [("nft", ["nft", "ip"]), ("ipset", ["ipset", "iptables-restore", "ip"])])
def test_no_packet_slips_through_while_a_set_is_written_changed_and_written_again(kind, programs):
    search = " && ".join(f"command -v {name}" for name in programs)
    if subprocess.run(["unshare", "-n", "sh", "-c", search], capture_output=True).returncode != 0:
        reason = f"no network namespace with {programs} here"
        if REQUIRED & {"kernel", "root"}:
            pytest.fail(reason)
        pytest.skip(reason)
    done = bench("sync", "--kind", kind, "--members", 20000, "--seconds", 1.5)
    # Exit code 0 only if nothing slipped.
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("| 0 |\n"), done.stdout
