"""`whered import points`: the same points from every format, and bad records with their places."""

import gzip
import json
import struct
import subprocess
import zlib

import pytest
import redis

from conftest import BINARY

POINTS = [("p%d" % n, (n * 37 % 360) - 179.5 + n / 7000, (n * 13 % 170) - 84.75 + n / 9000) for n in range(1234)]


@pytest.fixture
def target(serve):
    server = serve()
    with redis.Redis(port=server.resp) as client:
        client.url = f"redis://127.0.0.1:{server.resp}"
        yield client


def load(target, folder, *arguments, stdin=None):
    command = [BINARY, "import", "points", *map(str, arguments), "--key", "k", "--server", target.url]
    return subprocess.run(command, cwd=folder, input=stdin, capture_output=True, timeout=120)


def expected(target, points=POINTS):
    """What redis-py's own GEOADD makes of the points."""
    target.delete("expected")
    target.geoadd("expected", [part for member, longitude, latitude in points for part in (longitude, latitude, member)])
    return target.zrange("expected", 0, -1, withscores=True)


def check(target, done, points=POINTS):
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert done.stderr == b""
    assert target.zrange("k", 0, -1, withscores=True) == expected(target, points)
    target.delete("k")


def feature(member, longitude, latitude, **properties):
    return {"type": "Feature", "id": member, "geometry": {"type": "Point", "coordinates": [longitude, latitude]}, "properties": properties}


# ---- OpenStreetMap's protocol buffers, by hand ----


def varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def zigzag(number):
    return varint((number << 1) ^ (number >> 63))


def field(number, content):
    """Bytes as a field with a length, a number as a varint."""
    if isinstance(content, bytes):
        return varint(number << 3 | 2) + varint(len(content)) + content
    return varint(number << 3) + varint(content)


def blob(kind, content, packed=True):
    body = field(2, len(content)) + field(3, zlib.compress(content)) if packed else field(1, content)
    head = field(1, kind.encode()) + field(3, len(body))
    return struct.pack(">I", len(head)) + head + body


def deltas(numbers):
    return b"".join(zigzag(now - before) for before, now in zip([0, *numbers], numbers))


def osm(nodes, dense=True, packed=True):
    """A PBF file of (id, longitude, latitude, tags)."""
    strings = [b""]
    def index(text):
        text = text.encode()
        if text not in strings:
            strings.append(text)
        return strings.index(text)
    steps = [(node, round(longitude * 1e7), round(latitude * 1e7), tags) for node, longitude, latitude, tags in nodes]
    if dense:
        tags = b"".join(b"".join(varint(index(part)) for pair in tags.items() for part in pair) + b"\0" for *_, tags in steps)
        ids, longitudes, latitudes = ([step[n] for step in steps] for n in range(3))
        group = field(2, field(1, deltas(ids)) + field(8, deltas(latitudes)) + field(9, deltas(longitudes)) + field(10, tags))
    else:
        group = b""
        for node, longitude, latitude, tags in steps:
            keys, values = (b"".join(varint(index(part)) for part in parts) for parts in (tags.keys(), tags.values()))
            content = b"\x08" + zigzag(node) + field(2, keys) + field(3, values)
            group += field(1, content + b"\x40" + zigzag(latitude) + b"\x48" + zigzag(longitude))
    table = field(1, b"".join(field(1, text) for text in strings))
    header = field(4, b"OsmSchema-V0.6") + field(4, b"DenseNodes")
    return blob("OSMHeader", header, packed) + blob("OSMData", table + field(2, group), packed)


NODES = [(1000 + n, longitude, latitude, {"amenity": "cafe", "name": member} if n % 10 == 0 else {"amenity": "bench"} if n % 10 == 1 else {}) for n, (member, longitude, latitude) in enumerate(POINTS)]


# ---- every format ----


def rows(delimiter, names=("id", "longitude", "latitude")):
    return delimiter.join(names) + "\n" + "".join(delimiter.join(map(str, point)) + "\n" for point in POINTS)


