"""Our `libGeoIP.so.1` answers as the original: every function, edition, mode, charset and message.

Both libraries are loaded side by side and asked the same. Where ours differs on purpose the test says
so (`docs/guide/geoip.md` has the list).
"""

import ctypes as c
import ipaddress
import os
import pathlib
import random
import re
import subprocess
import sys

import geoip
import geoip_files
import pytest
from conftest import program
from geoip import INDEX, MEMORY, MMAP, MODES, STANDARD, Library, Lookup, Region
from library import environment

FEW = not os.environ.get("WHERED_ALL_RECORDS")


@pytest.fixture(scope="module")
def both():
    return Library(geoip.ours()), Library(geoip.theirs())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file of each edition, and the addresses to ask it for."""
    folder, seeded = tmp_path_factory.mktemp("editions"), random.Random(50)
    made = {}
    for edition in geoip_files.EDITIONS:
        content, addresses = geoip_files.sample(edition, seeded)
        path = folder / f"edition-{edition}.dat"
        path.write_bytes(content)
        made[edition] = path, addresses
    return made


def symbols(path):
    """The dynamic symbols of a library: name to kind, and the size of data."""
    shown = subprocess.run(
        ["readelf", "--dyn-syms", "--wide", str(path)], capture_output=True, text=True, check=True
    ).stdout
    found = {}
    for line in shown.splitlines():
        columns = line.split()
        if len(columns) < 8 or columns[6] == "UND" or not columns[0][:-1].isdigit():
            continue
        size, kind, name = columns[2], columns[3], columns[7].split("@")[0]
        if kind in ("FUNC", "OBJECT"):
            found[name] = kind, int(size, 0) if kind == "OBJECT" else None
    return found


def test_all_symbols_of_the_original_are_there_with_their_sizes_and_nothing_else_but_ours():
    theirs = symbols(geoip.theirs())
    assert len(theirs) == 153
    mine = symbols(geoip.ours())
    assert {name: mine.get(name) for name in theirs} == theirs
    assert set(mine) - set(theirs) == geoip.OWN


def test_the_name_of_the_library_and_what_it_needs():
    shown = subprocess.run(
        ["readelf", "--dynamic", str(geoip.ours())], capture_output=True, text=True, check=True
    ).stdout
    assert "Library soname: [libGeoIP.so.1]" in shown
    needed = set(re.findall(r"NEEDED.*\[(.*?)\]", shown))
    assert needed <= {"libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}


def test_tables_of_countries_and_types_are_equal(both):
    ours, theirs = both
    for name, kind in [
        ("GeoIP_country_code", c.c_char * 768),
        ("GeoIP_country_code3", c.c_char * 1024),
        ("GeoIP_country_continent", c.c_char * 768),
    ]:
        assert ours.object(name, kind).raw == theirs.object(name, kind).raw, name
    for name, count in [
        ("GeoIP_country_name", 256),
        ("GeoIP_utf8_country_name", 256),
        ("GeoIPDBDescription", 39),
    ]:
        found = [list(library.object(name, c.c_char_p * count)) for library in both]
        assert found[0] == found[1], name
    for number in range(-2, 300):
        for name in "code", "code3", "name", "continent":
            call = f"GeoIP_{name}_by_id"
            assert getattr(ours, call)(number) == getattr(theirs, call)(number), (call, number)
    codes = [bytes([one, two]) for one in range(48, 91) for two in range(48, 91)]
    for code in [*codes, b"", b"U", b"USA", b"us", b"--"]:
        assert ours.GeoIP_id_by_code(code) == theirs.GeoIP_id_by_code(code), code
    assert ours.GeoIP_num_countries() == theirs.GeoIP_num_countries()
    assert ours.GeoIP_lib_version() == theirs.GeoIP_lib_version()


TEXTS_OF_ADDRESSES = """1.2.3.4 1.2.3 1.2.3.4.5 01.2.3.4 1..2.3 ... 1.2.3.256 0x1.2.3.4 4294967297.1.1.1
-1.2.3.4 +1.2.3.4 1.2.3.1000 255.255.255.255 1.2.3. .1.2.3 0.0.0.0 256.1.1.1 1.2.3.4x x
00000000000000000001.2.3.4 1.2.3.99999999999999999999 :: ::1 2001:db8::1 2001:DB8::1 ::ffff:1.2.3.4
::1.2.3.4 1:2:3:4:5:6:7:8 1:2:3:4:5:6:7:8:9 1::2::3 fe80::1%lo :::: 12345:: g:: 1:2:3:4:5:6:1.2.3.4
2001:0:4136:e378:8000:63bf:aefd:ba71 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff""".split()


def test_texts_of_addresses_are_read_as_the_original_reads_them(both):
    ours, theirs = both
    for text in [*TEXTS_OF_ADDRESSES, "", " 1.2.3.4", "1.2.3.4 ", "1.2.3.4\n"]:
        given = text.encode()
        for call in "GeoIP_addr_to_num", "_GeoIP_addr_to_num_v6", "GeoIP_is_private_v4":
            assert getattr(ours, call)(given) == getattr(theirs, call)(given), (call, text)
    seeded = random.Random(1)
    borders = [0x0A000000, 0x7F000000, 0xA9FE0000, 0xAC100000, 0xAC200000, 0xC0A80000]
    numbers = [border + step for border in borders for step in (-1, 0, 1, 0xFFFF, 0x10000)]
    for number in [*numbers, *(seeded.getrandbits(32) for _ in range(2000)), 1 << 40 | 10 << 24]:
        for call in "GeoIP_is_private_ipnum_v4", "GeoIP_num_to_addr":
            assert getattr(ours, call)(number) == getattr(theirs, call)(number), (call, number)
    for text in [b"", b"plain", b"a\xe9\xff\x80z", bytes(range(1, 256))]:
        assert ours._GeoIP_iso_8859_1__utf8(text) == theirs._GeoIP_iso_8859_1__utf8(text)
    for text in "2001:0:4136:e378:8000:63bf:aefd:ba71", "2001:1::1", "::", "2001::":
        changed = []
        for library in both:
            number = geoip.address6(text)
            assert library.raw["__GEOIP_V6_IS_NULL"](number) == (text == "::")
            library.raw["__GEOIP_PREPARE_TEREDO"](c.byref(number))
            changed.append(bytes(number))
        assert changed[0] == changed[1], text


def test_hosts_are_resolved_as_the_original_resolves_them(both):
    ours, theirs = both
    for name in b"localhost", b"127.0.0.1", b"1.2.3", b"::1", b"no-such-host.invalid", b"":
        assert ours._GeoIP_lookupaddress(name) == theirs._GeoIP_lookupaddress(name), name
        assert ours._GeoIP_lookupaddress_v6(name) == theirs._GeoIP_lookupaddress_v6(name), name


def family(address):
    return "_v6" if ":" in address else ""


def number_of(address):
    if ":" in address:
        return geoip.address6(address)
    return int(ipaddress.IPv4Address(address))


def answers(library, handle, address):
    """What every function says of an address, and the masks it leaves."""
    end, given = family(address), address.encode()
    number, said = number_of(address), []

    def ask(name, *arguments):
        said.append((name, getattr(library, name)(*arguments), library.GeoIP_last_netmask(handle)))

    for what in geoip.COUNTRY_RESULTS:
        ask(f"GeoIP_{what}_by_addr{end}", handle, given)
        if what != "country_id":
            ask(f"GeoIP_{what}_by_ipnum{end}", handle, number)
    for what in "region", "name", "org", "record":
        ask(f"GeoIP_{what}_by_addr{end}", handle, given)
        ask(f"GeoIP_{what}_by_ipnum{end}", handle, number)
    ask(f"GeoIP_record_id_by_addr{end}", handle, given)
    ask(f"_GeoIP_seek_record{end}", handle, number)
    for what in "id", "country_code", "country_code3", "country_name", "region", "name":
        lookup = Lookup(77)
        ask(f"GeoIP_{what}_by_addr{end}_gl", handle, given, c.byref(lookup))
        said.append(lookup.netmask)
    region, lookup = Region(b"xx", b"yy"), Lookup(77)
    inet = number if end else int.from_bytes(number.to_bytes(4, "big"), "little")
    getattr(library, f"GeoIP_assign_region_by_inetaddr{end}_gl")(
        handle, inet, c.byref(region), c.byref(lookup)
    )
    said.append((region.country_code, region.region, lookup.netmask))
    return said


def captured(ask):
    """What a call returns, and what it prints."""
    read, write = os.pipe()
    saved = os.dup(1), os.dup(2)
    geoip.LIBC.fflush(None)
    os.dup2(write, 1), os.dup2(write, 2)
    try:
        result = ask()
        geoip.LIBC.fflush(None)
    finally:
        os.dup2(saved[0], 1), os.dup2(saved[1], 2)
        for descriptor in (write, *saved):
            os.close(descriptor)
    with os.fdopen(read, "rb") as end:
        return result, end.read()


@pytest.mark.parametrize("flags", MODES)
@pytest.mark.parametrize("edition", geoip_files.EDITIONS)
def test_every_function_answers_equally_from_every_edition(both, files, edition, flags):
    path, addresses = files[edition]
    seeded = random.Random(edition * 100 + flags)
    asked = seeded.sample(addresses, min(len(addresses), 20 if FEW else 5000))
    asked += ["8.1.2.3", "2001:db8::1", "2001:0:4136:e378:8000:63bf:f4fe:fdfc"]
    handles = [library.open(path, flags) for library in both]
    for charset, teredo in (0, 1), (1, 0):
        for library, handle in zip(both, handles):
            library.GeoIP_set_charset(handle, charset)
            library.GeoIP_enable_teredo(handle, teredo)
        for address in asked:
            # The original says "invalid" to stdout at each wrong call: both are kept out of sight.
            mine, theirs = (
                captured(lambda: answers(library, handle, address))
                for library, handle in zip(both, handles)
            )
            assert mine == theirs, (edition, flags, address)
    for library, handle in zip(both, handles):
        library.GeoIP_delete(handle)


@pytest.mark.parametrize("flags", MODES)
@pytest.mark.parametrize("edition", geoip_files.EDITIONS)
def test_ranges_properties_and_records_in_turn_are_equal(both, files, edition, flags):
    path, addresses = files[edition]
    handles = [library.open(path, flags) for library in both]
    shown = []
    for library, handle in zip(both, handles):
        public = handle.contents
        shown.append(
            (
                public.databaseType,
                public.databaseSegments[0],
                public.record_length,
                public.size,
                public.flags,
                public.charset,
                public.ext_flags,
                public.file_path,
                library.GeoIP_database_info(handle),
                library.GeoIP_database_edition(handle),
                library.GeoIP_init_record_iter(handle),
            )
        )
    assert shown[0] == shown[1]
    if edition not in geoip_files.IPV6:
        for address in random.Random(7).sample(addresses, 40):
            for name in "GeoIP_range_by_ip", "GeoIP_range_by_ip_gl":
                more = [] if name.endswith("ip") else [c.byref(Lookup(5))]
                mine, theirs = (
                    (
                        getattr(library, name)(handle, address.encode(), *more),
                        library.GeoIP_last_netmask(handle),
                    )
                    for library, handle in zip(both, handles)
                )
                assert mine == theirs, (name, address)
    if edition in geoip_files.CITIES:
        assert in_turn(both[0], handles[0]) == in_turn(both[1], handles[1])
    for library, handle in zip(both, handles):
        library.GeoIP_delete(handle)


def in_turn(library, handle, count=50):
    """The first records of a file, one after the other."""
    number, said = c.c_int(library.GeoIP_init_record_iter(handle)), []
    for _ in range(count):
        record = c.POINTER(geoip.Record)()
        status, _ = captured(
            lambda: library.raw.GeoIP_next_record(handle, c.byref(record), c.byref(number))
        )
        # Of the mask the original has nothing: no address was looked up.
        said.append((status, record.contents.values()[:-1] if record else None, number.value))
        library.raw.GeoIPRecord_delete(record)
    return said


def networks_of(library, handle):
    """All IPv4 networks of a file, by the masks of the original."""
    address = 0
    while address < 1 << 32:
        library.raw._GeoIP_seek_record(handle, address)
        size = 1 << (32 - library.raw.GeoIP_last_netmask(handle))
        yield address, address + size - 1
        address += size


@pytest.fixture(scope="module")
def country_borders(both):
    """Both ends of each network of Debian's country file."""
    original = both[1].open(geoip.database("GeoIP.dat"), MEMORY)
    found = [end for network in networks_of(both[1], original) for end in network]
    both[1].raw.GeoIP_delete(original)
    return found


