"""`[[replica]]` when something is in the way: cut connections, kill -9, a full disk, lies, logins.

WHERED_REPLICA_CUTS says how many connections are cut (10), WHERED_REPLICA_SERVER which redis-server or
valkey-server is the primary.
"""

import os
import pathlib
import random
import re
import subprocess
import threading
import time

import pytest

import replica_liar as liar
from conftest import REQUIRED, eventually
from redis_server import CuttingProxy, ReplyError, free_port, peer  # noqa: F401
from replica_check import differences_when_settled, wait_for_marker
from replica_following import BACKLOG, SERVER, configure, follow, section
from test_command_line import certificate

CUTS = int(os.environ.get("WHERED_REPLICA_CUTS", 10))


class Mover:
    """Moves points at a primary until it is stopped."""

    def __init__(self, primary, seed=1, pause=0.001):
        self.client = primary.raw()
        self.rng = random.Random(seed)
        self.pause = pause
        self.moves = 0
        self.is_stopped = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_stopped.set()
        self.thread.join()
        self.client.close()

    def run(self):
        while not self.is_stopped.wait(self.pause):
            self.client.pipeline([self.command() for _ in range(50)])
            self.moves += 50

    def command(self):
        rng = self.rng
        key, member = f"fleet:{rng.randrange(4)}", f"vehicle-{rng.randrange(500)}"
        if rng.random() < 0.05:
            return ["ZREM", key, member]
        if rng.random() < 0.05:
            return ["MULTI"]
        if rng.random() < 0.1:
            return ["EXEC"]
        return ["GEOADD", key, f"{rng.uniform(-180, 180):.5f}", f"{rng.uniform(-85, 85):.5f}", member]


def stats(primary):
    """How many full and partial synchronisations the primary gave."""
    text = primary.raw().call("INFO", "stats").decode()
    return {name: int(re.search(rf"^{name}:(\d+)", text, re.M)[1]) for name in ("sync_full", "sync_partial_ok")}


def assert_same(primary, server, seconds=60):
    with primary.raw() as client, server.raw() as follower:
        wait_for_marker(client, follower, f"marker {time.monotonic_ns()}", seconds)
        assert differences_when_settled(client, follower) == []


def test_cut_connections_within_the_backlog_need_no_full_synchronisation(serve, tmp_path, peer):
    primary = peer(*BACKLOG, binary=SERVER)
    proxy = CuttingProxy(primary.port)
    server = follow(serve, tmp_path, proxy.url)
    rng = random.Random(3)
    with Mover(primary):
        assert_same_marker(primary, server)
        for number in range(CUTS):
            # Somewhere in the stream, never at a boundary that somebody chose.
            time.sleep(rng.uniform(0, 0.05))
            accepted = proxy.accepted
            assert proxy.cut() >= 1, f"no connection to cut after {number} cuts"
            eventually(lambda before=accepted: more_than(proxy, before), 60)
    assert_same(primary, server)
    found = stats(primary)
    assert found["sync_full"] == 1, found
    assert found["sync_partial_ok"] >= CUTS, found
    proxy.close()


def more_than(proxy, before):
    assert proxy.accepted > before, "the follower does not connect again"


def assert_same_marker(primary, server, seconds=60):
    with primary.raw() as client, server.raw() as follower:
        wait_for_marker(client, follower, f"marker {time.monotonic_ns()}", seconds)


def test_a_killed_follower_goes_on_where_its_journal_ends(serve, tmp_path, peer):
    primary = peer(*BACKLOG, binary=SERVER)
    server = follow(serve, tmp_path, primary.url)
    with Mover(primary):
        assert_same_marker(primary, server)
        for _ in range(5):
            time.sleep(0.2)
            eventually(lambda: assert_more(server, "fleet:0", 0))
            # Its reply comes when the journal is on disk up to there.
            server.raw().call("ZINCRBY", "own", 1, "m")
            server.kill()
            server.start()
            # What was followed before serves at once.
            assert_more(server, "fleet:0", 0)
            assert_same_marker(primary, server)
    assert_same(primary, server)
    found = stats(primary)
    assert found["sync_full"] == 1 and found["sync_partial_ok"] == 5, found


def assert_more(server, key, count):
    found = server.raw().call("ZCARD", key)
    assert int(found) > count, found


def test_a_stopped_follower_goes_on_after_a_snapshot(serve, tmp_path, peer):
    primary = peer(*BACKLOG, binary=SERVER)
    server = follow(serve, tmp_path, primary.url)
    with Mover(primary):
        assert_same_marker(primary, server)
        assert server.raw().call("SAVE") == b"OK"
        time.sleep(0.1)
        assert server.stop()[0] == 0
        server.start()
        assert_same_marker(primary, server)
    assert_same(primary, server)
    assert stats(primary)["sync_full"] == 1


