"""The tests of `maxminddb` 3.2.0 and `geoip2` 5.3.0, unchanged, with whered in their place.

They run where the folder `WHERED_UPSTREAM` has the unpacked source distributions
(`pip download --no-binary maxminddb,geoip2 --no-deps maxminddb==3.2.0 geoip2==5.3.0`).
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

UPSTREAM = os.environ.get("WHERED_UPSTREAM", "")

RUN = """
import importlib, os, sys
import whered
whered.install_as_maxminddb()
if "our-models" in sys.argv:
    for name in ("", ".database", ".errors", ".models", ".records", ".types"):
        sys.modules["geoip2" + name] = importlib.import_module("whered.geoip2" + name)
import pytest
files = [argument for argument in sys.argv[1:] if argument.endswith(".py")]
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir=.", "-rf", *files]))
"""

# Tests of the insides of the reader in Python: its buffer, its reading of nodes.
INTERNAL = {
    "TestReaderInitialization::test_failed_initialization_closes_buffer",
    "TestSearchTreeNodes::test_28_bit_records_preserve_high_nibbles",
}


def failures(folder: str, *arguments: str) -> set[str]:
    """Runs tests of a distribution; the names of those that failed."""
    if not UPSTREAM or not (pathlib.Path(UPSTREAM) / folder).is_dir():
        pytest.skip(f"WHERED_UPSTREAM names no folder with {folder}")
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        cwd=pathlib.Path(UPSTREAM) / folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(r"\d+ passed", done.stdout), done.stdout[-2_000:] + done.stderr[-2_000:]
    return set(re.findall(r"_test\.py::(\w+::\w+)", done.stdout))


def test_the_tests_of_maxminddb_pass_but_those_of_its_insides() -> None:
    files = ("tests/reader_test.py", "tests/decoder_test.py", "tests/threading_test.py")
    assert failures("maxminddb-3.2.0", *files) == INTERNAL


@pytest.mark.parametrize("models", ["their-models", "our-models"])
def test_the_tests_of_geoip2_pass_with_our_reader_and_with_our_models(models: str) -> None:
    if models == "their-models":
        pytest.importorskip("geoip2")
    files = ("tests/database_test.py", "tests/models_test.py")
    assert failures("geoip2-5.3.0", *files, models) == set()
