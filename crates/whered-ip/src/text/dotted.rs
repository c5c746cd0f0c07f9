//! Dotted decimal: sixteen bytes in one number, and the four parts by arithmetic on all of them.
//!
//! Not for the choice between this and the vector form, which `simd` has. The form here is the one
//! for processors without it and the twin that it is tested against.
//!
//! Bytes stand in the number as in memory, the text's first one lowest. A *mark* is the highest bit
//! of a byte. Cost: some 90 instructions, none of them a branch on what the text holds.

use std::ops::Range;

/// The longest text of an IPv4 address, and the shortest.
const LENGTH_MAX: usize = 15;
const LENGTH_MIN: usize = 7;

const ONES: u128 = u128::MAX / 255;
const MARKS: u128 = ONES * 0x80;

/// A text of at most 15 bytes; what stands behind `length` may be anything.
#[derive(Clone, Copy)]
pub(crate) struct DottedBlock {
    pub(crate) bytes: u128,
    /// At most 15; zero for a text that cannot be an address by its length alone.
    pub(crate) length: u32,
}

impl DottedBlock {
    const NONE: DottedBlock = DottedBlock { bytes: 0, length: 0 };

    /// Gathers a text that nothing may be read behind: as its first and its last eight bytes,
    /// which overlap, since copying a length that varies would branch on it.
    #[inline]
    pub(crate) fn of(text: &[u8]) -> DottedBlock {
        if !(LENGTH_MIN..=LENGTH_MAX).contains(&text.len()) {
            return DottedBlock::NONE;
        }
        let length = text.len() as u32;
        let bytes = match (text.first_chunk(), text.last_chunk()) {
            (Some(first), Some(last)) => {
                let low = u64::from_le_bytes(*first);
                // In two steps, since eight bytes shift all of the last eight out.
                let shift = 4 * (16 - length);
                let high = u64::from_le_bytes(*last) >> shift >> shift;
                u128::from(low) | u128::from(high) << 64
            }
            // Seven bytes.
            _ => text.iter().rev().fold(0, |bytes, &byte| bytes << 8 | u128::from(byte)),
        };
        DottedBlock { bytes, length }
    }

    /// The text at `place` of `buffer`, loaded with what follows it where sixteen bytes are there.
    #[inline]
    pub(crate) fn within(buffer: &[u8], place: &Range<usize>) -> DottedBlock {
        let Some(text) = buffer.get(place.clone()) else { return DottedBlock::NONE };
        match buffer.get(place.start..).and_then(<[u8]>::first_chunk) {
            Some(bytes) => {
                let fits = (LENGTH_MIN..=LENGTH_MAX).contains(&text.len());
                let length = if fits { text.len() as u32 } else { 0 };
                DottedBlock { bytes: u128::from_le_bytes(*bytes), length }
            }
            None => DottedBlock::of(text),
        }
    }

    /// The address, by plain arithmetic.
    #[inline]
    pub(crate) fn address(self) -> Option<u32> {
        let DottedBlock { bytes, length } = self;
        let inside = (1_u128 << (8 * length)) - 1;
        let dots = zeros(bytes ^ (ONES * u128::from(b'.'))) & inside;
        let digits = bytes ^ (ONES * u128::from(b'0'));
        let mut ok = above_nine(digits) & inside == dots;

        let mut ends = dots | 0x80 << (8 * length);
        let (mut start, mut end, mut address) = (0_u32, 0_u32, 0_u32);
        for _ in 0..4 {
            // Sixteen when there are too few parts.
            end = ends.trailing_zeros() / 8;
            ends &= ends.wrapping_sub(1);
            let count = end.wrapping_sub(start);
            ok &= count.wrapping_sub(1) < 3;
            let count = count & 3;
            // The part's last digit in the highest byte, zeros below its first.
            let part = u64::from((digits >> (8 * start % 128)) as u32) << (32 - 8 * count);
            let digit = |place: u32| part as u32 >> (8 * place) & 0xff;
            let value = digit(3) + 10 * digit(2) + 100 * digit(1);
            // The smallest number with this many digits, so that none begins with a zero.
            let least = [0, 0, 10, 100][count as usize];
            ok &= (least..=255).contains(&value);
            address = address << 8 | value & 0xff;
            start = end + 1;
        }
        // The fourth part ends where the text does: there were three dots.
        ok &= end == length;
        ok.then_some(address)
    }
}

/// Marks the bytes that are zero. The sums stay inside their bytes.
#[inline]
fn zeros(bytes: u128) -> u128 {
    !(((bytes & !MARKS) + !MARKS) | bytes) & MARKS
}

/// Marks the bytes that are above nine.
#[inline]
fn above_nine(bytes: u128) -> u128 {
    (((bytes & !MARKS) + ONES * (0x7f - 9)) | bytes) & MARKS
}
