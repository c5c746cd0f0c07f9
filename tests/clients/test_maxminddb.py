"""Python's maxminddb reads the files that we write, and agrees with us on every network."""

import json
import subprocess

import maxminddb
import pytest

from conftest import BINARY, REPOSITORY


@pytest.mark.parametrize("record_size_bits", [24, 28, 32])
def test_a_built_database_reads_the_same_there(tmp_path, record_size_bits):
    path = tmp_path / "city.mmdb"
    rows = REPOSITORY / "crates/whered/demo/addresses.csv"
    build = [BINARY, "db", "build", rows, "-o", path, "--record-size-bits", str(record_size_bits)]
    subprocess.run(build, check=True, capture_output=True, timeout=30)
    with maxminddb.open_database(path, maxminddb.MODE_MEMORY) as reader:
        metadata = reader.metadata()
        assert metadata.record_size == record_size_bits
        assert metadata.database_type == "whered-City"
        networks = list(reader)
        assert len(networks) == 39
        addresses = [str(network.network_address) for network, _ in networks]
        ours = subprocess.run(
            [BINARY, "lookup", "--db", path, *addresses], check=True, capture_output=True, text=True, timeout=30
        )
        for (network, record), line in zip(networks, ours.stdout.splitlines(), strict=True):
            answer = json.loads(line)
            assert answer["prefix"] == str(network)
            assert answer["record"] == record