def collection(points=POINTS):
    return json.dumps({"type": "FeatureCollection", "name": "features", "features": [feature(*point, note="}]{[\"") for point in points], "after": [{}]})


FILES = {
    "a.csv": rows(","),
    "b.csv": rows(";", ("NAME", "lng", "Lat")),
    "c.tsv": rows("\t"),
    "d.ndjson": "".join(json.dumps({"id": m, "lon": x, "lat": str(y)}) + "\n" for m, x, y in POINTS),
    "e.jsonl": "".join(json.dumps(feature(*point)) + "\n" for point in POINTS),
    "f.geojson": collection(),
    "g.geojson": "".join("\x1e" + json.dumps(feature(*point), indent=1) + "\n" for point in POINTS),
}


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_points(target, tmp_path, name):
    text = FILES[name].encode()
    (tmp_path / name).write_bytes(text)
    check(target, load(target, tmp_path, name))
    (tmp_path / (name + ".gz")).write_bytes(gzip.compress(text[:1000]) + gzip.compress(text[1000:]))
    check(target, load(target, tmp_path, name + ".gz"))
    subprocess.run(["zstd", "-q", name], cwd=tmp_path, check=True)
    check(target, load(target, tmp_path, name + ".zst"))
    # From standard input there is no name to go by.
    check(target, load(target, tmp_path, "-", stdin=b"\xef\xbb\xbf" + text if name[0] != "g" else text))


def test_the_counts_are_told(target, tmp_path):
    done = load(target, tmp_path, "-", stdin=rows(",").encode())
    assert done.stdout == b"k: 1234 points, 1234 of them new, 0 bad\n"
    done = load(target, tmp_path, "-", stdin=rows(",").encode())
    assert done.stdout == b"k: 1234 points, 0 of them new, 0 bad\n"


def test_members_that_come_again_at_another_place_are_told_and_what_named_them(target, tmp_path):
    places = b"name,lon,lat\nrome,1,2\nparis,3,4\nrome,1,2\nrome,5,6\nrome,7,8\nparis,9,10\noslo,1,1\n"
    done = load(target, tmp_path, "-", stdin=places)
    assert done.returncode == 0 and done.stderr == b""
    assert done.stdout.decode().splitlines() == [
        "k: 7 points, 3 of them new, 0 bad",
        "2 members came more than once with another place, of which the last is kept (3 records replaced);"
        " the member is column 'name', --member names another",
    ]
    target.delete("k")
    objects = b"".join(b'{"properties":{"name":"a"},"type":"Feature","geometry":{"type":"Point","coordinates":[%d,2]}}\n' % n for n in range(3))
    done = load(target, tmp_path, "-", stdin=objects)
    assert b"1 members came more than once" in done.stdout and b"the member is field 'name'" in done.stdout
    target.delete("k")
    # The same places again are no news.
    done = load(target, tmp_path, "-", stdin=b"id,lon,lat\na,1,2\na,1,2\n")
    assert done.stdout == b"k: 2 points, 1 of them new, 0 bad\n"


@pytest.mark.parametrize("form", ["csv", "ndjson", "geojson"])
def test_a_column_of_identifiers_is_taken_where_names_repeat(target, tmp_path, form):
    cities = [{"name": "springfield", "country_id": 1, "cityId": 100 + n, "lon": n, "lat": 2} for n in range(5)]
    if form == "csv":
        text = "name,country_id,cityId,lon,lat\n" + "".join("%s,%d,%d,%d,%d\n" % tuple(c.values()) for c in cities)
    elif form == "ndjson":
        text = "".join(json.dumps(c) + "\n" for c in cities)
    else:
        features = [feature(None, c["lon"], c["lat"], **c) for c in cities]
        for one in features:
            del one["id"]
        text = json.dumps({"type": "FeatureCollection", "features": features})
    (tmp_path / f"cities.{form}").write_text(text)
    done = load(target, tmp_path, f"cities.{form}")
    assert done.returncode == 0, done.stderr
    what = "column" if form == "csv" else "field"
    assert done.stdout.decode().splitlines() == [
        "k: 5 points, 5 of them new, 0 bad",
        f"the member is {what} 'cityId', since the usual one has values that repeat; --member names another",
    ]
    assert sorted(target.zrange("k", 0, -1)) == [b"%d" % (100 + n) for n in range(5)]
    target.delete("k")
    # What is asked for is done.
    done = load(target, tmp_path, f"cities.{form}", "--member", "name")
    assert target.zrange("k", 0, -1) == [b"springfield"]
    assert b"1 members came more than once with another place" in done.stdout


