"""libmaxminddb 1.14, built from the sources that the maxminddb 3.2.0 source package brings along.

The package is fetched with pip, compiled with `cc`, and put into a temporary folder; nothing of it
is kept. Without a network or a compiler the tests that compare with it are skipped.
`WHERED_MAXMINDDB_SDIST` names a copy of the package that was fetched before.
"""

import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

from library import missing

VERSION = "1.14.0"
PACKAGE = "maxminddb==3.2.0"
PACKAGE_SHA256 = "d28e0073fd1dd637c8b95947bc864b5625eca9f8f2db1538145e33b2a1cd4b92"


@dataclasses.dataclass
class Original:
    library: pathlib.Path
    headers: list
    files: list


def build(folder):
    """The library, its headers, and the test files that come with the package."""
    if shutil.which("cc") is None:
        missing("peers", "cc is not installed")
    package = pathlib.Path(os.environ.get("WHERED_MAXMINDDB_SDIST") or fetch(folder))
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    assert digest == PACKAGE_SHA256, f"{package} is another file: {digest}"
    with tarfile.open(package) as archive:
        archive.extractall(folder, filter="data")
    (root,) = folder.glob("maxminddb-*/")
    sources = root / "extension/libmaxminddb"
    config = folder / "config"
    config.mkdir()
    # What its build system would have written for this machine: nothing out of the ordinary.
    (config / "maxminddb_config.h").write_text("")
    headers = [f"-I{config}", f"-I{sources / 'include'}"]
    library = folder / "libmaxminddb-original.so"
    compile_c(
        [sources / "src/maxminddb.c", sources / "src/data-pool.c"],
        library,
        *headers,
        "-shared",
        "-fPIC",
        "-DMMDB_LITTLE_ENDIAN=1",
        f'-DPACKAGE_VERSION="{VERSION}"',
    )
    return Original(library, headers, sorted((root / "tests/data/test-data").glob("*.mmdb")))


def fetch(folder):
    command = [sys.executable, "-m", "pip", "download", "--no-binary", ":all:", "--no-deps"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(folder), PACKAGE]
    try:
        fetched = subprocess.run(command, capture_output=True, text=True, timeout=180)
    except subprocess.TimeoutExpired:
        missing("network", f"{PACKAGE} was not fetched within three minutes")
    if fetched.returncode != 0:
        reason = (fetched.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        missing("network", f"{PACKAGE} cannot be fetched: {reason}")
    return next(folder.glob("maxminddb-*.tar.gz"))


def compile_c(sources, result, *arguments):
    command = ["cc", "-std=gnu11", "-O1", *map(str, arguments), *map(str, sources)]
    done = subprocess.run([*command, "-o", str(result), "-ldl"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
