"""Where questions over columns: IP addresses, places, prefixes and packet rules, in process."""

from __future__ import annotations

from ._whered import (
    Column,
    InvalidDatabaseError,
    Table,
    __version__,
)

__all__ = [
    "Column",
    "InvalidDatabaseError",
    "Table",
    "__version__",
]
