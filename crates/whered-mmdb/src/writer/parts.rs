//! Values that wait to be written, each distinct part of them once.
//!
//! Not for what they look like in the file ([`super::data`] decides that). A part is a scalar, a
//! map's key, a map or an array. It has a number; equal parts have equal numbers.
//!
//! ```text
//! scalar     | 0 | the field as the file has it |
//! container  | size of the header | header | item | item | ...
//! item       | size, 1 or 2 | a short field |   or   | 255 | number of a part, 4 bytes |
//! ```
//!
//! The bytes of all parts stand behind each other; a table of numbers, hashed by the bytes, finds
//! a part that is there already. Cost of storing: linear in the value. Memory: the bytes of the
//! distinct parts, and 13 bytes or more for each.

use super::data::{write_header, write_scalar, write_text};
use super::refuse;
use crate::error::MmdbError;
use crate::value::Value;
use std::hash::{BuildHasher, RandomState};

/// Fields up to this size are no parts of their own: a pointer is never shorter.
const MAX_SHORT_BYTES: usize = 2;

/// In front of the number of a part.
const PART: u8 = 0xff;

/// No part.
const NONE: u32 = u32::MAX;

/// The parts of values.
#[derive(Debug)]
pub(super) struct Parts {
    bytes: Vec<u8>,
    /// Where each part ends; it begins where the one before ends.
    ends: Vec<u32>,
    /// The hash and number of a part, or [`NONE`]; a power of two of slots, at most three quarters
    /// of them taken.
    slots: Vec<(u32, u32)>,
    hasher: RandomState,
    /// The parts that are being put together, the innermost last.
    scratch: Vec<u8>,
}

/// A part as it was stored.
#[derive(Debug)]
pub(super) enum Part<'a> {
    /// The field as it stands in the file.
    Scalar(&'a [u8]),
    /// A map or array.
    Container {
        /// Control byte and size as they stand in the file.
        header: &'a [u8],
        items: Items<'a>,
    },
}

/// A key or value inside a map or array.
#[derive(Debug)]
pub(super) enum Item<'a> {
    /// A short field as it stands in the file.
    Field(&'a [u8]),
    /// The number of a part.
    Part(u32),
}

/// The items of a map or array.
#[derive(Debug)]
pub(super) struct Items<'a>(&'a [u8]);

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        let (&size, rest) = self.0.split_first()?;
        if size == PART {
            let (number, rest) = rest.split_first_chunk().expect("a number of four bytes");
            self.0 = rest;
            return Some(Item::Part(u32::from_ne_bytes(*number)));
        }
        let (field, rest) = rest.split_at(usize::from(size));
        self.0 = rest;
        Some(Item::Field(field))
    }
}

impl Default for Parts {
    fn default() -> Parts {
        Parts {
            bytes: Vec::new(),
            ends: Vec::new(),
            slots: vec![(0, NONE); 64],
            hasher: RandomState::new(),
            scratch: Vec::new(),
        }
    }
}

