"""The program by hand: lookups on real files, configuration checks, and how it starts and stops."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess

import pytest
import redis

from conftest import BINARY, REPOSITORY, REQUIRED, eventually

GEOIP = pathlib.Path("/usr/share/GeoIP/GeoIP.dat")


def whered(*arguments, stdin=None, cwd=None):
    return subprocess.run(
        [BINARY, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=30, cwd=cwd
    )


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    path = tmp_path_factory.mktemp("city") / "city.mmdb"
    rows = REPOSITORY / "crates/whered/demo/addresses.csv"
    done = whered("db", "build", rows, "-o", path)
    assert done.returncode == 0, done.stderr
    return path


def test_debians_legacy_country_file_says_where_8_8_8_8_is():
    if not GEOIP.exists():
        if "peers" in REQUIRED:
            pytest.fail("package geoip-database is not installed")
        pytest.skip("package geoip-database is not installed")
    done = whered("lookup", "--db", GEOIP, "8.8.8.8")
    assert done.returncode == 0
    assert json.loads(done.stdout)["record"]["country"]["iso_code"] == "US"
    done = whered("lookup", "--db", GEOIP.with_name("GeoIPv6.dat"), "--field", "country.iso_code", "--format", "csv", "2001:4860::8888")
    assert done.stdout == "2001:4860::8888,US\n"


def test_formats_fields_and_exit_codes(city):
    done = whered("lookup", "--db", city, "--format", "text", "--field", "city.names.en", "8.8.8.8")
    assert (done.returncode, done.stdout) == (0, "8.8.8.8: Mountain View\n")
    done = whered("lookup", "--db", city, "--format", "csv", "--field", "country.iso_code", "--field", "autonomous_system_organization", stdin="192.0.2.1\n100.64.0.1\n")
    assert (done.returncode, done.stdout) == (0, "192.0.2.1,DE,Documentation (TEST-NET-1)\n100.64.0.1,,\n")
    assert whered("lookup", "--db", city, "100.64.0.1").returncode == 1
    done = whered("lookup", "--db", city, "nonsense")
    assert done.returncode == 2
    assert "'nonsense' is no IP address" in done.stderr
    done = whered("lookup", "--db", city, "--explain", "8.8.8.8")
    assert json.loads(done.stdout)["prefix"] == "8.8.8.0/24"


def test_a_closed_pipe_is_no_failure(city):
    addresses = "8.8.8.8\n" * 50000
    command = f"'{BINARY}' lookup --db '{city}' | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], input=addresses, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_wrong_files_give_one_line_each(tmp_path, city):
    (tmp_path / "empty.mmdb").write_bytes(b"")
    (tmp_path / "cut.mmdb").write_bytes(city.read_bytes()[:-40])
    (tmp_path / "rows.csv").write_text("network,location.latitude:double\n10.0.0.0/8,north\n")
    for arguments in [
        ("db", "info", "empty.mmdb"),
        ("db", "verify", "cut.mmdb"),
        ("db", "info", "missing.mmdb"),
        ("db", "build", "rows.csv", "-o", "out.mmdb"),
        ("lookup", "--db", "empty.mmdb", "8.8.8.8"),
        ("check", "missing.toml"),
        ("serve", "--config", "missing.toml"),
    ]:
        done = whered(*arguments, cwd=tmp_path)
        assert done.returncode == 2, arguments
        assert len(done.stderr.splitlines()) == 1, (arguments, done.stderr)
        assert "panicked" not in done.stderr
    assert not (tmp_path / "out.mmdb").exists()


def test_info_and_verify_describe_a_good_file(city):
    assert "whered-City" in whered("db", "info", city).stdout
    assert ": ok (" in whered("db", "verify", city).stdout


def test_check_names_file_line_and_what_is_allowed(tmp_path):
    config = tmp_path / "edge.toml"
    config.write_text('[resp]\nlisten = ["127.0.0.1:0"]\nlisten_on = "x"\n')
    done = whered("check", config)
    assert done.returncode == 2
    assert f"{config}:3" in done.stderr and "listen_on" in done.stderr and "allowed" in done.stderr
    config.write_text('[resp]\nlisten = ["127.0.0.1:0"]\n')
    assert whered("check", config).returncode == 0


def test_a_second_server_on_the_same_data_is_refused_and_told_who_holds_it(serve):
    first = serve("--demo", "--data-dir", "data")
    done = whered("serve", "--demo", "--data-dir", "data", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--dns", "127.0.0.1:0", cwd=first.cwd)
    assert done.returncode == 2
    assert str(first.process.pid) in done.stderr
    assert redis.Redis(port=first.resp).ping()


def test_sigterm_stops_cleanly_within_five_seconds(serve):
    server = serve("--data-dir", "data")
    with redis.Redis(port=server.resp) as client:
        client.geoadd("k", [1, 2, "m"])
    code, seconds = server.stop()
    assert code == 0
    assert seconds < 5
    again = serve("--data-dir", "data")
    with redis.Redis(port=again.resp) as client:
        assert client.zcard("k") == 1


def test_a_reload_takes_a_new_file_and_refuses_a_broken_one(serve, tmp_path, city):
    config = tmp_path / "edge.toml"
    target = tmp_path / "geo.mmdb"
    target.write_bytes(city.read_bytes())
    config.write_text('[[database]]\nname = "geo"\npath = "geo.mmdb"\n')
    server = serve("--config", config)
    with redis.Redis(port=server.resp) as client:
        def country():
            return client.execute_command("IP.GET", "geo", "8.8.8.8", "country.iso_code")[0]

        assert country() == b"US"
        rows = tmp_path / "rows.csv"
        rows.write_text("network,country.iso_code\n8.8.8.0/24,XX\n")
        assert whered("db", "build", rows, "-o", target).returncode == 0
        server.reload()

        def new_answer():
            assert country() == b"XX"

        eventually(new_answer)
        os.replace(rows, target)
        server.reload()

        def refused():
            assert "not reloaded" in server.log_text()

        eventually(refused)
        assert country() == b"XX"


def one_line(done):
    """The one line on standard error of a failure."""
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("whered: "), done.stderr
    return lines[0]


def test_wrong_arguments_are_one_line_too():
    assert "'sreve'" in one_line(whered("sreve"))
    assert "json, text, csv" in one_line(whered("lookup", "--format", "xml", "8.8.8.8"))
    assert "127.0.0.1:6380" in one_line(whered("serve", "--resp", "localhost:6380"))


def test_one_wrong_address_is_one_line_with_its_place_and_does_not_end_the_list(city):
    assert "'nonsense'" in one_line(whered("lookup", "--db", city, "nonsense"))
    arguments = ("lookup", "--db", city, "--format", "csv", "--field", "country.iso_code")
    done = whered(*arguments, stdin="8.8.8.8\n8.8.8\n" + "x" * 5000 + "\n1.1.1.1\n")
    assert done.stdout == "8.8.8.8,US\n1.1.1.1,AU\n"
    assert [line.split(" ")[2].split(":")[0] for line in done.stderr.splitlines()] == ["input", "input"]
    assert "standard input:2: '8.8.8'" in done.stderr and "standard input:3: 'xxx" in done.stderr
    raw = subprocess.run([BINARY, *map(str, arguments)], input=b"\xff\xfe\n8.8.8.8\n", capture_output=True, timeout=30)
    assert (raw.returncode, raw.stdout) == (2, b"8.8.8.8,US\n")
    assert b"standard input:1: " in raw.stderr


def test_explain_reads_standard_input_when_no_address_is_given(city):
    done = whered("lookup", "--db", city, "--explain", stdin="8.8.8.8\n1.1.1.1\n")
    assert done.returncode == 0
    assert [json.loads(line)["question"]["address"] for line in done.stdout.splitlines()] == ["8.8.8.8", "1.1.1.1"]


def test_a_full_disk_under_standard_output_is_told(city):
    with open("/dev/full", "w") as full:
        done = subprocess.run([BINARY, "lookup", "--db", city, "8.8.8.8"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30)
    assert "standard output: " in one_line(done)


def test_building_replaces_files_only_and_leaves_nothing_behind_when_it_fails(tmp_path):
    rows = REPOSITORY / "crates/whered/demo/addresses.csv"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for target in ["pipe", "folder"]:
        assert f"{target}: is no regular file" in one_line(whered("db", "build", rows, "-o", target, cwd=tmp_path))
    one_line(whered("db", "build", rows, "-o", tmp_path / "missing/city.mmdb"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]


def test_a_pipe_in_a_files_place_stops_neither_the_reload_nor_the_server(serve, tmp_path, city):
    config = tmp_path / "edge.toml"
    (tmp_path / "geo.mmdb").write_bytes(city.read_bytes())
    config.write_text('[[database]]\nname = "geo"\npath = "geo.mmdb"\n')
    server = serve("--config", config)
    (tmp_path / "geo.mmdb").unlink()
    os.mkfifo(tmp_path / "geo.mmdb")
    server.reload()

    def refused():
        assert "geo.mmdb: is a pipe, a socket or a device" in server.log_text()

    eventually(refused)
    with redis.Redis(port=server.resp) as client:
        assert client.execute_command("IP.GET", "geo", "8.8.8.8", "country.iso_code") == [b"US"]
    assert server.stop()[0] == 0


def test_clients_cannot_use_up_the_descriptors_that_the_journal_needs(serve, tmp_path):
    config = tmp_path / "small.toml"
    config.write_text("[resp]\nthreads = 2\n[dns]\nthreads = 2\n[journal]\nsegment_size_bytes = 8192\n")
    server = serve("--config", config, "--data-dir", "data", under=["prlimit", "--nofile=150:150"])
    assert "the limit of 150 file descriptors allows max_clients" in server.log_text()
    clients = []
    with redis.Redis(port=server.resp) as first:
        first.ping()
        for _ in range(200):
            clients.append(socket.create_connection(("127.0.0.1", server.resp)))
        for number in range(300):
            assert first.geoadd("k", [1, 2, f"{number}-" + "x" * 200]) == 1
    for client in clients:
        client.close()
    assert "Too many open files" not in server.log_text()


def listening(pid):
    """The ports on which a process listens by TCP or takes datagrams."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    ports = set()
    for table, state in [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")]:
        rows = pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        for row in map(str.split, rows):
            if row[3] == state and f"socket:[{row[9]}]" in inodes:
                ports.add(int(row[1].rsplit(":", 1)[1], 16))
    return ports


@pytest.mark.parametrize(
    ("text", "flags", "doors"),
    [
        ("[resp]\nlisten = ['127.0.0.1:0']\n", [], ["resp"]),
        ("[http]\nlisten = ['127.0.0.1:0']\n", [], ["http"]),
        ("[resp]\nlisten = ['127.0.0.1:0']\n", ["--dns", "127.0.0.1:0"], ["resp", "dns"]),
        ("", ["--http", "127.0.0.1:0"], ["http"]),
        ("", [], []),
        (None, ["--resp", "127.0.0.1:0"], ["resp"]),
    ],
)
def test_only_listeners_with_a_section_or_a_flag_open_and_start_lines_name_them(tmp_path, text, flags, doors):
    arguments = list(flags)
    if text is not None:
        (tmp_path / "edge.toml").write_text(text)
        arguments += ["--config", "edge.toml"]
    with open(tmp_path / "log", "wb") as log:
        server = subprocess.Popen([BINARY, "serve", *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        lines = []
        for line in server.stdout:
            lines.append(line.rstrip("\n"))
            if lines[-1] == "ready":
                break
        assert [line.split(" ")[0] for line in lines] == [*doors, "ready"]
        ports = {int(line.rsplit(":", 1)[1]) for line in lines[:-1]}
        assert listening(server.pid) == ports
        assert ("nothing listens" in (tmp_path / "log").read_text()) == (not doors)
    finally:
        server.kill()
        server.wait(timeout=10)
        server.stdout.close()


def test_check_remarks_on_what_is_allowed_and_hardly_meant(tmp_path):
    user = "[[resp.user]]\nname = 'ann'\npassword = 'x'\ncommands = ['+cidr.match']\nkeys = ['b:*']\n"
    (tmp_path / "edge.toml").write_text(user)
    done = whered("check", "edge.toml", cwd=tmp_path)
    assert done.returncode == 0
    assert "edge.toml:1:1: remark: the user 'ann' may give CIDR.MATCH, but has no 'sets': they are refused\n" in done.stdout
    (tmp_path / "edge.toml").write_text("")
    done = whered("check", "edge.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout.count("remark: nothing listens")) == (0, 1)


def test_rules_by_command_with_bits_behind_a_prefix_are_in_the_log(serve):
    server = serve()
    client = redis.Redis(port=server.resp)
    client.execute_command("RULES.SET", "q", "OWN", "chain input policy drop {\n src 10.0.0.1/8 accept\n}\n")
    found = 'RULES.SET: line 2, column 6: found "10.0.0.1/8", which has bits set behind its length'
    eventually(lambda: found in server.log_text() or pytest.fail(server.log_text()))


def test_the_demo_reloads_on_sighup_and_ends_cleanly_on_sigterm(tmp_path):
    flags = ["--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--dns", "127.0.0.1:0"]
    command = [BINARY, "serve", "--demo", "--data-dir", str(tmp_path / "data"), *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            while server.stdout.readline() not in ("ready\n", ""):
                pass
            server.send_signal(signal.SIGHUP)
            with pytest.raises(subprocess.TimeoutExpired):
                server.wait(timeout=1)
            server.terminate()
            assert server.wait(timeout=20) == 0
        finally:
            server.kill()
