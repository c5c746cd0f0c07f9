"""Lists of prefixes of every published format, loaded by redis-cli, against readers in Python.

Each sample is made of random networks; what the server has afterwards is compared with what
`ipaddress`, `json` and `csv` read from the same text.
"""

import csv
import io
import ipaddress
import json
import random
import subprocess

import pytest
from conftest import program


def redis_cli(server, *arguments):
    command = [program("redis-cli", "redis-tools"), "-p", str(server.resp), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout


def networks(seed, count=40):
    """Different networks of both families, IPv4 first."""
    chance = random.Random(seed)
    found = set()
    while len(found) < count:
        width, kind = chance.choice([(32, ipaddress.IPv4Network), (128, ipaddress.IPv6Network)])
        length = chance.randrange(8, width + 1)
        bits = chance.getrandbits(length) << (width - length)
        # Blocks below ::ffff:0:0/96 would be IPv4 ones.
        if width == 32 or bits >> 112:
            found.add(kind((bits, length)))
    return sorted(found, key=lambda network: (network.version, network))


def ends(network):
    return network.network_address, network.broadcast_address


def exported(server, name):
    """The blocks of a set, as ranges."""
    ranges = set()
    for line in redis_cli(server, "CIDR.EXPORT", name).split():
        if "-" in line:
            first, last = map(ipaddress.ip_address, line.split("-"))
        else:
            first, last = ends(ipaddress.ip_network(line))
        ranges.add((first, last))
    return ranges


def spans(found):
    return {ends(network) for network in found}


def of_aws(nets):
    rows4 = [{"ip_prefix": str(net), "service": "EC2"} for net in nets if net.version == 4]
    rows6 = [{"ipv6_prefix": str(net), "service": "S3"} for net in nets if net.version == 6]
    root = {"syncToken": "1", "createDate": "x", "prefixes": rows4, "ipv6_prefixes": rows6}
    return json.dumps(root, indent=2)


def read_aws(text):
    root = json.loads(text)
    rows = [row["ip_prefix"] for row in root["prefixes"]]
    rows += [row["ipv6_prefix"] for row in root["ipv6_prefixes"]]
    return spans(map(ipaddress.ip_network, rows))


def of_azure(nets):
    values = [
        {"name": f"Tag{n}", "properties": {"addressPrefixes": [str(net) for net in nets[n::3]]}}
        for n in range(3)
    ]
    return json.dumps({"changeNumber": 1, "cloud": "Public", "values": values})


def read_azure(text):
    tags = json.loads(text)["values"]
    found = [prefix for tag in tags for prefix in tag["properties"]["addressPrefixes"]]
    return spans(map(ipaddress.ip_network, found))


def of_drop(nets):
    lines = [json.dumps({"cidr": str(net), "sblid": "SBL1", "rir": "x"}) for net in nets]
    lines.append(json.dumps({"type": "metadata", "records": len(lines), "size": 1}))
    return "\n".join(lines) + "\n"


def read_drop(text):
    rows = [json.loads(line) for line in text.splitlines()]
    return spans(ipaddress.ip_network(row["cidr"]) for row in rows if "cidr" in row)


def of_decisions(nets):
    rows = [
        {"duration": "3h59m27.4s", "scope": "Range", "type": "ban", "value": str(net)}
        for net in nets
    ]
    return json.dumps(rows)


def read_decisions(text):
    return spans(ipaddress.ip_network(row["value"]) for row in json.loads(text))


def of_table(nets):
    out = io.StringIO()
    rows = csv.writer(out, delimiter=";", quoting=csv.QUOTE_ALL)
    rows.writerow(["Name", "Start IP", "End IP"])
    for net in nets:
        rows.writerow([f'a "{net}"; b', *ends(net)])
    return out.getvalue()


def read_table(text):
    rows = list(csv.reader(io.StringIO(text), delimiter=";"))[1:]
    return {tuple(map(ipaddress.ip_address, row[1:])) for row in rows}


def of_integers(nets):
    rows = [f"{int(ends(net)[0])},{int(ends(net)[1])},XX" for net in nets]
    return "ip_from,ip_to,country\r\n" + "\r\n".join(rows)


def read_integers(text):
    rows = [row.split(",") for row in text.split("\r\n")[1:]]
    kind = (ipaddress.IPv4Address, ipaddress.IPv6Address)
    return {tuple(kind[int(row[1]) >= 2**32](int(end)) for end in row[:2]) for row in rows}


def of_rir(nets):
    rows = []
    for net in nets:
        count = net.num_addresses if net.version == 4 else net.prefixlen
        rows.append(f"ripencc|DE|ipv{net.version}|{ends(net)[0]}|{count}|20200101|allocated")
    v4 = sum(net.version == 4 for net in nets)
    head = [f"2|ripencc|1|{len(nets)}|1|1|+0000", f"ripencc|*|ipv4|*|{v4}|summary"]
    return "\n".join([*head, "ripencc|DE|asn|1|1|20200101|assigned", *rows]) + "\n"


def read_rir(text):
    found = set()
    for row in (line.split("|") for line in text.splitlines()):
        if len(row) < 7 or row[6] not in ("allocated", "assigned"):
            continue
        if row[2] == "ipv4":
            first = ipaddress.IPv4Address(row[3])
            found.add((first, first + int(row[4]) - 1))
        elif row[2] == "ipv6":
            found.add(ends(ipaddress.ip_network(f"{row[3]}/{row[4]}")))
    return found


def ipv4(nets):
    return [net for net in nets if net.version == 4]


def of_p2p(nets):
    return "".join(f"a: b:{ends(net)[0]}-{ends(net)[1]}\n" for net in ipv4(nets))


def read_p2p(text):
    lines = [line.rsplit(":", 1)[1].split("-") for line in text.splitlines()]
    return {tuple(map(ipaddress.ip_address, line)) for line in lines}


def of_dat(nets):
    def padded(address):
        return ".".join(part.zfill(3) for part in str(address).split("."))

    rows = [tuple(map(padded, ends(net))) for net in ipv4(nets)]
    return "".join(f"{first} - {last} , 000 , name, x\n" for first, last in rows)


def read_dat(text):
    def address(words):
        return ipaddress.ip_address(".".join(str(int(part)) for part in words.strip().split(".")))

    lines = [line.split(",")[0].split("-") for line in text.splitlines()]
    return {tuple(map(address, line)) for line in lines}


def of_dshield(nets):
    lines = ["# made", "Start\tEnd\tNetmask\tAttacks\tName\tCountry\temail"]
    for net in ipv4(nets):
        lines.append("\t".join([*map(str, ends(net)), str(net.prefixlen), "9", "N", "C", "e"]))
    return "\n".join(lines)


def read_dshield(text):
    rows = [line.split("\t") for line in text.splitlines()[2:]]
    return {tuple(map(ipaddress.ip_address, row[:2])) for row in rows}


def of_bgpdump(nets):
    return "".join(f"TABLE_DUMP2|1|B|::1|1|{net}|1 2 3|IGP|::1|0|0||NAG||\n" for net in nets)


def read_bgpdump(text):
    return spans(ipaddress.ip_network(line.split("|")[5]) for line in text.splitlines())


def of_hosts(nets):
    # Tabs and blanks, as people write it; with tabs alone it may be a table, too.
    lines = [f"{ends(net)[0]}\thost{n}.example  alias\n" for n, net in enumerate(nets)]
    return "".join(line.replace("\t", " ") if n % 2 else line for n, line in enumerate(lines))


def read_hosts(text):
    return spans(ipaddress.ip_network(line.split()[0]) for line in text.splitlines())


def of_nginx(nets):
    return "".join(f"  deny {net};\n" for net in nets) + "allow all;\n"


def read_nginx(text):
    words = [line.strip().rstrip(";").split()[1] for line in text.splitlines()[:-1]]
    return spans(map(ipaddress.ip_network, words))


def of_apache(nets):
    pairs = "".join(f"Require not ip {net}\n" for net in nets)
    return f"<RequireAll>\nRequire all granted\n{pairs}</RequireAll>\n"


def read_apache(text):
    lines = [line.split()[-1] for line in text.splitlines() if line.startswith("Require not")]
    return spans(map(ipaddress.ip_network, lines))


def of_masks(nets):
    return "".join(f"{net.with_netmask} // x\r\n" for net in ipv4(nets))


def read_masks(text):
    return spans(ipaddress.ip_network(line.split()[0]) for line in text.splitlines())


FORMATS = {
    "aws": (of_aws, read_aws),
    "azure": (of_azure, read_azure),
    "spamhaus-drop": (of_drop, read_drop),
    "crowdsec": (of_decisions, read_decisions),
    "csv": (of_table, read_table),
    "csv of integers": (of_integers, read_integers),
    "rir": (of_rir, read_rir),
    "p2p": (of_p2p, read_p2p),
    "dat": (of_dat, read_dat),
    "dshield": (of_dshield, read_dshield),
    "bgpdump": (of_bgpdump, read_bgpdump),
    "hosts": (of_hosts, read_hosts),
    "nginx": (of_nginx, read_nginx),
    "apache": (of_apache, read_apache),
    "plain": (of_masks, read_masks),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("seed", range(3))
def test_a_list_is_guessed_and_read_as_python_reads_it(demo, name, seed):
    write, read = FORMATS[name]
    text = write(networks(seed))
    expected = read(text)
    assert len(expected) > 5
    for options in ([], ["FORMAT", name.split()[0]]):
        loaded = f"list-{len(options)}"
        reply = redis_cli(
            demo, "CIDR.LOAD", loaded, "BULK", text, "REPLACE", "MAXSHRINK", "100", *options
        )
        assert reply.strip().isdigit(), reply
        assert exported(demo, loaded) == expected


def test_hosts_that_may_be_a_table_are_refused_until_the_format_is_named(demo):
    text = of_hosts(networks(4)).replace(" host", "\thost")
    reply = redis_cli(demo, "CIDR.LOAD", "hosts", "BULK", text)
    assert "allowed is a named format, since this may be csv or hosts" in reply
    assert redis_cli(demo, "CIDR.EXPORT", "hosts").startswith("ERR")
    redis_cli(demo, "CIDR.LOAD", "hosts", "BULK", text, "FORMAT", "hosts")
    assert exported(demo, "hosts") == read_hosts(text)
    values = redis_cli(demo, "CIDR.MATCH", "hosts", text.split("\t")[0], "WITHVALUE").split()
    assert values[1] == "host0.example"


def test_decisions_end_when_their_duration_is_over(demo):
    text = of_decisions([ipaddress.ip_network("192.0.2.0/24")])
    redis_cli(demo, "CIDR.LOAD", "decided", "BULK", text)
    members = json.loads(redis_cli(demo, "CIDR.EXPORT", "decided", "FORMAT", "json"))
    assert 14_300 < members[0]["seconds"] <= 14_368


def test_json_is_read_at_a_path(demo):
    nets = networks(9)
    text = json.dumps({"a": [{"n": {"cidr": str(net)}, "tag": net.version} for net in nets]})
    reply = redis_cli(demo, "CIDR.LOAD", "at", "BULK", text)
    assert "allowed is a named format: json with a path" in reply
    redis_cli(demo, "CIDR.LOAD", "at", "BULK", text, "PATH", "a[].n.cidr", "VALUEPATH", "a[].tag")
    assert exported(demo, "at") == spans(nets)
    first = redis_cli(demo, "CIDR.MATCH", "at", str(ends(nets[-1])[0]), "WITHVALUE")
    assert first.split()[1] == "6"
