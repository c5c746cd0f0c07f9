"""The parts of models: places, locations, traits.

A field that the database does not have is None, or False for a truth.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from ..maxminddb.errors import InvalidDatabaseError
from ._model import Addressed, Model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from .types import IPAddress


class Record(Model):
    """A part of a model."""

    def __init__(self, **values: Any) -> None:
        """Make a record of these fields; others are passed over."""
        self._set(values)

    @classmethod
    def _of(cls, locales: Sequence[str] | None, values: dict[str, Any]) -> Self:  # noqa: ARG003
        """Return the record of a database's map."""
        record = cls.__new__(cls)
        record._set(values)
        return record

    def __repr__(self) -> str:
        """Return the call that makes an equal record."""
        return self._shown("records")


class PlaceRecord(Record, own_fields_first=True):
    """A place with names."""

    names: dict[str, str]
    """Names by locale."""

    _locales: Sequence[str]

    def __init__(self, locales: Sequence[str] | None, **values: Any) -> None:
        """Make a record of these fields; the first of the locales that has a name counts."""
        self._locales = ["en"] if locales is None else locales
        self._set(values)

    def _set(self, values: dict[str, Any]) -> None:
        super()._set(values)
        if self.names is None:
            self.names = {}

    @classmethod
    def _of(cls, locales: Sequence[str] | None, values: dict[str, Any]) -> Self:
        record = cls.__new__(cls)
        record._locales = ["en"] if locales is None else locales
        record._set(values)
        return record

    @property
    def name(self) -> str | None:
        """The name in the first of the reader's locales that has one."""
        names = self.names
        return next((names[locale] for locale in self._locales if locale in names), None)


class City(PlaceRecord, own_fields_first=True):
    """A city."""

    confidence: int | None
    """How sure the database is, in percent."""
    geoname_id: int | None


class Continent(PlaceRecord, own_fields_first=True):
    """A continent."""

    code: str | None
    """Two letters, such as "EU"."""
    geoname_id: int | None


class Country(PlaceRecord, own_fields_first=True):
    """A country."""

    confidence: int | None
    """How sure the database is, in percent."""
    geoname_id: int | None
    is_in_european_union: bool
    iso_code: str | None
    """The two letters of ISO 3166-1."""


class RepresentedCountry(Country, own_fields_first=True):
    """The country that the users of an address represent, such as that of a military base."""

    type: str | None
    """The kind of representation, such as "military"."""


class Location(Record):
    """A place on the map."""

    average_income: int | None
    accuracy_radius: int | None
    """In kilometers."""
    latitude: float | None
    """In degrees."""
    longitude: float | None
    """In degrees."""
    metro_code: int | None
    population_density: int | None
    """Persons a square kilometer."""
    time_zone: str | None
    """A name such as "Europe/Berlin"."""


class MaxMind(Record):
    """An account of the web service."""

    queries_remaining: int | None


class AnonymizerFeed(Record):
    """One kind of anonymizer."""

    confidence: int | None
    network_last_seen: datetime.date | None
    provider_name: str | None

    def _set(self, values: dict[str, Any]) -> None:
        super()._set(values)
        self.network_last_seen = date(self.network_last_seen)


class Anonymizer(Record):
    """What hides the users of an address."""

    confidence: int | None
    is_anonymous: bool
    is_anonymous_vpn: bool
    is_hosting_provider: bool
    is_public_proxy: bool
    is_residential_proxy: bool
    is_tor_exit_node: bool
    network_last_seen: datetime.date | None
    provider_name: str | None
    residential: AnonymizerFeed

    def _set(self, values: dict[str, Any]) -> None:
        super()._set(values)
        self.network_last_seen = date(self.network_last_seen)
        residential: Any = self.residential
        self.residential = AnonymizerFeed(**(residential or {}))


class Postal(Record):
    """A postal code."""

    code: str | None
    confidence: int | None


class Subdivision(PlaceRecord, own_fields_first=True):
    """A part of a country."""

    confidence: int | None
    geoname_id: int | None
    iso_code: str | None
    """The part behind the country's in ISO 3166-2."""


class Subdivisions(tuple):  # noqa: SLOT001
    """The parts of a country around an address, the largest first."""

    _locales: Sequence[str] | None

    def __new__(cls, locales: Sequence[str] | None, *subdivisions: dict[str, Any]) -> Self:
        """Make a tuple of these subdivisions."""
        return cls._of(locales, subdivisions)

    @classmethod
    def _of(cls, locales: Sequence[str] | None, found: Sequence[dict[str, Any]]) -> Self:
        for values in found:
            if not isinstance(values, dict):
                raise InvalidDatabaseError(
                    f"Expected a subdivision to be a dict but was {type(values)}"
                )
        made = super().__new__(cls, [Subdivision._of(locales, values) for values in found])
        made._locales = locales
        return made

    @property
    def most_specific(self) -> Subdivision:
        """The smallest one; an empty one if there is none."""
        return self[-1] if self else Subdivision(self._locales)


class Traits(Addressed):
    """Properties of an address."""

    autonomous_system_number: int | None
    autonomous_system_organization: str | None
    connection_type: str | None
    """Such as "Cable/DSL"."""
    domain: str | None
    ip_risk_snapshot: float | None
    is_anonymous: bool
    is_anonymous_proxy: bool
    is_anonymous_vpn: bool
    is_anycast: bool
    is_hosting_provider: bool
    is_legitimate_proxy: bool
    is_public_proxy: bool
    is_residential_proxy: bool
    is_satellite_provider: bool
    is_tor_exit_node: bool
    isp: str | None
    mobile_country_code: str | None
    mobile_network_code: str | None
    organization: str | None
    static_ip_score: float | None
    user_type: str | None
    user_count: int | None

    def __init__(
        self,
        *,
        ip_address: IPAddress | None = None,
        network: str | None = None,
        prefix_len: int | None = None,
        **values: Any,
    ) -> None:
        """Make the traits of an address."""
        self._set(values)
        self._set_address(ip_address, network, prefix_len)

    def __repr__(self) -> str:
        """Return the call that makes equal traits."""
        return self._shown("records")


def date(written: Any) -> datetime.date | None:
    """Return the date that a database has as a text."""
    return datetime.date.fromisoformat(written) if written else None
