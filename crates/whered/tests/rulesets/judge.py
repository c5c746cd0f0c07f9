"""Real packets through the rules of a sample, in a network namespace: what the kernel lets pass and
what `whered match` says.

For: the test `rulesets`, which runs it as `unshare -n python3 judge.py WHERED SAMPLE`. Interfaces are
tun devices, so a packet comes in where it is said to. Two chains of nft note the packets that reach
the hook and those that leave it. Not for: limits and lists of the kernel; such a verdict is maybe.

Prints `COUNT sure, COUNT maybe` for each chain, and a line for each packet that fared otherwise; the
exit code says whether there was one.
"""
import csv
import fcntl
import io
import json
import os
import random
import socket
import struct
import subprocess
import sys
import time

WHERED, SAMPLE = sys.argv[1:]
INTERFACES = ["eth0", "eth1", "docker0", "virbr0", "br-lan", "other0"]
ROUTES = {"docker0": "172.17.0.0/16", "virbr0": "192.168.122.0/24", "br-lan": "192.168.1.0/24",
          "eth1": "10.0.0.0/8", "eth0": "default"}
NETS = ["172.17.0.2", "192.168.122.9", "192.168.1.7", "10.1.0.2", "10.9.3.3", "203.0.113.7",
        "198.51.100.9", "192.0.2.77", "10.2.0.1", "10.2.0.9"]
LOCAL = ["192.0.2.1", "127.0.0.1", "224.0.0.251", "192.0.2.255"]
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


def octets(packet, number):
    addresses = socket.inet_aton(packet["source"]) + socket.inet_aton(packet["destination"])
    protocol = packet["protocol"]
    if protocol == 6:
        body = struct.pack("!HHLLBBHHH", packet["source_port"], packet["destination_port"], 1, 0, 0x50,
                           2, 1024, 0, 0)
        pseudo = addresses + struct.pack("!BBH", 0, 6, len(body))
        body = body[:16] + struct.pack("!H", checksum(pseudo + body)) + body[18:]
    elif protocol == 17:
        body = struct.pack("!HHHH", packet["source_port"], packet["destination_port"], 12, 0) + b"ping"
    else:
        body = struct.pack("!BBHHH", 8, 0, 0, number, 1)
        body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), number, 0, 64, protocol, 0) + addresses
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + body


def packets(seed):
    chance = random.Random(seed)
    for number in range(1, ROUNDS + 1):
        to_us = chance.random() < 0.5
        protocol = chance.choice([6, 6, 17, 17, 1])
        has_ports = protocol in (6, 17)
        yield {
            "number": number,
            "source": chance.choice(NETS),
            "destination": chance.choice(LOCAL[:1] * 3 + LOCAL if to_us else NETS),
            "protocol": protocol,
            "source_port": 20000 + number if has_ports else 0,
            "destination_port": chance.choice(PORTS) if has_ports else 0,
            "icmp": "8/0" if protocol == 1 else "",
            "flags": "syn" if protocol == 6 else "",
            "state": "new",
            "connection_status": 0,
            "in": chance.choice(INTERFACES),
            "out": "",
        }


def load():
    text = open(SAMPLE, encoding="utf-8").read()
    if SAMPLE.endswith(".json"):
        # Maps of verdicts name chains, which a listing has behind them.
        objects = json.loads(text)["nftables"]
        order = ["table", "chain", "set", "map", "ct helper", "rule"]
        objects.sort(key=lambda one: order.index(next(iter(one))))
        run("nft", "-j", "-f", "-", text=json.dumps({"nftables": objects}))
        base = [one["chain"] for one in objects if "hook" in one.get("chain", {})]
        wanted = [chain for chain in base if chain["type"] == "filter"]
        return [(chain["name"], chain["hook"], chain["prio"]) for chain in wanted
                if chain["hook"] in ("input", "forward")]
    run("iptables-restore", text=text)
    return [("INPUT", "input", 0), ("FORWARD", "forward", 0)]


def seen(name):
    for one in json.loads(run("nft", "-j", "list", "set", "inet", "judge", name))["nftables"]:
        if "set" in one:
            return {item["elem"]["val"] if isinstance(item, dict) else item
                    for item in one["set"].get("elem", [])}
    return set()


def judge(chain, hook, priority, files):
    """Every chain is looked at alone: right before it and right after it."""
    run("nft", "-f", "-", text=f"""
        table inet judge {{
            set reached {{ typeof ip id; size 65535; flags dynamic; }}
            set passed {{ typeof ip id; size 65535; flags dynamic; }}
            chain before {{ type filter hook {hook} priority {priority - 1}; add @reached {{ ip id }}; }}
            chain after {{ type filter hook {hook} priority {priority + 1}; add @passed {{ ip id }}; }}
        }}""")
    sent = list(packets(f"{SAMPLE} {chain}"))
    for packet in sent:
        os.write(files[packet["in"]], octets(packet, packet["number"]))
    time.sleep(0.3)
    reached, passed = seen("reached"), seen("passed")
    run("nft", "delete", "table", "inet", "judge")
    sent = [packet for packet in sent if packet["number"] in reached]
    for packet in sent:
        packet["destination_type"] = kind(packet["destination"])
        if hook == "forward":
            packet["out"] = way(packet["destination"])
    table = io.StringIO()
    columns = [name for name in sent[0] if name != "number"]
    rows = csv.DictWriter(table, columns, extrasaction="ignore")
    rows.writeheader()
    rows.writerows(sent)
    told = subprocess.run(
        [WHERED, "match", "--rules", SAMPLE, "--chain", chain, "--format", "csv", "-"],
        input=table.getvalue(), capture_output=True, text=True, check=True)
    sure, maybe, wrong = 0, 0, 0
    for packet, answer in zip(sent, csv.DictReader(io.StringIO(told.stdout)), strict=True):
        verdict = answer["verdict"]
        if verdict == "maybe":
            maybe += 1
            continue
        sure += 1
        if (verdict in ("accept", "continue")) != (packet["number"] in passed):
            wrong += 1
            print(f"{SAMPLE} {chain}: {packet}: {verdict} by line {answer['line']}, but the kernel "
                  f"{'let it pass' if packet['number'] in passed else 'dropped it'}")
    print(f"{SAMPLE} {chain}: {sure} sure, {maybe} maybe")
    return wrong


def kind(destination):
    first = int(destination.split(".", maxsplit=1)[0])
    known = {"192.0.2.1": "local", "192.0.2.255": "broadcast"}
    return known.get(destination, {127: "local", 224: "multicast"}.get(first, "unicast"))


def way(destination):
    for name, net in ROUTES.items():
        if net == "default":
            return name
        prefix, length = net.split("/")
        shift = 32 - int(length)
        number = lambda text: struct.unpack("!L", socket.inet_aton(text))[0]  # noqa: E731
        if number(destination) >> shift == number(prefix) >> shift:
            return name
    return ""


def main():
    files = {name: tun(name) for name in INTERFACES}
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", "192.0.2.1/24", "dev", "eth0", "broadcast", "192.0.2.255")
    for name, net in ROUTES.items():
        run("ip", "route", "add", net, "dev", name)
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
