"""nginx with the geoip2 module on our library: several workers, and a database that changes.

Every answer must be whole (all its fields of one generation of the file), for the address that was
asked for, and of a generation that exists. How often the file is replaced: WHERED_REPLACEMENTS.
"""

import collections
import http.client
import os
import pathlib
import re
import socket
import subprocess
import threading
import time

import pytest
from conftest import BINARY, eventually, program
from library import environment, folder_with_ours, libraries_of, missing, uses_ours

REPLACEMENTS = int(os.environ.get("WHERED_REPLACEMENTS", "60"))
WORKERS = 4
CLIENTS = 3
MODULE = pathlib.Path("/usr/lib/nginx/modules/ngx_http_geoip2_module.so")

# One generation of the file is made from this one by replacing the digits.
GENERATION = "g00000"
NETWORKS = 40

CONFIGURATION = """
load_module {module};
daemon off;
{user}
worker_processes {workers};
pid {folder}/nginx.pid;
error_log {folder}/error.log info;
events {{ worker_connections 256; }}
http {{
    access_log off;
    keepalive_requests 100000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    geoip2 {folder}/city.mmdb {{
        auto_reload 1s;
        $geo_country source=$arg_ip country iso_code;
        $geo_city source=$arg_ip city names en;
        $geo_count source=$arg_ip count;
        $geo_none default=none source=$arg_ip no such field;
        $geo_built metadata build_epoch;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{ return 200 "$geo_country $geo_city $geo_count $geo_none $geo_built"; }}
    }}
}}
"""


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def address(number):
    return f"192.0.{number}.7" if number % 2 else f"2001:db8:{number:x}::7"


def template(folder):
    """The bytes of generation 0."""
    rows = ["network,country.iso_code,city.names.en,count:uint32"]
    for number in range(NETWORKS):
        network = f"192.0.{number}.0/24" if number % 2 else f"2001:db8:{number:x}::/48"
        rows.append(f"{network},{GENERATION}c{number},{GENERATION}n{number},{number}")
    (folder / "rows.csv").write_text("\n".join(rows) + "\n")
    build = [BINARY, "db", "build", folder / "rows.csv", "-o", folder / "template.mmdb"]
    subprocess.run(build, check=True, capture_output=True, timeout=30)
    return (folder / "template.mmdb").read_bytes()


class Database:
    """The file that nginx reads, replaced as a whole.

    The module takes a file whose time is later than the last one's, and at first later than its
    own start, in whole seconds: so the files come from the future.
    """

    def __init__(self, folder):
        self.template = template(folder)
        self.path = folder / "city.mmdb"
        self.seconds = int(time.time()) + 1_000_000
        self.generation = -1
        self.replace()

    def replace(self):
        new = self.path.with_suffix(".new")
        number = b"g%05d" % (self.generation + 1)
        new.write_bytes(self.template.replace(GENERATION.encode(), number))
        self.seconds += 2
        os.utime(new, (self.seconds, self.seconds))
        self.generation += 1
        os.replace(new, self.path)


class Nginx:
    def __init__(self, folder, library_folder):
        self.folder = folder
        self.port = free_port()
        configuration = folder / "nginx.conf"
        configuration.write_text(
            CONFIGURATION.format(
                module=MODULE,
                user="user root;" if os.geteuid() == 0 else "",
                workers=WORKERS,
                folder=folder,
                port=self.port,
            )
        )
        command = [program("nginx", "nginx"), "-p", folder, "-e", folder / "start.log", "-c", configuration]
        self.process = subprocess.Popen(
            command, env=environment(library_folder), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        eventually(self.check_workers)

    def check_workers(self):
        assert self.process.poll() is None, self.process.stderr.read()
        assert len(self.workers()) == WORKERS

    def workers(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def log(self):
        return (self.folder / "error.log").read_text()

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(timeout=10)


@pytest.fixture
def folder(tmp_path):
    if not MODULE.exists():
        missing("peers", "nginx's geoip2 module is not installed (package libnginx-mod-http-geoip2)")
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.fixture
def nginx(folder):
    running = []

    def start(library_folder):
        running.append(Nginx(folder, library_folder))
        return running[-1]

    yield start
    for it in running:
        it.close()


def ask(connection, number):
    connection.request("GET", f"/?ip={address(number)}")
    response = connection.getresponse()
    return response.status, response.read().decode()


class Client(threading.Thread):
    """Asks on one connection after the other until it is told to stop, and checks each answer."""

    def __init__(self, port, database):
        super().__init__()
        self.port, self.database = port, database
        self.should_stop = threading.Event()
        self.answers, self.wrong, self.generations = 0, [], collections.Counter()

    def run(self):
        try:
            while not self.should_stop.is_set() and not self.wrong:
                # A new connection now and then, so that all workers are asked.
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
                for _ in range(200):
                    self.check(self.answers % NETWORKS, connection)
                connection.close()
        except OSError as error:
            self.wrong.append(repr(error))

    def check(self, number, connection):
        status, text = ask(connection, number)
        match = re.fullmatch(r"g(\d{5})c(\d+) g(\d{5})n(\d+) (\d+) none \d+", text)
        newest = self.database.generation + 1
        self.answers += 1
        if (
            status != 200
            or not match
            or match[1] != match[3]
            or {match[2], match[4], match[5]} != {str(number)}
            or int(match[1]) > newest
        ):
            self.wrong.append(f"{address(number)}: {status} {text!r} while at {newest}")
        else:
            self.generations[int(match[1])] += 1


def test_answers_equal_those_with_the_original(folder, nginx):
    database = Database(folder)
    answers = []
    for library_folder in [folder_with_ours(folder), None]:
        server = nginx(library_folder)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        answers.append([ask(connection, number) for number in range(NETWORKS + 5)])
        for pid in server.workers():
            assert uses_ours(pid, library_folder) if library_folder else libraries_of(pid)
        server.close()
    assert answers[0] == answers[1]
    assert answers[0][1] == (200, answers[0][1][1]) and database.generation == 0
    assert len({text for _, text in answers[0]}) == NETWORKS + 1


def test_a_database_that_is_replaced_under_load(folder, nginx):
    database = Database(folder)
    ours = folder_with_ours(folder)
    server = nginx(ours)
    workers = server.workers()
    clients = [Client(server.port, database) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        for _ in range(REPLACEMENTS):
            database.replace()
            # The module looks at the file once a second; twenty files pass by in that time.
            threading.Event().wait(0.05)
        # The last file arrives with the next look.
        last = f"g{database.generation:05d}c1 "
        eventually(lambda: all_see(server.port, last), seconds=20)
    finally:
        for client in clients:
            client.should_stop.set()
        for client in clients:
            client.join()
    assert [client.wrong for client in clients] == [[]] * CLIENTS
    assert server.workers() == workers, "a worker has died"
    assert all(uses_ours(pid, ours) for pid in workers)
    assert "signal" not in server.log(), server.log()
    answers = sum(client.answers for client in clients)
    seen = set().union(*(client.generations for client in clients))
    reloads = server.log().count("Reload MMDB")
    print(f"{REPLACEMENTS} replacements, {answers} answers of {len(seen)} generations, {reloads} reloads")
    assert reloads >= WORKERS and len(seen) > 1


def all_see(port, beginning):
    """Whether many new connections, and so all workers, see an answer that begins so."""
    for _ in range(WORKERS * 5):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        status, text = ask(connection, 1)
        connection.close()
        assert status == 200 and text.startswith(beginning)
