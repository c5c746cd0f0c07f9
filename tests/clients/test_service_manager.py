"""What a service manager does with the program: sockets that it passes on, and the unit that it reads."""

import os
import pathlib
import socket
import subprocess
import urllib.request

import pytest

from conftest import BINARY, eventually, program

UNIT = pathlib.Path(__file__).parents[2] / "packaging/systemd/whered.service"
FIRST = 3


def configuration(folder, http, dns):
    path = folder / "whered.toml"
    path.write_text(
        f'[resp]\nlisten = []\n[http]\nlisten = ["{http}"]\n[dns]\nlisten = [{dns}]\nthreads = 2\n'
        '[[zone]]\nname = "example.com"\npath = "example.zone"\n'
    )
    (folder / "example.zone").write_text("$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n")
    return path


def activated(path, sockets, **options):
    """Starts the program with sockets from descriptor 3 on, as a service manager does."""

    def place():
        # First out of the way of each other, then where they are looked for.
        moved = [os.dup2(s.fileno(), 100 + number) for number, s in enumerate(sockets)]
        for number, descriptor in enumerate(moved):
            os.dup2(descriptor, FIRST + number)

    words = ["sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh", BINARY, "serve", "--config", path]
    return subprocess.Popen(
        list(map(str, words)),
        env={**os.environ, "LISTEN_FDS": str(len(sockets))},
        pass_fds=[FIRST + number for number in range(len(sockets))],
        preexec_fn=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def bound(kind, port=0):
    found = socket.socket(socket.AF_INET, kind)
    found.bind(("127.0.0.1", port))
    if kind == socket.SOCK_STREAM:
        found.listen()
    return found


def address(of):
    return "%s:%d" % of.getsockname()


def both():
    """A port of TCP and the same of UDP."""
    while True:
        tcp = bound(socket.SOCK_STREAM)
        try:
            return tcp, bound(socket.SOCK_DGRAM, tcp.getsockname()[1])
        except OSError:
            tcp.close()


def test_sockets_that_are_passed_serve_whatever_their_order(tmp_path):
    http, (tcp, udp) = bound(socket.SOCK_STREAM), both()
    path = configuration(tmp_path, address(http), f'"{address(tcp)}"')
    # What comes before the start waits in the sockets.
    question = bytes.fromhex("123401000001000000000000026e73076578616d706c6503636f6d0000010001")
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.settimeout(10)
    client.sendto(question, udp.getsockname())
    process = activated(path, [udp, http, tcp])
    try:
        answer = client.recv(512)
        assert answer[:2] == question[:2] and answer[-4:] == bytes([192, 0, 2, 1])
        with urllib.request.urlopen(f"http://{address(http)}/healthz", timeout=10) as reply:
            assert reply.status == 200
        with socket.create_connection(tcp.getsockname(), timeout=10) as stream:
            stream.sendall(len(question).to_bytes(2, "big") + question)
            length = int.from_bytes(stream.recv(2), "big")
            assert stream.recv(length)[-4:] == bytes([192, 0, 2, 1])
    finally:
        process.kill()
        process.communicate()


def test_a_socket_that_no_door_wants_ends_the_start(tmp_path):
    http, other = bound(socket.SOCK_STREAM), bound(socket.SOCK_STREAM)
    process = activated(configuration(tmp_path, address(http), ""), [http, other])
    _, said = process.communicate(timeout=20)
    assert process.returncode == 2
    assert f"no door is configured for TCP {address(other)}" in said


def test_systemd_passes_its_socket_on_with_the_first_connection(tmp_path):
    activate = program("systemd-socket-activate", "systemd")
    free = bound(socket.SOCK_STREAM)
    port = free.getsockname()[1]
    free.close()
    path = configuration(tmp_path, f"127.0.0.1:{port}", "")
    process = subprocess.Popen(
        [activate, "-l", f"127.0.0.1:{port}", str(BINARY), "serve", "--config", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:

        def healthy():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as reply:
                    assert reply.status == 200
            except OSError as error:
                raise AssertionError(error) from error

        eventually(healthy)
    finally:
        process.kill()
        process.communicate()


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    analyze = program("systemd-analyze", "systemd")
    unit = tmp_path / "whered.service"
    # The program is not installed here; everything else is as it is shipped.
    unit.write_text(UNIT.read_text().replace("/usr/bin/whered", str(BINARY.resolve())))
    done = subprocess.run(
        [analyze, "verify", "--man=no", unit], capture_output=True, text=True, timeout=60
    )
    complaints = [line for line in done.stderr.splitlines() if "whered" in line]
    if done.returncode != 0 and not complaints:
        pytest.skip(f"systemd-analyze does not work here: {done.stderr.strip()}")
    assert not complaints, done.stderr