def test_columns_by_name_number_and_path(target, tmp_path):
    one = [("a", 1.5, 2.5)]
    names = ["--longitude", "east", "--latitude", "north", "--member", "who"]
    check(target, load(target, tmp_path, "-", *names, stdin=b'who,"north",east,lon\na,2.5,1.5,9\n'), one)
    numbers = ["--longitude", 3, "--latitude", 2, "--member", 1]
    check(target, load(target, tmp_path, "-", *numbers, stdin=b'"a",2.5,1.5\n'), one)
    check(target, load(target, tmp_path, "-", *numbers, stdin=b"id,y,x\na,2.5,1.5\n"), one)
    paths = ["--longitude", "at.0", "--latitude", "at.1", "--member", "who.name"]
    check(target, load(target, tmp_path, "-", *paths, stdin=b'{"at":[1.5,2.5],"who":{"name":"a"}}\n'), one)
    check(target, load(target, tmp_path, "-", "--member", "code", stdin=json.dumps(feature(7, 1.5, 2.5, code="a")).encode()), one)
    done = load(target, tmp_path, "-", "--longitude", "east", stdin=b"id,x,y\na,1,2\n")
    assert done.returncode == 2
    assert done.stderr == b"whered: standard input: no column 'east'; there are: id, x, y; allowed: --longitude NAME or NUMBER\n"


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_openstreetmap_nodes_by_tag(target, tmp_path, dense, packed):
    (tmp_path / "map.osm.pbf").write_bytes(osm(NODES, dense, packed))
    # Coordinates of such a file are in steps of 1e-7 degrees.
    exact = [(str(node), round(x * 1e7) * 100 * 1e-9, round(y * 1e7) * 100 * 1e-9) for node, x, y, _ in NODES]
    check(target, load(target, tmp_path, "map.osm.pbf"), exact)
    check(target, load(target, tmp_path, "-", "--tag", "amenity=cafe", stdin=osm(NODES, dense, packed)), exact[::10])
    done = load(target, tmp_path, "map.osm.pbf", "--tag", "amenity=cafe", "--tag", "shop")
    assert done.stdout == b"k: 124 points, 124 of them new, 0 bad, 1110 left out\n"
    target.delete("k")
    named = [(tags["name"], x, y) for (_, x, y), (*_, tags) in zip(exact, NODES) if "name" in tags]
    check(target, load(target, tmp_path, "map.osm.pbf", "--member", "name", "--tag", "amenity"), named)


def test_an_openstreetmap_file_with_the_history_of_its_nodes_is_refused(target, tmp_path):
    """Which of a node's versions is meant cannot be told; taking the last of them would be a guess."""
    header = field(4, b"OsmSchema-V0.6") + field(4, b"HistoricalInformation")
    history = blob("OSMHeader", header) + osm(NODES)
    done = load(target, tmp_path, "-", "--input-format", "osm", stdin=history)
    assert done.returncode == 2
    assert done.stderr == (
        b"whered: standard input: blob at byte 0: the file requires 'HistoricalInformation'; "
        b"allowed: OsmSchema-V0.6, DenseNodes\n"
    )
    assert not target.exists("k")


# ---- bad records ----


def bad(target, folder, text, *arguments):
    done = load(target, folder, "-", *arguments, stdin=text if isinstance(text, bytes) else text.encode())
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert b"panicked" not in done.stderr
    found = [member.decode() for member in sorted(target.zrange("k", 0, -1))]
    target.delete("k")
    return done.stderr.decode().replace("whered: standard input: ", "").splitlines(), found


