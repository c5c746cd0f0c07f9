//! Where two databases give different answers.
//!
//! Not for metadata. Both databases' networks are walked in address order, side by side:
//!
//! ```text
//! old  |------- A -------|          |--- B ---|
//! new       |-- A --|-- C --|       |--- B ---|
//!      remov.       ch.  added
//! ```
//!
//! Networks are compared by the addresses that they hold, not by their borders: a network that was
//! split into two with the same record is no difference. IPv4 networks count as those under
//! `::/96`, so that files of IP versions 4 and 6 can be compared; the aliases of IPv4 are left out,
//! as [`crate::Database::networks`] leaves them out.
//!
//! Records are equal when all their fields are, types included; the order of a map's keys and the
//! place in the file do not count. Memory is constant: the two walks and up to [`MAX_KNOWN`]
//! comparisons, which are remembered since neighbours often share a record.
#![deny(clippy::indexing_slicing)]

use crate::database::{self, Database};
use crate::error::MmdbError;
use crate::networks::Networks;
use crate::path::FieldPath;
use crate::tree::RecordId;
use crate::value::Value;
use std::collections::HashMap;
use std::iter::FusedIterator;
use std::net::IpAddr;
use whered_ip::Prefix;

/// How many pairs of records are remembered as equal or different.
const MAX_KNOWN: usize = 1 << 16;

/// A network whose addresses have another record than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// The network; the widest that fits where the borders of both databases lie.
    pub prefix: Prefix,
    /// The record in the older database; `None` if the network was added.
    pub old: Option<RecordId>,
    /// The record in the newer database; `None` if the network was removed.
    pub new: Option<RecordId>,
}

/// A field that is not as it was.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldChange {
    /// Where it stands; the empty path is the whole record.
    pub path: FieldPath,
    /// The old value; `None` if there was none.
    pub old: Option<Value>,
    /// The new value; `None` if there is none.
    pub new: Option<Value>,
}

/// Iterator of [`Database::differences`]. After an error it ends.
#[derive(Debug)]
pub struct Differences<'a> {
    old: Side<'a>,
    new: Side<'a>,
    /// The first address that was not compared; `None` behind the last one of all.
    next: Option<u128>,
    /// The rest of the range that is being reported.
    rest: Option<(Range, Option<RecordId>, Option<RecordId>)>,
    known: HashMap<(RecordId, RecordId), bool>,
    /// Whether equal records are reported too.
    has_equal: bool,
}

/// Addresses from the first to the last.
#[derive(Debug, Clone, Copy)]
struct Range {
    first: u128,
    last: u128,
}

impl Range {
    fn of(prefix: Prefix) -> Range {
        let (first, length_bits) = match prefix.address() {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 96 + prefix.length_bits()),
            IpAddr::V6(address) => (address.to_bits(), prefix.length_bits()),
        };
        let free = u128::MAX.checked_shr(u32::from(length_bits)).unwrap_or(0);
        Range { first, last: first | free }
    }

    /// The widest prefix that begins the range, and what is behind it.
    fn split_prefix(self) -> (Prefix, Option<Range>) {
        let count = (self.last - self.first).checked_add(1);
        let fitting_bits = count.map_or(128, |count| 127 - count.leading_zeros());
        let free_bits = self.first.trailing_zeros().min(fitting_bits);
        let last = Range::of(prefix_of(self.first, 128 - free_bits as u8)).last;
        let rest = last.checked_add(1).filter(|next| *next <= self.last);
        let prefix = prefix_of(self.first, 128 - free_bits as u8);
        (prefix, rest.map(|first| Range { first, last: self.last }))
    }
}

/// The prefix of these bits, an IPv4 one where it lies inside `::/96`.
fn prefix_of(first: u128, length_bits: u8) -> Prefix {
    if first >> 32 == 0 && length_bits >= 96 {
        database::prefix(first << 96, length_bits - 96, true)
    } else {
        database::prefix(first, length_bits, false)
    }
}

/// One of the two databases and the network that the walk has come to.
#[derive(Debug)]
struct Side<'a> {
    database: &'a Database,
    networks: Networks<'a>,
    current: Option<(Range, RecordId)>,
}

