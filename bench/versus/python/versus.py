"""whered in Python beside its rivals: `python versus.py --db city.mmdb --asn asn.mmdb`.

`make bench-python` makes the data, installs the rivals and this repository's package, runs all parts
and writes bench/results. Each part compares all answers and ends the run where two differ.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import pathlib
import random
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from measure import Report

PARTS = ["columns", "calls", "duckdb", "points", "spark"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--db", required=True, help="a city database: whered-bench data --out DIR")
    parser.add_argument("--asn", required=True, help="an ASN database, for polars-iptools alone")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--core", type=int, help="the core that all parts but Spark run on")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--addresses", type=int, default=1_000_000)
    parser.add_argument("--spark-rows", type=int, default=10_000_000)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--record", type=pathlib.Path, help="a folder for results: bench/results")
    parser.add_argument("--date", help="of the result's file: YYYY-MM-DD")
    options = parser.parse_args()
    parts = options.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--parts: {min(unknown)!r}; allowed are {', '.join(PARTS)}")
    if options.record and not options.date:
        parser.error("--record needs --date")

    # Before polars is imported, which makes its threads then.
    os.environ["POLARS_MAX_THREADS"] = "1"
    whole_machine = os.sched_getaffinity(0)
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})

    from measure import Report

    drawn = random.Random(1)
    numbers = (drawn.getrandbits(32) for _ in range(options.addresses))
    ips = [".".join(map(str, number.to_bytes(4, "big"))) for number in numbers]
    report = Report(
        f"{options.addresses:,} uniformly random IPv4 addresses as strings, a city database; "
        f"one core and processor time, {options.rounds} rounds in turn; Spark on two workers of "
        "one core each"
    )
    with tempfile.TemporaryDirectory() as folder:
        # Links, so that no index of an earlier run is beside them.
        for name, path in (("city", options.db), ("asn", options.asn)):
            os.symlink(os.path.abspath(path), f"{folder}/{name}.mmdb")
        run(report, parts, options, whole_machine, f"{folder}/city.mmdb", f"{folder}/asn.mmdb", ips)
    if options.record and parts != PARTS:
        print("no result is written: these are not all parts")
    elif options.record:
        path = report.write(options.record, options.date, _versions())
        print(f"written: {path}")


def run(
    report: Report,
    parts: list[str],
    options: argparse.Namespace,
    whole_machine: set[int],
    database: str,
    asn: str,
    ips: list[str],
) -> None:
    # Not before the processor's core and polars' threads are chosen.
    import calls
    import columns
    import points
    import spark_jobs
    import sql

    rounds, rows = options.rounds, options.addresses
    if "columns" in parts:
        columns.measure(report, database, asn, ips, rounds, rows)
    if "calls" in parts:
        # As many as fit without asking twice.
        calls.measure(report, database, ips, rounds, max(rows // rounds // 2, 1))
    if "duckdb" in parts:
        sql.measure(report, database, ips, rounds, rows)
    if "points" in parts:
        points.measure(report, options.points, rounds, options.points)
    if "spark" in parts:
        os.sched_setaffinity(0, whole_machine)
        spark_jobs.measure(report, database, max(rounds // 3, 1), options.spark_rows)


def _versions() -> dict[str, str]:
    """The rivals' versions, from the list of what is installed for them."""
    lines = pathlib.Path(__file__).with_name("requirements.txt").read_text().splitlines()
    words = (line.partition("#")[0].strip() for line in lines)
    names = (word.partition("==")[0].partition("<")[0] for word in words if word)
    return {name: importlib.metadata.version(name) for name in names}


if __name__ == "__main__":
    main()