def test_bad_rows_are_told_with_line_and_byte_and_the_others_loaded(target, tmp_path):
    text = "id,lon,lat\na,1,2\nb,east,2\nc,181,2\nd,1\n\"e\n1\",1,2\nf,nan,2\n,1,2\ng,1,86\nh, 3 , 4\n"
    lines, found = bad(target, tmp_path, text)
    assert lines == [
        "line 3 (byte 17): its longitude 'east' is no number",
        "line 4 (byte 26): longitude 181 is not within -180 to 180 degrees",
        "line 5 (byte 34): has 2 columns, not 3",
        "line 8 (byte 48): longitude NaN is not within -180 to 180 degrees",
        "line 9 (byte 56): its member is empty",
        "line 10 (byte 61): latitude 86 is not within -85.05112878 to 85.05112878 degrees",
    ]
    assert found == ["a", "e\n1", "h"]


def test_bad_lines_are_told_and_spoil_themselves_only(target, tmp_path):
    text = '{"id":"a","lon":1,"lat":2}\n\n{"id":"b","lon":1,\n[1]\n{"id":"c","lon":1}\n{"id":"d","lon":1,"lat":[2]}\n{"id":{},"lon":1,"lat":2}\n{"id":9,"lon":1,"lat":2}'
    lines, found = bad(target, tmp_path, text)
    assert [line.split(":")[0] for line in lines] == ["line 3 (byte 28)", "line 4 (byte 47)", "line 5 (byte 51)", "line 6 (byte 70)", "line 7 (byte 99)"]
    assert "no JSON object" in lines[1] and "has no field 'latitude'" in lines[2] and "no number" in lines[3]
    assert found == ["9", "a"]


def test_bad_features_are_told_and_spoil_themselves_only(target, tmp_path):
    good = json.dumps(feature("a", 1, 2))
    area = json.dumps({"type": "Feature", "id": 1, "geometry": {"type": "Polygon", "coordinates": [[[1, 2]]]}})
    none = json.dumps({"type": "Feature", "id": 1, "geometry": None})
    unnamed = json.dumps(feature(None, 1, 2))
    text = '{"type":"FeatureCollection","features":[\n' + ",\n".join([good, area, "{nonsense}", none, unnamed, good.replace('"a"', '"z"')]) + "\n]}"
    lines, found = bad(target, tmp_path, text)
    assert [line.split(" (")[0] for line in lines] == ["line 3", "line 4", "line 5", "line 6"]
    assert "its geometry is a Polygon; allowed: Point" in lines[0]
    assert "has no geometry" in lines[2]
    assert found == ["a", "z"]


def test_many_bad_records_are_counted_and_ten_told(target, tmp_path):
    done = load(target, tmp_path, "-", stdin=b"id,lon,lat\n" + b"x,y,z\n" * 5000 + b"a,1,2\n")
    assert done.returncode == 1
    assert done.stdout == b"k: 1 points, 1 of them new, 5000 bad\n"
    assert len(done.stderr.splitlines()) == 11


def test_strict_stops_at_the_first_and_what_came_before_stays(target, tmp_path):
    done = load(target, tmp_path, "-", "--strict", stdin=b"id,lon,lat\na,1,2\nb,1,x\nc,1,2\n")
    assert done.returncode == 2 and done.stdout == b""
    assert done.stderr == b"whered: standard input: line 3 (byte 17): its latitude 'x' is no number\n"
    assert target.zrange("k", 0, -1) == [b"a"]


def failure(target, folder, content, *arguments, name="-"):
    if name != "-":
        (folder / name).write_bytes(content)
    done = load(target, folder, name, *arguments, stdin=content)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert b"panicked" not in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr.decode()


