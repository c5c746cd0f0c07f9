"""Programs that no one here wrote, on our `libGeoIP.so.1`: their answers are those with the original.

Each is started twice on the same files, with our library by its folder and with the system's; the map
of the process, or the loader's own words for one that ends at once, says which one it has.
WHERED_ALL_RECORDS=1 asks for all borders and 100,000 random addresses.
"""

import contextlib
import http.client
import ipaddress
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time

import geoip
import geoip_files
import pytest
from conftest import eventually, program
from geoip import folder_with_ours
from library import environment, missing

ALL = bool(os.environ.get("WHERED_ALL_RECORDS"))
CITY, ORGANIZATION, COUNTRY = 2, 5, 1


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    geoip.theirs()
    return folder_with_ours(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, seeded = tmp_path_factory.mktemp("files"), random.Random(51)
    made = {}
    for edition in geoip_files.EDITIONS:
        content, addresses = geoip_files.sample(edition, seeded, 120)
        path = folder / f"edition-{edition}.dat"
        path.write_bytes(content)
        made[edition] = path, addresses
    folder.chmod(0o755)
    folder.parent.chmod(0o755)
    return made


def maps_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if "libGeoIP" in line}


def proves(pid, library_folder):
    """Whether a process has our library, or the system's for None, and no other."""
    found = maps_of(pid)
    if library_folder is not None:
        return found == {str(library_folder / "libGeoIP.so.1")}
    return len(found) == 1 and found == {str(geoip.theirs())}


def run(library_folder, *command, given=b"", timeout=300, **more):
    done = subprocess.run(
        [str(word) for word in command],
        input=given,
        capture_output=True,
        env=environment(library_folder, **more),
        timeout=timeout,
    )
    return done.returncode, done.stdout, done.stderr


def same(ours, *command, **more):
    """What a program prints with the original, which it prints with ours too."""
    original = run(None, *command, **more)
    assert run(ours, *command, **more) == original, command
    return original


def loads_ours(ours, folder, *command, given=b""):
    """For a program that ends at once: the loader says what it initializes."""
    log = folder / "loader"
    run(ours, *command, given=given, LD_DEBUG="libs", LD_DEBUG_OUTPUT=str(log))
    used = set()
    for said in folder.glob("loader.*"):
        for line in said.read_text().splitlines():
            if "calling init" in line and "libGeoIP" in line:
                used.add(line.split()[-1])
    assert used == {str(ours / "libGeoIP.so.1")}, used


def some_addresses(count, seed=9):
    seeded = random.Random(seed)
    return [str(ipaddress.IPv4Address(seeded.getrandbits(32))) for _ in range(count)]


def some_ipv6_addresses(count):
    seeded = random.Random(10)
    numbers = [0x2 << 124 | seeded.getrandbits(125) for _ in range(count)]
    return [str(ipaddress.IPv6Address(number)) for number in numbers]


def test_geoiplookup_and_geoiplookup6_print_the_same(ours, files, tmp_path):
    tools = [program(name, "geoip-bin") for name in ("geoiplookup", "geoiplookup6")]
    country = geoip.database("GeoIP.dat")
    loads_ours(ours, tmp_path, tools[0], "8.8.8.8")
    for tool in tools:
        same(ours, tool, "-v")
        for text in "8.8.8.8", "10.0.0.1", "2001:4860:4860::8888", "localhost", "1.2.3", "x", "":
            same(ours, tool, text)
            same(ours, tool, "-i", text)
            same(ours, tool, "-l", text)
            same(ours, tool, "-f", country, text)
        same(ours, tool, "-d", "/no/such/folder", "8.8.8.8")
        same(ours, tool, "-f", "/no/such/file", "8.8.8.8")
        for path, addresses in files.values():
            same(ours, tool, "-f", path, "-v")
            for address in random.Random(3).sample(addresses, 40 if ALL else 3):
                same(ours, tool, "-f", path, address)
                same(ours, tool, "-i", "-f", path, address)


