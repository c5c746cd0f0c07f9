//! Synthetic packets of a ruleset: meant by some rule, or by none.
//!
//! For: measuring compiled forms on what a ruleset is about, and for tests. Not for: traffic as it
//! is; who has a trace should measure with it.
//!
//! Nine packets of ten are drawn from a random rule, each field at the low end, the high end or
//! anywhere in one of its ranges; one of ten has nothing but random fields.

use super::random::Random;
use super::rule::{Condition, Family, Field, Packet, Packet6, Rules};

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
            *greatest = if matches!(field, Field::Word(_)) { *greatest + 1 } else { u128::MAX };
            *greatest = (*greatest).min((*field).max(rules.family()));
        }
        Samples { rules, fields, random: Random(seed) }
    }

    /// The next packet, with its addresses as 128-bit numbers beside it.
    fn draw(&mut self) -> (Packet, u128, u128) {
        let mut packet = Packet::new(0, 0);
        let (mut source, mut destination) = (0, 0);
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
                Field::Source => source = value,
                Field::Destination => destination = value,
                _ => packet.set(field, value as u32),
            }
        }
        (packet, source, destination)
    }

    /// The next packet of an IPv4 ruleset.
    pub fn packet(&mut self) -> Packet {
        let (mut packet, source, destination) = self.draw();
        debug_assert!(self.rules.family() == Family::V4);
        packet.set(Field::Source, source as u32);
        packet.set(Field::Destination, destination as u32);
        packet
    }

    /// The next packet of an IPv6 ruleset.
    pub fn packet6(&mut self) -> Packet6 {
        let (fields, source, destination) = self.draw();
        Packet6 { fields, source, destination }
    }
}