def test_damaged_files_are_one_line(target, tmp_path):
    assert "is a folder" in one_failure(target, tmp_path, ".")
    assert "No such file" in one_failure(target, tmp_path, "missing.csv")
    assert "what it is cannot be seen" in failure(target, tmp_path, b"")
    assert "what it is cannot be seen" in failure(target, tmp_path, b"one word\n")
    assert "ends inside its JSON" in failure(target, tmp_path, collection()[:-3].encode())
    assert "closes nothing" in failure(target, tmp_path, b"}", name="a.geojson")
    assert "has no Features" in failure(target, tmp_path, b" ", name="b.geojson")
    assert "input" in failure(target, tmp_path, gzip.compress(rows(",").encode())[:-20])
    target.delete("k")
    target.set("k", "text") if _takes_text(target) else None
    if target.exists("k"):
        assert "WRONGTYPE" in failure(target, tmp_path, b"id,lon,lat\na,1,2\n")


def _takes_text(target):
    # redis-py's own reading of the reply knows no command that is missing.
    target.set_response_callback("COMMAND", lambda reply, **_: reply)
    return target.execute_command("COMMAND", "INFO", "set")[0] is not None


def one_failure(target, folder, name):
    done = load(target, folder, name)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    return done.stderr.decode()


def test_a_map_that_is_cut_or_changed_anywhere_never_ends_badly(target, tmp_path):
    content = osm(NODES[:30], packed=False)
    for end in [*range(1, len(content), 23), len(content) - 1]:
        message = failure(target, tmp_path, content[:end], "--input-format", "osm") if not _is_border(content, end) else ""
        assert "panicked" not in message
    for place in range(0, len(content), 19):
        changed = bytearray(content)
        changed[place] ^= 0xFF
        done = load(target, tmp_path, "-", "--input-format", "osm", stdin=bytes(changed))
        assert done.returncode in (0, 1, 2) and b"panicked" not in done.stderr, (place, done.stderr)
    assert "byte 0" in failure(target, tmp_path, b"\xff" * 100, "--input-format", "osm")
    assert "no" not in failure(target, tmp_path, b"\0\0", "--input-format", "osm").split("byte 0: ")[0]


def _is_border(content, end):
    """Whether a cut leaves whole blobs."""
    at = 0
    while at < end:
        (head,) = struct.unpack(">I", content[at : at + 4])
        header = content[at + 4 : at + 4 + head]
        body = header[header.index(b"\x18") + 1 :]
        size = body[0] & 0x7F | (body[1] & 0x7F) << 7 if body[0] & 0x80 else body[0]
        at += 4 + head + size
    return at == end


