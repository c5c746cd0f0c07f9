"""The story: all doors are one product.

An IP database, a prefix set and a pool of sites; two clients get two answers; a site moves and
its answers move; the machine dies; everything is as it was. Every later capability extends it.
"""

import json

import dns.edns
import dns.message
import dns.query
import redis
import requests

FRANKFURT = "192.0.2.1"
NEW_YORK = "192.0.2.65"


def site_address(server, client):
    """What DNS answers to a client."""
    query = dns.message.make_query("www.example.com", "A", use_edns=0, options=[dns.edns.ECSOption(client, 32)])
    reply = dns.query.udp(query, "127.0.0.1", port=server.dns, timeout=5)
    return [item.to_text() for rrset in reply.answer for item in rrset]


def state(server):
    """Every answer that the story is about, from every door."""
    with redis.Redis(port=server.resp, decode_responses=True) as client:
        return {
            "frankfurt": site_address(server, FRANKFURT),
            "new york": site_address(server, NEW_YORK),
            "record": client.execute_command("IP.GET", "city", FRANKFURT, "city.names.en"),
            "prefix": client.execute_command("CIDR.MATCH", "partners", "198.51.100.7", "WITHVALUE"),
            "near": client.geosearch("vans", longitude=8.68, latitude=50.11, radius=50, unit="km", sort="ASC"),
            "sites": client.execute_command("SITE.LIST", "www"),
            "http": requests.get(f"{server.url}/v1/ip/{FRANKFURT}?database=city", timeout=5).json(),
        }


def test_the_story(serve):
    server = serve("--demo", "--data-dir", "data")
    with redis.Redis(port=server.resp, decode_responses=True) as client:
        # Two clients, two answers.
        assert site_address(server, FRANKFURT) == ["192.0.2.10"]
        assert site_address(server, NEW_YORK) == ["192.0.2.74"]

        # A site is added by command; when Frankfurt's own moves away, its clients go there.
        assert client.execute_command("SITE.ADD", "www", "ber", "13.4050", "52.5200", "192.0.2.40") == 1
        assert site_address(server, FRANKFURT) == ["192.0.2.10"]
        client.execute_command("SITE.MOVE", "www", "fra", "151.2093", "-33.8688")
        assert site_address(server, FRANKFURT) == ["192.0.2.40"]
        assert site_address(server, NEW_YORK) == ["192.0.2.74"]

        # The reasons name the same choice at every door that steers.
        reasons = json.loads(client.execute_command("STEER", "www", FRANKFURT, "EXPLAIN"))
        assert reasons["choice"] == "ber"
        assert reasons["prefix"] == "192.0.2.0/26"
        assert client.execute_command("STEER", "www", FRANKFURT) == "ber"

        # A site that is down is not chosen; up again, it is.
        client.execute_command("SITE.DOWN", "www", "ber")
        assert site_address(server, FRANKFURT) == ["192.0.2.74"]
        client.execute_command("SITE.UP", "www", "ber")
        assert site_address(server, FRANKFURT) == ["192.0.2.40"]

        # A prefix set and moving points beside it.
        assert client.execute_command("CIDR.ADD", "partners", "VALUE", "gold", "198.51.100.0/24") == 1
        client.geoadd("vans", [8.68, 50.11, "van-1", 13.4, 52.5, "van-2"])
        client.geoadd("vans", [8.70, 50.12, "van-2"])

    before = state(server)
    assert before["near"] == ["van-1", "van-2"]
    assert before["prefix"] == ["198.51.100.0/24", "gold"]

    # The machine dies; everything that was acknowledged is there again.
    server.kill()
    server = serve("--demo", "--data-dir", "data")
    assert state(server) == before
