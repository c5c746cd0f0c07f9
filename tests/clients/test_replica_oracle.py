"""A follower against its primary after random writes of every command that touches followed keys.

WHERED_REPLICA_SECONDS says how long each seed writes (2), WHERED_REPLICA_SEEDS which seeds (`1`, or
`1-20`), WHERED_REPLICA_SERVER which redis-server or valkey-server is the primary. The comparison itself
is held against two stock replicas, and against differences that are planted.
"""

import os
import time

import pytest

from replica_check import History, SortedSet, differences, differences_when_settled, report, sorted_sets, wait_for_marker
from replica_writes import LIBRARY, Writes, unknowable_steps
from redis_server import RawClient, ReplyError, peer  # noqa: F401

SECONDS = float(os.environ.get("WHERED_REPLICA_SECONDS", 2))
BINARY = os.environ.get("WHERED_REPLICA_SERVER")
BACKLOG = ["--repl-backlog-size", "64mb", "--repl-diskless-sync-delay", 0]


def seeds():
    first, _, last = os.environ.get("WHERED_REPLICA_SEEDS", "1").partition("-")
    return range(int(first), int(last or first) + 1)


class Load:
    """Writes at a primary, the same for each seed but for what is drawn by the server itself."""

    def __init__(self, primary, seed, strange=0.0):
        self.client = primary.raw()
        self.writes = Writes(seed, strange)
        self.history = History()
        self.seed = seed
        self.commands = 0
        self.refused = 0
        self.names = set()
        self.queued = []
        self.client.call("FUNCTION", "LOAD", "REPLACE", LIBRARY)

    def batch(self, steps=200):
        made = [self.writes.step() for _ in range(steps)]
        commands = [words for step in made for words in step]
        for step in made:
            self.history.add(step)
        replies = self.client.pipeline(commands)
        self.commands += len(commands)
        for words, reply in zip(commands, replies):
            self.count(words, reply)
        self.take_payloads()

    def count(self, words, reply):
        """Which commands the primary carries out, those of a transaction by the replies of EXEC."""
        if reply == b"QUEUED":
            self.queued.append(words)
        elif isinstance(reply, ReplyError):
            self.refused += 1
        else:
            self.names.add(words[0])
        if words[0] in ("EXEC", "DISCARD"):
            queued, self.queued = self.queued, []
            if words[0] == "EXEC" and isinstance(reply, list):
                for inner, of_inner in zip(queued, reply):
                    self.count(inner, of_inner)

    def take_payloads(self):
        """What keys hold now is what RESTORE brings later."""
        keys = [self.writes.key() for _ in range(3)]
        found = [payload for payload in self.client.pipeline([["DUMP", key] for key in keys]) if payload]
        self.writes.payloads = (self.writes.payloads + found)[-60:]

    def write_for(self, seconds):
        deadline = time.monotonic() + seconds
        self.batch()
        while time.monotonic() < deadline:
            self.batch()


def assert_equal(load, follower, seconds=60):
    """All that was written is at the follower, and nothing else."""
    marker = f"marker {load.commands} {time.monotonic_ns()}"
    wait_for_marker(load.client, follower, marker, seconds)
    lines = differences_when_settled(load.client, follower)
    assert not lines, report(lines, load.history, load.seed)


def write_and_compare(load, followers, parts=4):
    for _ in range(parts):
        load.write_for(SECONDS / parts)
        for follower in followers:
            assert_equal(load, follower)
    assert len(sorted_sets(load.client)) > 3, "the writes left too little to compare"
    assert load.refused < load.commands * 0.6
    print(f"seed {load.seed}: {load.commands} commands, {load.refused} refused, {len(load.names)} names")


@pytest.mark.parametrize("seed", seeds())
def test_two_stock_replicas_are_equal_to_their_primary(peer, seed):
    primary = peer(*BACKLOG, binary=BINARY)
    replicas = [peer(binary=BINARY), peer(binary=BINARY)]
    for replica in replicas:
        replica.follow(primary)
    load = Load(primary, seed, strange=0.001)
    write_and_compare(load, [replica.raw() for replica in replicas])


