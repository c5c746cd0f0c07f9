"""`whered.Database`: one address, and columns of every layout."""

from __future__ import annotations

import gzip
import ipaddress
import os
import pathlib
import signal
import threading
import time
from typing import Any

import pytest

import whered
from conftest import NETWORKS, database_bytes

pa = pytest.importorskip("pyarrow")

ADDRESSES = [
    "192.0.2.7",
    None,
    "x",
    "198.51.100.3",
    "2001:db8::5",
    "198.51.100.250",
    " [2001:db8::1]:443 ",
    "192.0.2.1:80",
    "fe80::1%eth0",
    "::ffff:192.0.2.9",
    "",
]


def expected(address: str | None, *path: Any) -> Any:
    """What Python's own `ipaddress` and dicts say."""
    named = {" [2001:db8::1]:443 ": "2001:db8::1", "192.0.2.1:80": "192.0.2.1"}
    text = named.get(address or "", (address or "").split("%")[0])
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return None
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    for network, record in NETWORKS.items():
        if parsed in ipaddress.ip_network(network):
            value: Any = record
            for step in path:
                try:
                    value = value[step]
                except (KeyError, IndexError):
                    return None
            return value
    return None


COUNTRIES = [expected(address, "country", "iso_code") for address in ADDRESSES]
CITIES = [expected(address, "city", "names", "en") for address in ADDRESSES]


@pytest.fixture(scope="module")
def database(database_path: str) -> whered.Database:
    return whered.Database(database_path)


def columns() -> dict[str, Any]:
    strings = pa.array(ADDRESSES)
    padded = pa.array(["8.8.8.8", *ADDRESSES, None])
    return {
        "list": ADDRESSES,
        "tuple": tuple(ADDRESSES),
        "utf8": strings,
        "large_utf8": strings.cast(pa.large_string()),
        "utf8_view": strings.cast(pa.string_view()),
        "dictionary": strings.dictionary_encode(),
        "dictionary of views": pa.DictionaryArray.from_arrays(
            strings.dictionary_encode().indices, strings.dictionary_encode().dictionary.cast(pa.string_view())
        ),
        "slice": padded.slice(1, len(ADDRESSES)),
        "slice of views": padded.cast(pa.string_view()).slice(1, len(ADDRESSES)),
        "slice of a dictionary": padded.dictionary_encode().slice(1, len(ADDRESSES)),
        "chunks": pa.chunked_array([strings[:3], strings[3:3], strings[3:]]),
        "stream of a table": pa.table({"ip": strings}).to_reader(max_chunksize=4),
        "record batch": pa.record_batch({"ip": strings}),
        "generator": (address for address in ADDRESSES),
    }


@pytest.mark.parametrize("name", columns())
@pytest.mark.parametrize("strings", ["utf8_view", "utf8", "large_utf8", "dictionary"])
def test_columns_of_every_layout_have_the_same_answers(
    database: whered.Database, name: str, strings: Any
) -> None:
    answer = database.lookup(columns()[name], "country.iso_code", strings=strings, threads=2)
    assert answer.to_pylist() == COUNTRIES
    taken = pa.chunked_array(answer)
    taken.validate(full=True)
    assert taken.to_pylist() == COUNTRIES
    table = database.lookup(columns()[name], ["city.names.en"], strings=strings, network=True)
    taken = pa.table(table)
    taken.validate(full=True)
    assert taken["city.names.en"].to_pylist() == CITIES


def test_polars_and_pandas_give_and_take_columns(database: whered.Database) -> None:
    pl = pytest.importorskip("polars")
    pd = pytest.importorskip("pandas")
    for column in (pl.Series("ip", ADDRESSES), pd.Series(ADDRESSES)):
        answer = database.lookup(column, "city.names.en")
        assert answer.to_polars().to_list() == CITIES
        assert pl.Series(answer).to_list() == CITIES
        assert [None if pd.isna(city) else city for city in answer.to_pandas()] == CITIES
    frame = database.lookup(pl.Series(ADDRESSES)).to_polars()
    assert frame["country.iso_code"].to_list() == COUNTRIES


