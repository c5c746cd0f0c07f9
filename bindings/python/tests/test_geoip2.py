"""`whered.geoip2`: lazy models with the attributes, equality and strings of `geoip2`."""

from __future__ import annotations

import datetime
import ipaddress
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from conftest import Uint16, database_bytes
from whered import InvalidDatabaseError
from whered.geoip2 import errors, models, records
from whered.geoip2.database import MODE_FILE, Reader

CITY: dict[str, Any] = {
    "city": {"geoname_id": 2950159, "names": {"en": "Berlin", "ru": "Берлин"}},
    "continent": {"code": "EU", "geoname_id": 6255148, "names": {"en": "Europe"}},
    "country": {
        "geoname_id": 2921044,
        "is_in_european_union": True,
        "iso_code": "DE",
        "names": {"en": "Germany", "de": "Deutschland"},
        "unknown_field": 7,
    },
    "location": {"accuracy_radius": Uint16(20), "latitude": 52.5, "longitude": 13.25},
    "postal": {"code": "10115"},
    "registered_country": {"iso_code": "FR", "names": {"en": "France"}},
    "subdivisions": [{"iso_code": "BE", "names": {"en": "Land Berlin"}}, {"iso_code": "X"}],
    "traits": {"is_anycast": True},
    "unknown_part": {"x": 1},
}

FLAT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "anonymous_ip": ("GeoIP2-Anonymous-IP", "AnonymousIP", {"is_anonymous": True, "other": 1}),
    "anonymous_plus": (
        "GeoIP-Anonymous-Plus",
        "AnonymousPlus",
        {"anonymizer_confidence": 30, "network_last_seen": "2025-04-14", "is_anonymous": True},
    ),
    "asn": ("GeoLite2-ASN", "ASN", {"autonomous_system_number": 64500}),
    "connection_type": ("GeoIP2-Connection-Type", "ConnectionType", {"connection_type": "Cable"}),
    "domain": ("GeoIP2-Domain", "Domain", {"domain": "example.com"}),
    "isp": ("GeoIP2-ISP", "ISP", {"isp": "Example", "autonomous_system_number": 64500}),
}


def written(folder: pathlib.Path, kind: str, record: Any) -> str:
    path = folder / f"{kind}.mmdb"
    path.write_bytes(database_bytes({"192.0.2.0/24": record}, database_type=kind))
    return str(path)


@pytest.fixture
def city_path(tmp_path: pathlib.Path) -> str:
    return written(tmp_path, "GeoLite2-City", CITY)


def test_a_city_has_the_parts_of_its_record(city_path: str) -> None:
    with Reader(city_path, ["de", "en"]) as reader:
        city = reader.city("192.0.2.7")
    assert city.country.iso_code == "DE"
    assert (city.country.name, city.city.name, city.continent.name) == (
        "Deutschland",
        "Berlin",
        "Europe",
    )
    assert city.country.is_in_european_union is True
    assert city.registered_country.is_in_european_union is False
    assert city.country.confidence is None
    assert city.represented_country.type is None and city.represented_country.names == {}
    assert (city.location.latitude, city.location.accuracy_radius) == (52.5, 20)
    assert city.subdivisions.most_specific.iso_code == "X"
    assert city.subdivisions[0].name == "Land Berlin"
    assert city.postal.code == "10115"
    assert city.traits.is_anycast and not city.traits.is_anonymous
    assert city.traits.ip_address == ipaddress.ip_address("192.0.2.7")
    assert city.traits.network == ipaddress.ip_network("192.0.2.0/24")
    with pytest.raises(AttributeError):
        city.unknown_part  # noqa: B018
    with pytest.raises(AttributeError):
        city.country.unknown_field  # noqa: B018


def test_a_part_is_made_once_and_can_be_read_after_the_reader_is_closed(city_path: str) -> None:
    reader = Reader(city_path, mode=MODE_FILE)
    city = reader.city("192.0.2.7")
    reader.close()
    assert "country" not in vars(city)
    assert city.country is city.country
    assert city.traits is city.traits
    with pytest.raises(ValueError, match="closed"):
        reader.city("192.0.2.7")


def test_models_are_equal_if_their_fields_are(city_path: str) -> None:
    with Reader(city_path) as reader:
        one, other = reader.city("192.0.2.7"), reader.city("192.0.2.7")
        elsewhere = reader.city("192.0.2.8")
    assert one == other and hash(one) == hash(other)
    assert one != elsewhere and one.country == elsewhere.country
    assert one.country != one.registered_country
    assert one != one.country
    again = eval(repr(one), {"geoip2": sys.modules["whered.geoip2"]})  # noqa: S307
    assert again == one


def geoip2() -> Any:
    """The package, if it is there."""
    pytest.importorskip("geoip2.database")
    import geoip2.database
    import geoip2.models

    return geoip2


