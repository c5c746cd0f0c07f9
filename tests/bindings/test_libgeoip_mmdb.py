"""MaxMind DB files behind libGeoIP's functions: directly, and in the place of legacy files."""

import ctypes
import pathlib
import subprocess
import sys

import geoip
import pytest
from conftest import BINARY, program
from geoip import INDEX, MEMORY, MMAP, STANDARD
from library import environment

CITY_ROWS = """network,country.iso_code,subdivisions.0.iso_code,city.names.en,postal.code,location.latitude:double,location.longitude:double,location.metro_code:uint16
8.8.8.0/24,US,CA,Mountain View,94043,37.386,-122.0838,807
5.1.0.0/16,DE,BY,München,80331,48.1374,11.5755,
24.0.0.0/16,CA,ON,Toronto,M5H,43.65,-79.38,
31.0.0.0/16,XK,,Pristina,,42.67,21.17,
2001:db8::/32,FR,,Žilina,75001,48.85,2.35,
"""
ASN_ROWS = """network,autonomous_system_number:uint32,autonomous_system_organization
8.8.8.0/24,15169,GOOGLE
2001:db8::/32,64500,
"""
ISP_ROWS = """network,isp,organization
8.8.8.0/24,Google,Google Fiber
"""
OTHER_ROWS = """network,reputation.score:uint32
8.8.8.0/24,5
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("mmdb")
    for name, rows in [
        ("a-other", OTHER_ROWS),
        ("b-asn", ASN_ROWS),
        ("c-city", CITY_ROWS),
        ("d-isp", ISP_ROWS),
    ]:
        table = made / f"{name}.csv"
        table.write_text(rows)
        command = [str(BINARY), "db", "build", str(table), "-o", str(made / f"{name}.mmdb")]
        subprocess.run(command, check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
def library():
    return geoip.Library(geoip.ours())


MODES = [STANDARD, MEMORY, INDEX, MMAP]


@pytest.mark.parametrize("flags", MODES)
def test_a_city_database_answers_countries_regions_and_cities_of_both_families(
    library, folder, flags
):
    gi = library.open(folder / "c-city.mmdb", flags)
    assert gi.contents.databaseType == 2
    assert library.GeoIP_country_code_by_addr(gi, b"8.8.8.8") == b"US"
    assert library.GeoIP_last_netmask(gi) == 24
    assert library.GeoIP_country_code3_by_addr_v6(gi, b"2001:db8::1") == b"FRA"
    assert library.GeoIP_id_by_addr(gi, b"9.9.9.9") == 0
    assert library.GeoIP_region_by_addr(gi, b"8.8.8.8") == (b"US", b"CA")
    assert library.GeoIP_region_by_addr(gi, b"24.0.0.1") == (b"CA", b"ON")
    # Elsewhere regions have codes of FIPS 10-4.
    assert library.GeoIP_region_by_addr(gi, b"5.1.2.3") == (b"DE", b"02")
    assert library.GeoIP_region_name_by_code(b"DE", b"02") == b"Bayern"
    record = library.GeoIP_record_by_addr(gi, b"8.8.8.8")
    assert record[:6] == (b"US", b"USA", b"United States", b"CA", b"Mountain View", b"94043")
    assert record[6:] == (pytest.approx(37.386), pytest.approx(-122.0838), 807, 0, 0, b"NA", 24)
    assert library.GeoIP_record_by_addr(gi, b"5.1.2.3")[4] == "München".encode("latin1")
    assert library.GeoIP_record_by_addr_v6(gi, b"2001:db8::1")[4] == b"?ilina"
    # libGeoIP has no number for Kosovo.
    assert library.GeoIP_record_by_addr(gi, b"31.0.0.1")[:5] == (b"--", b"--", None, None, b"Pristina")
    library.GeoIP_set_charset(gi, 1)
    assert library.GeoIP_record_by_addr(gi, b"5.1.2.3")[4] == "München".encode()
    assert library.GeoIP_record_by_addr_v6(gi, b"2001:db8::1")[4] == "Žilina".encode()
    assert library.GeoIP_record_by_addr(gi, b"9.9.9.9") is None
    # A Teredo address of the client 8.8.8.8.
    teredo = b"2001:0:4136:e378:8000:63bf:f7f7:f7f7"
    assert library.GeoIP_country_code_by_addr_v6(gi, teredo) == b"US"
    assert library.GeoIP_range_by_ip(gi, b"8.8.8.8") == (b"8.8.8.0", b"8.8.8.255")
    assert b"2" in library.GeoIP_database_info(gi)
    library.raw.GeoIP_delete(gi)


@pytest.mark.parametrize("flags", MODES)
def test_names_come_from_asn_and_isp_databases(library, folder, flags):
    gi = library.open(folder / "b-asn.mmdb", flags)
    assert gi.contents.databaseType == 9
    assert library.GeoIP_name_by_addr(gi, b"8.8.8.8") == b"AS15169 GOOGLE"
    assert library.GeoIP_org_by_addr_v6(gi, b"2001:db8::1") == b"AS64500"
    assert library.GeoIP_name_by_addr(gi, b"9.9.9.9") is None
    library.raw.GeoIP_delete(gi)
    gi = library.open(folder / "d-isp.mmdb", flags)
    assert gi.contents.databaseType == 5
    assert library.GeoIP_org_by_addr(gi, b"8.8.8.8") == b"Google Fiber"
    library.raw.GeoIP_delete(gi)


IN_PLACE = """
import sys
sys.path[:0] = {paths!r}
import geoip
library = geoip.Library({library!r})
for what in {opened}:
    gi = library.raw.GeoIP_open_type(what, 0) if isinstance(what, int) else library.open(what, 0)
    if not gi:
        print(what, None)
        continue
    kind = gi.contents.databaseType
    print(what, kind, gi.contents.file_path.decode().rsplit("/", 1)[-1], [
        library.GeoIP_country_code_by_addr(gi, b"8.8.8.8") if kind in (1, 12, 2) else None,
        library.GeoIP_country_code_by_addr_v6(gi, b"2001:db8::1") if kind in (1, 12) else None,
        library.GeoIP_name_by_addr(gi, b"8.8.8.8") if kind in (4, 5, 9) else None,
        library.GeoIP_db_avail(what) if isinstance(what, int) else None,
    ])
