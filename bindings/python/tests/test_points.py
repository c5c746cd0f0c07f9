"""Points: columns in, searches and joins against brute force, bad input, threads."""

from __future__ import annotations

import signal
import threading
import time

import pytest

import whered

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

RADIUS_METERS = 6_372_797.560856
LATITUDE_LIMIT = 85.05112878
# Positions are kept as centres of cells.
CELL_LONGITUDE, CELL_LATITUDE = 360 / 2**26, 2 * LATITUDE_LIMIT / 2**26


def random_places(count, seed, latitude_limit=85.0):
    random = np.random.default_rng(seed)
    longitude = random.uniform(-180, 180, count)
    return longitude, np.degrees(np.arcsin(random.uniform(-1, 1, count))).clip(
        -latitude_limit, latitude_limit
    )


def distances(longitude, latitude, longitudes, latitudes):
    """From one place to many, in metres: the haversine formula."""
    x, y, xs, ys = map(np.radians, (longitude, latitude, longitudes, latitudes))
    h = np.sin((ys - y) / 2) ** 2 + np.cos(y) * np.cos(ys) * np.sin((xs - x) / 2) ** 2
    return 2 * RADIUS_METERS * np.arcsin(np.minimum(1, np.sqrt(h)))


class Table:
    """Random points, and where they are kept."""

    def __init__(self, count, seed, around=None):
        longitude, latitude = random_places(count, seed)
        if around is not None:
            longitude = np.clip(around[0] + longitude / 100, -180, 180)
            latitude = np.clip(around[1] + latitude / 100, -85, 85)
        self.names = [f"point-{number}-{'x' * (number % 23)}" for number in range(count)]
        self.points = whered.Points(self.names, pa.array(longitude), pa.array(latitude))
        kept = np.array([self.points[name] for name in self.names])
        self.longitude, self.latitude = kept[:, 0], kept[:, 1]
        self.number = {name: number for number, name in enumerate(self.names)}

    def distances(self, longitude, latitude):
        return distances(longitude, latitude, self.longitude, self.latitude)


@pytest.fixture(scope="module")
def globe():
    return Table(3_000, 1)


@pytest.fixture(scope="module")
def town():
    return Table(3_000, 2, around=(8.68, 50.11))


@pytest.fixture(scope="module")
def date_line():
    return Table(2_000, 3, around=(179.9, -20.0))


@pytest.fixture(params=["globe", "town", "date_line"])
def table(request):
    return request.getfixturevalue(request.param)


def places_near(table, count, seed):
    """Places near points, anywhere, and at the limits."""
    random = np.random.default_rng(seed)
    some = random.integers(0, len(table.names), count)
    x = table.longitude[some] + random.normal(0, 0.01, count)
    y = table.latitude[some] + random.normal(0, 0.01, count)
    anywhere = random_places(count, seed + 1, 90.0)
    x = np.concatenate([x, anywhere[0], [180.0, -180.0, 0.0, 0.0, 13.0]])
    y = np.concatenate([y, anywhere[1], [0.0, 0.0, 90.0, -90.0, 85.05112878]])
    return (x + 540) % 360 - 180, y.clip(-90, 90)


# What comes in and how it is kept.


def test_positions_are_the_centres_of_cells_within_half_a_cell():
    longitude, latitude = random_places(2_000, 4)
    points = whered.Points(range(2_000), longitude.tolist(), latitude.tolist())
    kept = np.array([points[str(number)] for number in range(2_000)])
    assert np.abs(kept[:, 0] - longitude).max() <= CELL_LONGITUDE / 2 + 1e-12
    assert np.abs(kept[:, 1] - latitude).max() <= CELL_LATITUDE / 2 + 1e-12


def test_the_limits_themselves_can_be_stored():
    points = whered.Points(["ne", "sw"], [180, -180], [LATITUDE_LIMIT, -LATITUDE_LIMIT])
    assert points["ne"] == (180.0, LATITUDE_LIMIT)
    assert points.near(180.0, 85.0, count=1)["member"][0] == "ne"
    assert points.within(box=(180, 85, 180, 90))["member"].to_pylist() == ["ne"]
    assert points.within(box=(-180, -90, 180, 90))["member"].to_pylist() == ["sw", "ne"]