def test_a_primary_that_starts_anew_is_followed_anew_and_the_old_data_serve_until_then(serve, tmp_path, peer):
    primary = peer(*BACKLOG, binary=SERVER)
    client = primary.raw()
    client.call("GEOADD", "fleet:old", 8, 50, "a")
    server = follow(serve, tmp_path, primary.url)
    assert_same(primary, server)
    primary.close()
    reader = server.raw()
    assert reader.call("ZCARD", "fleet:old") == 1
    assert isinstance(reader.call("ZADD", "fleet:old", 1, "b"), ReplyError)
    # An empty process with another history on the same port.
    assert primary.start()
    primary.raw().call("GEOADD", "fleet:new", 9, 51, "b")
    assert_same(primary, server)
    assert reader.call("ZCARD", "fleet:old") == 0
    assert reader.call("ZCARD", "fleet:new") == 1


def test_a_user_with_three_commands_is_enough(serve, tmp_path, peer):
    primary = peer(*BACKLOG, binary=SERVER)
    client = primary.raw()
    rules = ["reset", "on", ">p@ss word", "+psync", "+replconf", "+ping"]
    assert client.call("ACL", "SETUSER", "follower", *rules) == b"OK"
    client.call("GEOADD", "fleet:k", 8, 50, "a")
    server = follow(serve, tmp_path, f"redis://follower:p%40ss%20word@127.0.0.1:{primary.port}")
    assert_same(primary, server)
    assert "p@ss" not in server.log_text() and "p%40ss" not in server.log_text()


def test_a_wrong_password_is_told_once_with_the_primary_and_without_the_password(serve, tmp_path, peer):
    primary = peer(*BACKLOG, "--requirepass", "right", binary=SERVER)
    client = primary.raw()
    assert client.call("AUTH", "right") == b"OK"
    client.call("GEOADD", "fleet:k", 8, 50, "a")
    server = follow(serve, tmp_path, f"redis://:wrong-one@127.0.0.1:{primary.port}")

    def told():
        assert re.search(rf"127\.0\.0\.1:{primary.port}.*(password|WRONGPASS)", server.log_text()), server.log_text()

    eventually(told)
    assert "wrong-one" not in server.log_text()
    assert isinstance(server.raw().call("ZCARD", "fleet:k"), ReplyError)
    # The primary comes to accept it: nothing has to be done here.
    assert client.call("CONFIG", "SET", "requirepass", "wrong-one") == b"OK"
    eventually(lambda: assert_card(server, "fleet:k", 1), 60)


def assert_card(server, key, count):
    found = server.raw().call("ZCARD", key)
    assert found == count, found


def test_a_unix_socket(serve, tmp_path, peer):
    primary = peer(*BACKLOG, "--unixsocket", tmp_path / "primary.sock", binary=SERVER)
    primary.raw().call("GEOADD", "fleet:k", 8, 50, "a")
    server = follow(serve, tmp_path, f"unix://{tmp_path}/primary.sock")
    assert_same(primary, server)


def test_tls_is_followed_only_with_the_right_authority(serve, tmp_path, peer):
    authority, _ = certificate(tmp_path, "ca")
    other, _ = certificate(tmp_path, "other")
    pem, key = certificate(tmp_path, "server", authority="ca")
    files = ["--tls-cert-file", pem, "--tls-key-file", key, "--tls-ca-cert-file", authority]
    # The plain port is for the test's own client.
    port = free_port()
    primary = peer(*BACKLOG, "--tls-port", port, *files, "--tls-auth-clients", "no", binary=SERVER)
    primary.raw().call("GEOADD", "fleet:k", 8, 50, "a")
    url = f"rediss://127.0.0.1:{port}"
    server = follow(serve, tmp_path, url, more=f'ca = "{other}"')
    eventually(lambda: assert_log(server, "ertificate"))
    assert isinstance(server.raw().call("ZCARD", "fleet:k"), ReplyError)
    assert server.stop()[0] == 0
    configure(tmp_path, section(url, more=f'ca = "{authority}"'))
    server.start()
    assert_same(primary, server)


def assert_log(server, words):
    assert words in server.log_text(), server.log_text()


