"""Debian's C extension for Python (`python3-maxminddb`) gives the same with our library."""

import json
import pathlib
import subprocess

import maxminddb
import pytest
from conftest import program
from library import conformance_file, conformance_files, environment, folder_with_ours, missing

# What runs inside Debian's Python: asks the extension, and says which library it was.
ASKING = """
import json, sys
import maxminddb
from maxminddb import extension

def shown(value):
    if isinstance(value, dict):
        return {key: shown(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shown(inner) for inner in value]
    return repr(value)

answers = {}
for path, addresses in json.load(sys.stdin).items():
    try:
        reader = maxminddb.open_database(path, maxminddb.MODE_MMAP_EXT)
    except Exception as error:
        answers[path] = repr(error)
        continue
    assert isinstance(reader, extension.Reader)
    said = {"metadata": shown(vars(reader.metadata()) if hasattr(reader.metadata(), "__dict__") else
        {name: getattr(reader.metadata(), name) for name in dir(reader.metadata()) if name[0] != "_"})}
    for address in addresses:
        try:
            record, prefix_length = reader.get_with_prefix_len(address)
            said[address] = [shown(record), prefix_length]
        except Exception as error:
            said[address] = repr(error)
    reader.close()
    answers[path] = said
maps = [line.split()[-1] for line in open("/proc/self/maps") if "libmaxminddb" in line]
json.dump([answers, sorted(set(maps))], sys.stdout)
"""


# Where the original goes wrong: a branch of this file leads back into the tree for more than 32
# bits. The original calls it a record far behind the file's end, and fails when that is read; we
# call the tree corrupt. Both are an InvalidDatabaseError.
ENDLESS_BRANCH = ("MaxMind-DB-test-broken-search-tree-24.mmdb", "255.255.255.255")


def ask(library_folder, questions, **more):
    done = subprocess.run(
        ["/usr/bin/python3", "-c", ASKING],
        input=json.dumps(questions),
        capture_output=True,
        env=environment(library_folder, **more),
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def addresses_of(path):
    """An address of every network, and some that have none."""
    found = ["192.0.2.1", "2001:db8::1", "::", "255.255.255.255", "no address"]
    try:
        with maxminddb.open_database(path, maxminddb.MODE_MEMORY) as reader:
            found += [str(network.network_address) for network, _ in reader]
    except (maxminddb.InvalidDatabaseError, ValueError, UnicodeDecodeError, TypeError):
        pass
    return found


@pytest.mark.parametrize("mode", ["tree", "index"])
def test_every_network_of_every_conformance_file(tmp_path, mode):
    program("python3", "python3")
    check = "from maxminddb import extension"
    if subprocess.run(["/usr/bin/python3", "-c", check], capture_output=True).returncode != 0:
        missing("peers", "Debian's python3-maxminddb is not installed")
    ours = folder_with_ours(tmp_path)
    questions = {str(path): addresses_of(path) for path in conformance_files()}
    original, original_library = ask(None, questions)
    answers, library = ask(ours, questions, WHERED_MMDB=mode)
    assert library == [str(ours / "libmaxminddb.so.0")]
    assert original_library != library and len(original_library) == 1
    assert answers.keys() == original.keys()
    for path, said in original.items():
        if path.endswith(ENDLESS_BRANCH[0]):
            assert "search tree is corrupt" in answers[path].pop(ENDLESS_BRANCH[1])
            assert "InvalidDatabaseError" in said.pop(ENDLESS_BRANCH[1])
        assert answers[path] == said, path
    assert sum(len(said) for said in answers.values() if isinstance(said, dict)) > 5_000


def test_what_is_found_equals_the_pure_reader(tmp_path):
    """The third opinion: the reader that is written in Python alone."""
    ours = folder_with_ours(tmp_path)
    city = conformance_file("GeoIP2-City-Test.mmdb")
    if not pathlib.Path("/usr/bin/python3").exists():
        missing("peers", "there is no Debian Python")
    addresses = addresses_of(city)[5:]
    (answers, _) = ask(ours, {str(city): addresses})
    with maxminddb.open_database(city, maxminddb.MODE_MEMORY) as reader:
        for address in addresses:
            record, prefix_length = reader.get_with_prefix_len(address)
            said, said_length = answers[str(city)][address]
            assert said_length == prefix_length, address
            if "country" in record:
                assert said["country"]["iso_code"] == repr(record["country"]["iso_code"])
