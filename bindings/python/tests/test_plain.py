"""Databases, points, prefix sets and rules without any other package: lists in, lists out."""

from __future__ import annotations

import ipaddress

import whered


def test_lists_are_looked_up(database_path: str) -> None:
    database = whered.Database(database_path)
    addresses = ["192.0.2.7", None, "x", ipaddress.ip_address("2001:db8::1"), float("nan")]
    for strings in ("utf8_view", "utf8", "large_utf8", "dictionary"):
        answer = database.lookup(addresses, "country.iso_code", strings=strings, threads=2)
        assert answer.to_pylist() == ["DE", None, None, "JP", None]
    table = database.lookup(addresses * 50_000, ["number"], network=True)
    assert table["number"].to_pylist() == [7, None, None, 5, None] * 50_000
    assert table["network"].to_pylist()[:4] == ["192.0.2.0/24", None, None, "2001:db8::/32"]
    assert len(table) == 250_000


def test_lists_are_points_prefixes_and_packets() -> None:
    points = whered.Points(["a", "b"], [8.0, 9.0], [50.0, 50.0])
    assert points.nearest([8.1, 8.9, None], [50.0] * 3)["member"].to_pylist() == ["a", "b", None]
    prefixes = whered.PrefixSet(["10.0.0.0/8", "10.1.0.0/16"], ["wide", "narrow"])
    assert prefixes.match(["10.1.2.3", "10.2.2.3", "8.8.8.8"])["value"].to_pylist() == [
        "narrow",
        "wide",
        None,
    ]
    rules = whered.Rules.parse("chain input policy drop {\n  src 10.0.0.0/8 accept\n}\n")
    assert rules.match(source=["10.0.0.1", "8.8.8.8"])["verdict"].to_pylist() == ["accept", "drop"]
