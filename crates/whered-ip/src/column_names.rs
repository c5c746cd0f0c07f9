//! The names by which tables call the columns of networks, ranges and lengths of prefixes.
//!
//! For: every reader of tables whose header says where the networks are. Not for: columns that the
//! caller names, columns of other things.
//! A name is compared as [`plain_name`] gives it: `Start_IP` is `startip`.

/// Names of columns with a block, in small letters and without signs between words.
pub const NETWORKS: &[&str] = &[
    "cidr",
    "networkcidr",
    "ipcidr",
    "cidrblock",
    "prefix",
    "ipprefix",
    "ipv4prefix",
    "ipv6prefix",
    "ipnetwork",
    "ipv4network",
    "ipv6network",
    "net",
    "subnet",
    "netblock",
    "ipblock",
    "range",
    "iprange",
    "ipranges",
    "networkrange",
    "inetnum",
    "inet6num",
    "block",
    "route",
    "ip",
    "ipaddress",
    "ipaddr",
    "ipv4",
    "ipv6",
    "address",
    "srcip",
    "dstip",
];

/// Names of columns with the first and the last address.
pub const BOUNDS: &[(&str, &str)] = &[
    ("startip", "endip"),
    ("ipstart", "ipend"),
    ("startipaddress", "endipaddress"),
    ("startaddress", "endaddress"),
    ("rangestart", "rangeend"),
    ("iprangestart", "iprangeend"),
    ("networkstart", "networkend"),
    ("networkstartip", "networkendip"),
    ("networkstartip", "networklastip"),
    ("networkstartinteger", "networklastinteger"),
    ("firstip", "lastip"),
    ("ipfirst", "iplast"),
    ("firstaddress", "lastaddress"),
    ("ipfrom", "ipto"),
    ("fromip", "toip"),
    ("beginip", "endip"),
    ("ipbegin", "ipend"),
    ("lowip", "highip"),
    ("iplow", "iphigh"),
    ("startipnum", "endipnum"),
    ("ipstartnum", "ipendnum"),
    ("startnum", "endnum"),
    ("startint", "endint"),
    ("start", "end"),
    ("from", "to"),
    ("first", "last"),
    ("begin", "end"),
    ("low", "high"),
    ("lower", "upper"),
];

/// Columns with the length of a prefix, or its mask, whose address another column has.
pub const LENGTHS: &[&str] = &[
    "prefixlength",
    "prefixlen",
    "masklength",
    "masklen",
    "netmasklength",
    "cidrlength",
    "netmask",
    "mask",
];

/// A name in small letters, without signs between words.
#[must_use]
pub fn plain_name(name: &str) -> String {
    let letters = name.chars().filter(|letter| !matches!(letter, '_' | '-' | '.' | ' '));
    letters.flat_map(char::to_lowercase).collect()
}
