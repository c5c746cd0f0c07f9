"""Where questions over columns: IP addresses, places, prefixes and packet rules, in process."""

from __future__ import annotations

from . import maxminddb
from ._install import install_as_maxminddb
from ._whered import (
    Column,
    Database,
    InvalidDatabaseError,
    Points,
    PrefixSet,
    Rules,
    Table,
    __version__,
)

__all__ = [
    "Column",
    "Database",
    "InvalidDatabaseError",
    "Points",
    "PrefixSet",
    "Rules",
    "Table",
    "__version__",
    "install_as_maxminddb",
    "maxminddb",
]
