//! The end of a legacy file: which edition it is, where records begin, and its copyright text.
//!
//! Not for records. Everything is read from the last [`TAIL_BYTES`] bytes, with libGeoIP's rules:
//!
//! ```text
//! ... | 00 00 00 | copyright text | FF FF FF | edition (1) | nodes (3): editions with offsets |
//! ```
//!
//! The marker is the last `FF FF FF` that begins within the last 22 bytes; numbers from 106 on mean
//! the number minus 105. A file without a marker is a country file, whatever it holds, unless it is
//! too short to be searched. A file whose nodes would not fit into it is refused.

use crate::editions::{self, Edition};

/// As much of a file's end as is read to recognise it.
pub(crate) const TAIL_BYTES: usize = 160;

/// How many places, from three bytes before the end backwards, the marker may begin at.
const MARKER_PLACES: usize = 20;

/// As long a file without a marker is at least.
const UNMARKED_BYTES: u64 = (MARKER.len() + MARKER_PLACES) as u64;

/// How many places before the marker the zero bytes in front of the text may begin at.
const INFO_PLACES: usize = 100;

const MARKER: [u8; 3] = [0xff; 3];

/// The structure information at a file's end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) edition: &'static Edition,
    /// The first number in the tree that is no node.
    pub(crate) base: u32,
    pub(crate) size_bytes: u64,
}

impl Layout {
    /// Recognises a file by its end and size. `None`: it is too short, or of an edition that is not
    /// read.
    pub(crate) fn read(tail: &[u8], size_bytes: u64) -> Option<Layout> {
        if size_bytes <= MARKER.len() as u64 {
            return None;
        }
        let marker = find_marker(tail);
        if marker.is_none() && size_bytes < UNMARKED_BYTES {
            return None;
        }
        let number = match marker {
            None => editions::COUNTRY,
            Some(at) => match *tail.get(at + MARKER.len())? {
                number @ 106.. => number - 105,
                number => number,
            },
        };
        let edition = editions::read(number)?;
        let base = match (edition.base, marker) {
            (Some(base), _) => base,
            (None, Some(at)) => {
                let at = at + MARKER.len() + 1;
                let &[low, middle, high] = tail.get(at..at + 3)? else { return None };
                u32::from_le_bytes([low, middle, high, 0])
            }
            (None, None) => return None,
        };
        if edition.has_offsets() && u64::from(base) * edition.node_bytes() > size_bytes {
            return None;
        }
        Some(Layout { edition, base, size_bytes })
    }

    /// Where in the file the record of a number behind the tree begins.
    pub(crate) fn record_offset(&self, number: u32) -> u64 {
        let before = (self.edition.node_bytes() - 1) * u64::from(self.base);
        u64::from(number) + before
    }
}

/// Whether a file's end has the marker.
pub(crate) fn is_marked(tail: &[u8]) -> bool {
    find_marker(tail).is_some()
}

/// Where in the file's end the marker begins.
fn find_marker(tail: &[u8]) -> Option<usize> {
    let last = tail.len().checked_sub(MARKER.len())?;
    let first = last.saturating_sub(MARKER_PLACES - 1);
    (first..=last).rev().find(|&at| tail.get(at..at + 3) == Some(&MARKER))
}

/// The copyright text; `None` if nothing in front of the marker ends it.
pub(crate) fn info(tail: &[u8]) -> Option<&[u8]> {
    let end = find_marker(tail).unwrap_or(tail.len());
    let last = end.checked_sub(3)?;
    let first = last.saturating_sub(INFO_PLACES - 1);
    let zeros = (first..=last).rev().find(|&at| tail.get(at..at + 3) == Some(&[0; 3]))?;
    tail.get(zeros + 3..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_nearest_to_the_end_says_the_edition() {
        let layout = |bytes: &[u8]| {
            Layout::read(bytes, bytes.len() as u64)
                .map(|layout| (layout.edition.number, layout.base))
        };
        assert_eq!(layout(&[b'a'; 23]), Some((1, 16_776_960)));
        assert_eq!(layout(&[b'a'; 22]), None);
        assert_eq!(layout(b"\xff\xff\xff\x01"), Some((1, 16_776_960)));
        assert_eq!(layout(b"12345\xff\xff\xff\x02\x02\x00\x00"), Some((2, 2)));
        assert_eq!(layout(b"1234\xff\xff\xff\x02\x02\x00\x00"), None);
        assert_eq!(layout(b"\xff\xff\xff\x02\x05\x01"), None);
        assert_eq!(layout(b"\xff\xff\xff\x6c"), Some((3, 16_000_000)));
        for number in [0, 15, 16, 19, 20, 25, 39, 105, 255] {
            assert_eq!(layout(&[0xff, 0xff, 0xff, number, 0, 0, 0]), None, "{number}");
        }
    }

    #[test]
    fn the_copyright_text_is_between_three_zero_bytes_and_the_marker() {
        assert_eq!(info(b"xx\0\0\0text\xff\xff\xff\x01"), Some(&b"text"[..]));
        assert_eq!(info(b"xx\0\0\0text"), Some(&b"text"[..]));
        assert_eq!(info(b"text\xff\xff\xff\x01"), None);
    }
}
