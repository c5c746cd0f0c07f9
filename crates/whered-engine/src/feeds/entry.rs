//! A feed's entries in the journal: what it is made of, and what a batch has done.
//!
//! ```text
//! kind 40  version u8 (1) | feed | place rule u8 | count | { table }*
//!          table  = name | rows of u8 | count | { name | kind u8 }* key | count | { name | kind u8 | rule }*
//! kind 41  version u8 (1) | feed | batch | position | count | { upload }*      uploads up to the position
//!          | count | { key | upload | received }* | count | { source | position bytes }*
//!          | parts u8 | [ collection ] [ places ] | count | { table | changes }*
//!          | [ operation kind u16 LE | payload to the end ]
//!          upload = 0 | records | rejected records, or 1 | reason
//!          parts: 1 a collection, 2 places, 4 an operation on a prefix set
//! ```
//! Numbers are varints, texts have a length in front. Changes of tables: `tables/wire.rs`; of
//! places: `places_wire.rs`. Points of the collection are not told: they are the rows of places
//! that are.
//!
//! One entry is one batch: after a crash all of it is there or nothing, the spool's position with
//! it. Nothing that is read is trusted.

use crate::tables::cell::{ColumnKind, push_varint, take_bytes, take_varint};
use crate::tables::schema::{COLUMNS_MAX, Shape};
use crate::tables::{Column, RowsOf};

/// The frame kind of a definition.
pub(crate) const DEFINE_KIND: u16 = 40;
/// The frame kind of a batch.
pub(crate) const BATCH_KIND: u16 = 41;

const VERSION: u8 = 1;

const HAS_COLLECTION: u8 = 1;
const HAS_PLACES: u8 = 2;
const HAS_OPERATION: u8 = 4;

/// The most tables of a feed, over all its life.
const TABLES_MAX: u64 = 1024;

/// What a feed is made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Definition {
    pub(crate) feed: String,
    /// The number of its [`PlaceRule`](super::places::PlaceRule).
    pub(crate) places: u8,
    pub(crate) tables: Vec<Shape>,
}

/// What became of one upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Applied { records: u64, rejected: u64 },
    Rejected(String),
}

/// An idempotency key, its upload, and when that was received.
pub(crate) type KeyOf = (Box<[u8]>, u64, u64);

/// The head of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Head {
    pub(crate) batch: u64,
    /// All uploads up to this one are done with.
    pub(crate) position: u64,
    /// The last of them, in order.
    pub(crate) uploads: Vec<Outcome>,
    pub(crate) keys: Vec<KeyOf>,
    pub(crate) sources: Vec<(String, Vec<u8>)>,
}

/// The parts of a batch behind its head, still as bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effects<'a> {
    /// The key in database 0 that gets the points.
    pub(crate) collection: Option<&'a str>,
    pub(crate) has_places: bool,
    pub(crate) has_operation: bool,
}

pub(crate) fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_varint(out, text.len() as u64);
    out.extend_from_slice(text);
}

pub(crate) fn take_text<'a>(input: &mut &'a [u8]) -> Result<&'a str, String> {
    let bytes = take_blob(input)?;
    std::str::from_utf8(bytes).map_err(|_| "a text is no UTF-8".to_owned())
}

pub(crate) fn take_blob<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], String> {
    let length = take_number(input)?;
    take_bytes(input, length).ok_or_else(|| "it ends within a text".to_owned())
}

pub(crate) fn take_number(input: &mut &[u8]) -> Result<u64, String> {
    take_varint(input).ok_or_else(|| "it ends within a number".to_owned())
}

fn take_byte(input: &mut &[u8]) -> Result<u8, String> {
    let byte = take_bytes(input, 1).and_then(|bytes| bytes.first().copied());
    byte.ok_or_else(|| "it ends too early".to_owned())
}

fn take_kind(input: &mut &[u8]) -> Result<ColumnKind, String> {
    let number = take_byte(input)?;
    ColumnKind::from_number(number).ok_or_else(|| format!("column kind {number}; allowed: 0 to 3"))
}

