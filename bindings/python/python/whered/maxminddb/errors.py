"""The exception of damaged databases."""

from __future__ import annotations

from .._whered import InvalidDatabaseError

__all__ = ["InvalidDatabaseError"]
