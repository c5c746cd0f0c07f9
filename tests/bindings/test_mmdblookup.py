"""Debian's `mmdblookup` prints the same, byte for byte, with our library as with its own."""

import itertools
import os
import subprocess

import maxminddb
import pytest
from conftest import program
from library import conformance_file, conformance_names, environment, folder_with_ours

# How many records of each file are asked for; WHERED_ALL_RECORDS=1 asks for every one. (What
# libmaxminddb itself says is compared for all of them, and all their paths, in bindings/c.)
RECORDS = None if os.environ.get("WHERED_ALL_RECORDS") else 4
WITH_PATHS = 2


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return folder_with_ours(tmp_path_factory.mktemp("mmdblookup"))


def ask(library_folder, *arguments):
    command = [program("mmdblookup", "mmdb-bin"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, env=environment(library_folder), timeout=60)
    return done.returncode, done.stdout, done.stderr


def same(ours, *arguments):
    original = ask(None, *arguments)
    assert ask(ours, *arguments) == original, arguments
    return original


def distinct_records(path):
    """An address and the record, once for each record of a file."""
    try:
        with maxminddb.open_database(path, maxminddb.MODE_MEMORY) as reader:
            seen = set()
            for network, record in reader:
                if repr(record) not in seen:
                    seen.add(repr(record))
                    yield str(network.network_address), record
    except (maxminddb.InvalidDatabaseError, ValueError, UnicodeDecodeError, TypeError):
        return


def paths(value, path=()):
    """The path of every value in a record."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from paths(inner, (*path, str(position)))


def test_it_is_our_library_that_answers(ours, tmp_path):
    """The program is too short-lived to look at its map: the loader itself says what it loads."""
    log = tmp_path / "loader"
    command = [program("mmdblookup", "mmdb-bin"), "--version"]
    talking = environment(ours, LD_DEBUG="libs", LD_DEBUG_OUTPUT=str(log))
    subprocess.run(command, capture_output=True, env=talking, timeout=60)
    (said,) = tmp_path.glob("loader.*")
    initialized = [line for line in said.read_text().splitlines() if "calling init" in line]
    used = [line.split()[-1] for line in initialized if "libmaxminddb" in line]
    assert used == [str(ours / "libmaxminddb.so.0")]


@pytest.mark.parametrize("name", conformance_names())
def test_records_and_fields_of_a_conformance_file(ours, name):
    path = conformance_file(name)
    same(ours, "--verbose", "--file", path, "--ip", "192.0.2.1")
    records = itertools.islice(distinct_records(path), RECORDS)
    for number, (address, record) in enumerate(records):
        same(ours, "--file", path, "--ip", address)
        if number < WITH_PATHS:
            for field in itertools.islice(paths(record), 1, 7):
                same(ours, "--file", path, "--ip", address, *field)
            status, _, _ = same(ours, "--file", path, "--ip", address, "no", "such", "field")
            assert status != 0


def test_the_benchmark_mode_with_threads(ours):
    path = conformance_file("GeoIP2-City-Test.mmdb")
    status, output, _ = ask(ours, "--file", path, "--benchmark", "20000", "--threads", "2")
    assert status == 0
    assert b"lookups per second" in output


def test_bad_files_and_addresses_have_the_same_words_and_exit_codes(ours, tmp_path):
    empty = tmp_path / "empty.mmdb"
    empty.write_bytes(b"")
    text = tmp_path / "text.mmdb"
    text.write_bytes(b"no database" * 100)
    for path in [empty, text, tmp_path, tmp_path / "missing.mmdb", "/proc/self/mem"]:
        status, _, errors = same(ours, "--file", path, "--ip", "192.0.2.1")
        assert status != 0 and errors
    city = conformance_file("GeoIP2-City-Test.mmdb")
    for address in ["", "example", "1.1.1.256", "0x51.2.69.142", "81.2.17806", "fe80::1%lo", "::81.2.69.142"]:
        same(ours, "--file", city, "--ip", address)
    old = conformance_file("MaxMind-DB-test-ipv4-24.mmdb")
    same(ours, "--file", old, "--ip", "2001:db8::1")
