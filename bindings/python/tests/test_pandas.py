"""The accessors `whered` of pandas."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

import whered  # noqa: E402
import whered.pandas  # noqa: E402, F401

IPS = ["192.0.2.7", None, "198.51.100.1", "nonsense", "2001:db8::1", "203.0.113.1"]
COUNTRIES = ["DE", None, "FR", None, "JP", None]


def values(series: Any) -> list[Any]:
    """The values, with `None` for whatever is missing."""
    return [None if pd.isna(value) else value for value in series]


@pytest.fixture
def frame() -> Any:
    return pd.DataFrame({"ip": IPS, "row": range(len(IPS))}, index=list("abcdef"))


def test_each_short_method_reads_its_field(frame: Any, database_path: str) -> None:
    ip = frame["ip"].whered
    assert values(ip.country(database_path)) == COUNTRIES
    assert ip.city(database_path)["a"] == "Berlin"
    assert values(ip.city(database_path, language="de")) == ["Berlin"] + [None] * 5
    assert ip.latitude(database_path)["a"] == 52.5
    assert ip.longitude(database_path)["a"] == 13.25
    assert ip.subdivision(database_path)["a"] == "BE"
    assert ip.network(database_path)["a"] == "192.0.2.0/24"
    assert ip.field(database_path, "traits.is_anycast")["a"] is True


def test_a_whole_record_is_a_dict(frame: Any, database_path: str) -> None:
    valid = frame["ip"].drop(index="d")
    records = valid.whered.record(database_path)
    assert records["a"]["country"] == {"iso_code": "DE"}
    assert records["b"] is None and records["f"] is None
    assert list(records.index) == list("abcef")


def test_answers_have_the_index_of_their_input(frame: Any, database_path: str) -> None:
    country = frame["ip"].whered.country(database_path)
    assert list(country.index) == list(frame.index)
    turned = frame["ip"].iloc[::-1].whered.country(database_path)
    assert turned.index.equals(frame.index[::-1])
    assert values(turned) == COUNTRIES[::-1]
    assert frame.assign(country=turned)["country"]["c"] == "FR"


def test_several_fields_are_a_frame(frame: Any, database_path: str) -> None:
    paths = ["country.iso_code", "location.latitude"]
    answers = frame["ip"].whered.fields(database_path, paths, network=True)
    assert list(answers.columns) == [*paths, "network"]
    assert list(answers.loc["c"]) == ["FR", 48.75, "198.51.100.0/25"]
    assert values(answers.loc["d"]) == [None, None, None]
    usual = frame["ip"].whered.fields(database_path)
    assert list(usual.columns) == whered.Database(database_path).fields
    location = frame["ip"].whered.location(database_path)
    assert location.loc["a"].to_dict() == {"longitude": 13.25, "latitude": 52.5}


@pytest.mark.parametrize(
    "kind", ["str", "object", "string[pyarrow]", "category", "uint32", "ipaddress", "empty", "nan"]
)
def test_each_kind_of_series_is_taken(kind: str, database_path: str) -> None:
    strings, expected = ["203.0.113.1", "192.0.2.7", None], [None, "DE", None]
    match kind:
        case "uint32":
            series, expected = pd.Series([0xCB007101, 0xC0000207], dtype="uint32"), [None, "DE"]
        case "ipaddress":
            series = pd.Series([ipaddress.ip_address(t) if t else None for t in strings])
        case "empty":
            series, expected = pd.Series([], dtype=object), []
        case "nan":
            series, expected = pd.Series([float("nan")] * 2), [None, None]
        case "object":
            series = pd.Series([*strings, float("nan"), pd.NA], dtype=object)
            expected = [*expected, None, None]
        case dtype:
            series = pd.Series(strings, dtype=dtype)
    assert values(series.whered.country(database_path)) == expected


def test_a_series_of_another_type_is_refused(database_path: str) -> None:
    with pytest.raises(TypeError):
        pd.Series([1.5]).whered.country(database_path)
    with pytest.raises(TypeError):
        pd.Series([True]).whered.country(database_path)


def test_invalid_strings_can_be_an_error(frame: Any, database_path: str) -> None:
    with pytest.raises(ValueError, match="nonsense"):
        frame["ip"].whered.country(database_path, invalid="raise")
    with pytest.raises(ValueError, match="nonsense"):
        frame["ip"].whered.record(database_path)


def test_a_frame_is_enriched(frame: Any, database_path: str) -> None:
    enriched = frame.whered.enrich(
        "ip", database_path, {"country": "country.iso_code", "land": "country.iso_code"}
    )
    assert list(enriched.columns) == ["ip", "row", "country", "land"]
    assert values(enriched["country"]) == COUNTRIES == values(enriched["land"])
    assert list(frame.columns) == ["ip", "row"]
    paths = frame.whered.enrich("ip", database_path, ["country.iso_code"], network=True)
    assert list(paths.columns) == ["ip", "row", "country.iso_code", "network"]


def test_columns_that_are_missing_or_there_already_are_refused(
    frame: Any, database_path: str
) -> None:
    with pytest.raises(KeyError, match="address"):
        frame.whered.enrich("address", database_path)
    with pytest.raises(ValueError, match="'row'.*already"):
        frame.whered.enrich("ip", database_path, {"row": "country.iso_code"})


@pytest.mark.skipif(not hasattr(whered, "PrefixSet"), reason="this build has no PrefixSet")
def test_a_prefix_set_is_matched_as_a_frame(frame: Any) -> None:
    blocked = whered.PrefixSet(["192.0.2.0/24"], ["abuse"])
    found = frame["ip"].whered.match(blocked)
    assert values(found["value"]) == ["abuse"] + [None] * 5
    assert values(found["prefix"]) == ["192.0.2.0/24"] + [None] * 5
    assert found.index.equals(frame.index)


@pytest.mark.skipif(not hasattr(whered, "Points"), reason="this build has no Points")
def test_a_frame_is_joined_with_the_nearest_points() -> None:
    points = whered.Points()
    points.add(["a", "b"], [8.0, 9.0], [50.0, 51.0])
    frame = pd.DataFrame({"lon": [8.1, 9, None], "lat": [50, 51, 50]}, index=[7, 8, 9])
    joined = frame.whered.nearest(points, "lon", "lat")
    assert list(joined.columns) == ["lon", "lat", "member", "distance_meters"]
    assert values(joined["member"]) == ["a", "b", None]
    assert joined["distance_meters"][7] == pytest.approx(7_150, abs=2)
    with pytest.raises(ValueError, match="'member'.*already"):
        joined.whered.nearest(points, "lon", "lat")
