"""Makes the dumps of this folder with Debian's redis-server, and what they hold by its commands.

    python3 make_dumps.py            needs redis-server 7.0

`NAME.hex` is the file that SAVE wrote. `keys.txt` has the keys of both as the server's commands give
them, so that the test compares a dump with the server's own answers.
"""

import contextlib
import pathlib
import socket
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).parent
FAR = 4102444800000  # 2100, in milliseconds


class Client:
    """As much of a client as this needs."""

    def __init__(self, port):
        self.stream = socket.create_connection(("127.0.0.1", port)).makefile("rwb")

    def __call__(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.stream.write(b"*%d\r\n" % len(words) + b"".join(parts))
        self.stream.flush()
        return self.reply()

    def reply(self):
        line = self.stream.readline()[:-2]
        kind, rest = line[:1], line[1:]
        assert kind != b"-", line
        if kind == b"$":
            return self.stream.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest


def zadd(client, key, scores):
    client("ZADD", key, *(part for member, score in scores.items() for part in (score, member)))


def fill(client):
    client("GEOADD", "points", 13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania", -180, -85, "corner")
    scores = {"zero": 0, "minus": -1, "half": 0.5, "third": 1 / 3, "inf": "inf", "-inf": "-inf"}
    scores |= {"127": 127, "-4096": -4096, "32767": 32767, "8388607": 8388607, "2147483647": 2147483647}
    scores |= {"-2147483649": -2147483649, "9007199254740992": 2**53, "1e300": 1e300, "tiny": 5e-324}
    scores |= {b"bytes\xff\x00\r\n": 4095, "": 1, "a" * 63: 2, "b" * 40: -4097}
    zadd(client, "scores", scores)
    zadd(client, "long members", {"x" * 300: 1, "y" * 5000: 2, "pattern " * 40: 3})
    zadd(client, "many", {f"member {number:04}": number * 1.5 - 100 for number in range(200)})
    zadd(client, "over in 2100", {"m": 1})
    client("PEXPIREAT", "over in 2100", FAR)
    texts = {"text": "a text", "number": 12345, "negative": -7, "big number": 2**40, "packed text": "whered " * 100}
    for key, value in texts.items():
        client("SET", key, value)
    client("SET", "text that ends", b"\x00\xff", "PXAT", FAR + 1)
    client("RPUSH", "list", "a", "b", 3)
    client("RPUSH", "long list", *("entry %d" % number for number in range(300)))
    client("SADD", "set", "a", "b")
    client("SADD", "numbers", 1, 2, 70000)
    client("HSET", "hash", "a", 1, "b", "two")
    client("HSET", "large hash", "field", "v" * 100)
    for number in range(5):
        client("XADD", "stream", "*", "field", number)
    client("XGROUP", "CREATE", "stream", "group", 0)
    client("XREADGROUP", "GROUP", "group", "consumer", "COUNT", 3, "STREAMS", "stream", ">")
    client("FUNCTION", "LOAD", "#!lua name=library\nredis.register_function('f', function() return 1 end)")
    client("SELECT", 7)
    zadd(client, "elsewhere", {"m": 2.5})
    client("SELECT", 0)


def lines_of(client):
    lines = []
    for database in (0, 7):
        client("SELECT", database)
        for key in client("KEYS", "*"):
            of_type = client("TYPE", key).decode()
            over = client("PEXPIRETIME", key)
            head = f"{database} {key.hex()} {'-' if over < 0 else over}"
            if of_type == "zset":
                flat = client("ZRANGE", key, 0, -1, "WITHSCORES")
                rows = zip(flat[::2], flat[1::2])
                members = sorted(f"{member.hex()}={float(score)!r}" for member, score in rows)
                lines.append(f"zset {head} {' '.join(members)}")
            elif of_type == "string":
                lines.append(f"string {head} {client('GET', key).hex()}")
            else:
                lines.append(f"{of_type} {head}")
    client("SELECT", 0)
    return sorted(lines)


def make(name, *settings):
    with tempfile.TemporaryDirectory() as folder:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder, *settings]
        server = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
        try:
            for _ in range(200):
                with contextlib.suppress(OSError):
                    client = Client(port)
                    break
                time.sleep(0.02)
            fill(client)
            lines = lines_of(client)
            client("SAVE")
            dump = (pathlib.Path(folder) / "dump.rdb").read_bytes()
        finally:
            server.kill()
            server.wait()
    text = dump.hex()
    rows = [text[at : at + 96] for at in range(0, len(text), 96)]
    (HERE / f"{name}.hex").write_text("\n".join(rows) + "\n")
    (HERE / "keys.txt").write_text("\n".join(lines) + "\n")
    print(name, len(dump), "bytes,", len(lines), "keys")


if __name__ == "__main__":
    make("redis-7.0")
    settings = ["--zset-max-listpack-entries", 0, "--rdbcompression", "no"]
    settings += ["--maxmemory-policy", "allkeys-lfu", "--set-max-intset-entries", 0]
    settings += ["--hash-max-listpack-entries", 0, "--list-max-listpack-size", 16]
    make("redis-7.0-large", *settings)
