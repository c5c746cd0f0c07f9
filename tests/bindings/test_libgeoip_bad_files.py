"""Broken files and odd arguments: our libGeoIP never dies or hangs, and answers as the original does.

Each library is asked in processes of its own, since the original reads behind its memory.
"""

import ctypes as c
import os
import pathlib
import random
import subprocess
import sys

import geoip
import geoip_files
import pytest
from geoip import INDEX, MEMORY, MMAP, STANDARD

# What a process asks of each version of a file: prints one line for each fault.
SWEEP = """
import ctypes, os, sys
sys.path[:0] = [{tests!r}, {bindings!r}]
import geoip
library = geoip.Library({library!r})
content = open({path!r}, "rb").read()
ask4 = [b"8.1.2.3", b"200.0.0.1", b"x"]
ask6 = [b"2001:db8::1", b"::8.1.2.3", b"2001:0:1::1"]
for number, fault in enumerate({faults!r}):
    at, value = fault
    changed = content[:at] if value is None else content[:at] + bytes([value]) + content[at + 1:]
    with open({scratch!r}, "wb") as file:
        file.write(changed)
    for flags in {modes!r}:
        gi = library.open({scratch!r}, flags | 16)
        if not gi:
            print(number, flags, None)
            continue
        said = [library.GeoIP_database_edition(gi), library.GeoIP_database_info(gi)]
        for end, addresses in ("", ask4), ("_v6", ask6):
            for address in addresses:
                for what in "id", "region", "name", "record", "country_name":
                    said.append(getattr(library, "GeoIP_" + what + "_by_addr" + end)(gi, address))
                said.append(library.GeoIP_last_netmask(gi))
        if {has_range}:
            said.append(library.GeoIP_range_by_ip(gi, b"8.1.2.3"))
        print(number, flags, said)
        library.raw.GeoIP_delete(gi)
os._exit(0) if sys.stdout.flush() is None else None
"""


def sweep(library, path, faults, modes, scratch, has_range=True):
    here = pathlib.Path(__file__).resolve().parent
    script = SWEEP.format(
        tests=str(here.parent),
        bindings=str(here),
        library=str(library),
        path=str(path),
        faults=faults,
        modes=modes,
        scratch=str(scratch),
        has_range=has_range,
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120)
    lines = done.stdout.decode("latin1").splitlines()
    return [line for line in lines if not line.startswith("Invalid database type")], done


