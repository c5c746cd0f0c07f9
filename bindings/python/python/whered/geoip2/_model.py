"""What models and records share: fields, comparison, dicts, and their addresses."""

from __future__ import annotations

import datetime
import inspect
import ipaddress
import json
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from .types import IPAddress


class Model:
    """Fields with names: those that a class annotates, and those of its bases."""

    _fields: ClassVar[tuple[str, ...]] = ()
    """The public fields, in the order of `to_dict`."""

    _known: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, *, own_fields_first: bool = False) -> None:
        """Collect the fields. One that a record lacks is False for a truth, else None."""
        super().__init_subclass__()
        own = {}
        for name, kind in inspect.get_annotations(cls).items():
            if not name.startswith("_"):
                own[name] = kind
                if name not in cls.__dict__:
                    setattr(cls, name, False if kind == "bool" else None)
        inherited = tuple(name for name in cls._fields if name not in own)
        cls._fields = (*own, *inherited) if own_fields_first else (*inherited, *own)
        cls._known = frozenset(cls._fields)

    def _set(self, values: dict[str, Any]) -> None:
        """Set the fields among some values."""
        known = self._known
        if not values.keys() <= known:
            values = {name: value for name, value in values.items() if name in known}
        self.__dict__.update(values)

    def __eq__(self, other: object) -> bool:
        """Whether the other has the same fields."""
        return isinstance(other, self.__class__) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """Return the hash of all fields."""
        return hash(json.dumps(self.to_dict(), sort_keys=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are there, in a form that JSON can hold."""
        result = {}
        for name in self._fields:
            value = _plain(getattr(self, name))
            if value is not None and value is not False and value != {} and value != []:
                result[name] = value
        for name in ("ip_address", "network"):
            value = getattr(self, name, None)
            if value is not None:
                result[name] = str(value)
        return result

    def _shown(self, module: str, *arguments: Any, without: str = "") -> str:
        """Return the text of a call that makes an equal object."""
        fields = [f"{name}={value!r}" for name, value in self.to_dict().items() if name != without]
        shown = ", ".join([*map(repr, arguments), *fields])
        return f"geoip2.{module}.{self.__class__.__name__}({shown})"


def _plain(value: Any) -> Any:
    if isinstance(value, Model):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        plain = map(_plain, value)
        return [item for item in plain if item is not None and item != {}]
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value


class Addressed(Model):
    """A model with an address and the network around it, which are made when they are read."""

    _ip_address: IPAddress | None = None
    _network: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None
    _prefix_len: int | None = None

    @property
    def ip_address(self) -> IPv4Address | IPv6Address | None:
        """The address that was looked up."""
        address = self._ip_address
        if address is not None and not isinstance(address, (IPv4Address, IPv6Address)):
            address = self._ip_address = ipaddress.ip_address(address)
        return address

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
        """The largest network around the address whose addresses all have this record."""
        if self._network is None:
            address, length = self.ip_address, self._prefix_len
            if address is not None and length is not None:
                self._network = ipaddress.ip_network(f"{address}/{length}", strict=False)
        return self._network

    def _set_address(
        self, ip_address: IPAddress | None, network: str | None, prefix_len: int | None
    ) -> None:
        self._ip_address = ip_address
        self._prefix_len = prefix_len
        if network:
            self._network = ipaddress.ip_network(network, strict=False)
            self._prefix_len = self._network.prefixlen
