//! The names of tables, chains and sets that nft takes.
//!
//! For: writing (`write.rs`, `choices.rs`). Not for: names that are read, which nft has checked.

use super::write::Cannot;
use crate::model::Ruleset;
use crate::packet::Family;

/// Words of nft's language that somebody might name a chain, a set or a table by; nft takes none
/// of its words as a name.
const KEYWORDS: &[&str] = &[
    "accept",
    "add",
    "address",
    "ah",
    "all",
    "and",
    "arp",
    "bridge",
    "burst",
    "bypass",
    "chain",
    "chains",
    "classid",
    "code",
    "comment",
    "constant",
    "continue",
    "count",
    "counter",
    "counters",
    "create",
    "ct",
    "daddr",
    "dccp",
    "delete",
    "describe",
    "destination",
    "device",
    "dnat",
    "dport",
    "drop",
    "dscp",
    "dst",
    "dup",
    "dynamic",
    "ecn",
    "element",
    "elements",
    "eq",
    "esp",
    "ether",
    "exists",
    "expires",
    "export",
    "fib",
    "flags",
    "flow",
    "flush",
    "frag",
    "fwd",
    "ge",
    "get",
    "goto",
    "group",
    "gt",
    "handle",
    "hash",
    "hook",
    "hour",
    "icmp",
    "icmpv6",
    "id",
    "igmp",
    "iif",
    "iifname",
    "import",
    "in",
    "include",
    "inet",
    "insert",
    "interval",
    "ip",
    "ip6",
    "ipsec",
    "jhash",
    "jump",
    "last",
    "le",
    "length",
    "level",
    "limit",
    "list",
    "log",
    "lt",
    "map",
    "maps",
    "mark",
    "masquerade",
    "meta",
    "meter",
    "missing",
    "monitor",
    "ne",
    "netdev",
    "nexthdr",
    "notrack",
    "numgen",
    "offset",
    "oif",
    "oifname",
    "options",
    "or",
    "over",
    "performance",
    "policy",
    "prefix",
    "priority",
    "protocol",
    "queue",
    "quota",
    "random",
    "rate",
    "redirect",
    "reject",
    "rename",
    "replace",
    "reset",
    "return",
    "rt",
    "ruleset",
    "saddr",
    "sctp",
    "second",
    "secmark",
    "seconds",
    "set",
    "sets",
    "size",
    "skuid",
    "snat",
    "socket",
    "sport",
    "state",
    "synproxy",
    "table",
    "tables",
    "tcp",
    "th",
    "time",
    "timeout",
    "total",
    "tproxy",
    "type",
    "typeof",
    "udp",
    "udplite",
    "until",
    "update",
    "version",
    "vlan",
    "vmap",
    "week",
    "with",
    "xor",
    "xt",
];

/// The longest name, in octets: the kernel's 255 without what is put in front of it and behind it.
const NAME_MAX: usize = 235;

/// nft takes letters, digits and a few others, a letter first.
pub(crate) fn identifier(name: &str) -> Result<&str, Cannot> {
    if KEYWORDS.contains(&name) {
        return Err(format!("found the name {name:?}, which is a word of nft's language"));
    }
    if name.len() > NAME_MAX {
        let found = crate::error::shortened(name);
        return Err(format!("found the name {found:?}: nft takes {NAME_MAX} octets at most"));
    }
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if first && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) {
        return Ok(name);
    }
    Err(format!(
        "found the name {name:?}: nft takes letters, digits, dots, - and _, a letter first"
    ))
}

/// Sets are of one family in nft: where both are written, their names end with it.
pub(crate) fn set_name(ruleset: &Ruleset, name: &str, family: Family) -> Result<String, Cannot> {
    let name = identifier(name)?;
    Ok(match (ruleset.family, family) {
        (Some(_), _) => name.to_owned(),
        (None, Family::Ipv4) => format!("{name}_v4"),
        (None, Family::Ipv6) => format!("{name}_v6"),
    })
}