@pytest.mark.parametrize("edition", geoip_files.EDITIONS)
def test_a_file_cut_at_any_byte_or_with_any_byte_changed_never_kills(tmp_path, edition):
    seeded = random.Random(edition)
    content, _ = geoip_files.sample(edition, seeded, 6)
    path = tmp_path / "whole.dat"
    path.write_bytes(content)
    cuts = [(at, None) for at in range(len(content))]
    changes = [(at, seeded.choice([0, 0xFF, 0x80])) for at in range(len(content))]
    faults = cuts + changes
    if not os.environ.get("WHERED_ALL_RECORDS"):
        faults = seeded.sample(faults, 40) + cuts[:5] + cuts[-25:] + changes[-25:]
    lines, done = sweep(
        geoip.ours(), path, faults, [STANDARD, MEMORY, INDEX, MMAP], tmp_path / "ours.dat"
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert len(lines) == 4 * len(faults)


@pytest.mark.parametrize("edition", [1, 3, 7, 9, 12])
def test_what_the_original_survives_it_answers_equally(tmp_path, edition):
    """Only editions whose records the original does not read behind the file's end."""
    seeded = random.Random(edition)
    content, _ = geoip_files.sample(edition, seeded, 6)
    path = tmp_path / "whole.dat"
    path.write_bytes(content)
    # The tree; what follows it the original reads with other bounds.
    tree = content.index(b"\0\0\0" + geoip_files.INFO)
    faults = [(at, seeded.choice([0, 1, 0xFF])) for at in range(0, tree, 3)]
    faults = [fault for fault in faults if edition not in (9,) or fault[0] < 300]
    # A range in a broken tree takes the original forever.
    asked = path, faults, [STANDARD]
    ours, mine = sweep(geoip.ours(), *asked, tmp_path / "ours.dat", has_range=False)
    assert mine.returncode == 0 and len(ours) == len(faults)
    theirs, done = sweep(geoip.theirs(), *asked, tmp_path / "theirs.dat", has_range=False)
    assert len(theirs) > 10, done.stderr
    different = [
        (mine, original)
        for mine, original in zip(ours, theirs)
        if mine != original and "4294967" not in original
    ]
    assert len(different) <= len(theirs) // 10, different[:3]


# Opens each version of a file in a child of its own: prints what the handle says of it.
OPENED = """
import os, sys
sys.path[:0] = [{tests!r}, {bindings!r}]
import geoip
library = geoip.Library({library!r})
content = open({path!r}, "rb").read()
for number, (at, value) in enumerate({faults!r}):
    changed = content[:at] if value is None else content[:at] + bytes([value]) + content[at + 1:]
    with open({scratch!r}, "wb") as file:
        file.write(changed)
    for flags in {modes!r}:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        gi = library.open({scratch!r}, flags | 16)
        said = None
        if gi:
            public = gi.contents
            said = public.databaseType, public.databaseSegments[0], public.record_length, public.size
            said += library.GeoIP_database_info(gi), library.GeoIP_database_edition(gi)
        print(number, flags, said, flush=True)
        os._exit(0)
"""


def opened(library, path, faults, modes, scratch):
    here = pathlib.Path(__file__).resolve().parent
    script = OPENED.format(
        tests=str(here.parent),
        bindings=str(here),
        library=str(library),
        path=str(path),
        faults=faults,
        modes=modes,
        scratch=str(scratch),
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("edition", [1, 2, 5, 12])
def test_what_the_original_opens_and_refuses_it_opens_and_refuses(tmp_path, edition):
    """Files without an end, and with another number of nodes than fits into them."""
    seeded = random.Random(edition)
    content, _ = geoip_files.sample(edition, seeded, 6)
    path, end = tmp_path / "whole.dat", len(content)
    path.write_bytes(content)
    faults = [(at, None) for at in [*range(0, 30, 3), 22, 23, end // 2, *range(end - 9, end)]]
    changes = [(at, value) for at in range(end - 8, end) for value in (0, 1, 3, 20, 107, 255)]
    faults += seeded.sample(changes, 16)
    asked = path, faults, [STANDARD, MEMORY]
    ours = opened(geoip.ours(), *asked, tmp_path / "ours.dat")
    theirs = opened(geoip.theirs(), *asked, tmp_path / "theirs.dat")
    assert len(ours) == 2 * len(faults)
    # Some of these files kill the original.
    assert len(theirs) > len(faults) and set(theirs) <= set(ours)


def test_null_arguments_and_a_null_handle_answer_nothing():
    library = geoip.Library(geoip.ours())
    gi = library.raw.GeoIP_open(str(geoip.database("GeoIP.dat")).encode(), 0)
    nothing = c.cast(None, geoip.HANDLE)
    for handle in gi, nothing:
        for name, result, arguments in geoip.signatures():
            takes_handle = arguments[:1] == [geoip.HANDLE]
            if not takes_handle or name == "GeoIP_delete":
                continue
            empty = [kind() if kind in (c.c_int, c.c_ulong) else None for kind in arguments[1:]]
            empty = [
                geoip.Address6() if kind is geoip.Address6 else value
                for kind, value in zip(arguments[1:], empty)
            ]
            getattr(library, name)(handle, *empty)
    for name in "GeoIPRecord_delete", "GeoIPRegion_delete", "GeoIP_range_by_ip_delete", "GeoIP_delete":
        library.raw[name](None)
    for name in "GeoIP_addr_to_num", "GeoIP_id_by_code", "_GeoIP_lookupaddress", "GeoIP_is_private_v4":
        assert library.raw[name](None) == 0
    assert library.raw.GeoIP_open(None, 0) == nothing or not library.raw.GeoIP_open(None, 0)
    library.raw.GeoIP_delete(gi)


def test_a_file_that_is_cut_off_while_it_is_open_gives_nothing_and_no_crash(tmp_path):
    """Not with MMAP_CACHE: there the kernel ends the process, with the original too."""
    content = geoip.database("GeoIP.dat").read_bytes()
    for flags in STANDARD, MEMORY, INDEX:
        path = tmp_path / f"cut-{flags}.dat"
        path.write_bytes(content)
        library = geoip.Library(geoip.ours())
        gi = library.open(path, flags | geoip.SILENCE)
        before = library.GeoIP_id_by_addr(gi, b"8.8.8.8")
        assert before == 225
        os.truncate(path, 1000)
        after = library.GeoIP_id_by_addr(gi, b"8.8.8.8")
        assert after == (before if flags else -16_776_960)
        library.raw.GeoIP_delete(gi)
