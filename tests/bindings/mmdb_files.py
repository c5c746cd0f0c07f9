"""MaxMind DB files made byte by byte, right ones and broken ones, for tests of the C library.

`CASES` are the files by name; `write(folder)` writes them all. A data section begins with the value
that the left record of the root leads to, unless a case says otherwise.
"""

MARKER = b"\xab\xcd\xefMaxMind.com"
SEPARATOR_BYTES = 16


def control(kind, size):
    """A control byte, the extended type, and the size."""
    first, extended = (kind << 5, b"") if kind < 8 else (0, bytes([kind - 7]))
    if size < 29:
        return bytes([first | size]) + extended
    if size < 285:
        return bytes([first | 29]) + extended + bytes([size - 29])
    if size < 65_821:
        return bytes([first | 30]) + extended + (size - 285).to_bytes(2, "big")
    return bytes([first | 31]) + extended + (size - 65_821).to_bytes(3, "big")


def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return control(2, len(value)) + value


def number(kind, value):
    """An unsigned number; what is no number is a field already, or none at all."""
    if not isinstance(value, int):
        return value
    size = (value.bit_length() + 7) // 8
    return control(kind, size) + value.to_bytes(size, "big")


def uint16(value):
    return number(5, value)


def uint32(value):
    return number(6, value)


def uint64(value):
    return number(9, value)


def pointer(offset):
    return bytes([0b001_11_000]) + offset.to_bytes(4, "big")


def array(*values):
    return control(11, len(values)) + b"".join(values)


def mapping(pairs):
    return control(7, len(pairs)) + b"".join(text(key) + value for key, value in pairs)


TRUE = control(14, 1)
ONE = uint16(1)


def metadata(node_count=1, record_size=24, ip_version=4, first=(), last=(), **changed):
    """The metadata map. A value of None leaves its key out."""
    pairs = {
        "node_count": uint32(node_count),
        "record_size": uint16(record_size),
        "ip_version": uint16(ip_version),
        "database_type": text("test"),
        "languages": array(text("en"), text("de")),
        "binary_format_major_version": uint16(2),
        "binary_format_minor_version": uint16(0),
        "build_epoch": uint64(1_700_000_000),
        "description": mapping([("en", text("a test"))]),
    } | changed
    kept = [(key, value) for key, value in pairs.items() if value is not None]
    return mapping([*first, *kept, *last])


