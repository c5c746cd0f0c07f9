"""Real packets through the rules of a sample, in a network namespace: what the kernel lets pass and
what `whered match` says.

For: the test `rulesets`, which runs it as `unshare -n python3 judge.py WHERED SAMPLE`. Interfaces are
tun devices, so a packet comes in where it is said to. Two chains of nft note the packets that reach
the hook and those that leave it. IPv4 and IPv6, whole, as fragments and with extension headers. Not for: limits and lists of the kernel; such a verdict is maybe.

Prints `COUNT sure, COUNT maybe` for each chain, and a line for each packet that fared otherwise; the
exit code says whether there was one.
"""
import csv
import fcntl
import io
import ipaddress
import json
import os
import random
import struct
import subprocess
import sys
import time

WHERED, SAMPLE = sys.argv[1:]
INTERFACES = ["eth0", "eth1", "docker0", "virbr0", "br-lan", "other0"]
ROUTES = {"docker0": "172.17.0.0/16", "virbr0": "192.168.122.0/24", "br-lan": "192.168.1.0/24",
          "eth1": "10.0.0.0/8", "eth0": "0.0.0.0/0"}
ROUTES_6 = {"docker0": "fd00:17::/64", "virbr0": "fd00:122::/64", "br-lan": "fd00:1::/64",
            "eth1": "fd00:10::/64", "eth0": "::/0"}
# Extension headers, by the number of their protocol; each says which header comes next.
HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION = 0, 43, 44, 60
NETS = {4: ["172.17.0.2", "192.168.122.9", "192.168.1.7", "10.1.0.2", "10.9.3.3", "203.0.113.7",
            "198.51.100.9", "192.0.2.77", "10.2.0.1", "10.2.0.9"],
        6: ["fd00:17::2", "fd00:122::9", "fd00:1::7", "fd00:10::2", "2001:db8:9::7", "2001:db8::77",
            "2001:db8:9:0:216:3eff:fe00:1", "fe80::5"]}
LOCAL = {4: ["192.0.2.1", "127.0.0.1", "224.0.0.251", "192.0.2.255"],
         6: ["2001:db8::1", "ff02::fb", "ff02::1"]}
PORTS = [21, 22, 53, 67, 68, 80, 443, 500, 546, 2222, 5353, 8005, 30000, 31000, 40000]
ROUNDS = 1500


def run(*command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr}{done.stdout}")
    return done.stdout


