"""The namespace `whered` of polars."""

from __future__ import annotations

import os
import pathlib
import shutil
from typing import Any

import pytest

pl = pytest.importorskip("polars")

import whered  # noqa: E402
import whered.polars  # noqa: E402

from conftest import NETWORKS, database_bytes  # noqa: E402

IPS = ["192.0.2.7", None, "198.51.100.1", "nonsense", "2001:db8::1", "203.0.113.1"]


@pytest.fixture
def frame() -> Any:
    return pl.DataFrame({"ip": IPS, "row": range(len(IPS))})


def test_each_short_method_reads_its_field(frame: Any, database_path: str) -> None:
    ip = pl.col("ip").whered
    answers = frame.select(
        ip.country(database_path).alias("country"),
        ip.city(database_path).alias("city"),
        ip.city(database_path, language="de").alias("stadt"),
        ip.latitude(database_path).alias("latitude"),
        ip.longitude(database_path).alias("longitude"),
        ip.subdivision(database_path).alias("subdivision"),
        ip.network(database_path).alias("network"),
        ip.field(database_path, "traits.is_anycast").alias("anycast"),
    )
    assert answers.row(0) == (
        "DE", "Berlin", "Berlin", 52.5, 13.25, "BE", "192.0.2.0/24", True
    )  # fmt: skip
    assert answers["country"].to_list() == ["DE", None, "FR", None, "JP", None]
    assert answers["stadt"].to_list() == ["Berlin", None, None, None, None, None]
    assert answers["network"].to_list()[1::2] == [None, None, answers["network"][5]]


def test_several_fields_are_a_struct_in_one_pass(frame: Any, database_path: str) -> None:
    paths = ["country.iso_code", "location.latitude"]
    expression = pl.col("ip").whered.fields(database_path, paths, network=True)
    answers = frame.select(expression.struct.unnest())
    assert answers.columns == [*paths, "network"]
    assert answers.row(2) == ("FR", 48.75, "198.51.100.0/25")
    assert answers.row(3) == (None, None, None)
    record = frame.select(pl.col("ip").whered.record(database_path, paths)).to_series()
    assert record.struct.unnest().equals(answers.select(paths))
    usual = frame.select(pl.col("ip").whered.fields(database_path)).to_series()
    assert [item.name for item in usual.dtype.fields] == whered.Database(database_path).fields


def test_a_location_is_a_struct_of_longitude_and_latitude(frame: Any, database_path: str) -> None:
    location = frame.select(pl.col("ip").whered.location(database_path)).to_series()
    assert location[0] == {"longitude": 13.25, "latitude": 52.5}
    assert location.equals(frame["ip"].whered.location(database_path))


def test_a_lazy_frame_knows_the_types_before_it_runs(frame: Any, database_path: str) -> None:
    ip = pl.col("ip").whered
    lazy = frame.lazy().select(
        ip.country(database_path).alias("country"),
        ip.latitude(database_path).alias("latitude"),
        ip.field(database_path, "number").alias("number"),
        ip.fields(database_path, ["country.iso_code"]).alias("struct"),
        ip.location(database_path).alias("location"),
    )
    schema = lazy.collect_schema()
    assert schema["country"] == pl.String
    assert schema["latitude"] == pl.Float64
    assert schema["struct"] == pl.Struct({"country.iso_code": pl.String})
    assert lazy.collect().schema == schema
    assert lazy.collect(engine="streaming").schema == schema


def test_the_streaming_engine_answers_as_the_other_one(database_path: str) -> None:
    frame = pl.DataFrame({"ip": IPS * 50_000, "row": range(50_000 * len(IPS))})
    lazy = frame.lazy().with_columns(
        country=pl.col("ip").whered.country(database_path),
        place=pl.col("ip").whered.location(database_path),
    )
    streamed = lazy.collect(engine="streaming").sort("row")
    assert streamed.equals(lazy.collect().sort("row"))
    assert streamed["country"].to_list()[: len(IPS)] == ["DE", None, "FR", None, "JP", None]


@pytest.mark.parametrize("kind", ["String", "Categorical", "UInt32", "sliced", "chunked", "empty"])
def test_each_kind_of_column_is_taken(kind: str, database_path: str) -> None:
    ip = pl.Series("ip", ["203.0.113.1", "192.0.2.7", None, "198.51.100.1"])
    expected = [None, "DE", None, "FR"]
    if kind == "Categorical":
        ip = ip.cast(pl.Categorical)
    elif kind == "UInt32":
        ip = pl.Series("ip", [0xCB007101, 0xC0000207, None, 0xC6336401], dtype=pl.UInt32)
    elif kind == "sliced":
        ip, expected = ip.slice(1, 2), expected[1:3]
    elif kind == "chunked":
        ip, expected = ip.append(ip.slice(1)), expected + expected[1:]
        assert ip.n_chunks() == 2
    elif kind == "empty":
        ip, expected = ip.clear(), []
    answer = ip.to_frame().select(pl.col("ip").whered.country(database_path)).to_series()
    assert answer.to_list() == expected
    assert answer.dtype == pl.String
    assert answer.name == "ip"
    assert ip.whered.country(database_path).equals(answer)


