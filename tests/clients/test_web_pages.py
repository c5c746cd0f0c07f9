"""What a web page, or another program that speaks HTTP, may send to a server on this machine."""

import json
import subprocess

import pytest
import redis
from conftest import eventually, program

FOREIGN = {
    "Host": "Host: evil.example",
    "Origin": "Origin: http://evil.example",
    "Sec-Fetch-Site": "Sec-Fetch-Site: cross-site",
}


def curl(*arguments):
    command = [program("curl", "curl"), "-sS", "--max-time", "15", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=20)


@pytest.mark.parametrize("method", ["POST", "GET", "PUT", "OPTIONS"])
def test_http_to_the_resp_port_runs_nothing_and_is_logged_with_its_peer(serve, method):
    server = serve()
    with redis.Redis(port=server.resp) as client:
        client.geoadd("k", [1, 1, "m"])
        body = "GEOADD pwned 1 1 m\r\nFLUSHALL\r\nBACKUP stolen\r\n"
        arguments = ["-X", method, "-H", "Content-Type: text/plain", "--data-binary", body]
        done = curl(*arguments, "-w", "%{local_port}", f"http://127.0.0.1:{server.resp}/")
        assert done.returncode != 0, done.stdout
        assert client.keys("*") == [b"k"]
        assert client.info("persistence") is not None
    port = done.stdout.rsplit("\n", 1)[-1]

    def is_logged():
        lines = [line for line in server.log_text().splitlines() if "has sent HTTP" in line]
        assert len(lines) == 1 and "WARN" in lines[0], lines
        assert f"peer: 127.0.0.1:{port}" in lines[0]

    eventually(is_logged)


def test_a_foreign_web_page_gets_nothing_over_http(demo):
    for path in ["/healthz", "/metrics", "/v1/databases", "/v1/ip/8.8.8.8"]:
        for field, line in FOREIGN.items():
            done = curl("-H", line, "-w", "\n%{http_code}", demo.url + path)
            body, status = done.stdout.rsplit("\n", 1)
            assert status == "403", (path, line)
            assert json.loads(body)["error"]["field"] == field
        for own in ["localhost", f"LOCALHOST.:{demo.http}", f"127.0.0.1:{demo.http}", "[::1]"]:
            done = curl("-H", f"Host: {own}", "-o", "/dev/null", "-w", "%{http_code}", demo.url + path)
            assert done.stdout == "200", (own, done)