impl Parts {
    /// How many there are; their numbers are smaller.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    fn part_bytes(&self, part: u32) -> &[u8] {
        let part = part as usize;
        let start = part.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[part] as usize]
    }

    /// A part by its number.
    pub(super) fn get(&self, part: u32) -> Part<'_> {
        let (&header_bytes, rest) =
            self.part_bytes(part).split_first().expect("a part has a first byte");
        if header_bytes == 0 {
            return Part::Scalar(rest);
        }
        let (header, items) = rest.split_at(usize::from(header_bytes));
        Part::Container { header, items: Items(items) }
    }

    /// The number of a value, which is taken in if it is new.
    pub(super) fn store(&mut self, value: &Value) -> Result<u32, MmdbError> {
        let start = self.scratch.len();
        self.scratch.push(0);
        match value {
            Value::Map(pairs) => {
                self.begin_container(7, pairs.len());
                for (key, value) in pairs {
                    self.key(key)?;
                    self.item(value)?;
                }
            }
            Value::Array(values) => {
                self.begin_container(11, values.len());
                for value in values {
                    self.item(value)?;
                }
            }
            _ => write_scalar(value, &mut self.scratch),
        }
        self.intern(start)
    }

    fn begin_container(&mut self, kind: u8, size: usize) {
        let start = self.scratch.len();
        write_header(kind, size, &mut self.scratch);
        let header_bytes = self.scratch.len() - start;
        // A header has at most five bytes.
        self.scratch[start - 1] = header_bytes as u8;
    }

    fn key(&mut self, key: &str) -> Result<(), MmdbError> {
        let start = self.scratch.len();
        self.scratch.push(0);
        write_text(key, &mut self.scratch);
        self.end_item(start)
    }

    fn item(&mut self, value: &Value) -> Result<(), MmdbError> {
        if matches!(value, Value::Map(_) | Value::Array(_)) {
            let part = self.store(value)?;
            self.push_part(part);
            return Ok(());
        }
        let start = self.scratch.len();
        self.scratch.push(0);
        write_scalar(value, &mut self.scratch);
        self.end_item(start)
    }

    /// Leaves a short field as it is; makes a longer one a part.
    fn end_item(&mut self, start: usize) -> Result<(), MmdbError> {
        let size_bytes = self.scratch.len() - start - 1;
        if size_bytes <= MAX_SHORT_BYTES {
            self.scratch[start] = size_bytes as u8;
            return Ok(());
        }
        let part = self.intern(start)?;
        self.push_part(part);
        Ok(())
    }

    fn push_part(&mut self, part: u32) {
        self.scratch.push(PART);
        self.scratch.extend_from_slice(&part.to_ne_bytes());
    }

    /// The number of the part that stands at the end of the scratch, from `start` on; takes it
    /// off.
    fn intern(&mut self, start: usize) -> Result<u32, MmdbError> {
        let hash = self.hasher.hash_one(&self.scratch[start..]) as u32;
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot].1 != NONE {
            let (other_hash, part) = self.slots[slot];
            if other_hash == hash && self.part_bytes(part) == &self.scratch[start..] {
                self.scratch.truncate(start);
                return Ok(part);
            }
            slot = (slot + 1) & mask;
        }
        let part = self.ends.len();
        self.bytes.extend_from_slice(&self.scratch[start..]);
        self.scratch.truncate(start);
        let end = u32::try_from(self.bytes.len()).map_err(|_| {
            refuse(format!("{} bytes of distinct values", self.bytes.len()), "4 GiB")
        })?;
        self.ends.push(end);
        // Each part has a byte or more, so that there are fewer than 2^32 of them.
        self.slots[slot] = (hash, part as u32);
        if self.ends.len() * 4 > self.slots.len() * 3 {
            self.grow();
        }
        Ok(part as u32)
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        let mut slots = vec![(0, NONE); mask + 1];
        for &(hash, part) in self.slots.iter().filter(|(_, part)| *part != NONE) {
            let mut slot = hash as usize & mask;
            while slots[slot].1 != NONE {
                slot = (slot + 1) & mask;
            }
            slots[slot] = (hash, part);
        }
        self.slots = slots;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_one_number_among_many_others() {
        let mut parts = Parts::default();
        let value = |number: u32| {
            Value::Map(vec![
                ("n".to_string(), Value::Uint32(number)),
                ("list".to_string(), Value::Array(vec![Value::Uint32(number % 7 + 100_000)])),
            ])
        };
        let numbers: Vec<u32> = (0..5_000).map(|n| parts.store(&value(n)).unwrap()).collect();
        let count = parts.len();
        for (number, part) in (0..).zip(&numbers) {
            assert_eq!(parts.store(&value(number)).unwrap(), *part);
        }
        assert_eq!(parts.len(), count);
        let mut distinct = numbers.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), numbers.len());
    }
}
