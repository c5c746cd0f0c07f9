"""Where questions over columns: IP addresses, places, prefixes and packet rules, in process."""

from __future__ import annotations

from ._whered import (
    Column,
    Database,
    InvalidDatabaseError,
    Points,
    Table,
    __version__,
)

__all__ = [
    "Column",
    "Database",
    "InvalidDatabaseError",
    "Points",
    "Table",
    "__version__",
]
