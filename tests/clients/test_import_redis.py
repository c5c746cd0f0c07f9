"""`whered import redis`: copies of Debian's redis-server, with everything that can be in the way."""

import contextlib
import pathlib
import random
import re
import signal
import socket
import subprocess
import threading

import pytest
import redis

from conftest import BINARY, program
from redis_server import peer  # noqa: F401


@pytest.fixture
def whered(serve):
    """An empty server, and its URL as an attribute."""
    server = serve()
    server.redis_url = f"redis://127.0.0.1:{server.resp}"
    return server


def run(folder, *arguments, **options):
    command = [BINARY, "import", "redis", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, **options)


def fill(client, key, count, seed=1):
    """Random points all over the globe, the corners and edges among them."""
    rng = random.Random(seed)
    points = [(180, 85.05112878, "ne"), (-180, -85.05112878, "sw"), (180, 0, "date line"), (0, 0, b"bytes\xff\r\n")]
    points += [(rng.uniform(-180, 180), rng.uniform(-85.05, 85.05), f"m{n}") for n in range(count - len(points))]
    with client.pipeline(transaction=False) as pipeline:
        for start in range(0, count, 500):
            pipeline.geoadd(key, [part for point in points[start : start + 500] for part in point])
        pipeline.execute()


def scores(client, key):
    return dict(client.zrange(key, 0, -1, withscores=True))



def has(client, command):
    # redis-py's own reading of the reply knows no command that is missing.
    client.set_response_callback("COMMAND", lambda reply, **_: reply)
    return client.execute_command("COMMAND", "INFO", command)[0] is not None


def one_line(done, code=2):
    assert done.returncode == code, (done.stdout, done.stderr)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("whered: ") and "panicked" not in done.stderr
    return done.stderr


def test_every_geo_key_comes_over_cell_by_cell(peer, whered, tmp_path):
    source = peer()
    client = source.client()
    fill(client, "big", 20000)
    fill(client, "small", 20, seed=2)
    fill(client, "key with\nodd \xff name", 500, seed=3)
    client.set("text", "no sorted set")
    client.zadd("temperatures", {"oslo": -3.5, "rome": 21.25})
    client.zadd("late", {f"m{n}": n for n in range(5000)} | {"half": 4999.5})
    done = run(tmp_path, source.url, "--server", whered.redis_url)
    assert done.returncode == 0, (done.stdout, done.stderr)
    target = redis.Redis(port=whered.resp)
    keys = [b"big", b"small", "key with\nodd \xff name".encode()]
    assert set(target.keys()) == set(keys)
    for key in keys:
        assert scores(target, key) == scores(client, key)
    assert re.search(r"big +20000 +20000  equal", done.stdout)
    assert re.search(r"temperatures +2 +0  skipped: no GEO key \(score -?[0-9.]+ of \w+\)", done.stdout)
    assert re.search(r"late +5001 +0  skipped: no GEO key \(score 4999.5 of half\)", done.stdout)
    assert re.search(r"3 keys copied +20520 +20520  equal", done.stdout)
    assert done.stderr == ""
    assert not (tmp_path / "whered-import.state").exists()


def test_into_redis_come_all_sorted_sets_and_expiries(peer, tmp_path):
    source, target = peer(), peer()
    client, other = source.client(), target.client()
    fill(client, "geo", 3000)
    client.zadd("mixed", {"a": 1.1, "b": float("inf"), "c": -0.1, "d": 3479099956230698, "e": 1e300})
    fill(client, "going", 100)
    client.pexpire("going", 600_000)
    fill(client, "gone", 100)
    client.pexpire("gone", 1)
    done = run(tmp_path, source.url, "--server", target.url, "--all-zsets")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert set(other.keys()) == {b"geo", b"mixed", b"going"}
    for key in ["geo", "mixed", "going"]:
        assert scores(other, key) == scores(client, key)
    assert 0 < client.pttl("going") - other.pttl("going") + 60_000 < 120_000
    assert other.ttl("geo") == -1


