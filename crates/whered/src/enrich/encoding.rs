//! Text of other encodings as UTF-8.
//!
//! Not for finding an encoding out, but for UTF-16 with a byte order mark. What is not text in its
//! encoding becomes U+FFFD.

use std::io::{self, Read};

use crate::cli::Encoding;

/// How much is read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Reads an encoding as UTF-8.
pub(crate) struct DecodingReader<R> {
    inner: R,
    encoding: Encoding,
    piece: Vec<u8>,
    /// A byte or a surrogate that waits for what follows it.
    odd_byte: Option<u8>,
    surrogate: Option<u16>,
    out: String,
    taken: usize,
    is_at_end: bool,
}

/// The encoding that a byte order mark says.
pub(crate) fn marked(head: &[u8]) -> Option<Encoding> {
    match head {
        [0xff, 0xfe, ..] => Some(Encoding::Utf16le),
        [0xfe, 0xff, ..] => Some(Encoding::Utf16be),
        _ => None,
    }
}

impl<R: Read> DecodingReader<R> {
    pub(crate) fn new(inner: R, encoding: Encoding) -> DecodingReader<R> {
        DecodingReader {
            inner,
            encoding,
            piece: Vec::new(),
            odd_byte: None,
            surrogate: None,
            out: String::new(),
            taken: 0,
            is_at_end: false,
        }
    }

    fn decode(&mut self, bytes: &[u8]) {
        if self.encoding == Encoding::Iso88591 {
            self.out.extend(bytes.iter().map(|&byte| char::from(byte)));
            return;
        }
        for &byte in bytes {
            let Some(first) = self.odd_byte.take() else {
                self.odd_byte = Some(byte);
                continue;
            };
            let unit = match self.encoding {
                Encoding::Utf16be => u16::from_be_bytes([first, byte]),
                _ => u16::from_le_bytes([first, byte]),
            };
            self.push_utf16(unit);
        }
    }

    fn push_utf16(&mut self, unit: u16) {
        let before = self.surrogate.take();
        if before.is_none() && (0xd800..0xdc00).contains(&unit) {
            self.surrogate = Some(unit);
            return;
        }
        for letter in char::decode_utf16(before.into_iter().chain([unit])) {
            match letter {
                Ok(letter) => self.out.push(letter),
                Err(_) => self.out.push(char::REPLACEMENT_CHARACTER),
            }
        }
    }

    /// What waits for more at the end is no text.
    fn end(&mut self) {
        let is_odd = self.odd_byte.take().is_some() | self.surrogate.take().is_some();
        if is_odd {
            self.out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

impl<R: Read> Read for DecodingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.out.len() && !self.is_at_end {
            self.out.clear();
            self.taken = 0;
            let mut piece = std::mem::take(&mut self.piece);
            piece.resize(PIECE_BYTES, 0);
            let read = self.inner.read(&mut piece);
            let count = *read.as_ref().unwrap_or(&0);
            self.decode(piece.get(..count).unwrap_or_default());
            self.piece = piece;
            if read? == 0 {
                self.is_at_end = true;
                self.end();
            }
        }
        let rest = self.out.as_bytes().get(self.taken..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8], encoding: Encoding) -> String {
        let mut out = String::new();
        DecodingReader::new(bytes, encoding).read_to_string(&mut out).unwrap();
        out
    }

    #[test]
    fn text_of_each_encoding_is_utf_8_and_what_is_none_is_replaced() {
        let text = "8.8.8.8 é☃😀\n";
        let units =
            |order: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(order).collect::<Vec<u8>>();
        assert_eq!(decoded(&units(u16::to_le_bytes), Encoding::Utf16le), text);
        assert_eq!(decoded(&units(u16::to_be_bytes), Encoding::Utf16be), text);
        assert_eq!(decoded(b"8.8.8.8 \xe9\n", Encoding::Iso88591), "8.8.8.8 é\n");
        let whole = units(u16::to_le_bytes);
        for size in 0..whole.len() {
            let cut = decoded(&whole[..size], Encoding::Utf16le);
            let kept = cut.trim_end_matches(char::REPLACEMENT_CHARACTER);
            assert!(text.starts_with(kept), "{size}");
        }
        assert_eq!(decoded(&[0, 0xdc, b'a', 0], Encoding::Utf16le), "\u{fffd}a");
        assert_eq!(decoded(&[0, 0xd8, b'a', 0], Encoding::Utf16le), "\u{fffd}a");
    }
}
