"""Real Redis and Valkey servers for tests, a client without conversions, and what is between them.

`RedisServer` is a process on a port that the kernel gave. `RawClient` sends words and gives replies as
they are. `CuttingProxy` stands between a replica and its primary and cuts connections.
"""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pytest
import redis

from conftest import program


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class RedisServer:
    """A redis-server, or the program `binary`, in its own folder."""

    def __init__(self, folder, *arguments, binary=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.binary = binary or program("redis-server", "redis-server")
        self.arguments = list(map(str, arguments))
        for _ in range(5):
            self.port = free_port()
            if self.start():
                return
        raise AssertionError(f"{self.binary} did not start")

    def start(self, *more):
        """Starts the process on the port that it has; gives whether it listens."""
        command = [self.binary, "--port", self.port, "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", self.folder, *self.arguments, *more]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
        return self.wait()

    def wait(self):
        for _ in range(500):
            if self.process.poll() is not None:
                return False
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return True
            time.sleep(0.02)
        return False

    def client(self, **options):
        return redis.Redis(port=self.port, **options)

    def raw(self):
        return RawClient(self.port)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def follow(self, primary):
        """Makes this server a replica of another."""
        assert self.raw().call("REPLICAOF", "127.0.0.1", primary.port) == b"OK"

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=10)


@pytest.fixture
def peer(tmp_path):
    """A function that starts a redis-server."""
    servers = []

    def start(*arguments, binary=None):
        folder = tmp_path / f"redis-{len(servers)}"
        servers.append(RedisServer(folder, *arguments, binary=binary))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


class ReplyError(Exception):
    """An error reply, which is handed out and not raised."""


class RawClient:
    """Sends commands as words and gives replies as bytes, integers, lists, `None` and `ReplyError`."""

    def __init__(self, port, timeout=60):
        self.port = port
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb", 1 << 16)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def another(self):
        """One more connection to the same server."""
        return RawClient(self.port)

    def close(self):
        self.stream.close()
        self.socket.close()

    def send(self, *commands):
        self.socket.sendall(b"".join(map(packed, commands)))

    def call(self, *words):
        self.send(words)
        return self.reply()

    def pipeline(self, commands):
        """Sends all commands at once and gives all replies."""
        sender = threading.Thread(target=self.send, args=commands) if len(commands) > 500 else None
        sender.start() if sender else self.send(*commands)
        replies = [self.reply() for _ in commands]
        if sender:
            sender.join()
        return replies

    def reply(self):
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError(f"the connection ended in a reply: {line!r}")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            if rest == b"-1":
                return None
            return self.stream.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        if kind == b":":
            return int(rest)
        return ReplyError(rest.decode("latin-1")) if kind == b"-" else rest


def as_bytes(word):
    return word if isinstance(word, bytes) else str(word).encode()


def packed(words):
    """A command as it goes over the wire."""
    parts = [b"*%d\r\n" % len(words)]
    for word in map(as_bytes, words):
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class CuttingProxy:
    """Forwards connections to a port until `cut` ends all of them at once."""

    def __init__(self, port):
        self.port_behind = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.pairs = []
        self.accepted = 0
        self.is_refusing = False
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def accept(self):
        while True:
            try:
                front, _ = self.listener.accept()
            except OSError:
                return
            try:
                if self.is_refusing:
                    raise OSError("refused")
                behind = socket.create_connection(("127.0.0.1", self.port_behind), 5)
                behind.settimeout(None)
            except OSError:
                front.close()
                continue
            with self.lock:
                self.pairs.append((front, behind))
                self.accepted += 1
            for pair in [(front, behind), (behind, front)]:
                threading.Thread(target=self.forward, args=pair, daemon=True).start()

    def forward(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        self.end(source, target)

    @staticmethod
    def end(*sockets):
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def cut(self):
        """Ends all connections, wherever they are in a message; gives how many."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            self.end(*pair)
        return len(pairs)

    def close(self):
        self.listener.close()
        self.cut()


@contextlib.contextmanager
def stopped(process):
    """The process does nothing meanwhile."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)
