"""Fixtures shared by the clients' tests and the story: a server on free ports.

The server is the debug build by default; `WHERED_BIN_DIR` names another folder. It is started by the
test that needs it and ended by its process id, also when the test fails.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
BINARY = pathlib.Path(os.environ.get("WHERED_BIN_DIR", REPOSITORY / "target/debug")) / "whered"
REQUIRED = set(filter(None, os.environ.get("WHERED_REQUIRE", "").split(",")))


def program(name, package, require="peers"):
    """The path of a foreign program; without it the test is skipped, or fails where required."""
    path = shutil.which(name)
    if path is None:
        reason = f"{name} is not installed (package {package})"
        if require in REQUIRED:
            pytest.fail(reason)
        pytest.skip(reason)
    return path


class Server:
    """A `whered serve` process and the addresses that it printed."""

    def __init__(self, arguments, cwd, under=()):
        self.arguments = [str(a) for a in arguments]
        self.cwd = cwd
        # A command that runs the server as its own process, such as a tracer.
        self.under = list(under)
        self.process = None
        self.lines = []
        self.start()

    def start(self):
        free = ["--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--dns", "127.0.0.1:0"]
        self.log = open(os.path.join(self.cwd, "server.log"), "ab")
        self.process = subprocess.Popen(
            [*self.under, BINARY, "serve", *free, *self.arguments],
            cwd=self.cwd,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        self.lines = []
        self.ports = {}
        for line in self.process.stdout:
            line = line.rstrip("\n")
            self.lines.append(line)
            if line == "ready":
                break
            door, address = line.split(" ", 1)
            if door != "resp-unix":
                self.ports[door] = int(address.rsplit(":", 1)[1])
        else:
            self.process.wait(timeout=10)
            self.log.flush()
            log = pathlib.Path(self.cwd, "server.log").read_text()
            raise AssertionError(f"the server did not become ready:\n{log}")

    @property
    def resp(self):
        return self.ports["resp"]

    @property
    def http(self):
        return self.ports["http"]

    @property
    def dns(self):
        return self.ports["dns"]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http}"

    def log_text(self):
        return pathlib.Path(self.cwd, "server.log").read_text()

    def kill(self):
        """`kill -9`: what is not on disk now is lost."""
        self.process.kill()
        self.process.wait(timeout=10)
        self.log.close()

    def stop(self):
        """SIGTERM; gives the exit code and the seconds that stopping took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=10)
        self.log.close()
        return code, time.monotonic() - began

    def reload(self):
        self.process.send_signal(signal.SIGHUP)

    def close(self):
        if self.process.poll() is None:
            self.kill()


@pytest.fixture
def serve(tmp_path):
    """A function that starts a server with the given arguments in a fresh folder."""
    servers = []

    def start(*arguments, under=()):
        server = Server(arguments, tmp_path, under)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """One demonstration server for all tests of a module."""
    folder = tmp_path_factory.mktemp("demo")
    server = Server(["--demo", "--data-dir", "data"], folder)
    yield server
    server.close()


def eventually(check, seconds=10):
    """Repeats a check until it holds; for effects that a signal brings about."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
