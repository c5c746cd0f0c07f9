"""A whered and a stock replica behind the same primary: `python replica.py --whered target/release/whered`.

Measured, each with its answers compared: moves followed by one core, the first synchronisation of one
key, memory while it loads, what a replica costs the primary, and GEO reads beside the primary's own.

Moves followed: the replica is stopped (SIGSTOP) while the primary takes moves of one member each, so
that they wait in the primary's buffer. Then it goes on; the figure is moves by its processor time.
What a replica costs: the primary's processor time for moves that the replica follows as they come.
The primary and this program have one core, the replica the other.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator

from measure import Measure, Report, same

KEY = "fleet:all"
TICK = os.sysconf("SC_CLK_TCK")
# Members by a generator of the server itself: the cells cover the world evenly.
FILL = """
local seed = tonumber(ARGV[1])
local words = {}
for n = 0, tonumber(ARGV[2]) - 1 do
  seed = (seed * 1103515245 + 12345) % 2147483648
  local high = math.floor(seed / 32)
  seed = (seed * 1103515245 + 12345) % 2147483648
  words[#words + 1] = string.format('%.0f', high * 67108864 + math.floor(seed / 32))
  words[#words + 1] = 'm' .. (tonumber(ARGV[3]) + n)
end
return redis.call('ZADD', KEYS[1], unpack(words))
"""


class Client:
    """As much of a client as this needs: bytes out, replies in."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 600)
        self.stream = self.socket.makefile("rb", 1 << 20)

    def call(self, *words: object) -> object:
        self.socket.sendall(command(*words))
        return self.reply()

    def reply(self) -> object:
        line = self.stream.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.stream.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return int(rest) if kind == b":" else rest

    def section(self, name: str) -> dict[str, str]:
        text = self.call("INFO", name)
        assert isinstance(text, bytes)
        lines = (line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
        return {key: value for key, value in lines}


def command(*words: object) -> bytes:
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Process:
    """A server on a port, on one core."""

    def __init__(self, core: int, words: list[object], port: int, folder: str) -> None:
        self.port = port
        self.process = subprocess.Popen(
            ["taskset", "-c", str(core), *map(str, words)],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(500):
            with contextlib.suppress(OSError):
                self.client = Client(port)
                return
            time.sleep(0.02)
        raise SystemExit(f"{words[0]} does not listen")

    def processor_seconds(self) -> float:
        """Of the process with all its threads, and of its children that have ended."""
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        of_children = sum(int(word) for word in stat.rpartition(") ")[2].split()[13:15])
        # The clock of another process, as clock_getcpuclockid(3) gives it.
        return time.clock_gettime(~self.process.pid << 3 | 2) + of_children / TICK

    def mebibytes(self, name: str) -> float:
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
        raise SystemExit(f"no {name}")

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        os.kill(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.process.pid, signal.SIGCONT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def redis(options: argparse.Namespace, core: int, folder: str, *more: object) -> Process:
    port = free_port()
    words = [options.redis, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder]
    words += ["--repl-diskless-sync-delay", 0, "--repl-timeout", 3600]
    words += ["--client-output-buffer-limit", "replica 0 0 0", "--repl-backlog-size", "1gb", *more]
    return Process(core, words, port, folder)


def whered(options: argparse.Namespace, core: int, folder: str, primary: Process) -> Process:
    port = free_port()
    pathlib.Path(folder, "whered.toml").write_text(
        'data_dir = "data"\n'
        f'[resp]\nlisten = ["127.0.0.1:{port}"]\nthreads = 1\n'
        f'[[replica]]\nof = "redis://127.0.0.1:{primary.port}"\nmatch = ["fleet:*"]\n'
    )
    return Process(core, [options.whered, "serve", "--config", "whered.toml"], port, folder)


@contextlib.contextmanager
def following(options: argparse.Namespace, name: str, primary: Process) -> Iterator[Process]:
    """A replica with the first synchronisation behind it."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if name == "whered":
            replica = whered(options, 1, folder, primary)
        else:
            replica = redis(options, 1, folder, "--replicaof", f"127.0.0.1 {primary.port}")
        try:
            wait_for_marker(primary, replica)
            yield replica
        finally:
            replica.close()


def wait_for_marker(primary: Process, replica: Process) -> None:
    """Until the replica has all that was written before."""
    number = time.monotonic_ns() % 1_000_000_007
    primary.client.call("ZADD", "fleet:marker", number, "marker")
    while True:
        with contextlib.suppress(RuntimeError):
            if replica.client.call("ZSCORE", "fleet:marker", "marker") == b"%d" % number:
                return
        time.sleep(0.002)


def fill(primary: Process, points: int) -> None:
    step = 2000
    for start in range(0, points, step):
        primary.client.call("EVAL", FILL, 1, KEY, start + 7, min(step, points - start), start)
    same("points", points, primary.client.call("ZCARD", KEY))


def moves(points: int, count: int, seed: int) -> bytes:
    drawn = random.Random(seed)
    return b"".join(
        command(
            "GEOADD",
            KEY,
            f"{drawn.uniform(-180, 180):.6f}",
            f"{drawn.uniform(-85, 85):.6f}",
            f"m{drawn.randrange(points)}",
        )
        for _ in range(count)
    )


def send(primary: Process, text: bytes, count: int) -> None:
    """Sends commands in pieces, and takes their replies, which are integers."""
    client = primary.client
    sent = taken = 0
    piece = 1 << 16
    end = len(text)
    while sent < end or taken < count:
        if sent < end:
            client.socket.sendall(text[sent : sent + piece])
            sent += piece
        # A move's reply is `:0` or `:1`; about 90 bytes are one move.
        due = count if sent >= end else min(count, int(sent / end * count) - 2000)
        while taken < due:
            line = client.stream.readline()
            if not line.startswith(b":"):
                raise SystemExit(f"the primary says {line!r}")
            taken += 1


def compare(primary: Process, replica: Process) -> None:
    """All members, scores and their order."""
    wait_for_marker(primary, replica)
    count = primary.client.call("ZCARD", KEY)
    same("members", count, replica.client.call("ZCARD", KEY))
    assert isinstance(count, int)
    step = 100_000
    for start in range(0, count, step if count <= 4_000_000 else count // 40):
        words = ("ZRANGE", KEY, start, min(start + step, count) - 1, "WITHSCORES")
        same(f"members from {start}", primary.client.call(*words), replica.client.call(*words))


def measure_sync(report: Report, options: argparse.Namespace, primary: Process) -> None:
    """Attached until served, with the primary on the other core."""
    for name in ("whered", "redis"):
        seconds, beside, of_primary = [], [], []
        for _ in range(options.sync_rounds):
            before, begun = primary.processor_seconds(), time.monotonic()
            with following(options, name, primary) as replica:
                seconds.append(time.monotonic() - begun)
                peak = replica.mebibytes("VmHWM")
                time.sleep(2)  # What was needed for loading alone is given back.
                beside.append(peak - replica.mebibytes("VmRSS"))
                compare(primary, replica)
            of_primary.append(primary.processor_seconds() - before)
        what = f"{options.points:,} points in one key, first synchronisation"
        report.add(Measure(f"{what}: {name}", seconds, "s"))
        report.add(Measure(f"{what}, peak memory above what stays: {name}", beside, "MiB"))
        report.add(Measure(f"{what}, the primary's processor time: {name}", of_primary, "s"))


def measure_moves(report: Report, options: argparse.Namespace, primary: Process) -> None:
    rates: dict[str, list[float]] = {"whered": [], "redis": []}
    costs: dict[str, list[float]] = {"whered": [], "redis": []}
    text = [moves(options.points, options.moves, seed) for seed in (1, 2)]
    # The clock of a shared machine wavers by a tenth: many turns, in the order A B B A A B B A.
    for name in ["whered", "redis", "redis", "whered"] * (options.turns // 2):
        with following(options, name, primary) as replica:
            for number in range(options.rounds):
                with replica.stopped():
                    send(primary, text[number % 2], options.moves)
                    began = replica.processor_seconds()
                wait_for_marker(primary, replica)
                rates[name].append(options.moves / (replica.processor_seconds() - began) / 1000)
                before = primary.processor_seconds()
                send(primary, text[1 - number % 2], options.moves)
                wait_for_marker(primary, replica)
                costs[name].append(primary.processor_seconds() - before)
            compare(primary, replica)
    bar = {"whered": 300.0, "redis": None}
    for name, values in rates.items():
        report.add(Measure(f"moves followed by one core: {name}", values, "k/s", bar[name]))
    ratios = [ours / theirs for ours, theirs in zip(costs["whered"], costs["redis"], strict=True)]
    for name, values in costs.items():
        rate = [1e6 * value / options.moves for value in values]
        report.add(Measure(f"the primary's processor time for a move that {name} follows", rate, "us"))
    what = "the primary's processor time for the same moves: with whered / with a stock replica"
    report.add(Measure(what, ratios, "times", at_most=1.05))


def search(client: Client, places: list[tuple[float, float]], together: int) -> list[object]:
    replies = []
    for start in range(0, len(places), together):
        part = places[start : start + together]
        words = [("GEOSEARCH", KEY, "FROMLONLAT", x, y, "BYRADIUS", 200, "km") for x, y in part]
        client.socket.sendall(b"".join(command(*request) for request in words))
        replies += [client.reply() for _ in part]
    return replies


def measure_reads(report: Report, options: argparse.Namespace, primary: Process) -> None:
    drawn = random.Random(3)
    places = [(drawn.uniform(-180, 180), drawn.uniform(-80, 80)) for _ in range(options.reads)]
    seconds: dict[str, list[float]] = {"whered": [], "redis": []}
    with following(options, "whered", primary) as replica:
        servers = {"whered": replica, "redis": primary}
        for number in range(options.rounds):
            replies: dict[str, list[object]] = {}
            order = list(servers.items())
            for name, server in order if number % 2 else order[::-1]:
                before = server.processor_seconds()
                replies[name] = search(server.client, places, options.together)
                seconds[name].append(server.processor_seconds() - before)
            for ours, theirs in zip(replies["whered"], replies["redis"], strict=True):
                assert isinstance(ours, list) and isinstance(theirs, list)
                same("members within 200 km", sorted(theirs), sorted(ours))
    found = statistics.mean(len(reply) for reply in replies["redis"])  # type: ignore[arg-type]
    ratios = [theirs / ours for ours, theirs in zip(seconds["whered"], seconds["redis"], strict=True)]
    sent = f"{options.together} at once" if options.together > 1 else "one by one"
    what = f"GEOSEARCH BYRADIUS 200 km {sent}, {found:.0f} members: processor time of redis / whered"
    report.add(Measure(what, ratios, "times", at_least=40))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--whered", type=pathlib.Path, required=True, help="a release build")
    parser.add_argument("--redis", default="redis-server", help="a redis-server or valkey-server")
    parser.add_argument("--parts", default="sync,moves,reads")
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--moves", type=int, default=400_000, help="of a round")
    parser.add_argument("--turns", type=int, default=4, help="of each replica, for moves")
    parser.add_argument("--reads", type=int, default=300, help="of a round")
    parser.add_argument("--together", type=int, default=1, help="reads that are sent at once")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sync-rounds", type=int, default=1)
    parser.add_argument("--folder", help="where the servers keep their files")
    options = parser.parse_args()
    options.whered = options.whered.resolve()
    os.sched_setaffinity(0, {0})
    report = Report("replication")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        primary = redis(options, 0, folder)
        try:
            fill(primary, options.points)
            parts = {"sync": measure_sync, "moves": measure_moves, "reads": measure_reads}
            for part in options.parts.split(","):
                parts[part](report, options, primary)
        finally:
            primary.close()


if __name__ == "__main__":
    main()