impl<'a> Side<'a> {
    fn new(database: &'a Database) -> Side<'a> {
        Side { database, networks: database.networks(), current: None }
    }

    /// Goes on to the first network that does not end before `at`.
    fn reach(&mut self, at: u128) -> Result<(), MmdbError> {
        while self.current.is_none_or(|(range, _)| range.last < at) {
            let next = self.networks.next().transpose()?;
            self.current = next.map(|(prefix, id)| (Range::of(prefix), id));
            if next.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// The record at `at`, and the last address for which that is the answer.
    fn at(&self, at: u128) -> (Option<RecordId>, u128) {
        match self.current {
            None => (None, u128::MAX),
            Some((range, id)) if range.first <= at => (Some(id), range.last),
            Some((range, _)) => (None, range.first - 1),
        }
    }
}

impl<'a> Differences<'a> {
    pub(crate) fn new(old: &'a Database, new: &'a Database) -> Differences<'a> {
        let (old, new) = (Side::new(old), Side::new(new));
        let known = HashMap::new();
        Differences { old, new, next: Some(0), rest: None, known, has_equal: false }
    }

    /// As [`new`](Differences::new), of every network that one of the two has.
    pub(crate) fn with_equal(old: &'a Database, new: &'a Database) -> Differences<'a> {
        Differences { has_equal: true, ..Differences::new(old, new) }
    }

    /// Finds the next range with two answers; `None` at the end.
    fn find(&mut self) -> Result<Option<()>, MmdbError> {
        while let Some(first) = self.next {
            self.old.reach(first)?;
            self.new.reach(first)?;
            if self.old.current.is_none() && self.new.current.is_none() {
                break;
            }
            let (old, old_last) = self.old.at(first);
            let (new, new_last) = self.new.at(first);
            let last = old_last.min(new_last);
            self.next = last.checked_add(1);
            let is_reported = match self.has_equal {
                true => old.is_some() || new.is_some(),
                false => !self.is_equal(old, new)?,
            };
            if is_reported {
                self.rest = Some((Range { first, last }, old, new));
                return Ok(Some(()));
            }
        }
        self.next = None;
        Ok(None)
    }

    fn is_equal(
        &mut self,
        old: Option<RecordId>,
        new: Option<RecordId>,
    ) -> Result<bool, MmdbError> {
        let (Some(old), Some(new)) = (old, new) else { return Ok(old == new) };
        if let Some(&is_equal) = self.known.get(&(old, new)) {
            return Ok(is_equal);
        }
        let is_equal = same(&self.old.database.record(old)?, &self.new.database.record(new)?);
        if self.known.len() == MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert((old, new), is_equal);
        Ok(is_equal)
    }
}

impl Iterator for Differences<'_> {
    type Item = Result<Difference, MmdbError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_none()
            && let Err(error) = self.find()
        {
            self.next = None;
            return Some(Err(error));
        }
        let (range, old, new) = self.rest.take()?;
        let (prefix, rest) = range.split_prefix();
        self.rest = rest.map(|rest| (rest, old, new));
        Some(Ok(Difference { prefix, old, new }))
    }
}

impl FusedIterator for Differences<'_> {}

/// Whether two values have equal fields of equal types. Two doubles are equal if their bits are.
fn same(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Map(old), Value::Map(new)) => {
            old.len() == new.len()
                && old.iter().enumerate().all(|(position, (key, value))| {
                    // Keys nearly always come in the same order.
                    let beside = new.get(position).filter(|(other, _)| other == key);
                    let other = beside.or_else(|| new.iter().find(|(other, _)| other == key));
                    other.is_some_and(|(_, other)| same(value, other))
                })
        }
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new))
        }
        (Value::Double(old), Value::Double(new)) => old.to_bits() == new.to_bits(),
        (Value::Float(old), Value::Float(new)) => old.to_bits() == new.to_bits(),
        _ => old == new,
    }
}

/// The fields that differ, in the order of the older value and then of what is new.
pub(crate) fn changes(old: &Value, new: &Value) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    let mut path = Vec::new();
    compare(Some(old), Some(new), &mut path, &mut changes);
    changes
}

fn compare(
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<String>,
    changes: &mut Vec<FieldChange>,
) {
    let mut below = |name: String, old: Option<&Value>, new: Option<&Value>| {
        path.push(name);
        compare(old, new, path, changes);
        path.pop();
    };
    match (old, new) {
        (Some(Value::Map(old)), Some(Value::Map(new))) => {
            let find = |pairs: &'_ [(String, Value)], key: &str| {
                pairs.iter().position(|(other, _)| other == key)
            };
            for (key, value) in old {
                let other = find(new, key).and_then(|at| new.get(at)).map(|(_, value)| value);
                below(key.clone(), Some(value), other);
            }
            for (key, value) in new.iter().filter(|(key, _)| find(old, key).is_none()) {
                below(key.clone(), None, Some(value));
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for index in 0..old.len().max(new.len()) {
                below(index.to_string(), old.get(index), new.get(index));
            }
        }
        (Some(old), Some(new)) if same(old, new) => {}
        _ => changes.push(FieldChange {
            path: FieldPath::new(path.iter().map(String::as_str)),
            old: old.cloned(),
            new: new.cloned(),
        }),
    }
}
