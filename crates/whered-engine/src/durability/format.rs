//! What the blocks of a snapshot hold; the bytes around them are `whered-store`'s.
//!
//! ```text
//! kind 1  values     { role u8 | form u8 | number u8 | expires_at_millis u64 (0: never) | key | body }*
//!                    role: 0 base, 1 image, 2 exact (see `keyspace/saving.rs`; images and exact
//!                          ones stand in the order of the operations)
//!                    form: 0 none (the key went)   body: -
//!                          1 text                  body: bytes
//!                          2 scores                body: bytes = { score f64 | member }*
//!                          3 points elsewhere      body: item u32
//!                          4 scores elsewhere      body: item u32
//! kind 2  settings   { kind u16 | payload as bytes }*       operations on what is no key
//! kind 3  points     item u32 | format u32 | leaf pages (whered-geo says how)
//! kind 4  scores     item u32 | zero u32 | { score f64 | member }*
//! kind 5  feed       feed | batch | head           as in its entries of the journal (feeds/entry.rs)
//! kind 6  members    feed | { name }*              (feeds/places_wire.rs)
//! kind 7  places     feed | { member | batch | values }*
//! kind 8  rows       feed | table | { row }*       (tables/wire.rs)
//! kind 65535 cold    the file's name (whered-store) | feed | batch | bytes in memory    for 6 to 8
//! ```
//! Numbers are little endian, bytes and keys are `length u32 | bytes` as in the journal. A large
//! value lies in any number of blocks of kind 3 or 4 with its item's number; blocks of an item
//! that no value names are of no use (its value changed its kind while it was being saved).
//! Invariant: every item is named once.

use whered_geo::Cell;

use crate::journal::operation::{Decoder, Encoder};
use crate::keyspace::saving::Role;

/// Blocks of this kind hold values.
pub(super) const VALUES_KIND: u16 = 1;
/// Operations on what is no key.
pub(super) const SETTINGS_KIND: u16 = 2;
/// Leaf pages of a point index.
pub(super) const POINTS_KIND: u16 = 3;
/// Rows of a plain sorted set.
pub(super) const SCORES_KIND: u16 = 4;

/// What a feed remembers.
pub(super) const FEED_KIND: u16 = 5;
/// The names of a feed's members.
pub(super) const FEED_MEMBERS_KIND: u16 = 6;
/// A feed's places.
pub(super) const FEED_PLACES_KIND: u16 = 7;
/// Rows of a feed's table.
pub(super) const FEED_ROWS_KIND: u16 = 8;

/// How many bytes blocks of kind 3 and 4 begin with.
pub(super) const ITEM_HEAD_BYTES: usize = 8;

/// One value in a block of kind 1.
#[derive(Debug, PartialEq)]
pub(super) struct Record<'a> {
    pub(super) role: Role,
    pub(super) number: u8,
    pub(super) key: &'a [u8],
    pub(super) expires_at_millis: Option<u64>,
    pub(super) body: Body<'a>,
}

