"""Our `libGeoIP.so.1` and the original, called through ctypes: `Library(path)`.

`ours()` and `theirs()` are the paths; without the original a test is skipped, or fails where it is
required. Every call of a `Library` gives plain Python values, so that two libraries can be compared.
"""

import ctypes as c
import pathlib
import shutil
import socket
import subprocess

from conftest import BINARY
from library import missing

BUILT = BINARY.parent / "libGeoIP.so"
DATABASES = pathlib.Path("/usr/share/GeoIP")

STANDARD, MEMORY, CHECK, INDEX, MMAP, SILENCE = 0, 1, 2, 4, 8, 16
MODES = [STANDARD, MEMORY, INDEX, MMAP, MEMORY | CHECK]


def ours():
    assert BUILT.is_file(), f"there is no {BUILT}: cargo build --package whered-geoip"
    return BUILT


def theirs():
    command = "PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep -m1 'libGeoIP\\.so\\.1'"
    found = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    path = found.stdout.strip().rsplit(" => ", 1)[-1]
    if not path:
        missing("peers", "libGeoIP.so.1 is not installed (package libgeoip1)")
    return pathlib.Path(path).resolve()


def database(name):
    path = DATABASES / name
    if not path.is_file():
        missing("peers", f"there is no {path} (package geoip-database)")
    return path


def folder_with_ours(folder):
    """A copy of our library under the name by which programs look for it, alone in a folder."""
    place = pathlib.Path(folder) / "lib"
    place.mkdir()
    shutil.copy(ours(), place / "libGeoIP.so.1")
    return place


class Public(c.Structure):
    """The public structure `GeoIP`."""

    _fields_ = [
        ("GeoIPDatabase", c.c_void_p),
        ("file_path", c.c_char_p),
        ("cache", c.c_void_p),
        ("index_cache", c.c_void_p),
        ("databaseSegments", c.POINTER(c.c_uint)),
        ("databaseType", c.c_ubyte),
        ("mtime", c.c_long),
        ("flags", c.c_int),
        ("size", c.c_long),
        ("record_length", c.c_ubyte),
        ("charset", c.c_int),
        ("record_iter", c.c_int),
        ("netmask", c.c_int),
        ("last_mtime_check", c.c_long),
        ("dyn_seg_size", c.c_long),
        ("ext_flags", c.c_uint),
    ]


class Record(c.Structure):
    """A city record."""

    _fields_ = [
        ("country_code", c.c_char_p),
        ("country_code3", c.c_char_p),
        ("country_name", c.c_char_p),
        ("region", c.c_char_p),
        ("city", c.c_char_p),
        ("postal_code", c.c_char_p),
        ("latitude", c.c_float),
        ("longitude", c.c_float),
        ("metro_code", c.c_int),
        ("area_code", c.c_int),
        ("charset", c.c_int),
        ("continent_code", c.c_char_p),
        ("netmask", c.c_int),
    ]

    def values(self):
        return tuple(getattr(self, name) for name, _ in self._fields_)


class Region(c.Structure):
    _fields_ = [("country_code", c.c_char * 3), ("region", c.c_char * 3)]


class Lookup(c.Structure):
    _fields_ = [("netmask", c.c_int)]


class Address6(c.Structure):
    """`struct in6_addr`, passed by value."""

    _fields_ = [("words", c.c_uint * 4)]


HANDLE = c.POINTER(Public)
assert c.sizeof(Public) == 112 and c.sizeof(Record) == 88 and c.sizeof(Region) == 6


def address6(text):
    return Address6.from_buffer_copy(socket.inet_pton(socket.AF_INET6, text))


COUNTRY_RESULTS = {
    "id": c.c_int,
    "country_id": c.c_int,
    "country_code": c.c_char_p,
    "country_code3": c.c_char_p,
    "country_name": c.c_char_p,
}
GIVEN = {
    "addr": c.c_char_p,
    "name": c.c_char_p,
    "ipnum": c.c_ulong,
    "addr_v6": c.c_char_p,
    "name_v6": c.c_char_p,
    "ipnum_v6": Address6,
}


