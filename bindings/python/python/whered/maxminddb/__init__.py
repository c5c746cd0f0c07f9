"""The package `maxminddb` over whered: the same functions, classes, modes and exceptions.

Where `maxminddb` is imported, `whered.maxminddb` can be imported instead; for packages that import
`maxminddb` themselves there is `whered.install_as_maxminddb`.

>>> from whered import maxminddb
>>> with maxminddb.open_database(example_database) as reader:
...     reader.get("192.0.2.7")["country"]
...     reader.get_with_prefix_len("203.0.113.1")
{'iso_code': 'DE'}
(None, 5)
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from . import extension as _extension
from .const import (
    MODE_AUTO,
    MODE_FD,
    MODE_FILE,
    MODE_MEMORY,
    MODE_MMAP,
    MODE_MMAP_EXT,
    Mode,
)
from .errors import InvalidDatabaseError
from .reader import Metadata, Reader

if TYPE_CHECKING:
    from os import PathLike

__all__ = [
    "MODE_AUTO",
    "MODE_FD",
    "MODE_FILE",
    "MODE_MEMORY",
    "MODE_MMAP",
    "MODE_MMAP_EXT",
    "InvalidDatabaseError",
    "Metadata",
    "Mode",
    "Reader",
    "open_database",
]

__version__ = "3.2.0"
"""The version of `maxminddb` whose interface this is."""


def open_database(
    database: str | bytes | int | PathLike[str] | PathLike[bytes] | IO[bytes],
    mode: int = MODE_AUTO,
) -> Reader:
    """Open a database. `Reader` says what the modes mean.

    Raises `ValueError` for another mode, and what `Reader` raises.
    """
    if mode not in tuple(Mode):
        raise ValueError(f"Unsupported open mode: {mode}")
    if mode == MODE_MMAP_EXT and not hasattr(_extension, "Reader"):
        raise ValueError(
            "MODE_MMAP_EXT requires the maxminddb.extension module to be available"
        )
    return Reader(database, mode)
