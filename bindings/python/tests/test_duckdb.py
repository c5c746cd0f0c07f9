"""The functions of `whered.duckdb`."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

import whered  # noqa: E402
import whered.duckdb  # noqa: E402

from conftest import NETWORKS, database_bytes  # noqa: E402


@pytest.fixture
def connection() -> Any:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE log (ip VARCHAR, row INTEGER); INSERT INTO log VALUES"
            " ('192.0.2.7', 0), (NULL, 1), ('198.51.100.1', 2), ('nonsense', 3),"
            " ('2001:db8::1', 4), ('203.0.113.1', 5)"
        )
        yield connection


def test_register_makes_a_function_for_each_field_that_the_database_has(
    connection: Any, database_path: str
) -> None:
    names = whered.duckdb.register(connection, database_path)
    assert set(names) == {
        "whered_country", "whered_city", "whered_latitude", "whered_longitude",
        "whered_subdivision", "whered_fields", "whered_network",
    }  # fmt: skip
    rows = connection.sql(
        "SELECT whered_country(ip), whered_city(ip), whered_latitude(ip), whered_network(ip)"
        " FROM log ORDER BY row"
    ).fetchall()
    assert rows[0] == ("DE", "Berlin", 52.5, "192.0.2.0/24")
    assert [row[0] for row in rows] == ["DE", None, "FR", None, "JP", None]
    assert rows[1] == (None, None, None, None) == rows[3]


def test_types_are_those_of_the_fields(connection: Any, database_path: str) -> None:
    fields = ["traits.is_anycast", "number", "country.iso_code"]
    names = whered.duckdb.register(connection, database_path, "geo", fields=fields)
    assert {"geo_traits_is_anycast", "geo_number", "geo_country_iso_code"} < set(names)
    relation = connection.sql(
        "SELECT geo_traits_is_anycast(ip), geo_number(ip), geo_latitude(ip), geo_fields(ip)"
        " FROM log WHERE row < 3 ORDER BY row"
    )
    assert [str(kind) for kind in relation.types] == [
        "BOOLEAN", "UBIGINT", "DOUBLE",
        "STRUCT(traits_is_anycast BOOLEAN, number UBIGINT, country_iso_code VARCHAR)",
    ]  # fmt: skip
    first = {"traits_is_anycast": True, "number": 7, "country_iso_code": "DE"}
    assert relation.fetchall()[0] == (True, 7, 52.5, first)


def test_names_of_ones_own_and_several_databases(
    connection: Any, database_path: str, ipv4_database_path: str
) -> None:
    whered.duckdb.register(connection, database_path, "a", fields={"land": "country.iso_code"})
    whered.duckdb.register(connection, ipv4_database_path, "b")
    rows = connection.sql(
        "SELECT a_land(ip), b_country(ip), a_fields(ip).land FROM log ORDER BY row"
    ).fetchall()
    assert rows[0] == ("DE", "DE", "DE")
    # The second one has no IPv6 addresses.
    assert rows[4] == ("JP", None, "JP")


def test_many_rows_have_the_answers_of_each_row(connection: Any, database_path: str) -> None:
    whered.duckdb.register(connection, database_path)
    counts = connection.sql(
        "SELECT whered_country(ip) AS country, count(*) FROM"
        " (SELECT CASE WHEN i % 3 = 0 THEN '192.0.2.' || i % 256 WHEN i % 3 = 1 THEN NULL"
        "  ELSE '198.51.100.' || i % 128 END AS ip FROM range(300000) numbers(i))"
        " GROUP BY country ORDER BY country NULLS LAST"
    ).fetchall()
    assert counts == [("DE", 100_000), ("FR", 100_000), (None, 100_000)]


def test_constants_dictionaries_and_empty_tables(connection: Any, database_path: str) -> None:
    whered.duckdb.register(connection, database_path)
    assert connection.sql("SELECT whered_country('192.0.2.1')").fetchall() == [("DE",)]
    assert connection.sql("SELECT whered_country(NULL)").fetchall() == [(None,)]
    assert connection.sql("SELECT whered_fields(ip) FROM log WHERE row > 9").fetchall() == []
    assert connection.sql("SELECT whered_fields(ip) FROM log WHERE row = 1").fetchall()[0][0] == {
        "country_iso_code": None,
        "city_names_en": None,
        "location_latitude": None,
        "location_longitude": None,
    }


def test_registering_again_replaces(connection: Any, database_path: str) -> None:
    whered.duckdb.register(connection, database_path)
    whered.duckdb.register(connection, database_path, invalid="raise")
    with pytest.raises(duckdb.Error, match="nonsense"):
        connection.sql("SELECT whered_country(ip) FROM log").fetchall()


def test_a_replaced_file_is_answered_from(connection: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "replaced.mmdb"
    path.write_bytes(database_bytes(NETWORKS))
    whered.duckdb.register(connection, path)
    assert connection.sql("SELECT whered_country('192.0.2.1')").fetchall() == [("DE",)]
    new = tmp_path / "new.mmdb"
    new.write_bytes(database_bytes({"192.0.2.0/24": {"country": {"iso_code": "NL"}}}))
    os.replace(new, path)
    assert connection.sql("SELECT whered_country('192.0.2.1')").fetchall() == [("NL",)]


@pytest.mark.parametrize("name", ["", "1st", "a b", "a;DROP TABLE log", "ä"])
def test_a_name_that_is_no_function_is_refused(
    name: str, connection: Any, database_path: str
) -> None:
    with pytest.raises(ValueError, match="allowed are letters"):
        whered.duckdb.register(connection, database_path, name)


def test_a_field_that_no_record_has_is_refused(connection: Any, database_path: str) -> None:
    with pytest.raises(ValueError, match="country.iso_cod"):
        whered.duckdb.register(connection, database_path, fields=["country.iso_cod"])
    with pytest.raises(ValueError, match="'a_b'"):
        whered.duckdb.register(connection, database_path, fields=["a.b", "a_b"])
    with pytest.raises(FileNotFoundError, match="absent"):
        whered.duckdb.register(connection, "absent.mmdb")
    assert "de_city" in whered.duckdb.register(connection, database_path, "de", language="de")
    with pytest.raises(ValueError, match="language='xx'"):
        whered.duckdb.register(connection, database_path, language="xx")


def test_answers_are_columns_that_duckdb_reads(connection: Any, database_path: str) -> None:
    answers = whered.Database(database_path).lookup(["192.0.2.7"], ["country.iso_code"])
    assert connection.sql('SELECT "country.iso_code" FROM answers').fetchall() == [("DE",)]


@pytest.mark.skipif(not hasattr(whered, "PrefixSet"), reason="this build has no PrefixSet")
def test_a_prefix_set_has_three_functions(connection: Any) -> None:
    blocked = whered.PrefixSet(["192.0.2.0/24", "2001:db8::/32"], ["abuse", "test"])
    names = whered.duckdb.register_prefix_set(connection, blocked, "blocked")
    assert names == ["blocked_prefix", "blocked_value", "blocked_contains"]
    rows = connection.sql(
        "SELECT blocked_prefix(ip), blocked_value(ip), blocked_contains(ip) FROM log ORDER BY row"
    ).fetchall()
    assert rows[0] == ("192.0.2.0/24", "abuse", True)
    assert rows[1] == (None, None, None)
    assert rows[4] == ("2001:db8::/32", "test", True)
    assert rows[5] == (None, None, False)


@pytest.mark.skipif(not hasattr(whered, "Points"), reason="this build has no Points")
def test_points_have_a_function_for_the_nearest(connection: Any) -> None:
    points = whered.Points()
    points.add(["a", "b"], [8.0, 9.0], [50.0, 51.0])
    assert whered.duckdb.register_points(connection, points, "shops") == ["shops_nearest"]
    rows = connection.sql(
        "SELECT shops_nearest(lon, lat).member FROM"
        " (VALUES (8.1, 50.0), (9.0, 51), (NULL, 50)) places(lon, lat)"
    ).fetchall()
    assert rows == [("a",), ("b",), (None,)]