PYTHON = """
import os, sys
import GeoIP
path, flags = sys.argv[1], int(sys.argv[2])
print([line.split()[-1] for line in open("/proc/self/maps") if "libGeoIP" in line][-1])
gi = GeoIP.open(path, flags)
def plain(answer):
    # Names of regions and zones are from other sources: see tables/generate.py.
    if isinstance(answer, dict):
        return {key: answer[key] for key in sorted(answer) if key not in ("region_name", "time_zone")}
    return answer
print(gi.charset(), gi.database_info, gi.database_edition)
calls = sys.argv[3].split(",")
for line in sys.stdin:
    said = []
    for call in calls:
        try:
            said.append(plain(getattr(gi, call)(line.strip())))
        except (UnicodeDecodeError, SystemError, GeoIP.error) as error:
            said.append(type(error).__name__)
    print(said, gi.last_netmask())
"""


def in_python(ours, path, calls, addresses, flags=0):
    python = "/usr/bin/python3"
    if run(None, python, "-c", "import GeoIP")[0] != 0:
        missing("peers", "python3-geoip is not installed")
    given = "".join(f"{address}\n" for address in addresses).encode()
    said = []
    for library_folder in ours, None:
        status, output, errors = run(
            library_folder, python, "-c", PYTHON, path, flags, calls, given=given
        )
        assert status == 0, errors[-2000:]
        library, _, rest = output.partition(b"\n")
        assert (b"/lib/libGeoIP.so.1" in library and str(ours).encode() in library) == bool(
            library_folder
        )
        said.append(rest)
    mine, original = (text.splitlines() for text in said)
    assert len(mine) == len(addresses) + 1
    for line, (one, other) in enumerate(zip(mine, original)):
        assert one == other, (addresses[line - 1], one, other)


def test_python3_geoip_answers_equally_from_countries(ours):
    path = geoip.database("GeoIP.dat")
    library = geoip.Library(geoip.theirs())
    handle, borders, address = library.open(path, geoip.MEMORY), [], 0
    while address < 1 << 32:
        library.raw._GeoIP_seek_record(handle, address)
        size = 1 << (32 - library.raw.GeoIP_last_netmask(handle))
        borders += [str(ipaddress.IPv4Address(end)) for end in (address, address + size - 1)]
        address += size
    asked = borders if ALL else random.Random(2).sample(borders, 10_000)
    asked += some_addresses(100_000 if ALL else 5_000)
    for flags in geoip.STANDARD, geoip.MEMORY | geoip.CHECK:
        in_python(ours, path, "country_code_by_addr,id_by_addr", asked, flags=flags)
    calls = "country_name_by_addr,range_by_ip,country_code_by_name,country_name_by_name"
    in_python(ours, path, calls, asked[:500])
    in_python(
        ours,
        geoip.database("GeoIPv6.dat"),
        "country_code_by_addr_v6,country_name_by_addr_v6",
        some_ipv6_addresses(100_000 if ALL else 5_000),
    )


def test_python3_geoip_answers_equally_from_other_editions(ours, files):
    for edition, calls in [
        (2, "record_by_addr,record_by_name"),
        (6, "record_by_addr"),
        (30, "record_by_addr_v6"),
        (3, "region_by_addr"),
        (7, "region_by_addr"),
        (5, "org_by_addr,name_by_addr"),
        (4, "name_by_addr"),
        (9, "name_by_addr,range_by_ip"),
        (21, "name_by_addr_v6"),
    ]:
        path, addresses = files[edition]
        in_python(ours, path, calls, addresses, flags=geoip.MEMORY)