def tun(name):
    """A new tun device, whose packets are read and written by the file."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1001))
    run("ip", "link", "set", name, "up")
    return file


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def body_of(packet, addresses):
    """TCP, UDP or an echo request, with its checksum."""
    protocol, ports = packet["protocol"], (packet["source_port"], packet["destination_port"])
    if protocol == 6:
        body, at = struct.pack("!HHLLBBHHH", *ports, 1, 0, 0x50, 2, 1024, 0, 0), 16
    elif protocol == 17:
        body, at = struct.pack("!HHHH", *ports, 12, 0) + b"ping", 6
    else:
        body, at = struct.pack("!BBHHH", 8 if protocol == 1 else 128, 0, 0, packet["number"], 1), 2
    pseudo = b"" if protocol == 1 else addresses + struct.pack("!LL", len(body), protocol)
    return body[:at] + struct.pack("!H", checksum(pseudo + body)) + body[at + 2:]


def octets(packet):
    source, destination = (ipaddress.ip_address(packet[end]) for end in ("source", "destination"))
    addresses = source.packed + destination.packed
    body = body_of(packet, addresses)
    fragment = {"": 0, "first": 1, "later": 8 << 3}[packet["part"]]
    if fragment > 1:
        # nft looks for ports in these octets and in the header before them: they say port 0.
        body = bytes(9)
    if source.version == 4:
        offset = fragment >> 3 | (fragment & 1) << 13
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), packet["number"], offset, packet["ttl"],
                           packet["protocol"], 0) + addresses
        return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + body
    following = packet["protocol"]
    if fragment:
        body = struct.pack("!BBHL", following, 0, fragment, 0) + body
        following = FRAGMENT
    for kind in reversed(packet["extensions"]):
        # Padding; a routing header of type 2 with no segments left.
        rest = b"\2\0\0\0\0\0" if kind == ROUTING else b"\1\4\0\0\0\0"
        body = struct.pack("!BB", following, 0) + rest + body
        following = kind
    label = 6 << 28 | packet["number"]
    return struct.pack("!LHBB", label, len(body), following, packet["ttl"]) + addresses + body


def packets(seed, versions):
    chance = random.Random(seed)
    for number in range(1, ROUNDS + 1):
        version = chance.choice(versions)
        # Every interface has a route to link-local addresses: none of them is the way out.
        beyond = [address for address in NETS[version] if not address.startswith("fe80:")]
        to_us = chance.random() < 0.5
        protocol = chance.choice([6, 6, 17, 17, 1 if version == 4 else 58])
        part = chance.choice([""] * 20 + ["first", "later"])
        has_ports = protocol in (6, 17) and part != "later"
        is_echo = protocol not in (6, 17) and part != "later"
        local = LOCAL[version]
        extensions = chance.choice([[]] * 6 + [[HOP_BY_HOP], [DESTINATION], [HOP_BY_HOP, ROUTING]])
        packet = {
            "number": number,
            "source": chance.choice(NETS[version]),
            "destination": chance.choice(local[:1] * 3 + local if to_us else beyond),
            "protocol": protocol,
            "source_port": 20000 + number if has_ports else 0,
            "destination_port": chance.choice(PORTS) if has_ports else 0,
            "icmp": ("8/0" if version == 4 else "128/0") if is_echo else "",
            "flags": "syn" if protocol == 6 and part != "later" else "",
            "state": "new",
            "connection_status": 0,
            "in": chance.choice(INTERFACES),
            "out": "",
            "ttl": chance.choice([2, 64, 255]),
            "fragment": int(part == "later"),
            "part": part,
            "extensions": extensions if version == 6 else [],
        }
        packet["length"] = len(octets(packet))
        yield packet


def load():
    """Loads the sample; its chains with their table, hook, priority, and what packets they see."""
    text = open(SAMPLE, encoding="utf-8").read()
    if SAMPLE.endswith(".json"):
        # Maps of verdicts name chains, which a listing has behind them.
        objects = json.loads(text)["nftables"]
        order = ["metainfo", "table", "chain", "set", "map", "counter", "quota", "limit", "synproxy",
                 "ct helper", "rule"]
        objects.sort(key=lambda one: order.index(next(iter(one))))
        # A listing has these, but they cannot be added as JSON.
        objects = [one for one in objects if not {"metainfo", "synproxy"} & set(one)]
        run("nft", "-j", "-f", "-", text=json.dumps({"nftables": objects}))
        base = [one["chain"] for one in objects if "hook" in one.get("chain", {})]
        versions = {"ip": [4], "ip6": [6], "inet": [4, 6]}
        return [(chain["name"], f"{chain['family']} {chain['table']}", chain["hook"], chain["prio"],
                 versions[chain["family"]]) for chain in base
                if chain["type"] == "filter" and chain["hook"] in ("input", "forward")]
    is_6 = SAMPLE.endswith(".v6")
    run("ip6tables-restore" if is_6 else "iptables-restore", text=text)
    version = [6 if is_6 else 4]
    return [("INPUT", "filter", "input", 0, version), ("FORWARD", "filter", "forward", 0, version)]


def seen(name):
    for one in json.loads(run("nft", "-j", "list", "set", "inet", "judge", name))["nftables"]:
        if "set" in one:
            return {item["elem"]["val"] if isinstance(item, dict) else item
                    for item in one["set"].get("elem", [])}
    return set()


def judge(chain, table, hook, priority, versions, files):
    """Every chain is looked at alone: right before it and right after it."""
    # Packets are known by the identification of IPv4 and the flow label of IPv6.
    marks = [("4", "ip id"), ("6", "ip6 flowlabel")]
    sets = "".join(f"set {name}{version} {{ typeof {field}; size 65535; flags dynamic; }}\n"
                   for version, field in marks for name in ("reached", "passed"))
    adds = {name: "; ".join(f"add @{name}{version} {{ {field} }}" for version, field in marks)
            for name in ("reached", "passed")}
    run("nft", "-f", "-", text=f"""
        table inet judge {{
            {sets}
            chain before {{ type filter hook {hook} priority {priority - 1}
                jump before_4; jump before_6; }}
            chain after {{ type filter hook {hook} priority {priority + 1}
                jump after_4; jump after_6; }}
            chain before_4 {{ add @reached4 {{ ip id }}; }}
            chain before_6 {{ add @reached6 {{ ip6 flowlabel }}; }}
            chain after_4 {{ add @passed4 {{ ip id }}; }}
            chain after_6 {{ add @passed6 {{ ip6 flowlabel }}; }}
        }}""")
    sent = list(packets(f"{SAMPLE} {chain}", versions))
    for packet in sent:
        os.write(files[packet["in"]], octets(packet))
    time.sleep(0.3)
    reached, passed = ({version: seen(f"{name}{version}") for version in (4, 6)}
                       for name in ("reached", "passed"))
    run("nft", "delete", "table", "inet", "judge")
    version = lambda packet: 6 if ":" in packet["source"] else 4  # noqa: E731
    sent = [packet for packet in sent if packet["number"] in reached[version(packet)]]
    if not sent:
        sys.exit(f"{SAMPLE} {chain}: no packet came there")
    for packet in sent:
        packet["destination_type"] = kind(packet["destination"])
        if hook == "forward":
            packet["out"] = way(packet["destination"])
            # The kernel counts the hop before the chain.
            packet["ttl"] -= 1
    lines = io.StringIO()
    columns = [name for name in sent[0] if name not in ("number", "part", "extensions")]
    rows = csv.DictWriter(lines, columns, extrasaction="ignore")
    rows.writeheader()
    rows.writerows(sent)
    told = subprocess.run(
        [WHERED, "match", "--rules", SAMPLE, "--table", table, "--chain", chain, "--format", "csv", "-"],
        input=lines.getvalue(), capture_output=True, text=True, check=False)
    if told.returncode != 0:
        sys.exit(f"{SAMPLE} {chain}: {told.stderr}")
    sure, maybe, wrong = 0, 0, 0
    for packet, answer in zip(sent, csv.DictReader(io.StringIO(told.stdout)), strict=True):
        verdict = answer["verdict"]
        if verdict == "maybe":
            maybe += 1
            continue
        sure += 1
        has_passed = packet["number"] in passed[version(packet)]
        if (verdict in ("accept", "continue")) != has_passed:
            wrong += 1
            print(f"{SAMPLE} {chain}: {packet}: {verdict} by line {answer['line']}, but the kernel "
                  f"{'let it pass' if has_passed else 'dropped it'}")
    print(f"{SAMPLE} {chain}: {sure} sure, {maybe} maybe")
    return wrong


def kind(destination):
    address = ipaddress.ip_address(destination)
    known = {"192.0.2.1": "local", "192.0.2.255": "broadcast", "2001:db8::1": "local"}
    if address.is_multicast:
        return "multicast"
    return known.get(destination, "local" if address.is_loopback else "unicast")


def way(destination):
    address = ipaddress.ip_address(destination)
    routes = ROUTES if address.version == 4 else ROUTES_6
    return next(name for name, net in routes.items() if address in ipaddress.ip_network(net))


def main():
    files = {name: tun(name) for name in INTERFACES}
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", "192.0.2.1/24", "dev", "eth0", "broadcast", "192.0.2.255")
    run("ip", "address", "add", "2001:db8::1/64", "dev", "eth0", "nodad")
    for name, net in [*ROUTES.items(), *ROUTES_6.items()]:
        run("ip", "route", "add", net, "dev", name)
    with open("/proc/sys/net/ipv6/conf/all/forwarding", "w", encoding="ascii") as file:
        file.write("1")
    for setting in ["ip_forward=1", "conf.all.rp_filter=0", "conf.default.rp_filter=0",
                    "conf.all.route_localnet=1", "conf.all.accept_local=1",
                    *[f"conf.{name}.rp_filter=0" for name in INTERFACES if "." not in name],
                    *[f"conf.{name}.route_localnet=1" for name in INTERFACES if "." not in name]]:
        name, value = setting.split("=")
        with open("/proc/sys/net/ipv4/" + name.replace(".", "/"), "w", encoding="ascii") as file:
            file.write(value)
    chains = load()
    wrong = sum(judge(*chain, files) for chain in chains)
    for file in files.values():
        os.close(file)
    sys.exit(1 if wrong else 0)


main()
