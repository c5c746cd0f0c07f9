//! Records that were read and wait for the steps after it: a block of one upload's.
//!
//! ```text
//! read ─ bytes copied ─> block ─> positions found ─> rows found and changed ─> empty again
//!                        (groups of some dozens: all members, then all squares, then all positions,
//!                         then all rows; each asked for ahead)
//! ```
//! For: handing records from one thread to the next (`pipeline.rs`), and for hot tables that are
//! larger than the processor's caches: a record needs some five cache lines at random places, each
//! found by what is in the one before; one record alone waits for each of them, some dozens
//! together wait about once for each kind. Not for: what records do (`consolidate.rs`).
//!
//! Invariants: records come out in the order in which they went in, as they were.
//! Cost: the copy of a record's texts; no allocation once the block has its size.

use std::ops::Range;

use whered_feeds::{Record, Value};
use whered_geo::Place;

use super::places::SightingSlot;

/// How many records are a group: more do not wait less, and what was asked for must stay in the
/// first cache until it is used.
const GROUP_RECORDS: usize = 32;
/// How many records are a block: some 60 KB, which the next thread's processor fetches at once.
pub(super) const BLOCK_RECORDS: usize = 1024;
/// Records with very long texts are a block sooner.
const BLOCK_BYTES: usize = 256 << 10;

/// Where a text begins and ends: a block ends with the record that fills it, and a record has
/// little more than a MiB.
type Span = (u32, u32);

/// Forty bytes: blocks under way are more than the processor's nearer caches hold.
#[derive(Debug)]
struct BlockRecord {
    member: Span,
    /// NaN: it has none.
    place: Place,
    time_millis: i64,
    /// The first ones; those of the next record come after the last ones.
    fields_start: u32,
    items_start: u32,
}

/// No place.
const NOWHERE: Place = Place { longitude_degrees: f64::NAN, latitude_degrees: f64::NAN };

#[derive(Debug)]
enum BlockValue {
    Plain(Value<'static>),
    Text(Span),
}

/// See the file's header.
#[derive(Debug, Default)]
pub(super) struct Block {
    records: Vec<BlockRecord>,
    fields: Vec<BlockValue>,
    items: Vec<(Span, i64)>,
    bytes: Vec<u8>,
    /// Where the first records were put, as far as that is known; `None` if they have no position.
    pub(super) sighted: Vec<Option<SightingSlot>>,
}

impl Block {
    /// Keeps a record with its time.
    #[inline]
    pub(super) fn push(&mut self, record: &Record<'_>, time_millis: i64) {
        let member = self.keep(record.member);
        let fields_start = self.fields.len() as u32;
        for value in record.fields {
            let kept = match *value {
                Value::Absent => BlockValue::Plain(Value::Absent),
                Value::Integer(value) => BlockValue::Plain(Value::Integer(value)),
                Value::Number(value) => BlockValue::Plain(Value::Number(value)),
                Value::Text(text) => BlockValue::Text(self.keep(text)),
            };
            self.fields.push(kept);
        }
        let items_start = self.items.len() as u32;
        for item in record.items {
            let key = self.keep(item.key);
            self.items.push((key, item.count));
        }
        self.records.push(BlockRecord {
            member,
            place: record.place.unwrap_or(NOWHERE),
            time_millis,
            fields_start,
            items_start,
        });
    }

