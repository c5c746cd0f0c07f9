"""redis-cli against a running server."""

import subprocess

from conftest import program


def redis_cli(server, *arguments, stdin=None):
    command = [program("redis-cli", "redis-tools"), "-p", str(server.resp), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demonstration_answers_near(demo):
    lines = redis_cli(
        demo, "GEOSEARCH", "cities", "FROMLONLAT", "8.68", "50.11", "BYRADIUS", "200", "km", "ASC"
    ).splitlines()
    assert lines == ["Frankfurt", "Cologne", "Stuttgart", "Strasbourg"]


def test_a_prefix_set_says_which_entry_matches(demo):
    out = redis_cli(demo, "CIDR.MATCH", "bogons", "10.1.2.3", "WITHVALUE")
    assert out.splitlines() == ["10.0.0.0/8", "private use (RFC 1918)"]


def test_commands_piped_in_are_all_answered(demo):
    commands = "".join(f"GEOADD piped {n % 180} {n % 80} member{n}\n" for n in range(2000))
    out = redis_cli(demo, "-n", "7", stdin=commands)
    assert out.split() == ["1"] * 2000
    assert redis_cli(demo, "-n", "7", "ZCARD", "piped").strip() == "2000"


def test_the_bulk_protocol_of_pipe_mode_works(demo):
    def frame(*words):
        return f"*{len(words)}\r\n" + "".join(f"${len(w)}\r\n{w}\r\n" for w in words)

    stdin = "".join(frame("GEOADD", "bulk", "1", "1", f"m{n}") for n in range(5000))
    out = redis_cli(demo, "-n", "8", "--pipe", stdin=stdin)
    assert "errors: 0, replies: 5000" in out


def test_info_tells_who_it_is(demo):
    info = redis_cli(demo, "INFO", "server")
    assert "whered_version:" in info
