"""`whered.maxminddb`: records, addresses, modes, damaged files, threads and forks."""

from __future__ import annotations

import gc
import io
import ipaddress
import os
import pathlib
import pickle
import subprocess
import sys
import threading
from typing import Any

import pytest

import whered
from conftest import NETWORKS, database_bytes, encoded
from whered import maxminddb
from whered.maxminddb import InvalidDatabaseError, Mode

PATH_MODES = [Mode.AUTO, Mode.MMAP_EXT, Mode.MMAP, Mode.FILE, Mode.MEMORY]
ALL_MODES = [*PATH_MODES, Mode.FD]


def opened(path: str, mode: int) -> maxminddb.Reader:
    """A reader of a file in any mode."""
    if mode != Mode.FD:
        return maxminddb.open_database(path, mode)
    with open(path, "rb") as file:
        return maxminddb.open_database(file, mode)


def of_bytes(data: bytes) -> maxminddb.Reader:
    return maxminddb.open_database(io.BytesIO(data), Mode.FD)


def with_record(data: bytes) -> bytes:
    """A database of IP version 4 in which every address has the record of these bytes."""
    whole = database_bytes({"0.0.0.0/1": 1, "128.0.0.0/1": 1}, ip_version=4)
    start = whole.index(bytes(16)) + 16
    assert whole[start : start + 2] == encoded(1)
    return whole[:start] + data + whole[whole.index(b"\xab\xcd\xefMaxMind.com") :]


@pytest.mark.parametrize("mode", ALL_MODES)
def test_every_mode_has_the_records_and_prefix_lengths_of_the_file(
    database_path: str, mode: int
) -> None:
    with opened(database_path, mode) as reader:
        for network, record in NETWORKS.items():
            parsed = ipaddress.ip_network(network)
            for address in (parsed[0], parsed[-1], str(parsed[5])):
                found = reader.get_with_prefix_len(address)
                assert found == (record, parsed.prefixlen)
                assert reader.get(ip_address=address) == record
        assert reader.get("203.0.113.1") is None
        assert reader.get("2001:db9::") is None
        listed = {str(network): record for network, record in reader}
        assert listed == NETWORKS
        assert reader.metadata().database_type == "Test"
        assert reader.metadata().search_tree_size == reader.metadata().node_count * 8


def test_records_are_those_of_the_package_maxminddb(database_path: str) -> None:
    source = (
        "import maxminddb, sys\n"
        "with maxminddb.open_database(sys.argv[1]) as reader:\n"
        "    print([(str(network), record) for network, record in reader])\n"
    )
    theirs = subprocess.run(
        [sys.executable, "-c", source, database_path], capture_output=True, text=True, check=False
    )
    if "No module named 'maxminddb'" in theirs.stderr:
        pytest.skip("maxminddb is not installed")
    ours = [(str(network), record) for network, record in maxminddb.open_database(database_path)]
    assert theirs.stdout.strip() == str(ours)


@pytest.mark.parametrize("mode", [Mode.MEMORY, Mode.FILE])
def test_a_record_is_the_callers_own(database_path: str, mode: int) -> None:
    with opened(database_path, mode) as reader:
        for _ in range(6):
            record = reader.get("192.0.2.7")
            assert record == NETWORKS["192.0.2.0/24"]
            record["city"]["names"]["en"] = "changed"
            record["subdivisions"][0].clear()
            record["subdivisions"].append(1)
            del record["country"]


def test_what_pointers_share_in_the_file_is_not_shared_in_records() -> None:
    # An array of two pointers to one map, at offset 0.
    shared = encoded({"en": "x"})
    data = shared + b"\x02\x04\x20\x00\x20\x00"
    whole = with_record(data)
    # The root is the array: the number of each record moves behind the map.
    count, node = 1, (1 + 16 + len(shared)).to_bytes(4, "big")
    whole = node * 2 * count + whole[8:]
    with of_bytes(whole) as reader:
        for _ in range(4):
            record: Any = reader.get("192.0.2.1")
            assert record == [{"en": "x"}, {"en": "x"}]
            record[0]["en"] = "y"
            assert record[1] == {"en": "x"}