"""


def in_place(value, opened):
    here = pathlib.Path(__file__).resolve().parent
    script = IN_PLACE.format(
        paths=[str(here.parent), str(here)], library=str(geoip.ours()), opened=repr(opened)
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=environment(None, WHERED_GEOIP_MMDB=value),
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_a_folder_answers_each_edition_from_the_first_database_with_its_fields(folder):
    said, _ = in_place(str(folder), [1, 12, 2, 9, 4, 5, 11])
    assert said == [
        "1 1 c-city.mmdb [b'US', b'FR', None, 1]",
        "12 12 c-city.mmdb [b'US', b'FR', None, 1]",
        "2 2 c-city.mmdb [b'US', None, None, 1]",
        "9 9 b-asn.mmdb [None, None, b'AS15169 GOOGLE', 1]",
        "4 4 d-isp.mmdb [None, None, b'Google', 1]",
        "5 5 d-isp.mmdb [None, None, b'Google Fiber', 1]",
        "11 None",
    ]


def test_a_list_of_files_is_asked_in_its_order_and_a_path_says_the_edition_by_its_name(folder):
    value = f"{folder}/d-isp.mmdb:{folder}/c-city.mmdb"
    said, _ = in_place(value, ["/none/GeoIP.dat", "/none/GeoLiteCity.dat", "/none/GeoIPASNum.dat"])
    assert said[0] == "/none/GeoIP.dat 1 c-city.mmdb [b'US', b'FR', None, None]"
    assert said[1] == "/none/GeoLiteCity.dat 2 c-city.mmdb [b'US', None, None, None]"
    assert said[2] == "/none/GeoIPASNum.dat None"


def test_names_of_files_that_are_no_databases_are_said_once(folder):
    country = str(geoip.database("GeoIP.dat"))
    for value, line in [
        ("/no/such.mmdb", "WHERED_GEOIP_MMDB: Error Opening file /no/such.mmdb"),
        (str(folder / "b-asn.csv"), f"WHERED_GEOIP_MMDB: {folder}/b-asn.csv is no MaxMind DB"),
        ("/proc/self/fd", "WHERED_GEOIP_MMDB names no MaxMind DB"),
        (f"{folder}/b-asn.mmdb", None),
    ]:
        said, errors = in_place(value, [country, country, 1])
        said = [line for line in said if not line.startswith("Invalid database type")]
        assert said[0].startswith(f"{country} 1 GeoIP.dat [b'US'"), said
        assert errors == (f"{line}\n" if line else "")


def test_a_legacy_file_that_is_there_says_which_edition_stands_in(folder):
    country = geoip.database("GeoIP.dat")
    said, _ = in_place(str(folder), [str(country)])
    assert said == [f"{country} 1 c-city.mmdb [b'US', b'FR', None, None]"]


def test_a_database_without_legacy_meaning_is_refused_with_one_line(library, folder):
    here = pathlib.Path(__file__).resolve().parent
    for flags in MODES:
        script = f"""
