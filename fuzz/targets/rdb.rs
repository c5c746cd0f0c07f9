//! Any bytes as a dump of Redis or Valkey: an error or keys, never a panic, a hang or much memory;
//! the same whatever sizes the pieces have that it comes in.
//!
//! ```text
//! input: | magic, or 7 for a payload of DUMP | size of a piece | bytes behind the magic ... |
//! ```
#![no_main]

use std::io::{self, Read};

use libfuzzer_sys::fuzz_target;
use whered_replication::rdb::{Event, Limits, Reader};

const MAGICS: [&[u8]; 5] = [b"", b"REDIS0003", b"REDIS0010", b"REDIS0012", b"VALKEY080"];
const LIMITS: Limits = Limits { name_bytes_max: 1 << 16, value_bytes_max: 1 << 20 };

/// Gives the bytes in pieces.
struct Pieces<'a> {
    bytes: &'a [u8],
    size: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = buffer.len().min(self.size);
        self.bytes.read(&mut buffer[..size])
    }
}

fuzz_target!(|input: &[u8]| {
    let [magic, size, rest @ ..] = input else { return };
    if magic % 8 == 7 {
        if let Ok(reader) = Reader::of_payload(rest, LIMITS) {
            keys_of(reader);
        }
        return;
    }
    let magic = MAGICS.get(usize::from(magic % 8)).copied().unwrap_or_default();
    let bytes = [magic, rest].concat();
    let read = |size| keys_of(Reader::new(Pieces { bytes: &bytes, size }, LIMITS).ok()?);
    let whole = read(usize::MAX);
    assert!(whole == read(usize::from(*size) + 1), "other keys in pieces");
});

/// How many bytes the events hold, if the dump is whole.
fn keys_of<R: Read>(mut reader: Reader<R>) -> Option<u64> {
    let mut bytes = 0;
    while let Some(event) = reader.next_event().ok()? {
        bytes += match event {
            Event::Note { name, value } => name.len() + value.len(),
            Event::SlotImport { name, ranges } => name.len() + ranges.len(),
            Event::Text { key, value } => key.name.len() + value.len(),
            Event::SortedSet { key, .. } | Event::Skipped { key, .. } => key.name.len(),
            Event::Member { member, score } => {
                assert!(!score.is_nan(), "a score that is no number");
                member.len()
            }
            Event::SortedSetEnd => 1,
        } as u64;
    }
    Some(bytes)
}
