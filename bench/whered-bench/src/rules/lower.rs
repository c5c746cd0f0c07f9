//! The rules as the classifier takes them, and packets for them.
//!
//! Not for: names and lines; the verdict of a rule is its place.

use super::{FiveTuple, addresses};
use whered_rules::classify::{Condition, Family, Field, Packet, Rule, RuleError, Rules, Samples};

/// The rules as the classifier takes them; all of them end the search.
///
/// # Errors
///
/// Ports whose range ends before it starts.
pub fn lower(rules: &[FiveTuple]) -> Result<Rules, RuleError> {
    let list = rules
        .iter()
        .enumerate()
        .map(|(place, rule)| Rule {
            conditions: conditions(rule),
            terminal: true,
            verdict: place as u32,
        })
        .collect();
    Rules::new(Family::V4, list)
}

/// The conditions of one rule; what is wild is none.
fn conditions(rule: &FiveTuple) -> Vec<Condition> {
    let source = addresses(rule.source, rule.source_length);
    let destination = addresses(rule.destination, rule.destination_length);
    let ports = |ports: (u16, u16)| (u32::from(ports.0), u32::from(ports.1));
    let protocol = rule.protocol.map_or((0, 255), |number| (number.into(), number.into()));
    let ranges = [
        (Field::Source, source),
        (Field::Destination, destination),
        (Field::SourcePort, ports(rule.source_ports)),
        (Field::DestinationPort, ports(rule.destination_ports)),
        (Field::Protocol, protocol),
    ];
    ranges
        .into_iter()
        .map(|(field, (low, high))| (field, (u128::from(low), u128::from(high))))
        .filter(|&(field, range)| range != (0, field.max(Family::V4)))
        .map(|(field, range)| Condition { field, ranges: vec![range] })
        .collect()
}

/// Packets that are meant by rules drawn at random, at corners and inside, one of ten at random.
#[must_use]
pub fn packets(rules: &Rules, count: usize, seed: u64) -> Vec<Packet> {
    let mut samples = Samples::new(rules, seed);
    (0..count).map(|_| samples.packet()).collect()
}
