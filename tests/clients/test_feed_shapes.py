"""Every mapping of `docs/guide/feeds-shapes.md`: all records of an upload are those of another parser."""

import json
import re
import subprocess
import time
import tomllib
import urllib.error
import urllib.parse
import urllib.request

import pytest
from conftest import BINARY, REPOSITORY
from feed_shapes import SHAPES

PAGE = REPOSITORY / "docs/guide/feeds-shapes.md"


def mappings():
    """The feeds of the page by name, as they are written."""
    blocks = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return {tomllib.loads(block)["feed"][0]["name"]: block for block in blocks}


MAPPINGS = mappings()


def table(name):
    """A table with a row for each record, appended to the feed."""
    feed = tomllib.loads(MAPPINGS[name])["feed"][0]
    has_time = "time" in feed or feed["format"] == "gpx"
    key = '["member", "time"]' if has_time else '["member"]'
    columns = ["longitude", "latitude", *feed.get("fields", {})]
    rules = ", ".join(f'{column} = "last({column})"' for column in columns)
    return f'[[feed.table]]\nname = "all-{name}"\nkey = {key}\ncolumns = {{ {rules}, times = "count" }}\n'


@pytest.fixture(scope="module")
def server(request, tmp_path_factory):
    from conftest import Server

    folder = tmp_path_factory.mktemp("shapes")
    config = folder / "edge.toml"
    feeds = "\n".join(block + table(name) for name, block in MAPPINGS.items())
    config.write_text(f'data_dir = "data"\n{feeds}')
    subprocess.run([BINARY, "check", config], check=True, capture_output=True, timeout=60)
    server = Server(["--config", config, "--data-dir", folder / "data"], folder)
    yield server
    server.close()


def fetch(server, path):
    with urllib.request.urlopen(server.url + path, timeout=20) as answer:
        return json.load(answer)


def post(server, name, upload, headers, file):
    if file:
        headers = headers | {"Content-Disposition": f"attachment; filename*=UTF-8''{urllib.parse.quote(file)}"}
    request = urllib.request.Request(f"{server.url}/v1/feeds/{name}", data=upload, headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=20) as answer:
        id = json.load(answer)["id"]
    until = time.monotonic() + 20
    while True:
        status = fetch(server, f"/v1/feeds/{name}/uploads/{id}")
        if status["status"] != "spooled":
            return status
        assert time.monotonic() < until, status
        time.sleep(0.02)


def test_the_page_and_the_samples_have_the_same_shapes():
    assert sorted(MAPPINGS) == sorted(SHAPES) and len(SHAPES) >= 20


@pytest.mark.parametrize("name", SHAPES)
def test_the_records_of_an_upload_are_those_of_another_parser(server, name):
    upload, options, expected = SHAPES[name]()
    status = post(server, name, upload, options.get("headers", {}), options.get("file"))
    assert status["status"] == "applied" and status["records"] == len(expected) > 0, status
    rows = fetch(server, f"/v1/tables/all-{name}?count=10000")["rows"]
    assert all(row.pop("times") == 1 for row in rows), "no two records are one"
    assert sorted(rows, key=key) == sorted(expected, key=key)


def key(record):
    return (record["member"], record.get("time", 0))


OF_UPLOADS = """
[[feed]]
name = "logs"
format = "csv"
member = { join = [{ file = "stem" }, { header = "X-Fleet", default = "none" }, { query = "trip", default = "0" }], with = "/" }
time = { path = "t", unit = "s" }
into = { table = "logs" }
batch_delay_millis = 1500
drop_folder = "incoming"
"""


def ingest(server, *arguments):
    command = [BINARY, "ingest", "logs", *arguments, "--server", server.url]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def members(server):
    return {row["member"]: row["seen"] for row in fetch(server, "/v1/tables/logs?count=1000")["rows"]}


def test_what_comes_with_an_upload_is_kept_over_a_kill_and_tells_uploads_apart(serve, tmp_path):
    config = tmp_path / "edge.toml"
    config.write_text(OF_UPLOADS)
    server = serve("--config", config, "--data-dir", tmp_path / "data")
    for name in ["van 1.csv", "vän-2.csv"]:
        (tmp_path / name).write_text("t\n1700000000\n1700000001\n")
    files = [tmp_path / "van 1.csv", tmp_path / "vän-2.csv"]
    ingest(server, *files, "--header", "X-Fleet: north", "--query", "trip=7 a")
    server.kill()
    server.start()
    said = ingest(server, *files, "--header", "X-Fleet: north", "--query", "trip=7 a")
    assert "2 of them known before" in said, "equal files of two names are two uploads, each sent once"
    ingest(server, tmp_path / "van 1.csv", "--header", "X-Fleet: south", "--wait")
    (tmp_path / "drop.part").write_text("t\n1700000000\n")
    (tmp_path / "drop.part").rename(tmp_path / "incoming" / "drop.csv")
    expected = {"van 1/north/7 a": 2, "vän-2/north/7 a": 2, "van 1/south/0": 2, "drop/none/0": 1}
    until = time.monotonic() + 20
    while members(server) != expected:
        assert time.monotonic() < until, members(server)
        time.sleep(0.05)


def test_an_upload_says_nothing_twice_and_nothing_that_no_feed_wants(serve, tmp_path):
    config = tmp_path / "edge.toml"
    config.write_text(OF_UPLOADS)
    server = serve("--config", config, "--data-dir", tmp_path / "data")
    for path, headers in [("?trip=1&trip=2", {}), ("?other=1", {}), ("", {"Content-Disposition": "attachment; filename*=x''y"})]:
        request = urllib.request.Request(f"{server.url}/v1/feeds/logs{path}", data=b"t\n1\n", headers=headers, method="POST")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=20)
        assert refused.value.code == 400


def test_a_line_of_a_hundred_megabytes_is_rejected_alone(serve, tmp_path):
    config = tmp_path / "edge.toml"
    feeds = {"ndjson": 'member = "id"', "json": 'member = "id"', "csv": 'member = "id"\ntime = { path = "t", unit = "s" }'}
    config.write_text("".join(f'[[feed]]\nname = "{f}"\nformat = "{f}"\n{m}\nupload_size_max = "200mb"\ninto = {{ table = "t-{f}" }}\n' for f, m in feeds.items()))
    server = serve("--config", config, "--data-dir", tmp_path / "data")
    long = b"a" * (100 << 20)
    uploads = {
        "ndjson": b'{"id":1}\n{"id":"' + long + b'"}\r\n{"id":2}\n',
        "json": b'[{"id":1},{"id":"' + long + b'"},{"id":2}]',
        "csv": b"id,t\n1,5\n" + long + b",6\r\n2,7.0\n",
    }
    for name, upload in uploads.items():
        status = post(server, name, upload, {}, None)
        assert (status["status"], status["records"], status["rejected_records"]) == ("applied", 2, 1), name
    peak = int(re.search(r"VmHWM:\s+(\d+) kB", open(f"/proc/{server.process.pid}/status").read())[1])
    assert peak < 1 << 20, f"{peak} kB"
