"""redis-py, as its users use it, in both protocol versions."""

import re
import threading

import pytest
import redis
import requests

from conftest import eventually


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(demo, request):
    with redis.Redis(port=demo.resp, protocol=request.param, db=5) as connection:
        connection.flushdb()
        yield connection


def test_geo_commands_answer_as_redis_documents_them(client):
    assert client.geoadd("Sicily", [13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania"]) == 2
    assert client.geodist("Sicily", "Palermo", "Catania") == 166274.1516
    assert client.geodist("Sicily", "Palermo", "Nowhere") is None
    # redis-py decodes these in RESP2 only.
    hashes = [h if isinstance(h, str) else h.decode() for h in client.geohash("Sicily", "Palermo", "Catania")]
    assert hashes == ["sqc8b49rny0", "sqdtr74hyu0"]
    position = client.geopos("Sicily", "Palermo")[0]
    assert position == pytest.approx((13.36138933897018433, 38.11555639549629859))
    found = client.geosearch("Sicily", longitude=15, latitude=37, radius=200, unit="km", sort="ASC", withdist=True)
    assert found == [[b"Catania", 56.4413], [b"Palermo", 190.4424]]
    boxed = client.geosearch("Sicily", longitude=15, latitude=37, width=400, height=400, unit="km")
    assert set(boxed) == {b"Palermo", b"Catania"}


def calls(client, command):
    return client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"]


def test_a_lock_of_redis_py_gets_one_error_that_says_what_there_is_instead_of_scripts(client):
    before = [calls(client, name) for name in ("evalsha", "script|load")]
    lock = client.lock("lock", timeout=10, blocking=False)
    assert lock.acquire()
    token = lock.local.token
    with pytest.raises(redis.ResponseError, match="scripts and functions are not offered here.*WATCH with MULTI"):
        lock.release()
    # It asked once, and once more with the text.
    after = [calls(client, name) for name in ("evalsha", "script|load")]
    assert [new - old for new, old in zip(after, before)] == [1, 1]
    # What does the job.
    with client.pipeline() as pipe:
        pipe.watch("lock")
        assert pipe.get("lock") == token
        pipe.multi()
        pipe.delete("lock")
        assert pipe.execute() == [1]


def test_scripts_are_unknown_as_in_a_redis_without_any(client):
    with pytest.raises(redis.exceptions.NoScriptError):
        client.evalsha("0" * 40, 1, "key")
    assert client.script_exists("0" * 40, "f" * 40) == [False, False]
    for ask in (
        lambda: client.eval("return 1", 0),
        lambda: client.eval_ro("return 1", 0),
        lambda: client.script_load("return 1"),
        lambda: client.fcall("f", 0),
        lambda: client.function_load("#!lua name=l"),
    ):
        with pytest.raises(redis.ResponseError, match="^scripts and functions are not offered here"):
            ask()
    assert client.function_list() == []


def test_a_loop_of_refused_commands_is_logged_once_with_its_client_and_counted(serve, tmp_path):
    server = serve("--data-dir", tmp_path / "data")
    looping = redis.Redis(port=server.resp, client_name="loop-client")
    for _ in range(250):
        with pytest.raises(redis.exceptions.NoScriptError):
            looping.evalsha("0" * 40, 0)
    for number in range(250):
        with pytest.raises(redis.ResponseError):
            looping.execute_command("NOSUCH", "a secret")
    log = server.log_text()
    lines = [line for line in log.splitlines() if "was refused" in line]
    assert len(lines) == 2, log
    assert "the command 'evalsha' was refused 100 times" in lines[0]
    assert "NOSCRIPT No matching script. Please use EVAL." in lines[0]
    assert "name=loop-client" in lines[0] and "lib-name=redis-py" in lines[0], lines[0]
    assert "the command 'nosuch' was refused 100 times" in lines[1] and "secret" not in log
    stats = looping.info("commandstats")["cmdstat_evalsha"]
    assert (stats["calls"], stats["failed_calls"]) == (250, 250)
    assert looping.info("errorstats")["errorstat_NOSCRIPT"] == {"count": 250}
    metrics = requests.get(f"{server.url}/metrics").text
    assert 'whered_resp_refused_commands_total{command="evalsha"} 250' in metrics
    # redis-py asks for some that no server of 7.0 has, too.
    unknown = re.search(r'whered_resp_refused_commands_total\{command=""\} (\d+)', metrics)
    assert int(unknown[1]) >= 250


def test_a_geo_key_is_a_sorted_set(client):
    client.geoadd("Sicily", [13.361389, 38.115556, "Palermo"])
    assert client.type("Sicily") == b"zset"
    assert client.zcard("Sicily") == 1
    assert client.zscore("Sicily", "Palermo") == 3479099956230698.0
    assert client.zrange("Sicily", 0, -1) == [b"Palermo"]
    assert client.zrem("Sicily", "Palermo", "Nobody") == 1
    assert client.exists("Sicily") == 0


def test_any_scores_are_kept_and_ranged_over(client):
    assert client.zadd("scores", {"half": 0.5, "third": 1 / 3, "big": 1e20}) == 3
    assert client.zrange("scores", 0, -1, withscores=True)[0][0] == b"third"
    assert client.zscore("scores", "third") == 1 / 3
    assert client.zincrby("scores", 2, "half") == 2.5
    assert client.zrangebyscore("scores", "(0", 3) == [b"third", b"half"]
    assert client.zcount("scores", "-inf", "+inf") == 3
    assert dict(client.zscan_iter("scores")) == {b"half": 2.5, b"third": 1 / 3, b"big": 1e20}
    assert client.zadd("scores", {"half": 1}, gt=True, ch=True) == 0
    assert client.zremrangebyscore("scores", 1e19, "inf") == 1
    assert client.zpopmin("scores", 1)[0][0] == b"third"
    assert client.object("encoding", "scores") == b"listpack"


def test_results_are_stored(client):
    client.geoadd("Sicily", [13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania"])
    wanted = {"longitude": 15, "latitude": 37, "radius": 200, "unit": "km"}
    assert client.geosearchstore("near", "Sicily", storedist=True, **wanted) == 2
    assert client.zscore("near", "Catania") == pytest.approx(56.4412578701582)
    assert client.georadius("Sicily", 15, 37, 100, unit="km", store="again") == 1
    assert client.geopos("again", "Catania")[0] == pytest.approx((15.087267458438873, 37.50266842333162))
    assert client.georadiusbymember("Sicily", "Palermo", 1, unit="km") == [b"Palermo"]


def test_texts_and_their_end(client):
    assert client.set("text", "one", nx=True) is True
    assert client.set("text", "two", nx=True) is None
    assert client.set("text", "two", ex=100, get=True) == b"one"
    assert 98 <= client.ttl("text") <= 100
    assert client.persist("text") is True
    assert client.ttl("text") == -1
    assert client.pexpire("text", 30) is True
    while client.exists("text"):
        pass
    assert client.get("text") is None
    assert client.ttl("text") == -2
    client.set("text", "three")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.zadd("text", {"m": 1})


def test_keys_get_other_names(client):
    client.set("a", "1")
    assert client.rename("a", "b") is True
    assert client.copy("b", "c") is True
    assert client.renamenx("b", "c") is False
    assert client.type("c") == b"string"
    assert client.touch("b", "c", "a") == 2
    assert client.memory_usage("b") > 0
    with pytest.raises(redis.ResponseError, match="no such key"):
        client.rename("a", "b")


def test_a_visitors_surroundings_are_searched(client):
    client.geoadd("sites", [-97.822, 37.751, "middle", 8.68, 50.11, "fra"])
    found = client.execute_command("GEOSEARCH", "sites", "FROMIP", "city", "8.8.8.8", "BYRADIUS", 30000, "km", "ASC")
    assert len(found) == 2
    with pytest.raises(redis.ResponseError, match="no such database 'nowhere'"):
        client.execute_command("GEOSEARCH", "sites", "FROMIP", "nowhere", "8.8.8.8", "BYRADIUS", 1, "km")
    with pytest.raises(redis.ResponseError, match="is not an IP address"):
        client.execute_command("GEOSEARCH", "sites", "FROMIP", "city", "eight", "BYRADIUS", 1, "km")
    with pytest.raises(redis.ResponseError, match="has no place for 0.0.0.0"):
        client.execute_command("GEOSEARCH", "sites", "FROMIP", "city", "0.0.0.0", "BYRADIUS", 1, "km")


def test_keys_are_scanned_whole(client):
    with client.pipeline(transaction=False) as pipeline:
        for number in range(1000):
            pipeline.geoadd(f"key:{number}", [1, 1, "m"])
        pipeline.execute()
    assert len(set(client.scan_iter(match="key:*", count=17))) == 1000
    assert client.dbsize() == 1000
    assert client.delete("key:1", "key:2", "nothing") == 2


def test_an_error_is_an_error_and_the_connection_goes_on(client):
    with pytest.raises(redis.ResponseError, match="wrong number of arguments for 'geoadd' command"):
        client.execute_command("GEOADD", "k")
    with pytest.raises(redis.ResponseError, match="unknown command"):
        client.execute_command("LPUSH", "k", "v")
    with pytest.raises(redis.ResponseError, match="no such database 'nowhere'"):
        client.execute_command("IP.GET", "nowhere", "8.8.8.8")
    assert client.ping() is True


def test_databases_and_prefix_sets_answer(client):
    assert client.execute_command("IP.GET", "city", "8.8.8.8", "country.iso_code") == [b"US"]
    assert client.execute_command("CIDR.MATCH", "bogons", "10.1.2.3") == b"10.0.0.0/8"
    assert client.execute_command("CIDR.MATCH", "bogons", "8.8.8.8") is None


def test_combinations_random_members_and_ranges_of_names(client):
    client.zadd("a", {"x": 1, "y": 2, "z": 3})
    client.zadd("b", {"y": 10, "z": 0.5})
    assert [row[0] for row in client.zunion(["a", "b"], withscores=True)] == [b"x", b"z", b"y"]
    assert client.zinter(["a", "b"], aggregate="MAX") == [b"z", b"y"]
    assert client.zdiff(["a", "b"]) == [b"x"]
    assert client.zinterstore("c", {"a": 2, "b": 1}) == 2
    assert client.zscore("c", "z") == 6.5
    assert client.zintercard(2, ["a", "b"], limit=1) == 1
    assert set(client.zrandmember("a", 5)) == {b"x", b"y", b"z"}
    client.zadd("names", {"bob": 0, "ann": 0, "eve": 0})
    assert client.zrangebylex("names", "[b", "+") == [b"bob", b"eve"]
    assert client.zlexcount("names", "-", "(bob") == 1
    assert client.zremrangebylex("names", "[a", "(b") == 1
    assert client.zmpop(2, ["none", "names"], min=True)[0] == b"names"


def test_a_queue_that_is_waited_for(client, demo):
    other = redis.Redis(port=demo.resp, db=5)
    found = []
    waiter = threading.Thread(target=lambda: found.append(client.bzpopmin("jobs", timeout=20)))
    waiter.start()

    def one_waits():
        assert other.info("clients")["blocked_clients"] == 1

    eventually(one_waits)
    other.zadd("jobs", {"second": 2, "first": 1})
    waiter.join()
    assert list(found[0])[:2] == [b"jobs", b"first"]
    assert other.bzpopmax(["none", "jobs"], timeout=1)[1] == b"second"
    assert other.bzpopmax("jobs", timeout=0.01) is None


def test_counters_and_several_strings(client):
    assert (client.incr("n"), client.incrby("n", 41), client.decr("n", 2)) == (1, 42, 40)
    assert client.incrbyfloat("f", "10.5") == 10.5
    assert client.incrbyfloat("f", "0.1") == 10.6
    assert client.mset({"a": 1, "b": 2}) is True
    assert client.mget("a", "none", "b") == [b"1", None, b"2"]
    assert client.msetnx({"b": 3, "c": 4}) is False
    assert client.setex("brief", 100, "x") and 99 <= client.ttl("brief") <= 100
    assert client.getex("brief", persist=True) == b"x" and client.ttl("brief") == -1
    assert client.getdel("brief") == b"x" and client.exists("brief") == 0
    assert client.append("a", "23") == 3 and client.strlen("a") == 3
    assert client.setnx("a", "no") is False and client.getset("a", "new") == b"123"