def plant(name, client, key):
    """Makes one difference at a replica that takes writes."""
    first = client.call("ZRANGE", key, 0, 0, "WITHSCORES")
    member = first[0]
    return {
        "a key that is missing": ["DEL", key],
        "a key of another type": ["SET", key, "text"],
        "a key too many": ["ZADD", "fleet:planted", 1, "m"],
        "a member that is missing": ["ZREM", key, member],
        "a member too many": ["ZADD", key, 1, "planted"],
        "a score one bit off": ["ZADD", key, "0.30000000000000004", "third"],
        "no expiry": ["PERSIST", "fleet:expires"],
        "an expiry": ["PEXPIRE", key, 10**9],
        "an expiry one millisecond off": ["PEXPIREAT", "fleet:expires", 4102444800001],
    }[name]


PLANTED = {
    "a key that is missing": "lacks the key",
    "a key of another type": "lacks the key",
    "a key too many": "only the follower has the key",
    "a member that is missing": "the follower lacks b'zero'",
    "a member too many": "only the follower has b'planted'",
    "a score one bit off": "b'third' has score",
    "no expiry": "at the follower -1",
    "an expiry": "expires at -1",
    "an expiry one millisecond off": "at the follower 4102444800001",
}


def test_each_planted_difference_is_found(peer):
    primary, replica = peer(*BACKLOG), peer("--replica-read-only", "no")
    replica.follow(primary)
    client, follower = primary.raw(), replica.raw()
    client.call("ZADD", "fleet:k", 0, "zero", 0.3, "third", "inf", "last")
    client.call("ZADD", "fleet:expires", 1, "m")
    client.call("PEXPIREAT", "fleet:expires", 4102444800000)
    wait_for_marker(client, follower, "begun")
    assert differences_when_settled(client, follower) == []
    for name, words in PLANTED.items():
        follower.call(*plant(name, follower, "fleet:k"))
        lines = differences_when_settled(client, follower, tries=1)
        assert len(lines) == 1 and words in lines[0], (name, lines)
        # A full synchronisation puts it right.
        assert follower.call("REPLICAOF", "NO", "ONE") == b"OK"
        client.call("DEL", "fleet:marker")
        replica.follow(primary)
        wait_for_marker(client, follower, f"after {name}")
        assert differences_when_settled(client, follower) == [], name


def test_another_order_of_equal_members_is_a_difference():
    ours = {b"k": SortedSet([(b"a", "0"), (b"b", "0")], -1)}
    theirs = {b"k": SortedSet([(b"b", "0"), (b"a", "0")], -1)}
    twice = {b"k": SortedSet([(b"a", "0"), (b"a", "0"), (b"b", "0")], -1)}
    assert differences(ours, theirs) == ["b'k': the order differs"]
    assert differences(ours, twice) == ["b'k': the follower has a member twice"]


def test_every_command_of_the_generator_has_an_effect_somewhere(peer):
    """A command that a primary always refuses would prove nothing."""
    primary = peer(*BACKLOG, binary=BINARY)
    load = Load(primary, 7)
    known = {reply[0].decode().upper() for reply in load.client.call("COMMAND") if reply}
    attempted = set()
    for _ in range(60):
        load.batch()
        attempted |= {words[0] for step in list(load.history.steps)[-200:] for words in step}
    assert attempted & known <= load.names, (attempted & known) - load.names
    assert {"GEOADD", "ZADD", "RESTORE", "SORT", "EVAL", "FCALL", "EXEC", "BZPOPMIN", "ZMPOP"} <= load.names


def test_steps_that_no_follower_of_some_keys_can_know_have_an_effect(peer):
    primary = peer(*BACKLOG, binary=BINARY)
    client = primary.raw()
    count = len(unknowable_steps(Writes(1)))
    for number in range(count):
        writes = Writes(number)
        step = unknowable_steps(writes)[number]
        replies = client.pipeline(step)
        assert not any(isinstance(reply, ReplyError) for reply in replies), (step, replies)


def test_equal_seeds_write_the_same():
    def steps(seed):
        writes = Writes(seed)
        return [writes.step() for _ in range(500)]

    assert steps(3) == steps(3)
    assert steps(3) != steps(4)
