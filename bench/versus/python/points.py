"""The nearest join of places against points. No rival: the rate itself is held against its bar.

Answers are compared with a search for each place of a sample (`Points.near`), and for a part of them
with the great-circle distance to every point, by numpy.
"""

from __future__ import annotations

import random

from measure import Contestant, Measure, Report, in_turn, same


def measure(report: Report, count: int, rounds: int, rows: int) -> None:
    import numpy
    import pyarrow

    import whered

    drawn = random.Random(2)
    uniform = numpy.random.default_rng(2)
    longitude, latitude = uniform.uniform(-180, 180, count), uniform.uniform(-60, 60, count)
    points = whered.Points()
    members = pyarrow.array([f"point-{number}" for number in range(count)])
    points.add(members, pyarrow.array(longitude), pyarrow.array(latitude))
    places = [
        pyarrow.array(uniform.uniform(*limits, rows)) for limits in ((-180, 180), (-60, 60))
    ]

    what = f"nearest join, {count:,} points"
    in_turn(
        report,
        what,
        [
            Contestant(
                "whered.Points.nearest",
                lambda start, end: points.nearest(
                    places[0][start:end], places[1][start:end]
                ),
                rows,
                is_ours=True,
            )
        ],
        rounds,
        rows,
    )
    rate = report.measures[-1]
    report.measures[-1] = Measure(rate.name, rate.values, rate.unit, at_least=300)
    print(report.measures[-1].line(), flush=True)

    table = points.nearest(*places).to_pyarrow()
    for number, row in enumerate(drawn.sample(range(rows), min(rows, 20_000))):
        place = places[0][row].as_py(), places[1][row].as_py()
        member, meters = table["member"][row].as_py(), table["distance_meters"][row].as_py()
        near = points.near(*place, count=1)
        same(f"distance from {place}", near["distance_meters"][0], meters)
        if number < 200:
            angles = numpy.radians([longitude - place[0], latitude, latitude - place[1]])
            half = (
                numpy.sin(angles[2] / 2) ** 2
                + numpy.cos(angles[1])
                * numpy.cos(numpy.radians(place[1]))
                * numpy.sin(angles[0] / 2) ** 2
            )
            distances = 2 * 6372797.560856 * numpy.arcsin(numpy.sqrt(half))
            chosen = distances[int(member.removeprefix("point-"))]
            # Points are kept in cells: up to 0.6 m beside where they were put.
            if chosen > distances.min() + 1.5:
                raise SystemExit(f"{place}: {member} at {chosen} m, nearest {distances.min()} m")
