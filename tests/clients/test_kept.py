"""What was acknowledged is kept: `kill -9` under load, a disk that is really full, one that fails."""

import os
import pathlib
import random
import subprocess
import threading
import time

import pytest
import redis
import requests

from conftest import REQUIRED, program

ROUNDS = 5
WRITERS = 4


def address_of(writer, number):
    return f"10.{writer}.{number % 65536 // 256}.{number % 256}"


def write_until_killed(port, writer, first, acknowledged, prefixes):
    """Adds numbered members one at a time, some prefixes among them, and notes what was
    acknowledged."""
    number = first
    try:
        with redis.Redis(port=port, socket_timeout=5, retry=None) as client:
            while True:
                client.geoadd(f"writer:{writer}", [number % 180, number % 80, number])
                acknowledged[writer] = number
                if number % 7 == 0:
                    client.execute_command("CIDR.ADD", f"set-{writer}", address_of(writer, number))
                    prefixes[writer].add(number)
                number += 1
    except redis.RedisError:
        pass


def test_nothing_acknowledged_is_lost_by_kill_9_under_load(serve):
    acknowledged = {writer: -1 for writer in range(WRITERS)}
    prefixes = {writer: set() for writer in range(WRITERS)}
    server = serve("--data-dir", "data")
    for round_number in range(ROUNDS):
        firsts = {writer: acknowledged[writer] + 1 for writer in range(WRITERS)}
        threads = [
            threading.Thread(
                target=write_until_killed,
                args=(server.resp, writer, firsts[writer], acknowledged, prefixes),
            )
            for writer in range(WRITERS)
        ]
        for thread in threads:
            thread.start()
        # Each round dies after another amount of work, not after an amount of time.
        with redis.Redis(port=server.resp) as client:
            while client.zcard("writer:0") < firsts[0] + 40 + 17 * round_number:
                pass
        server.kill()
        for thread in threads:
            thread.join()
        server.start()
        with redis.Redis(port=server.resp, decode_responses=True) as client:
            for writer in range(WRITERS):
                members = {int(member) for member in client.zrange(f"writer:{writer}", 0, -1)}
                expected = set(range(acknowledged[writer] + 1))
                # One more may be there: written, but its acknowledgement did not arrive.
                assert expected <= members and len(members - expected) <= 1, (round_number, writer)
                acknowledged[writer] = max(members)
                for number in prefixes[writer]:
                    address = address_of(writer, number)
                    assert client.execute_command("CIDR.MATCH", f"set-{writer}", address) == f"{address}/32"


def count_until_killed(port, worker, counted, taken):
    """Counts, appends, sets pairs, combines and takes members, and notes what was acknowledged."""
    try:
        with redis.Redis(port=port, socket_timeout=5, retry=None, decode_responses=True) as client:
            while True:
                counted[worker] = client.incr(f"count:{worker}")
                number = counted[worker]
                client.append(f"text:{worker}", "x")
                client.mset({f"left:{worker}": number, f"right:{worker}": number})
                client.zadd(f"source:{worker}", {"a": number, "b": 0.5})
                client.zunionstore(f"union:{worker}", {f"source:{worker}": 2.0})
                # Another worker's wait may be served by this.
                client.zadd("queue", {f"{worker}-{number}": number})
                popped = client.bzpopmin("queue", timeout=1)
                taken.append(popped[1])
    except redis.RedisError:
        pass


def test_counters_pairs_combinations_and_taken_members_survive_kill_9(serve):
    counted = {worker: 0 for worker in range(WRITERS)}
    taken = []
    server = serve("--data-dir", "data")
    for round_number in range(ROUNDS):
        firsts = dict(counted)
        threads = [
            threading.Thread(target=count_until_killed, args=(server.resp, worker, counted, taken))
            for worker in range(WRITERS)
        ]
        for thread in threads:
            thread.start()
        with redis.Redis(port=server.resp) as client:
            while int(client.get("count:0") or 0) < firsts[0] + 20 + 7 * round_number:
                pass
        server.kill()
        for thread in threads:
            thread.join()
        server.start()
        with redis.Redis(port=server.resp, decode_responses=True) as client:
            left = set(client.zrange("queue", 0, -1))
            assert not left & set(taken), "a member that was taken is there again"
            assert len(taken) == len(set(taken)), "a member was taken twice"
            for worker in range(WRITERS):
                number = int(client.get(f"count:{worker}"))
                # One more may be there: written, but its acknowledgement did not arrive.
                assert number - counted[worker] in (0, 1), (round_number, worker)
                counted[worker] = number
                pair = client.mget(f"left:{worker}", f"right:{worker}")
                assert pair[0] == pair[1] and number - int(pair[0]) in (0, 1, 2)
                # Each round ends within a pass, so that the text may be one behind for each.
                assert 0 <= number - client.strlen(f"text:{worker}") <= round_number + 1
                source = dict(client.zrange(f"source:{worker}", 0, -1, withscores=True))
                union = dict(client.zrange(f"union:{worker}", 0, -1, withscores=True))
                assert union["b"] == 1 and 0 <= 2 * source["a"] - union["a"] <= 4


