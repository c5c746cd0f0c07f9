"""The reader of databases and their metadata."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from ipaddress import IPv4Network, IPv6Network
from typing import IO, TYPE_CHECKING, Any

from .._whered import MaxMindReader
from .const import MODE_AUTO, MODE_FD, MODE_FILE, MODE_MEMORY, MODE_MMAP, MODE_MMAP_EXT
from .errors import InvalidDatabaseError

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Self

__all__ = ["Metadata", "Reader"]


class Reader(MaxMindReader):
    """A database, read record by record.

    `mode` says where the file's bytes are while the reader is open:

    * `MODE_AUTO` and `MODE_MEMORY`: in memory of this process. The file may be replaced or
      truncated afterwards; processes that fork later share the memory.
    * `MODE_FD`: `database` is an open binary file, or a descriptor; its bytes are read into memory.
    * `MODE_FILE`: in the file, which is read for every lookup. A truncated file raises
      `InvalidDatabaseError`.
    * `MODE_MMAP` and `MODE_MMAP_EXT`: in a mapping that all processes share. Every lookup asks for
      the size of the file first, and a truncated one raises `InvalidDatabaseError`. A file that is
      truncated during a lookup can still end the process with SIGBUS: replace a mapped database by
      renaming a new file over it.

    A reader may be used by any number of threads, and by the processes of a fork. Records are
    dicts, lists and plain values of the caller's own. Parts of records that many records share are
    kept in a cache of at most some 32 MiB for each reader, or in up to four where lookups overlap.

    Raises `OSError` for a file that cannot be read, `InvalidDatabaseError` for one that is no
    database, `ValueError` for an unknown mode.
    """

    _metadata: Metadata

    def __init__(
        self,
        database: str | bytes | int | PathLike[str] | PathLike[bytes] | IO[bytes],
        mode: int = MODE_AUTO,
    ) -> None:
        """Open a database."""
        try:
            self._metadata = Metadata._of(self._open(database, mode))
        except BaseException:
            self.close()
            raise

    def _open(self, database: Any, mode: int) -> dict[str, Any]:
        if mode == MODE_FD:
            data, name = _read(database)
            return self._open_bytes(data, name)
        if mode not in (MODE_AUTO, MODE_MMAP_EXT, MODE_MMAP, MODE_FILE, MODE_MEMORY):
            raise ValueError(
                f"Unsupported open mode ({mode}). Only MODE_AUTO, MODE_MMAP_EXT, MODE_MMAP, "
                "MODE_FILE, MODE_MEMORY and MODE_FD are supported"
            )
        path = os.fspath(database)
        name = os.fsdecode(path)
        with open(path, "rb", buffering=0) as file:
            if mode == MODE_FILE:
                return self._open_file(file.fileno(), name)
            if mode in (MODE_MMAP, MODE_MMAP_EXT):
                return self._open_mapped(file.fileno(), name)
            found = self._open_memory(file.fileno(), name)
            return self._open_bytes(file.readall(), name) if found is None else found

    def metadata(self) -> Metadata:
        """Return the metadata of the database."""
        return self._metadata

    def __iter__(self) -> Iterator[tuple[IPv4Network | IPv6Network, Any]]:
        """Return an iterator over all networks and their records, in address order."""
        return _named(super().__iter__())

    def __enter__(self) -> Self:
        """Return the reader; leaving the block closes it."""
        if self.closed:
            raise ValueError("Attempt to reopen a closed MaxMind DB")
        return self

    def __exit__(self, *_: object) -> None:
        """Close the database."""
        self.close()


def _named(
    networks: Iterator[tuple[int, int, bool, Any]],
) -> Iterator[tuple[IPv4Network | IPv6Network, Any]]:
    for address, length, is_ipv4, record in networks:
        network = IPv4Network if is_ipv4 else IPv6Network
        yield network((address, length)), record


def _read(database: Any) -> tuple[bytes, str]:
    """Return the bytes that are left in an open file, or all of a descriptor's, and a name."""
    if isinstance(database, int):
        with open(database, "rb", buffering=0, closefd=False) as file:
            return file.readall(), f"<descriptor {database}>"
    data = database.read()
    name = str(getattr(database, "name", f"<{type(database)}>"))
    if isinstance(data, str):
        raise TypeError("MODE_FD takes a file opened in binary mode, not in text mode")
    return bytes(data), name


@dataclass(kw_only=True, frozen=True)
class Metadata:
    """What a database says about itself."""

    binary_format_major_version: int
    """The major version of the file format."""

    binary_format_minor_version: int
    """The minor version of the file format."""

    build_epoch: int
    """When the database was built, in seconds since 1970."""

    database_type: str
    """The kind of the records, such as "GeoIP2-City"."""

    description: dict[str, str]
    """Texts by locale."""

    ip_version: int
    """4 for a database of IPv4 addresses alone, else 6."""

    languages: list[str]
    """The locales that records may have."""

    node_count: int
    """The number of nodes of the search tree."""

    record_size: int
    """The bits of one of the two records of a node."""

    @property
    def node_byte_size(self) -> int:
        """The size of a node in bytes."""
        return self.record_size // 4

    @property
    def search_tree_size(self) -> int:
        """The size of the search tree in bytes."""
        return self.node_count * self.node_byte_size

    @classmethod
    def _of(cls, found: dict[str, Any]) -> Metadata:
        """Return the metadata of a file, which may have more keys, and need not have strings."""
        known = {"description": {}, "languages": []} | found
        try:
            return cls(**{field.name: known[field.name] for field in fields(cls)})
        except KeyError as missing:
            raise InvalidDatabaseError(
                f"Error reading metadata in database file: {missing.args[0]} is missing."
            ) from None