PERL = """
use strict; use warnings; use Geo::IP;
my ($path, $flags, $call) = @ARGV;
my $gi = Geo::IP->open($path, $flags) or die;
open(my $maps, '<', '/proc/self/maps');
print((map { (split)[-1] . "\\n" } grep { /libGeoIP/ } <$maps>)[-1]);
print join(' ', Geo::IP->lib_version // '-', $gi->database_edition, $gi->charset), "\\n";
while (my $line = <STDIN>) {
    chomp $line;
    my @said;
    if ($call eq 'record') {
        my $r = $gi->record_by_addr($line);
        @said = map { $r ? $r->$_ // '-' : '-' } qw(country_code country_code3 country_name region
            city postal_code latitude longitude metro_code area_code continent_code region_name
            time_zone) if 1;
        @said = @said[0 .. 10];
    } elsif ($call eq 'region') {
        @said = map { $_ // '-' } $gi->region_by_addr($line);
    } elsif ($call eq 'range') {
        @said = map { $_ // '-' } $gi->range_by_ip($line);
    } else {
        @said = ($gi->$call($line) // '-');
    }
    print join('|', @said), ' ', $gi->last_netmask, "\\n";
}
"""


def test_libgeo_ip_perl_answers_equally(ours, files):
    perl = program("perl", "perl")
    if run(None, perl, "-MGeo::IP", "-e", "1")[0] != 0:
        missing("peers", "libgeo-ip-perl is not installed")
    country = geoip.database("GeoIP.dat"), some_addresses(100_000 if ALL else 5_000)
    for (path, addresses), call, flags in [
        (country, "country_code_by_addr", 0),
        (country, "country_name_by_addr", 1),
        ((country[0], country[1][:1000]), "range", 1),
        (files[2], "record", 1),
        (files[6], "record", 0),
        (files[3], "region", 0),
        (files[5], "name_by_addr", 4),
        (files[9], "isp_by_addr", 8),
        ((geoip.database("GeoIPv6.dat"), some_ipv6_addresses(5_000)), "country_code_by_addr_v6", 1),
    ]:
        given = "".join(f"{address}\n" for address in addresses).encode()
        said = []
        for library_folder in ours, None:
            status, output, errors = run(
                library_folder, perl, "-e", PERL, path, flags, call, given=given
            )
            assert status == 0, (call, errors[-1000:])
            library, _, rest = output.partition(b"\n")
            assert (str(ours).encode() in library) == bool(library_folder)
            said.append(rest)
        assert said[0] == said[1], call
        assert said[0].count(b"\n") == len(addresses) + 1


LUA = """
local kind, path = arg[1], arg[2]
local geoip = require("geoip." .. kind)
local db = assert(geoip.open(path))
for line in io.lines("/proc/self/maps") do
  if line:find("libGeoIP") then print(line:match("%S+$")) break end
end
local function show(value)
  if type(value) ~= "table" then return tostring(value) end
  local keys = {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys)
  local parts = {}
  for _, key in ipairs(keys) do parts[#parts + 1] = key .. "=" .. tostring(value[key]) end
  return table.concat(parts, ",")
end
for line in io.stdin:lines() do
  print(show((db:query_by_addr(line))))
end
"""


def test_lua_geoip_answers_equally(ours, files):
    lua = program("lua5.1", "lua5.1")
    if run(None, lua, "-e", "require 'geoip.country'")[0] != 0:
        missing("peers", "lua-geoip is not installed")
    country = geoip.database("GeoIP.dat"), some_addresses(20_000)
    for kind, (path, addresses) in ("country", country), ("city", files[2]):
        script = path.parent / "ask.lua" if kind == "city" else files[2][0].parent / "ask.lua"
        script.write_text(LUA)
        given = "".join(f"{address}\n" for address in addresses).encode()
        said = []
        for library_folder in ours, None:
            status, output, errors = run(library_folder, lua, script, kind, path, given=given)
            assert status == 0, errors[-1000:]
            library, _, rest = output.partition(b"\n")
            assert (str(ours).encode() in library) == bool(library_folder)
            said.append(rest)
        assert said[0] == said[1]
        assert said[0].count(b"\n") == len(addresses)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def listens_or_ended(port, process):
    assert listens(port) or process.poll() is not None


