"""The types of arguments."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import TypeAlias, Union

IPAddress: TypeAlias = Union[str, IPv6Address, IPv4Address]
