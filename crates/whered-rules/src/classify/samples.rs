//! Synthetic packets of a ruleset: meant by some rule, or by none.
//!
//! For: measuring compiled forms on what a ruleset is about, and for tests. Not for: traffic as it
//! is; who has a trace should measure with it.
//!
//! Nine packets of ten are drawn from a random rule, each field at the low end, the high end or
//! anywhere in one of its ranges; one of ten has nothing but random fields.

use super::lazy::LazyValues;
use super::rule::{Condition, Family, Field, LAZY_FIELDS, Packet, Packet6, Rules};
use whered_random::Random;

/// Draws packets for a ruleset.
#[derive(Clone, Debug)]
pub struct Samples<'a> {
    rules: &'a Rules,
    /// The fields that rules ask for, and the greatest number that each is drawn up to.
    fields: Vec<(Field, u128)>,
    random: Random,
}

impl<'a> Samples<'a> {
    /// A stream that is the same for the same rules and seed.
    pub fn new(rules: &'a Rules, seed: u64) -> Samples<'a> {
        let mut fields: Vec<(Field, u128)> = Vec::new();
        for Condition { field, ranges } in rules.list().iter().flat_map(|rule| &rule.conditions) {
            let place = fields.iter().position(|(known, _)| known == field);
            let place = place.unwrap_or_else(|| {
                fields.push((*field, 0));
                fields.len() - 1
            });
            // The last range may be open upwards.
            let ends = ranges.iter().flat_map(|range| [range.0, range.1]);
            let max = (*field).max(rules.family());
            let last = ends.filter(|end| *end < max).max().unwrap_or(0);
            fields[place].1 = fields[place].1.max(last);
        }
        for (field, greatest) in &mut fields {
            // Numbers in words end not far behind the last one that a rule names.
            let is_callers = matches!(field, Field::Word(_) | Field::Lazy(_));
            *greatest = if is_callers { *greatest + 1 } else { u128::MAX };
            *greatest = (*greatest).min((*field).max(rules.family()));
        }
        Samples { rules, fields, random: Random(seed) }
    }

    /// The next packet of either family, and its lazy fields. Words 0 and 1 are zero.
    pub(crate) fn with_lazy(&mut self) -> (Packet6, LazyValues) {
        let mut packet = Packet6::new(0, 0);
        let mut lazy = [0; LAZY_FIELDS];
        let list = self.rules.list();
        let meant = !list.is_empty() && self.random.below(10) != 0;
        let rule = self.random.below(list.len().max(1) as u64) as usize;
        let conditions: &[Condition] = if meant { &list[rule].conditions } else { &[] };
        for &(field, greatest) in &self.fields {
            let whole = (0, greatest);
            let ranges = conditions.iter().find(|one| one.field == field).map(|one| &one.ranges);
            let range = match ranges {
                Some(ranges) if !ranges.is_empty() => {
                    ranges[self.random.below(ranges.len() as u64) as usize]
                }
                _ => whole,
            };
            let value = match self.random.below(4) {
                0 if range != whole => range.0,
                1 if range != whole => range.1,
                _ => self.random.within(range),
            };
            match field {
                Field::Source => packet.source = value,
                Field::Destination => packet.destination = value,
                Field::Lazy(number) => lazy[usize::from(number)] = value as u32,
                _ => packet.fields.set(field, value as u32),
            }
        }
        (packet, lazy)
    }

    /// The next packet of an IPv4 ruleset.
    pub fn packet(&mut self) -> Packet {
        debug_assert!(self.rules.family() == Family::V4);
        narrowed(&self.with_lazy().0)
    }
}

/// A packet with addresses of 32 bits as one of IPv4.
pub(crate) fn narrowed(packet: &Packet6) -> Packet {
    let mut fields = packet.fields;
    fields.set(Field::Source, packet.source as u32);
    fields.set(Field::Destination, packet.destination as u32);
    fields
}
