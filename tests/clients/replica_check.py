"""Whether a follower has the sorted sets of its primary: members, bits of scores, order, expiry."""

import collections
import struct
import time

from redis_server import ReplyError, as_bytes

SortedSet = collections.namedtuple("SortedSet", "members expires_at_millis")


def bits(score):
    """The bits of a score as the server prints it, with -0 as 0.

    Redis keeps the sign of -0 in a large sorted set and loses it in a small one (a list pack has the
    integer 0), so that two stock servers with other limits of list packs differ in it.
    """
    return struct.pack(">d", float(score) + 0.0).hex()


def sorted_sets(client, pattern="fleet:*", database=0):
    """The sorted sets of a server, read by a `RawClient`: the members in their order with their scores."""
    assert client.call("SELECT", database) == b"OK"
    keys = client.call("KEYS", pattern)
    if isinstance(keys, ReplyError):
        raise keys
    types = client.pipeline([["TYPE", key] for key in keys])
    keys = [key for key, found in zip(keys, types) if found == b"zset"]
    replies = client.pipeline(
        [words for key in keys for words in (["ZRANGE", key, 0, -1, "WITHSCORES"], ["PEXPIRETIME", key])]
    )
    found = {}
    for key, flat, expires in zip(keys, replies[::2], replies[1::2]):
        if isinstance(flat, ReplyError) or isinstance(expires, ReplyError):
            # It became another type, or ended, between the commands.
            continue
        if expires != -2 and flat:
            members = [(member, bits(score)) for member, score in zip(flat[::2], flat[1::2])]
            found[key] = SortedSet(members, expires)
    return found


def differences(primary, follower):
    """Lines, each about one difference between two results of `sorted_sets`."""
    lines = []
    for key in sorted(primary.keys() | follower.keys()):
        if key not in follower:
            lines.append(f"{key}: the follower lacks the key")
        elif key not in primary:
            lines.append(f"{key}: only the follower has the key")
        else:
            lines += differences_of_one(key, primary[key], follower[key])
    return lines


def differences_of_one(key, ours, theirs):
    lines = []
    left, right = dict(ours.members), dict(theirs.members)
    lines += [f"{key}: the follower lacks {member}" for member in left if member not in right]
    lines += [f"{key}: only the follower has {member}" for member in right if member not in left]
    for member, score in left.items():
        if right.get(member, score) != score:
            lines.append(f"{key}: {member} has score {score} at the primary, {right[member]} at the follower")
    if not lines and len(theirs.members) != len(right):
        lines.append(f"{key}: the follower has a member twice")
    if not lines and ours.members != theirs.members:
        lines.append(f"{key}: the order differs")
    if ours.expires_at_millis != theirs.expires_at_millis:
        lines.append(f"{key}: expires at {ours.expires_at_millis}, at the follower {theirs.expires_at_millis}")
    return lines


def wait_for_marker(primary, follower, name, seconds=60, key="fleet:marker"):
    """Writes a member at the primary and waits until the follower has it, and so all before it."""
    assert primary.call("SELECT", 0) == b"OK" and follower.call("SELECT", 0) == b"OK"
    primary.call("DEL", key)
    assert primary.call("ZADD", key, 1, name) == 1
    deadline = time.monotonic() + seconds
    while (score := follower.call("ZSCORE", key, name)) != b"1":
        assert time.monotonic() < deadline, f"the follower lacks what was written {seconds} s ago: {score!r}"
        time.sleep(0.005)


def differences_when_settled(primary, follower, pattern="fleet:*", database=0, tries=12):
    """The differences that stay. Keys that expire between two reads are read once more."""
    lines = []
    for _ in range(tries):
        lines = differences(
            sorted_sets(primary, pattern, database), sorted_sets(follower, pattern, database)
        )
        if not lines:
            return []
        time.sleep(0.25)
    return lines


class History:
    """The last commands, to say which of them named a key that differs."""

    def __init__(self, length=300_000):
        self.steps = collections.deque(maxlen=length)

    def add(self, step):
        self.steps.append(step)

    def of(self, key, count=25):
        """The last steps with that key, and those that have an effect on all keys."""
        everywhere = {"FLUSHDB", "FLUSHALL", "SWAPDB"}
        found = []
        for step in reversed(self.steps):
            if any(words[0] in everywhere or any(as_bytes(word) == key for word in words[1:]) for words in step):
                found.append(repr(step)[:600])
                if len(found) == count:
                    break
        return found[::-1]


def report(lines, history, seed):
    """What a failed comparison says: the differences, and the last commands of the first key."""
    keys = [line.split(": ", 1)[0] for line in lines]
    key = eval(keys[0])  # noqa: S307: it is the repr of a key of ours
    text = [f"seed {seed}: {len(lines)} differences", *lines[:20], f"last steps with {keys[0]}:"]
    return "\n".join(text + history.of(key))