def test_numbers_and_bytes_are_addresses(database: whered.Database) -> None:
    fours = [int(ipaddress.ip_address(text)) for text in ("192.0.2.7", "198.51.100.3", "8.8.8.8")]
    for data_type in (pa.uint32(), pa.uint64(), pa.int64()):
        answer = database.lookup(pa.array([*fours, None], data_type), "country.iso_code")
        assert answer.to_pylist() == ["DE", "FR", None, None]
    assert database.lookup(pa.array([-1, 1 << 32], pa.int64()), "number").to_pylist() == [None, None]
    packed = [ipaddress.ip_address(text).packed for text in ("2001:db8::1", "::ffff:192.0.2.1")]
    column = pa.array([*packed, None], pa.binary(16))
    assert database.lookup(column, "country.iso_code").to_pylist() == ["JP", "DE", None]


def test_objects_of_ipaddress_are_addresses(database: whered.Database) -> None:
    four, six = ipaddress.ip_address("192.0.2.7"), ipaddress.ip_address("2001:db8::1")
    assert database.lookup([four, None, six], "country.iso_code").to_pylist() == ["DE", None, "JP"]
    assert database.field(six, "country.iso_code") == "JP"


@pytest.mark.parametrize("address", ADDRESSES[3:6])
def test_one_address_is_answered_as_in_a_column(database: whered.Database, address: str) -> None:
    assert database.get(address) == expected(address)
    for path in ("country.iso_code", "city.names.en", "city.names.de", "number"):
        assert database.field(address, path) == expected(address, *path.split("."))
    assert database.field(address, "country.nothing") is None
    assert database.network(address) in {"198.51.100.0/25", "198.51.100.128/25", "2001:db8::/32"}


def test_the_type_of_a_column_is_that_of_all_its_values(database: whered.Database) -> None:
    fields = ["number", "location.longitude", "traits.is_anycast", "subdivisions", "city.geoname_id"]
    table = pa.table(database.lookup(ADDRESSES, fields))
    assert [str(field.type) for field in table.schema] == [
        "uint64",
        "double",
        "bool",
        "string_view",
        "uint32",
    ]
    assert table["subdivisions"][0].as_py() == '[{"iso_code":"BE"}]'
    assert table["number"].to_pylist()[3] == 1 << 40


def test_networks_are_those_of_the_file(database: whered.Database) -> None:
    answer = database.lookup(["192.0.2.7", None, "2001:db8::1", "x"], [], network=True)
    assert answer["network"].to_pylist() == ["192.0.2.0/24", None, "2001:db8::/32", None]


def test_columns_without_rows_are_answered(database: whered.Database) -> None:
    for column in ([], pa.array([], pa.string()), pa.chunked_array([], pa.string()), pa.nulls(0)):
        answer = database.lookup(column, ["country.iso_code"], network=True)
        assert len(answer) == 0
        assert pa.table(answer).num_rows == 0
    assert database.lookup(pa.nulls(3), "number").to_pylist() == [None] * 3


def test_a_million_rows_on_threads_are_those_of_one_thread(database: whered.Database) -> None:
    column = pa.array(ADDRESSES * 100_000)
    one = pa.table(database.lookup(column, network=True))
    three = pa.table(database.lookup(column, network=True, threads=3))
    one.validate(full=True)
    assert one.equals(three)
    assert one["country.iso_code"].to_pylist() == COUNTRIES * 100_000