def test_add_says_how_many_are_new_and_moves_the_others():
    points = whered.Points()
    assert points.add(["a", "b", "a"], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == 2
    assert points.add(["a", "c"], [4.0, 5.0], [4.0, 5.0]) == 1
    assert len(points) == 3 and points["a"] == pytest.approx((4.0, 4.0), abs=1e-5)
    assert points.add([], [], []) == 0


def test_points_are_like_a_dictionary():
    points = whered.Points()
    points["a"] = 8.0, 50.0
    points["b"] = 9.0, 51.0
    points["a"] = 8.5, 50.5
    assert sorted(points) == ["a", "b"] and len(points) == 2 and "a" in points
    assert points["a"] == pytest.approx((8.5, 50.5), abs=1e-5)
    assert points.get("z") is None and points.get("z", 7) == 7
    del points["a"]
    assert "a" not in points and list(points) == ["b"]
    with pytest.raises(KeyError, match="a"):
        points["a"]
    with pytest.raises(KeyError):
        del points["a"]
    with pytest.raises(TypeError):
        points[7]
    with pytest.raises(ValueError, match="latitude 90 "):
        points["pole"] = 0.0, 90.0
    assert repr(points) == "<whered.Points: 1 points>" and points.memory_bytes > 0


def test_an_iteration_goes_on_over_what_was_there():
    points = whered.Points(["a", "b", "c"], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    members = iter(points)
    first = next(members)
    points.remove(["a", "b", "c"])
    assert {first, *members} == {"a", "b", "c"} and len(points) == 0


def test_remove_says_how_many_were_there():
    points = whered.Points(["a", "b", "c"], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    assert points.remove(pa.array(["a", "a", "z"])) == 1
    assert points.remove([]) == 0
    assert sorted(points) == ["b", "c"]
    with pytest.raises(ValueError, match="row 1: the member is null"):
        points.remove(["b", None])
    assert "b" in points


NAMES = ["van-1", "van-2", "a name of more than twelve bytes", "Zürich 🚐"]


@pytest.mark.parametrize(
    "names",
    [
        NAMES,
        tuple(NAMES),
        iter(NAMES),
        pa.array(NAMES),
        pa.array(NAMES, pa.large_string()),
        pa.array(NAMES, pa.string_view()),
        pa.array(NAMES).dictionary_encode(),
        pa.array(["before", *NAMES, "after"])[1:5],
        pa.chunked_array([NAMES[:1], [], NAMES[1:]]),
        pa.table({"name": NAMES}),
        pl.Series(NAMES),
        pl.Series(NAMES, dtype=pl.Categorical),
        pd.Series(NAMES),
    ],
    ids=lambda names: type(names).__module__ + "." + type(names).__name__,
)
def test_members_of_every_kind_of_column(names):
    points = whered.Points(names, [1, 2, 3, 4], [10.0, 20.0, 30.0, 40.0])
    assert sorted(points) == sorted(NAMES)
    assert points[NAMES[2]] == pytest.approx((3.0, 30.0), abs=1e-5)


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_whole_numbers_are_members_as_they_are_written(kind):
    points = whered.Points(pa.array([7, 12, 0], getattr(pa, kind)()), [1, 2, 3], [1, 2, 3])
    assert sorted(points) == ["0", "12", "7"]
    assert whered.Points([-(2**63)], [1], [1])["-9223372036854775808"]


@pytest.mark.parametrize(
    "numbers",
    [
        [8.5, -9.25, 7.0],
        [8.5, -9.25, 7],
        pa.array([8.5, -9.25, 7.0]),
        pa.array([8.5, -9.25, 7.0], pa.float32()),
        pa.array([8.5, -9.25, 7.0]).cast(pa.decimal128(8, 3)),
        pa.array([0.0, 8.5, -9.25, 7.0, 0.0])[1:4],
        pa.chunked_array([[8.5, -9.25], [], [7.0]]),
        pl.Series([8.5, -9.25, 7.0]),
        pd.Series([8.5, -9.25, 7.0]),
        np.array([8.5, -9.25, 7.0]),
    ],
    ids=lambda numbers: type(numbers).__module__ + "." + type(numbers).__name__,
)
def test_degrees_of_every_kind_of_column(numbers):
    points = whered.Points(["a", "b", "c"], numbers, pa.chunked_array([[1.0], [2.0, 3.0]]))
    expected = [(8.5, 1.0), (-9.25, 2.0), (7.0, 3.0)]
    assert [points[name] for name in "abc"] == [pytest.approx(p, abs=1e-5) for p in expected]


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ((["a", None], [1, 2], [1, 2]), ValueError, "row 1: the member is null"),
        ((["a", "b"], [1, None], [1, 2]), ValueError, "row 1: the longitude or latitude is null"),
        ((["a", "b"], [1, 2], pa.array([1, np.nan])), ValueError, "row 1: latitude NaN is not"),
        ((["a"], [180.0001], [1]), ValueError, "row 0: longitude 180.0001 is not within -180 to 180"),
        ((["a"], [1], [float("inf")]), ValueError, "row 0: latitude inf is not within"),
        ((["a"], [1], [85.06]), ValueError, "row 0: latitude 85.06 is not within -85.05112878 to"),
        ((["a"], [1, 2], [1, 2]), ValueError, "members has 1 rows and longitude has 2"),
        ((["a", "b"], [1, 2], [1]), ValueError, "longitude has 2 rows and latitude has 1"),
        ((["a"], ["8.5"], [1]), TypeError, "longitude is a column of LargeUtf8; allowed are numbers"),
        (([1.5], [1], [1]), TypeError, "members is a column of Float64; allowed are strings and whole"),
        (("a", [1], [1]), TypeError, "members is a column"),
        ((["a"], 8.5, [1]), TypeError, "longitude is a column"),
        ((["a"], [1], {1: 2}), TypeError, "latitude is a column"),
        ((None, [1], [1]), TypeError, "members is a column"),
        ((pl.DataFrame({"a": ["x"], "b": ["y"]}), [1], [1]), TypeError, "a table of 2 columns"),
    ],
)
def test_bad_columns_are_refused_and_nothing_is_added(columns, error, message):
    points = whered.Points()
    with pytest.raises(error) as raised:
        points.add(*columns)
    assert message in str(raised.value)
    assert len(points) == 0


def test_the_row_of_a_bad_number_is_that_of_the_column_not_of_its_chunk():
    longitude = pa.chunked_array([[0.0] * 70_000, [0.0, 500.0]])
    with pytest.raises(ValueError, match="row 70001: longitude 500 "):
        whered.Points(pl.Series(range(70_002)), longitude, [0.0] * 70_002)


def test_points_takes_all_columns_or_none():
    with pytest.raises(TypeError, match="members, longitude and latitude, or none"):
        whered.Points(["a"])
    with pytest.raises(ValueError, match="threads=0: allowed are 1 to"):
        whered.Points(["a"], [1.0], [1.0], threads=0)


# near


def test_near_agrees_with_brute_force(table):
    for number, (x, y) in enumerate(zip(*places_near(table, 20, 5))):
        all_meters = table.distances(x, y)
        for count, radius in [(1, None), (7, None), (None, 50_000.0), (5, 20_000.0)]:
            found = table.points.near(x, y, count=count, radius_meters=radius).to_pydict()
            expected = np.sort(all_meters)
            expected = expected[: count or len(expected)]
            expected = expected[expected <= (radius or np.inf)]
            assert np.allclose(found["distance_meters"], expected, rtol=1e-9, atol=1e-6), number
            for member, meters, *place in zip(*found.values()):
                at = table.number[member]
                assert tuple(place) == (table.longitude[at], table.latitude[at])
                assert abs(all_meters[at] - meters) < 1e-6 + 1e-9 * meters


def test_near_of_no_points_is_an_empty_table():
    table = whered.Points().near(1.0, 2.0, count=3)
    assert table.names == ["member", "distance_meters", "longitude", "latitude"]
    assert len(table) == 0 and pl.DataFrame(table).shape == (0, 4)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((1.0, 2.0), {}, ValueError, "near takes radius_meters, count, or both"),
        ((1.0, 2.0), {"count": 0}, ValueError, "count=0: allowed are 1 to"),
        ((1.0, 2.0), {"count": -1}, ValueError, "count=-1: allowed are 1 to"),
        ((1.0, 2.0), {"count": 1.5}, TypeError, "integer"),
        ((1.0, 2.0), {"radius_meters": -1.0}, ValueError, "radius_meters=-1"),
        ((1.0, 2.0), {"radius_meters": float("nan")}, ValueError, "radius_meters=NaN"),
        ((1.0, 91.0), {"count": 1}, ValueError, "latitude 91 is not within -90 to 90"),
        ((float("nan"), 1.0), {"count": 1}, ValueError, "longitude NaN"),
        ((None, 1.0), {"count": 1}, TypeError, "real number"),
        ((1.0, 1.0), {"count": 1, "strings": "utf9"}, ValueError, 'strings="utf9": allowed are'),
    ],
)
def test_bad_arguments_of_near_are_refused(arguments, options, error, message):
    points = whered.Points(["a"], [1.0], [2.0])
    with pytest.raises(error) as raised:
        points.near(*arguments, **options)
    assert message in str(raised.value)