@pytest.mark.parametrize("flags", [STANDARD, MEMORY, INDEX, MMAP])
def test_all_borders_and_random_addresses_of_the_country_file(both, country_borders, flags):
    path = geoip.database("GeoIP.dat")
    ours, theirs = (library.raw for library in both)
    mine = both[0].open(path, flags)
    original = both[1].open(path, MEMORY)
    borders = country_borders
    assert len(borders) > 100_000
    if FEW and flags != MEMORY:
        borders = random.Random(3).sample(borders, 15_000)
    seeded = random.Random(5)
    count = 20_000 if FEW else 100_000
    asked = borders + [seeded.getrandbits(32) for _ in range(count)]
    for number in asked:
        assert ours._GeoIP_seek_record(mine, number) == theirs._GeoIP_seek_record(original, number)
        assert mine.contents.netmask == original.contents.netmask
    for number in seeded.sample(asked, 5_000 if FEW else 100_000):
        text = str(ipaddress.IPv4Address(number)).encode()
        for name in "GeoIP_id_by_addr", "GeoIP_country_code_by_addr", "GeoIP_country_name_by_addr":
            assert ours[name](mine, text) == theirs[name](original, text), (name, text)
    for number in seeded.sample(asked, 300):
        text = str(ipaddress.IPv4Address(number)).encode()
        found = [library.GeoIP_range_by_ip(it, text) for library, it in zip(both, (mine, original))]
        assert found[0] == found[1], text
    ours.GeoIP_delete(mine)
    theirs.GeoIP_delete(original)


