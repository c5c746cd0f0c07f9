//! What a ruleset asks of sources: for steering, which must know where answers change.
//!
//! Not for: deciding (`Edition::evaluate` asks the compiled form).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use whered_rules::live::Decision;
use whered_rules::{Family, Packet, Side, Test, ranges_of_addresses};

use super::Edition;
use super::places::DatabasePlaces;
use crate::databases::NamedDatabase;
use crate::prefix_sets::PrefixSets;

/// UDP, and the port of DNS: what rules see of a client that asks.
const PROTOCOL: u8 = 17;
const PORT: u16 = 53;

/// Everything about a source that rules can tell apart.
#[derive(Default)]
pub(crate) struct SourceInputs {
    /// First and last addresses that lists name, IPv4 and IPv6, as numbers of 32 and 128 bits.
    pub(crate) ranges: [Vec<(u128, u128)>; 2],
    /// Live sets by name.
    pub(crate) sets: Vec<String>,
    /// Databases whose records are asked for.
    pub(crate) databases: Vec<Arc<NamedDatabase>>,
}

impl Edition {
    /// What becomes of a client that asks by DNS; not counted.
    pub(crate) fn evaluate(&self, source: IpAddr, sets: &PrefixSets) -> Decision {
        let destination = match source {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let packet = Packet {
            source,
            destination,
            protocol: PROTOCOL,
            destination_port: PORT,
            ..Packet::default()
        };
        self.decide(&packet, sets)
    }

    /// Which rule a packet meets; not counted.
    pub fn decide(&self, packet: &Packet<'_>, sets: &PrefixSets) -> Decision {
        self.live.find(packet, &self.sets(sets), |_| ())
    }

    /// The conditions of its rules that no database can answer, each with its place.
    pub(super) fn wrong_places(&self) -> Vec<String> {
        let (ruleset, _) = self.live.to_ruleset();
        let places = DatabasePlaces { databases: &self.databases, default: self.default };
        let mut wrong = Vec::new();
        for rule in ruleset.rules() {
            for condition in &rule.conditions {
                if let Test::Place(predicate) = &condition.test
                    && let Err(what) = places.check(predicate)
                {
                    wrong.push(format!("{}: {what}", rule.origin));
                }
            }
        }
        wrong
    }

    /// What its rules ask of sources. Costs a copy of the ruleset.
    pub(crate) fn source_inputs(&self) -> SourceInputs {
        let (ruleset, _) = self.live.to_ruleset();
        let places = DatabasePlaces { databases: &self.databases, default: self.default };
        let mut inputs = SourceInputs::default();
        for condition in ruleset.rules().iter().flat_map(|rule| &rule.conditions) {
            let items = match &condition.test {
                Test::Address(Side::Source, items) => items,
                Test::Set(Side::Source, name) => {
                    let known = ruleset.set_named(name).and_then(|set| set.elements.as_ref());
                    match known {
                        Some(items) => items,
                        None => {
                            if !inputs.sets.contains(name) {
                                inputs.sets.push(name.clone());
                            }
                            continue;
                        }
                    }
                }
                Test::Place(predicate) if predicate.side == Side::Source => {
                    let asked = places.database_of(predicate);
                    let is_new = |named: &Arc<NamedDatabase>| {
                        !inputs.databases.iter().any(|known| Arc::ptr_eq(known, named))
                    };
                    inputs.databases.extend(asked.filter(is_new));
                    continue;
                }
                _ => continue,
            };
            for (ranges, family) in inputs.ranges.iter_mut().zip(Family::BOTH) {
                ranges.extend_from_slice(ranges_of_addresses(items, family).as_slice());
            }
        }
        inputs
    }
}