def test_what_is_no_address_is_null_or_an_error_that_names_the_row(
    database: whered.Database, ipv4_database_path: str
) -> None:
    with pytest.raises(ValueError, match='row 2: "x" is no IP address'):
        database.lookup(ADDRESSES, "number", invalid="raise")
    with pytest.raises(ValueError, match='row 2: "" is no IP address'):
        database.lookup(pa.array(["192.0.2.1", None, ""]).dictionary_encode(), invalid="raise")
    far = pa.array(["192.0.2.1"] * 200_000 + ["1.2.3"])
    with pytest.raises(ValueError, match='row 200000: "1.2.3" is no IP address'):
        database.lookup(far, "number", invalid="raise", threads=2)
    ipv4 = whered.Database(ipv4_database_path)
    assert ipv4.lookup(["2001:db8::1"], "country.iso_code").to_pylist() == [None]
    with pytest.raises(ValueError, match="row 0: an IPv6 address; the database has no IPv6"):
        ipv4.lookup(["2001:db8::1"], "country.iso_code", invalid="raise")
    for ask in (ipv4.get, ipv4.network, lambda address: ipv4.field(address, "country.iso_code")):
        with pytest.raises(ValueError, match="has no IPv6 networks"):
            ask("2001:db8::1")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("192.0.2.1", "a list, not str"),
        (b"192.0.2.1", "a list, not bytes"),
        ({"a": 1}, "a list, not dict"),
        (7, "a list, not int"),
        (None, "a list, not NoneType"),
        ([1.5], "a column of Float64"),
        ([True], "a column of Boolean"),
        ([b"192.0.2.1"], "row 0: bytes; allowed are strings, numbers"),
        ([["192.0.2.1"]], "row 0: list; allowed are strings, numbers"),
        ([1, "192.0.2.1"], "row 1: str; allowed are strings, numbers"),
    ],
)
def test_other_columns_are_refused(database: whered.Database, column: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        database.lookup(column, "number")
    with pytest.raises(TypeError, match="a table of 2 columns; pass one"):
        database.lookup(pa.table({"a": [1], "b": [2]}), "number")


def test_wrong_choices_name_what_is_allowed(database: whered.Database, database_path: str) -> None:
    for wrong, message in (
        ({"strings": "utf16"}, '"utf8_view", "utf8", "large_utf8" and "dictionary"'),
        ({"invalid": "drop"}, '"null" and "raise"'),
        ({"threads": 0}, "threads=0: allowed are 1 to 1024"),
    ):
        with pytest.raises(ValueError, match=message):
            database.lookup(["192.0.2.1"], "number", **wrong)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match='no record has the field "contry.iso_code"'):
        database.lookup(["192.0.2.1"], "contry.iso_code")
    with pytest.raises(ValueError, match='no record has the field "contry.iso_code"'):
        whered.Database(database_path, ["contry.iso_code"])
    with pytest.raises(ValueError, match="an empty name"):
        database.lookup(["192.0.2.1"], "a..b")
    with pytest.raises(ValueError, match="named twice"):
        database.lookup(["192.0.2.1"], ["number", "number"])
    with pytest.raises(ValueError, match='allowed are "auto", "file" and "build"'):
        whered.Database(database_path, index="maybe")  # type: ignore[arg-type]


def test_files_that_are_no_databases_raise_what_python_raises(tmp_path: Any) -> None:
    with pytest.raises(FileNotFoundError):
        whered.Database(tmp_path / "none.mmdb")
    with pytest.raises(OSError, match="no regular file"):
        whered.Database(tmp_path)
    with pytest.raises(OSError, match="no regular file"):
        whered.Database("/dev/zero")
    (tmp_path / "text.mmdb").write_text("a text")
    with pytest.raises(whered.InvalidDatabaseError, match="text.mmdb"):
        whered.Database(tmp_path / "text.mmdb")


def test_a_column_of_nulls_alone_has_nulls_for_answers(database: whered.Database) -> None:
    pl = pytest.importorskip("polars")
    assert database.lookup(pl.Series([None, None]), "number").to_pylist() == [None, None]
    assert database.lookup([None, float("nan")], "number").to_pylist() == [None, None]