/// What a value holds, or where it is.
#[derive(Debug, PartialEq)]
pub(super) enum Body<'a> {
    Nothing,
    Text(&'a [u8]),
    Scores(Vec<(&'a [u8], f64)>),
    PointsItem(u32),
    ScoresItem(u32),
}

impl Record<'_> {
    pub(super) fn encode(&self, out: &mut Encoder) {
        out.u8(match self.role {
            Role::Base => 0,
            Role::Image => 1,
            Role::Exact => 2,
        });
        out.u8(match self.body {
            Body::Nothing => 0,
            Body::Text(_) => 1,
            Body::Scores(_) => 2,
            Body::PointsItem(_) => 3,
            Body::ScoresItem(_) => 4,
        });
        out.u8(self.number);
        out.u64(self.expires_at_millis.unwrap_or(0));
        out.bytes(self.key);
        match &self.body {
            Body::Nothing => {}
            Body::Text(text) => out.bytes(text),
            Body::Scores(rows) => {
                let mut list = Encoder(Vec::new());
                rows.iter().for_each(|(member, score)| encode_row(&mut list, member, *score));
                out.bytes(&list.0);
            }
            Body::PointsItem(item) | Body::ScoresItem(item) => {
                out.0.extend_from_slice(&item.to_le_bytes());
            }
        }
    }
}

/// One member and its score.
pub(super) fn encode_row(out: &mut Encoder, member: &[u8], score: f64) {
    out.u64(score.to_bits());
    out.bytes(member);
}

/// The records of a block of kind 1.
pub(super) fn decode_values<'a>(
    bytes: &'a [u8],
    mut take: impl FnMut(Record<'a>) -> Result<(), String>,
) -> Result<(), String> {
    let mut input = Decoder { bytes, offset: 0, kind: VALUES_KIND };
    while !input.at_end() {
        let role = match input.u8()? {
            0 => Role::Base,
            1 => Role::Image,
            2 => Role::Exact,
            other => return Err(input.wrong(&format!("role {other}; allowed: 0 to 2"))),
        };
        let form = input.u8()?;
        let number = input.number(false)?;
        let expires_at_millis = input.expiry()?;
        let key = input.bytes()?;
        let body = match form {
            0 => Body::Nothing,
            1 => Body::Text(input.bytes()?),
            2 => Body::Scores(decode_rows(input.bytes()?)?),
            3 => Body::PointsItem(input.u32()?),
            4 => Body::ScoresItem(input.u32()?),
            other => return Err(input.wrong(&format!("form {other}; allowed: 0 to 4"))),
        };
        take(Record { role, number, key, expires_at_millis, body })?;
    }
    Ok(())
}

/// Members and scores to the end of the bytes.
pub(super) fn decode_rows(bytes: &[u8]) -> Result<Vec<(&[u8], f64)>, String> {
    Ok(Decoder { bytes, offset: 0, kind: SCORES_KIND }.scores()?.into_owned())
}

/// The operations of a block of kind 2: kind and payload each.
pub(super) fn decode_settings(
    bytes: &[u8],
    mut take: impl FnMut(u16, &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let mut input = Decoder { bytes, offset: 0, kind: SETTINGS_KIND };
    while !input.at_end() {
        let kind = input.u16()?;
        take(kind, input.bytes()?)?;
    }
    Ok(())
}

/// The head of a block of kind 3 or 4.
pub(super) fn item_head(item: u32, format: u32) -> [u8; ITEM_HEAD_BYTES] {
    let mut head = [0; ITEM_HEAD_BYTES];
    head[..4].copy_from_slice(&item.to_le_bytes());
    head[4..].copy_from_slice(&format.to_le_bytes());
    head
}

/// Item and format, and what follows them.
pub(super) fn split_item(bytes: &[u8]) -> Result<(u32, u32, &[u8]), String> {
    let Some((head, rest)) = bytes.split_first_chunk::<ITEM_HEAD_BYTES>() else {
        return Err(format!("a block of {} bytes has no item number", bytes.len()));
    };
    let [a, b, c, d, e, f, g, h] = *head;
    Ok((u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]), rest))
}

/// The score of a cell.
pub(super) fn score_of(cell: Cell) -> f64 {
    cell.bits() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_no_changed_length_is_a_panic() {
        let records = [
            Record {
                role: Role::Base,
                number: 3,
                key: b"towns",
                expires_at_millis: Some(17),
                body: Body::Scores(vec![(b"a", 1.5), (b"", -2.0)]),
            },
            Record {
                role: Role::Image,
                number: 0,
                key: b"",
                expires_at_millis: None,
                body: Body::PointsItem(7),
            },
            Record {
                role: Role::Image,
                number: 15,
                key: b"t",
                expires_at_millis: None,
                body: Body::Text(b"text"),
            },
        ];
        let mut out = Encoder(Vec::new());
        records.iter().for_each(|record| record.encode(&mut out));
        let mut index = 0;
        decode_values(&out.0, |record| {
            assert_eq!(record, records[index]);
            index += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(index, records.len());
        for end in 0..out.0.len() {
            // Between two records a cut cannot be seen here; the block's checksum sees it.
            let _ = decode_values(&out.0[..end], |_| Ok(()));
            let mut changed = out.0.clone();
            changed[end] ^= 0xff;
            let _ = decode_values(&changed, |_| Ok(()));
        }
    }
}
