"""whered in pandas: `frame["ip"].whered.country("city.mmdb")`.

`import whered.pandas` adds the accessor `whered` to series and frames. Each method takes a database,
which is a path or a `whered.Database`; a path is opened once in the process. Results have the index
of their input. Null, NaN, and with `invalid="null"` whatever is no address, gives a missing value.

pandas 2 and 3 are taken, with pyarrow beside them.

>>> import pandas as pd
>>> import whered.pandas
>>> frame = pd.DataFrame({"ip": ["192.0.2.7", "nonsense"]}, index=["a", "b"])
>>> frame["ip"].whered.country(example_database).loc["a"]
'DE'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from ._helpers import LOCATION, PATHS, AnyDatabase, name_path, opened, require

if TYPE_CHECKING:
    from ._whered import Points, PrefixSet

__all__ = ["FrameAccessor", "SeriesAccessor"]

_Invalid = Literal["null", "raise"]


def _column(series: pd.Series) -> Any:
    """A series as a column of Arrow, or as a list where it holds objects of several kinds."""
    import pyarrow

    if pd.api.types.is_float_dtype(series.dtype) and series.isna().all():
        # What pandas makes of a column without any value.
        return pyarrow.nulls(len(series))
    try:
        return pyarrow.Array.from_pandas(series)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError):
        return series.tolist()


@pd.api.extensions.register_series_accessor("whered")
class SeriesAccessor:
    """`series.whered`: what databases and prefix sets say about addresses."""

    def __init__(self, series: pd.Series) -> None:
        self._series = series

    def field(
        self,
        database: AnyDatabase,
        path: str,
        *,
        invalid: _Invalid = "null",
        threads: int = 1,
    ) -> pd.Series:
        """One field of each address's record, such as `"traits.is_anycast"`, as a series that has
        the path for a name.

        `invalid="raise"` makes a text that is no address an error.

        Raises `ValueError` for a field that no record has.
        """
        column = _column(self._series)
        answer = opened(database).lookup(column, path, invalid=invalid, threads=threads)
        return answer.to_pandas().set_axis(self._series.index)

    def fields(
        self,
        database: AnyDatabase,
        paths: str | Sequence[str] | None = None,
        *,
        network: bool = False,
        invalid: _Invalid = "null",
        threads: int = 1,
    ) -> pd.DataFrame:
        """Several fields of each address's record as a frame that has the paths for columns.

        Without paths they are the fields that the database was opened with. `network` adds the
        network around the address.

        >>> import pandas as pd
        >>> import whered.pandas
        >>> series = pd.Series(["192.0.2.7"])
        >>> series.whered.fields(example_database, ["country.iso_code", "city.names.en"]).loc[0].to_list()
        ['DE', 'Berlin']
        """
        database = opened(database)
        paths = [paths] if isinstance(paths, str) else list(paths or database.fields)
        paths = [path for path in paths if not (network and path == "network")]
        column = _column(self._series)
        table = database.lookup(column, paths, network=network, invalid=invalid, threads=threads)
        return table.to_pandas().set_axis(self._series.index, axis="index")

    def record(self, database: AnyDatabase, **options: Any) -> pd.Series:
        """The whole record of each address as a dict, `None` where there is none.

        Raises `ValueError` for a text that is no address.
        """
        require(not options, f"record has no option {next(iter(options), '')!r}")
        get = opened(database).get
        records = [None if missing else get(address) for address, missing in zip(
            self._series, self._series.isna(), strict=True
        )]
        return pd.Series(records, index=self._series.index, dtype=object, name=self._series.name)

    def network(
        self, database: AnyDatabase, *, invalid: _Invalid = "null", threads: int = 1
    ) -> pd.Series:
        """The network around each address that all has the same record, as `192.0.2.0/24`."""
        return self.fields(database, [], network=True, invalid=invalid, threads=threads)["network"]

    def country(self, database: AnyDatabase, **options: Any) -> pd.Series:
        """The country's two letters. `options` are those of `field`, here and below."""
        return self.field(database, PATHS["country"], **options)

    def country_name(
        self, database: AnyDatabase, *, language: str = "en", **options: Any
    ) -> pd.Series:
        """The country's name in a language."""
        return self.field(database, name_path("country_name", language), **options)

    def continent(self, database: AnyDatabase, **options: Any) -> pd.Series:
        """The continent's two letters."""
        return self.field(database, PATHS["continent"], **options)

    def continent_name(
        self, database: AnyDatabase, *, language: str = "en", **options: Any
    ) -> pd.Series:
        """The continent's name in a language."""
        return self.field(database, name_path("continent_name", language), **options)

    def subdivision(self, database: AnyDatabase, **options: Any) -> pd.Series:
        """The code of the largest subdivision, such as a state's."""
        return self.field(database, PATHS["subdivision"], **options)

    def subdivision_name(
        self, database: AnyDatabase, *, language: str = "en", **options: Any
    ) -> pd.Series:
        """The name of the largest subdivision in a language."""
        return self.field(database, name_path("subdivision_name", language), **options)

    def city(self, database: AnyDatabase, *, language: str = "en", **options: Any) -> pd.Series:
        """The city's name in a language."""
        return self.field(database, name_path("city", language), **options)

    def postal_code(self, database: AnyDatabase, **options: Any) -> pd.Series:
        """The postal code."""
        return self.field(database, PATHS["postal_code"], **options)

    def time_zone(self, database: AnyDatabase, **options: Any) -> pd.Series:
        """The time zone, as `Europe/Berlin`."""
        return self.field(database, PATHS["time_zone"], **options)

    def longitude(self, database: AnyDatabase, **options: Any) -> pd.Series:
        """The longitude in degrees."""
        return self.field(database, PATHS["longitude"], **options)

    def latitude(self, database: AnyDatabase, **options: Any) -> pd.Series:
        """The latitude in degrees."""
        return self.field(database, PATHS["latitude"], **options)

    def location(self, database: AnyDatabase, **options: Any) -> pd.DataFrame:
        """A frame of `longitude` and `latitude` in degrees."""
        frame = self.fields(database, LOCATION, **options)
        return frame.set_axis(["longitude", "latitude"], axis="columns")

    def asn(self, database: AnyDatabase, **options: Any) -> pd.Series:
        """The number of the autonomous system."""
        return self.field(database, PATHS["asn"], **options)

    def organization(self, database: AnyDatabase, **options: Any) -> pd.Series:
        """The organization behind the autonomous system."""
        return self.field(database, PATHS["organization"], **options)

    def match(
        self, prefix_set: PrefixSet, *, invalid: _Invalid = "null", threads: int = 1
    ) -> pd.DataFrame:
        """The longest prefix of a set around each address, with its value."""
        table = prefix_set.match(_column(self._series), invalid=invalid, threads=threads)
        return table.to_pandas().set_axis(self._series.index, axis="index")


