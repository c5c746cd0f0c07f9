"""Makes the dumps of this folder with real servers, and what they hold by their commands.

    python3 make_dumps.py                              needs redis-server 7.0
    python3 make_dumps.py redis-8.0=PATH valkey-9.1=PATH

`NAME.hex` is the file that SAVE wrote, `NAME-large.hex` that of a server which packs nothing.
`NAME-for-redis.hex` is what a Valkey sends to a replica that does not say its version. `keys.txt` has
the keys of all as the server's commands give them, so that the test compares a dump with the server's
own answers; `NAME-more.txt` has those of types that Redis 7.0 does not know.
"""

import contextlib
import pathlib
import socket
import subprocess
import sys
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

    def knows(self, command):
        return bool(self("COMMAND", "INFO", command)[0])

    def dump_for_a_replica(self):
        """What a full synchronisation sends to a replica that does not say its version."""
        self("REPLCONF", "capa", "eof")
        self.stream.write(b"PSYNC ? -1\r\n")
        self.stream.flush()
        line = b""
        while not line.startswith(b"$"):
            line = self.stream.readline()
        assert line.startswith(b"$EOF:"), line
        mark, dump = line[5:-2], b""
        while not dump.endswith(mark):
            dump += self.stream.read1()
        return dump.removesuffix(mark)

    def reply(self):
        line = self.stream.readline()[:-2]
        kind, rest = line[:1], line[1:]
        assert kind != b"-", line
        if line in (b"$-1", b"*-1"):
            return None
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


def fill_newer(client):
    """Types that came after Redis 7.0, where the server knows them."""
    if client.knows("HPEXPIREAT"):
        client("HSET", "fields that end", "a", 1, "b", "two")
        client("HPEXPIREAT", "fields that end", FAR, "FIELDS", 1, "a")
        fields = [part for number in range(150) for part in (f"field {number}", "v" * (number % 9))]
        client("HSET", "many fields that end", *fields)
        for number in range(0, 150, 7):
            client("HPEXPIREAT", "many fields that end", FAR + number, "FIELDS", 1, f"field {number}")
        client("PEXPIREAT", "many fields that end", FAR + 1000)
    if client.knows("VADD"):
        for number in range(5):
            client("VADD", "vectors", "VALUES", 3, number, 1, 0.5, f"element {number}", "SETATTR", '{"n": 1}')


def lines_of(client):
    lines = []
    for database in (0, 7):
        client("SELECT", database)
        for key in client("KEYS", "*"):
            of_type = client("TYPE", key).decode().replace("vectorset", "module")
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


@contextlib.contextmanager
def server_of(binary, *settings):
    """A client of a server that ends with the block, and the server's folder."""
    with tempfile.TemporaryDirectory() as folder:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [binary, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder, *settings]
        server = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
        try:
            for _ in range(200):
                with contextlib.suppress(OSError):
                    client = Client(port)
                    break
                time.sleep(0.02)
            yield client, pathlib.Path(folder)
        finally:
            server.kill()
            server.wait()


def write(name, dump):
    text = dump.hex()
    rows = [text[at : at + 96] for at in range(0, len(text), 96)]
    (HERE / f"{name}.hex").write_text("\n".join(rows) + "\n")
    print(name, len(dump), "bytes,", dump[:9])


def make(name, binary, is_first, *settings):
    with server_of(binary, *settings) as (client, folder):
        fill(client)
        common = lines_of(client)
        fill_newer(client)
        more = [line for line in lines_of(client) if line not in common]
        client("SAVE")
        write(name, (folder / "dump.rdb").read_bytes())
    if is_first:
        (HERE / "keys.txt").write_text("\n".join(common) + "\n")
    else:
        assert common == (HERE / "keys.txt").read_text().splitlines()
        (HERE / f"{name.removesuffix('-large')}-more.txt").write_text("\n".join(more) + "\n")


def make_all(name, binary):
    is_first = name == "redis-7.0"
    make(name, binary, is_first)
    settings = ["--zset-max-listpack-entries", 0, "--rdbcompression", "no"]
    settings += ["--maxmemory-policy", "allkeys-lfu", "--set-max-intset-entries", 0]
    settings += ["--hash-max-listpack-entries", 0, "--list-max-listpack-size", 16]
    make(f"{name}-large", binary, is_first, *settings)
    if name.startswith("valkey"):
        with server_of(binary, "--repl-diskless-sync-delay", 0) as (client, _):
            fill(client)
            write(f"{name}-for-redis", client.dump_for_a_replica())


if __name__ == "__main__":
    for argument in sys.argv[1:] or ["redis-7.0=redis-server"]:
        make_all(*argument.split("=", 1))
