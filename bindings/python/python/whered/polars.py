"""whered in polars: `pl.col("ip").whered.country("city.mmdb")`.

`import whered.polars` adds the namespace `whered` to expressions and series. Each method takes a
database, which is a path or a `whered.Database`; a path is opened once in the process. A result has
the name of its input, as everywhere in polars: give it another one with `.alias`.

Columns are strings, `UInt32` (IPv4) or categoricals. Null, and with `invalid="null"` whatever is no
address, gives null. Expressions know their types before they run, so that a lazy frame checks a
query without data, and they run on pieces of a column in the streaming engine.

No plugin of polars is behind it: batches go through Arrow without a copy, so it works with each
version of polars that has `map_batches` with `return_dtype`.

>>> import polars as pl
>>> import whered.polars
>>> frame = pl.DataFrame({"ip": ["192.0.2.7", None, "nonsense"]})
>>> frame.select(pl.col("ip").whered.country(example_database))["ip"].to_list()
['DE', None, None]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import polars as pl

from ._helpers import LOCATION, PATHS, AnyDatabase, name_path, opened

if TYPE_CHECKING:
    from ._whered import Points, PrefixSet

__all__ = ["ExpressionNamespace", "SeriesNamespace", "nearest"]

_Invalid = Literal["null", "raise"]
_T = TypeVar("_T", pl.Expr, pl.Series)


class _Lookup:
    """Looks a series up: one field, several as a struct, or the network."""

    def __init__(
        self,
        database: AnyDatabase,
        fields: str | list[str] | None,
        network: bool,
        invalid: _Invalid,
        threads: int,
    ) -> None:
        self.database = database
        self.fields = fields
        self.network = network
        self.options: dict[str, Any] = {"invalid": invalid, "threads": threads}

    def __call__(self, series: pl.Series) -> pl.Series:
        database = opened(self.database)
        if isinstance(self.fields, str):
            answer = database.lookup(series, self.fields, **self.options)
            return pl.Series(series.name, answer)
        if self.fields is None:
            table = database.lookup(series, [], network=True, **self.options)
            return pl.Series(series.name, table["network"])
        table = database.lookup(series, self.fields, network=self.network, **self.options)
        return table.to_polars().to_struct(series.name)


class _Match:
    """Matches a series against a set of prefixes."""

    def __init__(self, prefix_set: PrefixSet, invalid: _Invalid, threads: int) -> None:
        self.prefix_set = prefix_set
        self.options: dict[str, Any] = {"invalid": invalid, "threads": threads}

    def __call__(self, series: pl.Series) -> pl.Series:
        return self.prefix_set.match(series, **self.options).to_polars().to_struct(series.name)


class _Methods(Generic[_T]):
    """The methods of both namespaces; `_apply` runs a function of a series."""

    def _apply(self, function: Callable[[pl.Series], pl.Series]) -> _T:
        raise NotImplementedError

    def field(
        self,
        database: AnyDatabase,
        path: str,
        *,
        invalid: _Invalid = "null",
        threads: int = 1,
    ) -> _T:
        """One field of each address's record, such as `"traits.is_anycast"`.

        `invalid="raise"` makes a text that is no address an error. `threads` work on one column;
        the streaming engine uses several by itself.

        Raises `ValueError` for a field that no record has.
        """
        return self._apply(_Lookup(database, path, False, invalid, threads))

    def fields(
        self,
        database: AnyDatabase,
        paths: str | Sequence[str] | None = None,
        *,
        network: bool = False,
        invalid: _Invalid = "null",
        threads: int = 1,
    ) -> _T:
        """Several fields of each address's record as a struct, in one pass.

        The struct's fields have the paths for names; `.struct.unnest()` makes columns of them.
        Without paths they are the fields that the database was opened with. `network` adds the
        network around the address.

        >>> import polars as pl
        >>> import whered.polars
        >>> frame = pl.DataFrame({"ip": ["192.0.2.7"]})
        >>> both = pl.col("ip").whered.fields(example_database, ["country.iso_code", "city.names.en"])
        >>> frame.select(both.struct.unnest()).rows()
        [('DE', 'Berlin')]
        """
        paths = [paths] if isinstance(paths, str) else list(paths or opened(database).fields)
        paths = [path for path in paths if not (network and path == "network")]
        return self._apply(_Lookup(database, paths, network, invalid, threads))

    def record(
        self,
        database: AnyDatabase,
        paths: str | Sequence[str] | None = None,
        *,
        network: bool = False,
        invalid: _Invalid = "null",
        threads: int = 1,
    ) -> _T:
        """The same as `fields`."""
        return self.fields(database, paths, network=network, invalid=invalid, threads=threads)

    def network(
        self, database: AnyDatabase, *, invalid: _Invalid = "null", threads: int = 1
    ) -> _T:
        """The network around each address that all has the same record, as `192.0.2.0/24`."""
        return self._apply(_Lookup(database, None, True, invalid, threads))

    def country(self, database: AnyDatabase, **options: Any) -> _T:
        """The country's two letters. `options` are those of `field`, here and below."""
        return self.field(database, PATHS["country"], **options)

    def country_name(self, database: AnyDatabase, *, language: str = "en", **options: Any) -> _T:
        """The country's name in a language."""
        return self.field(database, name_path("country_name", language), **options)

    def continent(self, database: AnyDatabase, **options: Any) -> _T:
        """The continent's two letters."""
        return self.field(database, PATHS["continent"], **options)

    def continent_name(self, database: AnyDatabase, *, language: str = "en", **options: Any) -> _T:
        """The continent's name in a language."""
        return self.field(database, name_path("continent_name", language), **options)

    def subdivision(self, database: AnyDatabase, **options: Any) -> _T:
        """The code of the largest subdivision, such as a state's."""
        return self.field(database, PATHS["subdivision"], **options)

    def subdivision_name(
        self, database: AnyDatabase, *, language: str = "en", **options: Any
    ) -> _T:
        """The name of the largest subdivision in a language."""
        return self.field(database, name_path("subdivision_name", language), **options)

    def city(self, database: AnyDatabase, *, language: str = "en", **options: Any) -> _T:
        """The city's name in a language."""
        return self.field(database, name_path("city", language), **options)

    def postal_code(self, database: AnyDatabase, **options: Any) -> _T:
        """The postal code."""
        return self.field(database, PATHS["postal_code"], **options)

    def time_zone(self, database: AnyDatabase, **options: Any) -> _T:
        """The time zone, as `Europe/Berlin`."""
        return self.field(database, PATHS["time_zone"], **options)

    def longitude(self, database: AnyDatabase, **options: Any) -> _T:
        """The longitude in degrees."""
        return self.field(database, PATHS["longitude"], **options)

    def latitude(self, database: AnyDatabase, **options: Any) -> _T:
        """The latitude in degrees."""
        return self.field(database, PATHS["latitude"], **options)

    def location(self, database: AnyDatabase, **options: Any) -> _T:
        """Longitude and latitude in degrees as a struct of `longitude` and `latitude`."""
        return self._renamed(self.fields(database, LOCATION, **options), ["longitude", "latitude"])

    def asn(self, database: AnyDatabase, **options: Any) -> _T:
        """The number of the autonomous system."""
        return self.field(database, PATHS["asn"], **options)

    def organization(self, database: AnyDatabase, **options: Any) -> _T:
        """The organization behind the autonomous system."""
        return self.field(database, PATHS["organization"], **options)

    def match(
        self, prefix_set: PrefixSet, *, invalid: _Invalid = "null", threads: int = 1
    ) -> _T:
        """The longest prefix of a set around each address, with its value, as a struct."""
        return self._apply(_Match(prefix_set, invalid, threads))

    def _renamed(self, structs: _T, names: list[str]) -> _T:
        return structs.struct.rename_fields(names)


