//! The bytes of a dump: a buffer over the input, the offset, and the CRC-64 of what was read.
//!
//! Invariant: `start..end` of the buffer is not read yet; `summed..start` is read, but not yet in
//! the sum. Nothing that is claimed is allocated: bytes are appended as they come.

use std::io::{self, Read};

use crc_fast::{CrcAlgorithm, Digest};

use super::error::RdbError;

/// How much is read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// A length, or how a short string is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Length {
    Plain(u64),
    Encoded(u8),
}

pub(super) struct Source<R> {
    inner: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    summed: usize,
    /// The offset of the buffer's first byte.
    base: u64,
    digest: Digest,
}

impl<R: Read> Source<R> {
    pub(super) fn new(inner: R) -> Source<R> {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        let digest = Digest::new(CrcAlgorithm::Crc64Redis);
        Source { inner, buffer, start: 0, end: 0, summed: 0, base: 0, digest }
    }

    pub(super) fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    pub(super) fn wrong<T>(&self, what: impl Into<String>) -> Result<T, RdbError> {
        Err(RdbError::new(self.offset(), what))
    }

    /// The input, and what was read of it beyond the dump.
    pub(super) fn into_parts(self) -> (R, Vec<u8>) {
        let rest = self.buffer[self.start..self.end].to_vec();
        (self.inner, rest)
    }

    pub(super) fn inner_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// The CRC-64 of all bytes that were read.
    pub(super) fn sum(&mut self) -> u64 {
        self.digest.update(&self.buffer[self.summed..self.start]);
        self.summed = self.start;
        self.digest.finalize()
    }

    /// Whether nothing follows.
    pub(super) fn is_at_end(&mut self) -> Result<bool, RdbError> {
        match self.refill() {
            Ok(()) => Ok(false),
            Err(error) if error.is_truncated() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Makes sure that there is a byte in the buffer.
    fn refill(&mut self) -> Result<(), RdbError> {
        if self.start < self.end {
            return Ok(());
        }
        self.digest.update(&self.buffer[self.summed..self.end]);
        self.base += self.end as u64;
        (self.start, self.end, self.summed) = (0, 0, 0);
        loop {
            match self.inner.read(&mut self.buffer) {
                Ok(0) => return Err(RdbError::ended(self.base)),
                Ok(read) => {
                    self.end = read;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(RdbError::input(self.base, error)),
            }
        }
    }

    pub(super) fn byte(&mut self) -> Result<u8, RdbError> {
        self.refill()?;
        let byte = self.buffer[self.start];
        self.start += 1;
        Ok(byte)
    }

    pub(super) fn exact(&mut self, into: &mut [u8]) -> Result<(), RdbError> {
        let mut filled = 0;
        while filled < into.len() {
            self.refill()?;
            let here = (self.end - self.start).min(into.len() - filled);
            into[filled..filled + here]
                .copy_from_slice(&self.buffer[self.start..self.start + here]);
            self.start += here;
            filled += here;
        }
        Ok(())
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], RdbError> {
        let mut array = [0; N];
        self.exact(&mut array)?;
        Ok(array)
    }

    pub(super) fn append(&mut self, count: u64, into: &mut Vec<u8>) -> Result<(), RdbError> {
        let mut left = count;
        while left > 0 {
            self.refill()?;
            let here = (self.end - self.start).min(usize::try_from(left).unwrap_or(usize::MAX));
            into.extend_from_slice(&self.buffer[self.start..self.start + here]);
            self.start += here;
            left -= here as u64;
        }
        Ok(())
    }

    pub(super) fn skip(&mut self, count: u64) -> Result<(), RdbError> {
        let mut left = count;
        while left > 0 {
            self.refill()?;
            let here = (self.end - self.start).min(usize::try_from(left).unwrap_or(usize::MAX));
            self.start += here;
            left -= here as u64;
        }
        Ok(())
    }

    /// `00` and 6 bits, `01` and 14, `80` and 32, `81` and 64, or `11` and an encoding.
    pub(super) fn length_or_encoding(&mut self) -> Result<Length, RdbError> {
        let first = self.byte()?;
        Ok(match (first >> 6, first) {
            (0, _) => Length::Plain(u64::from(first)),
            (1, _) => Length::Plain(u64::from(u16::from_be_bytes([first & 0x3f, self.byte()?]))),
            (_, 0x80) => Length::Plain(u64::from(u32::from_be_bytes(self.array()?))),
            (_, 0x81) => Length::Plain(u64::from_be_bytes(self.array()?)),
            (3, _) => Length::Encoded(first & 0x3f),
            _ => return self.wrong(format!("{first:#04x} begins no length")),
        })
    }

    pub(super) fn length(&mut self) -> Result<u64, RdbError> {
        match self.length_or_encoding()? {
            Length::Plain(length) => Ok(length),
            Length::Encoded(_) => self.wrong("an encoded string stands where a length is expected"),
        }
    }
}
