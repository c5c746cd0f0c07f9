//! Matches that have no field here: details of packets, and what no packet tells.
//!
//! For: everything that a match may look at beside the fields of `fields`: TTL, MAC addresses,
//! marks and status of connections, options, routes, limits. Not for: fields that the classifier
//! has.
//!
//! A value that can be a number is a detail, whose name is made of nft's words: `meta cpu` is
//! `meta-cpu`. What cannot is uncertain, and may hold or not.
//!
//! Concurrency: pure. Cost: linear in the values.

use std::sync::Arc;

use super::fields::{Span, Wrong, span, wrong};
use super::json::{Node, Value};
use crate::model::{Condition, Detail, DetailTest, Test, Uncertain};
use crate::names;
use crate::packet::Family;
use crate::ranges::Ranges;

/// What nft may look at, by the word of its JSON.
const KINDS: &[&str] = &[
    "payload",
    "exthdr",
    "tcp option",
    "ip option",
    "sctp chunk",
    "dccp option",
    "meta",
    "ct",
    "rt",
    "fib",
    "socket",
    "osf",
    "ipsec",
    "numgen",
    "jhash",
    "symhash",
    "concat",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    "map",
    "tunnel",
    "xfrm",
];

/// The detail of nft's own words, where details have names of their own.
const NAMES: &[(&str, &str)] = &[
    ("ip-ttl", "ttl"),
    ("ip6-hoplimit", "ttl"),
    ("ip-length", "length"),
    ("meta-length", "length"),
    ("ether-saddr", "source-mac"),
    ("ether-daddr", "destination-mac"),
    ("meta-pkttype", "packet-type"),
    ("meta-skuid", "user"),
    ("meta-skgid", "group"),
    ("ct-mark", "connection-mark"),
    ("ct-status", "connection-status"),
    ("ct-direction", "connection-direction"),
    ("fib-type-daddr", Detail::DESTINATION_TYPE),
    ("fib-type-saddr", Detail::SOURCE_TYPE),
];

/// What rules of the table change, so that nobody knows it any more: words of nft.
pub(super) type ChangedFields = std::collections::HashSet<String>;

/// The conditions of a match that no field has; `None` if it is nothing that nft looks at.
pub(super) fn conditions(
    left: &Node,
    mask: Option<&Node>,
    operator: &str,
    right: &Node,
    changed: &ChangedFields,
) -> Option<Result<Vec<Condition>, Wrong>> {
    let words = key_parts(left)?;
    let name = words.join("-");
    let negated = matches!(operator, "!=" | "!");
    let test =
        if changed.contains(&name) { None } else { detail_test(&name, mask, operator, right) };
    let test = match test {
        Some(Err(error)) => return Some(Err(error)),
        Some(Ok(test)) => Test::Detail(test),
        None => uncertain(&words.join(" "), left),
    };
    let family = match words.first().copied() {
        Some("ip") => Some(Family::Ipv4),
        Some("ip6" | "exthdr") => Some(Family::Ipv6),
        _ => None,
    };
    let protocol = match words.first().copied() {
        Some("tcp" | "tcp-option") => Some(6),
        Some(name @ ("udp" | "udplite" | "sctp" | "dccp" | "esp" | "ah")) => {
            names::protocol_number(name)
        }
        _ => None,
    };
    let protocol = if name == "ip6-nexthdr" && mask.is_none() && matches!(operator, "==" | "in") {
        next_protocols(right)
    } else {
        protocol.map(|number| Test::Protocol(vec![(number, number)]))
    };
    let family = family.map(|family| Condition::is(Test::Family(family)));
    let protocol = protocol.map(Condition::is);
    let all = family.into_iter().chain(protocol).chain([Condition::new(test, negated)]);
    Some(Ok(all.collect()))
}

/// The next header of IPv6 is the packet's protocol unless extension headers follow. So other
/// protocols are none of these, if none of these is an extension header.
fn next_protocols(right: &Node) -> Option<Test> {
    const EXTENSIONS: [u8; 8] = [0, 43, 44, 51, 60, 135, 139, 140];
    let number = |node: &Node| match &node.value {
        Value::Number(number) => u8::try_from(*number).ok(),
        Value::Text(text) => names::protocol_number(text),
        _ => None,
    };
    let list = right.get("set").unwrap_or(right);
    let spans: Vec<Span<'_>> = match list.list() {
        Some(list) => list.iter().map(span).collect::<Result<_, _>>().ok()?,
        None => vec![span(right).ok()?],
    };
    let ranges: Option<Vec<(u8, u8)>> =
        spans.into_iter().map(|(first, last)| Some((number(first)?, number(last)?))).collect();
    let ranges = ranges?;
    let is_extension =
        |&(first, last): &(u8, u8)| EXTENSIONS.iter().any(|number| (first..=last).contains(number));
    (!ranges.iter().any(is_extension)).then_some(Test::Protocol(ranges))
}

