"""`whered import redis --live`: a server that follows a primary takes its place under load."""

import subprocess
import threading

import pytest

from conftest import BINARY
from redis_server import RawClient, ReplyError, peer  # noqa: F401
from replica_check import differences, sorted_sets, wait_for_marker
from replica_following import BACKLOG, SERVER, follow


def run(source, target, *arguments):
    command = [BINARY, "import", "redis", source, "--server", f"redis://127.0.0.1:{target}", "--live", *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)


def one_line(done):
    assert done.returncode == 2 and done.stdout == "", (done.stdout, done.stderr)
    assert len(done.stderr.splitlines()) == 1 and "panicked" not in done.stderr, done.stderr
    return done.stderr


class Writer:
    """Writes one member after the other, at the primary until it does not answer any more."""

    def __init__(self, port):
        self.client = RawClient(port, timeout=120)
        self.acknowledged = 0
        self.is_stopped = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.is_stopped.is_set():
            number = self.acknowledged
            reply = self.client.call("ZADD", f"fleet:{number % 3}", number, f"member-{number}")
            assert reply == 1, reply
            self.acknowledged += 1

    def close(self):
        self.is_stopped.set()
        self.thread.join()
        self.client.close()


def test_a_follower_takes_its_primarys_place_and_lacks_nothing(serve, tmp_path, peer):
    primary = peer(*BACKLOG, binary=SERVER)
    server = follow(serve, tmp_path, primary.url)
    client, follower = primary.raw(), server.raw()
    wait_for_marker(client, follower, "begun")
    writer = Writer(primary.port)
    done = run(primary.url, server.resp, "--pause-seconds", 5)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "is a replica no more" in done.stdout and f"127.0.0.1:{primary.port}" in done.stdout
    # The writer hangs in its next write; what was acknowledged is at both.
    count = writer.acknowledged
    assert count > 0
    there = sorted_sets(follower)
    assert sum(len(found.members) for key, found in there.items() if key != b"fleet:marker") == count
    assert differences(sorted_sets(client), there) == []
    assert follower.call("ZADD", "fleet:0", 1, "own") == 1
    assert b"role:master" in follower.call("INFO", "replication")
    writer.close()
    # What comes at the old primary later does not come here.
    assert follower.call("ZSCORE", "fleet:0", f"member-{writer.acknowledged - 1}") is None or count == writer.acknowledged


def test_what_does_not_follow_is_not_promoted_and_the_source_goes_on(serve, tmp_path, peer):
    primary, other = peer(*BACKLOG, binary=SERVER), peer(*BACKLOG, binary=SERVER)
    server = serve()
    line = one_line(run(primary.url, server.resp))
    assert "follows nothing" in line and "[[replica]]" in line
    other.follow(primary)
    line = one_line(run(other.url, server.resp))
    assert "is a replica" in line and "its primary" in line
    assert primary.raw().call("ZADD", "fleet:k", 1, "m") == 1
    assert isinstance(RawClient(server.resp).call("NO-SUCH"), ReplyError)


def test_a_source_that_lets_nobody_pause_it_is_left_as_it_is(serve, tmp_path, peer):
    primary = peer(*BACKLOG, binary=SERVER)
    client = primary.raw()
    assert client.call("ACL", "SETUSER", "mover", "on", ">secret", "+ping", "+info", "+select") == b"OK"
    server = follow(serve, tmp_path, primary.url)
    wait_for_marker(client, server.raw(), "begun")
    line = one_line(run(f"redis://mover@127.0.0.1:{primary.port}", server.resp, "--source-password-file", password(tmp_path)))
    assert "client" in line and "NOPERM" in line.upper() or "permission" in line, line
    assert client.call("ZADD", "fleet:k", 1, "m") == 1
    assert isinstance(server.raw().call("ZADD", "fleet:k", 1, "n"), ReplyError)


def password(folder):
    path = folder / "source.password"
    path.write_text("secret\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("flag", [["--match", "x"], ["--db", 1], ["--all-zsets"], ["--replace"], ["--resume"]])
def test_flags_of_a_copy_do_not_go_with_it(flag):
    line = run("redis://127.0.0.1:1", 1, *flag)
    assert line.returncode == 2 and "cannot be used with" in line.stderr