@pd.api.extensions.register_dataframe_accessor("whered")
class FrameAccessor:
    """`frame.whered`: frames with columns of answers added."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def enrich(
        self,
        column: str,
        database: AnyDatabase,
        fields: Sequence[str] | Mapping[str, str] | None = None,
        *,
        network: bool = False,
        invalid: _Invalid = "null",
        threads: int = 1,
    ) -> pd.DataFrame:
        """The frame with columns for fields of the addresses in one of its columns.

        `fields` are paths, or `{column: path}`; without, those that the database was opened with.

        Raises `KeyError` for a column that the frame lacks, and `ValueError` for a new column that
        it has already.

        >>> import pandas as pd
        >>> import whered.pandas
        >>> frame = pd.DataFrame({"user": ["ann"], "ip": ["192.0.2.7"]})
        >>> frame.whered.enrich("ip", example_database, {"country": "country.iso_code"}).loc[0].to_list()
        ['ann', '192.0.2.7', 'DE']
        """
        database = opened(database)
        if isinstance(fields, str):
            fields = [fields]
        fields = database.fields if fields is None else fields
        if not isinstance(fields, Mapping):
            fields = {path: path for path in fields}
        paths = [path for path in fields.values() if not (network and path == "network")]
        answers = self._frame[column].whered.fields(
            database, list(dict.fromkeys(paths)), network=network, invalid=invalid, threads=threads
        )
        named = {name: answers[path] for name, path in fields.items()}
        if network:
            named.setdefault("network", answers["network"])
        return self._with(pd.DataFrame(named, index=self._frame.index))

    def nearest(
        self,
        points: Points,
        longitude: str,
        latitude: str,
        *,
        radius_meters: float | None = None,
        invalid: _Invalid = "null",
        threads: int = 1,
    ) -> pd.DataFrame:
        """The frame with the nearest point to each row: columns `member` and `distance_meters`.

        Both are missing where a row has no place or no point within the radius.
        """
        places = [_column(self._frame[name].astype("float64")) for name in (longitude, latitude)]
        table = points.nearest(
            *places, radius_meters=radius_meters, invalid=invalid, threads=threads
        )
        return self._with(table.to_pandas().set_axis(self._frame.index, axis="index"))

    def _with(self, answers: pd.DataFrame) -> pd.DataFrame:
        there = [name for name in answers.columns if name in self._frame.columns]
        require(not there, f"the frame has a column {there[:1]} already: rename it first")
        return pd.concat([self._frame, answers], axis="columns")