/// `ip frag-off & 0x1fff` is 0 but in later fragments; `frag frag-off` is not 0 in those of IPv6.
fn later_fragment(
    name: &str,
    mask: Option<&Node>,
    operator: &str,
    right: &Node,
) -> Option<DetailTest> {
    let is_offset = name == "ip-frag-off" && mask.and_then(Node::number) == Some(0x1fff);
    let is_zero = right.number() == Some(0) && matches!(operator, "==" | "!=");
    let is_later = name == "exthdr-frag-frag-off" && mask.is_none() && operator == "!=";
    if (is_offset || is_later) && is_zero { DetailTest::of("fragment", vec![(0, 0)]) } else { None }
}

/// A statement that may hold or not, as `limit`.
pub(super) fn uncertain(kind: &str, statement: &Node) -> Test {
    let text = statement.written();
    Test::Uncertain(Uncertain { kind: Arc::from(kind), text: Arc::from(text) })
}

/// The words of what is looked at, as `meta cpu`.
fn key_parts(left: &Node) -> Option<Vec<&str>> {
    let (kind, inner) = left.only()?;
    if !KINDS.contains(&kind) {
        return None;
    }
    let texts = |keys: &[&str]| keys.iter().filter_map(|key| inner.text_at(key)).collect();
    Some(match kind {
        "payload" if inner.get("protocol").is_none() => vec!["payload"],
        "payload" => texts(&["protocol", "field"]),
        "tcp option" => [vec!["tcp-option"], texts(&["name", "field"])].concat(),
        "fib" => {
            let flags = inner.get("flags").map(|flags| match flags.list() {
                Some(list) => list.iter().filter_map(Node::text).collect(),
                None => flags.text().into_iter().collect::<Vec<_>>(),
            });
            [vec!["fib"], texts(&["result"]), flags.unwrap_or_default()].concat()
        }
        kind => {
            [vec![kind], texts(&["name", "protocol", "key", "field", "dir", "family"])].concat()
        }
    })
}

/// The test of a detail; `None` where the values are no numbers that the detail knows.
fn detail_test(
    name: &str,
    mask: Option<&Node>,
    operator: &str,
    right: &Node,
) -> Option<Result<DetailTest, Wrong>> {
    if let Some(test) = later_fragment(name, mask, operator, right) {
        return Some(Ok(test));
    }
    let named = NAMES.iter().find(|(words, _)| *words == name).map(|(_, name)| *name);
    let detail = Detail::named(named.unwrap_or(name))?;
    let number = |node: &Node| match &node.value {
        // What would not be read again as it is written is none.
        Value::Number(number) => detail.parse(&detail.shown(*number)),
        Value::Bool(value) => Some(u64::from(*value)),
        Value::Text(text) => detail.parse(text),
        _ => None,
    };
    let has_all = !detail.name().ends_with("-mac");
    let bits = |node: &Node| match node.get("|").unwrap_or(node).list() {
        Some(parts) => parts.iter().try_fold(0, |sum, part| Some(sum | number(part)?)),
        None => number(node),
    };
    // Any of some bits, or none of them.
    if detail.name() == "connection-status" && mask.is_none() && matches!(operator, "in" | "!") {
        let bits = bits(right).filter(|&bits| bits > 0)?;
        let ranges = Ranges::single(1, bits.into());
        return Some(Ok(DetailTest { detail, mask: bits, ranges }));
    }
    let mask = match mask {
        None => u64::MAX,
        Some(mask) => number(mask)?,
    };
    let list = right.get("set").unwrap_or(right);
    let spans: Result<Vec<Span<'_>>, Wrong> = match list.list() {
        Some(list) => list.iter().map(span).collect(),
        None => span(right).map(|span| vec![span]),
    };
    let spans = match spans {
        Ok(spans) => spans,
        Err(error) => return Some(Err(error)),
    };
    let mut ranges = Vec::new();
    for (first, last) in spans {
        let (first, last) = (number(first)?, number(last)?);
        let range = match operator {
            "==" | "in" | "!=" | "!" => (first, last),
            "<" => (0, first.checked_sub(1)?),
            "<=" => (0, first),
            ">" if has_all => (first.checked_add(1)?, u64::MAX),
            ">=" if has_all => (first, u64::MAX),
            _ => return None,
        };
        if range.0 > range.1 {
            return Some(wrong(right, "numbers, the lower one first"));
        }
        ranges.push((range.0.into(), range.1.into()));
    }
    let ranges = Ranges::new(ranges);
    (!ranges.is_empty()).then_some(Ok(DetailTest { detail, mask, ranges }))
}
