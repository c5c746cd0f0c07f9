"""whered in Spark: columns of a data frame, answered on the workers by `mapInArrow`.

`whered` must be installed where the workers run. The driver makes the index file of a database once
and ships both to the workers (`ship=True`), or the workers have the files at the same paths
(`ship=False`), on a shared disk or in an image. Each process of a worker maps them once and keeps
them for its next tasks, so that all processes of a machine share their memory.

Nothing runs before Spark needs the answers: schemas are known on the driver.

    frame = whered.spark.enrich(frame, "city.mmdb", ["country.iso_code", "city.names.en"])
    frame = whered.spark.match(frame, "blocked.txt")
    frame = whered.spark.nearest(frame, shops, longitude="lon", latitude="lat")
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

from . import _whered
from ._helpers import columns_of, require

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

__all__ = ["enrich", "match", "nearest"]

_Invalid = Literal["null", "raise"]
_Path = Union[str, "os.PathLike[str]"]


def enrich(
    frame: DataFrame,
    database: _Path,
    fields: Sequence[str] | Mapping[str, str] | None = None,
    *,
    column: str = "ip",
    network: bool = False,
    ship: bool = True,
    invalid: _Invalid = "null",
) -> DataFrame:
    """The frame with columns for fields of the addresses in one of its columns.

    `fields` are paths, which give columns such as `country_iso_code`, or `{column: path}`; without,
    those that a `Database` takes by itself. `network` adds a column with the network around the
    address. Null, and with `invalid="null"` whatever is no address, gives null; with
    `invalid="raise"` it ends the job.

    `ship=False` ships nothing: each worker has the database and its index (`city.mmdb.index`) at
    the same paths as the driver, which makes the index where it is missing.

    Raises `ValueError` for a column that the frame lacks, for a new one that it has already, and
    for a field that no record has. A job fails with `FileNotFoundError` where a worker lacks a file.
    """
    path = os.path.abspath(os.fspath(database))
    here, index = _with_index(path, may_be_elsewhere=ship)
    columns = columns_of(here, fields)
    if columns.get("network") == "network":
        del columns["network"]
        network = True
    files = _ship(frame, {path: "", index: ".index"}) if ship else _Files([path, f"{path}.index"])
    return _map(frame, _Enrich(files, column, columns, network, invalid), here)


def match(
    frame: DataFrame,
    prefixes: Any,
    *,
    column: str = "ip",
    into: tuple[str, str] = ("prefix", "value"),
    format: str | None = None,
    ship: bool = True,
    invalid: _Invalid = "null",
) -> DataFrame:
    """The frame with the longest prefix around each address and its value, null where there is none.

    `prefixes` is the path of a file for `PrefixSet.read`, with its `format` where that is not plain
    from the name; or a list of prefixes, a mapping of prefixes to values, or a table (Arrow, polars,
    pandas, Spark) with the column `prefix` and, if there are values, `value`. `into` names the new
    columns.

    `ship=False` takes a file alone, which each worker has at the same path as the driver.

    Raises and fails as `enrich`.
    """
    if isinstance(prefixes, (str, os.PathLike)):
        path = os.path.abspath(os.fspath(prefixes))
        files = _ship(frame, {path: ""}) if ship else _Files([path])
        step = _Match(files, column, into, invalid, format=format)
        return _map(frame, step, step.open([path]))
    require(ship, "ship=False takes the path of a file that each worker has, not a table")
    table = _prefix_table(prefixes)
    step = _Match(_ship_table(frame, table), column, into, invalid, is_table=True)
    return _map(frame, step, _prefix_set(table))


def nearest(
    frame: DataFrame,
    points: Any,
    *,
    longitude: str = "longitude",
    latitude: str = "latitude",
    count: int = 1,
    radius_meters: float | None = None,
    into: tuple[str, str] = ("member", "distance_meters"),
    invalid: _Invalid = "null",
) -> DataFrame:
    """The frame joined with the nearest of some points to each row.

    `points` is a `Points`, or a table (Arrow, polars, pandas, Spark) with the columns `member`,
    `longitude` and `latitude` in degrees. It is collected on the driver and shipped; each process
    of a worker builds its index once. `into` names the new columns.

    With `count=1` each row has one answer, null where a row has no place or no point within the
    radius. With a larger `count` a row is there once for each of its points, nearest first, with a
    column `rank` from 1; rows without any point are left out.

    Raises and fails as `enrich`.
    """
    table = _point_table(points)
    options = {"count": count, "radius_meters": radius_meters, "invalid": invalid}
    here = _points(table)  # What is wrong with a point is said here and not on a worker.
    step = _Nearest(_ship_table(frame, table), (longitude, latitude), into, options)
    return _map(frame, step, here)


# ---- What runs on the workers. ----


class _Files:
    """Files that a worker has: shipped ones by their names, others by their paths."""

    def __init__(self, names: list[str], *, is_shipped: bool = False) -> None:
        self.names = names
        self.is_shipped = is_shipped

    def paths(self) -> list[str]:
        """Where this process finds them.

        Raises `FileNotFoundError` that names file and worker.
        """
        paths = self.names
        if self.is_shipped:
            from pyspark import SparkFiles

            paths = [SparkFiles.get(name) for name in self.names]
        for path in paths:
            if not os.path.isfile(path):
                remedy = "Spark did not ship it" if self.is_shipped else "copy it there or ship it"
                what = f"there is no file {path} on the worker {socket.gethostname()}: {remedy}"
                raise FileNotFoundError(what)
        return paths


# What this process has opened, by kind, paths, sizes and times of change: a file that was replaced
# counts as another one.
_opened: dict[Any, Any] = {}

# How many of them are kept: the one used longest ago goes first.
_MOST_KEPT = 8


class _Step:
    """What `mapInArrow` calls: opens its files once a process and adds columns to batches."""

    # The answers' columns, with types that Spark has.
    schema: pyarrow.Schema

    def __init__(self, files: _Files, inputs: Sequence[str]) -> None:
        self.files = files
        self.inputs = inputs

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        opened = self._kept()
        for batch in batches:
            table, rows = self.answers(opened, [batch.column(name) for name in self.inputs])
            answers = [
                _whole(table.column(field.name).cast(field.type)) for field in self.schema
            ]
            if rows is not None:
                batch = batch.take(rows)
            names = [*batch.schema.names, *self.schema.names]
            yield pyarrow.RecordBatch.from_arrays([*batch.columns, *answers], names)

    def _kept(self) -> Any:
        paths = self.files.paths()
        stamps = [(status.st_size, status.st_mtime_ns) for status in map(os.stat, paths)]
        key = (type(self).__name__, getattr(self, "format", None), *paths, *stamps)
        opened = _opened.pop(key, None)
        if opened is None:
            opened = self.open(paths)
        _opened[key] = opened
        while len(_opened) > _MOST_KEPT:
            del _opened[next(iter(_opened))]
        return opened

    def open(self, paths: list[str]) -> Any:
        """What answers, from its files."""
        raise NotImplementedError

    def answers(self, opened: Any, columns: list[pyarrow.Array]) -> tuple[pyarrow.Table, Any]:
        """The new columns, and the rows they belong to where these are not all in order."""
        raise NotImplementedError


class _Enrich(_Step):
    def __init__(
        self, files: _Files, column: str, columns: dict[str, str], network: bool, invalid: str
    ) -> None:
        super().__init__(files, [column])
        self.columns = columns
        self.network = network
        self.options: dict[str, Any] = {"invalid": invalid, "strings": "utf8"}

    def open(self, paths: list[str]) -> _whered.Database:
        return _whered.Database(paths[0], index="file")

    def answers(
        self, opened: _whered.Database, columns: list[pyarrow.Array]
    ) -> tuple[pyarrow.Table, Any]:
        import pyarrow

        paths = list(dict.fromkeys(self.columns.values()))
        table = opened.lookup(columns[0], paths, network=self.network, **self.options).to_pyarrow()
        answers = {name: table.column(path) for name, path in self.columns.items()}
        if self.network:
            answers["network"] = table.column("network")
        return pyarrow.table(answers), None


class _Match(_Step):
    def __init__(
        self,
        files: _Files,
        column: str,
        into: tuple[str, str],
        invalid: str,
        *,
        format: str | None = None,
        is_table: bool = False,
    ) -> None:
        super().__init__(files, [column])
        self.into = into
        self.format = format
        self.is_table = is_table
        self.options: dict[str, Any] = {"invalid": invalid, "strings": "utf8"}

    def open(self, paths: list[str]) -> _whered.PrefixSet:
        if self.is_table:
            return _prefix_set(_read_table(paths[0]))
        return _whered.PrefixSet.read(paths[0], format=self.format)

    def answers(
        self, opened: _whered.PrefixSet, columns: list[pyarrow.Array]
    ) -> tuple[pyarrow.Table, Any]:
        table = opened.match(columns[0], **self.options).to_pyarrow()
        return table.select(["prefix", "value"]).rename_columns(list(self.into)), None


class _Nearest(_Step):
    def __init__(
        self,
        files: _Files,
        columns: tuple[str, str],
        into: tuple[str, str],
        options: dict[str, Any],
    ) -> None:
        super().__init__(files, columns)
        self.into = into
        self.options = options | {"strings": "utf8"}

    def open(self, paths: list[str]) -> _whered.Points:
        return _points(_read_table(paths[0]))

    def answers(
        self, opened: _whered.Points, columns: list[pyarrow.Array]
    ) -> tuple[pyarrow.Table, Any]:
        places = [column.cast("float64") for column in columns]
        table = opened.nearest(*places, **self.options).to_pyarrow()
        if self.options["count"] == 1:
            return table.select(["member", "distance_meters"]).rename_columns(list(self.into)), None
        answers = table.select(["rank", "member", "distance_meters"])
        return answers.rename_columns(["rank", *self.into]), _whole(table.column("row"))


def _whole(column: Any) -> pyarrow.Array:
    """A chunked column in one piece."""
    import pyarrow

    if isinstance(column, pyarrow.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(column, pyarrow.ChunkedArray):
        column = pyarrow.concat_arrays(column.chunks)
    return column


def _read_table(path: str) -> pyarrow.Table:
    import pyarrow

    with pyarrow.memory_map(path) as file:
        return pyarrow.ipc.open_file(file).read_all()


def _prefix_set(table: pyarrow.Table) -> _whered.PrefixSet:
    values = table.column("value") if "value" in table.column_names else None
    return _whered.PrefixSet(table.column("prefix"), values)


def _points(table: pyarrow.Table) -> _whered.Points:
    points = _whered.Points()
    points.add(table.column("member"), table.column("longitude"), table.column("latitude"))
    return points


# ---- What runs on the driver. ----


def _map(frame: DataFrame, step: _Step, opened: Any) -> DataFrame:
    """The frame through a step; `opened` is what the step opens, on the driver."""
    import pyarrow
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
    from pyspark.sql.types import StructType

    columns = frame.columns
    missing = [name for name in step.inputs if name not in columns]
    require(not missing, f"the frame has no column {missing[:1]}; it has {columns}")
    kinds = [to_arrow_type(frame.schema[name].dataType) for name in step.inputs]
    nothing = [pyarrow.array([], kind) for kind in kinds]
    answers, _ = step.answers(opened, nothing)
    step.schema = pyarrow.schema([(field.name, _spark_type(field.type)) for field in answers.schema])
    names = step.schema.names
    there = [name for name in names if name in columns or names.count(name) > 1]
    require(not there, f"the column {there[:1]} would be there twice: rename one")
    added = from_arrow_schema(step.schema)
    return frame.mapInArrow(step, StructType([*frame.schema.fields, *added.fields]))


def _spark_type(kind: pyarrow.DataType) -> pyarrow.DataType:
    """The type that holds all values of another one, and that Spark has."""
    import pyarrow

    if pyarrow.types.is_string_view(kind) or pyarrow.types.is_large_string(kind):
        return pyarrow.string()
    wider: Mapping[pyarrow.DataType, pyarrow.DataType] = {
        pyarrow.uint8(): pyarrow.int16(),
        pyarrow.uint16(): pyarrow.int32(),
        pyarrow.uint32(): pyarrow.int64(),
        pyarrow.uint64(): pyarrow.decimal128(20, 0),
    }
    return wider.get(kind, kind)


def _with_index(path: str, *, may_be_elsewhere: bool) -> tuple[_whered.Database, str]:
    """The database, and the path of its index, which is written where it is missing or old."""
    database = _whered.Database(path)
    index = f"{path}.index"
    if not database.is_index_mapped:
        try:
            database.save_index()
        except OSError:
            if not may_be_elsewhere:
                raise
            index = database.save_index(os.path.join(_folder(), f"{_stamp(path)}.index"))
    return database, index


def _folder() -> str:
    """A folder of this process for files to ship; it goes with the process."""
    global _made_folder
    if _made_folder is None or _made_folder[0] != os.getpid():
        folder = tempfile.mkdtemp(prefix="whered-spark-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _made_folder = (os.getpid(), folder)
    return _made_folder[1]


_made_folder: tuple[int, str] | None = None


def _stamp(path: str) -> str:
    """A name for a file as it is now. Spark never ships another file of the same name."""
    status = os.stat(path)
    text = f"{os.path.realpath(path)} {status.st_ino} {status.st_size} {status.st_mtime_ns}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"whered-{digest[:16]}-{os.path.basename(path)}"


def _ship(frame: DataFrame, files: Mapping[str, str]) -> _Files:
    """Ships files under one name, that of the first, with these endings."""
    name = _stamp(next(iter(files)))
    names = []
    for path, ending in files.items():
        names.append(f"{name}{ending}")
        _add_file(frame, names[-1], lambda copy, path=path: _link(path, copy))
    return _Files(names, is_shipped=True)


def _link(path: str, copy: str) -> None:
    try:
        os.link(os.path.realpath(path), copy)
    except OSError:  # Another file system, or one without links.
        shutil.copyfile(path, copy)


def _ship_table(frame: DataFrame, table: pyarrow.Table) -> _Files:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue()
    name = f"whered-{hashlib.sha256(data).hexdigest()[:16]}.arrow"
    _add_file(frame, name, lambda copy: Path(copy).write_bytes(data) and None)
    return _Files([name], is_shipped=True)


def _add_file(frame: DataFrame, name: str, write: Callable[[str], None]) -> None:
    session = frame.sparkSession
    copy = os.path.join(_folder(), name)
    if not os.path.exists(copy):
        write(copy)
    if copy in session.sparkContext.listFiles:
        return
    session.sparkContext.addFile(copy)


def _table(rows: Any) -> pyarrow.Table:
    """A table of Arrow, polars, pandas or Spark, or columns by name."""
    import pyarrow

    if hasattr(rows, "sparkSession"):
        return rows.toArrow()
    if hasattr(rows, "__arrow_c_stream__") or isinstance(rows, Mapping):
        return pyarrow.table(rows)
    try:
        return pyarrow.Table.from_pandas(rows, preserve_index=False)
    except (AttributeError, TypeError):
        what = f"a table of Arrow, polars, pandas or Spark is taken, not {type(rows).__name__}"
        raise TypeError(what) from None


def _prefix_table(prefixes: Any) -> pyarrow.Table:
    import pyarrow

    if isinstance(prefixes, Mapping):
        columns = {"prefix": [str(prefix) for prefix in prefixes], "value": prefixes.values()}
        return pyarrow.table({name: list(column) for name, column in columns.items()})
    if isinstance(prefixes, (list, tuple, set, frozenset)):
        return pyarrow.table({"prefix": [str(prefix) for prefix in prefixes]})
    table = _table(prefixes)
    _require_columns(table, ["prefix"])
    return table.select([name for name in ("prefix", "value") if name in table.column_names])


def _point_table(points: Any) -> pyarrow.Table:
    columns = ["member", "longitude", "latitude"]
    if isinstance(points, _whered.Points):
        return points.within(box=(-180, -90, 180, 90)).to_pyarrow().select(columns)
    table = _table(points)
    _require_columns(table, columns)
    return table.select(columns)


def _require_columns(table: pyarrow.Table, names: list[str]) -> None:
    missing = [name for name in names if name not in table.column_names]
    require(not missing, f"the table has no column {missing[:1]}; it has {table.column_names}")
