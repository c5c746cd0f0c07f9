"""DuckDB: functions over columns of Arrow, beside a scalar function over maxminddb.

Both are functions of Python in one connection with one thread, over a table in memory. The scalar one
is what the web's examples show: a call of Python for each row.
"""

from __future__ import annotations

from typing import Any

from measure import Contestant, Report, in_turn, same


def measure(report: Report, database: str, ips: list[str], rounds: int, rows: int) -> None:
    import duckdb
    import maxminddb
    import pyarrow

    import whered
    import whered.duckdb

    reader = maxminddb.open_database(database, maxminddb.MODE_MMAP_EXT)

    def country(ip: str | None) -> str | None:
        record: Any = reader.get(ip) if ip is not None else None
        return ((record or {}).get("country") or {}).get("iso_code")

    with duckdb.connect(config={"threads": 1}) as connection:
        whered.duckdb.register(connection, whered.Database(database, ["country.iso_code"]))
        connection.create_function(
            "scalar_country", country, ["VARCHAR"], "VARCHAR", null_handling="special"
        )
        numbered = pyarrow.table({"ip": ips, "row": range(len(ips))})
        connection.execute("CREATE TABLE log AS SELECT * FROM numbered")
        assert numbered.num_rows == len(ips)

        def query(function: str) -> Any:
            sql = f"SELECT count({function}(ip)) FROM log WHERE row >= ? AND row < ?"
            return lambda start, end: connection.execute(sql, [start, end]).fetchall()

        in_turn(
            report,
            "DuckDB, a column to 1 field",
            [
                Contestant(
                    "whered.duckdb, Arrow", query("whered_country"), rows, is_ours=True
                ),
                Contestant(
                    "a scalar function over maxminddb",
                    query("scalar_country"),
                    max(rows // 40, 1),
                ),
            ],
            rounds,
            len(ips),
            at_least=50,
        )
        differing = connection.execute(
            "SELECT count(*), count(*) FILTER"
            " (whered_country(ip) IS DISTINCT FROM scalar_country(ip)) FROM log"
        ).fetchall()
        same("DuckDB, rows and rows that differ", [(len(ips), 0)], differing)
