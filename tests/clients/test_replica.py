"""A whered that follows a primary, after random writes of every command that touches followed keys.

WHERED_REPLICA_SECONDS, WHERED_REPLICA_SEEDS: see `replica_load`. WHERED_REPLICA_SERVER says which
redis-server or valkey-server is the primary.
"""

import re
import subprocess

import pytest

from conftest import BINARY, eventually
from redis_server import RawClient, ReplyError, peer  # noqa: F401
from replica_check import sorted_sets, wait_for_marker
from replica_following import BACKLOG, SERVER, configure, follow, section
from replica_liar import FakePrimary, keeps_alive_for_ever
from replica_load import SECONDS, Load, assert_equal, seeds, write_and_compare
from replica_writes import Writes, unknowable_steps


def full_synchronizations(primary):
    return int(re.search(r"^sync_full:(\d+)", primary.raw().call("INFO", "stats").decode(), re.M)[1])


@pytest.mark.parametrize("seed", seeds())
def test_whered_and_a_stock_replica_are_equal_to_their_primary(serve, tmp_path, peer, seed):
    primary, stock = peer(*BACKLOG, binary=SERVER), peer(binary=SERVER)
    stock.follow(primary)
    server = follow(serve, tmp_path, primary.url)
    write_and_compare(Load(primary, seed), [stock.raw(), server.raw()])
    # Whatever was written, it was known from the stream, but for searches around members that an
    # arbitrary score puts at a pole.
    reasons = [line for line in server.log_text().splitlines() if "anew" in line]
    assert all("of which Redis finds or takes others" in line for line in reasons), "\n".join(reasons)
    assert reasons or full_synchronizations(primary) == 2


@pytest.mark.parametrize("number", range(len(unknowable_steps(Writes(1)))))
def test_what_the_stream_does_not_say_is_read_anew(serve, tmp_path, peer, number):
    primary = peer(*BACKLOG, binary=SERVER)
    server = follow(serve, tmp_path, primary.url)
    load = Load(primary, number)
    load.batch()
    assert_equal(load, server.raw())
    step = unknowable_steps(load.writes)[number]
    load.history.add(step)
    replies = load.client.pipeline(step)
    assert not any(isinstance(reply, ReplyError) for reply in replies), (step, replies)
    assert_equal(load, server.raw())
    load.batch()
    assert_equal(load, server.raw())


def test_a_load_that_began_before_the_follower_is_there_whole(serve, tmp_path, peer):
    """All of the first synchronisation: every encoding and type is in the dump."""
    primary = peer(*BACKLOG, binary=SERVER)
    load = Load(primary, 11)
    load.write_for(SECONDS / 2)
    load.client.pipeline([["ZADD", "fleet:large", number, f"m{number}"] for number in range(20_000)])
    server = follow(serve, tmp_path, primary.url)
    assert_equal(load, server.raw())
    load.write_for(SECONDS / 2)
    assert_equal(load, server.raw())


def test_patterns_and_the_database_choose_what_is_followed(serve, tmp_path, peer):
    primary = peer(*BACKLOG, binary=SERVER)
    server = follow(serve, tmp_path, primary.url, match=["fleet:[ab]", "depot:?"], more="database = 3")
    client, follower = primary.raw(), server.raw()
    followed = ["fleet:a", "fleet:b", "depot:1"]
    for database in (0, 3):
        client.call("SELECT", database)
        for key in [*followed, "fleet:c", "depot:10", "fleet:"]:
            client.call("ZADD", key, database, "m")
    follower.call("SELECT", 3)

    def has_all():
        found = follower.call("KEYS", "*")
        assert isinstance(found, list) and sorted(found) == sorted(map(str.encode, followed)), found

    eventually(has_all, 30)
    assert [follower.call("ZSCORE", key, "m") for key in followed] == [b"3"] * 3
    follower.call("SELECT", 0)
    assert follower.call("KEYS", "*") == []


