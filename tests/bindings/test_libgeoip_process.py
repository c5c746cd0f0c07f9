"""Our libGeoIP in processes with little room or many parts: small stacks, memory limits, forks while
threads look up, set-user-ID programs, and errno."""

import os
import pathlib
import random
import shutil
import subprocess

import geoip
import geoip_files
import pytest
from conftest import program
from library import environment, missing

PROGRAM = r"""
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "GeoIPCity.h"

static char **arguments;

static void show(GeoIP *gi) {
    const char *code = GeoIP_country_code_by_addr(gi, "8.8.8.8");
    printf("%s", code == NULL ? "nothing" : code);
    GeoIPRecord *record = GeoIP_record_by_addr(gi, "8.8.8.8");
    printf(" %s\n", record == NULL ? "nothing" : record->city);
    if (record != NULL)
        GeoIPRecord_delete(record);
    fflush(stdout);
}

/* stack FILE OTHER: open, look up, reload and close. */
static void *in_a_small_stack(void *unused) {
    for (int flags = 0; flags <= GEOIP_MMAP_CACHE; flags = flags ? flags * 2 : 1) {
        if (flags == GEOIP_CHECK_CACHE)
            continue;
        unlink("now.dat");
        if (link(arguments[2], "now.dat") != 0)
            return NULL;
        GeoIP *gi = GeoIP_open("now.dat", flags | GEOIP_CHECK_CACHE);
        show(gi);
        unlink("now.dat");
        if (link(arguments[3], "now.dat") != 0)
            return NULL;
        gi->last_mtime_check = 0;
        show(gi);
        GeoIP_delete(gi);
    }
    return unused;
}

/* limit FILE BYTES: open with so much address space more than now, look up. */
static void with_little_memory(void) {
    long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    if (fscanf(file, "%ld", &pages) != 1)
        return;
    fclose(file);
    rlim_t most = pages * sysconf(_SC_PAGESIZE) + atol(arguments[3]);
    struct rlimit limit = {most, most};
    setrlimit(RLIMIT_AS, &limit);
    for (int flags = 0; flags <= GEOIP_MMAP_CACHE; flags = flags ? flags * 2 : 1) {
        GeoIP *gi = GeoIP_open(arguments[2], flags);
        if (gi == NULL) {
            printf("not opened\n");
            continue;
        }
        printf("%d\n", GeoIP_id_by_addr(gi, "8.8.8.8"));
        GeoIP_delete(gi);
    }
}

static volatile int stop;

static void *look_up(void *gi) {
    while (!stop)
        GeoIP_id_by_addr(gi, "8.8.8.8");
    return NULL;
}

/* fork FILE: children of a process whose threads are inside the library. */
static int forks_while_threads_look_up(void) {
    for (int round = 0; round < 60; round++) {
        GeoIP *gi = GeoIP_open(arguments[2], round % 2 ? GEOIP_CHECK_CACHE : 0);
        pthread_t threads[2];
        stop = 0;
        for (int number = 0; number < 2; number++)
            pthread_create(&threads[number], NULL, look_up, gi);
        for (int child = 0; child < 4; child++) {
            gi->last_mtime_check = 0;
            pid_t pid = fork();
            if (pid == 0) {
                alarm(20);
                int wrong = 0;
                for (int number = 0; number < 200; number++)
                    wrong |= GeoIP_id_by_addr(gi, "8.8.8.8") != 225;
                _exit(wrong);
            }
            int status;
            waitpid(pid, &status, 0);
            if (status != 0)
                return 1;
        }
        stop = 1;
        for (int number = 0; number < 2; number++)
            pthread_join(threads[number], NULL);
        GeoIP_delete(gi);
    }
    printf("done\n");
    return 0;
}

/* errno FILE */
static void errno_of_calls(void) {
    errno = 0;
    GeoIP_open("/no/such/file", GEOIP_SILENCE);
    printf("%s\n", strerrorname_np(errno));
    errno = 0;
    GeoIP_open("/no/such/file", GEOIP_STANDARD);
    printf("%s\n", strerrorname_np(errno));
    for (int flags = 0; flags <= GEOIP_MMAP_CACHE; flags = flags ? flags * 2 : 1) {
        GeoIP *gi = GeoIP_open(arguments[2], flags | GEOIP_CHECK_CACHE);
        errno = EDOM;
        GeoIP_id_by_addr(gi, "8.8.8.8");
        free(gi->file_path);
        gi->file_path = strdup("/no/such/file");
        gi->last_mtime_check = 0;
        GeoIP_id_by_addr(gi, "8.8.8.8");
        printf("%s\n", strerrorname_np(errno));
        GeoIP_delete(gi);
    }
}

int main(int count, char **given) {
    arguments = given;
    if (strcmp(given[1], "stack") == 0) {
        pthread_attr_t attributes;
        pthread_t thread;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 64 << 10);
        if (pthread_create(&thread, &attributes, in_a_small_stack, NULL) != 0)
            return 2;
        return pthread_join(thread, NULL);
    }
    if (strcmp(given[1], "limit") == 0)
        with_little_memory();
    if (strcmp(given[1], "fork") == 0)
        return forks_while_threads_look_up();
    if (strcmp(given[1], "errno") == 0)
        errno_of_calls();
    if (strcmp(given[1], "open") == 0) {
        GeoIP *gi = GeoIP_open(given[count - 1], GEOIP_STANDARD);
        printf("%d %s\n", geteuid(), gi == NULL ? "nothing" : gi->file_path);
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The program, which finds our library by a path of its own: `LD_LIBRARY_PATH` is not needed."""
    folder = tmp_path_factory.mktemp("process")
    place = geoip.folder_with_ours(folder)
    (place / "libGeoIP.so").symlink_to("libGeoIP.so.1")
    source, made = folder / "process.c", folder / "process"
    source.write_text(PROGRAM)
    include = pathlib.Path(__file__).resolve().parents[2] / "bindings/c/geoip/include"
    command = [program("cc", "gcc"), "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{include}", str(source), "-o", str(made), f"-L{place}", "-lGeoIP", "-pthread"]
    command += [f"-Wl,-rpath,{place}"]
    subprocess.run(command, check=True)
    return made