def test_a_full_disk_stops_the_following_and_room_lets_it_go_on(serve, tmp_path, peer):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(small)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        reason = f"a tmpfs cannot be mounted here: {done.stderr.strip()}"
        pytest.fail(reason) if "root" in REQUIRED else pytest.skip(reason)
    try:
        primary = peer(*BACKLOG, binary=SERVER)
        client = primary.raw()
        client.call("GEOADD", "fleet:k", 8, 50, "first")
        server = follow(serve, tmp_path, primary.url, data=small / "data", rest="[journal]\nsegment_size_bytes = 1048576\n")
        assert_same(primary, server)
        free = os.statvfs(small)
        ballast = small / "ballast"
        ballast.write_bytes(b"\1" * (free.f_bavail * free.f_frsize))
        for start in range(0, 60_000, 500):
            members = [part for n in range(start, start + 500) for part in (n, f"member-{n}-{'x' * 40}")]
            client.call("ZADD", "fleet:full", *members)
        eventually(lambda: assert_log(server, "oom") if "oom" in server.log_text() else assert_log(server, "No space"), 30)
        reader = server.raw()
        # It serves what it had, and a restart gives what memory has.
        assert reader.call("ZCARD", "fleet:k") == 1
        assert server.process.poll() is None
        ballast.unlink()
        assert_same(primary, server)
        assert server.stop()[0] == 0
        server.start()
        assert_same(primary, server)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


END = "ends|closes|reset"


def lies(key):
    """What a primary does after it was honest once, and words that the log has of it then."""
    # It could be loaded, were it not for the lie.
    keys = {key: {"lied": 7.0}}
    dump = liar.dump(keys)
    begun = b"+FULLRESYNC %s 1\r\n" % liar.ID
    claim = dump[:-9] + b"\x05\x01k"
    return {
        "a length that is too short": (liar.sends_dump(dump, len(dump) - 10), END + "|dump"),
        "a length that is too long": (liar.sends_dump(dump, len(dump) + 10), END + "|longer"),
        "a wrong checksum": (liar.sends_dump(liar.dump(keys, sum_=1)), "checksum"),
        "an early end": (liar.sends_dump(dump[:60], len(dump)), END),
        "a wrong magic": (liar.sends_dump(b"RODIS0010" + dump[9:]), "RODIS0010"),
        "a version of the future": (liar.sends_dump(b"REDIS0099" + dump[9:]), "REDIS0099"),
        "a type of the future": (liar.sends_dump(liar.dump(keys, more=b"\x63\x01k\x01v")), "type 99"),
        "a score that is no number": (liar.sends_dump(liar.dump({key: {"m": float("nan")}})), "not a number"),
        "a mark that never comes": (liar.answers(begun + b"$EOF:" + b"m" * 40 + b"\r\n" + dump), END + "|mark"),
        "a member that is only claimed": (liar.sends_dump(claim + b"\x01\x80\x1f\xff\xff\xff" + b"x" * 99, 1 << 30), END),
        "members that are only claimed": (liar.sends_dump(claim + b"\x81" + b"\0\0\0\xff" * 2 + b"\x01x" * 9, 1 << 30), END),
        "a length that is no number": (liar.answers(begun + b"$x\r\n", dump), r"\$x"),
        "an id that is none": (liar.answers(b"+FULLRESYNC 123 1\r\n"), "FULLRESYNC"),
        "a negative offset": (liar.answers(b"+FULLRESYNC %s -5\r\n" % liar.ID), "FULLRESYNC"),
        "a continuation with an id that is none": (liar.answers(b"+CONTINUE 123\r\n"), "CONTINUE"),
        "an error": (liar.answers(b"-NOMASTERLINK Can't SYNC while not connected\r\n"), "NOMASTERLINK"),
        "something that is no Redis": (liar.answers(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "Redis"),
        "a line without an end": (liar.answers(b"+" + b"x" * 3_000_000), "line|long"),
        "an end": (liar.answers(), END),
        "a preparation without an end": (liar.keeps_alive_for_ever, ""),
    }


def streamed(key):
    """Commands behind an honest dump that are wrong, and words of the log."""
    return {
        "no command": (b"hello\r\n", "hello"),
        "an argument too long": (b"*1\r\n$99999999999\r\n", "99999999999"),
        "too many arguments": (b"*99999999999\r\n", "99999999999"),
        "an argument of another length": (b"*2\r\n$3\r\ndel\r\n$3\r\nlongword\r\n", "length"),
        "a score that is no number": (["ZADD", key, "nan", "m"], "(?i)zadd"),
        "a command that nobody knows": (["FROBNICATE", key], "(?i)frobnicate"),
    }


class LyingPrimaries:
    """One server that follows a primary for each lie; each is honest at first."""

    def __init__(self, serve, tmp_path, names):
        self.keys = {name: f"lie-{number}:a" for number, name in enumerate(names)}
        self.primaries = {
            name: liar.FakePrimary(liar.whole({key: {"honest": 1.0, "m": 2.5}})) for name, key in self.keys.items()
        }
        sections = [
            section(self.primaries[name].url, match=[key.replace("a", "*")]) for name, key in self.keys.items()
        ]
        self.server = follow(serve, tmp_path, *sections)
        self.reader = self.server.raw()

    def assert_all_have(self, member, score):
        replies = self.reader.pipeline([["ZSCORE", key, member] for key in self.keys.values()])
        wrong = {name: reply for name, reply in zip(self.keys, replies) if reply != score}
        assert not wrong, wrong

    def lines_of(self, name):
        return [line for line in self.server.log_text().splitlines() if f"127.0.0.1:{self.primaries[name].port}" in line]

    def assert_log(self, words):
        """What is found in the warnings about each primary."""
        lines = {name: [line for line in self.lines_of(name) if "WARN" in line] for name in words}
        wrong = {
            name: lines[name] for name, found in words.items() if found and not re.search(found, " ".join(lines[name]))
        }
        assert not wrong, wrong

    def assert_attempts(self, name, count):
        assert len(self.primaries[name].synchronizations) >= count, name

    def close(self):
        for primary in self.primaries.values():
            primary.close()


def resident_bytes(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.M)[1]) << 10


