//! Any bytes as a packed file: an error or the bytes inside, never a panic, a hang or much memory;
//! the same whatever sizes the pieces have that the stream comes in.
//!
//! Not for what is in the file.
//!
//! ```text
//! input: | packing | size of a piece | bytes, or what is behind the packing's first bytes ... |
//! ```
#![no_main]

use std::io::{self, Read};

use libfuzzer_sys::fuzz_target;
use whered_connect::unpack::unpacked;

/// How much is unpacked at most: small inputs can hold gigabytes.
const UNPACKED_BYTES_MAX: u64 = 1 << 20;

/// The first bytes of each packing.
const HEADS: [&[u8]; 6] = [
    b"",
    b"\x1f\x8b\x08\0\0\0\0\0\0\x03",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46",
    b"BZh11AY&SY",
    b"\x04\x22\x4d\x18\x64\x40\xa7",
];

/// Gives the bytes in pieces.
struct Pieces {
    bytes: io::Cursor<Vec<u8>>,
    size: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = buffer.len().min(self.size);
        self.bytes.read(&mut buffer[..size])
    }
}

fuzz_target!(|input: &[u8]| {
    let [packing, size, rest @ ..] = input else { return };
    let head = HEADS.get(usize::from(packing % 8)).copied().unwrap_or_default();
    let bytes = [head, rest].concat();
    let whole = read(bytes.clone(), usize::MAX);
    let in_pieces = read(bytes, usize::from(*size) + 1);
    assert_eq!(whole.is_some(), in_pieces.is_some());
    if let (Some(whole), Some(in_pieces)) = (whole, in_pieces) {
        assert!(whole == in_pieces, "other bytes in pieces");
    }
});

/// What is inside, if it is whole.
fn read(bytes: Vec<u8>, size: usize) -> Option<Vec<u8>> {
    let stream = Pieces { bytes: io::Cursor::new(bytes), size };
    let (stream, _) = unpacked(Box::new(stream), Default::default()).ok()?;
    let mut inside = Vec::new();
    stream.take(UNPACKED_BYTES_MAX).read_to_end(&mut inside).ok()?;
    Some(inside)
}