def run(built, *arguments, folder=None, **more):
    return subprocess.run(
        [str(built), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env=environment(None, **more),
    )


def record(name):
    return b"\xe1CA\0" + name + b"\0\0" + bytes(9)


def test_a_thread_with_64_kib_of_stack_opens_looks_up_and_reloads(built, tmp_path):
    seeded = random.Random(2)
    files = []
    for name in b"first", b"second":
        # A tree of many thousand nodes, so that the index is more than a toy.
        networks = [(seeded.getrandbits(24) << 8, 24, record(name)) for _ in range(3000)]
        networks.append((8 << 24, 8, record(name)))
        files.append(tmp_path / f"{name.decode()}.dat")
        files[-1].write_bytes(geoip_files.write(2, networks))
        os.utime(files[-1], (1_600_000_000, 1_600_000_000 + len(files)))
    done = run(built, "stack", *files, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("Invalid")]
    assert lines == ["nothing first", "nothing second"] * 4


@pytest.mark.parametrize("more", [0, 2 << 20, 8 << 20, 20 << 20, 200 << 20])
def test_a_process_with_little_memory_is_answered_from_the_file_or_gets_no_handle(built, more):
    """Never ended, as it would be where an allocation of Rust fails."""
    database = geoip.database("GeoIP.dat")
    done = run(built, "limit", database, more)
    assert done.returncode == 0, (more, done.stderr)
    said = done.stdout.split("\n")[:-1]
    assert len(said) == 5 and set(said) <= {"225", "not opened"}, said
    if more >= 8 << 20:
        assert said == ["225"] * 5


def test_children_of_a_process_whose_threads_look_up_never_wait_for_those(built, tmp_path):
    path = tmp_path / "GeoIP.dat"
    path.write_bytes(geoip_files.write(1, [(8 << 24, 8, 225)]))
    done = run(built, "fork", path)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_errno_is_that_of_a_file_that_does_not_open_and_otherwise_left_alone(built):
    done = run(built, "errno", geoip.database("GeoIP.dat"))
    assert done.stdout.split() == ["ENOENT", "ENOENT"] + ["EDOM"] * 5, done.stderr


def test_a_set_user_id_program_reads_no_variable_of_its_caller(built, tmp_path):
    if os.geteuid() != 0:
        missing("root", "only root can make a set-user-ID program of root's")
    table = tmp_path / "city.csv"
    table.write_text("network,country.iso_code,city.names.en\n8.8.8.0/24,US,Mountain View\n")
    stand_in = tmp_path / "city.mmdb"
    command = [str(geoip.BINARY), "db", "build", str(table), "-o", str(stand_in)]
    subprocess.run(command, check=True, capture_output=True)
    country = tmp_path / "GeoIP.dat"
    country.write_bytes(geoip_files.write(1, [(8 << 24, 8, 1)]))
    for each in [tmp_path, *tmp_path.parents][:3] + [built.parent.parent, built.parent]:
        each.chmod(0o755)
    privileged = built.parent / "privileged"
    shutil.copy(built, privileged)
    command = [program("setpriv", "util-linux"), "--reuid=65534", "--clear-groups"]
    said = []
    for mode in 0o755, 0o4755:
        privileged.chmod(mode)
        done = run(*command, privileged, "open", country, WHERED_GEOIP_MMDB=str(stand_in))
        said.append(done.stdout.split())
    assert said == [["65534", str(stand_in)], ["0", str(country)]]
