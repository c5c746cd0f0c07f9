"""The functions of `whered.spark`, on a cluster of processes: two workers of one core each.

They are skipped where pyspark or Java is missing.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
pa = pytest.importorskip("pyarrow")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Java is not installed", allow_module_level=True)

import whered  # noqa: E402
import whered.spark  # noqa: E402

from conftest import NETWORKS, database_bytes  # noqa: E402

PACKAGE = str(pathlib.Path(whered.__file__).resolve().parents[1])
IPS = ["192.0.2.7", None, "198.51.100.1", "nonsense", "2001:db8::1", "203.0.113.1"]
COUNTRIES = ["DE", None, "FR", None, "JP", None]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    paths = os.pathsep.join([PACKAGE, os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executorEnv.PYTHONPATH", paths)
        .config("spark.local.dir", str(tmp_path_factory.mktemp("spark")))
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "4")
        .config("spark.task.maxFailures", "1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def frame(spark: Any) -> Any:
    rows = [(row, ip) for row, ip in enumerate(IPS)]
    return spark.createDataFrame(rows, "row int, ip string").repartition(3)


@pytest.fixture
def own_database(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "own.mmdb"
    path.write_bytes(database_bytes(NETWORKS))
    return path


def in_order(frame: Any) -> list[Any]:
    return [tuple(row) for row in frame.orderBy("row").collect()]


def test_enrich_adds_columns_in_the_fields_types(frame: Any, own_database: pathlib.Path) -> None:
    fields = ["country.iso_code", "city.names.en", "location.latitude", "number"]
    enriched = whered.spark.enrich(frame, own_database, fields, network=True)
    assert enriched.dtypes == [
        ("row", "int"), ("ip", "string"), ("country_iso_code", "string"),
        ("city_names_en", "string"), ("location_latitude", "double"),
        ("number", "decimal(20,0)"), ("network", "string"),
    ]  # fmt: skip
    rows = in_order(enriched)
    assert [row[2] for row in rows] == COUNTRIES
    assert rows[0] == (0, "192.0.2.7", "DE", "Berlin", 52.5, 7, "192.0.2.0/24")
    assert rows[2][5] == 1 << 40
    assert rows[3] == (3, "nonsense", None, None, None, None, None)


def test_enrich_writes_the_index_once_and_workers_map_it(
    spark: Any, frame: Any, own_database: pathlib.Path
) -> None:
    index = own_database.with_name("own.mmdb.index")
    for ship in (True, False):
        enriched = whered.spark.enrich(frame, own_database, {"land": "country.iso_code"}, ship=ship)
        assert [row[2] for row in in_order(enriched)] == COUNTRIES
        written = index.stat().st_mtime_ns if ship else written
        assert index.stat().st_mtime_ns == written

    def is_mapped(batches: Any) -> Any:
        from whered import spark as on_worker

        databases = [kept for kept in on_worker._opened.values()]
        for _ in batches:
            mapped = [kept.is_index_mapped for kept in databases]
            yield pa.record_batch({"mapped": pa.array([bool(mapped) and all(mapped)])})

    # Its processes serve the next job as well, with what they have opened.
    answers = spark.range(0, 8, 1, 2).mapInArrow(is_mapped, "mapped boolean").collect()
    assert answers and all(row.mapped for row in answers)


def test_a_worker_without_the_file_names_it(frame: Any, own_database: pathlib.Path) -> None:
    enriched = whered.spark.enrich(frame, own_database, ["country.iso_code"], ship=False)
    own_database.unlink()
    with pytest.raises(Exception, match="there is no file .*own.mmdb on the worker .*: copy it"):
        enriched.collect()


def test_a_worker_without_the_index_names_it(frame: Any, own_database: pathlib.Path) -> None:
    enriched = whered.spark.enrich(frame, own_database, ["country.iso_code"], ship=False)
    own_database.with_name("own.mmdb.index").unlink()
    with pytest.raises(Exception, match="there is no file .*own.mmdb.index on the worker"):
        enriched.collect()


def test_a_replaced_database_is_shipped_again(frame: Any, own_database: pathlib.Path) -> None:
    old = whered.spark.enrich(frame, own_database, ["country.iso_code"])
    assert [row[2] for row in in_order(old)] == COUNTRIES
    new = own_database.with_name("new.mmdb")
    new.write_bytes(database_bytes({"192.0.2.0/24": {"country": {"iso_code": "NL"}}}))
    os.replace(new, own_database)
    replaced = whered.spark.enrich(frame, own_database, ["country.iso_code"])
    assert [row[2] for row in in_order(replaced)] == ["NL"] + [None] * 5
    # A frame that was made before keeps the database that it was made with.
    assert [row[2] for row in in_order(old)] == COUNTRIES


def test_an_index_that_cannot_be_written_is_shipped_all_the_same(
    frame: Any, own_database: pathlib.Path
) -> None:
    # A folder in the index's place: no file can be renamed over it.
    own_database.with_name("own.mmdb.index").mkdir()
    enriched = whered.spark.enrich(frame, own_database, ["country.iso_code"])
    assert [row[2] for row in in_order(enriched)] == COUNTRIES
    with pytest.raises(OSError, match="own.mmdb.index"):
        whered.spark.enrich(frame, own_database, ["country.iso_code"], ship=False)


def test_columns_that_are_missing_or_there_twice_are_refused(
    frame: Any, own_database: pathlib.Path
) -> None:
    with pytest.raises(ValueError, match=r"no column \['address'\]; it has \['row', 'ip'\]"):
        whered.spark.enrich(frame, own_database, column="address")
    with pytest.raises(ValueError, match="'row'.*twice"):
        whered.spark.enrich(frame, own_database, {"row": "country.iso_code"})
    with pytest.raises(ValueError, match="country.iso_cod"):
        whered.spark.enrich(frame, own_database, ["country.iso_cod"])
    with pytest.raises(FileNotFoundError, match="absent.mmdb"):
        whered.spark.enrich(frame, "absent.mmdb")


def test_invalid_strings_can_end_the_job(frame: Any, own_database: pathlib.Path) -> None:
    enriched = whered.spark.enrich(frame, own_database, ["country.iso_code"], invalid="raise")
    with pytest.raises(Exception, match="ValueError.*nonsense"):
        enriched.collect()


needs_sets = pytest.mark.skipif(not hasattr(whered, "PrefixSet"), reason="no PrefixSet is built")
needs_points = pytest.mark.skipif(not hasattr(whered, "Points"), reason="no Points are built")


@needs_sets
@pytest.mark.parametrize("kind", ["mapping", "table", "frame"])
def test_match_adds_prefix_and_value(kind: str, spark: Any, frame: Any) -> None:
    prefixes: Any = {"192.0.2.0/24": "abuse", "2001:db8::/32": "test"}
    columns = {"prefix": list(prefixes), "value": list(prefixes.values())}
    if kind == "table":
        prefixes = pa.table(columns)
    elif kind == "frame":
        prefixes = spark.createDataFrame(list(prefixes.items()), "prefix string, value string")
    matched = whered.spark.match(frame, prefixes)
    assert matched.dtypes[2:] == [("prefix", "string"), ("value", "string")]
    rows = in_order(matched)
    assert rows[0][2:] == ("192.0.2.0/24", "abuse")
    assert rows[4][2:] == ("2001:db8::/32", "test")
    assert rows[1][2:] == rows[3][2:] == rows[5][2:] == (None, None)


@needs_sets
def test_match_reads_a_file(frame: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "blocked.txt"
    path.write_text("192.0.2.0/24\n2001:db8::/32\n")
    for ship in (True, False):
        matched = whered.spark.match(frame, path, into=("block", "reason"), ship=ship)
        assert [row.block for row in matched.orderBy("row").collect()] == [
            "192.0.2.0/24", None, None, None, "2001:db8::/32", None
        ]  # fmt: skip
    with pytest.raises(ValueError, match="takes the path of a file"):
        whered.spark.match(frame, ["192.0.2.0/24"], ship=False)


@needs_points
def test_nearest_joins_each_row_with_its_point(spark: Any) -> None:
    places = spark.createDataFrame(
        [(0, 8.1, 50.0), (1, 9.0, 51.0), (2, None, 50.0)], "row int, longitude double, latitude double"
    )
    shops = {"member": ["a", "b"], "longitude": [8.0, 9.0], "latitude": [50.0, 51.0]}
    joined = whered.spark.nearest(places, shops)
    assert joined.dtypes[3:] == [("member", "string"), ("distance_meters", "double")]
    rows = in_order(joined)
    assert [row[3] for row in rows] == ["a", "b", None]
    assert rows[0][4] == pytest.approx(7_150, abs=2)
    points = whered.Points()
    points.add(*shops.values())
    near = whered.spark.nearest(places, points, radius_meters=100, into=("shop", "meters"))
    assert [row.shop for row in near.orderBy("row").collect()] == [None, "b", None]


@needs_points
def test_nearest_gives_several_points_a_row_in_order(spark: Any) -> None:
    places = spark.createDataFrame([(0, 8, 50), (1, 9, 51)], "row int, lon int, lat int")
    shops = {"member": ["a", "b", "c"], "longitude": [8.0, 9.0, 20.0], "latitude": [50.0, 51.0, 0]}
    joined = whered.spark.nearest(places, shops, longitude="lon", latitude="lat", count=2)
    rows = [(row.row, row["rank"], row.member) for row in joined.collect()]
    assert sorted(rows) == [(0, 1, "a"), (0, 2, "b"), (1, 1, "b"), (1, 2, "a")]


@needs_points
def test_points_that_are_none_are_refused_on_the_driver(spark: Any) -> None:
    places = spark.createDataFrame([(0, 8.0, 50.0)], "row int, longitude double, latitude double")
    with pytest.raises(ValueError, match="no column"):
        whered.spark.nearest(places, {"member": ["a"]})
    with pytest.raises(ValueError, match="latitude"):
        whered.spark.nearest(places, {"member": ["a"], "longitude": [0.0], "latitude": [95.0]})