# within


def members(table):
    return sorted(table["member"].to_pylist())


def test_within_a_box_agrees_with_comparisons(table):
    random = np.random.default_rng(6)
    boxes = [(-180, -90, 180, 90), (170, -25, -170, -15), (179.9, -21, -179.9, -19), (0, 0, 0, 0)]
    for x, y in zip(*places_near(table, 20, 7)):
        w, h = random.uniform(0, 2, 2)
        boxes.append((max(-180, x - w), max(-90, y - h), min(180, x + w), min(90, y + h)))
    # A box whose rim goes through points.
    boxes.append((table.longitude[3], table.latitude[3], table.longitude[3], table.latitude[3]))
    for west, south, east, north in boxes:
        x, y = table.longitude, table.latitude
        inside = (y >= south) & (y <= north)
        inside &= (x >= west) & (x <= east) if west <= east else (x >= west) | (x <= east)
        expected = sorted(table.names[at] for at in np.flatnonzero(inside))
        assert members(table.points.within(box=(west, south, east, north))) == expected


def test_within_a_circle_agrees_with_brute_force(table):
    for x, y in zip(*places_near(table, 20, 8)):
        for radius in (0.0, 1_000.0, 300_000.0, 1e9):
            found = table.points.within(circle=(x, y, radius))
            all_meters = table.distances(x, y)
            expected = sorted(table.names[at] for at in np.flatnonzero(all_meters <= radius))
            assert members(found) == expected
            for member, meters in zip(found["member"], found["distance_meters"]):
                assert abs(all_meters[table.number[member]] - meters) < 1e-6 + 1e-9 * meters


