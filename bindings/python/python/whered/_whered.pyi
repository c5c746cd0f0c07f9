"""The types of the compiled part: everything here is offered by the package `whered` itself."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address
from os import PathLike
from typing import Any, Literal, Protocol, TypeVar, final, overload

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

_Address = str | IPv4Address | IPv6Address
# A column is an Arrow array or stream (polars, pandas 3, pyarrow, DuckDB), or a sequence of Python
# objects.
_Column = _ArrowArray | _ArrowStream | Sequence[Any]
_Strings = Literal["utf8_view", "utf8", "large_utf8", "dictionary"]
_Invalid = Literal["null", "raise"]
_Default = TypeVar("_Default")

__version__: str

class InvalidDatabaseError(RuntimeError): ...

@final
class Column:
    """A column of answers in Arrow's layout."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __getitem__(self, row: int, /) -> Any: ...
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def null_count(self) -> int: ...
    def to_pylist(self) -> list[Any]: ...
    def to_pyarrow(self) -> Any: ...
    def to_polars(self) -> Any: ...
    def to_pandas(self) -> Any: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Table:
    """Columns of answers of equal length in Arrow's layout."""

    def __len__(self) -> int: ...
    def __getitem__(self, name: str, /) -> Column: ...
    def __iter__(self) -> Iterator[str]: ...
    def __contains__(self, name: str, /) -> bool: ...
    def keys(self) -> list[str]: ...
    @property
    def names(self) -> list[str]: ...
    def to_pydict(self) -> dict[str, list[Any]]: ...
    def to_pyarrow(self) -> Any: ...
    def to_polars(self) -> Any: ...
    def to_pandas(self) -> Any: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Database:
    """A database compiled for many lookups."""

    def __new__(
        cls,
        path: str | PathLike[str],
        fields: Sequence[str] | None = None,
        *,
        index: Literal["auto", "file", "build"] = "auto",
    ) -> Database: ...
    def get(self, address: _Address) -> Any: ...
    def field(self, address: _Address, path: str) -> Any: ...
    def network(self, address: _Address) -> str: ...
    @overload
    def lookup(  # type: ignore[overload-overlap]
        self,
        column: _Column,
        fields: str,
        *,
        strings: _Strings = "utf8_view",
        invalid: _Invalid = "null",
        threads: int = 1,
    ) -> Column: ...
    @overload
    def lookup(
        self,
        column: _Column,
        fields: Sequence[str] | None = None,
        *,
        network: bool = False,
        strings: _Strings = "utf8_view",
        invalid: _Invalid = "null",
        threads: int = 1,
    ) -> Table: ...
    def reload(self) -> bool: ...
    def save_index(self, path: str | PathLike[str] | None = None) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def fields(self) -> list[str]: ...
    @property
    def is_index_mapped(self) -> bool: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...

class MaxMindReader:
    """The compiled base of `whered.maxminddb.Reader`."""

    def __new__(cls, *arguments: Any, **named: Any) -> MaxMindReader: ...
    def _open_bytes(self, bytes: bytes, name: str) -> dict[str, Any]: ...
    def _open_memory(self, descriptor: int, name: str) -> dict[str, Any] | None: ...
    def _open_mapped(self, descriptor: int, name: str) -> dict[str, Any]: ...
    def _open_file(self, descriptor: int, name: str) -> dict[str, Any]: ...
    def get(self, ip_address: _Address) -> Any: ...
    def get_with_prefix_len(self, ip_address: _Address) -> tuple[Any, int]: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    def __iter__(self) -> MaxMindNetworks: ...

@final
class MaxMindNetworks:
    """Bits and length of each network, whether it is an IPv4 one, and its record."""

    def __iter__(self) -> MaxMindNetworks: ...
    def __next__(self) -> tuple[int, int, bool, Any]: ...

