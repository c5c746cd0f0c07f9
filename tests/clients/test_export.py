"""`whered export`: files that DuckDB and pandas read, with what the server holds."""

import json
import subprocess

import pytest
import redis

from conftest import BINARY

duckdb = pytest.importorskip("duckdb")
pandas = pytest.importorskip("pandas")
parquet = pytest.importorskip("pyarrow.parquet")
feather = pytest.importorskip("pyarrow.feather")

MEMBERS = 30_000


@pytest.fixture
def server(serve):
    server = serve()
    with redis.Redis(port=server.resp) as client:
        client.url = f"redis://127.0.0.1:{server.resp}"
        pipeline = client.pipeline(transaction=False)
        for number in range(MEMBERS):
            pipeline.geoadd("cafes", (number % 360 - 179.5, number % 170 - 84.5, f"café {number}"))
        pipeline.execute()
        yield client


def export(server, folder, *arguments):
    command = [BINARY, "export", *map(str, arguments), "--server", server.url]
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=120)


def places(server):
    """What GEOPOS says of every member."""
    members = [f"café {number}" for number in range(MEMBERS)]
    return dict(zip(members, server.geopos("cafes", *members)))


def check(server, members, longitudes, latitudes):
    found = dict(zip(members, zip(longitudes, latitudes)))
    wanted = places(server)
    assert len(members) == len(found) == MEMBERS
    for member, (longitude, latitude) in wanted.items():
        assert found[member] == pytest.approx((longitude, latitude), abs=1e-9)


def test_parquet_is_geoparquet_for_duckdb_and_pandas(server, tmp_path):
    done = export(server, tmp_path, "cafes", "-o", "cafes.parquet")
    assert (done.returncode, done.stderr) == (0, b"")
    frame = pandas.read_parquet(tmp_path / "cafes.parquet")
    check(server, frame["member"], frame["longitude"], frame["latitude"])
    rows = duckdb.sql(f"SELECT member, longitude, latitude FROM '{tmp_path}/cafes.parquet'").fetchall()
    check(server, *zip(*rows))
    ((count, west),) = duckdb.sql(f"SELECT count(*), min(longitude) FROM '{tmp_path}/cafes.parquet'").fetchall()
    geo = json.loads(parquet.read_metadata(tmp_path / "cafes.parquet").metadata[b"geo"])
    assert (geo["version"], geo["primary_column"]) == ("1.1.0", "geometry")
    column = geo["columns"]["geometry"]
    assert (column["encoding"], column["geometry_types"]) == ("WKB", ["Point"])
    assert (count, column["bbox"][0]) == (MEMBERS, west)


def test_arrow_and_csv_hold_the_same(server, tmp_path):
    for name in ["cafes.arrow", "cafes.csv"]:
        assert export(server, tmp_path, "cafes", "-o", name).returncode == 0
    table = feather.read_table(tmp_path / "cafes.arrow").to_pydict()
    check(server, table["member"], table["longitude"], table["latitude"])
    frame = pandas.read_csv(tmp_path / "cafes.csv", float_precision="round_trip")
    check(server, frame["member"], frame["longitude"], frame["latitude"])
    piped = export(server, tmp_path, "cafes", "-o", "-", "--format", "csv").stdout
    assert piped == (tmp_path / "cafes.csv").read_bytes()


def test_what_is_not_there_leaves_no_file(server, tmp_path):
    done = export(server, tmp_path, "nothing", "-o", "nothing.parquet")
    assert (done.returncode, list(tmp_path.glob("nothing*"))) == (1, [])
    assert b"there is no table and no collection 'nothing'" in done.stderr
    done = export(server, tmp_path, "cafes", "-o", "cafes.xlsx")
    assert done.returncode == 2 and b".parquet, .arrow, .csv" in done.stderr
    server.set("text", "x")
    done = export(server, tmp_path, "text", "-o", "text.csv")
    assert done.returncode == 2 and b"'text' is a string" in done.stderr
    server.geoadd("odd", (1, 2, b"\xff"))
    done = export(server, tmp_path, "odd", "-o", "odd.parquet")
    assert done.returncode == 2 and b"--binary" in done.stderr
    assert not list(tmp_path.glob("odd*"))
    assert export(server, tmp_path, "odd", "-o", "odd.parquet", "--binary").returncode == 0
    assert pandas.read_parquet(tmp_path / "odd.parquet")["member"][0] == b"\xff"