import sys
sys.path[:0] = {[str(here.parent), str(here)]!r}
import geoip
library = geoip.Library({str(geoip.ours())!r})
print(library.open({str(folder / "a-other.mmdb")!r}, {flags}))
print(library.open({str(folder / "a-other.mmdb")!r}, {flags | geoip.SILENCE}))
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.stdout == "None\nNone\n"
        assert done.stderr.count("\n") == 1 and "Error Opening file" in done.stderr
    broken = folder / "broken.dat"
    broken.write_bytes((folder / "c-city.mmdb").read_bytes()[-2000:])
    for flags in MODES:
        gi = library.open(broken, flags | geoip.SILENCE)
        if gi:
            library.GeoIP_record_by_addr(gi, b"8.8.8.8")
            library.raw.GeoIP_delete(gi)


def test_geoiplookup_answers_from_a_maxmind_db(folder, tmp_path):
    tool = program("geoiplookup", "geoip-bin")
    place = geoip.folder_with_ours(tmp_path)
    done = subprocess.run(
        [tool, "-f", str(folder / "c-city.mmdb"), "8.8.8.8"],
        capture_output=True,
        text=True,
        env=environment(place),
    )
    assert "US, CA, California, Mountain View, 94043" in done.stdout
    done = subprocess.run(
        [tool, "8.8.8.8"],
        capture_output=True,
        text=True,
        env=environment(place, WHERED_GEOIP_MMDB=str(folder)),
    )
    assert "GeoIP Country Edition: US, United States" in done.stdout
    assert "GeoIP ASNum Edition: AS15169 GOOGLE" in done.stdout


def test_own_calls_fill_a_record_in_the_callers_memory(library, folder):
    fill = library.raw.whered_geoip_record_by_addr
    fill.restype = ctypes.c_int
    fill.argtypes = [geoip.HANDLE, ctypes.c_char_p, ctypes.POINTER(geoip.Record)]
    fill.argtypes += [ctypes.c_void_p, ctypes.c_size_t]
    for flags in MODES:
        gi = library.open(folder / "c-city.mmdb", flags)
        record, memory = geoip.Record(), ctypes.create_string_buffer(256)
        assert fill(gi, b"8.8.8.8", ctypes.byref(record), memory, 256) == 1
        assert record.values() == library.GeoIP_record_by_addr(gi, b"8.8.8.8")
        assert fill(gi, b"9.9.9.9", ctypes.byref(record), memory, 256) == 0
        assert record.city == b"Mountain View"
        assert fill(gi, b"8.8.8.8", ctypes.byref(record), memory, 5) == -1
        assert (record.region, record.city, record.country_code) == (b"CA", None, b"US")
        assert fill(gi, None, ctypes.byref(record), memory, 256) == 0
        library.raw.GeoIP_delete(gi)
