"""curl against the HTTP door."""

import ipaddress
import json
import re
import socket
import subprocess
from shutil import which

import pytest
from conftest import REPOSITORY, program

OPEN_METRICS = ["-H", "Accept: application/openmetrics-text;version=1.0.0"]


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
    status, found = fetch(demo, "/v1/ip/8.8.8.8?database=city")
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
        ("/v1/ip/8.8.8.8?database=nowhere", 404),
        ("/v1/ip/8.8.8.8?nonsense=1", 400),
        ("/v1/collections/cities/near?longitude=8.68&latitude=95&radius_meters=1", 400),
        ("/v1/collections/cities/near?longitude=8.68", 400),
        ("/v1/nothing", 404),
    ]
    for path, expected in cases:
        status, body = fetch(demo, path)
        assert status == expected, (path, body)
        assert set(body["error"]) == {"code", "message", "field"}, path
        assert body["error"]["message"], path


def test_an_address_without_a_record_is_an_answer(demo):
    status, body = fetch(demo, "/v1/ip/100.64.0.1?database=city")
    assert status == 200 and body["record"] is None
    assert ipaddress.ip_address("100.64.0.1") in ipaddress.ip_network(body["prefix"])


def test_every_error_code_is_one_of_the_document(demo):
    document = fetch(demo, "/openapi.json")[1]
    codes = set(document["components"]["schemas"]["ErrorCode"]["enum"])
    for path in ["/v1/ip/x", "/v1/ip/8.8.8.8?x=1", "/v1/databases/x", "/x", "/v1/sets/bogons/match"]:
        assert fetch(demo, path)[1]["error"]["code"] in codes, path
    assert fetch(demo, "/v1/ip", "-d", "{")[1]["error"]["code"] == "invalid_body"
    assert fetch(demo, "/healthz", "-X", "POST")[1]["error"]["code"] == "method_not_allowed"


def test_each_route_takes_exactly_the_parameters_of_the_document(demo):
    """A route names what it takes when it is asked for something else."""
    document = fetch(demo, "/openapi.json")[1]
    assert document["openapi"].startswith("3.1")
    checked = 0
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if not path.startswith("/v1/") or operation["operationId"] == "push_upload":
                continue
            values = {"address": "8.8.8.8", "name": "cities", "key": "a"}
            url = re.sub(r"{(\w+)}", lambda part: values.get(part[1], "1"), path)
            parameters = [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"]
            body = ["-d", "{}"] if method == "post" else []
            status, answer = fetch(demo, f"{url}?not_a_parameter=1", *body)
            assert status == 400, (method, path, answer)
            message = answer["error"]["message"]
            assert message.startswith("unknown parameter 'not_a_parameter'; allowed: "), (method, path, message)
            allowed = message.partition("allowed: ")[2]
            assert set(filter(None, allowed.split(", "))) == set(parameters), (method, path)
            checked += 1
    assert checked >= 20


def test_old_names_still_work_and_say_the_new_ones(demo):
    old = curl(demo, "/v1/sets/bogons/match?addr=10.1.2.3", "-i")[1]
    assert "deprecation: true" in old and "'addr' is now 'address'" in old, old
    new = curl(demo, "/v1/sets/bogons/match?address=10.1.2.3", "-i")[1]
    assert "deprecation" not in new
    assert json.loads(old.splitlines()[-1])["match"] == json.loads(new.splitlines()[-1])["match"]


def test_many_addresses_get_what_each_gets_alone(demo):
    addresses = ["8.8.8.8", "100.64.0.1", "2001:db8::1", "x"]
    status, body = fetch(demo, "/v1/ip", "-d", json.dumps({"addresses": addresses}))
    assert status == 200 and len(body["answers"]) == 4
    for address, answer in zip(addresses, body["answers"], strict=True):
        alone = fetch(demo, f"/v1/ip/{address}")[1]
        assert {**answer, "database": "city"} == alone or answer["error"] == alone["error"]
    status, body = fetch(demo, "/v1/sets/bogons/match", "-d", json.dumps({"addresses": addresses}))
    assert status == 200
    assert [answer.get("match", {}) is None for answer in body["answers"]].count(True) >= 1


def test_curl_gets_compressed_answers(demo):
    plain = curl(demo, "/openapi.json")[1]
    packed = curl(demo, "/openapi.json", "--compressed", "-D", "-")[1]
    head, _, body = packed.replace("\r\n", "\n").partition("\n\n")
    assert "content-encoding: " in head.lower(), head
    assert body.strip() == plain.strip()


def test_a_client_that_closes_early_harms_nobody(demo):
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n"
    for count in [1, 20, len(request)] * 20:
        with socket.create_connection(("127.0.0.1", demo.http), timeout=5) as client:
            client.sendall(request[:count])
    assert curl(demo, "/healthz")[0] == 200


def test_health_and_metrics(demo):
    for path in ["/healthz", "/readyz"]:
        status, text = curl(demo, path)
        assert status == 200 and text.endswith("\n"), text
    status, text = curl(demo, "/metrics", *OPEN_METRICS)
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
    rows = [line for line in page.splitlines() if line.startswith(("| `whered_", "| `process_"))]
    suffixes = {"counter": "_total", "info": "_info"}
    text = curl(demo, "/metrics", *OPEN_METRICS)[1]
    metrics = [line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len(metrics) > 80
    for name, kind in metrics:
        name += suffixes.get(kind, "")
        assert any(f"`{name}`" in row and f"| {kind} |" in row for row in rows), (name, kind)


def test_both_text_formats_of_metrics_have_the_same_samples(demo):
    def samples(text):
        return {line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")}

    new, old = curl(demo, "/metrics", *OPEN_METRICS)[1], curl(demo, "/metrics")[1]
    assert "# EOF" not in old and len(samples(old)) > 200
    # The request for the first is counted in the second.
    assert {name for name in samples(new) ^ samples(old) if "/metrics" not in name} == set()
    types = dict(line.split()[2:] for line in old.splitlines() if line.startswith("# TYPE "))
    assert types["whered_http_requests_total"] == "counter" and types["whered_build_info"] == "gauge"


def test_metrics_and_alerts_are_clean_for_promtool(demo):
    if not which("promtool"):
        pytest.skip("promtool is not installed (package prometheus)")
    text = curl(demo, "/metrics")[1]
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=30)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    rules = REPOSITORY / "packaging/prometheus/whered.rules.yml"
    checked = subprocess.run(["promtool", "check", "rules", rules], capture_output=True, text=True, timeout=30)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_metric_of_the_dashboard_and_the_alerts_exists():
    page = (REPOSITORY / "docs/reference/metrics.md").read_text()
    known = set(re.findall(r"`((?:whered|process)_[a-z_]+)`", page))
    dashboard = json.loads((REPOSITORY / "packaging/grafana/whered.json").read_text())
    questions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(questions) > 20
    alerts = (REPOSITORY / "packaging/prometheus/whered.rules.yml").read_text()
    questions += re.findall(r"^ +expr: (.*)$", alerts, re.MULTILINE)
    for question in questions:
        for name in re.findall(r"(?:whered|process)_[a-z_]+", question):
            assert name.removesuffix("_bucket") in known, question


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