def node(left, right, record_size):
    if record_size == 28:
        middle = (left >> 24) << 4 | right >> 24
        low = [(record & 0xFF_FFFF).to_bytes(3, "big") for record in (left, right)]
        return low[0] + bytes([middle]) + low[1]
    return left.to_bytes(record_size // 8, "big") + right.to_bytes(record_size // 8, "big")


def database(data, nodes=None, separator=bytes(SEPARATOR_BYTES), meta=None, record_size=24, **more):
    """A file. The default tree is one node: a record for 0.0.0.0/1, nothing for the rest."""
    nodes = [(1 + SEPARATOR_BYTES, 1)] if nodes is None else nodes
    if meta is None:
        meta = metadata(len(nodes), record_size, **more)
    tree = b"".join(node(left, right, record_size) for left, right in nodes)
    return tree + separator + data + MARKER + meta


def nested(depth, inner=ONE):
    """Arrays of one element, `depth` deep, around a value."""
    return control(11, 1) * depth + inner


def nested_maps(depth):
    return (control(7, 1) + text("a")) * depth + ONE


RECORD = mapping([("a", array(ONE, uint16(2))), ("ip", text("x")), ("z", uint32(7))])


def data_of(size_bytes):
    """A file whose metadata says so many nodes that the data section has this size."""
    rest = database(RECORD)
    for padding in range(6):
        meta = metadata(first=[("pad", text("x" * padding))], node_count=1)
        whole = len(rest) - len(metadata()) + len(meta)
        # The count grows by no byte: it is below 256 in all of these.
        nodes, left = divmod(whole - SEPARATOR_BYTES - size_bytes, 6)
        if left == 0:
            meta = metadata(first=[("pad", text("x" * padding))], node_count=nodes)
            return database(RECORD, meta=meta)
    raise AssertionError("no padding fits")


def ipv6(left, last=(1, 1), count=1):
    """A tree of version 6 whose root has this left record."""
    nodes = [(left, count)] + [last] * (count - 1)
    return database(RECORD, nodes=nodes, ip_version=6)


def ipv6_to(last_left):
    """A tree of version 6 with 96 nodes on the way to ::/96, the last of which leads to this."""
    nodes = [(step + 1, 97) for step in range(95)] + [(last_left, 97), (97, 97 + SEPARATOR_BYTES)]
    return database(RECORD, nodes=nodes, ip_version=6)


def many_pointers(count, size):
    """An array of pointers to one string."""
    head = control(11, count) + pointer(len(control(11, count)) + 5 * count) * count
    return head + text("x" * size)


def in_metadata():
    """A record that lies in the metadata."""
    plain = database(RECORD)
    at = plain.rindex(MARKER) + len(MARKER) - (6 + SEPARATOR_BYTES)
    return database(RECORD, nodes=[(1 + SEPARATOR_BYTES + at, 1)])


PLAIN = database(RECORD)
MEBIBYTE = 1 << 20

CASES = {
    "plain": PLAIN,
    "plain-28": database(RECORD, record_size=28),
    "plain-32": database(RECORD, record_size=32),
    "plain-ipv6": ipv6_to(97 + SEPARATOR_BYTES),
    "text": b"no database" * 10,
    "marker-alone": MARKER,
    "marker-at-the-end": PLAIN[: -len(metadata())],
    "two-markers": PLAIN + MARKER + metadata(),
    "marker-behind-metadata": PLAIN + MARKER,
    "separator-of-ones": database(RECORD, separator=b"\xff" * SEPARATOR_BYTES),
    "separator-last-byte": database(RECORD, separator=bytes(15) + b"\x01"),
    **{
        f"record-{what}": database(RECORD, nodes=[(record, 1)])
        for what, record in {
            "of-the-root": 0,
            "in-the-separator": 2,
            "at-the-separator's-end": SEPARATOR_BYTES,
            "beyond-the-file": 0xFF_FFFF,
            "of-the-last-value": 1 + SEPARATOR_BYTES + len(RECORD) - 2,
        }.items()
    },
    "right-record-in-the-separator": database(RECORD, nodes=[(1 + SEPARATOR_BYTES, 5)]),
    "record-in-the-metadata": in_metadata(),
    "data-of-0-bytes": data_of(0),
    "data-of-1-byte": data_of(1),
    "data-of-2-bytes": data_of(2),
    "data-of-3-bytes": data_of(3),
    "tree-larger-than-the-file": database(RECORD, meta=metadata(node_count=1 << 20)),
    "tree-larger-than-all-files": database(RECORD, meta=metadata(node_count=(1 << 32) - 1)),
    "ipv6-empty-at-once": ipv6(1),
    "ipv6-record-at-once": ipv6(1 + SEPARATOR_BYTES),
    "ipv6-invalid-at-once": ipv6(3),
    "ipv6-loop-at-once": ipv6(0),
    "ipv6-invalid-at-96": ipv6_to(99),
    "ipv6-root-at-96": ipv6_to(0),
    "ipv6-empty-at-96": ipv6_to(97),
    **{f"nested-{depth}": database(nested(depth)) for depth in (510, 511, 512, 513, 600)},
    **{f"nested-maps-{depth}": database(nested_maps(depth)) for depth in (510, 511, 512, 600)},
    "nested-by-pointers": database(array(pointer(0))),
    **{
        f"skipped-{depth}": database(mapping([("n", nested(depth)), ("z", ONE)]))
        for depth in (510, 511, 512, 513, 5_000)
    },
    **{
        f"skipped-maps-{depth}": database(mapping([("n", nested_maps(depth)), ("z", ONE)]))
        for depth in (510, 511, 512, 513)
    },
    "skipped-empty-at-the-limit": database(
        mapping([("n", nested(511, control(11, 0))), ("z", ONE)])
    ),
    "skipped-in-an-array": database(array(nested(512), ONE)),
    "skipped-many": database(mapping([("n", array(*[ONE] * 70_000)), ("z", ONE)])),
    "skipped-wide": database(mapping([("n", array(*[array(ONE)] * 600)), ("z", ONE)])),
    **{
        f"values-{count + 1}": database(array(*[TRUE] * count))
        for count in (65_534, 65_535, 65_536, 70_000)
    },
    "values-by-pointers": database(
        # Each array has 16 pointers to the next one, four deep: 69,905 values.
        b"".join(
            control(11, 16) + pointer((level + 1) * (2 + 16 * 5)) * 16 for level in range(4)
        )
        + ONE
    ),
    "payload-2-mib": database(many_pointers(2, MEBIBYTE)),
    "payload-more": database(many_pointers(3, MEBIBYTE)),
    "payload-of-one": database(text("x" * (2 * MEBIBYTE))),
    "payload-of-one-more": database(text("x" * (2 * MEBIBYTE + 1))),
    "array-announces-too-much": database(control(11, 100_000) + ONE),
    "map-announces-too-much": database(control(7, 60) + text("a") + ONE),
    "pointer-to-pointer": database(array(pointer(7), ONE, pointer(2))),
    "metadata-no-utf-8": database(RECORD, meta=metadata(database_type=text(b"\xff\xfe"))),
    "metadata-language-no-utf-8": database(RECORD, meta=metadata(languages=array(text(b"\xff")))),
    "metadata-of-nothing": database(RECORD, meta=mapping([])),
    "metadata-nested": database(RECORD, meta=metadata(first=[("n", nested(600))])),
    "metadata-many-values": database(
        RECORD, meta=metadata(description=mapping([("", text(""))] * 33_000))
    ),
    "metadata-large": database(
        RECORD, meta=metadata(first=[("n", nested(40))], description=mapping([]))
    ),
    "metadata-without-languages": database(RECORD, meta=metadata(languages=array())),
    "metadata-empty-map-last": database(RECORD, meta=metadata(description=mapping([]))),
    "metadata-more-keys": database(RECORD, meta=metadata(last=[("later", array(ONE))])),
    **{
        f"metadata-without-{key}": database(RECORD, meta=metadata(**{key: None}))
        for key in (
            "node_count record_size ip_version database_type languages build_epoch description "
            "binary_format_major_version binary_format_minor_version"
        ).split()
    },
    **{
        f"metadata-{key}-{what}": database(RECORD, meta=metadata(**{key: value}))
        for key, what, value in [
            ("node_count", "0", uint32(0)),
            ("record_size", "0", uint16(0)),
            ("record_size", "26", uint16(26)),
            ("record_size", "text", text("24")),
            ("ip_version", "0", uint16(0)),
            ("ip_version", "5", uint16(5)),
            ("build_epoch", "0", uint64(0)),
            ("binary_format_major_version", "0", uint16(0)),
            ("binary_format_major_version", "3", uint16(3)),
            ("database_type", "number", ONE),
            ("languages", "text", text("en")),
            ("languages", "numbers", array(ONE)),
            ("description", "text", text("en")),
            ("description", "numbers", mapping([("en", ONE)])),
        ]
    },
}


def write(folder):
    """All files, by name."""
    paths = {name: folder / f"{name}.mmdb" for name in CASES}
    for name, path in paths.items():
        path.write_bytes(CASES[name])
    return paths
