//! Any bytes as text of an encoding, with any line ends, and as JSON of any form: UTF-8 comes
//! out of UTF-16, one line of each record out of JSON, and the same whatever sizes the pieces have.
//!
//! Not for what records mean, nor for the program around the readers, which is no library: they are
//! compiled in here by their paths.
//!
//! ```text
//! input: | switches | size of a piece | bytes ... |
//! ```
#![no_main]

#[allow(dead_code, reason = "the program uses more of it")]
#[path = "../../crates/whered/src/enrich/encoding.rs"]
mod encoding;
#[allow(dead_code, reason = "the program uses more of it")]
#[path = "../../crates/whered/src/enrich/json_records.rs"]
mod json_records;

/// The program's own names of encodings.
mod cli {
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[allow(dead_code, reason = "nothing decodes it")]
    pub(crate) enum Encoding {
        Utf8,
        Utf16le,
        Utf16be,
        Iso88591,
    }
}

use std::io::Read;

use encoding::{DecodingReader, ReturnsReader, has_returns_alone, marked, refuse_utf16};
use json_records::{Form, JsonRecords};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [switches, size, bytes @ ..] = input else { return };
    let pieces = || Pieces { bytes, size: usize::from(*size) + 1 };
    let encoding = match switches & 3 {
        0 => cli::Encoding::Utf16le,
        1 => cli::Encoding::Utf16be,
        _ => cli::Encoding::Iso88591,
    };
    let text = all(DecodingReader::new(bytes, encoding));
    assert!(std::str::from_utf8(&text).is_ok());
    assert!(text == all(DecodingReader::new(pieces(), encoding)));
    let _ = (marked(bytes), refuse_utf16(bytes), has_returns_alone(bytes));
    let lines = all(ReturnsReader::new(bytes));
    assert!(!lines.contains(&b'\r') && lines.len() <= bytes.len());
    assert!(lines == all(ReturnsReader::new(pieces())));
    let forms = [Form::Objects, Form::Array, Form::Wrapped];
    let form = Form::of(bytes).or_else(|| forms.get(usize::from(switches >> 2 & 3)).copied());
    let _ = Form::is_decided(bytes);
    let Some(form) = form else { return };
    let records = all(JsonRecords::new(bytes, form));
    assert!(records == all(JsonRecords::new(pieces(), form)));
    assert!(records.is_empty() || records.ends_with(b"\n"));
    assert!(records.len() <= 2 * bytes.len() + 1);
});

/// Gives the bytes in pieces.
struct Pieces<'a> {
    bytes: &'a [u8],
    size: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let size = buffer.len().min(self.size);
        self.bytes.read(&mut buffer[..size])
    }
}

fn all(mut reader: impl Read) -> Vec<u8> {
    let mut out = Vec::new();
    reader.read_to_end(&mut out).expect("bytes in memory are read");
    out
}
