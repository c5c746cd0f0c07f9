//! The writer: one value as `DUMP` gives it and `RESTORE` takes it.
//!
//! For: sorted sets and strings. Not for: whole dumps, other types, compression.
//!
//! ```text
//! type (1) │ value                                              │ version (2) │ CRC-64 (8)
//! 5        │ length, then member, score (8), the highest first  │             │
//! 0        │ length, bytes                                      │             │
//! ```
//!
//! The version is that of Redis 4.0, the first that has scores of eight bytes: every later one, and
//! every Valkey, takes it. Redis writes members by descending scores, since its reader then inserts
//! each one at the front. Cost: one pass and the CRC-64.

use crc_fast::{CrcAlgorithm, checksum};

/// The type of a string.
const STRING: u8 = 0;
/// The type of a sorted set whose scores are eight bytes.
const SORTED_SET: u8 = 5;
/// The lowest version of the format that has both.
const VERSION: u16 = 8;
/// A length and a score take no more.
const MEMBER_OVERHEAD_BYTES: usize = 17;
/// The type, a length, the version and the checksum take no more.
const PAYLOAD_OVERHEAD_BYTES: usize = 20;

/// The payload of a string.
#[must_use]
pub fn payload_of_text(text: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(text.len() + PAYLOAD_OVERHEAD_BYTES);
    payload.push(STRING);
    append_string(&mut payload, text);
    with_footer(payload)
}

/// The payload of a sorted set, whose members come by descending scores; `None` when it would take
/// more than `bytes_max`.
#[must_use]
pub fn payload_of_sorted_set<'a>(
    members: impl ExactSizeIterator<Item = (&'a [u8], f64)>,
    bytes_max: usize,
) -> Option<Vec<u8>> {
    let mut payload = vec![SORTED_SET];
    append_length(&mut payload, members.len() as u64);
    for (member, score) in members {
        let bytes = payload.len() + member.len() + MEMBER_OVERHEAD_BYTES + PAYLOAD_OVERHEAD_BYTES;
        if bytes > bytes_max {
            return None;
        }
        append_string(&mut payload, member);
        payload.extend_from_slice(&score.to_le_bytes());
    }
    Some(with_footer(payload))
}

fn with_footer(mut payload: Vec<u8>) -> Vec<u8> {
    payload.extend_from_slice(&VERSION.to_le_bytes());
    let sum = checksum(CrcAlgorithm::Crc64Redis, &payload);
    payload.extend_from_slice(&sum.to_le_bytes());
    payload
}

pub(super) fn append_string(payload: &mut Vec<u8>, text: &[u8]) {
    append_length(payload, text.len() as u64);
    payload.extend_from_slice(text);
}

/// A length in 6, 14, 32 or 64 bits.
pub(super) fn append_length(payload: &mut Vec<u8>, length: u64) {
    match length {
        0..0x40 => payload.push(length as u8),
        0x40..0x4000 => payload.extend_from_slice(&(length as u16 | 0x4000).to_be_bytes()),
        0x4000..=0xffff_ffff => {
            payload.push(0x80);
            payload.extend_from_slice(&(length as u32).to_be_bytes());
        }
        _ => {
            payload.push(0x81);
            payload.extend_from_slice(&length.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Event, Limits, Reader};
    use super::*;

    fn members_of(payload: &[u8]) -> Vec<(Vec<u8>, f64)> {
        let mut reader = Reader::of_payload(payload, Limits::default()).expect("a payload");
        let mut members = Vec::new();
        while let Some(event) = reader.next_event().expect("a value") {
            if let Event::Member { member, score } = event {
                members.push((member.to_vec(), score));
            }
        }
        members
    }

    #[test]
    fn a_sorted_set_is_read_back_with_every_length_and_score() {
        let lengths = [0, 1, 63, 64, 16383, 16384, 70_000];
        let scores = [f64::INFINITY, f64::MAX, 1e17, 0.1, 5e-324, 0.0, f64::NEG_INFINITY];
        let written: Vec<(Vec<u8>, f64)> = lengths
            .iter()
            .zip(scores)
            .map(|(length, score)| (vec![b'x'; *length], score))
            .collect();
        let members = written.iter().map(|(member, score)| (&member[..], *score));
        let payload = payload_of_sorted_set(members, usize::MAX).expect("no limit");
        assert_eq!(members_of(&payload), written);
    }

    #[test]
    fn a_string_is_read_back() {
        for text in [&b""[..], b"12", &[0xff; 20_000]] {
            let payload = payload_of_text(text);
            let mut reader = Reader::of_payload(&payload, Limits::default()).expect("a payload");
            let event = reader.next_event().expect("a value");
            assert!(matches!(event, Some(Event::Text { value, .. }) if value == text));
        }
    }

    #[test]
    fn a_sorted_set_beyond_the_limit_gives_nothing_and_never_takes_more_than_it() {
        let set = [(&b"member"[..], 1.0); 100];
        let whole = payload_of_sorted_set(set.into_iter(), usize::MAX).expect("no limit").len();
        for bytes_max in 0..whole + 100 {
            let payload = payload_of_sorted_set(set.into_iter(), bytes_max);
            assert!(payload.is_none_or(|payload| payload.len() <= bytes_max));
        }
        assert!(payload_of_sorted_set(set.into_iter(), whole + 100).is_some());
    }
}
