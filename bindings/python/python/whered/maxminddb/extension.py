"""The names of the C extension of `maxminddb`: here they are those of `reader`."""

from __future__ import annotations

from .errors import InvalidDatabaseError
from .reader import Metadata, Reader

__all__ = ["InvalidDatabaseError", "Metadata", "Reader"]