@final
class Points:
    """Named points, and what is near a place."""

    @overload
    def __new__(cls) -> Points: ...
    @overload
    def __new__(
        cls, members: _Column, longitude: _Column, latitude: _Column, *, threads: int = 1
    ) -> Points: ...
    def __len__(self) -> int: ...
    def __contains__(self, member: str, /) -> bool: ...
    def __getitem__(self, member: str, /) -> tuple[float, float]: ...
    def __setitem__(self, member: str, place: tuple[float, float], /) -> None: ...
    def __delitem__(self, member: str, /) -> None: ...
    def __iter__(self) -> Iterator[str]: ...
    @overload
    def get(self, member: str) -> tuple[float, float] | None: ...
    @overload
    def get(self, member: str, default: _Default) -> tuple[float, float] | _Default: ...
    def add(
        self, members: _Column, longitude: _Column, latitude: _Column, *, threads: int = 1
    ) -> int: ...
    def remove(self, members: _Column) -> int: ...
    def near(
        self,
        longitude: float,
        latitude: float,
        *,
        radius_meters: float | None = None,
        count: int | None = None,
        strings: _Strings = "utf8_view",
    ) -> Table: ...
    @overload
    def within(
        self, *, box: tuple[float, float, float, float], strings: _Strings = "utf8_view"
    ) -> Table: ...
    @overload
    def within(
        self, *, polygon: Iterable[Sequence[float]], strings: _Strings = "utf8_view"
    ) -> Table: ...
    @overload
    def within(
        self, *, circle: tuple[float, float, float], strings: _Strings = "utf8_view"
    ) -> Table: ...
    def nearest(
        self,
        longitude: _Column,
        latitude: _Column,
        *,
        count: int = 1,
        radius_meters: float | None = None,
        strings: _Strings = "utf8_view",
        invalid: _Invalid = "null",
        threads: int = 1,
    ) -> Table: ...
    @property
    def memory_bytes(self) -> int: ...

@final
class PrefixSet:
    """Prefixes with values, and the longest one around an address."""

    def __new__(
        cls, prefixes: _Column, values: _Column | None = None, *, strict: bool = False
    ) -> PrefixSet: ...
    @staticmethod
    def read(
        path: str | PathLike[str],
        *,
        format: str | None = None,
        name: str | None = None,
        json_path: str | None = None,
        value_path: str | None = None,
        column: str | None = None,
        value_column: str | None = None,
        delimiter: str | None = None,
        strict: bool = False,
    ) -> PrefixSet: ...
    def __len__(self) -> int: ...
    def __contains__(self, address: _Address, /) -> bool: ...
    def __getitem__(self, address: _Address, /) -> tuple[str, str | None]: ...
    @overload
    def get(self, address: _Address) -> tuple[str, str | None] | None: ...
    @overload
    def get(
        self, address: _Address, default: _Default
    ) -> tuple[str, str | None] | _Default: ...
    def match(
        self,
        column: _Column,
        *,
        strings: _Strings = "utf8_view",
        invalid: _Invalid = "null",
        threads: int = 1,
    ) -> Table: ...
    @property
    def memory_bytes(self) -> int: ...

# One value for all rows, or a column.
_Field = str | int | _Column
_RulesFormat = Literal["own", "iptables", "nft", "classbench"]

@final
class Rules:
    """An ordered ruleset, compiled: which rule does this packet meet?"""

    @staticmethod
    def read(
        path: str | PathLike[str],
        *,
        format: _RulesFormat | None = None,
        chain: str | None = None,
        table: str | None = None,
        skip_tables: bool = False,
        sets: Mapping[str, PrefixSet] | None = None,
    ) -> Rules: ...
    @staticmethod
    def parse(
        text: str,
        *,
        format: _RulesFormat | None = None,
        chain: str | None = None,
        table: str | None = None,
        skip_tables: bool = False,
        sets: Mapping[str, PrefixSet] | None = None,
        name: str = "rules",
    ) -> Rules: ...
    def __len__(self) -> int: ...
    def match_packet(
        self,
        source: _Address,
        destination: _Address | None = None,
        *,
        protocol: str | int | None = None,
        source_port: int | None = None,
        destination_port: int | None = None,
        state: str | None = None,
        icmp_type: int | None = None,
        icmp_code: int | None = None,
        tcp_flags: str | int | None = None,
        input: str | None = None,
        output: str | None = None,
        dscp: str | int | None = None,
        mark: int | None = None,
    ) -> dict[str, Any]: ...
    def match(
        self,
        *,
        source: _Column,
        destination: _Column | None = None,
        protocol: _Field | None = None,
        source_port: _Field | None = None,
        destination_port: _Field | None = None,
        state: _Field | None = None,
        icmp_type: _Field | None = None,
        icmp_code: _Field | None = None,
        tcp_flags: _Field | None = None,
        input: _Field | None = None,
        output: _Field | None = None,
        dscp: _Field | None = None,
        mark: _Field | None = None,
        strings: _Strings = "utf8_view",
        invalid: _Invalid = "null",
        threads: int = 1,
    ) -> Table: ...
