//! Conditions in nft's words.
//!
//! For: the texts of one condition, of which each line of a rule has one (`write.rs` makes the
//! lines). Not for: actions.
//!
//! Invariant: a packet meets the condition exactly if one of its texts matches.

use super::names::set_name;
use super::write::Cannot;
use crate::iptables::to_address;
use crate::model::{
    Condition, IcmpMatch, InterfacePattern, Ruleset, Side, Test, ranges_of_addresses,
};
use crate::packet::{Family, State};
use crate::ranges::Ranges;

/// The texts of a condition, of which a line has one; none if nothing meets it. The family is
/// given where the rule has a field of one family.
pub(crate) fn condition_choices(
    ruleset: &Ruleset,
    condition: &Condition,
    family: Option<Family>,
) -> Result<Vec<String>, Cannot> {
    let negated = condition.negated;
    let not = if negated { "!= " } else { "" };
    let always = || vec![String::new()];
    let of_family = family.or(ruleset.family).unwrap_or(Family::Ipv4);
    let ip = if of_family == Family::Ipv4 { "ip" } else { "ip6" };
    Ok(match &condition.test {
        Test::Family(of) if (*of == of_family) == negated => Vec::new(),
        Test::Family(_) => always(),
        Test::Address(side, items) => {
            address_choices(*side, &ranges_of_addresses(items, of_family), of_family, negated)
        }
        Test::Set(side, name) => {
            let name = set_name(ruleset, name, of_family)?;
            vec![format!("{ip} {} {not}@{name}", address_field(*side))]
        }
        Test::Place(predicate) => {
            return Err(format!("found \"{predicate}\": nft knows no places"));
        }
        Test::Protocol(_) => always(),
        Test::Port(side, list) => port_choices(*side, list, negated),
        Test::EitherPort(list) => {
            let source = |negated| port_choices(Side::Source, list, negated);
            let destination = port_choices(Side::Destination, list, negated);
            let both: Vec<String> = source(true)
                .iter()
                .flat_map(|a| destination.iter().map(move |b| format!("{a} {b}")))
                .collect();
            if negated { both } else { [source(false), both].concat() }
        }
        Test::Icmp(_) if of_family == Family::Ipv6 => Vec::new(),
        Test::Icmpv6(_) if of_family == Family::Ipv4 => Vec::new(),
        Test::Icmp(list) => icmp_choices("icmp", list, negated),
        Test::Icmpv6(list) => icmp_choices("icmpv6", list, negated),
        Test::TcpFlags { mask: 0, .. } if negated => Vec::new(),
        Test::TcpFlags { mask: 0, .. } => always(),
        Test::TcpFlags { mask, compare } => {
            let operator = if negated { "!=" } else { "==" };
            vec![format!("tcp flags & {mask:#x} {operator} {compare:#x}")]
        }
        Test::Input(list) => interface_choices("iifname", list, negated)?,
        Test::Output(list) => interface_choices("oifname", list, negated)?,
        Test::State(list) => {
            let fitting = State::ALL.iter().filter(|state| list.contains(state) != negated);
            let names: Vec<&str> = fitting.map(|state| state.name()).collect();
            match names.len() {
                0 => Vec::new(),
                5 => always(),
                _ => vec![format!("ct state {}", names.join(","))],
            }
        }
        Test::Dscp(list) => number_choices(&format!("{ip} dscp"), &numbers(list), 63, negated),
        Test::Mark { mask: 0, .. } => {
            if negated {
                Vec::new()
            } else {
                always()
            }
        }
        Test::Mark { value, mask } => {
            let operator = if negated { "!=" } else { "==" };
            vec![format!("meta mark & {mask:#x} {operator} {value:#x}")]
        }
        test => question_choices(test, of_family, negated)?,
    })
}

/// What has no field: masks with gaps; details and limits are not written.
fn question_choices(test: &Test, family: Family, negated: bool) -> Result<Vec<String>, Cannot> {
    let ip = if family == Family::Ipv4 { "ip" } else { "ip6" };
    match test {
        Test::MaskedAddress { value, .. } if value.is_ipv4() != (family == Family::Ipv4) => {
            Ok(if negated { vec![String::new()] } else { Vec::new() })
        }
        Test::MaskedAddress { side, value, mask } => {
            let operator = if negated { "!=" } else { "==" };
            Ok(vec![format!("{ip} {} & {mask} {operator} {value}", address_field(*side))])
        }
        Test::Detail(test) => {
            Err(format!("found \"with {test}\": it is written for iptables only"))
        }
        Test::Uncertain(test) => {
            Err(format!("found a test of {}, which is not written for nft", test.kind))
        }
        _ => Ok(Vec::new()),
    }
}

fn address_choices(side: Side, ranges: &Ranges, family: Family, negated: bool) -> Vec<String> {
    let all = ranges.complement(family.largest()).is_empty();
    if (ranges.is_empty() && negated) || (all && !negated) {
        return vec![String::new()];
    }
    if ranges.is_empty() || all {
        return Vec::new();
    }
    let ip = if family == Family::Ipv4 { "ip" } else { "ip6" };
    let not = if negated { "!= " } else { "" };
    vec![format!("{ip} {} {not}{}", address_field(side), address_list(ranges, family))]
}

