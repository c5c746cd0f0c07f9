"""Clients of a Redis cluster that read from a whered beside it: redis-py and redis-cli."""

import subprocess

import pytest
from redis.cluster import LoadBalancingStrategy, RedisCluster
from redis_server import free_port, peer  # noqa: F401
from replica_following import BACKLOG, follow

from conftest import eventually, program

SLOTS = 16384


def wait_until(check):
    def holds():
        assert check()

    eventually(holds, seconds=30)


@pytest.fixture
def primaries(peer):  # noqa: F811
    """Three primaries of a cluster without replicas."""
    buses = [free_port() for _ in range(3)]
    common = ["--cluster-enabled", "yes", "--cluster-node-timeout", 2000, *BACKLOG]
    nodes = [peer(*common, "--cluster-port", bus) for bus in buses]
    for number, (node, bus) in enumerate(zip(nodes, buses)):
        first, end = number * SLOTS // 3, (number + 1) * SLOTS // 3
        raw = node.raw()
        assert raw.call("CLUSTER", "SET-CONFIG-EPOCH", number + 1) == b"OK"
        assert raw.call("CLUSTER", "ADDSLOTSRANGE", first, end - 1) == b"OK"
        assert nodes[0].raw().call("CLUSTER", "MEET", "127.0.0.1", node.port, bus) == b"OK"
    wait_until(lambda: all(b"cluster_state:ok" in node.raw().call("CLUSTER", "INFO") for node in nodes))
    return nodes


@pytest.fixture
def whered(serve, primaries, tmp_path):
    server = follow(serve, tmp_path, f"cluster://127.0.0.1:{primaries[0].port}")
    wait_until(lambda: isinstance(server.raw().call("CLUSTER", "SLOTS"), list))
    return server


def test_redis_py_writes_to_the_primaries_and_reads_from_whered(whered):
    strategy = LoadBalancingStrategy.ROUND_ROBIN_REPLICAS
    client = RedisCluster("127.0.0.1", whered.resp, load_balancing_strategy=strategy)
    assert len(client.get_primaries()) == 3 and whered.resp in {n.port for n in client.get_replicas()}
    for number in range(60):
        client.geoadd(f"fleet:{number}", (8.68, 50.11, "frankfurt", 13.4, 52.5, "berlin"))
    raw = whered.raw()
    # Until all shards are here the reply is -LOADING.
    wait_until(lambda: isinstance(keys := raw.call("KEYS", "fleet:*"), list) and len(keys) == 60)
    for number in range(60):
        near = client.geosearch(f"fleet:{number}", longitude=8.7, latitude=50, radius=50, unit="km")
        assert near == [b"frankfurt"]
    calls = [line for line in raw.call("INFO", "commandstats").split(b"\r\n") if b"_geosearch:" in line]
    assert calls and b"calls=60," in calls[0]
    # Keys that are not followed are read from their primaries.
    client.set("other", "value")
    assert client.get("other") == b"value"


def test_redis_cli_is_led_to_the_primary(whered):
    command = [program("redis-cli", "redis-tools"), "-c", "-p", str(whered.resp)]
    done = subprocess.run([*command, "ZADD", "fleet:1", "1", "a"], capture_output=True, timeout=20)
    assert done.stdout.split()[-1:] == [b"1"], done
    wait_until(lambda: whered.raw().call("ZCARD", "fleet:1") == 1)
