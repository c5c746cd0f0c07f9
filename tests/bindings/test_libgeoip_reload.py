"""Reload checking: files that are replaced while a handle is open, from one thread and from many."""

import os
import random
import subprocess
import threading
import time

import geoip
import geoip_files
import pytest
from conftest import eventually
from geoip import CHECK, INDEX, MEMORY, MMAP, STANDARD


def country_file(country):
    return geoip_files.write(1, [(8 << 24, 8, country)])


def replace(path, content):
    new = path.with_suffix(".new")
    new.write_bytes(content)
    # A file that was written a moment ago is taken when it has been seen twice.
    os.utime(new, (time.time() - 10, time.time() - 10))
    os.replace(new, path)


def look_again(*handles):
    """The next call looks at the file, as it does in another second."""
    for gi in handles:
        gi.contents.last_mtime_check = 0


def answer_at_next_look(library, gi, expected):
    look_again(gi)
    return library.GeoIP_id_by_addr(gi, b"8.8.8.8") == expected


@pytest.mark.parametrize("flags", [STANDARD, MEMORY, INDEX, MMAP])
def test_a_file_replaced_by_rename_is_taken_at_the_next_look(tmp_path, flags):
    path = tmp_path / "GeoIP.dat"
    path.write_bytes(country_file(225))
    library = geoip.Library(geoip.ours())
    checked, unchecked = library.open(path, flags | CHECK), library.open(path, flags)
    assert library.GeoIP_id_by_addr(checked, b"8.8.8.8") == 225
    replace(path, country_file(56))
    assert answer_at_next_look(library, checked, 56)
    assert library.GeoIP_id_by_addr(unchecked, b"8.8.8.8") == 225
    # Another edition, a broken file and none at all.
    replace(path, geoip_files.write(2, [(8 << 24, 8, b"\xe1CA\0X\0\0" + bytes(9))]))
    assert answer_at_next_look(library, checked, 0)
    assert checked.contents.databaseType == 2
    replace(path, b"no")
    look_again(checked)
    record = library.GeoIP_record_by_addr(checked, b"8.8.8.8")
    assert record[4] == b"X"
    path.unlink()
    look_again(checked)
    assert library.GeoIP_record_by_addr(checked, b"8.8.8.8") == record
    for gi in checked, unchecked:
        library.raw.GeoIP_delete(gi)


def test_a_file_that_is_written_under_the_name_is_taken_when_it_is_whole(tmp_path):
    path = tmp_path / "GeoIP.dat"
    content = country_file(56)
    path.write_bytes(country_file(225))
    library = geoip.Library(geoip.ours())
    # This mode keeps the old file open, so that the new one does not get its number.
    gi = library.open(path, STANDARD | CHECK)
    path.unlink()
    with path.open("wb") as file:
        file.write(content[:-8])
        file.flush()
        for _ in range(4):
            assert answer_at_next_look(library, gi, 225)
        file.write(content[-8:])
    assert answer_at_next_look(library, gi, 225)
    assert answer_at_next_look(library, gi, 56)
    library.raw.GeoIP_delete(gi)


def test_a_file_written_in_place_waits_until_it_is_left_alone_for_a_minute(tmp_path):
    path = tmp_path / "GeoIP.dat"
    path.write_bytes(country_file(225))
    library = geoip.Library(geoip.ours())
    gi = library.open(path, MEMORY | CHECK)
    assert library.GeoIP_id_by_addr(gi, b"8.8.8.8") == 225
    path.write_bytes(country_file(56))
    for _ in range(3):
        assert answer_at_next_look(library, gi, 225)
    old = time.time() - 120
    os.utime(path, (old, old))
    assert answer_at_next_look(library, gi, 56)
    library.raw.GeoIP_delete(gi)


def asserted(holds):
    assert holds


def test_threads_lose_no_call_while_the_file_is_replaced_again_and_again(tmp_path):
    path = tmp_path / "GeoIP.dat"
    path.write_bytes(country_file(1))
    library = geoip.Library(geoip.ours())
    gi = library.open(path, MEMORY | CHECK)
    stop, wrong, seen = threading.Event(), [], set()

    def ask():
        while not stop.is_set():
            found = library.raw.GeoIP_id_by_addr(gi, b"8.8.8.8")
            seen.add(found)
            if not 1 <= found <= 4:
                wrong.append(found)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(300):
        replace(path, country_file(2 + turn % 3))
        look_again(gi)
    # It may get the number of a file that was deleted: then the time of its birth tells them apart.
    time.sleep(0.1)
    replace(path, country_file(4))
    # Another thread may have the look.
    eventually(lambda: asserted(answer_at_next_look(library, gi, 4)), seconds=20)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong and {1, 4} <= seen
    library.raw.GeoIP_delete(gi)


def test_the_file_is_looked_at_once_a_second_at_most(tmp_path):
    """strace counts: a hundred thousand lookups, a second long at least."""
    from conftest import program

    strace = program("strace", "strace")
    path = tmp_path / "GeoIP.dat"
    path.write_bytes(country_file(225))
    script = f"""
import sys, time
sys.path[:0] = {[str(geoip.pathlib.Path(__file__).parent.parent), str(geoip.pathlib.Path(__file__).parent)]!r}
import geoip
library = geoip.Library({str(geoip.ours())!r})
gi = library.open({str(path)!r}, 3)
end = time.monotonic() + 3.2
count = 0
while time.monotonic() < end:
    assert library.raw.GeoIP_id_by_addr(gi, b"8.8.8.8") == 225
    count += 1
print(count)
"""
    log = tmp_path / "calls"
    command = [strace, "-f", "-qq", "-o", str(log), "-e", "trace=/stat", "python3", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0 and "ptrace" in done.stderr:
        pytest.skip("this process may not be traced")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1_000
    looks = [line for line in log.read_text().splitlines() if str(path) in line]
    assert 3 <= len(looks) <= 6, looks


def test_random_files_replaced_while_all_modes_are_open(tmp_path):
    seeded, library = random.Random(8), geoip.Library(geoip.ours())
    path = tmp_path / "any.dat"
    path.write_bytes(country_file(1))
    handles = [library.open(path, mode | CHECK) for mode in (STANDARD, MEMORY, INDEX, MMAP)]
    for edition in 2, 9, 12, 3:
        content, addresses = geoip_files.sample(edition, seeded, 50)
        replace(path, content)
        look_again(*handles)
        end = "_v6" if edition in geoip_files.IPV6 else ""
        said = []
        for gi in handles:
            call = {2: "record", 9: "name", 12: "id", 3: "region"}[edition]
            ask = getattr(library, f"GeoIP_{call}_by_addr{end}")
            said.append([ask(gi, address.encode()) for address in addresses])
        assert said.count(said[0]) == len(said)
        assert any(said[0])
    for gi in handles:
        library.raw.GeoIP_delete(gi)
