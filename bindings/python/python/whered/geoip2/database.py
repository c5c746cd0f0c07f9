"""The reader of GeoIP databases."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

from .. import maxminddb
from ..maxminddb import (
    MODE_AUTO,
    MODE_FD,
    MODE_FILE,
    MODE_MEMORY,
    MODE_MMAP,
    MODE_MMAP_EXT,
    InvalidDatabaseError,
)
from . import errors, models

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from typing_extensions import Self

    from .types import IPAddress

__all__ = [
    "MODE_AUTO",
    "MODE_FD",
    "MODE_FILE",
    "MODE_MEMORY",
    "MODE_MMAP",
    "MODE_MMAP_EXT",
    "Reader",
]


class Reader:
    """A GeoIP database, with a method for each kind of database.

    `locales` are those of names, the preferred first; `["en"]` if there are none. `mode` is that of
    `whered.maxminddb.Reader`. A reader may be used by threads and by the processes of a fork.

    The methods raise `AddressNotFoundError` for an address without a record, `ValueError` for what
    is no address, `TypeError` for a database of another kind, `InvalidDatabaseError` for a damaged
    database.
    """

    def __init__(
        self,
        fileish: str | bytes | int | PathLike[str] | PathLike[bytes] | IO[bytes],
        locales: Sequence[str] | None = None,
        mode: int = MODE_AUTO,
    ) -> None:
        """Open a database."""
        self._db_reader = maxminddb.open_database(fileish, mode)
        self._db_type = self._db_reader.metadata().database_type
        self._locales = ["en"] if locales is None else locales

    def __enter__(self) -> Self:
        """Return the reader; leaving the block closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the database."""
        self.close()

    def country(self, ip_address: IPAddress) -> models.Country:
        """Return the answer of a country database."""
        record, prefix_len = self._get("Country", "country", ip_address)
        return models.Country._of(self._locales, record, ip_address, prefix_len)

    def city(self, ip_address: IPAddress) -> models.City:
        """Return the answer of a city database."""
        record, prefix_len = self._get("City", "city", ip_address)
        return models.City._of(self._locales, record, ip_address, prefix_len)

    def enterprise(self, ip_address: IPAddress) -> models.Enterprise:
        """Return the answer of an enterprise database."""
        record, prefix_len = self._get("Enterprise", "enterprise", ip_address)
        return models.Enterprise._of(self._locales, record, ip_address, prefix_len)

    def anonymous_ip(self, ip_address: IPAddress) -> models.AnonymousIP:
        """Return the answer of a database of anonymizers."""
        record, prefix_len = self._get("GeoIP2-Anonymous-IP", "anonymous_ip", ip_address)
        return models.AnonymousIP._of(record, ip_address, prefix_len)

    def anonymous_plus(self, ip_address: IPAddress) -> models.AnonymousPlus:
        """Return the answer of a database of anonymizers and their providers."""
        record, prefix_len = self._get("GeoIP-Anonymous-Plus", "anonymous_plus", ip_address)
        return models.AnonymousPlus._of(record, ip_address, prefix_len)

    def asn(self, ip_address: IPAddress) -> models.ASN:
        """Return the answer of a database of autonomous systems."""
        record, prefix_len = self._get("GeoLite2-ASN", "asn", ip_address)
        return models.ASN._of(record, ip_address, prefix_len)

    def connection_type(self, ip_address: IPAddress) -> models.ConnectionType:
        """Return the answer of a database of connection types."""
        record, prefix_len = self._get("GeoIP2-Connection-Type", "connection_type", ip_address)
        return models.ConnectionType._of(record, ip_address, prefix_len)

    def domain(self, ip_address: IPAddress) -> models.Domain:
        """Return the answer of a database of domains."""
        record, prefix_len = self._get("GeoIP2-Domain", "domain", ip_address)
        return models.Domain._of(record, ip_address, prefix_len)

    def isp(self, ip_address: IPAddress) -> models.ISP:
        """Return the answer of a database of providers."""
        record, prefix_len = self._get("GeoIP2-ISP", "isp", ip_address)
        return models.ISP._of(record, ip_address, prefix_len)

    def _get(
        self, database_type: str, method: str, ip_address: IPAddress
    ) -> tuple[dict[str, Any], int]:
        if database_type not in self._db_type:
            raise TypeError(
                f"The {method} method cannot be used with the {self._db_type} database"
            )
        record, prefix_len = self._db_reader.get_with_prefix_len(ip_address)
        if record is None:
            raise errors.AddressNotFoundError(
                f"The address {ip_address} is not in the database.", str(ip_address), prefix_len
            )
        if not isinstance(record, dict):
            raise InvalidDatabaseError(f"Expected record to be a dict but was {type(record)}")
        return record, prefix_len

    def metadata(self) -> maxminddb.Metadata:
        """Return the metadata of the database."""
        return self._db_reader.metadata()

    def close(self) -> None:
        """Close the database."""
        self._db_reader.close()