def signatures():
    """Every function: name, result, arguments."""
    for what, result in COUNTRY_RESULTS.items():
        for how, given in GIVEN.items():
            if what == "country_id" and "ipnum" in how:
                continue
            yield f"GeoIP_{what}_by_{how}", result, [HANDLE, given]
            yield f"GeoIP_{what}_by_{how}_gl", result, [HANDLE, given, c.POINTER(Lookup)]
    for how, given in GIVEN.items():
        yield f"GeoIP_region_by_{how}", c.POINTER(Region), [HANDLE, given]
        yield f"GeoIP_region_by_{how}_gl", c.POINTER(Region), [HANDLE, given, c.POINTER(Lookup)]
        yield f"GeoIP_name_by_{how}", c.c_void_p, [HANDLE, given]
        yield f"GeoIP_name_by_{how}_gl", c.c_void_p, [HANDLE, given, c.POINTER(Lookup)]
        yield f"GeoIP_org_by_{how}", c.c_void_p, [HANDLE, given]
        yield f"GeoIP_record_by_{how}", c.POINTER(Record), [HANDLE, given]
    for end, given in ("", c.c_ulong), ("_v6", Address6):
        region, lookup = c.POINTER(Region), c.POINTER(Lookup)
        yield f"GeoIP_assign_region_by_inetaddr{end}", None, [HANDLE, given, region]
        yield f"GeoIP_assign_region_by_inetaddr{end}_gl", None, [HANDLE, given, region, lookup]
        yield f"_GeoIP_seek_record{end}", c.c_uint, [HANDLE, given]
        yield f"_GeoIP_seek_record{end}_gl", c.c_uint, [HANDLE, given, lookup]
        yield f"GeoIP_record_id_by_addr{end}", c.c_int, [HANDLE, c.c_char_p]
    pair = c.POINTER(c.c_char_p)
    yield "GeoIP_range_by_ip", pair, [HANDLE, c.c_char_p]
    yield "GeoIP_range_by_ip_gl", pair, [HANDLE, c.c_char_p, c.POINTER(Lookup)]
    yield "GeoIP_range_by_ip_delete", None, [pair]
    yield "GeoIPRecord_delete", None, [c.POINTER(Record)]
    yield "GeoIPRegion_delete", None, [c.POINTER(Region)]
    yield "GeoIP_addr_to_num", c.c_ulong, [c.c_char_p]
    yield "GeoIP_num_to_addr", c.c_void_p, [c.c_ulong]
    yield "GeoIP_charset", c.c_int, [HANDLE]
    yield "GeoIP_set_charset", c.c_int, [HANDLE, c.c_int]
    yield "GeoIP_teredo", c.c_int, [HANDLE]
    yield "GeoIP_enable_teredo", c.c_int, [HANDLE, c.c_int]
    yield "GeoIP_last_netmask", c.c_int, [HANDLE]
    yield "GeoIP_database_info", c.c_void_p, [HANDLE]
    yield "GeoIP_database_edition", c.c_ubyte, [HANDLE]
    yield "GeoIP_delete", None, [HANDLE]
    yield "GeoIP_open", HANDLE, [c.c_char_p, c.c_int]
    yield "GeoIP_open_type", HANDLE, [c.c_int, c.c_int]
    yield "GeoIP_new", HANDLE, [c.c_int]
    yield "GeoIP_db_avail", c.c_int, [c.c_int]
    yield "GeoIP_setup_custom_directory", None, [c.c_char_p]
    yield "_GeoIP_setup_dbfilename", None, []
    yield "_GeoIP_full_path_to", c.c_void_p, [c.c_char_p]
    yield "GeoIP_cleanup", c.c_int, []
    yield "GeoIP_lib_version", c.c_char_p, []
    yield "GeoIP_num_countries", c.c_uint, []
    yield "GeoIP_id_by_code", c.c_int, [c.c_char_p]
    for what in "code", "code3", "name", "continent":
        yield f"GeoIP_{what}_by_id", c.c_char_p, [c.c_int]
    yield "GeoIP_country_name_by_id", c.c_char_p, [HANDLE, c.c_int]
    yield "GeoIP_region_name_by_code", c.c_char_p, [c.c_char_p, c.c_char_p]
    yield "GeoIP_time_zone_by_country_and_region", c.c_char_p, [c.c_char_p, c.c_char_p]
    yield "GeoIP_init_record_iter", c.c_int, [HANDLE]
    following = [HANDLE, c.POINTER(c.POINTER(Record)), c.POINTER(c.c_int)]
    yield "GeoIP_next_record", c.c_int, following
    yield "GeoIP_is_private_ipnum_v4", c.c_int, [c.c_ulong]
    yield "GeoIP_is_private_v4", c.c_int, [c.c_char_p]
    yield "_GeoIP_iso_8859_1__utf8", c.c_void_p, [c.c_char_p]
    yield "_GeoIP_lookupaddress", c.c_ulong, [c.c_char_p]
    yield "_GeoIP_lookupaddress_v6", Address6, [c.c_char_p]
    yield "_GeoIP_addr_to_num_v6", Address6, [c.c_char_p]
    yield "__GEOIP_V6_IS_NULL", c.c_int, [Address6]
    yield "__GEOIP_PREPARE_TEREDO", None, [c.POINTER(Address6)]