NO_ADDRESSES = [
    "",
    " 192.0.2.1",
    "192.0.2.1 ",
    "192.0.2.1:80",
    "[2001:db8::1]",
    "[2001:db8::1]:80",
    "192.0.2",
    "192.0.2.01",
    "0x7f.0.0.1",
    "192.0.2.1\0",
    "192.0.2.1/24",
    "1" * 10_000,
    "\ud800",
    "١٩٢.0.2.1",
    "nan",
]


@pytest.mark.parametrize("text", NO_ADDRESSES)
def test_a_string_that_ipaddress_refuses_is_a_value_error(database_path: str, text: str) -> None:
    with pytest.raises(ValueError) as theirs:
        ipaddress.ip_address(text)
    with maxminddb.open_database(database_path) as reader:
        with pytest.raises(ValueError) as ours:
            reader.get(text)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("wrong", [None, 5, 1.5, float("nan"), b"192.0.2.1", [], object()])
def test_what_is_no_address_at_all_is_a_type_error(database_path: str, wrong: Any) -> None:
    with maxminddb.open_database(database_path) as reader:
        with pytest.raises(TypeError, match="argument 1 must be a string or ipaddress object"):
            reader.get(wrong)


def test_addresses_are_read_as_ipaddress_reads_them(database_path: str) -> None:
    class Text(str):
        """A string of another class."""

    with maxminddb.open_database(database_path) as reader:
        japan = NETWORKS["2001:db8::/32"]
        assert reader.get("2001:db8::%eth0") == japan
        assert reader.get("2001:DB8:0:0:0:0:1.2.3.4") == japan
        assert reader.get(Text("2001:db8::")) == japan
        assert reader.get("::192.0.2.7") == NETWORKS["192.0.2.0/24"]


@pytest.mark.parametrize("mode", ALL_MODES)
def test_an_ipv6_address_in_an_ipv4_database_is_a_value_error(
    ipv4_database_path: str, mode: int
) -> None:
    with opened(ipv4_database_path, mode) as reader:
        assert reader.get_with_prefix_len("192.0.2.1") == ({"country": {"iso_code": "DE"}}, 24)
        for address in ("2001:db8::1", ipaddress.ip_address("2001:db8::1")):
            with pytest.raises(ValueError, match="Error looking up 2001:db8::1. You attempted"):
                reader.get(address)


@pytest.mark.parametrize("mode", ALL_MODES)
def test_a_closed_reader_raises_value_errors(database_path: str, mode: int) -> None:
    reader = opened(database_path, mode)
    networks = iter(reader)
    next(networks)
    assert not reader.closed
    reader.close()
    reader.close()
    assert reader.closed
    with pytest.raises(ValueError, match="Attempt to read from a closed MaxMind DB"):
        reader.get("192.0.2.1")
    with pytest.raises(ValueError, match="Attempt to iterate over a closed MaxMind DB"):
        next(networks)
    with pytest.raises(ValueError, match="Attempt to iterate over a closed MaxMind DB"):
        iter(reader)
    with pytest.raises(ValueError, match="Attempt to reopen a closed MaxMind DB"), reader:
        pass
    assert reader.metadata().database_type == "Test"


