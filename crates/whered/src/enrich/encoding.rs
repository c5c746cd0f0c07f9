//! Text of other encodings as UTF-8.
//!
//! Not for finding an encoding out, but for UTF-16 with a byte order mark; UTF-16 without one is
//! refused. What is not text in its encoding becomes U+FFFD. Line ends that are a carriage return
//! alone become line feeds here as well.

use std::io::{self, Read};

use memchr::memchr;

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

/// How many bytes show UTF-16.
const UTF16_BYTES: usize = 512;

/// Refuses what looks like UTF-16 without a byte order mark: nearly every other byte is zero.
///
/// # Errors
/// That it does.
pub(crate) fn refuse_utf16(head: &[u8]) -> io::Result<()> {
    let head = head.get(..head.len().min(UTF16_BYTES) & !1).unwrap_or_default();
    if head.len() < 4 || marked(head).is_some() {
        return Ok(());
    }
    let zeros = |first: usize| head.iter().skip(first).step_by(2).filter(|&&b| b == 0).count();
    let (first, second, units) = (zeros(0), zeros(1), head.len() / 2);
    let name = match (first, second) {
        (0, second) if 4 * second >= 3 * units => "utf-16le",
        (first, 0) if 4 * first >= 3 * units => "utf-16be",
        _ => return Ok(()),
    };
    let message = format!(
        "looks like UTF-16 without a byte order mark; allowed: --encoding {name}, or UTF-8"
    );
    Err(io::Error::new(io::ErrorKind::InvalidData, message))
}

/// Whether lines end with a carriage return alone, as far as can be seen.
pub(crate) fn has_returns_alone(head: &[u8]) -> bool {
    let rest = memchr(b'\r', head).and_then(|at| head.get(at + 1..)).unwrap_or_default();
    !rest.is_empty() && memchr(b'\n', head).is_none()
}

/// Reads lines that end with a carriage return as lines that end with a line feed. One that follows
/// a carriage return is of the same line end.
pub(crate) struct ReturnsReader<R> {
    inner: R,
    is_behind_return: bool,
}

impl<R: Read> ReturnsReader<R> {
    pub(crate) fn new(inner: R) -> ReturnsReader<R> {
        ReturnsReader { inner, is_behind_return: false }
    }
}

impl<R: Read> Read for ReturnsReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.inner.read(buffer)?;
            let mut kept = 0;
            for at in 0..read {
                let Some(&byte) = buffer.get(at) else { break };
                let is_second = self.is_behind_return && byte == b'\n';
                self.is_behind_return = byte == b'\r';
                if let Some(place) = buffer.get_mut(kept).filter(|_| !is_second) {
                    *place = if byte == b'\r' { b'\n' } else { byte };
                    kept += 1;
                }
            }
            if kept > 0 || read == 0 {
                return Ok(kept);
            }
        }
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
    fn utf_16_without_a_mark_is_refused_with_its_name_and_other_text_is_not() {
        let text = "8.8.8.8 é\n";
        let units =
            |order: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(order).collect::<Vec<u8>>();
        for (bytes, name) in
            [(units(u16::to_le_bytes), "utf-16le"), (units(u16::to_be_bytes), "utf-16be")]
        {
            let message = refuse_utf16(&bytes).unwrap_err().to_string();
            assert!(message.contains(&format!("; allowed: --encoding {name}, ")), "{message}");
            refuse_utf16(&[b"\xff\xfe", bytes.as_slice()].concat()).unwrap();
        }
        for bytes in [text.as_bytes(), b"", b"a\0", b"a\0b", b"\0\0\0\0", b"8.8.8.8\0\0\0"] {
            refuse_utf16(bytes).unwrap();
        }
    }

    #[test]
    fn returns_alone_end_lines_and_one_before_a_line_feed_does_not_end_two() {
        for (text, is_alone) in
            [("a\rb\r", true), ("a\rb", true), ("a\r", false), ("a\r\nb\r", false), ("a", false)]
        {
            assert_eq!(has_returns_alone(text.as_bytes()), is_alone, "{text:?}");
        }
        for size in [1, 2, 3, 100] {
            let (mut reader, mut out) = (ReturnsReader::new(&b"a\rb\r\nc\r\rd"[..]), Vec::new());
            let mut piece = vec![0; size];
            while let count @ 1.. = reader.read(&mut piece).unwrap() {
                out.extend_from_slice(&piece[..count]);
            }
            assert_eq!(out, b"a\nb\nc\n\nd");
        }
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
