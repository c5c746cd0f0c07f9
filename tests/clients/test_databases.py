"""Databases by redis-py and curl, lookups in every mode, and what a one-shot lookup reads."""

import json
import os
import re
import shutil
import subprocess

import pytest
import redis

from conftest import BINARY, REPOSITORY, eventually, program

MODES = ["stream", "tree", "mmap", "memory"]


def whered(*arguments, stdin=None):
    return subprocess.run(
        [BINARY, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=60
    )


def build(path, rows):
    source = path.with_suffix(".csv")
    source.write_text("network,country.iso_code,city.names.en\n" + "".join(rows))
    done = whered("db", "build", source, "-o", path)
    assert done.returncode == 0, done.stderr


def rows(country, count=4000):
    return [f"10.{n // 256}.{n % 256}.0/24,{country},{country} city number {n}\n" for n in range(count)]


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    path = tmp_path_factory.mktemp("databases") / "city.mmdb"
    build(path, rows("DE"))
    return path


def config(tmp_path, keys):
    file = tmp_path / "edge.toml"
    file.write_text(f"[[database]]\nname = 'city'\npath = 'city.mmdb'\n{keys}\n")
    return file


def curl(server, path):
    done = subprocess.run([program("curl", "curl"), "-sS", server.url + path], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def described(client):
    """IP.INFO: a map in RESP3, its keys and values in turn in RESP2."""
    found = client.execute_command("IP.INFO", "city")
    return found if isinstance(found, dict) else dict(zip(found[::2], found[1::2]))


def test_every_mode_of_a_lookup_answers_alike(city):
    asked = "".join(f"10.{n % 20}.{n * 7 % 256}.9\n" for n in range(500)) + "192.0.2.1\n"
    answers = [whered("lookup", "--db", city, "--mode", mode, stdin=asked) for mode in MODES]
    assert len(answers[0].stdout.splitlines()) == 501
    assert len({answer.stdout for answer in answers}) == 1
    assert whered("lookup", "--db", city, stdin=asked).stdout == answers[0].stdout
    done = whered("lookup", "--db", city, "--mode", "indexed", "10.0.0.1")
    assert done.returncode == 2
    assert "[possible values: stream, tree, mmap, memory]" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def bytes_read(trace, path):
    """What a traced process has read of a file, in bytes, whatever the call was."""
    text = trace.read_text()
    opened = re.search(re.escape(f'"{path}"') + r".*= (\d+)$", text, re.MULTILINE)
    assert opened, text
    calls = re.findall(rf"^(?:\d+ +)?(?:read|pread64)\({opened.group(1)}, .* = (\d+)$", text[opened.end():], re.MULTILINE)
    return sum(map(int, calls))


def test_a_lookup_that_streams_reads_little_of_the_file(city, tmp_path):
    strace = program("strace", "strace", require="kernel")
    trace = tmp_path / "trace"
    for mode, least, most in [("stream", 1, 16 << 10), ("memory", city.stat().st_size, 1 << 30)]:
        command = [strace, "-f", "-o", trace, "-e", "trace=openat,read,pread64", BINARY, "lookup", "--db", city, "--mode", mode, "10.1.2.3"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert least <= bytes_read(trace, city) <= most, mode


def test_redis_py_and_curl_see_the_same_database(serve, tmp_path, city):
    shutil.copy(city, tmp_path / "city.mmdb")
    server = serve("--config", config(tmp_path, "mode = 'tree'\nreload = 'poll'\nfields = ['country.iso_code']"))
    info = curl(server, "/v1/databases/city")
    for protocol in (2, 3):
        client = redis.Redis(port=server.resp, decode_responses=True, protocol=protocol)
        assert described(client) == info
    assert [info] == curl(server, "/v1/databases")["databases"]
    assert (info["mode"], info["reload"], info["fields"]) == ("tree", "poll", ["country.iso_code"])
    assert info["networks"] == 4000 and 0 < info["memory_file_bytes"] < info["file_size_bytes"]


def test_pages_of_networks_make_up_the_whole(serve, tmp_path, city):
    shutil.copy(city, tmp_path / "city.mmdb")
    server = serve("--config", config(tmp_path, ""))
    client = redis.Redis(port=server.resp, decode_responses=True)
    by_resp, cursor = [], "0"
    while True:
        cursor, page = client.execute_command("IP.WITHIN", "city", "10.0.0.0/8", "CURSOR", cursor, "COUNT", 300, "city.names.en")
        assert len(page) <= 300
        by_resp += [(network, name) for network, (name,) in page]
        if cursor == "0":
            break
    assert by_resp == [(f"10.{n // 256}.{n % 256}.0/24", f"DE city number {n}") for n in range(4000)]
    by_http, cursor = [], ""
    while cursor is not None:
        page = curl(server, f"/v1/databases/city/networks?within=10.0.0.0/8&count=1000&fields=city.names.en&cursor={cursor}")
        by_http += [(network["prefix"], network["record"]["city.names.en"]) for network in page["networks"]]
        cursor = page["next"]
    assert by_http == by_resp


def test_a_new_file_serves_by_itself_and_a_broken_one_is_told(serve, tmp_path, city):
    path = tmp_path / "city.mmdb"
    shutil.copy(city, path)
    server = serve("--config", config(tmp_path, ""))
    client = redis.Redis(port=server.resp, decode_responses=True)
    country = lambda: client.execute_command("IP.GET", "city", "10.0.0.1", "country.iso_code")

    build(tmp_path / "new.mmdb", rows("FR"))
    os.replace(tmp_path / "new.mmdb", path)

    def is_new():
        assert country() == ["FR"]

    eventually(is_new)
    path.write_bytes(city.read_bytes()[:50_000])

    def is_told():
        assert "'city' serves on as before" in server.log_text()
        assert 'whered_database_refused{database="city"} 1' in subprocess.run(
            [program("curl", "curl"), "-sS", server.url + "/metrics"], capture_output=True, text=True, timeout=20
        ).stdout

    eventually(is_told)
    assert country() == ["FR"]
    info = described(client)
    assert "city.mmdb" in info["last_reload_error"] and "50000 bytes" in info["last_reload_error_file"]
    code, _ = server.stop()
    assert code == 0


@pytest.mark.parametrize("mode", ["stream", "tree", "memory", "indexed"])
def test_a_file_cut_in_place_ends_no_server(serve, tmp_path, city, mode):
    path = tmp_path / "city.mmdb"
    shutil.copy(city, path)
    server = serve("--config", config(tmp_path, f"mode = '{mode}'\nreload = 'off'"))
    client = redis.Redis(port=server.resp, decode_responses=True)
    os.truncate(path, 1000)
    if mode in ("stream", "tree"):
        with pytest.raises(redis.ResponseError, match="database 'city': cannot be read at byte"):
            client.execute_command("IP.GET", "city", "10.1.2.3")
    else:
        assert client.execute_command("IP.GET", "city", "10.1.2.3", "country.iso_code") == ["DE"]
    assert client.ping() and server.process.poll() is None


def test_cutting_a_mapped_file_in_place_is_what_the_manual_warns_of(serve, tmp_path, city):
    path = tmp_path / "city.mmdb"
    shutil.copy(city, path)
    server = serve("--config", config(tmp_path, "mode = 'mmap'\nreload = 'off'"))
    client = redis.Redis(port=server.resp, decode_responses=True)
    assert client.execute_command("IP.GET", "city", "10.1.2.3", "country.iso_code") == ["DE"]
    os.replace(shutil.copy(city, tmp_path / "next.mmdb"), path)
    assert client.execute_command("IP.GET", "city", "10.15.0.3", "country.iso_code") == ["DE"], "renaming is harmless"
    assert "SIGBUS" in (REPOSITORY / "docs/guide/databases.md").read_text()


def test_wrong_configurations_are_one_line(tmp_path):
    for keys, words in [
        ("mode = 'ram'", "'mode' in [[database]] is 'ram'; allowed: stream, tree, mmap, memory, indexed"),
        ("reload = 'never'", "'reload' in [[database]] is 'never'; allowed: notify, poll, off"),
        ("fields = ['a..b']", "'fields' in [[database]] has 'a..b'; allowed: names between single dots"),
    ]:
        done = whered("check", config(tmp_path, keys))
        assert done.returncode == 2
        assert words in done.stderr and len(done.stderr.splitlines()) == 1