def is_inside(corners, x, y):
    """The even-odd rule with a ray to the east."""
    inside = False
    for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1]):
        if (ay > y) != (by > y) and x < (bx - ax) * (y - ay) / (by - ay) + ax:
            inside = not inside
    return inside


def test_within_a_polygon_agrees_with_the_even_odd_rule(town):
    random = np.random.default_rng(9)
    for corner_count in (3, 5, 12):
        corners = [(8.68 + x, 50.11 + y) for x, y in random.uniform(-0.8, 0.8, (corner_count, 2))]
        expected = sorted(
            name
            for name, x, y in zip(town.names, town.longitude, town.latitude)
            if is_inside(corners, x, y)
        )
        assert expected
        for given in (corners, np.array(corners), [list(c) for c in corners], iter(corners)):
            assert members(town.points.within(polygon=given)) == expected
        assert members(town.points.within(polygon=corners + corners[:1])) == expected


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, "one of box, polygon and circle"),
        ({"box": (0, 0, 1, 1), "circle": (0, 0, 1)}, ValueError, "one of box, polygon and circle"),
        ({"box": (0, 0, 1)}, ValueError, "length"),
        ({"box": (0, 5, 1, 1)}, ValueError, "south 5 is more than north 1"),
        ({"box": (0, 0, 181, 1)}, ValueError, "longitude 181"),
        ({"box": (0, float("nan"), 1, 1)}, ValueError, "latitude NaN"),
        ({"circle": (0, 0, -1)}, ValueError, "radius_meters=-1"),
        ({"circle": (0, 91, 1)}, ValueError, "latitude 91"),
        ({"polygon": [(0, 0), (1, 1)]}, ValueError, "3 corners or more, this one has 2"),
        ({"polygon": [(0, 0), (1, 1), (2, 200)]}, ValueError, "latitude 200"),
        ({"polygon": [(0, 0), (1, 1), (2,)]}, TypeError, "polygon, corner 2: pass pairs"),
        ({"polygon": [(0, 0), (1, 1), 7]}, TypeError, "polygon, corner 2: pass pairs"),
        ({"polygon": 7}, TypeError, "not iterable"),
    ],
)
def test_bad_shapes_are_refused(options, error, message):
    with pytest.raises(error) as raised:
        whered.Points(["a"], [0.5], [0.5]).within(**options)
    assert message in str(raised.value)