def test_keys_of_other_types_are_counted_and_the_exit_code_is_about_geo_keys(peer, whered, tmp_path):
    source = peer()
    client = source.client()
    fill(client, "places", 50)
    done = run(tmp_path, source.url, "--server", whered.redis_url)
    assert done.returncode == 0 and "other type" not in done.stdout
    client.mset({f"text:{n}": "x" for n in range(3000)})
    client.rpush("list", 1)
    client.hset("hash", "a", "b")
    client.zadd("temperatures", {"oslo": -3.5})
    done = run(tmp_path, source.url, "--server", whered.redis_url, "--replace")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert done.stdout.endswith("3002 keys of other types left: hash 1, list 1, string 3000\n")
    assert "skipped: no GEO key" in done.stdout
    done = run(tmp_path, source.url, "--server", whered.redis_url, "--replace", "--match", "[lp]*")
    assert done.stdout.endswith("1 key of another type left: list 1\n")
    # One GEO key that is not there whole is exit code 1, whatever the reason.
    done = run(tmp_path, source.url, "--server", whered.redis_url)
    assert done.returncode == 1 and "the target has such a key" in done.stdout


def test_an_expiry_is_kept_or_told(peer, whered, tmp_path):
    source = peer()
    fill(source.client(), "going", 100)
    source.client().pexpire("going", 600_000)
    done = run(tmp_path, source.url, "--server", whered.redis_url)
    target = redis.Redis(port=whered.resp)
    assert target.zcard("going") == 100
    if has(target, "pexpire"):
        assert done.returncode == 0
        assert 500_000 < target.pttl("going") <= 600_000
    else:
        assert done.returncode == 1
        assert "its expiry is not kept" in done.stdout


def test_patterns_and_numbered_databases(peer, whered, tmp_path):
    source = peer()
    for number in [0, 3, 7]:
        fill(source.client(db=number), f"trucks:{number}", 50 + number)
        fill(source.client(db=number), f"ships:{number}", 10)
    done = run(tmp_path, source.url, "--server", whered.redis_url, "--match", "trucks:*", "--db", 3, "--db", 7)
    assert done.returncode == 0, done.stderr
    keys = {number: redis.Redis(port=whered.resp, db=number).keys() for number in range(16)}
    assert {number: found for number, found in keys.items() if found} == {3: [b"trucks:3"], 7: [b"trucks:7"]}
    done = run(tmp_path, f"{source.url}/3", "--server", f"{whered.redis_url}/5", "--match", "ships:*")
    assert done.returncode == 0, done.stderr
    assert redis.Redis(port=whered.resp, db=5).zcard("ships:3") == 10


def test_keys_that_the_target_has_are_left_alone_unless_told(peer, whered, tmp_path):
    source = peer()
    fill(source.client(), "k", 100)
    target = redis.Redis(port=whered.resp)
    target.geoadd("k", [1, 1, "own"])
    done = run(tmp_path, source.url, "--server", whered.redis_url)
    assert done.returncode == 1
    assert re.search(r"k +100 +1  not copied: the target has such a key; --replace", done.stdout)
    assert target.zcard("k") == 1
    done = run(tmp_path, source.url, "--server", whered.redis_url, "--replace")
    assert done.returncode == 0
    assert scores(target, "k") == scores(source.client(), "k")


def test_a_server_is_not_copied_onto_itself(peer, tmp_path):
    source = peer("--unixsocket", "redis.sock")
    fill(source.client(), "k", 100)
    for url in [source.url, f"redis://localhost:{source.port}", f"unix://{source.folder}/redis.sock"]:
        line = one_line(run(tmp_path, source.url, "--server", url, "--replace"))
        assert "database 0 is source and target" in line
    assert source.client().zcard("k") == 100
    done = run(tmp_path, source.url, "--server", f"{source.url}/1", "--replace")
    assert done.returncode == 0, done.stderr
    assert scores(source.client(db=1), "k") == scores(source.client(), "k")