@contextlib.contextmanager
def serving(library_folder, command, port, **more):
    """A server until its port is open, ended by its process id."""
    process = subprocess.Popen(
        [str(word) for word in command],
        env=environment(library_folder, **more),
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: listens_or_ended(port, process), seconds=60)
        assert process.poll() is None, f"{command[0]} ended with {process.returncode}"
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def all_processes(pid):
    """A process and its children."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


NGINX_MODULES = pathlib.Path("/usr/lib/nginx/modules")

NGINX = """
load_module {modules}/ngx_http_geoip_module.so;
load_module {modules}/ngx_stream_module.so;
load_module {modules}/ngx_stream_geoip_module.so;
daemon off;
{user}
worker_processes 2;
pid {folder}/nginx.pid;
error_log {folder}/error.log info;
events {{ worker_connections 256; }}
http {{
    access_log off;
    keepalive_requests 100000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    geoip_country {country};
    geoip_city {city} {charset};
    geoip_org {organization};
    geoip_proxy 127.0.0.1;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            return 200 "$geoip_country_code|$geoip_country_code3|$geoip_country_name|$geoip_city|$geoip_city_country_code|$geoip_city_country_code3|$geoip_city_country_name|$geoip_city_continent_code|$geoip_region|$geoip_region_name|$geoip_postal_code|$geoip_latitude|$geoip_longitude|$geoip_dma_code|$geoip_area_code|$geoip_org";
        }}
    }}
}}
stream {{
    geoip_country {country};
    geoip_city {city};
    geoip_org {organization};
    server {{
        listen 127.0.0.1:{stream_port} proxy_protocol;
        set_real_ip_from 127.0.0.0/8;
        return "$geoip_country_code|$geoip_city|$geoip_region|$geoip_org|$geoip_latitude";
    }}
}}
"""

# The names of regions are from other sources: see tables/generate.py.
REGION_NAME = 9


def nginx_answers(library_folder, nginx, folder, configuration, port, stream_port, addresses):
    file = folder / "nginx.conf"
    file.write_text(configuration)
    command = [nginx, "-p", folder, "-c", file, "-e", folder / "early.log"]
    with serving(library_folder, command, port) as process:
        time.sleep(0.3)
        workers = all_processes(process.pid)
        assert len(workers) == 3 and all(proves(pid, library_folder) for pid in workers)
        connection, said = http.client.HTTPConnection("127.0.0.1", port, timeout=10), []
        for address in addresses:
            connection.request("GET", "/", headers={"X-Forwarded-For": address})
            columns = connection.getresponse().read().decode("latin1").split("|")
            said.append(columns[:REGION_NAME] + columns[REGION_NAME + 1 :])
        for address in addresses[:100]:
            with socket.create_connection(("127.0.0.1", stream_port), timeout=10) as sock:
                family = "TCP6" if ":" in address else "TCP4"
                local = "::1" if ":" in address else "127.0.0.1"
                sock.sendall(f"PROXY {family} {address} {local} 1 2\r\n".encode())
                received = b""
                while part := sock.recv(4096):
                    received += part
            said.append(received)
    return said


@pytest.mark.parametrize("is_ipv6", [False, True])
def test_nginx_http_and_stream_modules_answer_equally(ours, files, tmp_path, is_ipv6):
    nginx = program("nginx", "nginx")
    for module in "ngx_http_geoip_module.so", "ngx_stream_geoip_module.so":
        if not (NGINX_MODULES / module).is_file():
            missing("peers", f"{module} is not installed (libnginx-mod-*-geoip)")
    country = geoip.database("GeoIPv6.dat" if is_ipv6 else "GeoIP.dat")
    city, organization = (files[30], files[23]) if is_ipv6 else (files[2], files[5])
    addresses = random.Random(4).sample(city[1] + organization[1], 400)
    addresses += some_ipv6_addresses(300) if is_ipv6 else some_addresses(3000 if ALL else 600)
    said = []
    for library_folder in ours, None:
        port, stream_port = free_port(), free_port()
        configuration = NGINX.format(
            modules=NGINX_MODULES,
            folder=tmp_path,
            user="user root;" if os.geteuid() == 0 else "",
            country=country,
            city=city[0],
            organization=organization[0],
            charset="" if is_ipv6 else "utf8",
            port=port,
            stream_port=stream_port,
        )
        said.append(
            nginx_answers(
                library_folder, nginx, tmp_path, configuration, port, stream_port, addresses
            )
        )
    for address, mine, original in zip(addresses, *said):
        assert mine == original, address
    assert said[0] == said[1]
    assert len({tuple(one) for one in said[0]}) > 50


MODSECURITY = """
load_module {modules}/ngx_http_modsecurity_module.so;
daemon off;
{user}
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log crit;
events {{ worker_connections 64; }}
http {{
    access_log off;
    keepalive_requests 100000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    modsecurity on;
    modsecurity_rules '
        SecRuleEngine On
        SecAuditEngine Off
        SecGeoLookupDb {city}
        SecRule REQUEST_HEADERS:X-Client "@geoLookup" "id:1,phase:1,pass,nolog,setvar:tx.found=1"
        SecRule GEO:COUNTRY_CODE "@within {denied}" "id:2,phase:1,deny,status:403,nolog"
        SecRule GEO:CITY "@rx [xyz]" "id:3,phase:1,deny,status:406,nolog"
        SecRule GEO:LATITUDE "@rx ^-" "id:4,phase:1,deny,status:409,nolog"
        SecRule TX:found "@eq 1" "id:5,phase:1,deny,status:410,nolog"
    ';
    server {{
        listen 127.0.0.1:{port};
        location / {{ return 404; }}
    }}
}}
"""


def city_file_with_names(path):
    """A city file whose regions all have names: ModSecurity ends where one has none."""
    seeded, networks = random.Random(13), []
    regions = [(225, b"CA"), (225, b"NY"), (56, b"02"), (74, b"A8"), (77, b"H9"), (38, b"ON")]
    for number in range(200):
        country, region = seeded.choice(regions)
        record = bytes([country]) + region + b"\0City " + bytes([97 + number % 26]) + b"\0\0"
        record += seeded.randrange(3_600_001).to_bytes(3, "little") * 2
        record += bytes(3) if country == geoip_files.UNITED_STATES else b""
        networks.append((seeded.getrandbits(16) << 16, 16, record))
    path.write_bytes(geoip_files.write(CITY, networks))
    return geoip_files.borders(networks, False)


def test_modsecurity_decides_equally(ours, tmp_path):
    nginx = program("nginx", "nginx")
    if not (NGINX_MODULES / "ngx_http_modsecurity_module.so").is_file():
        missing("peers", "libnginx-mod-http-modsecurity is not installed")
    path = tmp_path / "city.dat"
    addresses = random.Random(4).sample(city_file_with_names(path), 300)
    said = []
    for library_folder in ours, None:
        port = free_port()
        file = tmp_path / "nginx.conf"
        file.write_text(
            MODSECURITY.format(
                modules=NGINX_MODULES,
                folder=tmp_path,
                user="user root;" if os.geteuid() == 0 else "",
                city=path,
                denied="US,DE,FR",
                port=port,
            )
        )
        command = [nginx, "-p", tmp_path, "-c", file, "-e", tmp_path / "early.log"]
        with serving(library_folder, command, port) as process:
            time.sleep(0.3)
            assert all(proves(pid, library_folder) for pid in all_processes(process.pid))
            connection, statuses = http.client.HTTPConnection("127.0.0.1", port, timeout=10), []
            for address in addresses:
                connection.request("GET", "/", headers={"X-Client": address})
                answer = connection.getresponse()
                answer.read()
                statuses.append(answer.status)
            said.append(statuses)
    assert said[0] == said[1]
    assert len(set(said[0])) > 2, set(said[0])


APACHE = """
ServerRoot {folder}
PidFile {folder}/apache.pid
ServerName localhost
Listen 127.0.0.1:{port}
{user}
ErrorLog {folder}/error.log
LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule headers_module {modules}/mod_headers.so
LoadModule geoip_module {modules}/mod_geoip.so
Mutex file:{folder}
StartServers 2
MaxKeepAliveRequests 0
DocumentRoot {folder}/empty
GeoIPEnable On
GeoIPScanProxyHeaders On
GeoIPOutput All
GeoIPDBFile {country} MemoryCache
GeoIPDBFile {city} {flags}
GeoIPDBFile {organization}
Header always set X-Country "%{{GEOIP_COUNTRY_CODE}}e|%{{GEOIP_COUNTRY_NAME}}e|%{{GEOIP_CONTINENT_CODE}}e"
Header always set X-City "%{{GEOIP_CITY}}e|%{{GEOIP_REGION}}e|%{{GEOIP_LATITUDE}}e|%{{GEOIP_LONGITUDE}}e|%{{GEOIP_POSTAL_CODE}}e|%{{GEOIP_DMA_CODE}}e|%{{GEOIP_AREA_CODE}}e"
Header always set X-Organization "%{{GEOIP_ORGANIZATION}}e"
"""


def test_apache_mod_geoip_answers_equally(ours, files, tmp_path):
    apache = program("apache2", "apache2")
    modules = pathlib.Path("/usr/lib/apache2/modules")
    if not (modules / "mod_geoip.so").is_file():
        missing("peers", "libapache2-mod-geoip is not installed")
    (tmp_path / "empty").mkdir()
    for each in [tmp_path, *tmp_path.parents][:3]:
        each.chmod(0o755)
    addresses = random.Random(4).sample(files[CITY][1] + files[ORGANIZATION][1], 300)
    addresses += some_addresses(3000 if ALL else 300)
    said = []
    for library_folder in ours, None:
        port = free_port()
        file = tmp_path / "apache.conf"
        file.write_text(
            APACHE.format(
                folder=tmp_path,
                port=port,
                modules=modules,
                user="User www-data\nGroup www-data" if os.geteuid() == 0 else "",
                country=geoip.database("GeoIP.dat"),
                city=files[CITY][0],
                organization=files[ORGANIZATION][0],
                flags="CheckCache",
            )
        )
        command = [apache, "-f", file, "-DFOREGROUND"]
        with serving(library_folder, command, port) as process:
            time.sleep(0.3)
            assert all(proves(pid, library_folder) for pid in all_processes(process.pid))
            connection, answers = http.client.HTTPConnection("127.0.0.1", port, timeout=10), []
            for address in addresses:
                connection.request("GET", "/", headers={"X-Forwarded-For": address})
                answer = connection.getresponse()
                answer.read()
                names = "X-Country", "X-City", "X-Organization"
                answers.append([answer.getheader(name) for name in names])
                if answer.will_close:
                    connection.close()
            said.append(answers)
    for address, mine, original in zip(addresses, *said):
        assert mine == original, address
    assert len({tuple(one) for one in said[0]}) > 50


PROFTPD = """
ServerName "test"
ServerType standalone
DefaultServer on
Port {port}
DefaultAddress 127.0.0.1
UseIPv6 off
RequireValidShell off
User {user}
Group {group}
PidFile {folder}/proftpd.pid
ScoreboardFile {folder}/scoreboard
DelayTable none
SystemLog {folder}/system.log
TransferLog none
WtmpLog off
ModulePath /usr/lib/proftpd
LoadModule mod_geoip.c
GeoIPEngine on
GeoIPLog {folder}/geoip.log
GeoIPTable {country}
GeoIPTable {city} MemoryCache UTF8
GeoIPPolicy allow,deny
GeoIPDenyFilter CountryCode {denied}
"""


def has_ended(pid):
    """Whether a server has no child left."""
    assert all_processes(pid) == [pid]


def test_proftpd_mod_geoip_decides_equally(ours, tmp_path):
    proftpd = program("proftpd", "proftpd-core")
    if not pathlib.Path("/usr/lib/proftpd/mod_geoip.so").is_file():
        missing("peers", "proftpd-mod-geoip is not installed")
    record = b"\xe1CA\0Los \xc1ngeles\0" + b"90001\0" + bytes.fromhex("d0f7200d1f09f5ab03")
    loopback = [(127 << 24, 8, 225)], [(127 << 24, 8, record)]
    files = tmp_path / "country.dat", tmp_path / "city.dat"
    files[0].write_bytes(geoip_files.write(COUNTRY, loopback[0]))
    files[1].write_bytes(geoip_files.write(CITY, loopback[1]))
    for each in [tmp_path, *tmp_path.parents][:3]:
        each.chmod(0o755)
    root = os.geteuid() == 0
    said = []
    for library_folder in ours, None:
        for denied in "^(US)$", "^(DE)$":
            port, log = free_port(), tmp_path / "geoip.log"
            log.unlink(missing_ok=True)
            file = tmp_path / "proftpd.conf"
            user, group = ("proftpd", "nogroup") if root else (os.getlogin(), os.getgroups()[0])
            file.write_text(
                PROFTPD.format(
                    port=port,
                    folder=tmp_path,
                    user=user,
                    group=group,
                    country=files[0],
                    city=files[1],
                    denied=denied,
                )
            )
            with serving(library_folder, [proftpd, "--nodaemon", "--config", file], port) as process:
                assert proves(process.pid, library_folder)
                with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
                    sock.settimeout(10)
                    with contextlib.suppress(OSError):
                        greeting = sock.recv(200)[:3]
                # Its child writes the log while it ends.
                eventually(lambda: has_ended(process.pid), seconds=20)
                lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
            lines = [re.sub(r"^.*?: ", "", line).replace(str(port), "") for line in lines]
            said.append((denied, greeting, lines))
    assert said[:2] == said[2:]
    assert said[0][1] != said[1][1] and said[0][2]


PDNS_ZONE = """
domains:
- domain: geo.example
  ttl: 30
  records:
    geo.example:
      - soa: ns.geo.example host.geo.example 1 7200 3600 86400 60
      - ns: ns.geo.example
    www.geo.example:
      - txt: "%cc|%co|%cn|%re|%na|%as|%ci|%la|%lo|%ip"
