"""Data directories by hand: backup, restore and repair, and directories that are not what they should be.

What is refused is refused in one line that names the place, and nothing in the directory changes.
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import redis

from conftest import BINARY, REQUIRED, eventually

SEGMENT_BYTES = 262144
FREE_PORTS = ["--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--dns", "127.0.0.1:0"]


def whered(*arguments, **options):
    return subprocess.run(
        [BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=30, **options
    )


def contents(folder):
    """Every file and what is in it; the lock says who held the directory last and does not count."""
    files = sorted(path for path in pathlib.Path(folder).rglob("*") if path.name != "LOCK")
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.is_file()
    }


def configuration(folder, data):
    path = folder / f"{data.name}.toml"
    backup = f'[backup]\ndirectory = "{folder}"\n'
    path.write_text(f'data_dir = "{data}"\n{backup}[journal]\nsegment_size_bytes = {SEGMENT_BYTES}\n')
    return path


def refused(folder, data, **options):
    """The one line with which a start is refused; the directory stays as it was."""
    before = contents(data) if data.is_dir() and os.access(data, os.R_OK) else None
    done = whered("serve", *FREE_PORTS, "--config", configuration(folder, data), **options)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    # The log says that a server starts, before it is refused.
    lines = [line for line in done.stderr.splitlines() if " starts as process " not in line]
    assert len(lines) == 1, done.stderr
    assert before is None or contents(data) == before
    return lines[0].strip()


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x55]))


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def written(serve, tmp_path, data):
    """A directory with two snapshots, some journal after each, and what is in it: number of points."""
    server = serve("--config", configuration(tmp_path, data))
    with redis.Redis(port=server.resp) as client:
        for part in range(3):
            for number in range(1000):
                client.geoadd("points", [number % 170, 50, f"{part}:{number:03}"])
                if number == 600 and part < 2:
                    client.set(f"text:{part}", "x" * 3000)
                    assert client.execute_command("SAVE")
    assert server.stop()[0] == 0
    return 3000


def points_of(server):
    with redis.Redis(port=server.resp) as client:
        return client.zcard("points")


def test_a_backup_of_a_running_server_is_restored_and_started_on(serve, tmp_path, data):
    server = serve("--config", configuration(tmp_path, data))
    url = f"redis://127.0.0.1:{server.resp}"
    with redis.Redis(port=server.resp) as client:
        client.geoadd("points", [8, 50, "before the snapshot"])
        assert client.execute_command("SAVE")
        client.geoadd("points", [8, 50, "after the snapshot"])
        # The directory is the client's, not the server's: a relative name is where this is typed.
        other = tmp_path / "elsewhere"
        other.mkdir()
        done = whered("backup", "--server", url, "copy", cwd=other)
        assert (done.returncode, done.stdout) == (0, "copy: backed up to entry 2\n"), done.stderr
        client.geoadd("points", [8, 50, "after the backup"])
        before = contents(other / "copy")
        done = whered("backup", "--server", url, "copy", cwd=other)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
        assert "is not empty" in done.stderr
        assert contents(other / "copy") == before
    done = whered("backup", "--server", url, "/tmp/whered-elsewhere")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert f"is not below {tmp_path}, 'directory' of [backup]" in done.stderr
    # What is in use is not copied from under the server.
    done = whered("backup", "--data-dir", data, tmp_path / "offline")
    assert done.returncode == 2 and "in use by the process with number" in done.stderr
    restored = tmp_path / "restored"
    done = whered("restore", other / "copy", restored)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(rf"{restored}: restored to entry 2, \d+ bytes in \d journal files and a snapshot\n", done.stdout)
    second = serve("--config", configuration(tmp_path, restored))
    assert points_of(second) == 2
    assert second.stop()[0] == 0
    assert server.stop()[0] == 0
    # Without a server, from its directory.
    done = whered("backup", "--data-dir", data, tmp_path / "offline")
    assert done.returncode == 0, done.stderr
    third = serve("--config", configuration(tmp_path, tmp_path / "offline"))
    assert points_of(third) == 3


def test_a_restore_finds_what_is_damaged_and_leaves_no_directory_that_opens(written, tmp_path, data):
    snapshot = max(data.glob("snapshot-*.data"))
    flip(snapshot, snapshot.stat().st_size - 10)
    done = whered("restore", data, tmp_path / "restored")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert snapshot.name in done.stderr and "at byte" in done.stderr
    assert not list((tmp_path / "restored").glob("*0*"))
    for name in ["missing", "empty"]:
        (tmp_path / "empty").mkdir(exist_ok=True)
        done = whered("restore", tmp_path / name, tmp_path / "from")
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr


def damaged_journal(data):
    """Flips a byte of an entry in the middle of the newest segment."""
    segment = max(data.glob("journal-0*.log"))
    frames = segment.read_bytes().rstrip(b"\0")
    offset = len(frames) // 2
    flip(segment, offset)
    return segment, offset


def test_a_damaged_journal_is_told_and_repaired(serve, written, tmp_path, data):
    segment, offset = damaged_journal(data)
    line = refused(tmp_path, data)
    told = re.search(rf"{segment.name} at byte (\d+): ", line)
    assert told and offset - 200 < int(told[1]) <= offset, line
    assert "whered repair" in line, line
    done = whered("repair", data)
    assert done.returncode == 1, done.stderr
    assert f"{segment.name}" in done.stdout and "lost" in done.stdout, done.stdout
    assert done.stdout.splitlines()[-1].startswith(f"{data}: repaired; the next start uses the snapshot at entry")
    server = serve("--config", configuration(tmp_path, data))
    # What lies after the flipped byte is gone, what lies before it is not.
    assert 1601 <= points_of(server) < written
    assert server.stop()[0] == 0
    done = whered("repair", data)
    assert done.returncode == 0 and "nothing to repair" in done.stdout


def test_a_damaged_snapshot_is_told_and_repaired(serve, written, tmp_path, data):
    snapshot = max(data.glob("snapshot-*.data"))
    flip(snapshot, snapshot.stat().st_size - 1500)
    line = refused(tmp_path, data)
    assert re.search(rf"{snapshot.name} at byte \d+: block \d+ of kind \d", line), line
    assert "whered repair" in line, line
    done = whered("repair", data)
    assert done.returncode == 1, done.stderr
    assert snapshot.name in done.stdout
    # The older one and its journal have everything.
    server = serve("--config", configuration(tmp_path, data))
    assert points_of(server) == written
    assert server.stop()[0] == 0
    assert list(data.glob("*.damaged"))


def test_what_is_left_of_the_only_way_back_is_loaded(serve, written, tmp_path, data):
    older = min(data.glob("snapshot-*.data"))
    older.with_suffix(".manifest").unlink()
    older.unlink()
    snapshot = max(data.glob("snapshot-*.data"))
    # The points are in blocks of their own, the first of the file.
    flip(snapshot, 200)
    for segment in sorted(data.glob("journal-0*.log"))[:-1]:
        segment.unlink()
    assert snapshot.name in refused(tmp_path, data)
    done = whered("repair", data)
    assert done.returncode == 1, done.stderr
    assert "block" in done.stdout, done.stdout
    server = serve("--config", configuration(tmp_path, data))
    with redis.Redis(port=server.resp) as client:
        # The pages are lost, the texts beside them are not, nor what came after.
        assert 1000 <= client.zcard("points") < written
        assert len(client.get("text:1") or b"") in (0, 3000)
        assert client.geoadd("points", [1, 1, "new"]) == 1
        assert client.execute_command("SAVE")
    assert server.stop()[0] == 0
    server = serve("--config", configuration(tmp_path, data))
    with redis.Redis(port=server.resp) as client:
        assert client.zscore("points", "new") is not None


def test_the_directory_of_another_program_is_left_alone(tmp_path, data):
    data.mkdir()
    (data / "dump.rdb").write_bytes(b"REDIS0011\xfa")
    (data / "appendonlydir").mkdir()
    before = sorted(path.name for path in data.iterdir())
    assert "has files and none of whered's (found dump.rdb)" in refused(tmp_path, data)
    for arguments in [("repair", data), ("restore", data, tmp_path / "to"), ("restore", tmp_path / "to", data)]:
        done = whered(*arguments)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert sorted(path.name for path in data.iterdir()) == before


def test_files_that_bear_our_names_and_are_not_ours_are_left_alone(written, tmp_path, data):
    whole = tmp_path / "whole"
    shutil.copytree(data, whole)
    for pattern in ["journal-0*.log", "snapshot-*.data", "snapshot-*.manifest"]:
        file = max(data.glob(pattern))
        file.write_bytes(b"SQLite format 3\0" + b"\1" * 400000)
        line = refused(tmp_path, data)
        assert f"{file.name} at byte 0: " in line, line
        shutil.copyfile(whole / file.name, file)
    (data / "journal-7.log").write_bytes(b"")
    assert "journal-7.log" in refused(tmp_path, data)


def crc32c(data):
    total = 0xFFFFFFFF
    for byte in data:
        total ^= byte
        for _ in range(8):
            total = total >> 1 ^ (0x82F63B78 if total & 1 else 0)
    return total ^ 0xFFFFFFFF


def make_newer(file):
    """Gives a file another version, as a newer program would write it: with a right checksum of its header."""
    header = bytearray(file.read_bytes())
    header[8:12] = (3).to_bytes(4, "little")
    end = {".log": 40, ".data": 32}.get(file.suffix, len(header))
    header[12:16] = crc32c(header[:12] + header[16:end]).to_bytes(4, "little")
    with open(file, "r+b") as opened:
        opened.write(header[:16])


def test_a_changed_version_is_damage_that_a_repair_takes(written, tmp_path, data):
    for pattern in ["journal-0*.log", "snapshot-*.data", "snapshot-*.manifest"]:
        file = max(data.glob(pattern))
        before = file.read_bytes()
        flip(file, 9)
        line = refused(tmp_path, data)
        assert f"{file.name} at byte 8: the version is changed" in line and "'whered repair'" in line, line
        file.write_bytes(before)
    flip(max(data.glob("journal-0*.log")), 9)
    assert whered("repair", data).returncode == 1


def test_files_of_a_newer_version_are_left_alone(written, tmp_path, data):
    whole = tmp_path / "whole"
    shutil.copytree(data, whole)
    for pattern in ["journal-0*.log", "snapshot-*.data", "snapshot-*.manifest"]:
        file = max(data.glob(pattern))
        make_newer(file)
        line = refused(tmp_path, data)
        known = "1 and 2" if file.suffix == ".log" else "1"
        assert re.search(rf"{file.name} at byte 8: .* format 3 is unknown; this program knows {known}$", line), line
        # There is nothing to be repaired, and a repair says so.
        assert "repair" not in line, line
        before = contents(data)
        done = whered("repair", data)
        assert done.returncode == 2 and "format 3" in done.stderr, (done.stdout, done.stderr)
        assert contents(data) == before
        shutil.copyfile(whole / file.name, file)


def test_half_copied_directories_are_refused(written, tmp_path, data):
    whole = tmp_path / "whole"
    shutil.copytree(data, whole)

    def again():
        shutil.rmtree(data)
        shutil.copytree(whole, data)

    for pattern in ["journal-0*.log", "snapshot-*.data", "snapshot-*.manifest"]:
        file = max(data.glob(pattern))
        for size in [0, 5, file.stat().st_size // 2, file.stat().st_size - 1]:
            os.truncate(file, size)
            line = refused(tmp_path, data)
            assert f"{file.name} at byte " in line, line
            again()
    snapshot = max(data.glob("snapshot-*.data"))
    snapshot.unlink()
    assert snapshot.name in refused(tmp_path, data)
    again()
    # The journal that the snapshot needs.
    for segment in data.glob("journal-0*.log"):
        segment.unlink()
    line = refused(tmp_path, data)
    assert "no segment of the journal is here" in line, line
    again()
    (data / "INCOMPLETE").write_bytes(b"")
    assert "did not end" in refused(tmp_path, data)


def test_a_directory_that_cannot_be_written_is_refused(tmp_path, written, data):
    if os.geteuid() != 0:
        data.chmod(0o555)
        assert "cannot write in the data directory" in refused(tmp_path, data)
        data.chmod(0o755)
        return
    # Root may write whatever the modes say: a mount is needed.
    read_only = tmp_path / "read-only"
    read_only.mkdir()
    mount = ["mount", "-o", "bind,ro", str(data), str(read_only)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        reason = f"nothing can be mounted here: {done.stderr.strip()}"
        pytest.fail(reason) if "root" in REQUIRED else pytest.skip(reason)
    try:
        assert "cannot write in the data directory" in refused(tmp_path, read_only)
    finally:
        subprocess.run(["umount", "-l", str(read_only)], check=True)


def test_a_full_disk_is_refused_and_gives_its_data_when_there_is_room(serve, tmp_path, written, data):
    small = tmp_path / "small"
    small.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small)], capture_output=True, text=True
    )
    if done.returncode != 0:
        reason = f"a tmpfs cannot be mounted here: {done.stderr.strip()}"
        pytest.fail(reason) if "root" in REQUIRED else pytest.skip(reason)
    try:
        # A new directory on a disk without room.
        free = os.statvfs(small)
        ballast = small / "ballast"
        ballast.write_bytes(b"\1" * (free.f_bavail * free.f_frsize))
        line = refused(tmp_path, small / "new")
        assert "No space left" in line or "no room" in line, line
        ballast.unlink()
        # A snapshot for which there is no room: the data is there, writes go on, nothing is left.
        shutil.copytree(data, small / "data")
        server = serve("--config", configuration(tmp_path, small / "data"))
        with redis.Redis(port=server.resp, decode_responses=True) as client:
            assert client.zcard("points") == written
            before = set(contents(small / "data"))
            free = os.statvfs(small)
            ballast.write_bytes(b"\1" * (free.f_bavail * free.f_frsize))
            client.geoadd("points", [1, 1, "new"])
            with pytest.raises(redis.ResponseError, match="No space left|no room"):
                client.execute_command("SAVE")
            assert client.info("persistence")["rdb_last_bgsave_status"] == "err"
            assert {name for name in contents(small / "data") if name.startswith("snapshot")} <= before
            assert client.zcard("points") == written + 1
            ballast.unlink()

            def saved():
                try:
                    assert client.execute_command("SAVE")
                except redis.ResponseError as error:
                    raise AssertionError(error) from error

            eventually(saved)
            assert client.info("persistence")["rdb_last_bgsave_status"] == "ok"
        assert server.stop()[0] == 0
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_a_directory_that_another_process_holds_is_refused(serve, tmp_path, data):
    server = serve("--config", configuration(tmp_path, data))
    line = refused(tmp_path, data)
    assert f"in use by the process with number {server.process.pid}" in line
    done = whered("repair", data)
    assert done.returncode == 2 and "in use by the process" in done.stderr
    with redis.Redis(port=server.resp) as client:
        assert client.set("k", "v")