def test_many_hits_come_in_chunks_that_are_one_table():
    count = 150_000
    longitude, latitude = random_places(count, 10)
    points = whered.Points(pl.Series(range(count)), pa.array(longitude), pa.array(latitude))
    table = points.within(box=(-180, -90, 180, 90))
    frame = pl.DataFrame(table)
    assert frame.shape == (count, 3) and frame["member"].n_unique() == count
    near = points.near(0.0, 0.0, radius_meters=1e9)
    assert len(near) == count
    meters = np.array(near["distance_meters"].to_pylist())
    assert (np.diff(meters) >= 0).all()


# nearest


def check_nearest(table, x, y, count, radius, **options):
    found = table.points.nearest(pa.array(x), pa.array(y), count=count, radius_meters=radius, **options)
    found = found.to_pydict()
    all_meters = [table.distances(*place) for place in zip(x, y)]
    within = [np.sort(meters)[:count] for meters in all_meters]
    within = [meters[meters <= (radius if radius is not None else np.inf)] for meters in within]
    if count == 1:
        assert set(found) == {"member", "distance_meters"}
        found["row"] = range(len(x))
        expected = [meters[0] if len(meters) else None for meters in within]
    else:
        assert found["row"] == [row for row, meters in enumerate(within) for _ in meters]
        assert found["rank"] == [rank + 1 for meters in within for rank in range(len(meters))]
        expected = [one for meters in within for one in meters]
    assert len(found["distance_meters"]) == len(expected)
    for row, member, meters, right in zip(
        found["row"], found["member"], found["distance_meters"], expected
    ):
        if right is None:
            assert member is None and meters is None
            continue
        assert abs(meters - right) < 1e-6 + 1e-9 * right, row
        assert abs(all_meters[row][table.number[member]] - meters) < 1e-6 + 1e-9 * meters, row