    pub(super) fn is_whole(&self) -> bool {
        self.records.len() >= BLOCK_RECORDS || self.bytes.len() >= BLOCK_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The numbers of its records, a group at a time.
    pub(super) fn groups(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let len = self.records.len();
        (0..len).step_by(GROUP_RECORDS).map(move |start| start..len.min(start + GROUP_RECORDS))
    }

    #[inline]
    pub(super) fn member(&self, record: usize) -> &[u8] {
        self.text(self.records[record].member)
    }

    #[inline]
    pub(super) fn place(&self, record: usize) -> Option<Place> {
        let place = self.records[record].place;
        (!place.longitude_degrees.is_nan()).then_some(place)
    }

    #[inline]
    pub(super) fn time_millis(&self, record: usize) -> i64 {
        self.records[record].time_millis
    }

    /// The value of a field of the mapping.
    #[inline]
    pub(super) fn field(&self, record: usize, field: usize) -> Value<'_> {
        let first = self.records[record].fields_start as usize;
        let next = self.records.get(record + 1);
        let end = next.map_or(self.fields.len(), |next| next.fields_start as usize);
        match self.fields[first..end].get(field) {
            Some(BlockValue::Plain(value)) => *value,
            Some(BlockValue::Text(text)) => Value::Text(self.text(*text)),
            None => Value::Absent,
        }
    }

    /// The numbers of a record's items.
    #[inline]
    pub(super) fn items(&self, record: usize) -> Range<usize> {
        let first = self.records[record].items_start as usize;
        let next = self.records.get(record + 1);
        first..next.map_or(self.items.len(), |next| next.items_start as usize)
    }

    /// An item's key and count.
    #[inline]
    pub(super) fn item(&self, item: usize) -> (&[u8], i64) {
        let (key, count) = self.items[item];
        (self.text(key), count)
    }

    /// Forgets all; memory of unusually long texts and lists is given back.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.fields.clear();
        self.items.clear();
        self.sighted.clear();
        self.bytes.clear();
        self.fields.shrink_to(16 * BLOCK_RECORDS);
        self.items.shrink_to(8 * BLOCK_RECORDS);
        self.bytes.shrink_to(2 * BLOCK_BYTES);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.records.capacity() * size_of::<BlockRecord>()
            + self.fields.capacity() * size_of::<BlockValue>()
            + self.items.capacity() * size_of::<(Span, i64)>()
            + self.sighted.capacity() * size_of::<Option<SightingSlot>>()
            + self.bytes.capacity()
    }

    #[inline]
    fn keep(&mut self, text: &[u8]) -> Span {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(text);
        (start, self.bytes.len() as u32)
    }

    #[inline]
    fn text(&self, (start, end): Span) -> &[u8] {
        &self.bytes[start as usize..end as usize]
    }
}

#[cfg(test)]
mod tests {
    use whered_feeds::Item;

    use super::*;

    #[test]
    fn records_come_out_as_they_went_in() {
        let fields = [Value::Absent, Value::Text(b"red"), Value::Integer(-3), Value::Number(0.5)];
        let items = [Item { key: b"9", count: 2 }, Item { key: b"", count: 0 }];
        let place = Place { longitude_degrees: 8.5, latitude_degrees: 50.0 };
        let first = Record {
            offset_bytes: 7,
            member: b"4711",
            place: Some(place),
            time_millis: None,
            fields: &fields,
            items: &items,
        };
        let second =
            Record { member: b"van", place: None, fields: &[], items: &items[1..], ..first };
        let mut block = Block::default();
        for _ in 0..2 {
            block.push(&first, 9);
            block.push(&second, 10);
            assert_eq!(block.groups().next(), Some(0..2));
            assert_eq!((block.member(0), block.place(0)), (&b"4711"[..], Some(place)));
            assert_eq!((block.member(1), block.place(1)), (&b"van"[..], None));
            assert_eq!([0, 1].map(|record| block.time_millis(record)), [9, 10]);
            for (number, value) in fields.iter().enumerate() {
                assert_eq!(block.field(0, number), *value);
                assert_eq!(block.field(1, number), Value::Absent);
            }
            assert_eq!(
                block.items(0).map(|item| block.item(item)).collect::<Vec<_>>(),
                [(&b"9"[..], 2), (&b""[..], 0)]
            );
            assert_eq!(block.items(1).len(), 1);
            block.clear();
            assert!(block.is_empty());
        }
        while !block.is_whole() {
            block.push(&first, 1);
        }
        assert_eq!(block.groups().flatten().count(), BLOCK_RECORDS);
        assert!(block.groups().all(|group| group.len() == GROUP_RECORDS));
    }
}
