"""A load of random writes at a primary, and followers that must be equal to it.

WHERED_REPLICA_SECONDS says how long each seed writes (2), WHERED_REPLICA_SEEDS which seeds: `1`, or
`1-20`.
"""

import os
import time

from redis_server import ReplyError
from replica_check import History, differences_when_settled, report, sorted_sets, wait_for_marker
from replica_writes import LIBRARY, Writes

SECONDS = float(os.environ.get("WHERED_REPLICA_SECONDS", 2))


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


def write_and_compare(load, followers, parts=10):
    members = 0
    for _ in range(parts):
        load.write_for(SECONDS / parts)
        for follower in followers:
            assert_equal(load, follower)
        members += sum(len(found.members) for found in sorted_sets(load.client).values())
    print(f"seed {load.seed}: {load.commands} commands, {load.refused} refused, {members} members compared")
    assert members > 200 * parts, "the writes left too little to compare"
    assert load.refused < load.commands * 0.6
