"""The command line as a whole: status, reload and stop, passwords, terminals, old spellings."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from conftest import BINARY, program

PASSWORD = "open sesame 4711"


def run(*arguments, cwd=None, env=None, stdin=""):
    environment = {name: value for name, value in os.environ.items() if name not in ("WHERED_PASSWORD", "REDISCLI_AUTH", "WHERED_TOKEN")}
    command = [BINARY, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env={**environment, **(env or {})}, input=stdin, capture_output=True, text=True, timeout=60)


class Served:
    """A server of its own in a folder."""

    def __init__(self, folder, resp="", rest=""):
        self.folder = folder
        (folder / "whered.toml").write_text(f'data_dir = "data"\n[resp]\nlisten = ["127.0.0.1:0"]\n{resp}\n[http]\nlisten = ["127.0.0.1:0"]\n{rest}')
        command = [BINARY, "serve", "--config", folder / "whered.toml"]
        self.log = open(folder / "log", "w")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.addresses = {}
        for line in self.process.stdout:
            if line == "ready\n":
                break
            door, address = line.split()
            self.addresses[door] = address

    @property
    def url(self):
        return f"redis://{self.addresses['resp']}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()


def test_status_tells_of_a_server_and_ends_with_1_where_none_answers(tmp_path):
    with Served(tmp_path) as served:
        done = run("status", "--server", served.url)
        assert done.returncode == 0 and re.search(rf"^pid +{served.process.pid}$", done.stdout, re.M), done
        status = json.loads(run("status", "--server", served.url, "--json").stdout)
        assert status["pid"] == served.process.pid and status["uptime_seconds"] >= 0 and status["version"]
    done = run("status", "--server", served.url)
    assert done.returncode == 1 and done.stdout == "" and len(done.stderr.splitlines()) == 1, done


POOL = """[dns]
listen = ["127.0.0.1:0"]
[[zone]]
name = "example.com"
path = "example.com.zone"
[[pool]]
name = "www/eu"
owners = ["www.example.com"]
[[pool.site]]
name = "fra"
at = { longitude = 8.68, latitude = 50.11 }
addresses = ["203.0.113.1"]
"""


def test_steering_is_explained_by_resp_and_http_alike(tmp_path):
    (tmp_path / "example.com.zone").write_text("$TTL 60\n@ SOA ns1 host 1 2 3 4 60\n@ NS ns1\nns1 A 192.0.2.1\n")
    with Served(tmp_path, rest=POOL) as served:
        answers = []
        for url in (served.url, f"http://{served.addresses['http']}"):
            done = run("steer", "explain", "www/eu", "--client", "192.0.2.1", "--server", url, "--json")
            assert done.returncode == 0 and done.stderr == "", done
            answers.append(json.loads(done.stdout))
        assert answers[0] == answers[1] and answers[0]["choice"] == "fra"
        done = run("steer", "explain", "none", "--client", "192.0.2.1", "--server", url)
        assert done.returncode == 2 and "no such pool 'none'" in done.stderr, done


@pytest.mark.parametrize("url", ["redis://127.0.0.1:6380", "rediss://me:secret@edge", "unix:///run/resp.sock"])
def test_feeds_say_that_they_are_reached_by_http_alone(tmp_path, url):
    (tmp_path / "a").write_text("{}\n")
    for words in (["feeds"], ["ingest", "sightings", tmp_path / "a"]):
        done = run(*words, "--server", url)
        assert done.returncode == 2 and done.stdout == "", done
        (line,) = done.stderr.splitlines()
        assert "reached by HTTP alone; allowed: --server http://HOST[:PORT]" in line and "secret" not in line


@pytest.mark.parametrize("way", ["server", "data_dir"])
def test_reload_says_what_serves_now_or_why_it_was_refused(tmp_path, way):
    with Served(tmp_path) as served:
        where = ["--server", served.url] if way == "server" else ["--data-dir", tmp_path / "data"]
        for _ in range(2):
            done = run("reload", *where)
            assert done.returncode == 0 and done.stdout.startswith("reloaded: generation "), done
        assert json.loads(run("reload", *where, "--json").stdout)["reloaded"] is True
        with open(tmp_path / "whered.toml", "a") as file:
            file.write("[nonsense]\n")
        done = run("reload", *where)
        assert done.returncode == 2 and done.stdout == "", done
        assert re.search(r"not reloaded, serving on as before: .*/whered.toml(:\d+)*: .*nonsense", done.stderr), done
        assert len(done.stderr.splitlines()) == 1
        assert run("status", "--server", served.url).returncode == 0
    assert run("reload", "--data-dir", tmp_path / "data").returncode == 1
    assert run("reload", "--data-dir", tmp_path / "absent").returncode == 2


@pytest.mark.parametrize("way", ["server", "data_dir"])
def test_stop_waits_until_the_process_has_ended_and_keeps_what_was_acknowledged(tmp_path, way):
    with Served(tmp_path) as served:
        where = ["--server", served.url] if way == "server" else ["--data-dir", tmp_path / "data"]
        (tmp_path / "points.csv").write_text("id,lon,lat\na,8.7,50.1\n")
        assert run("import", "points", tmp_path / "points.csv", "--key", "k", "--server", served.url).returncode == 0
        done = run("stop", *where)
        state = Path(f"/proc/{served.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        assert state == "Z", "nobody has waited for it yet, and it has ended"
        assert done.returncode == 0 and "stopped after" in done.stdout, done
        assert served.process.wait() == 0
        again = run("stop", *where)
        assert again.returncode == 1 and len(again.stderr.splitlines()) == 1, again
    with Served(tmp_path) as served:
        done = run("export", "k", "-o", "-", "--format", "csv", "--server", served.url)
        assert "a," in done.stdout, done
        status = json.loads(run("stop", "--json", "--server", served.url).stdout)
        assert status["stopped"] and status["has_ended"] and status["pid"] == served.process.pid


def test_a_password_comes_from_file_or_environment_and_is_never_shown(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD + "\n")
    with Served(tmp_path, resp=f'password = "{PASSWORD}"') as served:
        host = served.addresses["resp"]
        for arguments, env in [
            (["--password-file", secret], {}),
            ([], {"WHERED_PASSWORD": PASSWORD}),
            ([], {"REDISCLI_AUTH": PASSWORD}),
            ([], {"WHERED_PASSWORD": PASSWORD, "REDISCLI_AUTH": "wrong"}),
            (["--password-file", secret], {"WHERED_PASSWORD": "wrong"}),
        ]:
            done = run("status", "--server", served.url, *arguments, env=env)
            assert done.returncode == 0 and done.stderr == "", done
        quoted = PASSWORD.replace(" ", "%20")
        done = run("status", "--server", f"redis://:{quoted}@{host}")
        assert done.returncode == 0 and "remark: a password in a URL" in done.stderr, done
        for arguments, env in [
            (["--server", f"redis://:not-{quoted}@{host}"], {}),
            (["--server", served.url], {"WHERED_PASSWORD": f"not-{PASSWORD}"}),
            (["--server", served.url], {}),
            (["--server", f"redis://:{quoted}@{host}", "--password-file", secret], {}),
            (["--server", f"redis://:{quoted}@127.0.0.1:1"], {}),
            (["--server", f"redis://:{quoted}@"], {}),
        ]:
            done = run("status", *arguments, env=env)
            assert done.returncode in (1, 2), done
            for word in (PASSWORD, quoted):
                assert word not in done.stdout + done.stderr, done
        empty = tmp_path / "empty"
        empty.write_text("\n")
        assert "has no password" in run("status", "--server", served.url, "--password-file", empty).stderr


def test_a_password_of_the_environment_is_left_out_where_none_is_wanted(tmp_path):
    with Served(tmp_path) as served:
        assert run("status", "--server", served.url, env={"REDISCLI_AUTH": "x"}).returncode == 0
        secret = tmp_path / "secret"
        secret.write_text("x")
        assert run("status", "--server", served.url, "--password-file", secret).returncode == 2


def test_old_spellings_work_and_are_remarked_on(tmp_path):
    (tmp_path / "rows.csv").write_text("network,a\n192.0.2.0/24,1\n")
    (tmp_path / "a.rules").write_text("chain input policy drop {\n  src 10.0.0.0/8 accept\n}\n")
    done = run("db", "build", "rows.csv", "a.mmdb", cwd=tmp_path)
    assert done.returncode == 0 and "remark: the last operand of `whered db build` is now --output" in done.stderr, done
    done = run("rules", "convert", "a.rules", "--format", "own", "--to", "nft", cwd=tmp_path)
    assert done.returncode == 0 and "table inet" in done.stdout and done.stderr.count("remark:") == 2, done
    done = run("rules", "explain", "a.rules", "--src", "10.0.0.1", "--dst", "192.0.2.1", "--proto", "tcp", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr.count("remark:") == 3, done
    done = run("enrich", "--db", "a.mmdb", "--field", "a", "--output-format=ndjson", cwd=tmp_path, stdin="ip\n192.0.2.1\n")
    assert json.loads(done.stdout)["a"] == 1 and "remark: --output-format is now --format" in done.stderr, done


def test_a_rehearsal_of_sync_ends_by_itself(tmp_path):
    (tmp_path / "list").write_text("192.0.2.0/24\n")
    done = run("sync", "--file", "list", "--to", "nft:inet/filter/blocked", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0 and "add element inet filter blocked" in done.stdout, done


def on_a_terminal(arguments, env, stdin):
    """What a command draws on a terminal of 40 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    process = subprocess.Popen([BINARY, *map(str, arguments)], stdin=stdin, stdout=subprocess.DEVNULL, stderr=theirs, env={**os.environ, **env})
    os.close(theirs)
    drawn = b""
    try:
        while chunk := os.read(ours, 65536):
            drawn += chunk
    except OSError:
        pass
    os.close(ours)
    return process.wait(), drawn.decode()