def networks_of_v6(library, handle):
    address = 0
    while address < 1 << 128:
        library.raw._GeoIP_seek_record_v6(handle, packed(address))
        size = 1 << (128 - library.raw.GeoIP_last_netmask(handle))
        yield address, address + size - 1
        address += size


def packed(bits):
    return geoip.Address6.from_buffer_copy(bits.to_bytes(16, "big"))


@pytest.fixture(scope="module")
def ipv6_borders(both):
    """Both ends of each network of Debian's IPv6 country file."""
    original = both[1].open(geoip.database("GeoIPv6.dat"), MEMORY)
    both[1].raw.GeoIP_enable_teredo(original, 0)
    found = [end for network in networks_of_v6(both[1], original) for end in network]
    both[1].raw.GeoIP_delete(original)
    return found


@pytest.mark.parametrize("teredo", [1, 0])
@pytest.mark.parametrize("flags", [STANDARD, MEMORY])
def test_all_borders_and_random_addresses_of_the_ipv6_file(both, ipv6_borders, flags, teredo):
    path = geoip.database("GeoIPv6.dat")
    ours, theirs = (library.raw for library in both)
    mine, original = both[0].open(path, flags), both[1].open(path, MEMORY)
    seeded, asked = random.Random(6), list(ipv6_borders)
    assert len(asked) > 50_000
    if FEW:
        asked = seeded.sample(asked, 10_000)
    count = 5_000 if FEW else 100_000
    asked += [0x2 << 124 | seeded.getrandbits(125) for _ in range(count)]
    asked += [seeded.getrandbits(32) for _ in range(count)]
    asked += [0x2001 << 112 | seeded.getrandbits(96) for _ in range(count)]
    for library, handle in (ours, mine), (theirs, original):
        library.GeoIP_enable_teredo(handle, teredo)
    for bits in asked:
        number = packed(bits)
        found = ours.GeoIP_id_by_ipnum_v6(mine, number)
        assert found == theirs.GeoIP_id_by_ipnum_v6(original, number), hex(bits)
        assert mine.contents.netmask == original.contents.netmask, hex(bits)
    for bits in seeded.sample(asked, 5_000):
        text = str(ipaddress.IPv6Address(bits)).encode()
        name = "GeoIP_country_code3_by_addr_v6"
        assert ours[name](mine, text) == theirs[name](original, text), text
    ours.GeoIP_delete(mine)
    theirs.GeoIP_delete(original)


