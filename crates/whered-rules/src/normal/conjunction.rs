//! Conditions over fields, all of which must hold: a box in as many dimensions as there are fields.
//!
//! For: set operations on such boxes, exact, negation included.
//! Not for: where the boxes come from (`lower`, `flatten`).
//!
//! ```text
//! [ (Protocol, 6..6) (DestinationPort, 22..22 80..89) ]      sorted by field; absent = anything
//! ```
//!
//! Invariants: sorted by field, each field at most once, no empty ranges, no range list that
//! allows the whole field. Two conjunctions are therefore equal exactly when they hold for the
//! same packets.
//!
//! Concurrency: plain data; ranges are shared. Cost: linear in fields and ranges.

use std::collections::HashMap;

use super::places::{AXES, Place};
use crate::model::Side;
use crate::packet::Family;
use crate::ranges::Ranges;

/// A field of the normal form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Field {
    /// The source address: 32 or 128 bits.
    Source,
    /// The destination address.
    Destination,
    /// The protocol: 8 bits.
    Protocol,
    /// The source port: 16 bits.
    SourcePort,
    /// The destination port: 16 bits.
    DestinationPort,
    /// ICMP type times 256, plus code: 16 bits.
    Icmp,
    /// TCP flags: 8 bits.
    TcpFlags,
    /// Interface in, by the number of the interface table: 16 bits.
    Input,
    /// Interface out, likewise.
    Output,
    /// Connection state, 0 to 4.
    State,
    /// DSCP: 6 bits.
    Dscp,
    /// The mark the packet came with: 32 bits.
    Mark,
    /// The answer to the question of this number: 0 or 1.
    Bit(u16),
    /// The number of one address's place on one axis, below [`AXES`].
    Place(Side, u8),
}

impl Field {
    /// The field of one side's address.
    pub(super) fn address(side: Side) -> Field {
        match side {
            Side::Source => Field::Source,
            Side::Destination => Field::Destination,
        }
    }
}

/// The largest number of each field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Domain {
    /// Of addresses of this family.
    pub family: Family,
    /// Of interfaces.
    pub largest_interface: u16,
    /// Of places of source and destination.
    pub largest_place: [Place; 2],
}

impl Domain {
    /// The largest number that a field can have.
    pub fn largest(&self, field: Field) -> u128 {
        match field {
            Field::Source | Field::Destination => self.family.largest(),
            Field::Protocol | Field::TcpFlags => 255,
            Field::SourcePort | Field::DestinationPort | Field::Icmp => 65_535,
            Field::Input | Field::Output => self.largest_interface.into(),
            Field::State => 4,
            Field::Dscp => 63,
            Field::Mark => u32::MAX.into(),
            Field::Bit(_) => 1,
            Field::Place(side, axis) => {
                self.largest_place[side.index()][usize::from(axis) % AXES].into()
            }
        }
    }
}

/// Conditions that must all hold.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Conjunction(Vec<(Field, Ranges)>);

impl Conjunction {
    /// No condition: holds for every packet.
    pub fn always() -> Conjunction {
        Conjunction::default()
    }

    /// The conditions, sorted by field.
    pub fn iter(&self) -> std::slice::Iter<'_, (Field, Ranges)> {
        self.0.iter()
    }

    /// How many fields have a condition.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it holds for every packet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The allowed values of a field; `None` for all.
    pub fn get(&self, field: Field) -> Option<&Ranges> {
        let at = self.0.binary_search_by_key(&field, |(of, _)| *of).ok()?;
        Some(&self.0[at].1)
    }

    /// The conjunction with one more condition; `None` if no packet could meet both.
    pub fn and(mut self, field: Field, ranges: &Ranges, domain: &Domain) -> Option<Conjunction> {
        if ranges.as_slice() == [(0, domain.largest(field))] {
            return Some(self);
        }
        match self.0.binary_search_by_key(&field, |(of, _)| *of) {
            Ok(at) => {
                let both = self.0[at].1.intersect(ranges);
                if both.is_empty() {
                    return None;
                }
                self.0[at].1 = both;
            }
            Err(_) if ranges.is_empty() => return None,
            Err(at) => self.0.insert(at, (field, ranges.clone())),
        }
        Some(self)
    }

    /// The conjunction without a field's condition.
    #[must_use]
    pub fn without(mut self, field: Field) -> Conjunction {
        self.0.retain(|(of, _)| *of != field);
        self
    }

    /// Puts other numbers in the place of a field's, by what the field may be.
    pub(super) fn replace(&mut self, field: Field, others: &HashMap<Ranges, Ranges>) {
        for (_, ranges) in self.0.iter_mut().filter(|(of, _)| *of == field) {
            if let Some(other) = others.get(ranges) {
                *ranges = other.clone();
            }
        }
    }

    /// The packets that match both; `None` if there are none.
    pub fn intersect(&self, other: &Conjunction) -> Option<Conjunction> {
        let mut both = Vec::with_capacity(self.0.len() + other.0.len());
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some((a, _)), Some((b, _))) => a.cmp(b),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => return Some(Conjunction(both)),
            };
            let next = match order {
                std::cmp::Ordering::Less => left.next().cloned(),
                std::cmp::Ordering::Greater => right.next().cloned(),
                std::cmp::Ordering::Equal => left
                    .next()
                    .zip(right.next())
                    .map(|((field, a), (_, b))| (*field, a.intersect(b))),
            };
            let (field, ranges) = next?;
            if ranges.is_empty() {
                return None;
            }
            both.push((field, ranges));
        }
    }

    /// Whether any packet meets both.
    pub fn overlaps(&self, other: &Conjunction) -> bool {
        let mut right = other.0.iter().peekable();
        for (field, ranges) in &self.0 {
            while right.next_if(|(of, _)| of < field).is_some() {}
            if let Some((_, others)) = right.next_if(|(of, _)| of == field)
                && !ranges.overlaps(others)
            {
                return false;
            }
        }
        true
    }

    /// Whether every packet that meets `other` meets this too.
    pub fn covers(&self, other: &Conjunction) -> bool {
        self.0.iter().all(|(field, ranges)| {
            other.get(*field).is_some_and(|narrower| ranges.covers(narrower))
        })
    }

    /// The packets that match this and not `other`, as conjunctions that exclude each other.
    pub fn subtract(&self, other: &Conjunction, domain: &Domain) -> Vec<Conjunction> {
        let mut pieces = Vec::new();
        // Field by field: what is outside in this one and inside in all before.
        let mut inside = self.clone();
        for (field, ranges) in &other.0 {
            let outside = ranges.complement(domain.largest(*field));
            if let Some(piece) = inside.clone().and(*field, &outside, domain) {
                pieces.push(piece);
            }
            match inside.and(*field, ranges, domain) {
                Some(rest) => inside = rest,
                // Nothing is in both, so the pieces so far are the whole.
                None => break,
            }
        }
        pieces
    }

    /// How many ranges all conditions have together.
    pub fn range_count(&self) -> usize {
        self.0.iter().map(|(_, ranges)| ranges.as_slice().len()).sum()
    }
}
