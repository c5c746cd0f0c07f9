//! Records that wait a moment, so that memory can be asked for before it is needed.
//!
//! ```text
//! record ─ its bytes copied ─> held ─ some dozens ─> all members, then all squares, then all
//!                                                    positions, then all rows; each asked for ahead
//! ```
//! For: hot tables that are larger than the processor's caches. A record needs some five cache lines
//! at random places, each found by what is in the one before; one record alone waits for each of
//! them, some dozens together wait about once for each kind. Not for: what records do
//! (`consolidate.rs`).
//!
//! Invariants: records come out in the order in which they went in, as they were.
//! Cost: the copy of a record's texts, and three allocations for each group.

use whered_feeds::{Item, Record, Value};
use whered_geo::Place;

/// How many records are a group: more do not wait less, and what was asked for must stay in the
/// first cache until it is used.
const GROUP_RECORDS: usize = 32;
/// Records with very long texts are a group sooner.
const GROUP_BYTES: usize = 256 << 10;

/// Where a text begins and ends.
type Span = (usize, usize);

#[derive(Debug)]
struct HeldRecord {
    offset_bytes: u64,
    member: Span,
    place: Option<Place>,
    time_millis: i64,
    /// The first and the one after the last.
    fields: Span,
    items: Span,
}

#[derive(Debug)]
enum HeldValue {
    Plain(Value<'static>),
    Text(Span),
}

/// See the file's header.
#[derive(Debug, Default)]
pub(super) struct Held {
    records: Vec<HeldRecord>,
    fields: Vec<HeldValue>,
    items: Vec<(Span, i64)>,
    bytes: Vec<u8>,
}

impl Held {
    /// Keeps a record with its time until the group is whole.
    #[inline]
    pub(super) fn push(&mut self, record: &Record<'_>, time_millis: i64) {
        let member = self.keep(record.member);
        let fields_start = self.fields.len();
        for value in record.fields {
            let held = match *value {
                Value::Absent => HeldValue::Plain(Value::Absent),
                Value::Integer(value) => HeldValue::Plain(Value::Integer(value)),
                Value::Number(value) => HeldValue::Plain(Value::Number(value)),
                Value::Text(text) => HeldValue::Text(self.keep(text)),
            };
            self.fields.push(held);
        }
        let items_start = self.items.len();
        for item in record.items {
            let key = self.keep(item.key);
            self.items.push((key, item.count));
        }
        self.records.push(HeldRecord {
            offset_bytes: record.offset_bytes,
            member,
            place: record.place,
            time_millis,
            fields: (fields_start, self.fields.len()),
            items: (items_start, self.items.len()),
        });
    }

    pub(super) fn is_whole(&self) -> bool {
        self.records.len() >= GROUP_RECORDS || self.bytes.len() >= GROUP_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn items(&self) -> Vec<Item<'_>> {
        self.items.iter().map(|(key, count)| Item { key: self.text(*key), count: *count }).collect()
    }

    pub(super) fn fields(&self) -> Vec<Value<'_>> {
        let value = |held: &HeldValue| match held {
            HeldValue::Plain(value) => *value,
            HeldValue::Text(text) => Value::Text(self.text(*text)),
        };
        // A closure's value lives as long as what it borrows: the held texts.
        self.fields.iter().map(value).collect()
    }

    /// The records again, with what the other two gave.
    pub(super) fn records<'a>(
        &'a self,
        items: &'a [Item<'a>],
        fields: &'a [Value<'a>],
    ) -> Vec<Record<'a>> {
        let record = |held: &HeldRecord| Record {
            offset_bytes: held.offset_bytes,
            member: self.text(held.member),
            place: held.place,
            time_millis: Some(held.time_millis),
            fields: &fields[held.fields.0..held.fields.1],
            items: &items[held.items.0..held.items.1],
        };
        self.records.iter().map(record).collect()
    }

    /// Forgets all; memory of unusually long texts is given back.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.fields.clear();
        self.items.clear();
        self.bytes.clear();
        self.bytes.shrink_to(2 * GROUP_BYTES);
    }

    #[inline]
    fn keep(&mut self, text: &[u8]) -> Span {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        (start, self.bytes.len())
    }

    #[inline]
    fn text(&self, (start, end): Span) -> &[u8] {
        &self.bytes[start..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_as_they_went_in() {
        let fields = [Value::Absent, Value::Text(b"red"), Value::Integer(-3), Value::Number(0.5)];
        let items = [Item { key: b"9", count: 2 }, Item { key: b"", count: 0 }];
        let place = Place { longitude_degrees: 8.5, latitude_degrees: 50.0 };
        let mut record = Record {
            offset_bytes: 7,
            member: b"4711",
            place: Some(place),
            time_millis: Some(9),
            fields: &fields,
            items: &items,
        };
        let mut held = Held::default();
        for turn in 0..2 {
            held.push(&record, 9);
            record =
                Record { member: b"van", place: None, fields: &[], items: &items[1..], ..record };
            held.push(&record, 10);
            let (kept_items, kept_fields) = (held.items(), held.fields());
            let records = held.records(&kept_items, &kept_fields);
            assert_eq!(records.len(), 2);
            assert_eq!(records[1], Record { time_millis: Some(10), ..record });
            assert_eq!(records[0].items.len(), 2 - turn);
            if turn == 0 {
                assert_eq!(records[0].fields, fields);
                assert_eq!((records[0].member, records[0].place), (&b"4711"[..], Some(place)));
            }
            held.clear();
            assert!(held.is_empty());
        }
        while !held.is_whole() {
            held.push(&record, 1);
        }
        assert_eq!(held.records.len(), GROUP_RECORDS);
    }
}
