"""What a map of the server asks by HTTP: collections, pools, sites, the stream. Redis clients make the changes."""

import base64
import json
import socket
import struct
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from conftest import eventually


def fetch(server, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.fixture
def redis_client(demo):
    redis = pytest.importorskip("redis")
    with redis.Redis(host="127.0.0.1", port=demo.resp) as client:
        yield client


class Stream:
    """Reads events of `/v1/stream` in a thread of its own."""

    def __init__(self, server, query):
        self.events = []
        self.reply = urllib.request.urlopen(f"{server.url}/v1/stream?{query}", timeout=20)
        assert self.reply.headers["content-type"] == "text/event-stream"
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        event = None
        try:
            for line in self.reply:
                name, _, text = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    event = text
                elif name == "data":
                    self.events.append((event, json.loads(text)))
        except (OSError, ValueError, AttributeError):
            pass

    def of(self, kind):
        return [data for event, data in list(self.events) if event == kind]

    def close(self):
        self.reply.close()


def test_collections_are_found_listed_and_searched(demo, redis_client):
    redis_client.geoadd("map-vans", [8.68, 50.11, "van-1", 13.40, 52.52, "van-2", 179.9, 0.0, "van-3", -179.9, 0.0, "van-4"])
    names, cursor = [], "0"
    while cursor:
        status, page = fetch(demo, f"/v1/collections?count=2&cursor={cursor}")
        assert status == 200
        names += [one["name"] for one in page["collections"]]
        cursor = page["next"]
    assert "map-vans" in names and "cities" in names
    assert fetch(demo, "/v1/collections/map-vans")[1]["members"] == 4
    inside = fetch(demo, "/v1/collections/map-vans/within?box=170,-10,-170,10")[1]
    assert {hit["member"] for hit in inside["hits"]} == {"van-3", "van-4"}
    polygon = {"type": "Polygon", "coordinates": [[[5, 47], [15, 47], [15, 55], [5, 55], [5, 47]]]}
    inside = fetch(demo, "/v1/collections/map-vans/within", polygon)[1]
    assert {hit["member"] for hit in inside["hits"]} == {"van-1", "van-2"}
    clusters = fetch(demo, "/v1/collections/map-vans/clusters?box=-180,-90,180,90&zoom=0")[1]
    assert sum(one["count"] for one in clusters["clusters"]) == clusters["total"] == 4
    with urllib.request.urlopen(f"{demo.url}/v1/collections/map-vans/points?box=0,40,20,60", timeout=20) as reply:
        body = reply.read()
        assert reply.headers["x-whered-total"] == "2"
    version, count = struct.unpack_from("<II", body)
    assert (version, count, len(body)) == (1, 2, 24)
    assert struct.unpack_from("<ff", body, 8) == pytest.approx((8.68, 50.11), abs=1e-4)


def test_members_of_any_bytes_come_back_as_they_are(demo, redis_client):
    names = [b"plain", "S\u00e3o".encode(), b"caf\xe9", b"<script>", b"a/b", b"\x00\n\"", b"%41"]
    for name in names:
        redis_client.geoadd("map-bytes", [1.0, 2.0, name])
    found = fetch(demo, "/v1/collections/map-bytes/within?box=0,0,3,3")[1]["hits"]
    exact = {base64.b64decode(hit["member_base64"]) if "member_base64" in hit else hit["member"].encode() for hit in found}
    assert exact == set(names)
    for name in names:
        quoted = urllib.parse.quote_from_bytes(name, safe="")
        status, one = fetch(demo, f"/v1/collections/map-bytes/members/{quoted}")
        assert status == 200 and one["longitude"] == pytest.approx(1.0, abs=1e-4), name


def test_a_place_and_an_address_get_the_site_that_steer_gives(demo, redis_client):
    for address in ["192.0.2.1", "192.0.2.129", "8.8.8.8", "2001:db8::1"]:
        expected = redis_client.execute_command("STEER", "www", address)
        status, found = fetch(demo, f"/v1/pools/www/choose?address={address}")
        assert status == 200 and found["sites"][:1] == ([expected.decode()] if expected else [])
    many = fetch(demo, "/v1/pools/www/choose", {"addresses": ["192.0.2.1", "8.8.8.8"]})[1]["answers"]
    assert [one["address"] for one in many] == ["192.0.2.1", "8.8.8.8"]
    status, found = fetch(demo, "/v1/pools/www/choose?longitude=139.7&latitude=35.7&explain=1")
    nearest = min(found["candidates"], key=lambda one: one["distance_meters"])
    assert status == 200 and found["choice"] == nearest["name"]


def test_a_catchment_area_follows_a_site_that_goes_down(demo, redis_client):
    status, before = fetch(demo, "/v1/pools/www/catchment")
    assert status == 200 and before["cells"]
    busy = {cell[2] for cell in before["cells"]}
    site = before["sites"][min(busy)]
    redis_client.execute_command("SITE.DOWN", "www", site)
    try:
        began = time.monotonic()
        after = fetch(demo, "/v1/pools/www/catchment")[1]
        assert time.monotonic() - began < 1
        assert min(busy) not in {cell[2] for cell in after["cells"]}
        count = lambda drawn: sum(cell[4] for cell in drawn["cells"])  # noqa: E731
        assert count(after) == count(before)
    finally:
        redis_client.execute_command("SITE.AUTO", "www", site)
    assert fetch(demo, "/v1/pools/www/catchment")[1]["cells"] == before["cells"]


def test_the_stream_tells_what_redis_clients_do(demo, redis_client):
    redis_client.geoadd("map-live", [1, 1, "old"])
    stream = Stream(demo, "collections=map-live&sites=1")
    eventually(lambda: {"collection": "map-live"} in stream.of("resync"))
    redis_client.geoadd("map-live", [2, 2, "new"])
    eventually(lambda: any(change[0] == "new" for move in stream.of("move") for change in move["changes"]))
    redis_client.zrem("map-live", "old")
    eventually(lambda: any("old" in move["removed"] for move in stream.of("move")))
    redis_client.pexpire("map-live", 50)
    eventually(lambda: len(stream.of("resync")) == 2)
    site = fetch(demo, "/v1/sites?pool=www")[1]["sites"][0]["site"]
    redis_client.execute_command("SITE.DOWN", "www", site)
    eventually(lambda: any(one["site"] == site and one["healthy"] is False for one in stream.of("site")))
    redis_client.execute_command("SITE.AUTO", "www", site)
    stream.close()


def test_streams_that_nobody_reads_hold_nobody_up(demo, redis_client):
    sockets = []
    for _ in range(8):
        client = socket.create_connection(("127.0.0.1", demo.http), timeout=20)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(b"GET /v1/stream?collections=map-flood HTTP/1.1\r\nHost: localhost\r\n\r\n")
        sockets.append(client)
    name = "x" * 100
    pipeline = redis_client.pipeline(transaction=False)
    for step in range(20):
        for number in range(0, 5000, 500):
            points = []
            for at in range(number, number + 500):
                points += [step, at % 80, f"{name}{at}"]
            pipeline.geoadd("map-flood", points)
        pipeline.execute()
    assert fetch(demo, "/v1/collections/map-flood")[1]["members"] == 5000
    for client in sockets:
        client.close()
    assert fetch(demo, "/healthz")[0] == 200


def test_everything_about_an_address_and_the_server_is_told(demo):
    told = fetch(demo, "/v1/explain?address=8.8.8.8")[1]
    assert told["databases"][0]["record"]["country"]["iso_code"] == "US"
    assert any(one["question"]["pool"] == "www" for one in told["pools"])
    assert any(one["set"] == "bogons" for one in fetch(demo, "/v1/explain?address=10.1.2.3")[1]["sets"])
    status = fetch(demo, "/v1/status")[1]
    assert status["ready"] is True and status["counts"]["pools"] >= 1
    zones = fetch(demo, "/v1/zones")[1]["zones"]
    assert zones and fetch(demo, "/v1/zones/" + zones[0]["name"])[0] == 200