def test_lies_leave_the_last_good_data_and_one_line_each(serve, tmp_path):
    of_key = lies("lie-0:a")
    told = LyingPrimaries(serve, tmp_path, of_key)
    try:
        eventually(lambda: told.assert_all_have("honest", b"1"), 30)
        before = resident_bytes(told.server)
        for name, primary in told.primaries.items():
            primary.become(lies(told.keys[name])[name][0])
        for name in told.primaries:
            patience = 1 if name == "a preparation without an end" else 2
            eventually(lambda name=name, more=patience: told.assert_attempts(name, 1 + more), 60)
            told.assert_all_have("honest", b"1")
            told.assert_all_have("lied", None)
        told.assert_log({name: words for name, (_, words) in of_key.items()})
        assert "panicked" not in told.server.log_text()
        assert resident_bytes(told.server) < before + (200 << 20)
        # They come to their senses.
        for name, primary in told.primaries.items():
            primary.become(liar.whole({told.keys[name]: {"honest again": 3.0}}))
        eventually(lambda: told.assert_all_have("honest again", b"3"), 120)
        told.assert_all_have("honest", None)
        assert told.server.stop()[0] == 0
    finally:
        told.close()


def test_wrong_commands_behind_a_good_dump_leave_its_data(serve, tmp_path):
    of_key = streamed("lie-0:a")
    told = LyingPrimaries(serve, tmp_path, of_key)
    try:
        eventually(lambda: told.assert_all_have("honest", b"1"), 30)
        for name, primary in told.primaries.items():
            key = told.keys[name]
            after = [["ZADD", key, "4", "streamed"], streamed(key)[name][0], ["ZADD", key, "5", "behind the lie"]]
            primary.become(liar.whole({key: {"honest": 1.0, "second": 2.0}}, after))
        for name in told.primaries:
            eventually(lambda name=name: told.assert_attempts(name, 3), 60)
        told.assert_all_have("honest", b"1")
        told.assert_all_have("second", b"2")
        told.assert_all_have("behind the lie", None)
        told.assert_log({name: words for name, (_, words) in of_key.items()})
        for name, primary in told.primaries.items():
            primary.become(liar.whole({told.keys[name]: {"honest again": 3.0}}))
        eventually(lambda: told.assert_all_have("honest again", b"3"), 120)
        assert told.server.stop()[0] == 0
    finally:
        told.close()


def test_a_primary_that_is_another_one_each_time_is_loaded_each_time(serve, tmp_path):
    def behave(connection, *_):
        number = len(primary.synchronizations)
        liar.whole({"fleet:a": {f"member {number}": float(number)}}, id_=b"%040x" % number)(connection)

    primary = liar.FakePrimary(behave)
    server = follow(serve, tmp_path, primary.url)
    try:
        reader = server.raw()
        for number in range(1, 5):
            expected = [b"member %d" % number, b"%d" % number]

            def holds(expected=expected):
                found = reader.call("ZRANGE", "fleet:a", 0, -1, "WITHSCORES")
                assert found == expected, found

            eventually(holds, 60)
            asked = primary.synchronizations[-1][1]
            assert asked == (b"?" if number == 1 else b"%040x" % (number - 1)), asked
            primary.end()
    finally:
        primary.close()


def test_pauses_between_attempts_grow(serve, tmp_path):
    primary = liar.FakePrimary(liar.answers())
    server = follow(serve, tmp_path, primary.url)
    try:
        time.sleep(4)
        # Without pauses there would be thousands.
        assert 2 <= len(primary.synchronizations) <= 40, len(primary.synchronizations)
        assert len(re.findall(str(primary.port), server.log_text())) <= 20
    finally:
        primary.close()
