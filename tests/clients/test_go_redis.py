"""go-redis's own tests of sorted sets and strings, unmodified from its module.

The Go tool chain downloads the module and builds its tests. Without Go or the module this is
skipped, unless WHERED_REQUIRE contains `go`.
"""

import os
import re
import shutil
import subprocess

import pytest

from conftest import REQUIRED

MODULE = "github.com/redis/go-redis/v9"
VERSION = "v9.7.3"

# What follows "should" in the names of the tests that are run, but for the ones below.
NAMES = (
    "Z BZ MSet MGet MSetNX Append Incr Decr Get Set StrLen Exists Expire TTL PTTL Persist Rename"
    " Touch Type ClientUnblock ClientID Del Unlink Ping Echo Select geo"
).split()

# Why some are left out.
LEFT_OUT = {
    "ZRankWithScore": "ZRANK with a score is of Redis 7.2",
    "ZRevRankWithScore": "ZREVRANK with a score is of Redis 7.2",
    "GetRange": "there is no GETRANGE",
    "GetBit": "there are no bitmaps",
    "SetRange": "there is no SETRANGE",
}


def missing(reason):
    if "go" in REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def suite(tmp_path_factory, free_port):
    """The program with go-redis's tests, which asks the server at `free_port`."""
    if shutil.which("go") is None:
        missing("Go is not installed")
    folder = tmp_path_factory.mktemp("go")
    (folder / "go.mod").write_text("module example.com/check\n\ngo 1.21\n")

    def go(*arguments):
        return subprocess.run(["go", *arguments], cwd=folder, capture_output=True, text=True, timeout=600)

    got = go("get", "-t", f"{MODULE}@{VERSION}")
    if got.returncode != 0:
        missing(f"the module cannot be downloaded: {got.stderr.strip()[-300:]}")
    # The tests know the port of a server that runs already by a variable.
    variable = f"{MODULE}_test.rediStackPort={free_port}"
    built = go("test", "-c", "-ldflags", f"-X {variable}", "-o", "suite", MODULE)
    assert built.returncode == 0, built.stderr
    return folder / "suite"


@pytest.fixture(scope="module")
def free_port():
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_go_redis_tests_of_sorted_sets_and_strings_pass(suite, free_port, serve):
    serve("--resp", f"127.0.0.1:{free_port}")
    names = "|".join(re.escape(name) for name in NAMES)
    skipped = "|".join(rf"should {name}\b" for name in LEFT_OUT)
    done = subprocess.run(
        [
            suite,
            "-test.run",
            "^TestGinkgoSuite$",
            "--ginkgo.focus",
            f"should ({names})",
            "--ginkgo.focus-file",
            "commands_test.go",
            "--ginkgo.skip",
            skipped,
            "--ginkgo.no-color",
        ],
        cwd=suite.parent,
        env={**os.environ, "RE_CLUSTER": "true"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    summary = re.search(r"(\d+) Passed \| (\d+) Failed", done.stdout)
    assert summary, done.stdout[-3000:]
    assert done.returncode == 0 and summary[2] == "0", done.stdout[-6000:]
    assert int(summary[1]) >= 120, summary[0]
