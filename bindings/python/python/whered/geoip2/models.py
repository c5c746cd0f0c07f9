"""The answers of a database.

Parts of an answer, such as `country`, are made when they are first read.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from ..maxminddb.errors import InvalidDatabaseError
from . import records
from ._model import Addressed, Model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from .types import IPAddress


class _Part:
    """An attribute that is made of a part of the record, and is an ordinary one from then on."""

    def __init__(self, kind: Any, raw_type: type = dict) -> None:
        self._kind = kind
        self._raw_type = raw_type

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        raw = model._record.get(self._name)
        if raw is None:
            raw = self._raw_type()
        elif not isinstance(raw, self._raw_type):
            raise InvalidDatabaseError(
                f"Expected {self._name} to be a {self._raw_type.__name__} but was {type(raw)}"
            )
        part = model.__dict__[self._name] = self._kind._of(model._locales, raw)
        return part


class _Traits(_Part):
    """The traits, which have the address and the network of the lookup."""

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None or "traits" in model.__dict__:
            return super().__get__(model, owner)
        raw = model._record.get("traits") or {}
        if not isinstance(raw, dict):
            raise InvalidDatabaseError(f"Expected traits to be a dict but was {type(raw)}")
        looked_up = {"ip_address": model._ip_address, "prefix_len": model._prefix_len}
        given = {name: value for name, value in looked_up.items() if value is not None}
        part = model.__dict__["traits"] = records.Traits(**(raw | given))
        return part


class _Places(Model):
    """A model of parts."""

    _locales: Sequence[str] | None
    _record: dict[str, Any]
    _ip_address: IPAddress | None
    _prefix_len: int | None

    def __init__(
        self,
        locales: Sequence[str] | None,
        *,
        ip_address: IPAddress | None = None,
        prefix_len: int | None = None,
        **record: Any,
    ) -> None:
        """Make a model of a record's parts, each as the database has it."""
        self._locales = locales
        self._record = record
        self._ip_address = ip_address
        self._prefix_len = prefix_len

    @classmethod
    def _of(
        cls,
        locales: Sequence[str] | None,
        record: dict[str, Any],
        ip_address: IPAddress,
        prefix_len: int,
    ) -> Self:
        model = cls.__new__(cls)
        model._locales = locales
        model._record = record
        model._ip_address = ip_address
        model._prefix_len = prefix_len
        return model

    def __repr__(self) -> str:
        """Return the call that makes an equal model."""
        return self._shown("models", self._locales)


class Country(_Places):
    """The answer of a country database."""

    continent: records.Continent = _Part(records.Continent)  # type: ignore[assignment]
    country: records.Country = _Part(records.Country)  # type: ignore[assignment]
    """The country that the address is in."""
    registered_country: records.Country = _Part(records.Country)  # type: ignore[assignment]
    """The country that the network is registered in."""
    represented_country: records.RepresentedCountry = _Part(  # type: ignore[assignment]
        records.RepresentedCountry
    )
    """The country that the users represent, if it is another one."""
    maxmind: records.MaxMind = _Part(records.MaxMind)  # type: ignore[assignment]
    traits: records.Traits = _Traits(records.Traits)  # type: ignore[assignment]


class City(Country):
    """The answer of a city database."""

    city: records.City = _Part(records.City)  # type: ignore[assignment]
    location: records.Location = _Part(records.Location)  # type: ignore[assignment]
    postal: records.Postal = _Part(records.Postal)  # type: ignore[assignment]
    subdivisions: records.Subdivisions = _Part(  # type: ignore[assignment]
        records.Subdivisions, list
    )
    """The parts of the country, the largest first."""


class Insights(City):
    """The answer of the web service "Insights"."""

    anonymizer: records.Anonymizer = _Part(records.Anonymizer)  # type: ignore[assignment]


class Enterprise(City):
    """The answer of an enterprise database."""


class SimpleModel(Addressed):
    """An answer without parts."""

    _ip_address: IPAddress

    def __init__(
        self,
        ip_address: IPAddress,
        *,
        network: str | None = None,
        prefix_len: int | None = None,
        **values: Any,
    ) -> None:
        """Make a model of these fields; others are passed over."""
        self._set(values)
        self._set_address(ip_address, network, prefix_len)

    @classmethod
    def _of(cls, record: dict[str, Any], ip_address: IPAddress, prefix_len: int) -> Self:
        model = cls.__new__(cls)
        model._set(record)
        model._ip_address = ip_address
        model._prefix_len = prefix_len
        return model

    def __repr__(self) -> str:
        """Return the call that makes an equal model."""
        return self._shown("models", str(self._ip_address), without="ip_address")


class AnonymousIP(SimpleModel):
    """The answer of a database of anonymizers."""

    is_anonymous: bool
    is_anonymous_vpn: bool
    is_hosting_provider: bool
    is_public_proxy: bool
    is_residential_proxy: bool
    is_tor_exit_node: bool


class AnonymousPlus(AnonymousIP):
    """The answer of a database of anonymizers and their providers."""

    anonymizer_confidence: int | None
    network_last_seen: datetime.date | None
    provider_name: str | None

    def _set(self, values: dict[str, Any]) -> None:
        super()._set(values)
        self.network_last_seen = records.date(self.network_last_seen)


class ASN(SimpleModel):
    """The answer of a database of autonomous systems."""

    autonomous_system_number: int | None
    autonomous_system_organization: str | None


class ConnectionType(SimpleModel):
    """The answer of a database of connection types."""

    connection_type: str | None
    """Such as "Cable/DSL"."""


class Domain(SimpleModel):
    """The answer of a database of domains."""

    domain: str | None


class ISP(ASN):
    """The answer of a database of providers."""

    isp: str | None
    mobile_country_code: str | None
    mobile_network_code: str | None
    organization: str | None