/// Takes version and feed off the front.
pub(crate) fn take_feed<'a>(input: &mut &'a [u8]) -> Result<&'a str, String> {
    match take_byte(input)? {
        VERSION => take_text(input),
        other => Err(format!("version {other} of a feed's entry; this program reads {VERSION}")),
    }
}

const ROWS_OF: [RowsOf; 3] = [RowsOf::Records, RowsOf::Items, RowsOf::Positions];

impl Definition {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        push_text(&mut out, self.feed.as_bytes());
        out.push(self.places);
        push_varint(&mut out, self.tables.len() as u64);
        for shape in &self.tables {
            push_text(&mut out, shape.name.as_bytes());
            let of = ROWS_OF.iter().position(|of| *of == shape.of);
            out.push(of.expect("all kinds of rows are listed") as u8);
            push_varint(&mut out, shape.key.len() as u64);
            for column in &shape.key {
                push_text(&mut out, column.name.as_bytes());
                out.push(column.kind.number());
            }
            push_varint(&mut out, shape.columns.len() as u64);
            for column in &shape.columns {
                push_text(&mut out, column.name.as_bytes());
                out.push(column.kind.number());
                push_text(&mut out, column.rule_text.as_bytes());
            }
        }
        out
    }

    pub(crate) fn decode(mut input: &[u8]) -> Result<Definition, String> {
        let feed = take_feed(&mut input)?.to_owned();
        let places = take_byte(&mut input)?;
        if places > 2 {
            return Err(format!("place rule {places}; allowed: 0 to 2"));
        }
        let count = take_number(&mut input)?;
        if count > TABLES_MAX {
            return Err(format!("{count} tables; allowed: {TABLES_MAX}"));
        }
        let tables = (0..count).map(|_| take_shape(&mut input)).collect::<Result<_, _>>()?;
        match input.len() {
            0 => Ok(Definition { feed, places, tables }),
            left => Err(format!("{left} bytes too many")),
        }
    }
}

fn take_shape(input: &mut &[u8]) -> Result<Shape, String> {
    let name = take_text(input)?.to_owned();
    let of = take_byte(input)?;
    let of = ROWS_OF.get(usize::from(of)).ok_or_else(|| format!("rows of {of}"))?;
    let count = take_count(input)?;
    let mut key = Vec::new();
    for _ in 0..count {
        let name = take_text(input)?.to_owned();
        key.push(Column { name, kind: take_kind(input)? });
    }
    let count = take_count(input)?;
    let mut columns = Vec::new();
    for _ in 0..count {
        let name = take_text(input)?.to_owned();
        let kind = take_kind(input)?;
        columns.push((name, kind, take_text(input)?.to_owned()));
    }
    Shape::new(name, *of, key, columns)
}

fn take_count(input: &mut &[u8]) -> Result<u64, String> {
    let count = take_number(input)?;
    if count > COLUMNS_MAX as u64 {
        return Err(format!("{count} columns; allowed: {COLUMNS_MAX}"));
    }
    Ok(count)
}

/// Begins the payload of a batch.
pub(crate) fn begin_batch(feed: &str, head: &Head) -> Vec<u8> {
    let mut out = vec![VERSION];
    push_text(&mut out, feed.as_bytes());
    push_varint(&mut out, head.batch);
    head.push(&mut out);
    out
}

/// Goes on with what is changed beside tables; places, if there are, come next.
pub(crate) fn push_effects(out: &mut Vec<u8>, effects: &Effects<'_>) {
    let mut parts = 0;
    parts |= if effects.collection.is_some() { HAS_COLLECTION } else { 0 };
    parts |= if effects.has_places { HAS_PLACES } else { 0 };
    parts |= if effects.has_operation { HAS_OPERATION } else { 0 };
    out.push(parts);
    if let Some(collection) = effects.collection {
        push_text(out, collection.as_bytes());
    }
}