def test_a_column_of_another_type_is_refused(database_path: str) -> None:
    with pytest.raises(TypeError, match="Boolean"):
        pl.Series([True]).whered.country(database_path)
    frame = pl.DataFrame({"ip": [1.5]})
    with pytest.raises((TypeError, pl.exceptions.ComputeError), match="Float64"):
        frame.select(pl.col("ip").whered.country(database_path))


def test_invalid_strings_can_be_an_error(frame: Any, database_path: str) -> None:
    expression = pl.col("ip").whered.country(database_path, invalid="raise")
    with pytest.raises((ValueError, pl.exceptions.ComputeError), match="nonsense"):
        frame.select(expression)


def test_a_field_that_no_record_has_is_refused_before_anything_runs(database_path: str) -> None:
    with pytest.raises(ValueError, match="country.iso_cod"):
        pl.col("ip").whered.field(database_path, "country.iso_cod")


def test_a_database_that_is_none_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent.mmdb"):
        pl.col("ip").whered.country(tmp_path / "absent.mmdb")
    (tmp_path / "text.mmdb").write_text("no database")
    with pytest.raises(whered.InvalidDatabaseError, match="text.mmdb"):
        pl.col("ip").whered.country(tmp_path / "text.mmdb")
    with pytest.raises(TypeError, match="path or a whered.Database, not int"):
        pl.col("ip").whered.country(7)


def test_an_opened_database_is_taken_and_threads_give_the_same(database_path: str) -> None:
    database = whered.Database(database_path)
    ip = pl.Series("ip", IPS * 20_000)
    one = ip.whered.country(database)
    assert ip.whered.country(database, threads=2).equals(one)


def test_a_replaced_file_is_answered_from(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "replaced.mmdb"
    path.write_bytes(database_bytes(NETWORKS))
    ip = pl.Series("ip", ["192.0.2.7"])
    assert ip.whered.country(path).to_list() == ["DE"]
    new = tmp_path / "new.mmdb"
    new.write_bytes(database_bytes({"192.0.2.0/24": {"country": {"iso_code": "NL"}}}))
    os.replace(new, path)
    assert ip.whered.country(path).to_list() == ["NL"]


def test_the_databases_kept_by_path_are_bounded(
    tmp_path: pathlib.Path, database_path: str
) -> None:
    from whered import _helpers

    for number in range(_helpers.MOST_KEPT + 3):
        path = tmp_path / f"{number}.mmdb"
        shutil.copyfile(database_path, path)
        first = _helpers.opened(path)
        assert _helpers.opened(str(path)) is first
    assert len(_helpers._kept) == _helpers.MOST_KEPT


def test_a_group_has_the_answers_of_its_rows(frame: Any, database_path: str) -> None:
    counted = (
        frame.group_by(pl.col("ip").whered.country(database_path).alias("country"))
        .len()
        .sort("country", nulls_last=True)
    )
    assert counted.rows() == [("DE", 1), ("FR", 1), ("JP", 1), (None, 3)]


@pytest.mark.skipif(not hasattr(whered, "PrefixSet"), reason="this build has no PrefixSet")
def test_a_prefix_set_is_matched_as_a_struct(frame: Any) -> None:
    blocked = whered.PrefixSet(["192.0.2.0/24", "2001:db8::/32"], ["abuse", "test"])
    found = frame.select(pl.col("ip").whered.match(blocked).struct.unnest())
    assert found["prefix"].to_list() == ["192.0.2.0/24", None, None, None, "2001:db8::/32", None]
    assert found["value"].to_list() == ["abuse", None, None, None, "test", None]


@pytest.mark.skipif(not hasattr(whered, "Points"), reason="this build has no Points")
def test_the_nearest_point_is_an_expression() -> None:
    points = whered.Points()
    points.add(["a", "b"], [8.0, 9.0], [50.0, 51.0])
    frame = pl.DataFrame({"lon": [8.1, 9, None], "lat": [50, 51, 50]})
    lazy = frame.lazy().select(
        whered.polars.nearest(points, "lon", pl.col("lat")).alias("nearest")
    )
    assert lazy.collect_schema()["nearest"] == pl.Struct(
        {"member": pl.String, "distance_meters": pl.Float64}
    )
    nearest = lazy.collect()["nearest"].struct.unnest()
    assert nearest["member"].to_list() == ["a", "b", None]
    assert nearest["distance_meters"][0] == pytest.approx(7_150, abs=2)
    assert nearest["distance_meters"][2] is None
    far = frame.select(whered.polars.nearest(points, "lon", "lat", radius_meters=100))
    assert far.to_series().struct.field("member").to_list() == [None, "b", None]
    fixed = frame.select(whered.polars.nearest(points, pl.lit(8.0), "lat")).to_series()
    assert fixed.struct.field("member").to_list() == ["a", "b", "a"]