def test_keys_outside_of_a_dictionary_are_an_error(database: whered.Database) -> None:
    for entries in ([], ["192.0.2.7"]):
        keys = pa.array([0, 99, -7], pa.int32())
        column = pa.DictionaryArray.from_arrays(keys, pa.array(entries, pa.string()), safe=False)
        with pytest.raises(ValueError, match="the column is damaged"):
            database.lookup(column, "number")


def test_an_index_never_replaces_a_database_or_a_device(tmp_path: Any) -> None:
    path = tmp_path / "city.mmdb"
    path.write_bytes(database_bytes(NETWORKS))
    database = whered.Database(path)
    with pytest.raises(ValueError, match="it is the database"):
        database.save_index(path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        database.save_index(tmp_path / "pipe")
    kept = tmp_path / "kept.index"
    kept.write_bytes(b"")
    (tmp_path / "link").symlink_to(kept)
    database.save_index(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and kept.stat().st_size > 0


def test_an_index_of_a_cut_file_is_not_written(tmp_path: Any) -> None:
    for cut in ("city.mmdb", "city.mmdb.index"):
        path = tmp_path / "city.mmdb"
        path.write_bytes(database_bytes(NETWORKS))
        whered.Database(path).save_index()
        database = whered.Database(path, index="file")
        os.truncate(tmp_path / cut, 1)
        with pytest.raises(whered.InvalidDatabaseError, match="cut to 1 bytes"):
            database.save_index(tmp_path / "other")


def test_no_field_at_all_is_refused(database: whered.Database) -> None:
    with pytest.raises(ValueError, match="no field is asked for"):
        database.lookup(ADDRESSES, [])


def test_a_packed_database_is_refused_with_the_way(tmp_path: Any, database_path: str) -> None:
    path = tmp_path / "city.mmdb"
    path.write_bytes(gzip.compress(pathlib.Path(database_path).read_bytes()))
    with pytest.raises(OSError, match="gzip"):
        whered.Database(path)


def test_a_long_column_with_a_dictionary_becomes_objects_in_time(database: whered.Database) -> None:
    column = pa.array(ADDRESSES * 20_000)
    answer = database.lookup(column, "country.iso_code", strings="dictionary")
    assert answer.to_pylist() == COUNTRIES * 20_000


def test_a_database_cut_at_every_byte_is_refused_or_answers(tmp_path: Any) -> None:
    whole = database_bytes({"192.0.2.0/24": {"a": {"b": "c"}}}, ip_version=4)
    path = tmp_path / "cut.mmdb"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(whered.InvalidDatabaseError):
            whered.Database(path)


def test_every_changed_byte_is_an_error_or_an_answer(tmp_path: Any) -> None:
    whole = database_bytes({"192.0.2.0/24": {"a": {"b": "c"}}}, ip_version=4)
    path = tmp_path / "changed.mmdb"
    for at in range(len(whole)):
        for value in (0, whole[at] ^ 1, 0xFF):
            path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            try:
                database = whered.Database(path)
                database.get("192.0.2.1")
                database.lookup(["192.0.2.1", "10.0.0.1"], "a.b").to_pylist()
            except (whered.InvalidDatabaseError, ValueError, OverflowError):
                pass


def test_a_replaced_file_is_taken_by_a_reload(tmp_path: Any) -> None:
    path = tmp_path / "city.mmdb"
    path.write_bytes(database_bytes({"192.0.2.0/24": {"name": "old"}}))
    database = whered.Database(path, ["name"])
    assert not database.reload()
    new = tmp_path / "new.mmdb"
    new.write_bytes(database_bytes({"192.0.2.0/24": {"name": "new"}}))
    os.replace(new, path)
    assert database.field("192.0.2.1", "name") == "old"
    assert database.reload()
    assert database.field("192.0.2.1", "name") == "new"
    path.write_bytes(b"damaged")
    with pytest.raises(whered.InvalidDatabaseError):
        database.reload()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        database.reload()
    assert database.lookup(["192.0.2.1"], "name").to_pylist() == ["new"]


def test_a_file_cut_below_an_open_database_is_an_exception(tmp_path: Any) -> None:
    path = tmp_path / "city.mmdb"
    path.write_bytes(database_bytes(NETWORKS))
    in_memory = whered.Database(path)
    assert in_memory.save_index() == f"{path}.index"
    mapped = whered.Database(path, index="file")
    assert mapped.is_index_mapped and not in_memory.is_index_mapped
    assert mapped.lookup(ADDRESSES, "country.iso_code").to_pylist() == COUNTRIES
    os.truncate(path, 10)
    assert in_memory.lookup(ADDRESSES, "country.iso_code").to_pylist() == COUNTRIES
    for ask in (
        lambda: mapped.get("192.0.2.1"),
        lambda: mapped.field("192.0.2.1", "number"),
        lambda: mapped.lookup(ADDRESSES, "number"),
    ):
        with pytest.raises(whered.InvalidDatabaseError, match="cut to 10 bytes"):
            ask()
    assert mapped.network("192.0.2.1") == "192.0.2.0/24"
    os.truncate(f"{path}.index", 20)
    with pytest.raises(whered.InvalidDatabaseError, match="cut to 20 bytes"):
        mapped.network("192.0.2.1")


def test_an_index_of_another_database_is_never_used(tmp_path: Any) -> None:
    path = tmp_path / "city.mmdb"
    path.write_bytes(database_bytes({"192.0.2.0/24": {"name": "old"}}))
    whered.Database(path).save_index()
    path.write_bytes(database_bytes({"192.0.2.0/24": {"name": "new"}, "10.0.0.0/8": {"name": "x"}}))
    assert whered.Database(path).field("10.0.0.1", "name") == "x"
    with pytest.raises(whered.InvalidDatabaseError, match="the index of another database"):
        whered.Database(path, index="file")
    with pytest.raises(FileNotFoundError, match="there is no index"):
        whered.Database(path.rename(tmp_path / "other.mmdb"), index="file")


def test_ctrl_c_ends_a_long_call(database: whered.Database) -> None:
    column = pa.array(["2001:db8::1", "192.0.2.1"] * 4_000_000)
    began = time.monotonic()
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(1000):
            database.lookup(column, network=True)
    timer.join()
    assert time.monotonic() - began < 30


def test_threads_and_forks_use_one_database(database: whered.Database) -> None:
    column = pa.array(ADDRESSES * 2_000)
    wrong: list[Any] = []

    def ask() -> None:
        for _ in range(5):
            if database.lookup(column, "country.iso_code").to_pylist() != COUNTRIES * 2_000:
                wrong.append("column")
            if database.field("192.0.2.7", "city.names.en") != "Berlin":
                wrong.append("field")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    child = os.fork()
    if child == 0:
        answer = database.lookup(column, "country.iso_code", threads=2).to_pylist()
        os._exit(0 if answer == COUNTRIES * 2_000 else 1)
    _, status = os.waitpid(child, 0)
    for thread in threads:
        thread.join()
    assert status == 0 and not wrong


def test_columns_of_answers_are_sequences(database: whered.Database) -> None:
    answer = database.lookup(ADDRESSES, "country.iso_code")
    assert len(answer) == len(ADDRESSES) and list(answer) == COUNTRIES
    assert answer[0] == "DE" and answer[-1] is None and answer.null_count == COUNTRIES.count(None)
    assert answer.name == "country.iso_code" and answer.type == "Utf8View"
    with pytest.raises(IndexError, match="row 11 of a column of 11 rows"):
        answer[11]
    table = database.lookup(ADDRESSES, ["number"])
    assert table.names == ["number"] and list(table) == ["number"] and "number" in table
    with pytest.raises(KeyError, match="no column"):
        table["none"]


def test_an_answer_outlives_its_database(database_path: str) -> None:
    answer = pa.chunked_array(whered.Database(database_path).lookup(ADDRESSES, "city.names.en"))
    assert answer.to_pylist() == CITIES
