//! The output of a scan: records, their values and items, and totals.
//!
//! For: callers that consolidate or store records. Everything borrows from the upload or from the
//! scan's own scratch memory and is gone when the call returns. Not for: keeping; copy what you
//! keep.

use whered_geo::Place;

/// One event of an upload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record<'a> {
    /// Where the record begins in the decompressed upload.
    pub offset_bytes: u64,
    /// The event's member: UTF-8, not empty.
    pub member: &'a [u8],
    /// Where it was; always there if the mapping has a place, else never.
    pub place: Option<Place>,
    /// When it was, in milliseconds since 1970, within 1970 to 2200.
    pub time_millis: Option<i64>,
    /// The mapping's fields in its order.
    pub fields: &'a [Value<'a>],
    /// The elements of the list, in the order of the upload.
    pub items: &'a [Item<'a>],
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// The record does not have it.
    Absent,
    /// A whole number, or a time in milliseconds since 1970.
    Integer(i64),
    /// A finite number.
    Number(f64),
    /// UTF-8.
    Text(&'a [u8]),
}

/// One element of a list, such as one kind of loot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The item's key: UTF-8, not empty.
    pub key: &'a [u8],
    /// How many; 1 if the mapping has no count or the element does not say.
    pub count: i64,
}

/// Receives the records of a scan.
pub trait Events {
    /// A record that is whole and right.
    fn record(&mut self, record: &Record<'_>);

    /// A record that was refused, where it begins, and why, in one line.
    fn reject(&mut self, offset_bytes: u64, reason: &str);
}

/// The totals of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records that were handed out.
    pub records: u64,
    /// Records that were refused.
    pub rejected: u64,
    /// Items of the records that were handed out.
    pub items: u64,
}
