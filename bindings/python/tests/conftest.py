"""Files and columns that the tests share.

The databases are made by the test writer below, an independent one of few lines: no test relies on
whered's own writer, nor on files from elsewhere.
"""

from __future__ import annotations

import ipaddress
import os
import pathlib
import signal
import struct
from collections.abc import Iterator
from typing import Any

import pytest

SHARED = pathlib.Path(
    os.environ.get(
        "WHERED_SHARED", str(pathlib.Path(__file__).resolve().parents[4] / "shared")
    )
)


class Uint16(int):
    """A number written with 16 bits."""


class Uint64(int):
    """A number written with 64 bits."""


class Double(float):
    """A number written as a double, also when it is whole."""


class Float(float):
    """A number written as a float of 32 bits."""


def encoded(value: Any) -> bytes:
    """A value in the format's data section (MaxMind DB 2.0)."""

    def head(kind: int, size: int) -> bytes:
        first = kind << 5 if kind < 8 else 0
        extended = b"" if kind < 8 else bytes([kind - 7])
        if size < 29:
            return bytes([first | size]) + extended
        if size < 285:
            return bytes([first | 29]) + extended + bytes([size - 29])
        if size < 65_821:
            return bytes([first | 30]) + extended + struct.pack(">H", size - 285)
        return bytes([first | 31]) + extended + (size - 65_821).to_bytes(3, "big")

    def unsigned(kind: int, number: int) -> bytes:
        data = number.to_bytes((number.bit_length() + 7) // 8, "big")
        return head(kind, len(data)) + data

    match value:
        case bool():
            return head(14, int(value))
        case Float():
            return head(15, 4) + struct.pack(">f", value)
        case float():
            return head(3, 8) + struct.pack(">d", value)
        case str():
            data = value.encode()
            return head(2, len(data)) + data
        case bytes():
            return head(4, len(value)) + value
        case Uint16():
            return unsigned(5, value)
        case Uint64():
            return unsigned(9, value)
        case int() if value < 0:
            return head(8, 4) + struct.pack(">i", value)
        case int() if value < 1 << 32:
            return unsigned(6, value)
        case int() if value < 1 << 64:
            return unsigned(9, value)
        case int():
            return unsigned(10, value)
        case dict():
            pairs = b"".join(encoded(key) + encoded(item) for key, item in value.items())
            return head(7, len(value)) + pairs
        case list():
            return head(11, len(value)) + b"".join(map(encoded, value))
    raise TypeError(value)


def database_bytes(
    networks: dict[str, Any], *, ip_version: int = 6, database_type: str = "Test"
) -> bytes:
    """A whole database with these networks; the later ones must not hold earlier ones."""
    tree: list[list[Any]] = [[None, None]]
    data = b""
    offsets: dict[bytes, int] = {}
    for text, record in networks.items():
        network = ipaddress.ip_network(text)
        bits = int(network.network_address)
        width, length = network.max_prefixlen, network.prefixlen
        if ip_version == 6 and network.version == 4:
            width, length = 128, length + 96
        body = encoded(record)
        offset = offsets.setdefault(body, len(data))
        if offset == len(data):
            data += body
        node = 0
        for depth in range(length):
            bit = bits >> (width - 1 - depth) & 1
            if depth == length - 1:
                tree[node][bit] = ("data", offset)
            else:
                if not isinstance(tree[node][bit], int):
                    above = tree[node][bit]
                    tree.append([above, above])
                    tree[node][bit] = len(tree) - 1
                node = tree[node][bit]
    count = len(tree)

    def number(child: Any) -> int:
        if child is None:
            return count
        return child if isinstance(child, int) else count + 16 + child[1]

    nodes = b"".join(struct.pack(">II", number(left), number(right)) for left, right in tree)
    metadata = {
        "node_count": count,
        "record_size": Uint16(32),
        "ip_version": Uint16(ip_version),
        "database_type": database_type,
        "languages": ["en"],
        "binary_format_major_version": Uint16(2),
        "binary_format_minor_version": Uint16(0),
        "build_epoch": Uint64(1_700_000_000),
        "description": {"en": "A test database"},
    }
    return nodes + bytes(16) + data + b"\xab\xcd\xefMaxMind.com" + encoded(metadata)


@pytest.fixture(autouse=True)
def _interrupts() -> Iterator[None]:
    """Ctrl-C is an exception, also where the tests run behind a shell that ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


NETWORKS: dict[str, Any] = {
    "192.0.2.0/24": {
        "country": {"iso_code": "DE"},
        "city": {"names": {"en": "Berlin", "de": "Berlin"}, "geoname_id": 2950159},
        "location": {"latitude": 52.5, "longitude": 13.25},
        "subdivisions": [{"iso_code": "BE"}],
        "traits": {"is_anycast": True},
        "number": 7,
    },
    "198.51.100.0/25": {
        "country": {"iso_code": "FR"},
        "city": {"names": {"en": "Saint-Quentin-en-Yvelines"}},
        "location": {"latitude": 48.75, "longitude": Double(2.0)},
        "number": 1 << 40,
    },
    "198.51.100.128/25": {"country": {"iso_code": ""}, "number": 0},
    "2001:db8::/32": {"country": {"iso_code": "JP"}, "number": 5},
}


@pytest.fixture(scope="session")
def database_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("databases") / "test.mmdb"
    path.write_bytes(database_bytes(NETWORKS))
    return str(path)


@pytest.fixture(scope="session")
def ipv4_database_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("databases") / "ipv4.mmdb"
    path.write_bytes(database_bytes({"192.0.2.0/24": {"country": {"iso_code": "DE"}}}, ip_version=4))
    return str(path)
