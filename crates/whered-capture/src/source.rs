//! The one buffer between a reader and the formats.
//!
//! For: reading a number of bytes, or a line, and looking at them in place. Not for meaning.
//!
//! ```text
//! buffer: [ consumed | available             | free ]
//!                    ^start                  ^end   ^len
//!                    `offset` in the source
//! ```
//!
//! Invariants: start <= end <= len; the buffer doubles only when it is full of bytes that have
//! arrived and are still wanted, so a declared length alone never allocates. Bytes are moved to
//! the front only when the end is reached. Cost: one copy of each byte, by the reader itself.

use std::io::{self, Read};
use std::ops::Range;

/// The longest record of pcap or block of pcapng that is looked at; others are hostile.
pub const RECORD_SIZE_MAX_BYTES: usize = 16 << 20;
/// The longest line of a text format.
pub const LINE_SIZE_MAX_BYTES: usize = 1 << 20;

const BUFFER_SIZE_BYTES: usize = 256 << 10;

pub(crate) struct Source<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
    is_ended: bool,
}

impl<R: Read> Source<R> {
    pub(crate) fn new(reader: R) -> Self {
        let buffer = vec![0; BUFFER_SIZE_BYTES];
        Source { reader, buffer, start: 0, end: 0, offset: 0, is_ended: false }
    }

    /// Waits for `count` bytes and returns what there is: fewer only at the end of the source.
    #[inline]
    pub(crate) fn fill(&mut self, wanted: usize) -> io::Result<&[u8]> {
        while self.end - self.start < wanted && !self.is_ended {
            self.read_more()?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    #[cold]
    fn read_more(&mut self) -> io::Result<()> {
        if self.end == self.buffer.len() {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            } else {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
        }
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.is_ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }

    /// Whether there are bytes that were not taken away.
    pub(crate) fn has_buffered(&self) -> bool {
        self.start < self.end
    }

    /// Takes bytes away that were filled before.
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        assert!(count <= self.end - self.start, "only what was filled is consumed");
        self.start += count;
        self.offset += count as u64;
    }

    /// Takes bytes away that need not be there yet; false if the source ends first.
    pub(crate) fn skip(&mut self, count: u64) -> io::Result<bool> {
        let mut left = count;
        while left > 0 {
            let available = self.fill(1)?.len();
            if available == 0 {
                return Ok(false);
            }
            let step = usize::try_from(left).map_or(available, |left| left.min(available));
            self.consume(step);
            left -= step as u64;
        }
        Ok(true)
    }

    /// The next line without its end, taken away; look at it by [`Source::bytes`] before the next
    /// call. `Some(None)` is a line beyond the limit.
    pub(crate) fn take_line(&mut self) -> io::Result<Option<Option<Range<usize>>>> {
        let mut searched = 0;
        loop {
            let available = &self.buffer[self.start..self.end];
            let found = memchr::memchr(b'\n', &available[searched..]).map(|at| searched + at);
            searched = available.len();
            if found.unwrap_or(searched) > LINE_SIZE_MAX_BYTES {
                return Ok(Some(None));
            }
            let (size, taken) = match found {
                Some(size) => (size, size + 1),
                None if self.is_ended && searched == 0 => return Ok(None),
                None if self.is_ended => (searched, searched),
                None => {
                    self.read_more()?;
                    continue;
                }
            };
            let mut line = self.start..self.start + size;
            self.consume(taken);
            if self.buffer[line.clone()].ends_with(b"\r") {
                line.end -= 1;
            }
            return Ok(Some(Some(line)));
        }
    }

    /// The bytes of a line that was taken.
    #[inline]
    pub(crate) fn bytes(&self, place: Range<usize>) -> &[u8] {
        &self.buffer[place]
    }

    /// How many bytes have been taken away.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wanted_length_alone_never_allocates() {
        let mut source = Source::new(&[7; 1000][..]);
        assert_eq!(source.fill(RECORD_SIZE_MAX_BYTES).expect("bytes").len(), 1000);
        assert_eq!(source.buffer.len(), BUFFER_SIZE_BYTES);

        let bytes = vec![7; 3 << 20];
        let mut source = Source::new(&bytes[..]);
        assert_eq!(source.fill(RECORD_SIZE_MAX_BYTES).expect("bytes").len(), 3 << 20);
        assert!(source.buffer.len() <= 8 << 20, "at most twice of what came");
    }

    #[test]
    fn lines_end_at_the_end_too() {
        let mut source = Source::new(&b"one\r\n\ntwo"[..]);
        let mut lines = Vec::new();
        while let Some(place) = source.take_line().expect("lines") {
            lines.push(source.bytes(place.expect("a short one")).to_vec());
        }
        assert_eq!(lines, [&b"one"[..], b"", b"two"]);
        assert_eq!(source.offset(), 9);
    }
}
