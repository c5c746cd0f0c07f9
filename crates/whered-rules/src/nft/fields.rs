//! Turns one match of nft's JSON into conditions.
//!
//! For: fields (`payload`, `meta`, `ct`), operators and values.
//! Not for: rules and their statements (`read`).
//!
//! Invariants: a match becomes alternatives that exclude each other, each a list of conditions;
//! nearly always there is one. A field of one protocol or family brings that condition along.
//! Concurrency: pure. Cost: linear in the values.

use std::collections::HashMap;
use std::net::IpAddr;

use whered_ip::Prefix;

use super::json::{Node, Value};
use super::open::{self, ChangedFields};
use crate::iptables::to_address;
use crate::model::{AddressItem, Condition, IcmpMatch, InterfacePattern, Side, Test};
use crate::names;
use crate::packet::{Family, State, address_number};

/// Where (in bytes), what was found, what is allowed.
pub(super) type Wrong = (usize, String, &'static str);

/// The meaning of a name after `@`.
pub(super) enum Named {
    /// A set of addresses.
    Addresses,
    /// Another set or map: its elements.
    Elements(Vec<Node>),
    /// A set that rules change, or one that waits for members: nobody knows who is in it.
    Unknown,
}

/// What the matches of a table are read with.
#[derive(Default)]
pub(super) struct Context {
    pub(super) named: HashMap<String, Named>,
    pub(super) changed: ChangedFields,
}

/// How many ways one element of a concatenation may become.
const CONCATENATED_LIMIT: usize = 1024;

/// The field on the left of a match.
#[derive(Clone, Copy)]
enum Field {
    Address(Side, Family),
    Port(Side, Option<u8>),
    Protocol(Option<Family>),
    Family,
    Icmp { version_6: bool, code: bool },
    TcpFlags,
    Dscp(Family),
    Input,
    Output,
    State,
    Mark,
}

pub(super) fn wrong<T>(node: &Node, allowed: &'static str) -> Result<T, Wrong> {
    Err((node.at, node.shown(), allowed))
}

/// The alternatives of `left operator right`.
pub(super) fn conditions(
    left: &Node,
    operator: &str,
    right: &Node,
    context: &Context,
) -> Result<Vec<Vec<Condition>>, Wrong> {
    let named = &context.named;
    if let Some(parts) = left.get("concat").and_then(Node::list) {
        return concatenation(left, parts, operator, right, context);
    }
    // A mask is {"&": [field, mask]}.
    let (left, mask) = match left.get("&").and_then(Node::list) {
        Some([inner, mask]) => (inner, Some(mask)),
        _ => (left, None),
    };
    if let (Some(both), "==", None) = (both_ports(left, right), operator, mask) {
        return Ok(vec![both]);
    }
    let negated = matches!(operator, "!=" | "!");
    if let Some(Named::Unknown) = reference(right).and_then(|name| named.get(name)) {
        let test = open::uncertain("set", right);
        let mut all = field(left).map(implied).unwrap_or_default();
        all.push(Condition::new(test, negated));
        return Ok(vec![all]);
    }
    let field = match field(left) {
        Ok(field) => field,
        Err(error) => {
            let found = open::conditions(left, mask, operator, right, &context.changed);
            return found.map_or(Err(error), |found| found.map(|all| vec![all]));
        }
    };
    if matches!(field, Field::Dscp(_)) && context.changed.iter().any(|name| name.ends_with("dscp"))
    {
        return Ok(vec![vec![Condition::is(open::uncertain("dscp", right))]]);
    }
    let Some(negated) = (match operator {
        "==" | "in" | "<" | ">" | "<=" | ">=" => Some(false),
        "!=" | "!" => Some(true),
        _ => None,
    }) else {
        return Err((
            right.at,
            operator.to_owned(),
            "the operators ==, !=, in, !, <, >, <= and >=",
        ));
    };
    let mut all = implied(field);
    let is_compared = matches!(operator, "<" | ">" | "<=" | ">=");
    let tests = match field {
        Field::Family => return families(&values(right, named)?, negated, right),
        Field::TcpFlags => return tcp_flags(operator, mask, right, negated),
        Field::Mark => return marks(mask, operator, right, negated),
        Field::Address(side, family) if mask.is_some() && !is_compared => {
            masked_address(side, family, mask, right)?
        }
        // No bit is compared: the field only has to be there.
        Field::Port(side, _) if compares_no_bit(operator, mask, right) => {
            Test::Port(side, vec![(0, u16::MAX)])
        }
        // Other bits of fields are looked at seldom.
        _ if mask.is_some() => open::uncertain("mask", left),
        Field::Address(side, family) if is_compared => {
            Test::Address(side, vec![compared_address(family, operator, right)?])
        }
        Field::Address(side, family) => match reference(right) {
            Some(name) => match named.get(name) {
                Some(Named::Addresses) => Test::Set(side, name.to_owned()),
                _ => return wrong(right, "a set of addresses of this table"),
            },
            None => Test::Address(side, addresses(right, family)?),
        },
        _ => {
            let values = values(right, named)?;
            of_values(field, operator, &values, right)?
        }
    };
    all.push(Condition::new(tests, negated));
    Ok(vec![all])
}

/// `field & 0 == 0`.
fn compares_no_bit(operator: &str, mask: Option<&Node>, right: &Node) -> bool {
    let is_zero = |node: &Node| node.number() == Some(0);
    operator == "==" && mask.is_some_and(is_zero) && is_zero(right)
}

/// `address & mask == value`, of which the mask may have gaps.
fn masked_address(
    side: Side,
    family: Family,
    mask: Option<&Node>,
    right: &Node,
) -> Result<Test, Wrong> {
    const ALLOWED: &str = "an address of this family";
    let address = |node: &Node| match node.text().and_then(|text| text.parse::<IpAddr>().ok()) {
        Some(address) if Family::of(address) == family => Ok(address),
        _ => wrong(node, ALLOWED),
    };
    let mask = address(mask.unwrap_or(right))?;
    Ok(Test::MaskedAddress { side, value: address(right)?, mask })
}

/// `address < value` and its like, as a range.
fn compared_address(family: Family, operator: &str, right: &Node) -> Result<AddressItem, Wrong> {
    const ALLOWED: &str = "an address of this family with others below or above it";
    let value = right.text().and_then(|text| text.parse::<IpAddr>().ok());
    let Some(value) = value.filter(|value| Family::of(*value) == family) else {
        return wrong(right, ALLOWED);
    };
    let (number, largest) = (address_number(value), family.largest());
    let range = match operator {
        "<" => number.checked_sub(1).map(|last| (0, last)),
        "<=" => Some((0, number)),
        ">" => (number < largest).then(|| (number + 1, largest)),
        _ => Some((number, largest)),
    };
    let Some((first, last)) = range else { return wrong(right, ALLOWED) };
    Ok(AddressItem::Range(to_address(first, family), to_address(last, family)))
}

/// The family, of which there may be a list. Frames of other kinds are no packets here.
fn families(spans: &[Span<'_>], negated: bool, right: &Node) -> Result<Vec<Vec<Condition>>, Wrong> {
    let mut named = Vec::new();
    for (node, _) in spans {
        match node.text() {
            Some("ipv4" | "ip") => named.push(Family::Ipv4),
            Some("ipv6" | "ip6") => named.push(Family::Ipv6),
            Some(_) if spans.len() > 1 => {}
            _ => return wrong(node, "ipv4 or ipv6"),
        }
    }
    let has = |family| named.contains(&family);
    Ok(match (has(Family::Ipv4), has(Family::Ipv6)) {
        (true, true) if negated => Vec::new(),
        (true, true) => vec![Vec::new()],
        (false, false) => return wrong(right, "at least one family of packets"),
        (is_4, _) => {
            let family = if is_4 { Family::Ipv4 } else { Family::Ipv6 };
            vec![vec![Condition::new(Test::Family(family), negated)]]
        }
    })
}

/// Several fields that must have the values of one element: a way for each element.
fn concatenation(
    left: &Node,
    parts: &[Node],
    operator: &str,
    right: &Node,
    context: &Context,
) -> Result<Vec<Vec<Condition>>, Wrong> {
    const ALLOWED: &str = "as many values as fields";
    let negated = matches!(operator, "!=" | "!");
    let elements: Vec<&Node> = match reference(right).map(|name| context.named.get(name)) {
        Some(Some(Named::Elements(elements))) => elements.iter().collect(),
        Some(Some(Named::Unknown)) => Vec::new(),
        Some(_) => return wrong(right, "a set of this table with values of this kind"),
        None => match right.get("set").and_then(Node::list) {
            Some(list) => list.iter().collect(),
            None => vec![right],
        },
    };
    let implied: Vec<Condition> =
        parts.iter().filter_map(|part| field(part).ok()).flat_map(implied).collect();
    if negated || elements.is_empty() {
        // Of all elements one value must differ, which is no list of conditions.
        let test = open::uncertain("concatenation", left);
        return Ok(vec![[implied, vec![Condition::new(test, negated)]].concat()]);
    }
    let mut ways = Vec::new();
    for node in elements {
        let values = element(node).get("concat").and_then(Node::list);
        let Some(values) = values.filter(|values| values.len() == parts.len()) else {
            return wrong(node, ALLOWED);
        };
        let mut way = vec![Vec::new()];
        for (part, value) in parts.iter().zip(values) {
            let alternatives = conditions(part, "==", value, context)?;
            if way.len() * alternatives.len() > CONCATENATED_LIMIT {
                return Err((node.at, "too many alternatives".to_owned(), "1024 in an element"));
            }
            way = way
                .iter()
                .flat_map(|before: &Vec<Condition>| {
                    alternatives.iter().map(move |next| [before.as_slice(), next].concat())
                })
                .collect();
        }
        ways.extend(way);
    }
    Ok(ways)
}

/// The name in `"@name"`.
fn reference(node: &Node) -> Option<&str> {
    node.text()?.strip_prefix('@')
}

fn field(node: &Node) -> Result<Field, Wrong> {
    const ALLOWED: &str = "a field that can be expressed (docs/guide/rules.md)";
    let found = match node.only() {
        Some(("payload", payload)) => {
            payload.text_at("protocol").zip(payload.text_at("field")).and_then(payload_field)
        }
        Some(("meta", meta)) => match meta.text_at("key") {
            Some("iifname" | "iif") => Some(Field::Input),
            Some("oifname" | "oif") => Some(Field::Output),
            Some("l4proto") => Some(Field::Protocol(None)),
            Some("nfproto") => Some(Field::Family),
            // Frames of other kinds are no packets here.
            Some("protocol") => Some(Field::Family),
            Some("mark") => Some(Field::Mark),
            _ => None,
        },
        Some(("ct", ct)) if ct.text_at("key") == Some("state") => Some(Field::State),
        _ => None,
    };
    match (found, node.only()) {
        (Some(field), _) => Ok(field),
        (None, Some((kind, inner))) => {
            let parts = [inner.text_at("protocol"), inner.text_at("field"), inner.text_at("key")];
            let words: Vec<&str> = [Some(kind)].into_iter().chain(parts).flatten().collect();
            Err((node.at, words.join(" "), ALLOWED))
        }
        (None, None) => wrong(node, ALLOWED),
    }
}

/// nft prints a source and a destination port side by side as 32 bits without a name.
fn both_ports(left: &Node, right: &Node) -> Option<Vec<Condition>> {
    let payload = left.get("payload")?;
    let at = |key| payload.get(key).and_then(Node::number);
    if payload.text_at("base") != Some("th") || at("offset") != Some(0) || at("len") != Some(32) {
        return None;
    }
    let ports = u32::try_from(right.number()?).ok()?;
    let of = |side, port| Condition::is(Test::Port(side, vec![(port, port)]));
    Some(vec![of(Side::Source, (ports >> 16) as u16), of(Side::Destination, ports as u16)])
}

fn payload_field((protocol, name): (&str, &str)) -> Option<Field> {
    let family = match protocol {
        "ip" => Some(Family::Ipv4),
        "ip6" => Some(Family::Ipv6),
        _ => None,
    };
    let ports_of = match protocol {
        "th" => Some(None),
        "tcp" | "udp" | "udplite" | "sctp" | "dccp" => Some(names::protocol_number(protocol)),
        _ => None,
    };
    match (name, family, ports_of) {
        ("saddr", Some(family), _) => Some(Field::Address(Side::Source, family)),
        ("daddr", Some(family), _) => Some(Field::Address(Side::Destination, family)),
        ("dscp", Some(family), _) => Some(Field::Dscp(family)),
        ("protocol", Some(Family::Ipv4), _) => Some(Field::Protocol(family)),
        ("sport", _, Some(protocol)) => Some(Field::Port(Side::Source, protocol)),
        ("dport", _, Some(protocol)) => Some(Field::Port(Side::Destination, protocol)),
        ("flags", _, _) if protocol == "tcp" => Some(Field::TcpFlags),
        ("type", _, _) if protocol == "icmp" => Some(Field::Icmp { version_6: false, code: false }),
        ("code", _, _) if protocol == "icmp" => Some(Field::Icmp { version_6: false, code: true }),
        ("type", _, _) if protocol == "icmpv6" => {
            Some(Field::Icmp { version_6: true, code: false })
        }
        ("code", _, _) if protocol == "icmpv6" => Some(Field::Icmp { version_6: true, code: true }),
        _ => None,
    }
}

/// The packets that have the field at all.
fn implied(field: Field) -> Vec<Condition> {
    let family = match field {
        Field::Address(_, family) | Field::Dscp(family) | Field::Protocol(Some(family)) => {
            Some(Condition::is(Test::Family(family)))
        }
        _ => None,
    };
    let protocol = match field {
        Field::Port(_, Some(number)) => Some(Condition::is(Test::Protocol(vec![(number, number)]))),
        _ => None,
    };
    family.into_iter().chain(protocol).collect()
}

/// One value or a range of two.
pub(super) type Span<'n> = (&'n Node, &'n Node);

/// The values on the right: one, a range, a set of them, or a named set's.
fn values<'n>(right: &'n Node, named: &'n HashMap<String, Named>) -> Result<Vec<Span<'n>>, Wrong> {
    if let Some(name) = reference(right) {
        let Some(Named::Elements(elements)) = named.get(name) else {
            return wrong(right, "a set of this table with values of this kind");
        };
        return elements.iter().map(span).collect();
    }
    let list = right.get("set").unwrap_or(right);
    match list.list() {
        Some(list) => list.iter().map(span).collect(),
        None => Ok(vec![span(right)?]),
    }
}

pub(super) fn span(node: &Node) -> Result<Span<'_>, Wrong> {
    let node = element(node);
    match node.get("range").map(|range| (range, range.list())) {
        None => Ok((node, node)),
        Some((_, Some([first, last]))) => Ok((first, last)),
        Some((range, _)) => wrong(range, "a range of two values"),
    }
}

/// The value in `{"elem": {"val": ...}}`.
pub(super) fn element(node: &Node) -> &Node {
    node.get("elem").and_then(|element| element.get("val")).unwrap_or(node)
}

/// The test of fields whose values are small numbers or names.
fn of_values(
    field: Field,
    operator: &str,
    spans: &[Span<'_>],
    right: &Node,
) -> Result<Test, Wrong> {
    if spans.is_empty() {
        return wrong(right, "at least one value");
    }
    match field {
        Field::Input => Ok(Test::Input(interfaces(spans)?)),
        Field::Output => Ok(Test::Output(interfaces(spans)?)),
        Field::State => {
            const ALLOWED: &str = "invalid, new, established, related or untracked";
            let state = |&(node, _): &Span<'_>| match node.text().and_then(State::from_name) {
                Some(state) => Ok(state),
                None => wrong(node, ALLOWED),
            };
            Ok(Test::State(spans.iter().map(state).collect::<Result<_, _>>()?))
        }
        _ => {
            let largest = match field {
                Field::Port(..) => 65_535,
                Field::Dscp(_) => 63,
                _ => 255,
            };
            let mut ranges = Vec::new();
            for &(first, last) in spans {
                let (first, last) = (small(field, first)?, small(field, last)?);
                ranges.push(match operator {
                    "<" => (0, first.checked_sub(1).ok_or((right.at, "< 0".into(), "more"))?),
                    "<=" => (0, first),
                    ">" => (first + 1, largest),
                    ">=" => (first, largest),
                    _ => (first, last),
                });
            }
            if ranges.iter().any(|&(first, last)| first > last || last > largest) {
                return wrong(right, "numbers that the field can have, the lower one first");
            }
            let octets = || ranges.iter().map(|&(a, b)| (a as u8, b as u8));
            Ok(match field {
                Field::Port(side, _) => {
                    Test::Port(side, ranges.iter().map(|&(a, b)| (a as u16, b as u16)).collect())
                }
                Field::Dscp(_) => Test::Dscp(octets().collect()),
                Field::Icmp { version_6, code } => {
                    let item = |range| match code {
                        true => IcmpMatch { types: (0, 255), codes: range },
                        false => IcmpMatch { types: range, codes: (0, 255) },
                    };
                    let list = octets().map(item).collect();
                    if version_6 { Test::Icmpv6(list) } else { Test::Icmp(list) }
                }
                _ => Test::Protocol(octets().collect()),
            })
        }
    }
}

/// A number, or a name of the field's.
fn small(field: Field, node: &Node) -> Result<u32, Wrong> {
    let named = |text: &str| match field {
        Field::Protocol(_) => names::protocol_number(text).map(u32::from),
        Field::Dscp(_) => names::dscp_number(text).map(u32::from),
        Field::Icmp { version_6, code: false } => {
            names::icmp_type(text, version_6).map(|(kind, _)| u32::from(kind))
        }
        Field::Icmp { version_6, code: true } => icmp_code(text, version_6),
        _ => None,
    };
    let number = match &node.value {
        Value::Number(number) => u32::try_from(*number).ok(),
        Value::Text(text) => named(text),
        _ => None,
    };
    number.map_or_else(|| wrong(node, "a number, or a name that this field has"), Ok)
}

/// nft's words for codes of ICMP "destination unreachable".
fn icmp_code(text: &str, version_6: bool) -> Option<u32> {
    let table: &[(&str, u32)] = match version_6 {
        false => &[
            ("net-unreachable", 0),
            ("host-unreachable", 1),
            ("prot-unreachable", 2),
            ("port-unreachable", 3),
            ("frag-needed", 4),
            ("net-prohibited", 9),
            ("host-prohibited", 10),
            ("admin-prohibited", 13),
        ],
        true => &[
            ("no-route", 0),
            ("admin-prohibited", 1),
            ("addr-unreachable", 3),
            ("port-unreachable", 4),
            ("policy-fail", 5),
            ("reject-route", 6),
        ],
    };
    table.iter().find(|(name, _)| *name == text).map(|&(_, code)| code)
}

fn interfaces(spans: &[Span<'_>]) -> Result<Vec<InterfacePattern>, Wrong> {
    let pattern = |&(node, _): &Span<'_>| {
        let plain = |c: char| c.is_ascii_graphic() && !"{}(),#\"=<>!\\".contains(c);
        match node.text().filter(|name| !name.is_empty() && name.chars().all(plain)) {
            Some(name) => Ok(match name.strip_suffix('*') {
                Some(start) => InterfacePattern::Begins(start.to_owned()),
                None => InterfacePattern::Exact(name.to_owned()),
            }),
            None => wrong(node, "an interface, as eth0 or eth*"),
        }
    };
    spans.iter().map(pattern).collect()
}

/// Addresses, prefixes and ranges of one family.
pub(super) fn addresses(right: &Node, family: Family) -> Result<Vec<AddressItem>, Wrong> {
    const ALLOWED: &str = "an address, a prefix or a range of this family";
    let address = |node: &Node| match node.text().and_then(|text| text.parse::<IpAddr>().ok()) {
        Some(address) if Family::of(address) == family => Ok(address),
        _ => wrong(node, ALLOWED),
    };
    let item = |node: &Node| {
        let node = element(node);
        if let Some(prefix) = node.get("prefix") {
            let length = prefix.get("len").and_then(Node::number);
            let length = length.and_then(|length| u8::try_from(length).ok());
            let base = prefix.get("addr").map(address).transpose()?;
            let made = base.zip(length).and_then(|(base, len)| Prefix::new(base, len).ok());
            return made.map(AddressItem::Prefix).map_or_else(|| wrong(node, ALLOWED), Ok);
        }
        let (first, last) = span(node)?;
        let (start, end) = (address(first)?, address(last)?);
        if std::ptr::eq(first, last) {
            return Ok(AddressItem::Prefix(Prefix::host(start)));
        }
        if start > end { wrong(node, ALLOWED) } else { Ok(AddressItem::Range(start, end)) }
    };
    let list = right.get("set").unwrap_or(right);
    let items = match list.list() {
        Some(list) => list.iter().map(item).collect::<Result<Vec<_>, _>>()?,
        None => vec![item(right)?],
    };
    if items.is_empty() { wrong(right, ALLOWED) } else { Ok(items) }
}

/// One flag, a list, `{"|": [..]}` or a number.
fn flag_sum(node: &Node) -> Result<u8, Wrong> {
    const ALLOWED: &str = "TCP flags by name";
    if let Some(parts) = node.get("|").unwrap_or(node).list() {
        return parts.iter().try_fold(0, |sum, part| Ok(sum | flag_sum(part)?));
    }
    let number = node.number().and_then(|number| u8::try_from(number).ok());
    let flag = node.text().and_then(|name| match name {
        "ecn" => Some(0x40),
        name => names::tcp_flag(name),
    });
    number.or(flag).map_or_else(|| wrong(node, ALLOWED), Ok)
}

/// `flags == x`, `flags & mask == x`, `flags x,y` (any of them) and `flags ! x,y` (none of them).
fn tcp_flags(
    operator: &str,
    mask: Option<&Node>,
    right: &Node,
    negated: bool,
) -> Result<Vec<Vec<Condition>>, Wrong> {
    let one = |mask, compare, negated| Condition::new(Test::TcpFlags { mask, compare }, negated);
    match (operator, mask) {
        ("in", None) => return Ok(vec![vec![one(flag_sum(right)?, 0, true)]]),
        ("!", None) => return Ok(vec![vec![one(flag_sum(right)?, 0, false)]]),
        ("==" | "!=", _) => {}
        _ => return wrong(right, "TCP flags with ==, != or a list"),
    }
    let mask = mask.map_or(Ok(0xff), flag_sum)?;
    let sums: Vec<u8> = match right.get("set").and_then(Node::list) {
        Some(list) => list.iter().map(flag_sum).collect::<Result<_, _>>()?,
        None => vec![flag_sum(right)?],
    };
    if sums.iter().any(|sum| sum & !mask != 0) {
        return wrong(right, "flags that are in the mask");
    }
    let tests = sums.into_iter().map(|sum| one(mask, sum, negated));
    Ok(any_or_all(tests.collect(), negated))
}

/// Several tests that exclude each other: any of them, or all of their opposites.
fn any_or_all(tests: Vec<Condition>, negated: bool) -> Vec<Vec<Condition>> {
    if negated { vec![tests] } else { tests.into_iter().map(|test| vec![test]).collect() }
}

fn marks(
    mask: Option<&Node>,
    operator: &str,
    right: &Node,
    negated: bool,
) -> Result<Vec<Vec<Condition>>, Wrong> {
    const ALLOWED: &str = "a mark, a range or a set of marks";
    const ALL: u128 = u32::MAX as u128;
    let number = |node: &Node| {
        let found = node.number().and_then(|number| u32::try_from(number).ok());
        found.map_or_else(|| wrong(node, ALLOWED), Ok)
    };
    let is_compared = matches!(operator, "<" | ">" | "<=" | ">=");
    let mask = match mask {
        None => u32::MAX,
        Some(_) if is_compared => {
            return Ok(vec![vec![Condition::is(open::uncertain("mask", right))]]);
        }
        Some(mask) => number(mask)?,
    };
    // nft prints a mask without gaps as a prefix.
    let value = |node: &Node| -> Result<Vec<(u32, u32)>, Wrong> {
        if let Some(prefix) = node.get("prefix") {
            let length = prefix.get("len").and_then(Node::number).filter(|&length| length <= 32);
            let (Some(address), Some(length)) = (prefix.get("addr"), length) else {
                return wrong(node, ALLOWED);
            };
            let upper = u32::MAX.checked_shl(32 - length as u32).unwrap_or(0);
            return Ok(vec![(number(address)?, mask & upper)]);
        }
        let (first, last) = span(node)?;
        let (start, end) = (u128::from(number(first)?), u128::from(number(last)?));
        let range = match operator {
            "<" => start.checked_sub(1).map(|last| (0, last)),
            "<=" => Some((0, start)),
            ">" => (start < ALL).then_some((start + 1, ALL)),
            ">=" => Some((start, ALL)),
            _ => (start <= end).then_some((start, end)),
        };
        let Some((start, end)) = range else { return wrong(node, ALLOWED) };
        if start == end {
            return Ok(vec![(start as u32, mask)]);
        }
        if mask != u32::MAX {
            return wrong(node, ALLOWED);
        }
        Ok(blocks(start, end))
    };
    let list: Vec<(u32, u32)> = match right.get("set").and_then(Node::list) {
        Some(list) => {
            list.iter().map(value).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
        }
        None => value(right)?,
    };
    let test = |(value, mask)| Condition::new(Test::Mark { value, mask }, negated);
    let tests = list.into_iter().map(test);
    Ok(any_or_all(tests.collect(), negated))
}

/// The aligned blocks of a range of marks: values with masks of their upper bits.
fn blocks(mut start: u128, end: u128) -> Vec<(u32, u32)> {
    let mut blocks = Vec::new();
    while start <= end {
        let mut bits = start.trailing_zeros().min(32);
        while start + (1 << bits) - 1 > end {
            bits -= 1;
        }
        let mask = u32::MAX.checked_shl(bits).unwrap_or(0);
        blocks.push((start as u32, mask));
        start += 1 << bits;
    }
    blocks
}