K = "fleet:k"
WRITES = [
    ["GEOADD", K, 1, 1, "m"], ["ZADD", K, 1, "m"], ["ZADD", K, "INCR", 1, "m"], ["ZINCRBY", K, 1, "m"], ["ZREM", K, "m"],
    ["ZPOPMIN", K], ["ZPOPMAX", K, 2], ["ZMPOP", 1, K, "MIN"], ["BZPOPMIN", K, "0.01"], ["BZPOPMAX", "own", K, "0.01"],
    ["BZMPOP", "0.01", 1, K, "MIN"], ["ZREMRANGEBYRANK", K, 0, -1], ["ZREMRANGEBYSCORE", K, "-inf", "+inf"],
    ["ZREMRANGEBYLEX", K, "-", "+"], ["GEOSEARCHSTORE", K, "own", "FROMLONLAT", 1, 1, "BYRADIUS", 9, "km"],
    ["GEORADIUS", "own", 1, 1, 9, "km", "STORE", K], ["GEORADIUSBYMEMBER", "own", "m", 9, "km", "STOREDIST", K],
    ["ZUNIONSTORE", K, 1, "own"], ["ZINTERSTORE", K, 1, "own"], ["ZDIFFSTORE", K, 1, "own"], ["ZRANGESTORE", K, "own", 0, -1],
    ["DEL", K], ["UNLINK", "own", K], ["EXPIRE", K, 100], ["PEXPIRE", K, 100], ["EXPIREAT", K, 1], ["PEXPIREAT", K, 1],
    ["PERSIST", K], ["RENAME", K, "own-2"], ["RENAME", "own", K], ["RENAMENX", K, "own-2"], ["RENAMENX", "own", "fleet:new"],
    ["COPY", "own", K, "REPLACE"], ["MOVE", K, 1], ["SET", K, "v"], ["SETEX", K, 9, "v"], ["PSETEX", K, 9, "v"],
    ["SETNX", "fleet:new", "v"], ["MSET", "own-3", 1, K, 2], ["MSETNX", "own-3", 1, "fleet:new", 2], ["GETSET", K, "v"],
    ["GETDEL", K], ["GETEX", K, "PX", 9], ["APPEND", K, "v"], ["INCR", "fleet:new"], ["INCRBY", "fleet:new", 2],
    ["DECR", "fleet:new"], ["DECRBY", "fleet:new", 2], ["INCRBYFLOAT", "fleet:new", 2], ["FLUSHDB"], ["FLUSHALL"], ["SWAPDB", 0, 1],
]


@pytest.fixture
def followed(serve, tmp_path, peer):
    """A primary with a key, a follower that has it, and a client of each."""
    primary = peer(*BACKLOG, binary=SERVER)
    client = primary.raw()
    client.call("GEOADD", K, 8.5, 50.5, "m", 9.5, 51.5, "n")
    client.call("SET", "fleet:text", "text")
    server = follow(serve, tmp_path, primary.url)
    follower = server.raw()
    wait_for_marker(client, follower, "begun")
    follower.call("GEOADD", "own", 8.6, 50.6, "m", 8.7, 50.7, "o")
    return client, follower, server


def test_clients_cannot_write_to_followed_names(followed):
    client, follower, _ = followed
    before = sorted_sets(client)
    payload = follower.call("DUMP", "own")
    for words in [*WRITES, ["RESTORE", K, 0, payload, "REPLACE"], ["RESTORE", "fleet:new", 0, payload]]:
        reply = follower.call(*words)
        assert isinstance(reply, ReplyError) and str(reply).startswith("READONLY"), (words, reply)
        assert sorted_sets(follower) == before, words
        assert follower.call("ZCARD", "own") == 2, words
    assert follower.call("EXISTS", "own-2", "own-3", "fleet:new") == 0
    # As part of a transaction they are refused when they are queued.
    replies = follower.pipeline([["MULTI"], ["ZADD", "own", 5, "p"], ["ZADD", K, 5, "p"], ["EXEC"]])
    assert str(replies[2]).startswith("READONLY") and str(replies[3]).startswith("EXECABORT"), replies
    assert follower.call("ZSCORE", "own", "p") is None


