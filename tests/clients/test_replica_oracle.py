"""Stock replicas against their primary after random writes of every command that touches followed keys.

So the writes and the comparison are checked, by which a whered that follows is checked. Differences
that are planted must be found. WHERED_REPLICA_SERVER says which redis-server or valkey-server runs.
"""

import pytest

from redis_server import ReplyError, peer  # noqa: F401
from replica_check import SortedSet, differences, differences_when_settled, wait_for_marker
from replica_following import BACKLOG, SERVER
from replica_load import Load, seeds, write_and_compare
from replica_writes import Writes, unknowable_steps


@pytest.mark.parametrize("seed", seeds())
def test_two_stock_replicas_are_equal_to_their_primary(peer, seed):
    primary = peer(*BACKLOG, binary=SERVER)
    replicas = [peer(binary=SERVER), peer(binary=SERVER)]
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
    primary = peer(*BACKLOG, binary=SERVER)
    load = Load(primary, 7)
    writing = set()
    for reply in load.client.call("COMMAND"):
        if b"write" in [bytes(flag) for flag in reply[2]]:
            writing.add(reply[0].decode().upper())
    # Each kind of step as often as the others.
    load.writes.weights = [1] * len(load.writes.weights)
    for _ in range(60):
        load.batch()
    # Of clusters, of tests of Redis itself, and one that writes at another server.
    left_out = {"RESTORE-ASKING", "PFDEBUG", "MIGRATE"}
    assert writing - load.names == left_out & writing, writing - load.names
    assert {"SORT", "EVAL", "FCALL", "EXEC", "FUNCTION", "PUBLISH", "SELECT"} <= load.names


def test_steps_that_no_follower_of_some_keys_can_know_have_an_effect(peer):
    primary = peer(*BACKLOG, binary=SERVER)
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