@pytest.mark.parametrize("mode", ALL_MODES)
def test_a_file_truncated_below_an_open_reader_never_ends_the_process(
    tmp_path: pathlib.Path, mode: int
) -> None:
    path = tmp_path / "test.mmdb"
    networks = {f"10.{number}.0.0/16": {"n": number, "t": "x" * 200} for number in range(200)}
    path.write_bytes(database_bytes(networks))
    with opened(str(path), mode) as reader:
        assert reader.get("10.7.0.0") == networks["10.7.0.0/16"]
        for size in (os.path.getsize(path) // 2, 100, 0):
            os.truncate(path, size)
            if mode in (Mode.FILE, Mode.MMAP, Mode.MMAP_EXT):
                with pytest.raises(InvalidDatabaseError, match="below the reader"):
                    reader.get("10.199.0.0")
                if mode != Mode.FILE:
                    with pytest.raises(InvalidDatabaseError, match="truncated"):
                        next(iter(reader))
            else:
                assert reader.get("10.199.0.0") == networks["10.199.0.0/16"]


@pytest.mark.parametrize("mode", ALL_MODES)
def test_a_file_replaced_below_an_open_reader_changes_nothing(
    tmp_path: pathlib.Path, mode: int
) -> None:
    path = tmp_path / "test.mmdb"
    path.write_bytes(database_bytes(NETWORKS))
    with opened(str(path), mode) as reader:
        newer = tmp_path / "newer.mmdb"
        newer.write_bytes(database_bytes({"192.0.2.0/24": "newer"}))
        newer.rename(path)
        assert reader.get("192.0.2.1") == NETWORKS["192.0.2.0/24"]


def everything(data: bytes) -> None:
    """Opens bytes and reads all that they have."""
    with of_bytes(data) as reader:
        for address in ("192.0.2.7", "198.51.100.200", "2001:db8::", "::"):
            reader.get_with_prefix_len(address)
        list(reader)


def test_a_file_cut_at_any_byte_is_an_invalid_database(tmp_path: pathlib.Path) -> None:
    whole = database_bytes(NETWORKS)
    everything(whole)
    for size in range(len(whole)):
        with pytest.raises(InvalidDatabaseError):
            everything(whole[:size])
    path = tmp_path / "cut.mmdb"
    for size in range(0, len(whole), 37):
        path.write_bytes(whole[:size])
        for mode in PATH_MODES:
            with pytest.raises(InvalidDatabaseError):
                maxminddb.open_database(path, mode)


def test_a_file_with_any_byte_changed_raises_only_what_is_documented() -> None:
    whole = database_bytes(NETWORKS)
    outcomes = set()
    for at in range(len(whole)):
        for value in (0, 0x1F, 0x20, 0x5F, 0xE1, 0xFF, whole[at] ^ 0x80):
            changed = whole[:at] + bytes([value]) + whole[at + 1 :]
            try:
                everything(changed)
                outcomes.add("read")
            except (InvalidDatabaseError, UnicodeDecodeError, ValueError) as error:
                if type(error) is ValueError:
                    assert "IPv6 address in an IPv4-only database" in str(error)
                outcomes.add(type(error).__name__)
    assert outcomes >= {"read", "InvalidDatabaseError", "UnicodeDecodeError"}


def test_a_record_nested_as_deep_as_allowed_is_read_and_a_deeper_one_is_refused() -> None:
    array = b"\x01\x04"
    with of_bytes(with_record(array * 512 + encoded(0))) as reader:
        record: Any = reader.get("1.1.1.1")
        for _ in range(512):
            (record,) = record
        assert record == 0
    for data in (array * 513 + encoded(0), b"\x01\x04\x20\x00"):
        with of_bytes(with_record(data)) as reader:
            for _ in range(3):
                with pytest.raises(InvalidDatabaseError, match="exceeds the maximum depth$"):
                    reader.get("1.1.1.1")


def test_deep_records_need_no_stack_of_the_calling_thread() -> None:
    found: list[Any] = []
    before = threading.stack_size(65_536)
    try:
        with of_bytes(with_record(b"\x01\x04" * 512 + encoded(0))) as reader:
            thread = threading.Thread(target=lambda: found.append(type(reader.get("1.1.1.1"))))
            thread.start()
            thread.join()
    finally:
        threading.stack_size(before)
    assert found == [list]


def test_a_record_has_at_most_65536_values() -> None:
    with of_bytes(with_record(encoded([0] * 65_535))) as reader:
        assert reader.get("1.1.1.1") == [0] * 65_535
    with of_bytes(with_record(encoded([0] * 65_536))) as reader:
        with pytest.raises(InvalidDatabaseError, match="exceeds the maximum number of values$"):
            reader.get("1.1.1.1")


@pytest.mark.parametrize("text", ["x" * (1 << 20), b"x" * (1 << 20)])
def test_a_record_has_at_most_two_mebibytes_of_text(text: Any) -> None:
    with of_bytes(with_record(encoded([text, text]))) as reader:
        assert reader.get("1.1.1.1") == [text, text]
    with of_bytes(with_record(encoded([text, text, text[:1]]))) as reader:
        with pytest.raises(InvalidDatabaseError, match="exceeds the maximum payload size$"):
            reader.get("1.1.1.1")


def test_a_string_that_is_no_utf8_is_a_unicode_decode_error() -> None:
    with of_bytes(with_record(b"\x42\xc3\x28")) as reader:
        with pytest.raises(UnicodeDecodeError):
            reader.get("1.1.1.1")


def test_a_pointer_to_a_pointer_and_a_key_that_is_no_string_are_bad_data() -> None:
    for data in (b"\x20\x02\x20\x00", b"\xe1\xa1\x05\xa1\x05"):
        with of_bytes(with_record(data)) as reader:
            with pytest.raises(InvalidDatabaseError, match="contains bad data"):
                reader.get("1.1.1.1")


def test_files_that_cannot_be_opened_raise_what_open_raises(tmp_path: pathlib.Path) -> None:
    for mode in PATH_MODES:
        with pytest.raises(FileNotFoundError, match="No such file or directory"):
            maxminddb.open_database(tmp_path / "absent.mmdb", mode)
        with pytest.raises(IsADirectoryError):
            maxminddb.open_database(tmp_path, mode)
        for wrong in (None, 5, 1.5):
            with pytest.raises(TypeError):
                maxminddb.open_database(wrong, mode)
        empty = tmp_path / "empty.mmdb"
        empty.write_bytes(b"")
        with pytest.raises(InvalidDatabaseError, match="Is this a valid MaxMind DB file"):
            maxminddb.open_database(empty, mode)
    for mode in (3, 100, -1):
        with pytest.raises(ValueError, match="Unsupported open mode"):
            maxminddb.open_database(tmp_path / "absent.mmdb", mode)
    with pytest.raises(TypeError, match="binary mode"):
        maxminddb.open_database(io.StringIO("x"), Mode.FD)


def test_a_descriptor_is_read_from_its_position_and_stays_open(database_path: str) -> None:
    descriptor = os.open(database_path, os.O_RDONLY)
    try:
        with maxminddb.open_database(descriptor, Mode.FD) as reader:
            assert reader.get("192.0.2.1") == NETWORKS["192.0.2.0/24"]
        os.fstat(descriptor)
    finally:
        os.close(descriptor)


def test_metadata_that_lacks_what_is_needed_is_an_invalid_database() -> None:
    whole = database_bytes(NETWORKS)
    for key in ("node_count", "record_size", "ip_version", "build_epoch", "database_type"):
        changed = whole.replace(encoded(key), encoded(key[:-1] + "_"))
        assert changed != whole
        with pytest.raises(InvalidDatabaseError, match=f"{key} is missing"):
            of_bytes(changed)
    renamed = whole.replace(encoded("languages"), encoded("languagez"))
    assert of_bytes(renamed).metadata().languages == []


@pytest.mark.parametrize("mode", ALL_MODES)
def test_threads_read_one_reader_at_once(database_path: str, mode: int) -> None:
    wrong: list[Any] = []
    with opened(database_path, mode) as reader:

        def read() -> None:
            for _ in range(300):
                for network, record in NETWORKS.items():
                    if reader.get(network.split("/")[0]) != record:
                        wrong.append(network)

        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_reader_closed_by_another_thread_answers_or_says_so(database_path: str) -> None:
    for _ in range(20):
        reader = maxminddb.open_database(database_path)
        said: list[str] = []

        def read(reader: maxminddb.Reader = reader, said: list[str] = said) -> None:
            try:
                while True:
                    assert reader.get("192.0.2.1") == NETWORKS["192.0.2.0/24"]
            except ValueError as error:
                said.append(str(error))

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        reader.close()
        for thread in threads:
            thread.join()
        assert said == ["Attempt to read from a closed MaxMind DB."] * 4


@pytest.mark.parametrize("mode", ALL_MODES)
def test_children_of_a_fork_read_while_threads_of_the_parent_read(
    database_path: str, mode: int
) -> None:
    with opened(database_path, mode) as reader:
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                reader.get("192.0.2.1")

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(10):
                child = os.fork()
                if child == 0:
                    correct = reader.get("192.0.2.1") == NETWORKS["192.0.2.0/24"]
                    reader.close()
                    os._exit(0 if correct and reader.closed else 1)
                _, status = os.waitpid(child, 0)
                assert status == 0
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def test_a_finalizer_that_runs_during_a_lookup_may_look_up_itself(database_path: str) -> None:
    found: list[Any] = []
    with maxminddb.open_database(database_path) as reader:

        class Cycle:
            """Garbage whose finalizer reads."""

            def __init__(self) -> None:
                self.me = self

            def __del__(self) -> None:
                found.append(reader.get("192.0.2.1"))

        before = gc.get_threshold()
        gc.set_threshold(5, 2, 2)
        try:
            for _ in range(500):
                Cycle()
                kept = [reader.get("192.0.2.1") for _ in range(4)]
                assert kept == [NETWORKS["192.0.2.0/24"]] * 4
        finally:
            gc.set_threshold(*before)
            gc.collect()
    assert found and all(record == NETWORKS["192.0.2.0/24"] for record in found)


def test_the_caches_of_a_reader_are_bounded() -> None:
    networks = {
        f"{10 + number // 65536}.{number // 256 % 256}.{number % 256}.0/24": {
            "names": {f"key{n}": f"{number} {n}" for n in range(10)}
        }
        for number in range(30_000)
    }
    with of_bytes(database_bytes(networks, ip_version=4)) as reader:
        before = sys.getallocatedblocks()
        for network in networks:
            for _ in range(3):
                reader.get(network[:-3])
        blocks = sys.getallocatedblocks() - before
    # A record is 10 strings and 2 dicts; all of them would be 360,000 and more.
    assert 8_192 < blocks < 8_192 * 24


def test_a_reader_cannot_be_pickled(database_path: str) -> None:
    with maxminddb.open_database(database_path) as reader:
        with pytest.raises(TypeError, match="cannot pickle 'Reader' object"):
            pickle.dumps(reader)


def test_a_reader_may_be_subclassed_and_a_reader_that_was_never_opened_is_closed(
    database_path: str,
) -> None:
    class Own(maxminddb.Reader):
        """A reader with a constructor of its own."""

        def __init__(self, path: str, *, greeting: str) -> None:
            super().__init__(path)
            self.greeting = greeting

    with Own(database_path, greeting="hello") as reader:
        assert (reader.get("203.0.113.1"), reader.greeting) == (None, "hello")
    unopened = Own.__new__(Own)
    assert unopened.closed
    with pytest.raises(ValueError, match="closed"):
        unopened.get("192.0.2.1")


def test_a_tree_whose_nodes_describe_endless_networks_ends_with_an_error() -> None:
    # Every node leads to the next one on both sides: 2^127 networks in 127 nodes.
    whole = database_bytes({"8000::/128": 1})
    count = 128
    nodes = b"".join(
        (node + 1 if node < count - 1 else count + 16).to_bytes(4, "big") * 2
        for node in range(count)
    )
    with of_bytes(nodes + whole[len(nodes) :]) as reader:
        with pytest.raises(InvalidDatabaseError, match="reached in too many ways"):
            for _, record in reader:
                assert record == 1


INSTALLED = """
import sys, whered
whered.install_as_maxminddb()
whered.install_as_maxminddb()
import maxminddb, maxminddb.reader, maxminddb.decoder, maxminddb.const
import maxminddb.errors, maxminddb.types, maxminddb.file, maxminddb.extension
assert maxminddb is whered.maxminddb
assert maxminddb.reader.Reader is maxminddb.extension.Reader is whered.maxminddb.Reader
assert maxminddb.errors.InvalidDatabaseError is whered.InvalidDatabaseError
print("installed")
"""

REFUSED = """
import sys, types, whered
sys.modules["maxminddb"] = types.ModuleType("maxminddb")
try:
    whered.install_as_maxminddb()
except RuntimeError as error:
    print("refused:", error)
"""


@pytest.mark.parametrize(
    ("source", "expected"), [(INSTALLED, "installed"), (REFUSED, "refused: maxminddb is already")]
)
def test_installing_as_maxminddb_replaces_it_or_refuses(source: str, expected: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", source],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith(expected), done.stderr


def test_the_decoder_reads_what_the_reader_reads() -> None:
    for record in NETWORKS.values():
        data = encoded(record)
        assert maxminddb.decoder.Decoder(data).decode(0) == (record, len(data))
        for size in range(len(data)):
            with pytest.raises(InvalidDatabaseError):
                maxminddb.decoder.Decoder(data[:size]).decode(0)


def test_the_exception_is_that_of_the_package() -> None:
    assert InvalidDatabaseError is whered.InvalidDatabaseError
    assert issubclass(InvalidDatabaseError, RuntimeError)
