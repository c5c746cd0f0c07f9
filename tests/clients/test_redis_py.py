"""redis-py, as its users use it, in both protocol versions."""

import pytest
import redis


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


def test_a_geo_key_is_a_sorted_set(client):
    client.geoadd("Sicily", [13.361389, 38.115556, "Palermo"])
    assert client.type("Sicily") == b"zset"
    assert client.zcard("Sicily") == 1
    assert client.zscore("Sicily", "Palermo") == 3479099956230698.0
    assert client.zrange("Sicily", 0, -1) == [b"Palermo"]
    assert client.zrem("Sicily", "Palermo", "Nobody") == 1
    assert client.exists("Sicily") == 0


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
