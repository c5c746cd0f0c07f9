"""A feed's tables in MariaDB, seen by MariaDB's own client: upload, then an unchanged SELECT."""

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

import pytest
import requests

from conftest import eventually, program

CONFIG = """
[[feed]]
name = "sightings"
format = "ndjson"
member = "id"
longitude = "x"
latitude = "y"
items = { each = "loot", key = "item", count = "n" }
into = { table = "loot" }
consolidate = { merge_within_meters = 25.0 }
[[feed.table]]
name = "positions"
of = "positions"
key = ["member", "position"]
columns = { longitude = "mean(longitude)", latitude = "mean(latitude)", seen = "count" }
[[feed.sink]]
url = "mysql://root@127.0.0.1:%d/game"
"""


class MariaDb:
    """A server in a folder of its own; it ends with `kill`, and starts again on the same port."""

    def __init__(self, folder):
        self.folder = folder
        self.server = program("mariadbd", "mariadb-server")
        self.client = program("mariadb", "mariadb-client")
        install = program("mariadb-install-db", "mariadb-server")
        # The server does not run as root.
        self.user = ["--user=mysql"] if os.geteuid() == 0 else []
        if self.user:
            shutil.chown(folder, "mysql")
        data = f"--datadir={folder}/data"
        done = subprocess.run(
            [install, "--no-defaults", data, "--auth-root-authentication-method=normal", *self.user],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self):
        arguments = [f"--{name}={self.folder}/{name}" for name in ("socket", "pid-file")]
        arguments += [f"--datadir={self.folder}/data", f"--port={self.port}"]
        arguments += ["--bind-address=127.0.0.1", "--innodb-buffer-pool-size=32M", *self.user]
        self.process = subprocess.Popen(
            [self.server, "--no-defaults", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(lambda: self.ask("CREATE DATABASE IF NOT EXISTS game", database=None), seconds=60)

    def ask(self, statement, database="game"):
        """Rows as lists of texts, by a client process of their own."""
        command = [self.client, "--no-defaults", "--protocol=tcp", "--host=127.0.0.1"]
        command += [f"--port={self.port}", "--user=root", "--batch", "--skip-column-names"]
        command += ["--execute", statement, *([database] if database else [])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=20)


@pytest.fixture
def mariadb():
    # Its socket's path must be short.
    folder = tempfile.mkdtemp(prefix="whered-sinks-")
    server = None
    try:
        server = MariaDb(folder)
        yield server
    finally:
        if server is not None:
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def push(server, lines):
    request = urllib.request.Request(
        server.url + "/v1/feeds/sightings", data="".join(lines).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status == 202


def sighting(member, item="ore", count=2):
    loot = f'"loot":[{{"item":"{item}","n":{count}}}]'
    return f'{{"id":"{member}","x":8.5,"y":50.0,{loot}}}\n'


def test_an_upload_is_seen_by_a_select_over_deaths_of_both_sides(serve, tmp_path, mariadb):
    config = tmp_path / "edge.toml"
    config.write_text(CONFIG % mariadb.port)
    server = serve("--config", config, "--data-dir", tmp_path / "data")
    positions = "SELECT member, position, longitude, latitude, seen FROM positions ORDER BY member"
    loot = "SELECT member, item, count, seen FROM loot ORDER BY member"

    def holds(first, second):
        place = ["8.5", "50"]
        assert mariadb.ask(positions) == [
            ["wolf", "1", *place, str(first)],
            ["wyvern", "1", *place, str(second)],
        ]
        assert mariadb.ask(loot) == [
            ["wolf", "ore", str(2 * first), str(first)],
            ["wyvern", "ore", str(2 * second), str(second)],
        ]

    push(server, [sighting("wolf"), sighting("wyvern"), sighting("wolf")])
    eventually(lambda: holds(2, 1), seconds=30)

    # The SQL side dies: uploads are acknowledged all the same, and arrive when it is back.
    mariadb.kill()
    push(server, [sighting("wolf")] * 10)
    mariadb.start()
    eventually(lambda: holds(12, 1), seconds=60)

    # Our side dies right after the acknowledgement.
    push(server, [sighting("wyvern")] * 5)
    server.kill()
    server.start()
    eventually(lambda: holds(12, 6), seconds=60)


def under(fault):
    """What a server runs under whose disk is not well."""
    strace = program("strace", "strace", require="kernel")
    # -D: the tracer is a grandchild, so that the process that we end is the server itself.
    trace = ["-D", "-f", "-q", "-o", "/dev/null", "--trace=fdatasync"]
    return [strace, *trace, f"--inject=fdatasync:{fault}"]


def status_of(server, path, data=None):
    reply = requests.request("POST" if data else "GET", server.url + path, data=data, timeout=30)
    return reply.status_code, reply.json()


def seen_of(server):
    _, table = status_of(server, "/v1/tables/positions?count=10000")
    return {row["member"]: row["seen"] for row in table["rows"]}


def test_a_failing_disk_loses_no_acknowledged_upload_and_hands_on_no_other(serve, tmp_path, mariadb):
    config = tmp_path / "edge.toml"
    config.write_text(CONFIG % mariadb.port)
    arguments = ("--config", config, "--data-dir", tmp_path / "data")
    server = serve(*arguments, under=under("error=EIO:when=12+"))
    acknowledged, status = [], 202
    while status == 202:
        name = f"m{len(acknowledged)}"
        status, _ = status_of(server, "/v1/feeds/sightings", sighting(name))
        if status == 202:
            acknowledged.append(name)
        assert len(acknowledged) < 1000, "the disk never failed"
    # A client keeps it and comes again; so does the next one.
    assert status == 503
    assert status_of(server, "/v1/feeds/sightings", sighting("later"))[0] == 503
    # What is in memory is still served, and everybody is told.
    assert status_of(server, "/v1/tables/positions")[0] == 200
    status, readiness = status_of(server, "/readyz")
    assert (status, readiness["status"]) == (503, "failed")
    assert "Input/output error" in readiness["reason"]
    server.kill()
    server.under = []
    server.start()

    def all_is_there():
        assert set(acknowledged) <= set(seen_of(server))

    eventually(all_is_there)
    found = seen_of(server)
    # One more may be there: written, but its acknowledgement did not arrive.
    assert set(found) - set(acknowledged) <= {f"m{len(acknowledged)}"}
    assert set(found.values()) == {1}

    def all_is_handed_on():
        rows = mariadb.ask("SELECT member, seen FROM positions")
        assert {member: int(seen) for member, seen in rows} == found

    eventually(all_is_handed_on, seconds=60)


def test_a_disk_that_takes_two_seconds_holds_acknowledgements_and_nothing_else(
    serve, tmp_path, mariadb
):
    config = tmp_path / "edge.toml"
    config.write_text(CONFIG % mariadb.port)
    arguments = ("--config", config, "--data-dir", tmp_path / "data")
    server = serve(*arguments, under=under("delay_enter=2000000:when=3+"))
    names, took = [f"m{number}" for number in range(12)], {}

    def send(name):
        begin = time.monotonic()
        assert status_of(server, "/v1/feeds/sightings", sighting(name))[0] == 202
        took[name] = time.monotonic() - begin

    threads = [threading.Thread(target=send, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    # Reads do not wait for the disk.
    while any(thread.is_alive() for thread in threads):
        begin = time.monotonic()
        assert status_of(server, "/healthz")[0] == 200
        assert status_of(server, "/readyz")[0] == 200
        seen_of(server)
        assert time.monotonic() - begin < 1.0
        time.sleep(0.02)
    for thread in threads:
        thread.join()
    assert set(took) == set(names)
    # They share a few syncs: one waits for the one on its way and for its own.
    assert max(took.values()) < 15, took
    server.kill()
    server.under = []
    server.start()

    def all_is_there_once():
        assert seen_of(server) == dict.fromkeys(names, 1)
        rows = mariadb.ask("SELECT member, seen FROM positions")
        assert {member: int(seen) for member, seen in rows} == dict.fromkeys(names, 1)

    eventually(all_is_there_once, seconds=60)