@pytest.fixture
def small_disk(tmp_path):
    """A tmpfs of a few megabytes; needs root."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if done.returncode != 0:
        reason = f"a tmpfs cannot be mounted here: {done.stderr.strip()}"
        if "root" in REQUIRED:
            pytest.fail(reason)
        pytest.skip(reason)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def wait_until(holds, seconds=20):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


def gauge(server, name):
    """The value of a metric without labels, or with the only ones that it has."""
    lines = requests.get(f"{server.url}/metrics", timeout=5).text.splitlines()
    return [float(line.split()[-1]) for line in lines if line.startswith(f"whered_{name}")]


def log_of(server):
    return pathlib.Path(server.cwd, "server.log").read_text()


def test_a_full_disk_refuses_writes_and_loses_nothing(serve, small_disk, tmp_path):
    config = tmp_path / "small.toml"
    config.write_text(f'data_dir = "{small_disk}"\n[journal]\nsegment_size_bytes = 2097152\n')
    server = serve("--config", config)
    ballast = small_disk / "ballast"
    with redis.Redis(port=server.resp, decode_responses=True) as client:
        acknowledged = 0
        with pytest.raises(redis.ResponseError, match="MISCONF"):
            while True:
                client.geoadd("k", [1, 1, f"{acknowledged:04d}" + "x" * 10_000])
                acknowledged += 1
                if acknowledged == 100:
                    # Another program takes what is left of the disk.
                    free = os.statvfs(small_disk)
                    ballast.write_bytes(b"\0" * (free.f_bavail * free.f_frsize - 4 * 1024 * 1024))
        assert acknowledged > 100
        assert client.zcard("k") == acknowledged
        assert requests.get(f"{server.url}/healthz", timeout=5).status_code == 200
        # It is visible to who looks, and said once.
        readiness = requests.get(f"{server.url}/readyz", timeout=5)
        assert readiness.status_code == 503 and readiness.json()["status"] == "full"
        assert "no room for the journal" in readiness.json()["reason"]
        persistence = client.info("persistence")
        assert persistence["aof_last_write_status"] == "err" and persistence["journal_full"] == 1
        assert gauge(server, "journal_full") == [1]
        for _ in range(20):
            with pytest.raises(redis.ResponseError, match="MISCONF"):
                client.geoadd("k", [1, 1, "x" * 3_000_000])
        wait_until(lambda: "no room for the journal" in log_of(server))
        ballast.unlink()
        # It ends although nobody writes: nobody would, to a server that is not ready.
        wait_until(lambda: requests.get(f"{server.url}/readyz", timeout=5).status_code == 200)
        assert client.info("persistence")["aof_last_write_status"] == "ok"
        assert gauge(server, "journal_full") == [0]
        wait_until(lambda: "room for the journal again" in log_of(server))
        assert log_of(server).count("no room for the journal") == 1

        def accepted():
            try:
                return client.geoadd("k", [1, 1, "after"]) == 1
            except redis.ResponseError:
                return False

        while not accepted():
            pass
    server.kill()
    server = serve("--config", config)
    with redis.Redis(port=server.resp, decode_responses=True) as client:
        assert client.zcard("k") == acknowledged + 1
        assert client.zscore("k", "after") is not None


FEED = """
[[feed]]
name = "sightings"
format = "ndjson"
member = "who"
longitude = "x"
latitude = "y"
into = { collection = "sightings" }
"""


def test_a_disk_without_room_for_a_spool_is_told_and_ends_by_itself(serve, small_disk, tmp_path):
    config = tmp_path / "feed.toml"
    config.write_text(
        f'data_dir = "{small_disk}"\n[journal]\nsegment_size_bytes = 2097152\n{FEED}'
    )
    server = serve("--config", config)
    ballast = small_disk / "ballast"
    line = b'{"who": "a", "x": 1, "y": 2, "note": "%s"}\n'

    def push(lines=1):
        body = b"".join(line % os.urandom(500).hex().encode() for _ in range(lines))
        return requests.post(f"{server.url}/v1/feeds/sightings", data=body, timeout=10)

    assert push().status_code == 202
    free = os.statvfs(small_disk)
    # Less than the smallest segment has, and an upload that needs the largest.
    ballast.write_bytes(b"\0" * (free.f_bavail * free.f_frsize - 128 * 1024))
    refused = push(lines=5_000)
    assert refused.status_code == 429 and "cannot extend the journal" in refused.text
    readiness = requests.get(f"{server.url}/readyz", timeout=5)
    assert readiness.status_code == 503
    assert "no room for" in readiness.json()["reason"], readiness.json()
    assert gauge(server, "feed_spool_full") == [1]
    described = requests.get(f"{server.url}/v1/feeds/sightings", timeout=5).json()
    assert "cannot extend the journal" in described["full"]
    wait_until(lambda: "no room for the spool of feed 'sightings'" in log_of(server))
    ballast.unlink()
    wait_until(lambda: requests.get(f"{server.url}/readyz", timeout=5).status_code == 200)
    wait_until(lambda: "room for the spool of feed 'sightings' again" in log_of(server))
    assert gauge(server, "feed_spool_full") == [0]
    assert push().status_code == 202
    assert log_of(server).count("no room for the spool") == 1


def test_a_failing_disk_poisons_the_journal_and_reads_go_on(serve):
    strace = program("strace", "strace", require="kernel")
    # -D: the tracer is a grandchild, so that the process that we end is the server itself.
    fail = "--inject=fdatasync:error=EIO:when=4+"
    server = serve("--data-dir", "data", under=[strace, "-D", "-f", "-q", "-o", "/dev/null", "--trace=fdatasync", fail])
    acknowledged = 0
    with redis.Redis(port=server.resp, decode_responses=True) as client:
        with pytest.raises(redis.ResponseError, match="MISCONF.*may be lost, reads go on"):
            while True:
                client.geoadd("k", [1, 1, f"m{acknowledged}"])
                acknowledged += 1
        with pytest.raises(redis.ResponseError, match="MISCONF.*writes are refused, reads go on"):
            client.geoadd("k", [1, 1, "later"])
        # Memory may hold the write that was not acknowledged, and says so nowhere but here.
        assert client.zcard("k") in (acknowledged, acknowledged + 1)
    health = requests.get(f"{server.url}/healthz", timeout=5)
    assert health.status_code == 503
    assert "Input/output error" in health.json()["reason"]
    server.kill()
    server.under = []
    server.start()
    with redis.Redis(port=server.resp, decode_responses=True) as client:
        members = set(client.zrange("k", 0, -1))
        assert {f"m{number}" for number in range(acknowledged)} <= members
        assert "later" not in members
        assert client.geoadd("k", [1, 1, "later"]) == 1


KEYS_OF_A_WRITER = 4


def random_operation(random, writer):
    """Some command that makes, changes, replaces or removes keys of one writer."""
    key, other = (f"{writer}:{random.randrange(KEYS_OF_A_WRITER)}" for _ in range(2))
    member = f"member:{random.randrange(30)}"
    place = [f"{random.uniform(-179, 179):.4f}", f"{random.uniform(-80, 80):.4f}"]
    far = ["FROMLONLAT", *place, "BYRADIUS", "9000", "km"]
    return random.choice(
        [
            ["GEOADD", key, *place, member],
            ["GEOADD", key, *place, member, *place, "another"],
            ["GEOADD", key, "NX", *place, member],
            ["ZADD", key, f"{random.uniform(-9, 9):.3f}", member],
            ["ZINCRBY", key, "1.5", member],
            ["ZREM", key, member, "another"],
            ["ZREMRANGEBYRANK", key, "0", "1"],
            ["ZPOPMAX", key],
            ["RENAME", key, other],
            ["COPY", key, other, "REPLACE"],
            ["GEOSEARCHSTORE", key, other, *far],
            ["GEOSEARCHSTORE", key, other, *far, "STOREDIST"],
            ["GEORADIUS", key, *place, "9000", "km", "STORE", other],
            ["ZRANGESTORE", key, other, "0", "5"],
            # Either far away or over: nothing ends while the two servers are compared.
            ["EXPIRE", key, random.choice(["100000", "200000", "-1"])],
            ["PERSIST", key],
            ["SET", key, f"text:{random.randrange(1000)}"],
            ["DEL", key],
        ]
    )


def run_together(client, operations):
    """As one transaction, unless it is a single one; commands that fail are part of the game."""
    with client.pipeline(transaction=len(operations) > 1) as pipe:
        for operation in operations:
            pipe.execute_command(*operation)
        pipe.execute(raise_on_error=False)


def change_until_killed(port, writer, seed, units):
    """Runs random operations, alone and in transactions; the last unit is not acknowledged."""
    numbers = random.Random(seed)
    try:
        with redis.Redis(port=port, socket_timeout=5, retry=None) as client:
            while True:
                count = numbers.choice([1, 1, 1, 2, 5, 12])
                units.append([random_operation(numbers, writer) for _ in range(count)])
                run_together(client, units[-1])
    except redis.RedisError:
        pass


def keys_of(client, writer):
    found = {}
    for number in range(KEYS_OF_A_WRITER):
        key = f"{writer}:{number}"
        kind = client.type(key)
        value = client.get(key) if kind == b"string" else client.zrange(key, 0, -1, withscores=True)
        found[key] = (kind, value, client.ttl(key) > 0)
    return found


def test_whole_keys_and_transactions_are_kept_as_they_were_acknowledged(serve):
    server = serve("--data-dir", "data")
    # What they do is asked of a second server, which is not killed and keeps nothing.
    twin = serve()
    with redis.Redis(port=twin.resp) as twin_client:
        for round_number in range(ROUNDS):
            units = {writer: [] for writer in range(WRITERS)}
            threads = [
                threading.Thread(
                    target=change_until_killed,
                    args=(server.resp, writer, 10 * round_number + writer, units[writer]),
                )
                for writer in range(WRITERS)
            ]
            for thread in threads:
                thread.start()
            # Each round dies after another amount of work, not after an amount of time.
            while len(units[0]) < 50 + 17 * round_number:
                threads[0].join(0.001)
                assert threads[0].is_alive()
            server.kill()
            for thread in threads:
                thread.join()
            server.start()
            with redis.Redis(port=server.resp) as client:
                for writer in range(WRITERS):
                    for unit in units[writer][:-1]:
                        run_together(twin_client, unit)
                    found = keys_of(client, writer)
                    if found != keys_of(twin_client, writer):
                        # The last unit was written, but its acknowledgement did not arrive.
                        run_together(twin_client, units[writer][-1])
                    assert found == keys_of(twin_client, writer), (round_number, writer)


def exec_until_killed(port, writer, first, acknowledged):
    """Puts a number into keys and a prefix set, all in one transaction."""
    number = first
    try:
        with redis.Redis(port=port, socket_timeout=30, retry=None) as client:
            while True:
                with client.pipeline(transaction=True) as pipe:
                    pipe.execute_command("CIDR.ADD", f"pair:{writer}", address_of(writer, number))
                    pipe.set(f"pair:{writer}", number)
                    pipe.execute_command("CIDR.REM", f"pair:{writer}", address_of(writer, number - 1))
                    pipe.geoadd(f"places:{writer}", [number % 180, 1, number])
                    pipe.execute()
                acknowledged[writer] = number
                number += 1
    except redis.RedisError:
        pass


def test_kill_9_tears_no_transaction_over_keys_and_prefix_sets(serve):
    rounds, acknowledged = 20, dict.fromkeys(range(WRITERS), 0)
    server = serve("--data-dir", "data")
    with redis.Redis(port=server.resp) as client:
        for writer in range(WRITERS):
            client.execute_command("CIDR.ADD", f"pair:{writer}", address_of(writer, 0))
    for round_number in range(rounds):
        firsts = {writer: number + 1 for writer, number in acknowledged.items()}
        threads = [
            threading.Thread(
                target=exec_until_killed, args=(server.resp, writer, firsts[writer], acknowledged)
            )
            for writer in range(WRITERS)
        ]
        for thread in threads:
            thread.start()
        while acknowledged[0] < firsts[0] + 5 + 3 * round_number:
            threads[0].join(0.001)
            assert threads[0].is_alive()
        server.kill()
        for thread in threads:
            thread.join()
        server.start()
        with redis.Redis(port=server.resp, decode_responses=True) as client:
            for writer in range(WRITERS):
                # A writer may have been killed before its first transaction.
                number = int(client.get(f"pair:{writer}") or 0)
                # The last one may be there although its acknowledgement did not arrive.
                assert number - acknowledged[writer] in (0, 1), (round_number, writer)
                address = address_of(writer, number)
                matched = client.execute_command("CIDR.MATCH", f"pair:{writer}", address)
                assert matched == f"{address}/32", (round_number, writer)
                assert client.execute_command("CIDR.CARD", f"pair:{writer}") == 1
                places = {int(place) for place in client.zrange(f"places:{writer}", 0, -1)}
                assert places == set(range(1, number + 1))
                acknowledged[writer] = number
