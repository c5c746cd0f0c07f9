"""A feed's tables in MariaDB, seen by MariaDB's own client: upload, then an unchanged SELECT."""

import os
import shutil
import socket
import subprocess
import tempfile
import urllib.request

import pytest

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
