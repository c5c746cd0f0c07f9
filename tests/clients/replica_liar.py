"""A primary that says what a test wants: dumps made by hand, and lies about them.

`FakePrimary` answers the handshake and hands the connection to the present behaviour, a function of
the connection and the words of PSYNC. Behaviours are at the foot of this file.
"""

import contextlib
import socket
import struct
import threading
import time

from redis_server import as_bytes, packed


def crc64(data, table=[]):  # noqa: B006: the table is made once
    """The checksum of a dump (polynomial ad93d23594c935a9, reflected)."""
    if not table:
        for byte in range(256):
            for _ in range(8):
                byte = byte >> 1 ^ (0x95AC9329AC4BC9B5 if byte & 1 else 0)
            table.append(byte)
    sum_ = 0
    for byte in data:
        sum_ = table[(sum_ ^ byte) & 0xFF] ^ sum_ >> 8
    return sum_


def length(value):
    if value < 64:
        return bytes([value])
    return struct.pack(">H", 0x4000 | value) if value < 16384 else b"\x80" + struct.pack(">I", value)


def string(word):
    word = as_bytes(word)
    return length(len(word)) + word


def dump(keys, magic=b"REDIS0010", more=b"", sum_=None):
    """A dump with sorted sets as `{key: {member: score}}`, and `more` bytes behind them."""
    body = magic + b"\xfa" + string("repl-stream-db") + string("0") + b"\xfe\x00"
    for key, members in keys.items():
        body += b"\x05" + string(key) + length(len(members))
        for member, score in members.items():
            body += string(member) + struct.pack("<d", score)
    body += more + b"\xff"
    return body + struct.pack("<Q", crc64(body) if sum_ is None else sum_)


class FakePrimary:
    """Listens on a port of its own; `behave(connection, id, offset)` answers PSYNC."""

    def __init__(self, behave):
        self.behave = behave
        self.synchronizations = []
        self.connections = []
        self.is_closed = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        stream = connection.makefile("rb")
        with contextlib.suppress(OSError, ValueError, struct.error):
            while words := self.command(stream):
                name = words[0].upper()
                if name == b"PSYNC":
                    self.synchronizations.append((time.monotonic(), words[1], int(words[2])))
                    threading.Thread(target=self.drain, args=(stream,), daemon=True).start()
                    self.behave(connection, *words[1:])
                    break
                connection.sendall(b"+PONG\r\n" if name == b"PING" else b"+OK\r\n")
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def drain(stream):
        """Takes the acknowledgements."""
        with contextlib.suppress(OSError, ValueError):
            while stream.readline():
                pass

    @staticmethod
    def command(stream):
        line = stream.readline()
        words = []
        for _ in range(int(line[1:] or 0) if line.startswith(b"*") else 0):
            size = int(stream.readline()[1:])
            words.append(stream.read(size + 2)[:-2])
        return words

    def become(self, behave):
        """Behaves so from now on, and ends the connections that there are."""
        self.behave = behave
        self.end()

    def end(self):
        connections, self.connections = self.connections, []
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.is_closed = True
        self.listener.close()
        self.end()


# Behaviours.

ID = b"0123456789abcdef0123456789abcdef01234567"


def whole(keys, stream=(), id_=ID, seconds=3600):
    """An honest full synchronisation, then commands, then nothing."""

    def behave(connection, *_):
        text = dump(keys)
        connection.sendall(b"+FULLRESYNC %s 100\r\n$%d\r\n" % (id_, len(text)) + text)
        connection.sendall(b"".join(part if isinstance(part, bytes) else packed(part) for part in stream))
        wait_for_end(connection, seconds)

    return behave


def wait_for_end(connection, seconds):
    """Until somebody ends the connection, who need not be the replica."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.02)
        connection.getpeername()


def answers(*parts):
    """Bytes instead of an answer to PSYNC, and the connection ends."""

    def behave(connection, *_):
        for part in parts:
            connection.sendall(part)

    return behave


def sends_dump(text, claimed=None, behind=b""):
    """A dump of which another length may be claimed."""
    claimed = len(text) if claimed is None else claimed
    return answers(b"+FULLRESYNC %s 100\r\n$%d\r\n" % (ID, claimed), text, behind)


def keeps_alive_for_ever(connection, *_):
    """A primary that prepares its dump and never comes to an end."""
    connection.sendall(b"+FULLRESYNC %s 100\r\n" % ID)
    while True:
        connection.sendall(b"\n")
        time.sleep(0.01)
