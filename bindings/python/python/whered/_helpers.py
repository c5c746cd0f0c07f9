"""What the helpers for polars, pandas, DuckDB and Spark share: databases by path, short names.

Not for users: they pass a path or a `Database` to the helpers. A database opened by its path is kept
for the process, at most `MOST_KEPT` of them, and opened again when its file has changed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Union

from ._whered import Database

AnyDatabase = Union[str, "os.PathLike[str]", Database]

# How many databases are kept by path: the one used longest ago goes first.
MOST_KEPT = 8

_kept: dict[str, Database] = {}
_lock = threading.Lock()


def _unlock_in_child() -> None:
    # A thread of the parent may have held the lock when the process forked.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock_in_child)


def opened(database: AnyDatabase) -> Database:
    """The database of a path, kept from the last call and reloaded when its file has changed."""
    if isinstance(database, Database):
        return database
    try:
        path = os.path.abspath(os.fspath(database))
    except TypeError:
        what = f"database is a path or a whered.Database, not {type(database).__name__}"
        raise TypeError(what) from None
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    with _lock:
        kept = _kept.pop(path, None)
        if kept is None:
            kept = Database(path)
        else:
            kept.reload()
        _kept[path] = kept
        while len(_kept) > MOST_KEPT:
            del _kept[next(iter(_kept))]
    return kept


# Methods of the namespaces and the field that each one reads.
PATHS: Mapping[str, str] = {
    "asn": "autonomous_system_number",
    "continent": "continent.code",
    "country": "country.iso_code",
    "latitude": "location.latitude",
    "longitude": "location.longitude",
    "organization": "autonomous_system_organization",
    "postal_code": "postal.code",
    "subdivision": "subdivisions.0.iso_code",
    "time_zone": "location.time_zone",
}

# Methods that read a name, which has languages.
NAMES: Mapping[str, str] = {
    "city": "city.names",
    "country_name": "country.names",
    "continent_name": "continent.names",
    "subdivision_name": "subdivisions.0.names",
}

LOCATION = ["location.longitude", "location.latitude"]


def name_path(method: str, language: str) -> str:
    """The path of a name in a language, as `city.names.en`."""
    return f"{NAMES[method]}.{language}"


def has_field(database: Database, path: str) -> bool:
    """Whether any record has this field."""
    try:
        database.lookup([], path)
    except ValueError:
        return False
    return True


def columns_of(
    database: Database, fields: Sequence[str] | Mapping[str, str] | None
) -> dict[str, str]:
    """Names for SQL and their paths: `country_iso_code` for `country.iso_code`.

    A mapping has names of its own. Without fields those that the database was opened with count.
    """
    if isinstance(fields, str):
        fields = [fields]
    if fields is None:
        fields = database.fields
    if isinstance(fields, Mapping):
        return dict(fields)
    columns: dict[str, str] = {}
    for path in fields:
        name = path.replace(".", "_")
        if name in columns:
            what = f"fields {columns[name]!r} and {path!r} would both be the column {name!r}"
            raise ValueError(f"{what}: pass {{name: path, ...}}")
        columns[name] = path
    return columns


def require(condition: Any, what: str) -> None:
    """Raises `ValueError` unless the condition holds."""
    if not condition:
        raise ValueError(what)
