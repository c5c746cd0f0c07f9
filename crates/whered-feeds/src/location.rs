//! Line and column of a byte of an upload.
//!
//! For: messages to people about records that are refused, which a scan names by their offset. Not
//! for: binary formats, which have no lines.
//!
//! Lines end with LF, CR LF or CR. Columns count characters, from 1. Cost: locations in ascending
//! order read the text once; one before the last begins anew.

use memchr::memchr2;

/// Where a byte of a text is, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The line, from 1.
    pub line: u64,
    /// The character in the line, from 1.
    pub column: u64,
}

/// Finds the locations of offsets in one text.
///
/// The text is what the scan reads: see [`Mapping::decoded`](crate::Mapping::decoded).
///
/// ```
/// use whered_feeds::{Location, Locator};
///
/// let mut locator = Locator::new("a,b\nä,x\n".as_bytes());
/// assert_eq!(locator.locate(0), Location { line: 1, column: 1 });
/// assert_eq!(locator.locate(7), Location { line: 2, column: 3 });
/// ```
#[derive(Clone, Debug)]
pub struct Locator<'a> {
    text: &'a [u8],
    /// What is counted so far: up to this byte, the start of a line or a byte in it.
    counted: usize,
    /// Of that byte.
    location: Location,
}

const START: Location = Location { line: 1, column: 1 };

impl<'a> Locator<'a> {
    /// A locator of a text.
    #[must_use]
    pub fn new(text: &'a [u8]) -> Locator<'a> {
        Locator { text, counted: 0, location: START }
    }

    /// The location of a byte; one behind the end is at the end.
    pub fn locate(&mut self, offset_bytes: u64) -> Location {
        let offset = usize::try_from(offset_bytes).unwrap_or(usize::MAX).min(self.text.len());
        if offset < self.counted {
            (self.counted, self.location) = (0, START);
        }
        while let Some(end) = memchr2(b'\n', b'\r', &self.text[self.counted..offset]) {
            let end = self.counted + end;
            let is_pair = self.text[end] == b'\r' && self.text.get(end + 1) == Some(&b'\n');
            let next = end + 1 + usize::from(is_pair);
            if next > offset {
                // The offset is between the CR and the LF of one line end.
                break;
            }
            self.location = Location { line: self.location.line + 1, column: 1 };
            self.counted = next;
        }
        // Every byte but the further ones of a character in UTF-8.
        let characters =
            self.text[self.counted..offset].iter().filter(|byte| **byte & 0xc0 != 0x80);
        self.location.column += characters.count() as u64;
        self.counted = offset;
        self.location
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slow twin: counts from the beginning each time.
    fn counted(text: &str, offset: usize) -> Location {
        let before = text[..offset].replace("\r\n", "\n");
        let before = match (before.ends_with('\r'), text[offset..].starts_with('\n')) {
            // Between the two bytes of one line end.
            (true, true) => before[..before.len() - 1].replace('\r', "\n") + "x",
            _ => before.replace('\r', "\n"),
        };
        let line = before.matches('\n').count() as u64 + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() as u64 + 1;
        Location { line, column }
    }

    #[test]
    fn every_line_end_counts_once_and_every_character_is_a_column() {
        for text in
            ["", "a", "a\nb\n", "a\r\nb\r\n\r\nc", "a\rb\rc", "ä€😀x\nü\r\n😀z", "\n\n\r\r\n"]
        {
            let offsets = (0..=text.len()).filter(|at| text.is_char_boundary(*at));
            let offsets: Vec<usize> = offsets.collect();
            let mut locator = Locator::new(text.as_bytes());
            for &at in &offsets {
                assert_eq!(locator.locate(at as u64), counted(text, at), "{text:?} {at}");
            }
            for &at in offsets.iter().rev() {
                assert_eq!(locator.locate(at as u64), counted(text, at), "{text:?} {at}, back");
            }
        }
        let mut locator = Locator::new(b"a\r\nb");
        let between = locator.locate(2);
        assert_eq!((between, locator.locate(3).line), (Location { line: 1, column: 3 }, 2));
        assert_eq!(Locator::new(b"a\nb").locate(u64::MAX), Location { line: 2, column: 2 });
    }

    #[test]
    fn many_locations_in_a_text_of_one_line_or_of_line_ends_alone_take_one_pass() {
        let (lines, line) = (vec![b'\n'; 1 << 20], vec![b'x'; 1 << 20]);
        let (mut in_lines, mut in_line) = (Locator::new(&lines), Locator::new(&line));
        for at in 0..1 << 20 {
            assert_eq!(in_lines.locate(at), Location { line: at + 1, column: 1 });
            assert_eq!(in_line.locate(at), Location { line: 1, column: at + 1 });
        }
    }
}