@pytest.fixture
def many_rows(tmp_path):
    rows = "".join(f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}/32,{n}\n" for n in range(300_000))
    (tmp_path / "rows.csv").write_text("network,a\n" + rows)
    return tmp_path / "rows.csv"


def test_bars_fit_a_terminal_of_40_columns_and_a_dumb_one_has_none(tmp_path, many_rows):
    build = ["db", "build", many_rows, "-o", tmp_path / "a.mmdb"]
    code, drawn = on_a_terminal(build, {"TERM": "xterm"}, subprocess.DEVNULL)
    assert code == 0 and "\x1b[" in drawn
    for line in re.split(r"[\r\n]|\x1b\[[0-9;]*[A-Za-z]", drawn):
        assert len(line) <= 40, line
    code, drawn = on_a_terminal(build, {"TERM": "dumb"}, subprocess.DEVNULL)
    assert code == 0 and drawn == ""


def test_colours_of_the_log_are_for_terminals_that_want_them(tmp_path):
    for env, has_colours in [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"TERM": "xterm", "NO_COLOR": ""}, True)]:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        (folder / "a.toml").write_text('data_dir = "data"\n[resp]\nlisten = ["127.0.0.1:0"]\n')
        ours, theirs = pty.openpty()
        environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        process = subprocess.Popen([BINARY, "serve", "--config", folder / "a.toml"], stdout=subprocess.PIPE, stderr=theirs, env={**environment, **env}, text=True)
        os.close(theirs)
        assert any(line == "ready\n" for line in process.stdout)
        process.terminate()
        process.wait()
        drawn = os.read(ours, 65536).decode()
        os.close(ours)
        assert ("\x1b[" in drawn) == has_colours, (env, drawn)


