"""BIND's `geoip` ACLs on our library: two client addresses, two countries, two views."""

import pathlib
import socket
import subprocess

import pytest
from conftest import BINARY, eventually, program
from library import environment, folder_with_ours, libraries_of, uses_ours

CONFIGURATION = """
options {{
    directory "{folder}";
    pid-file "{folder}/named.pid";
    session-keyfile "{folder}/session.key";
    managed-keys-directory "{folder}";
    geoip-directory "{folder}";
    listen-on port {port} {{ 127.0.0.1; }};
    listen-on-v6 {{ none; }};
    recursion no;
    dnssec-validation no;
    notify no;
}};
controls {{ }};
acl germany {{ geoip country DE; }};
acl berlin {{ geoip city "Berlin"; }};
acl network {{ geoip asnum "AS64500"; }};
view berlin {{ match-clients {{ berlin; }}; zone "example" {{ type primary; file "{folder}/berlin.zone"; }}; }};
view germany {{ match-clients {{ germany; }}; zone "example" {{ type primary; file "{folder}/germany.zone"; }}; }};
view network {{ match-clients {{ network; }}; zone "example" {{ type primary; file "{folder}/network.zone"; }}; }};
view other {{ match-clients {{ any; }}; zone "example" {{ type primary; file "{folder}/other.zone"; }}; }};
"""

ZONE = """$TTL 1
@ SOA ns hostmaster 1 3600 600 86400 1
@ NS ns
ns A 127.0.0.1
@ TXT "{view}"
"""

CITIES = """network,country.iso_code,country.names.en,city.names.en
127.0.0.2/32,DE,Germany,Frankfurt
127.0.0.3/32,DE,Germany,Berlin
127.0.0.4/32,FR,France,Paris
"""

NETWORKS = """network,autonomous_system_number:uint32,autonomous_system_organization
127.0.0.4/32,64500,Example
127.0.0.5/32,64501,Other
"""

EXPECTED = {
    "127.0.0.1": "other",
    "127.0.0.2": "germany",
    "127.0.0.3": "berlin",
    "127.0.0.4": "network",
    "127.0.0.5": "other",
}


def free_port():
    with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        stream.bind(("127.0.0.1", 0))
        datagrams.bind(stream.getsockname())
        return stream.getsockname()[1]


def build(folder, rows, database_type, *names):
    source = folder / "rows.csv"
    source.write_text(rows)
    for name in names:
        command = [BINARY, "db", "build", source, "-o", folder / name, "--database-type", database_type]
        subprocess.run(command, check=True, capture_output=True, timeout=30)


@pytest.fixture
def folder(tmp_path):
    build(tmp_path, CITIES, "GeoLite2-City", "GeoLite2-City.mmdb")
    build(tmp_path, CITIES, "GeoLite2-Country", "GeoLite2-Country.mmdb")
    build(tmp_path, NETWORKS, "GeoLite2-ASN", "GeoLite2-ASN.mmdb")
    for view in ["berlin", "germany", "network", "other"]:
        (tmp_path / f"{view}.zone").write_text(ZONE.format(view=view))
    return tmp_path


def ask(port, source):
    command = [program("dig", "bind9-dnsutils"), "+short", "+time=2", "+tries=1", "@127.0.0.1", "-p", str(port)]
    done = subprocess.run(
        [*command, "-b", source, "example", "TXT"], capture_output=True, text=True, timeout=20
    )
    return done.stdout.strip().strip('"')


@pytest.mark.parametrize("whose", ["ours", "original"])
def test_each_client_meets_the_view_of_its_country(folder, whose):
    named = program("named", "bind9")
    library_folder = folder_with_ours(folder) if whose == "ours" else None
    port = free_port()
    configuration = folder / "named.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, port=port))
    log = open(folder / "named.log", "wb")
    process = subprocess.Popen(
        [named, "-g", "-n", "2", "-c", configuration],
        env=environment(library_folder),
        stdout=log,
        stderr=log,
    )
    try:

        def is_up():
            assert process.poll() is None, pathlib.Path(log.name).read_text()
            assert ask(port, "127.0.0.1") == "other"

        eventually(is_up, seconds=30)
        check(port, EXPECTED)
        if whose == "ours":
            assert uses_ours(process.pid, library_folder)
        else:
            assert libraries_of(process.pid)
    finally:
        process.terminate()
        process.wait(timeout=20)
        log.close()
    assert process.returncode == 0, pathlib.Path(log.name).read_text()


def check(port, expected):
    assert {source: ask(port, source) for source in expected} == expected
