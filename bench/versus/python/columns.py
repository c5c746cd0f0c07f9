"""Columns of address strings looked up: one field, and four fields.

Our contestants are `whered.Database` on a column of polars, and our expression in polars. Rivals:
maxminddb-polars and polars-iptools, which are plugins of polars, and maxminddb-rust on lists.
polars-iptools knows no single fields: it always gives twelve, of two databases.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
from typing import Any

from measure import Contestant, Report, in_turn, same, same_columns

FIELDS = ["country.iso_code", "city.names.en", "location.latitude", "location.longitude"]


def measure(
    report: Report, database: str, asn: str, ips: list[str], rounds: int, rows: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # The only place that polars-iptools looks into, and the only names.
        for name, path in (("City", database), ("ASN", asn)):
            os.symlink(os.path.abspath(path), pathlib.Path(folder) / f"GeoLite2-{name}.mmdb")
        os.environ["MAXMIND_MMDB_DIR"] = folder
        _measure(report, database, ips, rounds, rows)


def _measure(report: Report, database: str, ips: list[str], rounds: int, rows: int) -> None:
    import maxminddb_polars
    import maxminddb_rust
    import polars as pl
    import polars_iptools

    import whered
    import whered.polars

    column = pl.Series("ip", ips)
    ours = whered.Database(database, FIELDS)
    on_lists = maxminddb_rust.open_database(database)
    dtype = pl.Struct(
        {
            "country": pl.Struct({"iso_code": pl.String}),
            "city": pl.Struct({"names": pl.Struct({"en": pl.String})}),
            "location": pl.Struct({"latitude": pl.Float64, "longitude": pl.Float64}),
        }
    )

    def select(expression: Any) -> Any:
        return lambda start, end: column[start:end].to_frame().select(expression)

    ip = pl.col("ip")
    path = ["country", "iso_code"]
    one = ip.whered.country(ours)
    four = ip.whered.fields(ours, FIELDS)
    their_one = maxminddb_polars.lookup_path(ip, database, path)
    their_four = maxminddb_polars.lookup(ip, database, dtype=dtype)
    twelve = polars_iptools.geoip.full(ip)

    frame = column.to_frame()
    first = ours.lookup(column, FIELDS[0]).to_polars()
    table = ours.lookup(column, FIELDS).to_polars()
    for what, found in {
        "our expression": frame.select(one).to_series(),
        "maxminddb-polars": frame.select(their_one).to_series(),
        "maxminddb-rust": pl.Series(on_lists.get_many_path(ips, tuple(path)), dtype=pl.String),
    }.items():
        same_columns(f"one field, {what}", first.to_arrow(), found.to_arrow())
    structs = frame.select(their_four).to_series()
    theirs = {
        "our expression": frame.select(four).to_series().struct.unnest(),
        "maxminddb-polars": pl.DataFrame(
            {path: _step(structs, path.split(".")) for path in FIELDS}
        ),
    }
    full = frame.select(twelve).to_series().struct
    names = ["country_iso", "city", "latitude", "longitude"]
    theirs["polars-iptools"] = pl.DataFrame(
        {path: full.field(name) for path, name in zip(FIELDS, names, strict=True)}
    )
    for what, found in theirs.items():
        expected = table
        if what == "polars-iptools":
            # It has an empty text, or 0, where a record lacks the field.
            expected, found = (
                each.with_columns(pl.col(pl.String).fill_null(""), pl.col(pl.Float64).fill_null(0))
                for each in (expected, found)
            )
        for path in FIELDS:
            same_columns(f"{path}, {what}", expected[path].to_arrow(), found[path].to_arrow())
    same("rows", len(ips), len(table))

    slow = max(rows // 8, 1)
    in_turn(
        report,
        "column of text to 1 field",
        [
            Contestant(
                "whered.Database",
                lambda start, end: ours.lookup(column[start:end], FIELDS[0]),
                rows,
                is_ours=True,
            ),
            Contestant("whered.polars", select(one), rows, is_ours=True),
            Contestant("maxminddb-polars lookup_path", select(their_one), slow),
            Contestant(
                "maxminddb-rust get_many_path",
                lambda start, end: on_lists.get_many_path(ips[start:end], tuple(path)),
                slow,
            ),
        ],
        rounds,
        len(ips),
        at_least=10,
    )
    in_turn(
        report,
        "column of text to 4 fields",
        [
            Contestant(
                "whered.Database",
                lambda start, end: ours.lookup(column[start:end], FIELDS),
                rows,
                is_ours=True,
            ),
            Contestant("whered.polars", select(four), rows, is_ours=True),
            Contestant("maxminddb-polars lookup", select(their_four), slow),
            Contestant("polars-iptools full", select(twelve), max(slow // 4, 1)),
        ],
        rounds,
        len(ips),
        at_least=4,
    )


def _step(structs: Any, names: list[str]) -> Any:
    for name in names:
        structs = structs.struct.field(name)
    return structs