def test_clients_read_followed_names_as_their_own(followed):
    client, follower, _ = followed
    cells = [client.call("ZSCORE", K, member) for member in ("m", "n")]
    for words, expected in [
        (["ZCARD", K], 2),
        (["ZMSCORE", K, "m", "n", "x"], [*cells, None]),
        (["TYPE", K], b"zset"),
        (["EXISTS", K, "own", "fleet:text"], 2),
        (["PTTL", K], -1),
        (["TYPE", "fleet:text"], b"none"),
        (["KEYS", "fleet:k*"], [K.encode()]),
        (["GEOSEARCH", K, "FROMLONLAT", 8.5, 50.5, "BYRADIUS", 10, "km"], [b"m"]),
        (["GEOSEARCHSTORE", "own-2", K, "FROMLONLAT", 8.5, 50.5, "BYRADIUS", 10, "km"], 1),
        (["ZUNIONSTORE", "own-3", 2, K, "own"], 3),
        (["COPY", K, "own-4"], 1),
        (["ZRANGESTORE", "own-5", K, 0, 0], 1),
        (["ZSCORE", "own-4", "n"], cells[1]),
        (["ZADD", "own-4", 1, "n"], 0),
        (["ZSCORE", K, "n"], cells[1]),
    ]:
        assert follower.call(*words) == expected, (words, follower.call(*words))
    names, cursor = [], b"0"
    while True:
        cursor, page = follower.call("SCAN", cursor, "COUNT", 3)
        names += page
        if cursor == b"0":
            break
    # The marker is followed, too.
    own = [b"own", b"own-2", b"own-3", b"own-4", b"own-5"]
    assert sorted(names) == [K.encode(), b"fleet:marker", *own]
    assert follower.call("DBSIZE") == 7
    for words in [["GET", K], ["GET", "fleet:text"], ["STRLEN", "fleet:text"], ["MGET", "fleet:text", "own"]]:
        assert isinstance(follower.call(*words), ReplyError), words


def test_a_watched_followed_key_that_changes_ends_a_transaction(followed):
    client, follower, _ = followed
    assert follower.call("WATCH", K) == b"OK"
    wait_for_marker(client, follower, "other key")
    assert follower.pipeline([["MULTI"], ["ZCARD", K], ["EXEC"]])[2] == [2]
    assert follower.call("WATCH", K) == b"OK"
    client.call("ZADD", K, 1, "changed")
    with follower.another() as reader:
        wait_for_marker(client, reader, "same key")
    assert follower.pipeline([["MULTI"], ["ZCARD", K], ["EXEC"]])[2] is None


def test_before_the_first_synchronisation_reads_say_that_it_loads(serve, tmp_path):
    silent = FakePrimary(keeps_alive_for_ever)
    try:
        server = follow(serve, tmp_path, silent.url)
        follower = server.raw()
        for words in [["ZCARD", K], ["GEOSEARCH", K, "FROMLONLAT", 1, 1, "BYRADIUS", 9, "km"], ["EXISTS", K], ["TYPE", K]]:
            assert str(follower.call(*words)).startswith("LOADING"), words
        assert follower.call("ZADD", "own", 1, "m") == 1
        assert follower.call("ZCARD", "own") == 1
        assert str(follower.call("ZADD", K, 1, "m")).startswith("READONLY")
    finally:
        silent.close()


def test_a_start_with_own_keys_of_followed_names_is_refused(serve, tmp_path):
    server = serve("--config", configure(tmp_path))
    RawClient(server.resp).call("ZADD", K, 1, "own")
    assert server.stop()[0] == 0
    command = [BINARY, "serve", "--resp", "127.0.0.1:0", "--config", configure(tmp_path, section("redis://127.0.0.1:1"))]
    done = subprocess.run(list(map(str, command)), cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and K in done.stderr.splitlines()[-1], done.stderr
