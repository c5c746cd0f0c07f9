"""Connections as redis-py and redis-cli make them: TLS, Unix socket, users, transactions, channels."""

import subprocess
import threading

import pytest
import redis
from conftest import eventually, program

CONFIG = """
[resp]
password = "master"
unix_socket = "whered.sock"
unix_socket_permissions = "600"
[resp.tls]
listen = ["127.0.0.1:0"]
certificate = "server.pem"
key = "server.key"
client_ca = "ca.pem"
client_certificate = "optional"
[[resp.user]]
name = "reader"
password = "secret"
commands = ["+@read", "+@connection", "+@transaction"]
keys = ["geo:*"]
"""


def make_certificates(folder):
    """An authority and a server's certificate for 127.0.0.1."""
    openssl = program("openssl", "openssl")

    def run(*arguments):
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True, timeout=60)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test")
    run("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
    run("x509", "-req", "-in", "server.csr", *signed, "-out", "server.pem")


@pytest.fixture
def guarded(serve, tmp_path):
    make_certificates(tmp_path)
    (tmp_path / "edge.toml").write_text(CONFIG)
    server = serve("--config", "edge.toml")
    server.folder = tmp_path
    server.tls = server.ports["resp-tls"]
    return server


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(demo, request):
    with redis.Redis(port=demo.resp, protocol=request.param, db=6) as connection:
        connection.flushdb()
        yield connection


def test_a_transaction_is_one_reply(client):
    with client.pipeline(transaction=True) as pipeline:
        pipeline.geoadd("k", [1, 1, "a"])
        pipeline.geoadd("k", [2, 2, "b"])
        pipeline.zcard("k")
        assert pipeline.execute() == [1, 1, 2]
    with client.pipeline(transaction=True) as pipeline:
        pipeline.zcard("k")
        pipeline.execute_command("GEOADD", "k")
        with pytest.raises(redis.ResponseError, match="wrong number of arguments"):
            pipeline.execute()


def test_a_watched_key_that_changes_gives_the_transaction_up(client):
    client.geoadd("k", [1, 1, "a"])
    with client.pipeline() as pipeline:
        pipeline.watch("k")
        client.geoadd("k", [2, 2, "b"])
        pipeline.multi()
        pipeline.zcard("k")
        with pytest.raises(redis.WatchError):
            pipeline.execute()
    # redis-py tries again by itself.
    assert client.transaction(lambda p: (p.zcard("k"), p.multi(), p.zrem("k", "a")), "k") == [1]


def test_messages_arrive_in_order(client):
    listener = client.pubsub()
    listener.subscribe("news")
    listener.psubscribe("n*")
    kinds = [listener.get_message(timeout=10)["type"] for _ in range(2)]
    assert kinds == ["subscribe", "psubscribe"]
    for number in range(100):
        assert client.publish("news", number) == 2
    got = [listener.get_message(timeout=10) for _ in range(200)]
    assert [m["data"] for m in got if m["type"] == "message"] == [str(n).encode() for n in range(100)]
    assert [m["data"] for m in got if m["type"] == "pmessage"] == [str(n).encode() for n in range(100)]
    assert client.pubsub_numsub("news") == [(b"news", 1)]
    assert listener.ping() in (True, None)
    listener.close()


def test_a_listening_thread_works(client):
    heard = []
    done = threading.Event()

    def hear(message):
        heard.append(message["data"])
        done.set()

    listener = client.pubsub()
    listener.subscribe(**{"news": hear})
    thread = listener.run_in_thread(sleep_time=0.05, daemon=True)
    eventually(lambda: check(client.publish("news", "hello") == 1))
    assert done.wait(10)
    thread.stop()
    thread.join(10)
    assert heard[0] == b"hello"


def check(holds):
    assert holds


def test_clients_tell_who_they_are(client):
    client.client_setname("me")
    assert client.client_getname() in ("me", b"me")
    own = client.client_info()
    assert own["name"] == "me" and own["lib-name"].startswith("redis-py")
    assert any(other["id"] == str(own["id"]) for other in client.client_list())
    assert client.client_list(_type="pubsub") == []
    assert client.config_get("maxmemory*")["maxmemory"] == "0"
    assert client.config_set("slowlog-log-slower-than", 0) is True
    client.ping()
    entries = client.slowlog_get(5)
    assert any(entry["command"] == b"PING" for entry in entries)
    client.config_set("slowlog-log-slower-than", 10000)
    assert client.slowlog_reset() is True
    assert client.command_count() > 50
    assert "cmdstat_ping" in client.info("commandstats")
    assert client.time()[0] > 1_600_000_000
    assert client.acl_whoami() in ("default", b"default")


def test_tls_serves_pipelines_transactions_and_channels(guarded):
    options = {"ssl": True, "ssl_ca_certs": str(guarded.folder / "ca.pem"), "password": "master"}
    with redis.Redis(host="127.0.0.1", port=guarded.tls, protocol=3, **options) as client:
        with client.pipeline(transaction=True) as pipeline:
            for number in range(5000):
                pipeline.geoadd("geo:a", [number % 180, number % 80, f"member-{number}"])
            assert pipeline.execute() == [1] * 5000
        found = client.geosearch("geo:a", longitude=0, latitude=0, radius=20000, unit="km", withcoord=True)
        assert len(found) == 5000
        assert client.echo("x" * 3_000_000) == b"x" * 3_000_000
        listener = client.pubsub()
        listener.subscribe("c")
        assert listener.get_message(timeout=10)["type"] == "subscribe"
        assert client.publish("c", "m") == 1
        assert listener.get_message(timeout=10)["data"] == b"m"
        listener.close()
    with pytest.raises(redis.ConnectionError, match="(?i)certificate"):
        redis.Redis(host="127.0.0.1", port=guarded.tls, ssl=True, password="master").ping()


def test_the_unix_socket_serves(guarded):
    path = guarded.folder / "whered.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    with redis.Redis(unix_socket_path=str(path), password="master") as client:
        assert client.ping() is True
        assert client.client_info()["flags"] == "U"
    cli = program("redis-cli", "redis-tools")
    done = subprocess.run(
        [cli, "-s", str(path), "-a", "master", "--no-auth-warning", "PING"],
        capture_output=True, text=True, timeout=20,
    )
    assert done.stdout == "PONG\n", done.stderr
    guarded.stop()
    assert not path.exists()


def test_users_do_what_their_rules_say(guarded):
    with redis.Redis(port=guarded.resp, username="reader", password="secret") as client:
        assert client.zcard("geo:a") == 0
        with pytest.raises(redis.exceptions.NoPermissionError, match="no permissions to run the 'geoadd'"):
            client.geoadd("geo:a", [1, 1, "m"])
        with pytest.raises(redis.exceptions.NoPermissionError, match="one of the keys"):
            client.zcard("other")
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(port=guarded.resp, username="reader", password="wrong").ping()
    assert "password of the user 'reader' stands in the configuration" in guarded.log_text()


def test_a_restart_after_a_kill_takes_the_socket_over(guarded):
    guarded.kill()
    path = guarded.folder / "whered.sock"
    assert path.exists()
    guarded.start()
    with redis.Redis(unix_socket_path=str(path), password="master") as client:
        assert client.ping() is True


def test_latencies_of_each_family_are_in_the_metrics(demo):
    import requests

    with redis.Redis(port=demo.resp) as client:
        client.ping()
    text = requests.get(f"{demo.url}/metrics", timeout=10).text
    assert 'whered_resp_command_duration_seconds_bucket{le="' in text or (
        'whered_resp_command_duration_seconds_bucket{family="connection"' in text
    )
    assert 'whered_resp_command_duration_seconds_count{family="connection"}' in text
    assert 'le="+Inf"' in text


def test_redis_cli_takes_part_in_everything(demo):
    cli = program("redis-cli", "redis-tools")

    def run(*arguments, stdin=None):
        done = subprocess.run(
            [cli, "-p", str(demo.resp), *arguments],
            input=stdin, capture_output=True, text=True, timeout=20,
        )
        return done.stdout

    assert run("-n", "9", stdin="MULTI\nGEOADD k 1 1 m\nZCARD k\nEXEC\n").split() == [
        "OK", "QUEUED", "QUEUED", "1", "1",
    ]
    assert run("-3", "PUBSUB", "NUMPAT").strip() == "0"
    assert "maxmemory" in run("CONFIG", "GET", "maxmemory")
    assert run("COMMAND", "COUNT").strip().isdigit()
