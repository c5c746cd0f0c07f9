"""Legacy GeoIP files of every edition, made byte by byte, for tests of our libGeoIP.

`write(edition, networks)` makes a file; `sample(edition, random)` one with random networks and
records. A network is (address bits, length, record), a record a number or bytes behind the tree.
"""

import ipaddress

INFO = b"GEO-000 20120102 Build 1 Copyright (c) Tests"
COUNTRIES, CITIES, REGIONS = (1, 8, 10, 12, 17, 18), (2, 6, 30, 31), (3, 7)
TEXTS = (4, 5, 9, 11, 13, 14, 21, 22, 23, 24, 26, 27, 28, 29, 32, 33, 34, 35, 36, 37, 38)
EDITIONS = sorted(COUNTRIES + CITIES + REGIONS + TEXTS)
IPV6 = {12, 18, 21, 22, 23, 24, 27, 29, 30, 31, 33, 38}
WIDE = {4, 5, 11, 22, 23, 24}
BASES = {3: 16_000_000, 7: 16_700_000, 17: 16_515_072, 18: 16_515_072}
BASES |= {edition: 16_776_960 for edition in COUNTRIES if edition not in BASES}
UNITED_STATES = 225


def write(edition, networks, info=INFO):
    """A file; later networks overwrite earlier ones."""
    width = 128 if edition in IPV6 else 32
    nodes, data, offsets = [[None, None]], bytearray(1), {}
    for address, length, record in networks:
        if isinstance(record, bytes):
            if record not in offsets:
                offsets[record] = len(data)
                data += record
            record = offsets[record]
        insert(nodes, width, address, length, record)
    base, size = BASES.get(edition, len(nodes)), 4 if edition in WIDE else 3
    tree = bytearray()
    for node in nodes:
        for side in node:
            number = base if side is None else side[1] + (base if side[0] == "leaf" else 0)
            tree += number.to_bytes(size, "little")
    end = b"\0\0\0" + info + b"\xff\xff\xff" + bytes([edition])
    if edition in BASES:
        return bytes(tree) + end
    return bytes(tree + data) + end + len(nodes).to_bytes(3, "little")


def insert(nodes, width, address, length, record):
    node = 0
    for position in range(length):
        side = address >> (width - 1 - position) & 1
        if position + 1 == length:
            nodes[node][side] = ("leaf", record)
            return
        inside = nodes[node][side]
        if inside is None or inside[0] == "leaf":
            nodes.append([inside, inside])
            inside = nodes[node][side] = ("node", len(nodes) - 1)
        node = inside[1]


def text(random, most):
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz -.'"
    if random.random() < 0.5:
        letters += bytes(range(0xA1, 0x100))
    return bytes(random.choice(letters) for _ in range(random.randrange(most)))


def record(edition, random):
    if edition == 10:
        return random.randrange(1, 4)
    if edition in COUNTRIES:
        return random.randrange(1, 256)
    if edition == 7:
        return random.choice([random.randrange(1, 256), 1000 + random.randrange(676)])
    if edition == 3:
        return random.choice([random.randrange(1, 1353), 1353 + 360 * random.randrange(256)])
    if edition in CITIES:
        country = random.choice([UNITED_STATES, random.randrange(256)])
        made = bytes([country]) + text(random, 3) + b"\0" + text(random, 20) + b"\0"
        made += text(random, 7) + b"\0"
        for _ in range(2):
            made += random.randrange(3_600_001).to_bytes(3, "little")
        if country == UNITED_STATES and edition in (2, 30):
            made += random.randrange(999_999).to_bytes(3, "little")
        return made
    return text(random, 60) + b"\0"


def sample(edition, random, count=300):
    """A file of random networks, some inside others, and addresses at and around their borders."""
    is_ipv6 = edition in IPV6
    networks, records = [], [record(edition, random) for _ in range(max(1, count // 3))]
    for _ in range(count):
        if is_ipv6 and random.random() < 0.7:
            length = random.randrange(20, 100)
            address = 0x2001_0000 << 96 | random.choice([0, 0x0DB8 << 96])
            address |= random.getrandbits(90)
        else:
            length = random.randrange(7, 33)
            address = random.choice([8, 9, 10, 11, 200]) << 24 | random.getrandbits(24)
            length += 96 if is_ipv6 else 0
        width = 128 if is_ipv6 else 32
        address = address >> (width - length) << (width - length)
        networks.append((address, length, random.choice(records)))
    return write(edition, networks), borders(networks, is_ipv6)


def borders(networks, is_ipv6):
    """Both ends of every network and their neighbours, as text."""
    width = 128 if is_ipv6 else 32
    kind = ipaddress.IPv6Address if is_ipv6 else ipaddress.IPv4Address
    found = set()
    for address, length, _ in networks:
        last = address | (1 << (width - length)) - 1
        found.update({address, last, max(address - 1, 0), min(last + 1, (1 << width) - 1)})
    return [str(kind(address)) for address in sorted(found)]