SCRIPT = """
import sys
sys.path[:0] = [{tests!r}, {bindings!r}]
import geoip
library = geoip.Library({library!r})
{body}
"""


def printed(library, body):
    """What a process prints that loads one of the libraries: stdout, stderr, and how it ends."""
    here = pathlib.Path(__file__).resolve().parent
    script = SCRIPT.format(
        tests=str(here.parent), bindings=str(here), library=str(library), body=body
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    return done.stdout, done.stderr, done.returncode


@pytest.mark.parametrize(
    "body",
    [
        "print(library.open('/no/such/file'), library.open('/no/such/file', 16))",
        "print(library.open('/'))",
        "print([bool(library.raw.GeoIP_open_type(2, flags)) for flags in (0, 16)])",
        "print(bool(library.raw.GeoIP_open_type(40, 0)), bool(library.raw.GeoIP_open_type(-1, 16)))",
        "print(bool(library.raw.GeoIP_open_type(15, 0)), bool(library.raw.GeoIP_open_type(20, 0)))",
        "print([library.GeoIP_db_avail(number) for number in range(-1, 41)])",
        "library.GeoIP_setup_custom_directory(b'/tmp/x/'); print(library._GeoIP_full_path_to(b'y'))",
        "print(library._GeoIP_full_path_to(b'y'), library.GeoIP_cleanup())",
        "library._GeoIP_setup_dbfilename(); print(library.GeoIP_cleanup(), library.GeoIP_cleanup())",
        """
import ctypes
library._GeoIP_setup_dbfilename()
names = library.object("GeoIPDBFileName", ctypes.POINTER(ctypes.c_char_p))
print([names[number] for number in range(39)])
""",
        """
gi = library.raw.GeoIP_new(0)
print([library.GeoIP_enable_teredo(gi, number) for number in (0, 1, 2, 3, 4, 5, -1, 0)])
print(gi.contents.ext_flags, library.GeoIP_teredo(gi))
print([library.GeoIP_set_charset(gi, number) for number in (1, 7, -1, 0)])
gi.contents.charset = 1
print(library.GeoIP_charset(gi), library.GeoIP_country_name_by_id(gi, 10))
""",
        """
gi = library.raw.GeoIP_new(0)
for text in (None, b"", b"x", b"0.0.0.0", b"8.8.8.8"):
    gi.contents.netmask = 55
    for name in ("id", "country_code", "country_name", "record", "region", "name"):
        print(name, text, getattr(library, f"GeoIP_{name}_by_addr")(gi, text), gi.contents.netmask)
    print(library.GeoIP_range_by_ip(gi, text), gi.contents.netmask)
library.raw.GeoIP_delete(None)
""",
        """
gi = library.raw.GeoIP_new(16)
print(library.GeoIP_record_by_addr(gi, b"8.8.8.8"), library.GeoIP_id_by_addr_v6(gi, b"::1"))
""",
    ],
)
def test_messages_and_odd_calls_are_equal(body):
    geoip.database("GeoIP.dat")
    mine, theirs = printed(geoip.ours(), body), printed(geoip.theirs(), body)
    assert mine == theirs


COPIES = r"""
#include "GeoIPCity.h"
#include "whered_geoip.h"

/* Linked without position independence, so that the program has copies of the library's data. */
int main(int count, char **arguments) {
    GeoIP_setup_custom_directory("/tmp/some");
    _GeoIP_setup_dbfilename();
    printf("%s %s\n", GeoIP_custom_directory, GeoIPDBFileName[GEOIP_COUNTRY_EDITION]);
    printf("%d\n", GeoIP_cleanup());
    printf("%s\n", GeoIPDBFileName == NULL ? "none" : "some");
    GeoIP_custom_directory = "/tmp/other";
    _GeoIP_setup_dbfilename();
    printf("%s\n", GeoIPDBFileName[GEOIP_ASNUM_EDITION]);
    printf("%s %s %s %s\n", GeoIP_country_code[225], GeoIP_country_code3[225],
           GeoIP_country_name[225], GeoIP_country_continent[225]);
    printf("%s %s\n", GeoIP_utf8_country_name[10], GeoIPDBDescription[1]);
    GeoIP *gi = GeoIP_open(arguments[count - 1], GEOIP_MEMORY_CACHE);
    GeoIPRecord record;
    char memory[256];
    if (whered_geoip_record_by_addr(gi, "8.8.8.8", &record, memory, sizeof memory) != 1)
        return 1;
    printf("%s %s %d\n", record.country_code, record.city, whered_geoip_memory_bytes(gi) > 0);
    gi->charset = GEOIP_CHARSET_UTF8;
    GeoIPRecord *allocated = GeoIP_record_by_addr(gi, "8.8.8.8");
    printf("%s\n", allocated->city);
    GeoIPRecord_delete(allocated);
    GeoIP_delete(gi);
    return 0;
}
"""


@pytest.mark.parametrize("linked", [["-no-pie", "-fno-pic"], ["-pie", "-fPIE"]])
def test_a_program_of_our_header_with_copies_of_the_data_sees_what_the_library_writes(
    tmp_path, linked
):
    compiler = program("cc", "gcc")
    place = geoip.folder_with_ours(tmp_path)
    (place / "libGeoIP.so").symlink_to("libGeoIP.so.1")
    source, built = tmp_path / "copies.c", tmp_path / "copies"
    source.write_text(COPIES)
    city = tmp_path / "city.dat"
    record = b"\xe1CA\0Los \xc1ngeles\0\0" + bytes(9)
    city.write_bytes(geoip_files.write(2, [(8 << 24, 8, record)]))
    include = pathlib.Path(__file__).resolve().parents[2] / "bindings/c/geoip/include"
    command = [compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", *linked, f"-I{include}"]
    command += [str(source), "-o", str(built), f"-L{place}", "-lGeoIP"]
    subprocess.run(command, check=True)
    done = subprocess.run([str(built), str(city)], capture_output=True, env=environment(place))
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode("latin1").splitlines() == [
        "/tmp/some /tmp/some/GeoIP.dat",
        "1",
        "none",
        "/tmp/other/GeoIPASNum.dat",
        "US USA United States NA",
        "Curaçao GeoIP Country Edition".encode().decode("latin1"),
        "US Los Ángeles 1",
        "Los Ángeles".encode().decode("latin1"),
    ]


DIFFERENCES = pathlib.Path(__file__).resolve().parents[2] / "bindings/c/geoip/tables/differences.tsv"
LETTERS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def differences(both):
    """A row for each name and time zone in which ours and the original differ, and how many are equal."""
    ours, theirs = both
    countries = theirs.object("GeoIP_country_code", c.c_char * 768).raw
    regions = [bytes([one, two]) for one in LETTERS for two in LETTERS]
    rows, equal = ["what\tcountry\tregions\there\tlibGeoIP 1.6.12"], 0
    for country in sorted({countries[at : at + 2] for at in range(0, 768, 3)}):
        zones, codes_only = {}, []
        for region in regions:
            asked = country, region
            mine, original = (it.GeoIP_region_name_by_code(*asked) for it in both)
            # Programs take it for granted that a code that libGeoIP knows has a name.
            assert original is None or mine is not None, asked
            equal += mine == original and mine is not None
            if mine != original and mine == region:
                codes_only.append(region)
            elif mine != original:
                said = [country, region, mine, original or b"-"]
                rows.append("\t".join(["name", *(text.decode("latin1") for text in said)]))
            mine, original = (it.GeoIP_time_zone_by_country_and_region(*asked) for it in both)
            if mine != original:
                zones.setdefault((mine or b"-", original or b"-"), []).append(region)
        if codes_only:
            listed = b" ".join(codes_only).decode()
            rows.append(f"name\t{country.decode()}\t{listed}\tthe code itself\ta name")
        for said, those in zones.items():
            # Of the 1,296 codes that there could be, few are regions.
            listed = b" ".join(those).decode() if len(those) < 200 else "all others"
            said = [country, *said]
            country_name, mine, original = (text.decode() for text in said)
            rows.append("\t".join(["zone", country_name, listed, mine, original]))
    return "\n".join(rows) + "\n", equal


def test_the_list_of_other_names_of_regions_and_zones_is_complete(both):
    """The tables come from other sources than the original's: see `tables/generate.py`."""
    ours, theirs = both
    found, equal = differences(both)
    assert equal > 2_300
    if os.environ.get("WHERED_BLESS"):
        DIFFERENCES.write_text(found)
    assert DIFFERENCES.read_text() == found, "WHERED_BLESS=1 writes it anew"
    for country, region in (b"US", b"CA"), (b"CA", b"ON"), (b"DE", b"02"), (b"GB", b"zz"):
        for call in "GeoIP_region_name_by_code", "GeoIP_time_zone_by_country_and_region":
            assert getattr(ours, call)(country, region) == getattr(theirs, call)(country, region)
    for odd in (b"", b""), (b"US", b"C"), (b"US", None), (b"DE", None), (b"DE", b""), (None, b"CA"):
        call = "GeoIP_time_zone_by_country_and_region"
        assert getattr(ours, call)(*odd) == getattr(theirs, call)(*odd), odd