@pl.api.register_expr_namespace("whered")
class ExpressionNamespace(_Methods[pl.Expr]):
    """`pl.col("ip").whered`: what databases and prefix sets say about addresses, as expressions."""

    def __init__(self, expression: pl.Expr) -> None:
        self._expression = expression

    def _apply(self, function: Callable[[pl.Series], pl.Series]) -> pl.Expr:
        # The answer for no rows has the type of all answers.
        dtype = function(pl.Series("", [], dtype=pl.String)).dtype
        return self._expression.map_batches(function, return_dtype=dtype, is_elementwise=True)


@pl.api.register_series_namespace("whered")
class SeriesNamespace(_Methods[pl.Series]):
    """`series.whered`: what databases and prefix sets say about addresses."""

    def __init__(self, series: pl.Series) -> None:
        self._series = series

    def _apply(self, function: Callable[[pl.Series], pl.Series]) -> pl.Series:
        return function(self._series)


class _Nearest:
    """The nearest point of each row of two series."""

    def __init__(
        self, points: Points, radius_meters: float | None, invalid: _Invalid, threads: int
    ) -> None:
        self.points = points
        self.options: dict[str, Any] = {
            "radius_meters": radius_meters,
            "invalid": invalid,
            "threads": threads,
        }

    def __call__(self, columns: Sequence[pl.Series]) -> pl.Series:
        longitude, latitude = columns
        # A literal is a series of one row.
        rows = max(len(longitude), len(latitude)) if len(longitude) and len(latitude) else 0
        longitude, latitude = (
            column.new_from_index(0, rows) if len(column) == 1 and rows != 1 else column
            for column in columns
        )
        table = self.points.nearest(longitude, latitude, **self.options)
        return table.to_polars().to_struct(columns[0].name)


def nearest(
    points: Points,
    longitude: str | pl.Expr,
    latitude: str | pl.Expr,
    *,
    radius_meters: float | None = None,
    invalid: _Invalid = "null",
    threads: int = 1,
) -> pl.Expr:
    """The nearest of the points to each row: a struct of `member` and `distance_meters`.

    Columns are names or expressions, in degrees. The struct's fields are null where a row has no
    place or no point within the radius.

    >>> import polars as pl
    >>> import whered, whered.polars
    >>> points = whered.Points(["a", "b"], [8.0, 9.0], [50.0, 51.0])
    >>> frame = pl.DataFrame({"lon": [8.1, None], "lat": [50.0, 50.0]})
    >>> frame.select(whered.polars.nearest(points, "lon", "lat").struct.field("member")).to_series().to_list()
    ['a', None]
    """
    columns = [
        pl.col(column) if isinstance(column, str) else column for column in (longitude, latitude)
    ]
    columns = [column.cast(pl.Float64) for column in columns]
    function = _Nearest(points, radius_meters, invalid, threads)
    nothing = pl.Series("", [], dtype=pl.Float64)
    dtype = function([nothing, nothing]).dtype
    return pl.map_batches(columns, function, return_dtype=dtype, is_elementwise=True)