@pytest.mark.parametrize("rows", [20, 1_000])
@pytest.mark.parametrize(
    ("count", "radius"), [(1, None), (1, 20_000.0), (3, None), (20, 50_000.0), (5_000, 10_000.0)]
)
def test_nearest_agrees_with_brute_force(table, rows, count, radius):
    check_nearest(table, *places_near(table, rows // 2, 11), count, radius)


def test_nearest_on_several_threads_is_the_same(globe):
    x, y = places_near(globe, 60_000, 12)
    one = globe.points.nearest(pa.array(x), pa.array(y)).to_pydict()
    assert globe.points.nearest(pa.array(x), pa.array(y), threads=4).to_pydict() == one


def test_members_in_one_cell_are_all_found():
    count = 3_000
    names = [f"{number:05}" for number in range(count)]
    points = whered.Points([*names, "far"], [8.0] * count + [9.0], [50.0] * (count + 1))
    table = points.nearest([8.1] * 300, [50.0] * 300, count=4).to_pydict()
    assert table["member"] == names[:4] * 300
    table = points.nearest([8.1], [50.0], count=count + 5).to_pydict()
    assert table["member"] == [*names, "far"]
    assert points.nearest([8.1] * 300, [50.0] * 300)["member"].to_pylist() == [names[0]] * 300


def test_a_radius_includes_what_is_exactly_so_far():
    points = whered.Points(["a"], [8.0], [50.0])
    (meters,) = points.nearest([8.1], [50.0])["distance_meters"]
    at = lambda radius: points.nearest([8.1], [50.0], radius_meters=radius)["member"][0]
    assert at(meters) == "a" and at(np.nextafter(meters, 0)) is None
    x, y = points["a"]
    assert points.nearest([x], [y], radius_meters=0)["member"].to_pylist() == ["a"]


def test_rows_that_are_no_place_are_null_or_raise():
    points = whered.Points(["a"], [8.0], [50.0])
    x = pa.array([8.0, None, 8.0, np.nan, 181.0, 8.0])
    y = pa.array([50.0, 50.0, None, 50.0, 50.0, 90.5])
    assert points.nearest(x, y)["member"].to_pylist() == ["a"] + [None] * 5
    assert points.nearest(x, y)["distance_meters"].null_count == 5
    assert points.nearest(x, y, count=2).to_pydict()["row"] == [0]
    with pytest.raises(ValueError, match="row 3: longitude NaN is not within -180 to 180"):
        points.nearest(x, y, invalid="raise")
    with pytest.raises(ValueError, match="row 70000: longitude 181 "):
        points.nearest([0.0] * 70_000 + [181.0], [0.0] * 70_001, invalid="raise")
    assert points.nearest(x[:3], y[:3], invalid="raise")["member"].null_count == 2
    assert points.nearest([8.0], [90.0])["member"].to_pylist() == ["a"], "poles are places"


def test_nearest_of_columns_without_rows():
    points = whered.Points(["a"], [8.0], [50.0])
    for empty in ([], pa.array([], pa.float64()), pa.chunked_array([], pa.float64()), [None][:0]):
        table = points.nearest(empty, empty)
        assert len(table) == 0 and table.names == ["member", "distance_meters"]
        assert pl.DataFrame(table).schema == {"member": pl.String, "distance_meters": pl.Float64}
        assert points.nearest(empty, empty, count=2).names[:2] == ["row", "rank"]
    assert whered.Points().nearest([1.0, 2.0], [1.0, 2.0])["member"].to_pylist() == [None, None]
    assert points.nearest([None], [None])["member"].to_pylist() == [None]


@pytest.mark.parametrize("strings", ["utf8_view", "utf8", "large_utf8", "dictionary"])
def test_members_have_the_type_that_was_asked_for(town, strings):
    x, y = places_near(town, 200, 13)
    x[3] = np.nan
    expected = town.points.nearest(pa.array(x), pa.array(y))["member"].to_pylist()
    column = town.points.nearest(pa.array(x), pa.array(y), strings=strings)["member"]
    assert column.to_pylist() == expected and column.null_count == 1
    types = {
        "utf8_view": pa.string_view(),
        "utf8": pa.string(),
        "large_utf8": pa.large_string(),
        "dictionary": pa.dictionary(pa.int32(), pa.string()),
    }
    assert pa.array(column).type == types[strings]
    assert pl.Series(column).cast(pl.String).to_list() == expected
    many = town.points.nearest(pa.array(x), pa.array(y), strings=strings, count=2)["member"]
    assert many.null_count == 0 and pa.array(many).type == types[strings]
    assert pa.array(town.points.near(8.0, 50.0, count=2, strings=strings)["member"]).type == types[strings]


@pytest.mark.parametrize(
    ("columns", "options", "error", "message"),
    [
        (([1.0], [1.0, 2.0]), {}, ValueError, "longitude has 1 rows and latitude has 2"),
        ((["x"], [1.0]), {}, TypeError, "longitude is a column of LargeUtf8; allowed are numbers"),
        (([1.0], [1.0]), {"count": 0}, ValueError, "count=0"),
        (([1.0], [1.0]), {"count": 2**40}, ValueError, "allowed are 1 to"),
        (([1.0], [1.0]), {"radius_meters": -5}, ValueError, "radius_meters=-5"),
        (([1.0], [1.0]), {"invalid": "skip"}, ValueError, 'invalid="skip": allowed are "null" and'),
        (([1.0], [1.0]), {"strings": "str"}, ValueError, 'strings="str"'),
        (([1.0], [1.0]), {"threads": 0}, ValueError, "threads=0"),
        (([1.0], [1.0]), {"threads": -1}, OverflowError, ""),
    ],
)
def test_bad_arguments_of_nearest_are_refused(columns, options, error, message):
    with pytest.raises(error) as raised:
        whered.Points(["a"], [1.0], [1.0]).nearest(*columns, **options)
    assert message in str(raised.value)


def test_a_join_sees_what_was_added_and_removed_since_the_last_one():
    random = np.random.default_rng(14)
    points, kept = whered.Points(), {}
    x, y = random_places(2_000, 15)
    for step in range(6):
        names = [f"{step}-{number}" for number in range(200)]
        px, py = random_places(200, 16 + step)
        points.add(names, px.tolist(), py.tolist())
        kept.update((name, points[name]) for name in names)
        gone = [name for name in kept if random.random() < 0.2]
        points.remove(gone)
        for name in gone:
            del kept[name]
        found = points.nearest(pa.array(x), pa.array(y)).to_pydict()
        ax, ay = np.array(list(kept.values())).T
        for row in range(0, 2_000, 97):
            right = distances(x[row], y[row], ax, ay).min()
            assert abs(found["distance_meters"][row] - right) < 1e-6 + 1e-9 * right
            assert found["member"][row] in kept


# Threads and signals.


def test_searches_and_joins_run_while_others_add():
    points = whered.Points(["fixed"], [8.0], [50.0])
    x, y = random_places(20_000, 17)
    over, faults = threading.Event(), []

    def ask():
        while not over.is_set():
            try:
                assert len(points.nearest([8.0] * 3, [50.0] * 3)) == 3
                assert points.near(8.0, 50.0, count=1)["distance_meters"][0] < 1.0
                assert "fixed" in points and len(points) > 0
            except BaseException as fault:
                faults.append(fault)
                return

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    for start in range(0, 20_000, 2_000):
        rows = slice(start, start + 2_000)
        points.add([str(n) for n in range(start, start + 2_000)], pa.array(x[rows]), pa.array(y[rows]))
    points.remove([str(n) for n in range(0, 20_000, 2)])
    over.set()
    for asker in askers:
        asker.join()
    assert not faults and len(points) == 10_001


def test_other_threads_of_python_go_on_during_a_join(globe):
    x, y = random_places(400_000, 18)
    ticks = []
    over = threading.Event()

    def tick():
        while not over.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    start = time.perf_counter()
    globe.points.nearest(pa.array(x), pa.array(y))
    end = time.perf_counter()
    over.set()
    ticker.join()
    inside = [at for at in ticks if start < at < end]
    assert len(inside) > 5, f"{len(inside)} ticks in {end - start:.3f} s"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers of POSIX")
def test_ctrl_c_ends_a_long_join(globe):
    class Stop(Exception):
        pass

    def stop(signum, frame):
        raise Stop

    rows = 20_000_000
    x = pa.array(np.zeros(rows))
    before = signal.signal(signal.SIGALRM, stop)
    try:
        start = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Stop):
            globe.points.nearest(x, x, count=3)
        assert time.perf_counter() - start < 10
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