# The functions that only our library has.
OWN = {
    "whered_geoip_memory_bytes",
    "whered_geoip_record_by_addr",
    "whered_geoip_record_by_addr_v6",
    "whered_geoip_record_by_ipnum",
    "whered_geoip_record_by_ipnum_v6",
}

LIBC = c.CDLL(None)
LIBC.free.argtypes = [c.c_void_p]


class Functions(dict):
    """Functions by name, as items and as attributes: results are those of ctypes."""

    __getattr__ = dict.__getitem__


class Library:
    """One of the two libraries. Attributes are its functions, whose results are Python values."""

    def __init__(self, path):
        self.library = c.CDLL(str(path))
        self.raw = Functions()
        for name, result, arguments in signatures():
            function = self.library[name]
            function.restype, function.argtypes = result, arguments
            self.raw[name] = function
        for name in OWN:
            self.raw[name] = getattr(self.library, name, None)

    def __getattr__(self, name):
        function = self.__dict__["raw"][name]
        taken = self.taker(function.restype)

        def call(*arguments):
            return taken(function(*arguments))

        self.__dict__[name] = call
        return call

    def taker(self, result):
        """What makes a Python value of a result, and frees it."""
        if result is c.c_void_p:
            return self.take_text
        if result == c.POINTER(Record):
            return self.take_record
        if result == c.POINTER(Region):
            return self.take_region
        if result == c.POINTER(c.c_char_p):
            return self.take_range
        if result is Address6:
            return bytes
        return lambda value: value

    def take_text(self, pointer):
        if not pointer:
            return None
        text = c.string_at(pointer)
        LIBC.free(pointer)
        return text

    def take_record(self, pointer):
        if not pointer:
            return None
        values = pointer.contents.values()
        self.raw.GeoIPRecord_delete(pointer)
        return values

    def take_region(self, pointer):
        if not pointer:
            return None
        values = pointer.contents.country_code, pointer.contents.region
        self.raw.GeoIPRegion_delete(pointer)
        return values

    def take_range(self, pointer):
        if not pointer:
            return None
        values = pointer[0], pointer[1]
        self.raw.GeoIP_range_by_ip_delete(pointer)
        return values

    def open(self, path, flags=0):
        handle = self.raw.GeoIP_open(str(path).encode(), flags)
        return handle if handle else None

    def object(self, name, kind):
        return kind.in_dll(self.library, name)