def test_a_city_says_what_that_of_geoip2_says(city_path: str) -> None:
    with geoip2().database.Reader(city_path) as theirs, Reader(city_path) as ours:
        expected, found = theirs.city("192.0.2.7"), ours.city("192.0.2.7")
        assert found.to_dict() == expected.to_dict()
        assert repr(found) == repr(expected)
        for part in expected.to_dict():
            assert repr(getattr(found, part)) == repr(getattr(expected, part)), part
        assert {name for name in dir(expected) if not name.startswith("_")} <= set(dir(found))
        for part in ("country", "city", "location", "traits", "represented_country", "maxmind"):
            names = {name for name in dir(getattr(expected, part)) if not name.startswith("_")}
            assert names <= set(dir(getattr(found, part)))


@pytest.mark.parametrize("method", FLAT)
def test_a_flat_model_has_the_fields_of_its_record(tmp_path: pathlib.Path, method: str) -> None:
    kind, name, record = FLAT[method]
    path = written(tmp_path, kind, record)
    with Reader(path) as reader:
        found = getattr(reader, method)("192.0.2.7")
        assert type(found) is getattr(models, name)
        for field, value in record.items():
            if field == "network_last_seen":
                value = datetime.date.fromisoformat(value)
            assert getattr(found, field, None) == (None if field == "other" else value)
        assert found.network == ipaddress.ip_network("192.0.2.0/24")
        assert eval(repr(found), {"geoip2": sys.modules["whered.geoip2"]}) == found  # noqa: S307
        with pytest.raises(TypeError, match=f"The city method cannot be used with the {kind}"):
            reader.city("192.0.2.7")
    with geoip2().database.Reader(path) as theirs:
        expected = getattr(theirs, method)("192.0.2.7")
    assert found.to_dict() == expected.to_dict()
    assert repr(found) == repr(expected)


def test_an_address_without_a_record_says_its_network(city_path: str) -> None:
    with Reader(city_path) as reader:
        with pytest.raises(errors.AddressNotFoundError, match="The address 10.0.0.1 is not") as told:
            reader.city("10.0.0.1")
        assert told.value.network == ipaddress.ip_network("0.0.0.0/1")
        for wrong, error in (("x", ValueError), (None, TypeError), (5, TypeError)):
            with pytest.raises(error):
                reader.city(wrong)


def test_the_errors_are_those_of_geoip2_where_it_is_installed() -> None:
    theirs = pytest.importorskip("geoip2.errors")
    assert errors.AddressNotFoundError is theirs.AddressNotFoundError
    assert errors.GeoIP2Error is theirs.GeoIP2Error


@pytest.mark.parametrize("record", ["text", 5, [1]])
def test_a_record_that_is_no_map_is_an_invalid_database(tmp_path: pathlib.Path, record: Any) -> None:
    with Reader(written(tmp_path, "GeoLite2-City", record)) as reader:
        with pytest.raises(InvalidDatabaseError, match="Expected record to be a dict"):
            reader.city("192.0.2.7")


@pytest.mark.parametrize("part", ["country", "traits", "subdivisions", "location"])
def test_a_part_of_the_wrong_type_is_an_invalid_database(tmp_path: pathlib.Path, part: str) -> None:
    with Reader(written(tmp_path, "GeoLite2-City", {part: "text"})) as reader:
        city = reader.city("192.0.2.7")
        with pytest.raises(InvalidDatabaseError, match=f"Expected {part} to be a"):
            getattr(city, part)


def test_subdivisions_of_the_wrong_type_are_an_invalid_database(tmp_path: pathlib.Path) -> None:
    with Reader(written(tmp_path, "GeoLite2-City", {"subdivisions": ["text"]})) as reader:
        with pytest.raises(InvalidDatabaseError, match="Expected a subdivision to be a dict"):
            reader.city("192.0.2.7").subdivisions  # noqa: B018


STANDALONE = """
import sys
sys.modules["geoip2"] = None
sys.modules["maxminddb"] = None
from whered.geoip2.database import Reader
from whered.geoip2.errors import AddressNotFoundError, GeoIP2Error
with Reader(sys.argv[1]) as reader:
    print(reader.city("192.0.2.7").country.iso_code)
    try:
        reader.city("10.0.0.1")
    except GeoIP2Error as error:
        print(type(error).__name__, error.network)
"""


def test_it_works_without_geoip2(city_path: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STANDALONE, city_path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["DE", "AddressNotFoundError", "0.0.0.0/1"], done.stderr


def test_records_can_be_made_without_a_database() -> None:
    country = records.Country(["en"], iso_code="DE", names={"en": "Germany"}, other=1)
    assert (country.name, country.to_dict()) == (
        "Germany",
        {"iso_code": "DE", "names": {"en": "Germany"}},
    )
    assert records.City(None).names == {}
    assert records.Subdivisions(["en"]).most_specific == records.Subdivision(["en"])
