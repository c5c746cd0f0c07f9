"""One address a call: whole records, one field, and geoip2's models.

Whole records and fields are asked of different addresses, none of them twice before the answers are
compared. geoip2 is imported twice: over the C extension of maxminddb, and over ours.
"""

from __future__ import annotations

import collections
import importlib
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from measure import Contestant, Report, in_turn, same


def measure(report: Report, database: str, ips: list[str], rounds: int, rows: int) -> None:
    import maxminddb
    import maxminddb.extension  # It is the C extension that is measured: no import, no run.
    import maxminddb_rust

    import whered
    import whered.maxminddb

    compiled = whered.Database(database, ["country.iso_code"])
    index = compiled.save_index()
    mapped = whered.Database(database, ["country.iso_code"], index="file")
    os.remove(index)
    ours = whered.maxminddb.open_database(database)
    c_extension = maxminddb.open_database(database, maxminddb.MODE_MMAP_EXT)
    rust = maxminddb_rust.open_database(database)

    def each(call: Callable[[str], Any]) -> Callable[[int, int], None]:
        # Nothing is kept, and nothing but the call is in the loop.
        return lambda start, end: collections.deque(map(call, ips[start:end]), maxlen=0)

    in_turn(
        report,
        "whole record, different addresses",
        [
            Contestant("whered.maxminddb", each(ours.get), rows, is_ours=True),
            Contestant("whered.Database.get", each(compiled.get), rows, is_ours=True),
            Contestant("maxminddb C extension", each(c_extension.get), rows),
            Contestant("maxminddb-rust", each(rust.get), rows),
        ],
        rounds,
        len(ips),
    )
    _bar(report, "whole record, different addresses: maxminddb C extension / whered.maxminddb", 1.5)
    path = ("country", "iso_code")
    in_turn(
        report,
        "one field, one call an address",
        [
            Contestant(
                "whered.Database.field",
                each(lambda ip: compiled.field(ip, "country.iso_code")),
                rows,
                is_ours=True,
            ),
            Contestant(
                "whered.Database.field, mapped",
                each(lambda ip: mapped.field(ip, "country.iso_code")),
                rows,
                is_ours=True,
            ),
            Contestant("maxminddb-rust get_path", each(lambda ip: rust.get_path(ip, path)), rows),
        ],
        rounds,
        len(ips),
        at_least=1.3,
    )

    over_c = _geoip2()
    _forget("maxminddb")  # Readers that are open go on.
    whered.install_as_maxminddb()
    over_ours = _geoip2()
    lazy = importlib.import_module("whered.geoip2.database")
    lazy_errors = importlib.import_module("whered.geoip2.errors")
    countries = {
        "geoip2 over whered.maxminddb": _country(*over_ours, database),
        "whered.geoip2": _country(lazy, lazy_errors, database),
        "geoip2 over the C extension": _country(*over_c, database),
    }
    contestants = [
        Contestant(name, each(country), rows, is_ours="whered" in name)
        for name, country in countries.items()
    ]
    in_turn(
        report,
        "geoip2 city(ip).country.iso_code",
        contestants,
        rounds,
        len(ips),
        at_least=1.5,
    )

    for ip in ips:
        record = c_extension.get(ip)
        same(f"record of {ip}, whered.maxminddb", record, ours.get(ip))
        same(f"record of {ip}, whered.Database", record, compiled.get(ip))
        same(f"record of {ip}, maxminddb-rust", record, rust.get(ip))
        field = ((record or {}).get("country") or {}).get("iso_code")
        same(f"field of {ip}, whered.Database", field, compiled.field(ip, "country.iso_code"))
        same(f"field of {ip}, mapped", field, mapped.field(ip, "country.iso_code"))
        same(f"field of {ip}, maxminddb-rust", field, rust.get_path(ip, path))
        for name, country in countries.items():
            same(f"{name} of {ip}", field, country(ip))


def _bar(report: Report, name: str, at_least: float) -> None:
    """Holds one ratio against a bar: that of a rival which need not be the fastest."""
    for measure in report.measures:
        is_it = measure.name == name
        if is_it or measure.name.startswith(name.partition(":")[0]):
            measure.at_least = at_least if is_it else None
        if is_it:
            print(measure.line(), flush=True)


def _country(module: ModuleType, errors: ModuleType, database: str) -> Callable[[str], Any]:
    """The code of an address's country by a module like `geoip2.database`."""
    reader, not_found = module.Reader(database), errors.AddressNotFoundError

    def country(ip: str) -> Any:
        try:
            return reader.city(ip).country.iso_code
        except not_found:
            return None

    return country


def _geoip2() -> tuple[ModuleType, ModuleType]:
    """geoip2.database and geoip2.errors, imported anew over what is `maxminddb` now."""
    _forget("geoip2")
    return importlib.import_module("geoip2.database"), importlib.import_module("geoip2.errors")


def _forget(package: str) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == package:
            del sys.modules[name]
