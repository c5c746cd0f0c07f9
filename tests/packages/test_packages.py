"""The packages of target/packages: installed, started, asked, removed.

`make packages-check` makes them with the profile dev; `make packages` makes them for a release, and
`.venv/bin/python -m pytest tests/packages` looks at those, too.
"""

import gzip
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import tarfile

import pytest

from conftest import REPOSITORY, REQUIRED, program

PACKAGES = REPOSITORY / "target/packages"
HERE = pathlib.Path(__file__).parent
MACHINE = platform.machine()


def package(pattern):
    """The one package of a name; `make packages-check` has made it."""
    found = sorted(PACKAGES.glob(pattern))
    if not found:
        lacking(f"no {pattern} in {PACKAGES}: scripts/packages.sh makes it", "peers")
    assert len(found) == 1, found
    return found[0]


def lacking(reason, require):
    if require in REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


def isolated(*command):
    """Runs a command in namespaces of its own, as root; skips where that is not permitted."""
    if os.geteuid() != 0:
        lacking("namespaces need root", "root")
    namespaces = [program("unshare", "util-linux"), "--mount", "--net", "--pid", "--fork", "--mount-proc"]
    tried = subprocess.run([*namespaces, "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        lacking(f"no namespaces here: {tried.stderr.strip()}", "root")
    done = subprocess.run([*namespaces, *map(str, command)], capture_output=True, text=True, timeout=300)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def unpacked_tarball(machine, folder):
    """The root of the unpacked tarball."""
    path = package(f"whered-*-{machine}-linux.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="tar")
    (root,) = folder.iterdir()
    assert path.name == f"{root.name}.tar.gz"
    return root


def unpacked_image(machine, folder):
    """The configuration of the image, and its files below `folder`."""
    archive = tarfile.open(package(f"whered-*-{machine}-image.tar.gz"))
    (manifest,) = json.load(archive.extractfile("manifest.json"))
    config = json.load(archive.extractfile(manifest["Config"]))
    for layer in manifest["Layers"]:
        with tarfile.open(fileobj=archive.extractfile(layer)) as files:
            files.extractall(folder, filter="tar", numeric_owner=True)
    (tag,) = manifest["RepoTags"]
    assert tag.startswith("localhost/whered:")
    return config


def replies(command, folder):
    """The replies of a server to the commands of geo_replies.py."""
    folder.mkdir()
    server = subprocess.Popen(
        [*map(str, command), "serve", "--resp", "127.0.0.1:0"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        port = None
        for line in server.stdout:
            if line.startswith("resp "):
                port = int(line.rsplit(":", 1)[1])
            if line == "ready\n":
                break
        assert port is not None, "the server has not started"
        asked = [sys.executable, str(HERE / "geo_replies.py"), str(port)]
        return subprocess.run(asked, stdout=subprocess.PIPE, check=True, timeout=600).stdout
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=30)


@pytest.fixture(scope="module")
def expected_replies(tmp_path_factory):
    """Those of the program that is linked dynamically: the one of the Debian package."""
    folder = tmp_path_factory.mktemp("debian")
    deb = package("whered_*.deb")
    subprocess.run([program("dpkg-deb", "dpkg"), "-x", deb, folder], check=True)
    answers = replies([folder / "usr/bin/whered"], folder / "data")
    assert len(answers) > 1_000_000
    return answers


def commands_of_docs(title):
    """The commands that docs/start/install.md prints below a title, up to the first answer."""
    page = (REPOSITORY / "docs/start/install.md").read_text()
    section = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
    block = section.split("```sh\n")[1].split("```")[0]
    return [line for line in block.splitlines() if line and not line.startswith("#")]


def first_answer_seconds(lines):
    """What a script has said of the time from nothing to the first answer."""
    said = [re.fullmatch(r"first answer after (\d+) ms", line) for line in lines]
    (milliseconds,) = [int(found[1]) for found in said if found]
    return milliseconds / 1000


def is_static(path):
    headers = subprocess.run(
        ["readelf", "--program-headers", "--wide", path], capture_output=True, text=True, check=True
    )
    return "INTERP" not in headers.stdout


def is_stripped(path):
    sections = subprocess.run(
        ["readelf", "--sections", "--wide", path], capture_output=True, text=True, check=True
    )
    return ".symtab" not in sections.stdout and ".debug_info" not in sections.stdout


def test_lintian_finds_nothing_in_the_debian_package():
    done = subprocess.run(
        [program("lintian", "lintian"), "--fail-on", "error,warning", package("whered_*.deb")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout == "", done.stdout + done.stderr


def test_the_debian_package_is_installed_started_asked_and_purged_without_a_trace():
    for name, brings in (("dpkg", "dpkg"), ("redis-cli", "redis-tools"), ("systemd-sysusers", "systemd")):
        program(name, brings)
    lines = isolated(HERE / "debian.sh", package("whered_*.deb")).splitlines()
    assert lines[-1] == "nothing is left"
    print(f"first answer after {first_answer_seconds(lines):.2f} s")


@pytest.mark.parametrize("title", ["Debian package", "Tarball", "Container image"])
def test_the_documents_need_three_commands_to_the_first_answer(title):
    assert 0 < len(commands_of_docs(title)) <= 3


def test_the_commands_of_the_tarball_give_a_first_answer(tmp_path):
    path = package(f"whered-*-{MACHINE}-linux.tar.gz")
    unpack, serve, ask = commands_of_docs("Tarball")
    assert path.name in unpack
    program("curl", "curl")
    script = f"""set -eu
        ip link set lo up
        cd '{tmp_path}'
        mkdir -p target/packages && ln -s '{path}' target/packages/
        began="$(date +%s%N)"
        {unpack}
        {serve}
        until answer="$({ask})"; do sleep 0.05; done
        echo "first answer after $((($(date +%s%N) - began) / 1000000)) ms"
        echo "$answer"
        kill "$!"
    """
    lines = isolated("bash", "-c", script).splitlines()
    assert '"country.iso_code":"US"' in lines[-1]
    print(f"first answer after {first_answer_seconds(lines):.2f} s")


def test_replies_of_the_static_program_are_those_of_the_dynamic_one(tmp_path, expected_replies):
    root = unpacked_tarball(MACHINE, tmp_path / "tarball")
    whered = root / "bin/whered"
    assert is_static(whered) and is_stripped(whered)
    assert replies([whered], tmp_path / "data") == expected_replies


def test_the_tarball_has_pages_completions_unit_and_licences(tmp_path):
    root = unpacked_tarball(MACHINE, tmp_path / "tarball")
    page = gzip.decompress((root / "share/man/man1/whered-serve.1.gz").read_bytes())
    assert b"\\-\\-data\\-dir" in page
    completions = root / "share/bash-completion/completions/whered"
    subprocess.run(["bash", "-n", completions], check=True)
    assert "ExecStart=/usr/local/bin/whered serve" in (root / "lib/systemd/system/whered.service").read_text()
    documents = {path.name for path in (root / "share/doc/whered").iterdir()}
    assert documents == {"LICENSE-APACHE", "LICENSE-MIT", "README.md", "whered.toml"}


def test_replies_of_aarch64_are_those_of_x86_64(tmp_path, expected_replies):
    if MACHINE != "x86_64":
        pytest.skip("the other architecture is this machine's own")
    if not list(PACKAGES.glob("whered-*-aarch64-linux.tar.gz")):
        pytest.skip("no tarball for aarch64: scripts/packages.sh arm64 makes it")
    qemu = program("qemu-aarch64", "qemu-user")
    whered = unpacked_tarball("aarch64", tmp_path / "tarball") / "bin/whered"
    assert is_static(whered) and is_stripped(whered)
    assert replies([qemu, whered], tmp_path / "data") == expected_replies


def test_the_image_has_a_user_who_is_not_root_and_a_health_check(tmp_path):
    config = unpacked_image(MACHINE, tmp_path)
    assert config["config"]["User"] == "65532:65532"
    assert config["config"]["Healthcheck"]["Test"][0] in ("CMD", "CMD-SHELL")
    assert config["config"]["Entrypoint"] == ["/usr/bin/whered"]
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir()}
    assert files == {
        "usr/bin/whered",
        "etc/whered/whered.toml",
        "etc/ssl/certs/ca-certificates.crt",
        "etc/passwd",
        "etc/group",
    }
    assert is_static(tmp_path / "usr/bin/whered") and is_stripped(tmp_path / "usr/bin/whered")


def test_in_an_empty_root_names_are_found_and_tls_finds_its_authorities(tmp_path):
    program("openssl", "openssl")
    config = unpacked_image(MACHINE, tmp_path)
    lines = isolated(HERE / "bare_root.sh", tmp_path).splitlines()
    print(f"first answer after {first_answer_seconds(lines):.2f} s")
    # The health check is a command of the program itself: the image has no shell.
    assert config["config"]["Healthcheck"]["Test"] == ["CMD", "/usr/bin/whered", "feeds", "--json"]


def test_make_install_writes_below_destdir_alone(tmp_path):
    whered = tmp_path / "opt/whered/bin/whered"
    words = ["install", "PROFILE=dev", "PREFIX=/opt/whered", f"DESTDIR={tmp_path}"]
    subprocess.run(["make", "--no-print-directory", *words], cwd=REPOSITORY, check=True)
    answer = subprocess.run([whered, "--version"], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"whered \d+\.\d+\.\d+( \(.*\))?\n", answer)
    unit = (tmp_path / "opt/whered/lib/systemd/system/whered.service").read_text()
    assert "ExecStart=/opt/whered/bin/whered serve --config /opt/whered/etc/whered/whered.toml" in unit
    config = tmp_path / "opt/whered/etc/whered/whered.toml"
    subprocess.run([whered, "check", config], check=True)
    # What an operator has changed stays.
    config.write_text("# mine\n")
    subprocess.run(["make", "--no-print-directory", *words], cwd=REPOSITORY, check=True)
    assert config.read_text() == "# mine\n"