/// Takes what [`push_effects`] has written off the front.
pub(crate) fn take_effects<'a>(input: &mut &'a [u8]) -> Result<Effects<'a>, String> {
    let parts = take_byte(input)?;
    if parts > (HAS_COLLECTION | HAS_PLACES | HAS_OPERATION) {
        return Err(format!("unknown parts {parts:#x}"));
    }
    let collection = if parts & HAS_COLLECTION != 0 { Some(take_text(input)?) } else { None };
    let (has_places, has_operation) = (parts & HAS_PLACES != 0, parts & HAS_OPERATION != 0);
    Ok(Effects { collection, has_places, has_operation })
}

impl Head {
    /// All but the batch's number.
    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        push_varint(out, self.position);
        push_varint(out, self.uploads.len() as u64);
        for upload in &self.uploads {
            match upload {
                Outcome::Applied { records, rejected } => {
                    out.push(0);
                    push_varint(out, *records);
                    push_varint(out, *rejected);
                }
                Outcome::Rejected(reason) => {
                    out.push(1);
                    push_text(out, reason.as_bytes());
                }
            }
        }
        push_varint(out, self.keys.len() as u64);
        for (key, upload, received) in &self.keys {
            push_text(out, key);
            push_varint(out, *upload);
            push_varint(out, *received);
        }
        push_varint(out, self.sources.len() as u64);
        for (source, position) in &self.sources {
            push_text(out, source.as_bytes());
            push_text(out, position);
        }
    }

    /// Takes what [`Head::push`] has written off the front.
    pub(crate) fn take(batch: u64, input: &mut &[u8]) -> Result<Head, String> {
        let mut head = Head { batch, position: take_number(input)?, ..Head::default() };
        for _ in 0..take_number(input)? {
            head.uploads.push(match take_byte(input)? {
                0 => {
                    let records = take_number(input)?;
                    Outcome::Applied { records, rejected: take_number(input)? }
                }
                1 => Outcome::Rejected(take_text(input)?.to_owned()),
                other => return Err(format!("outcome {other} of an upload; allowed: 0 and 1")),
            });
        }
        for _ in 0..take_number(input)? {
            let key = take_blob(input)?.into();
            let upload = take_number(input)?;
            head.keys.push((key, upload, take_number(input)?));
        }
        for _ in 0..take_number(input)? {
            let source = take_text(input)?.to_owned();
            head.sources.push((source, take_blob(input)?.to_vec()));
        }
        if head.uploads.len() as u64 > head.position {
            return Err("more uploads than there can be".to_owned());
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            batch: 7,
            position: 300,
            uploads: vec![
                Outcome::Applied { records: 1000, rejected: 2 },
                Outcome::Rejected("it is no XML".to_owned()),
            ],
            keys: vec![(b"key"[..].into(), 299, 1_700_000_000_000)],
            sources: vec![("stream".to_owned(), b"1-0".to_vec())],
        }
    }

    #[test]
    fn heads_come_back_and_no_cut_is_a_panic() {
        let mut bytes = Vec::new();
        head().push(&mut bytes);
        assert_eq!(Head::take(7, &mut &bytes[..]).expect("it is one"), head());
        for end in 0..bytes.len() {
            Head::take(7, &mut &bytes[..end]).expect_err("it is cut");
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = bytes.clone();
                changed[end] = value;
                let _ = Head::take(7, &mut &changed[..]);
            }
        }
    }

    #[test]
    fn definitions_come_back_and_no_cut_is_a_panic() {
        let key = vec![Column { name: "member".to_owned(), kind: ColumnKind::Text }];
        let columns = vec![("seen".to_owned(), ColumnKind::Integer, "count".to_owned())];
        let shape = Shape::new("t".to_owned(), RowsOf::Items, key, columns).expect("it is one");
        let definition = Definition { feed: "f".to_owned(), places: 2, tables: vec![shape] };
        let bytes = definition.encode();
        assert_eq!(Definition::decode(&bytes).expect("it is one"), definition);
        for end in 0..bytes.len() {
            Definition::decode(&bytes[..end]).expect_err("it is cut");
            let mut changed = bytes.clone();
            changed[end] ^= 0xff;
            let _ = Definition::decode(&changed);
        }
    }
}
