"""Programs with our library share the index that `whered db index` has written beside a database."""

import json
import pathlib
import shutil
import subprocess

from conftest import BINARY, program
from library import conformance_file, environment, folder_with_ours, missing

# What runs inside Debian's Python: opens the database, answers, and waits until it was looked at.
ASKING = """
import sys
import maxminddb
reader = maxminddb.open_database(sys.argv[1], maxminddb.MODE_MMAP_EXT)
print(repr(reader.get_with_prefix_len(sys.argv[2])), flush=True)
sys.stdin.read()
"""


def start(library_folder, database, address, **more):
    return subprocess.Popen(
        ["/usr/bin/python3", "-c", ASKING, str(database), address],
        env=environment(library_folder, **more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def answer_and_inode(asked, index):
    """What a process answers, and the inode of the index that it has mapped, if it has."""
    answer = asked.stdout.readline()
    maps = pathlib.Path(f"/proc/{asked.pid}/maps").read_text().splitlines()
    inodes = {line.split()[4] for line in maps if line.endswith(str(index))}
    return answer, inodes


def ask(library_folder, database, address, **more):
    processes = [start(library_folder, database, address, **more) for _ in range(2)]
    try:
        return [answer_and_inode(asked, f"{database}.index") for asked in processes]
    finally:
        for asked in processes:
            asked.communicate(timeout=60)


def test_processes_map_the_same_index_and_ignore_another_ones(tmp_path):
    program("python3", "python3")
    check = "from maxminddb import extension"
    if subprocess.run(["/usr/bin/python3", "-c", check], capture_output=True).returncode != 0:
        missing("peers", "Debian's python3-maxminddb is not installed")
    ours = folder_with_ours(tmp_path)
    database = tmp_path / "city.mmdb"
    index = tmp_path / "city.mmdb.index"
    shutil.copy(conformance_file("GeoIP2-City-Test.mmdb"), database)
    subprocess.run([BINARY, "db", "index", database], check=True, capture_output=True)

    [(expected, nothing), _] = ask(None, database, "81.2.69.160")
    assert "London" in expected and not nothing
    for answer, inodes in ask(ours, database, "81.2.69.160", WHERED_MMDB="index"):
        assert (answer, inodes) == (expected, {str(index.stat().st_ino)})
    for answer, inodes in ask(ours, database, "81.2.69.160"):
        assert (answer, inodes) == (expected, set()), "the tree needs no index"

    # An index of another database, and a damaged one, are as none.
    kept = index.read_bytes()
    damaged = bytearray(kept)
    damaged[len(damaged) // 2] ^= 1
    for wrong in [bytes(damaged), kept[:1000], b""]:
        index.write_bytes(wrong)
        for answer, inodes in ask(ours, database, "81.2.69.160", WHERED_MMDB="index"):
            assert (answer, inodes) == (expected, set()), json.dumps(len(wrong))
    index.write_bytes(kept)
    shutil.copy(conformance_file("GeoIP2-Country-Test.mmdb"), database)
    for answer, inodes in ask(ours, database, "81.2.69.160", WHERED_MMDB="index"):
        assert "GB" in answer and not inodes