fn address_field(side: Side) -> &'static str {
    if side == Side::Source { "saddr" } else { "daddr" }
}

pub(super) fn address_list(ranges: &Ranges, family: Family) -> String {
    let shown = ranges.as_slice().iter().map(|&(first, last)| {
        let (from, to) = (to_address(first, family), to_address(last, family));
        if first == last { from.to_string() } else { format!("{from}-{to}") }
    });
    format!("{{ {} }}", shown.collect::<Vec<_>>().join(", "))
}

/// A field of numbers; negation is folded in.
pub(super) fn number_choices(
    field: &str,
    ranges: &Ranges,
    largest: u128,
    negated: bool,
) -> Vec<String> {
    let ranges = if negated { ranges.complement(largest) } else { ranges.clone() };
    if ranges.as_slice() == [(0, largest)] {
        return vec![String::new()];
    }
    if ranges.is_empty() {
        return Vec::new();
    }
    let shown = ranges.as_slice().iter().map(|&(first, last)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    });
    vec![format!("{field} {{ {} }}", shown.collect::<Vec<_>>().join(", "))]
}

/// Ports, of whatever protocol.
fn port_choices(side: Side, list: &[(u16, u16)], negated: bool) -> Vec<String> {
    let field = if side == Side::Source { "th sport" } else { "th dport" };
    let mut choices = number_choices(field, &numbers(list), 65_535, negated);
    if let [all] = choices.as_mut_slice()
        && all.is_empty()
    {
        // All ports are not all packets: those without any do not match.
        *all = format!("{field} 0-65535");
    }
    choices
}

/// Types that any code goes with in one text, each other type with its codes in one of its own.
fn icmp_choices(field: &str, list: &[IcmpMatch], negated: bool) -> Vec<String> {
    let matches = |kind: u8, code: u8| list.iter().any(|item| item.matches(kind, code)) != negated;
    let mut whole = Vec::new();
    let mut choices = Vec::new();
    for kind in 0..=255u8 {
        let codes = (0..=255u8).filter(|&code| matches(kind, code));
        let codes = Ranges::new(codes.map(|code| (code.into(), code.into())).collect());
        if codes.as_slice() == [(0, 255)] {
            whole.push((u128::from(kind), u128::from(kind)));
        } else if !codes.is_empty() {
            let codes = number_choices(&format!("{field} code"), &codes, 255, false);
            choices.extend(codes.iter().map(|codes| format!("{field} type {kind} {codes}")));
        }
    }
    let whole = number_choices(&format!("{field} type"), &Ranges::new(whole), 255, false);
    choices.extend(whole);
    choices
}

fn interface_choices(
    field: &str,
    list: &[InterfacePattern],
    negated: bool,
) -> Result<Vec<String>, Cannot> {
    if list.contains(&InterfacePattern::Begins(String::new())) {
        return Ok(if negated { Vec::new() } else { vec![String::new()] });
    }
    for pattern in list {
        let (name, longest) = match pattern {
            InterfacePattern::Exact(name) => (name, 15),
            InterfacePattern::Begins(start) => (start, 14),
        };
        let is_special = |c: char| "\"\\*".contains(c) || c.is_control();
        if name.is_empty() || name.len() > longest || name.contains(is_special) {
            return Err(format!(
                "found the interface {name:?}: nft takes 1 to {longest} octets without quotes, \\ and *"
            ));
        }
    }
    let shown = |pattern: &InterfacePattern| match pattern {
        InterfacePattern::Exact(name) => format!("\"{name}\""),
        InterfacePattern::Begins(start) => format!("\"{start}*\""),
    };
    let inside = |pattern: &InterfacePattern| {
        list.iter().any(|other| match (other, pattern) {
            (InterfacePattern::Begins(wide), InterfacePattern::Exact(name)) => {
                name.starts_with(wide.as_str())
            }
            (InterfacePattern::Begins(wide), InterfacePattern::Begins(name)) => {
                name != wide && name.starts_with(wide.as_str())
            }
            _ => false,
        })
    };
    let mut kept: Vec<String> = list.iter().filter(|pattern| !inside(pattern)).map(shown).collect();
    kept.sort();
    kept.dedup();
    if negated {
        // All must differ, which several matches in a row say.
        let parts: Vec<String> = kept.iter().map(|name| format!("{field} != {name}")).collect();
        return Ok(vec![parts.join(" ")]);
    }
    // Wildcards in a set need a newer nft than most have; patterns that exclude each other may as
    // well be rules of their own.
    let (wild, exact): (Vec<String>, Vec<String>) =
        kept.into_iter().partition(|n| n.ends_with("*\""));
    let mut choices: Vec<String> = wild.iter().map(|name| format!("{field} {name}")).collect();
    if !exact.is_empty() {
        choices.push(format!("{field} {{ {} }}", exact.join(", ")));
    }
    Ok(choices)
}

pub(super) fn numbers<T: Into<u128> + Copy>(list: &[(T, T)]) -> Ranges {
    Ranges::new(list.iter().map(|&(first, last)| (first.into(), last.into())).collect())
}