"""


def test_pdns_geoip_backend_answers_equally(ours, files, tmp_path):
    pdns, dig = program("pdns_server", "pdns-server"), program("dig", "bind9-dnsutils")
    if not list(pathlib.Path("/usr/lib").glob("*/pdns/libgeoipbackend.so")):
        missing("peers", "pdns-backend-geoip is not installed")
    zone = tmp_path / "zone.yaml"
    zone.write_text(PDNS_ZONE)
    for each in [tmp_path, *tmp_path.parents][:3]:
        each.chmod(0o755)
    databases = f"{files[CITY][0]} {files[ORGANIZATION][0]} {geoip.database('GeoIP.dat')}"
    addresses = random.Random(4).sample(files[CITY][1], 100 if ALL else 40) + some_addresses(40)
    said = []
    for library_folder in ours, None:
        port = free_port()
        command = [pdns, "--daemon=no", "--guardian=no", "--launch=geoip", "--config-dir=/nonexistent"]
        command += [f"--geoip-database-files={databases}", f"--geoip-zones-file={zone}"]
        command += ["--local-address=127.0.0.1", f"--local-port={port}", f"--socket-dir={tmp_path}"]
        command += ["--edns-subnet-processing=yes", "--cache-ttl=0", "--query-cache-ttl=0"]
        with serving(library_folder, command, port) as process:
            assert proves(process.pid, library_folder)
            answers = []
            for address in addresses:
                asked = [dig, "@127.0.0.1", "-p", port, "www.geo.example", "TXT", "+short"]
                asked += [f"+subnet={address}/32"]
                answers.append(run(None, *asked)[1])
            said.append(answers)
    for address, mine, original in zip(addresses, *said):
        assert mine == original, address
    assert len(set(said[0])) > 10


LOG_LINE = '{} - - [28/Nov/2026:00:00:{:02} +0000] "GET /{} HTTP/1.0" 200 100 "-" "-"\n'


@pytest.mark.parametrize("name", ["webalizer", "awffull"])
def test_reports_of_logs_are_equal(ours, tmp_path, name):
    tool = program(name, name)
    log = tmp_path / "access.log"
    addresses = some_addresses(3000)
    log.write_text("".join(LOG_LINE.format(it, at % 60, at) for at, it in enumerate(addresses)))
    database = geoip.database("GeoIP.dat")
    said = []
    for library_folder in ours, None:
        out = tmp_path / f"out-{library_folder is None}"
        out.mkdir()
        settings = tmp_path / "settings.conf"
        settings.write_text(
            f"OutputDir {out}\nHostName test\nDNSCache {out}/cache\nDNSChildren 0\n"
            f"GeoIP yes\nGeoIPDatabase {database}\nTopCountries 100\nHistoryName {out}/history\n"
        )
        status, _, errors = run(library_folder, tool, "-c", settings, log)
        assert status == 0, errors
        pages = {}
        for page in sorted(out.glob("usage*.html")):
            text = page.read_text(errors="replace")
            pages[page.name] = re.sub(r"Generated .*|in [0-9.]+ seconds.*", "", text)
        assert pages and any("United States" in text for text in pages.values())
        said.append(pages)
    assert said[0] == said[1]
    (tmp_path / "out-loader").mkdir()
    loads_ours(ours, tmp_path, tool, "-c", settings, log)


def test_subnetcalc_prints_the_same(ours, tmp_path):
    tool = program("subnetcalc", "subnetcalc")
    loads_ours(ours, tmp_path, tool, "8.8.8.8/24", "-nocolour")
    for address in [*some_addresses(40), *some_ipv6_addresses(20), "10.0.0.1"]:
        length = 56 if ":" in address else 24
        status, output, _ = same(ours, tool, f"{address}/{length}", "-nocolour", "-n")
        assert status == 0
    assert b"United States" in same(ours, tool, "8.8.8.8/24", "-nocolour", "-n")[1]


def test_netsniff_ng_starts_on_our_library(ours, tmp_path):
    tool = program("netsniff-ng", "netsniff-ng")
    loads_ours(ours, tmp_path, tool, "--version")
    same(ours, tool, "--version")
    capture = tmp_path / "one.pcap"
    header = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000")
    packets = b""
    for address in some_addresses(50):
        ethernet = bytes(12) + b"\x08\x00"
        source = socket.inet_aton(address)
        ip = bytes.fromhex("4500001c000000004011") + bytes(2) + source + socket.inet_aton("8.8.8.8")
        frame = ethernet + ip + bytes.fromhex("0035003500080000")
        packets += bytes(8) + len(frame).to_bytes(4, "little") * 2 + frame
    capture.write_bytes(header + packets)
    shown = [run(folder, tool, "--in", capture) for folder in (ours, None)]
    # How long it took differs.
    texts = [re.sub(rb"\d+ sec, \d+ usec", b"", output) for _, output, _ in shown]
    assert texts[0] == texts[1] and [status for status, _, _ in shown] == [0, 0]