def test_a_wrong_server_is_one_line(target, tmp_path):
    done = subprocess.run([BINARY, "import", "points", "-", "--key", "k", "--server", "redis://127.0.0.1:1"], input=b"", capture_output=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1 and b"127.0.0.1:1: " in done.stderr


# ---- lists as they are published ----


def rows_of(points=POINTS):
    return [{"id": member, "longitude_deg": longitude, "latitude_deg": latitude} for member, longitude, latitude in points]


@pytest.mark.parametrize("indent", [None, 2])
def test_json_arrays_and_objects_of_objects_give_the_same_points(target, tmp_path, indent):
    (tmp_path / "array.json").write_text(json.dumps(rows_of(), indent=indent))
    check(target, load(target, tmp_path, "array.json"))
    keyed = {row.pop("id"): row for row in rows_of()}
    (tmp_path / "keyed.json").write_text(json.dumps(keyed, indent=indent))
    check(target, load(target, tmp_path, "keyed.json"))
    check(target, load(target, tmp_path, "-", stdin=json.dumps(keyed, indent=indent).encode()))


def hex_wkb(longitude, latitude, srid=4326):
    return struct.pack("<BIIdd", 1, 0x20000001, srid, longitude, latitude).hex()


def test_geometries_in_a_column_or_one_a_line(target, tmp_path):
    lines = "".join(f"POINT({x!r} {y!r})\n" for _, x, y in POINTS)
    numbered = [(str(n), x, y) for n, (_, x, y) in enumerate(POINTS, 1)]
    check(target, load(target, tmp_path, "-", stdin=lines.encode()), numbered)
    for name, form in [("geom", "SRID=4326;POINT({x!r} {y!r})"), ("where", "Point({x!r} {y!r})"), ("the_geom", "{hexes}")]:
        text = f"id,{name}\n" + "".join(f"{m},{form.format(x=x, y=y, hexes=hex_wkb(x, y))}\n" for m, x, y in POINTS)
        check(target, load(target, tmp_path, "-", stdin=text.encode()))
    lines, found = bad(target, tmp_path, "id,wkt\na,POINT(1 2)\nb,POINT EMPTY\nc,SRID=3857;POINT(1 2)\nd,\"POLYGON((1 2,3 4))\"\ne,\nf," + hex_wkb(1, 2, 3857) + "\n")
    assert found == ["a"]
    assert [line.split(": ", 1)[1] for line in lines] == [
        "its geometry is an empty POINT; allowed: a POINT with a place",
        "its geometry has SRID 3857; allowed: 4326 (WGS 84)",
        "its geometry is a POLYGON; allowed: POINT",
        "has no geometry",
        "its geometry has SRID 3857; allowed: 4326 (WGS 84)",
    ]


def test_a_pbf_file_that_is_no_map_is_said_to_be_that(target, tmp_path):
    vehicles = field(1, field(1, b"2.0") + field(2, 0) + field(3, 1764198000)) + field(2, field(1, b"7"))
    tile = field(3, field(15, 2) + field(1, b"water"))
    for content, part in [(vehicles, "a GTFS-realtime feed"), (tile, "a vector tile"), (gzip.compress(tile), "a vector tile"), (b"", "an empty file")]:
        assert f"byte 0: is no OpenStreetMap PBF but {part}" in failure(target, tmp_path, content, name="x.pbf")


# ---- Parquet ----


def geo_metadata(encoding="WKB", **more):
    column = {"encoding": encoding, "geometry_types": ["Point"], **more}
    return {b"geo": json.dumps({"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}).encode()}


def wkb(longitude, latitude, order="<"):
    return struct.pack(order + "BIdd", 1 if order == "<" else 0, 1, longitude, latitude)


@pytest.fixture
def write(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def write(columns, metadata=None, **options):
        table = arrow.table(columns).replace_schema_metadata(metadata)
        parquet.write_table(table, tmp_path / "p.parquet", **options)

    write.arrow = arrow
    return write


MEMBERS, EASTS, NORTHS = map(list, zip(*POINTS))


def test_geoparquet_points_of_both_encodings(target, tmp_path, write):
    native = write.arrow.StructArray.from_arrays([write.arrow.array(EASTS), write.arrow.array(NORTHS)], ["x", "y"])
    whole = [wkb(x, y, "<" if n % 2 else ">") for n, (_, x, y) in enumerate(POINTS)]
    crs84 = {"name": "WGS 84 (CRS84)", "id": {"authority": "OGC", "code": "CRS84"}}
    epsg = {"name": "WGS 84", "id": {"authority": "EPSG", "code": 4326}}
    for geometry, encoding in [(whole, "WKB"), (native, "point")]:
        for crs in [{}, {"crs": crs84}, {"crs": epsg}]:
            for options in [{}, {"compression": "zstd", "row_group_size": 100}]:
                write({"id": MEMBERS, "geometry": geometry, "lon": [0.0] * len(POINTS)}, geo_metadata(encoding, **crs), **options)
                check(target, load(target, tmp_path, "p.parquet"))


def test_geoparquet_of_another_crs_is_refused(target, tmp_path, write):
    geometry = [wkb(1, 2)]
    web = {"name": "WGS 84 / Pseudo-Mercator", "id": {"authority": "EPSG", "code": 3857}}
    for crs, part in [(web, "has the CRS EPSG:3857 ('WGS 84 / Pseudo-Mercator')"), (None, "has an unknown CRS (null)")]:
        write({"id": ["a"], "geometry": geometry}, geo_metadata(crs=crs))
        done = load(target, tmp_path, "p.parquet")
        assert done.returncode == 2 and done.stderr.decode() == f"whered: p.parquet: column 'geometry' {part}; allowed: OGC:CRS84, EPSG:4326\n"
    write({"id": ["a"], "geometry": geometry}, geo_metadata("polygon"))
    assert b"is encoded as 'polygon'; allowed: WKB, point" in load(target, tmp_path, "p.parquet").stderr


def test_plain_parquet_with_columns_of_coordinates(target, tmp_path, write):
    arrow = write.arrow
    write({"name": arrow.array(MEMBERS).dictionary_encode(), "Lat": NORTHS, "lng": [str(x) for x in EASTS]})
    check(target, load(target, tmp_path, "p.parquet"))
    numbered = [(str(n), x, y) for n, (_, x, y) in enumerate(POINTS)]
    boxes = arrow.StructArray.from_arrays([arrow.array(EASTS), arrow.array(NORTHS)], ["xmin", "ymin"])
    write({"id": arrow.array(range(len(POINTS)), arrow.int16()), "bbox": boxes})
    check(target, load(target, tmp_path, "p.parquet", "--longitude", "bbox.xmin", "--latitude", "bbox.ymin"), numbered)
    write({"id": MEMBERS, "wkt": [f"POINT({x!r} {y!r})" for _, x, y in POINTS]})
    check(target, load(target, tmp_path, "p.parquet"))
    write({"id": MEMBERS, "geometry": [wkb(x, y) for _, x, y in POINTS]})
    check(target, load(target, tmp_path, "p.parquet"))
    write({"lon": [1.0], "lat": [2.0], "share": [0.5]})
    assert b"no column 'member'; there are: lon, lat, share" in load(target, tmp_path, "p.parquet").stderr
    assert b"of type Float64; allowed for --member" in load(target, tmp_path, "p.parquet", "--member", "share").stderr


def test_parquet_from_a_pipe_is_loaded_as_from_a_file(target, tmp_path, write):
    write({"id": MEMBERS, "geometry": [wkb(x, y) for _, x, y in POINTS]})
    content = (tmp_path / "p.parquet").read_bytes()
    for arguments in [[], ["--input-format", "parquet"]]:
        check(target, load(target, tmp_path, "-", *arguments, stdin=content))
    done = load(target, tmp_path, "-", stdin=content[:-9])
    assert done.returncode == 2 and done.stderr.startswith(b"whered: standard input: "), done


def test_bad_rows_of_parquet_are_told_and_the_others_loaded(target, tmp_path, write):
    polygon = struct.pack("<BI", 1, 3)
    empty = wkb(float("nan"), float("nan"))
    rows = [("a", wkb(1, 2)), ("b", None), ("c", polygon), ("d", empty), (None, wkb(1, 2)), ("f", wkb(181, 2)), ("g", b"\1"), ("z", wkb(3, 4))]
    write({"id": [row[0] for row in rows], "geometry": [row[1] for row in rows]}, geo_metadata())
    done = load(target, tmp_path, "p.parquet")
    assert done.returncode == 1 and done.stdout == b"k: 2 points, 2 of them new, 6 bad\n"
    assert done.stderr.decode().replace("whered: p.parquet: ", "").splitlines() == [
        "row 2: has no geometry",
        "row 3: its geometry is a POLYGON; allowed: POINT",
        "row 4: its geometry is an empty POINT; allowed: a POINT with a place",
        "row 5: has no member",
        "row 6: longitude 181 is not within -180 to 180 degrees",
        "row 7: its geometry of 1 bytes is no point in WKB",
    ]
    assert sorted(target.zrange("k", 0, -1)) == [b"a", b"z"]


def test_a_parquet_file_cut_anywhere_is_one_line(target, tmp_path, write):
    write({"id": MEMBERS[:50], "geometry": [wkb(x, y) for _, x, y in POINTS[:50]]}, geo_metadata())
    whole = (tmp_path / "p.parquet").read_bytes()
    for end in [*range(0, len(whole), 97), len(whole) - 1]:
        assert "Parquet" in failure(target, tmp_path, whole[:end], name="cut.parquet")
