"""Spark: jobs over a file of addresses on a cluster of two workers with one core each.

The identity job hands every batch to Python and back; ours adds four fields to it. The difference
is what whered costs. Row by row is a function of Python over maxminddb, as people write it today, on
fewer rows. Jobs run in turn; a figure is a job's time by the clock, and the processor time of all
processes of the cluster, which a busy machine spoils less.
"""

from __future__ import annotations

import os
import pathlib
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from columns import FIELDS
from measure import Measure, Report, same, same_columns

SCHEMA = "country string, city string, latitude double, longitude double"


def measure(report: Report, database: str, rounds: int, rows: int) -> None:
    if shutil.which("java") is None:
        raise SystemExit("Spark needs Java: install a runtime, or leave it out by --parts")
    with tempfile.TemporaryDirectory() as folder:
        session = _session(folder)
        try:
            _measure(report, session, folder, database, rounds, rows)
        finally:
            session.stop()


def _session(folder: str) -> Any:
    from pyspark.sql import SparkSession

    import whered

    os.environ["PYSPARK_PYTHON"] = sys.executable
    package = str(pathlib.Path(whered.__file__).resolve().parents[1])
    here = str(pathlib.Path(__file__).resolve().parent)
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join([package, here]))
        .config("spark.local.dir", folder)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def _identity(batches: Iterable[Any]) -> Iterator[Any]:
    yield from batches


_readers: dict[str, Any] = {}


def _row_by_row(database: str) -> Any:
    from pyspark.sql.functions import udf

    @udf(SCHEMA)
    def fields(ip: str) -> tuple[Any, ...]:
        import maxminddb

        reader = _readers.get(database)
        if reader is None:
            reader = _readers[database] = maxminddb.open_database(database)
        record = reader.get(ip) or {}
        place = record.get("location") or {}
        return (
            (record.get("country") or {}).get("iso_code"),
            ((record.get("city") or {}).get("names") or {}).get("en"),
            place.get("latitude"),
            place.get("longitude"),
        )

    return fields


def _measure(
    report: Report, session: Any, folder: str, database: str, rounds: int, rows: int
) -> None:
    import pyarrow
    import pyarrow.parquet

    import whered.spark

    drawn = random.Random(3)

    def addresses(name: str, files: int, count: int) -> Any:
        for number in range(files):
            numbers = (drawn.getrandbits(32) for _ in range(count // files))
            strings = [".".join(map(str, each.to_bytes(4, "big"))) for each in numbers]
            path = pathlib.Path(folder, name, f"{number}.parquet")
            path.parent.mkdir(exist_ok=True)
            # Without a compression, which would be most of the identity job.
            pyarrow.parquet.write_table(pyarrow.table({"ip": strings}), path, compression="none")
        return session.read.parquet(str(path.parent))

    rows, count = rows // 8 * 8, max(rows // 320, 1) * 8
    frame, few = addresses("addresses", 8, rows), addresses("few", 8, count)

    names = dict(zip(["country", "city", "latitude", "longitude"], FIELDS, strict=True))
    enriched = whered.spark.enrich(frame, database, names)
    unchanged = frame.mapInArrow(_identity, frame.schema)
    by_row = few.select("ip", _row_by_row(os.path.abspath(database))("ip").alias("answer"))

    _check(enriched, f"{folder}/addresses", database)
    _check(by_row.select("ip", "answer.*"), f"{folder}/few", database)

    jobs: dict[str, tuple[Callable[[], None], int]] = {
        "whered.spark.enrich": (lambda: _run(enriched), rows),
        "identity": (lambda: _run(unchanged), rows),
        "row by row over maxminddb": (lambda: _run(by_row), count),
    }
    clock: dict[str, list[float]] = {name: [] for name in jobs}
    processor: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(rounds + 1):
        order = list(jobs)
        order = order[number % len(order) :] + order[: number % len(order)]
        for name in order:
            job, job_rows = jobs[name]
            before, spent = time.perf_counter(), _processor_time()
            job()
            if number:  # The first round warms the JVM.
                clock[name].append((time.perf_counter() - before) / job_rows)
                processor[name].append((_processor_time() - spent) / job_rows)
    what = f"Spark, two workers, {rows:,} rows, 4 fields"
    for kind, times in (("job time", clock), ("processor time", processor)):
        own = times["whered.spark.enrich"]
        for name, values in times.items():
            rates = [1e-3 / value for value in values]
            report.add(Measure(f"{what}, {kind}: {name}", rates, "k/s"))
        ratios = [mine / theirs for mine, theirs in zip(own, times["identity"], strict=True)]
        bar = 2.0 if kind == "job time" else None
        name = f"{what}, {kind}: whered.spark.enrich / identity"
        report.add(Measure(name, ratios, "times", at_most=bar))
        ratios = [theirs / mine for mine, theirs in zip(own, times["row by row over maxminddb"])]
        name = f"{what}, {kind}: row by row over maxminddb / whered.spark.enrich"
        report.add(Measure(name, ratios, "times"))


def _run(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _check(answers: Any, addresses: str, database: str) -> None:
    """Holds every row of a job's answers against maxminddb-polars."""
    import maxminddb_polars
    import polars as pl

    path = f"{addresses}-answers"
    answers.write.option("compression", "uncompressed").mode("overwrite").parquet(path)
    found = pl.read_parquet(f"{path}/*.parquet")
    asked = pl.read_parquet(f"{addresses}/*.parquet")
    same_columns("Spark, rows", asked["ip"].sort().to_arrow(), found["ip"].sort().to_arrow())
    dtype = pl.Struct(
        {
            "country": pl.Struct({"iso_code": pl.String}),
            "city": pl.Struct({"names": pl.Struct({"en": pl.String})}),
            "location": pl.Struct({"latitude": pl.Float64, "longitude": pl.Float64}),
        }
    )
    record = pl.col("ip").pipe(maxminddb_polars.lookup, database, dtype=dtype)
    expected = found.select(record.alias("record")).unnest("record")
    columns = {
        "country": expected["country"].struct.field("iso_code"),
        "city": expected["city"].struct.field("names").struct.field("en"),
        "latitude": expected["location"].struct.field("latitude"),
        "longitude": expected["location"].struct.field("longitude"),
    }
    for name, column in columns.items():
        same_columns(f"Spark, {name}", column.to_arrow(), found[name].to_arrow())
    shutil.rmtree(path)


def _processor_time() -> float:
    """Processor seconds of this process and all that came from it, ended ones included."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It has ended meanwhile.
        parents[int(folder.name)] = int(fields[1])
        # user, system, and both of children that were waited for.
        spent[int(folder.name)] = sum(map(int, fields[11:15]))
    family = {os.getpid()}
    while True:
        more = {child for child, parent in parents.items() if parent in family} - family
        if not more:
            break
        family |= more
    return sum(spent.get(process, 0) for process in family) / os.sysconf("SC_CLK_TCK")
