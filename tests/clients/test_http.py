"""curl against the HTTP door."""

import json
import subprocess

from conftest import REPOSITORY, program


def curl(server, path, *arguments):
    command = [program("curl", "curl"), "-sS", "-w", "\n%{http_code}", *arguments, server.url + path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    body, status = done.stdout.rsplit("\n", 1)
    return int(status), body


def fetch(server, path, *arguments):
    status, body = curl(server, path, *arguments)
    return status, json.loads(body)


def test_an_address_gives_its_record(demo):
    status, found = fetch(demo, "/v1/ip/8.8.8.8?db=city")
    assert status == 200
    assert found["prefix"] == "8.8.8.0/24"
    assert found["record"]["country"]["iso_code"] == "US"
    assert found["record"]["autonomous_system_number"] == 15169


def test_places_nearby_come_nearest_first(demo):
    status, found = fetch(demo, "/v1/collections/cities/near?longitude=8.68&latitude=50.11&radius_meters=200000&count=2")
    assert status == 200
    assert [hit["member"] for hit in found["hits"]] == ["Frankfurt", "Cologne"]
    assert found["hits"][0]["distance_meters"] < 1000


def test_every_mistake_has_a_message_and_its_field(demo):
    cases = [
        ("/v1/ip/999.1.1.1", 400),
        ("/v1/ip/8.8.8.8?db=nowhere", 404),
        ("/v1/ip/100.64.0.1?db=city", 404),
        ("/v1/ip/8.8.8.8?nonsense=1", 400),
        ("/v1/collections/cities/near?longitude=8.68&latitude=95&radius_meters=1", 400),
        ("/v1/collections/cities/near?longitude=8.68", 400),
        ("/v1/nothing", 404),
    ]
    for path, expected in cases:
        status, body = fetch(demo, path)
        assert status == expected, (path, body)
        assert set(body["error"]) == {"message", "field"}, path
        assert body["error"]["message"], path


def test_health_and_metrics(demo):
    assert fetch(demo, "/healthz")[0] == 200
    status, text = curl(demo, "/metrics")
    assert status == 200
    assert "whered_build_info" in text
    assert text.rstrip().endswith("# EOF")


def test_every_path_is_in_the_reference(demo):
    page = (REPOSITORY / "docs/reference/http.md").read_text()
    message = fetch(demo, "/v1/nothing")[1]["error"]["message"]
    paths = message.removeprefix("no such path; paths: ").split(", ")
    assert "/healthz" in paths and "/v1/tables/{table}/top" in paths
    assert [path for path in paths if f"| [`{path}`](" not in page] == []


def test_every_metric_is_in_the_reference_with_its_type(demo):
    page = (REPOSITORY / "docs/reference/metrics.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `whered_")]
    suffixes = {"counter": "_total", "info": "_info"}
    metrics = [line.split()[2:] for line in curl(demo, "/metrics")[1].splitlines() if line.startswith("# TYPE ")]
    assert len(metrics) > 80
    for name, kind in metrics:
        name += suffixes.get(kind, "")
        assert any(f"`{name}`" in row and f"| {kind} |" in row for row in rows), (name, kind)


def test_reasons_have_the_same_form_at_every_door(demo):
    keys = None
    for path in [
        "/v1/ip/8.8.8.8?explain=1",
        "/v1/collections/cities/near?longitude=8.68&latitude=50.11&radius_meters=200000&explain=1",
    ]:
        status, reasons = fetch(demo, path)
        assert status == 200
        keys = keys or list(reasons)
        assert list(reasons) == keys
    assert keys[0] == "question" and keys[-1] == "scope_length_bits"