def certificate(folder, name, *, authority=None):
    """Makes a key and a certificate for 127.0.0.1, of an authority or one itself."""
    key, pem = folder / f"{name}.key", folder / f"{name}.pem"
    names = "basicConstraints=critical,CA:TRUE" if authority is None else "subjectAltName=IP:127.0.0.1"
    command = [program("openssl", "openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    signed = ["-CA", folder / f"{authority}.pem", "-CAkey", folder / f"{authority}.key"] if authority else []
    command += ["-subj", f"/CN={name}", "-addext", names, *signed, "-keyout", key, "-out", pem]
    if authority:
        command += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=30)
    return pem, key


def test_a_server_is_asked_over_tls_and_only_if_its_certificate_is_trusted(tmp_path):
    authority, _ = certificate(tmp_path, "ca")
    other, _ = certificate(tmp_path, "other")
    pem, key = certificate(tmp_path, "server", authority="ca")
    client, client_key = certificate(tmp_path, "client", authority="ca")
    tls = f'[resp.tls]\nlisten = ["127.0.0.1:0"]\ncertificate = "{pem}"\nkey = "{key}"\nclient_ca = "{authority}"\nclient_certificate = "optional"\n'
    with Served(tmp_path, rest=tls) as served:
        url = f"rediss://{served.addresses['resp-tls']}"
        identity = ["--cert-file", client, "--key-file", client_key]
        for arguments, env in [
            (["--ca-file", authority], {}),
            ([], {"SSL_CERT_FILE": str(authority)}),
            (["--ca-file", authority, *identity], {}),
        ]:
            done = run("status", "--server", url, *arguments, env=env)
            assert done.returncode == 0, done
        for arguments in [["--ca-file", other], ["--ca-file", key], ["--ca-file", tmp_path / "absent"], ["--cert-file", client]]:
            done = run("status", "--server", url, *arguments)
            assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done
        assert run("status", "--server", f"rediss://{served.addresses['resp']}", "--ca-file", authority).returncode == 2
        assert run("stop", "--server", url, "--ca-file", authority).returncode == 0
        assert served.process.wait() == 0
