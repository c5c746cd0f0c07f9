"""Feeds from outside: `whered ingest`, curl, redis-cli, and a server that is killed in between."""

import json
import subprocess
import time
import urllib.request

from conftest import BINARY, program

CONFIG = """
[[feed]]
name = "sightings"
format = "ndjson"
member = "id"
longitude = "x"
latitude = "y"
into = { collection = "seen", table = "objects" }
drop_folder = "incoming"
"""


def start(serve, tmp_path):
    config = tmp_path / "edge.toml"
    config.write_text(CONFIG)
    return serve("--config", config, "--data-dir", tmp_path / "data")


def whered(*arguments, expected=0):
    command = [str(BINARY), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == expected, done.stderr
    return done.stdout + done.stderr


def fetch(server, path):
    with urllib.request.urlopen(server.url + path, timeout=20) as answer:
        return json.load(answer)


def seen(server):
    rows = fetch(server, "/v1/tables/objects?count=10000")["rows"]
    return sum(row["seen"] for row in rows)


def wait_for(server, count):
    until = time.monotonic() + 20
    while seen(server) < count:
        assert time.monotonic() < until, f"{seen(server)} of {count} records"
        time.sleep(0.02)
    assert seen(server) == count


def upload(name, records):
    return "".join(f'{{"id":"{name}-{n}","x":8.5,"y":50.0}}\n' for n in range(records))


def test_files_are_ingested_once_unless_again(serve, tmp_path):
    server = start(serve, tmp_path)
    files = [tmp_path / f"{n}.ndjson" for n in range(20)]
    for n, file in enumerate(files):
        file.write_text(upload(n, 5))
    said = whered("ingest", "sightings", *files, "--server", server.url, "--parallel", 8, "--wait")
    assert "20 uploads taken, 0 of them known before, 0 refused" in said
    assert "100 records applied, 0 rejected" in said
    said = whered("ingest", "sightings", *files, "--server", server.url)
    assert "20 of them known before" in said
    assert seen(server) == 100
    whered("ingest", "sightings", *files, "--server", server.url, "--again", "--wait")
    assert seen(server) == 200
    table = whered("feeds", "--server", server.url).splitlines()
    assert table[0].split()[:2] == ["feed", "backlog"]
    assert table[1].split()[0] == "sightings"
    assert json.loads(whered("feeds", "--server", server.url, "--json"))["feeds"][0]["records"] == 200


def test_ingest_says_why_a_file_is_refused(serve, tmp_path):
    server = start(serve, tmp_path)
    wrong = tmp_path / "wrong"
    wrong.write_text("<upload/>")
    said = whered("ingest", "sightings", wrong, tmp_path / "none", "--server", server.url, expected=2)
    assert "wrong: " in said and "none: " in said and "2 refused" in said
    said = whered("ingest", "nowhere", wrong, "--server", server.url, expected=2)
    assert "no such feed 'nowhere'; feeds: sightings" in said


def test_packed_files_and_pipes(serve, tmp_path):
    server = start(serve, tmp_path)
    plain = tmp_path / "plain.ndjson"
    plain.write_text(upload("gz", 7))
    subprocess.run(["gzip", "-k", plain], check=True)
    whered("ingest", "sightings", f"{plain}.gz", "--server", server.url, "--wait")
    assert seen(server) == 7
    curl = [program("curl", "curl"), "-sS", "-o", "/dev/null", "-w", "%{http_code}"]
    post = [*curl, "--data-binary", f"@{plain}", server.url + "/v1/feeds/sightings"]
    assert subprocess.run(post, capture_output=True, text=True, timeout=20).stdout == "202"
    wait_for(server, 14)
    push = [program("redis-cli", "redis-tools"), "-p", str(server.resp), "-x", "FEED.PUSH", "sightings"]
    with open(plain) as file:
        said = subprocess.run(push, stdin=file, capture_output=True, text=True, timeout=20).stdout
    assert int(said) > 0
    wait_for(server, 21)


def test_what_was_acknowledged_is_applied_once_over_kills(serve, tmp_path):
    server = start(serve, tmp_path)
    incoming = tmp_path / "incoming"
    for turn in range(5):
        file = tmp_path / f"turn-{turn}.ndjson"
        file.write_text(upload(f"turn{turn}", 50))
        whered("ingest", "sightings", file, "--server", server.url)
        (tmp_path / f"drop-{turn}").write_text(upload(f"drop{turn}", 50))
        (tmp_path / f"drop-{turn}").rename(incoming / f"drop-{turn}")
        server.kill()
        server.start()
        said = whered("ingest", "sightings", file, "--server", server.url)
        assert "1 of them known before" in said
    until = time.monotonic() + 40
    while len(list((incoming / "done").iterdir())) < 5:
        assert time.monotonic() < until, list(incoming.iterdir())
        time.sleep(0.05)
    wait_for(server, 500)
