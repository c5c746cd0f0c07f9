"""Our `libmaxminddb.so.0` for programs that were linked with the original, and proof of its use.

`environment()` is what such a program is started with; `uses_ours(pid)` reads its memory map.
"""

import os
import pathlib
import shutil

import pytest
from conftest import BINARY, REPOSITORY, REQUIRED

BUILT = BINARY.parent / "libmaxminddb.so"
SHARED = pathlib.Path(os.environ.get("WHERED_SHARED", REPOSITORY.parent / "shared"))


def missing(what, reason):
    """Skips the test, or fails it where this is required."""
    if what in REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


def folder_with_ours(folder):
    """A copy of our library under the name by which programs look for it, alone in a folder."""
    assert BUILT.is_file(), f"there is no {BUILT}: cargo build --package whered-maxminddb"
    place = pathlib.Path(folder) / "lib"
    place.mkdir()
    shutil.copy(BUILT, place / "libmaxminddb.so.0")
    return place


def environment(library_folder, **more):
    """The environment that makes a program take the library in this folder; None: the system's."""
    mine = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    if library_folder is not None:
        mine["LD_LIBRARY_PATH"] = str(library_folder)
    return mine | more


def libraries_of(pid):
    """The files of a running process's memory map that are some libmaxminddb."""
    lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if "libmaxminddb" in line}


def uses_ours(pid, library_folder):
    return libraries_of(pid) == {str(library_folder / "libmaxminddb.so.0")}


CONFORMANCE = SHARED / "data/maxmind-db/test-data"


def conformance_files():
    """MaxMind's own test databases; without them the test is skipped, or fails where required."""
    if not CONFORMANCE.is_dir():
        missing("shared", f"there is no {CONFORMANCE}")
    return sorted(path for path in CONFORMANCE.iterdir() if path.suffix in {".mmdb", ".raw"})


def conformance_names():
    """Names to parametrize by: collecting tests must not need the files, running them does."""
    return [path.name for path in conformance_files()] if CONFORMANCE.is_dir() else ["absent"]


def conformance_file(name):
    return next(path for path in conformance_files() if path.name == name)
