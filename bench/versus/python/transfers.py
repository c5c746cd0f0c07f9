"""AXFR of a large zone and IXFR of changes, from Knot to whered, until the new zone is served.

    .venv/bin/python bench/versus/python/transfers.py --whered target/release/whered [--names 1000000]
        [--changes 1000] [--rounds 5] [--json FILE]

Needs knotd, dig and dnspython. Knot is the primary: it reads a zone's file, keeps the differences between
two files in its journal, and sends NOTIFY. Each round changes the file, reloads Knot, and measures
from Knot's NOTIFY (the moment at which Knot serves the new serial) until whered serves it; queries
are sent all the time, and one without an answer counts as lost. At the end both zones are compared
record by record, by AXFR from both.
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import dns.exception
import dns.message
import dns.query

ORIGIN = "large.test"


def free_port():
    """A port of loopback that nobody has, for UDP and TCP."""
    while True:
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            port = tcp.getsockname()[1]
            try:
                udp.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def write_zone(path, names, serial, changes):
    """Writes a zone whose first names have an address of their own for each serial."""
    with open(path, "w", encoding="ascii") as out:
        out.write(f"$ORIGIN {ORIGIN}.\n$TTL 3600\n@ SOA ns1 hostmaster {serial} 7200 900 1209600 900\n")
        out.write("@ NS ns1\nns1 A 192.0.2.1\n")
        for n in range(names):
            first = 10 + serial if n < changes else 10
            out.write(f"h{n:07d} A {first}.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}\n")


def serial_at(port, timeout=2.0):
    """The serial that a server gives; None when it has no zone or does not answer."""
    query = dns.message.make_query(ORIGIN, "SOA")
    try:
        answer = dns.query.udp(query, "127.0.0.1", port=port, timeout=timeout)
    except (dns.exception.DNSException, OSError):
        return None
    return answer.answer[0][0].serial if answer.answer else None


def wait_for(port, serial, limit=300.0):
    """The time at which a server first gives a serial."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if serial_at(port) == serial:
            return time.monotonic()
        time.sleep(0.001)
    sys.exit(f"serial {serial} did not come to port {port} in {limit:.0f} s")


class Questions(threading.Thread):
    """Asks a server one question after the other and counts those without an answer."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.asked, self.lost, self.ends = port, 0, 0, threading.Event()
        self.start()

    def run(self):
        query = dns.message.make_query(f"h0000000.{ORIGIN}", "A").to_wire()
        with socket.socket(type=socket.SOCK_DGRAM) as asker:
            asker.settimeout(5)
            asker.connect(("127.0.0.1", self.port))
            while not self.ends.wait(0.0005):
                asker.send(query)
                self.asked += 1
                try:
                    self.lost += asker.recv(1500)[3] & 15 != 0
                except TimeoutError:
                    self.lost += 1

    def end(self):
        self.ends.set()
        self.join()
        return self.asked, self.lost


def start_knot(folder, port, secondary):
    config = folder / "knot.conf"
    config.write_text(
        f'server:\n    rundir: "{folder}"\n    listen: 127.0.0.1@{port}\n'
        f'database:\n    storage: "{folder}"\n    journal-db-max-size: 2G\n'
        "log:\n  - target: stderr\n    any: warning\n"
        f"remote:\n  - id: second\n    address: 127.0.0.1@{secondary}\n"
        "acl:\n  - id: all\n    address: 127.0.0.1\n    action: transfer\n"
        f'zone:\n  - domain: {ORIGIN}\n    file: "{folder}/zone"\n    zonefile-load: difference\n'
        "    zonefile-sync: -1\n    journal-content: changes\n    semantic-checks: off\n"
        "    notify: second\n    acl: all\n"
    )
    return subprocess.Popen(["knotd", "-c", config])


def start_whered(binary, folder, port, primary):
    config = folder / "whered.toml"
    config.write_text(
        f'data_dir = "{folder}/data"\n[resp]\nlisten = []\n[http]\nlisten = []\n'
        f'[dns]\nlisten = ["127.0.0.1:{port}"]\n'
        f'[[zone]]\nname = "{ORIGIN}"\nprimaries = ["127.0.0.1:{primary}"]\n'
        'allow_transfer = ["127.0.0.1"]\n'
    )
    with open(folder / "whered.log", "w", encoding="utf-8") as log:
        return subprocess.Popen([binary, "serve", "--config", config], stdout=log, stderr=log)


def records(port):
    """All records of a zone. By dig: a server may close on a client that reads slowly."""
    command = ["dig", "@127.0.0.1", "-p", str(port), ORIGIN, "AXFR", "+noall", "+answer", "+onesoa"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {" ".join(line.split()) for line in answer.stdout.splitlines()}
    if len(found) < 3:
        sys.exit(f"no zone from port {port}: {answer.stdout[:200]}")
    return found


def measure(arguments, folder, own, primary_port):
    write_zone(folder / "zone", arguments.names, 1, arguments.changes)
    knot = start_knot(folder, primary_port, own)
    servers = [knot]
    try:
        wait_for(primary_port, 1)
        begun = time.monotonic()
        servers.append(start_whered(arguments.whered, folder, own, primary_port))
        axfr = wait_for(own, 1) - begun
        rounds, asked, lost = [], 0, 0
        for serial in range(2, arguments.rounds + 2):
            write_zone(folder / "zone", arguments.names, serial, arguments.changes)
            questions = Questions(own)
            os.kill(knot.pid, signal.SIGHUP)
            begun = wait_for(primary_port, serial)
            rounds.append(max(wait_for(own, serial) - begun, 0.0))
            counts = questions.end()
            asked, lost = asked + counts[0], lost + counts[1]
            time.sleep(1)
        if records(primary_port) != records(own):
            sys.exit("the zones differ")
        log = (folder / "whered.log").read_text(encoding="utf-8")
        return {"names": arguments.names, "changes": arguments.changes, "axfr_seconds": axfr,
                "ixfr_seconds": rounds, "asked": asked, "lost": lost, "log": log.splitlines()}
    finally:
        for server in servers:
            server.terminate()
            server.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--whered", required=True)
    parser.add_argument("--names", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="whered-transfers-") as folder:
        result = measure(arguments, pathlib.Path(folder), free_port(), free_port())
    print(f"AXFR of {arguments.names} names, from the start of the program: "
          f"{result['axfr_seconds']:.2f} s")
    rounds = ", ".join(f"{seconds:.3f}" for seconds in result["ixfr_seconds"])
    print(f"IXFR of {arguments.changes} changes: {rounds} s")
    print(f"queries meanwhile: {result['asked']}, lost: {result['lost']}")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
