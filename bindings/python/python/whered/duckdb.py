"""whered in DuckDB: functions of SQL over IP addresses and places.

`register` makes functions of a connection; DuckDB calls them with columns of Arrow, some thousand
rows at a time. They take addresses as `VARCHAR`. Null, and whatever is no address, gives null.

>>> import duckdb
>>> import whered.duckdb
>>> connection = duckdb.connect()
>>> names = whered.duckdb.register(connection, example_database)
>>> connection.sql("SELECT whered_country('192.0.2.7'), whered_network('192.0.2.7')").fetchall()
[('DE', '192.0.2.0/24')]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import duckdb

from ._helpers import NAMES, PATHS, AnyDatabase, columns_of, has_field, name_path, opened, require

if TYPE_CHECKING:
    from ._whered import Points, PrefixSet, Table

__all__ = ["register", "register_points", "register_prefix_set"]

_Invalid = Literal["null", "raise"]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def register(
    connection: duckdb.DuckDBPyConnection,
    database: AnyDatabase,
    name: str = "whered",
    *,
    fields: Sequence[str] | Mapping[str, str] | None = None,
    language: str = "en",
    invalid: _Invalid = "null",
) -> list[str]:
    """Makes functions that look addresses up in a database, and returns their names.

    - `whered_country(ip)`, `whered_city(ip)`, `whered_asn(ip)` and so on: one for each of the usual
      fields that the database has, names in a language;
    - one for each of `fields`, which are paths, or `{function: path}` with names of your own:
      `"traits.is_anycast"` makes `whered_traits_is_anycast(ip)`;
    - `whered_fields(ip)`: a struct of all `fields`, in one pass; without `fields` those that the
      database was opened with;
    - `whered_network(ip)`: the network around the address that all has the same record.

    `name` replaces `whered` at the front, so that a connection can have several databases. A name
    that was registered before is replaced. A database that is passed by its path is reloaded when
    its file has changed; types of functions stay what they were.

    Raises `ValueError` for a field that no record has, and for a language without names.
    """
    _check(name)
    opened_now = opened(database)
    columns = columns_of(opened_now, fields)
    usual = dict(PATHS) | {method: name_path(method, language) for method in NAMES}
    single = {method: path for method, path in usual.items() if has_field(opened_now, path)}
    has_names = language == "en" or any(method in single for method in NAMES)
    require(has_names, f"language={language!r}: no record has a name in it")
    if fields is not None:
        single |= columns
    columns = {column: path for column, path in columns.items() if path != "network"}
    for column in ("network", "fields"):
        path = columns.get(column, column)
        require(path == column, f"fields: the name {column!r} is taken; allowed is any other")
    single.pop("network", None)
    options = {"invalid": invalid}

    def of_field(path: str) -> Callable[[Any], Any]:
        return lambda ip: opened(database).lookup(ip, path, **options).to_pyarrow()

    def of_fields(ip: Any) -> Any:
        table = opened(database).lookup(ip, list(columns.values()), **options)
        return _struct(table, list(columns))

    def of_network(ip: Any) -> Any:
        table = opened(database).lookup(ip, [], network=True, **options)
        return table["network"].to_pyarrow()

    functions = {f"{name}_{column}": of_field(path) for column, path in single.items()}
    if columns:
        functions[f"{name}_fields"] = of_fields
    functions[f"{name}_network"] = of_network
    for function_name, function in functions.items():
        _create(connection, function_name, function, ["VARCHAR"])
    return list(functions)


def register_prefix_set(
    connection: duckdb.DuckDBPyConnection,
    prefix_set: PrefixSet,
    name: str,
    *,
    invalid: _Invalid = "null",
) -> list[str]:
    """Makes functions that match addresses against a set of prefixes, and returns their names.

    With the name `blocked` they are `blocked_prefix(ip)`, the longest prefix around the address;
    `blocked_value(ip)`, its value; and `blocked_contains(ip)`, true or false.
    """
    _check(name)

    def match(ip: Any) -> Table:
        return prefix_set.match(ip, invalid=invalid)

    def contains(ip: Any) -> Any:
        import pyarrow.compute

        found = pyarrow.compute.is_valid(match(ip)["prefix"].to_pyarrow())
        # A null has no answer.
        return pyarrow.compute.if_else(pyarrow.compute.is_valid(ip), found, None)

    functions: dict[str, Callable[[Any], Any]] = {
        f"{name}_prefix": lambda ip: match(ip)["prefix"].to_pyarrow(),
        f"{name}_value": lambda ip: match(ip)["value"].to_pyarrow(),
        f"{name}_contains": contains,
    }
    for function_name, function in functions.items():
        _create(connection, function_name, function, ["VARCHAR"])
    return list(functions)


def register_points(
    connection: duckdb.DuckDBPyConnection,
    points: Points,
    name: str,
    *,
    radius_meters: float | None = None,
    invalid: _Invalid = "null",
) -> list[str]:
    """Makes a function that finds the nearest of the points, and returns its name.

    With the name `shops` it is `shops_nearest(longitude, latitude)`, a struct of `member` and
    `distance_meters`, whose fields are null where a row has no place or no point within the radius.
    """
    _check(name)

    def nearest(longitude: Any, latitude: Any) -> Any:
        options: dict[str, Any] = {"radius_meters": radius_meters, "invalid": invalid}
        table = points.nearest(longitude, latitude, **options)
        return _struct(table, ["member", "distance_meters"])

    _create(connection, f"{name}_nearest", nearest, ["DOUBLE", "DOUBLE"])
    return [f"{name}_nearest"]


def _check(name: str) -> None:
    what = f"name={name!r}: allowed are letters, digits and underscores, no digit in front"
    require(_NAME.fullmatch(name), what)


def _struct(table: Table, names: list[str]) -> Any:
    """A table as a column of structs with other names."""
    import pyarrow

    whole = table.to_pyarrow().rename_columns(names)
    chunks = whole.to_struct_array()
    return chunks if chunks.num_chunks != 1 else pyarrow.chunked_array(chunks.chunks)


def _create(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    function: Callable[..., Any],
    parameters: list[str],
) -> None:
    import pyarrow

    # The answer for no rows has the type of all answers.
    types = {"VARCHAR": pyarrow.string(), "DOUBLE": pyarrow.float64()}
    nothing = function(*(pyarrow.array([], types[parameter]) for parameter in parameters))
    with connection.cursor() as cursor:
        (returned,) = cursor.from_arrow(pyarrow.table({"answer": nothing})).types
    try:
        connection.remove_function(name)
    except duckdb.InvalidInputException:
        pass  # It was not there.
    connection.create_function(
        name, function, parameters, returned, type="arrow", null_handling="special"
    )