def start_and_kill(folder, source, target, members):
    """Kills an import when its state file says so many members; gives the file's text."""
    path = pathlib.Path(folder, "whered-import.state")
    process = subprocess.Popen([BINARY, "import", "redis", source, "--server", target], cwd=folder, stdout=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            text = path.read_text() if path.exists() else ""
            if sum(int(n) for n in re.findall(r"^at\t\d+\t(\d+)$", text, re.M)[-1:]) >= members:
                process.send_signal(signal.SIGKILL)
    finally:
        process.wait(timeout=60)
    assert process.returncode == -signal.SIGKILL, "it was too quick to be killed"
    return path.read_text()


def test_a_killed_import_goes_on_where_it_was(peer, whered, tmp_path):
    source = peer()
    client = source.client()
    fill(client, "a", 2000)
    fill(client, "b", 150_000, seed=2)
    fill(client, "c", 300, seed=3)
    text = start_and_kill(tmp_path, source.url, whered.redis_url, 20_000)
    assert re.search(r"^done\t2000$", text, re.M)
    refused = one_line(run(tmp_path, source.url, "--server", whered.redis_url))
    assert "--resume" in refused
    refused = one_line(run(tmp_path, source.url, "--server", whered.redis_url, "--resume", "--match", "x"))
    assert "is of another import" in refused
    target = redis.Redis(port=whered.resp)
    before = target.zcard("b")
    assert 20_000 <= before < 150_000
    client.config_resetstat()
    done = run(tmp_path, source.url, "--server", whered.redis_url, "--resume")
    assert done.returncode == 0, (done.stdout, done.stderr)
    for key in ["a", "b", "c"]:
        assert scores(target, key) == scores(client, key)
    pages = client.info("commandstats")["cmdstat_zscan"]["calls"]
    # The whole is some 153 pages; the ones that were done are not asked for again.
    assert pages <= 153 - 20_000 // 1000 + 5, pages
    assert not (tmp_path / "whered-import.state").exists()


def test_after_a_restart_of_the_source_the_key_in_work_begins_anew(peer, whered, tmp_path):
    first = peer()
    fill(first.client(), "k", 100_000)
    start_and_kill(tmp_path, first.url, whered.redis_url, 20_000)
    # Another process: its hash seeds differ, so the old cursor says nothing.
    first.client().config_set("save", "3600 1")
    first.client().save()
    first.close()
    arguments = [program("redis-server", "redis-server"), "--port", first.port, "--bind", "127.0.0.1", "--dir", first.folder]
    first.process = subprocess.Popen(list(map(str, arguments)), stdout=subprocess.DEVNULL)
    assert first.wait()
    done = run(tmp_path, first.url, "--server", whered.redis_url, "--resume")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert scores(redis.Redis(port=whered.resp), "k") == scores(first.client(), "k")


def test_no_member_is_missed_while_points_move(peer, whered, tmp_path):
    source = peer()
    client = source.client()
    fill(client, "k", 60_000)
    members = [member for member in scores(client, "k")]
    stop = threading.Event()
    places = {}

    def move():
        rng = random.Random(5)
        with source.client() as mover:
            while not stop.is_set():
                with mover.pipeline(transaction=False) as pipeline:
                    for _ in range(200):
                        member = rng.choice(members)
                        place = (rng.uniform(-180, 180), rng.uniform(-85, 85))
                        places.setdefault(member, []).append(place)
                        pipeline.geoadd("k", [*place, member])
                    pipeline.execute()

    thread = threading.Thread(target=move)
    thread.start()
    try:
        done = run(tmp_path, source.url, "--server", whered.redis_url)
    finally:
        stop.set()
        thread.join()
    assert done.returncode == 0, (done.stdout, done.stderr)
    copied = scores(redis.Redis(port=whered.resp), "k")
    assert set(copied) == set(members)
    assert len(places) > 1000
    assert sum(copied[member] != score for member, score in scores(client, "k").items()) <= len(places)


def test_members_that_come_and_go_meanwhile_are_told_by_the_counts(peer, whered, tmp_path):
    source = peer()
    client = source.client()
    fill(client, "k", 100_000)
    path = tmp_path / "whered-import.state"
    process = subprocess.Popen([BINARY, "import", "redis", source.url, "--server", whered.redis_url], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    while process.poll() is None and (not path.exists() or "at\t" not in path.read_text()):
        pass
    with contextlib.suppress(redis.ResponseError):
        client.zremrangebyrank("k", 0, 49_999)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1, output
    assert re.search(r"k +50000 +[0-9]+  differs", output)
    assert "1 differ" in output


def test_a_key_that_becomes_something_else_meanwhile_is_taken_away(peer, whered, tmp_path):
    source = peer()
    client = source.client()
    fill(client, "k", 100_000)
    path = tmp_path / "whered-import.state"
    process = subprocess.Popen([BINARY, "import", "redis", source.url, "--server", whered.redis_url], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    while process.poll() is None and (not path.exists() or "at\t" not in path.read_text()):
        pass
    with client.pipeline(transaction=True) as pipeline:
        pipeline.unlink("k").set("k", "text").execute()
    output, _ = process.communicate(timeout=60)
    assert "gone from the source meanwhile" in output
    assert redis.Redis(port=whered.resp).exists("k") == 0


def test_passwords_and_users(peer, whered, tmp_path):
    source = peer("--requirepass", "s3cret")
    client = source.client(password="s3cret")
    fill(client, "k", 100)
    client.acl_setuser("mover", enabled=True, passwords=["+p@ss word"], keys=["*"], commands=["+@all"])
    host = f"127.0.0.1:{source.port}"
    for login in [":s3cret@", "mover:p%40ss%20word@"]:
        done = run(tmp_path, f"redis://{login}{host}", "--server", whered.redis_url, "--replace")
        assert done.returncode == 0, done.stderr
    assert redis.Redis(port=whered.resp).zcard("k") == 100
    line = one_line(run(tmp_path, source.url, "--server", whered.redis_url))
    assert host in line and "wants a password" in line
    for login in [":wr0ng@", "mover:wr0ng@", "nobody:wr0ng@"]:
        done = run(tmp_path, f"redis://{login}{host}", "--server", whered.redis_url)
        remark, line = done.stderr.splitlines()
        assert done.returncode == 2 and "remark: a password in a URL" in remark, done.stderr
        assert "refuses the user name or password" in line and "wr0ng" not in done.stderr


def test_a_wrong_url_is_one_line(peer, whered, tmp_path):
    source = peer()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"redis://127.0.0.1:{free.getsockname()[1]}"
    for url, words in [
        (nobody, "refused"),
        ("http://127.0.0.1:1", "is no URL of a server"),
        ("127.0.0.1:6379", "is no URL of a server"),
        ("redis://user:hidden@", "is no URL of a server"),
        ("redis://127.0.0.1:notaport", "is no URL of a server"),
        (f"{source.url}/99", "DB index is out of range"),
        (f"redis://127.0.0.1:{whered.http}", "Redis"),
        ("rediss://127.0.0.1:1", "onnection refused"),
        ("unix:///nowhere/at/all", "No such file"),
    ]:
        line = one_line(run(tmp_path, url, "--server", whered.redis_url))
        assert words in line and "hidden" not in line, (url, line)
        line = one_line(run(tmp_path, source.url, "--server", url))
        assert words in line, (url, line)


def test_something_that_talks_nonsense_or_nothing_is_no_redis(whered, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"redis://127.0.0.1:{listener.getsockname()[1]}"

        def answer():
            for reply in [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"*-7\r\n", b"$99999999999999999999\r\n", b"\x00" * 50]:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(100)
                    connection.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        for _ in range(5):
            one_line(run(tmp_path, url, "--server", whered.redis_url))
        thread.join()


def test_a_target_that_dies_leaves_a_state_to_resume_from(peer, tmp_path):
    source, target = peer(), peer()
    fill(source.client(), "k", 150_000)
    path = tmp_path / "whered-import.state"
    process = subprocess.Popen([BINARY, "import", "redis", source.url, "--server", target.url], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and (not path.exists() or "at\t" not in path.read_text()):
        pass
    target.close()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2 and len(errors.splitlines()) == 1, errors
    assert f"127.0.0.1:{target.port}" in errors
    assert "at\t" in path.read_text()
