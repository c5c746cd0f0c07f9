//! IPv6 texts: one bit a byte says where colons and digits stand, and arithmetic on those bits
//! says whether the text is an address and where its groups are.
//!
//! Not for finding the marks on processors with wide registers: `simd` does that.
//!
//! ```text
//! text      2001:db8::1        bit 0 is the first byte
//! colons    ....1...11.
//! digits    1111.111..1
//! doubles   ........1..        the first colon of "::"; at most one bit
//! starts    1....1....1        three groups, two of them before the double
//! dense     2001 0db8 0001 ....  ....  ....  ....  ....
//! address   2001 0db8 0000 0000  0000  0000  0000  0001
//! ```
//!
//! A text that ends in dotted decimal is written anew with two groups in its place. All eight
//! places for groups are gone through whatever the text holds, so that the number of groups is no
//! branch; what is read for a missing one is shifted out.

use std::ops::Range;

use super::parse4;

/// The longest text of an address: six groups of four digits and a dotted quad.
const LENGTH_MAX: usize = 45;

const ONES: u64 = u64::MAX / 255;
const MARKS: u64 = ONES * 0x80;

/// Bit `n` says what byte `n` of a text is.
#[derive(Clone, Copy)]
pub(crate) struct Marks {
    pub(crate) colons: u64,
    pub(crate) dots: u64,
    pub(crate) hex_digits: u64,
}

/// A text of at most 45 bytes; what stands behind `length` may be anything.
pub(crate) struct GroupsBlock {
    bytes: [u8; 64],
    /// Zero for a text that cannot be an address by its length alone.
    length: usize,
}

impl GroupsBlock {
    /// Copies a text that nothing may be read behind.
    #[inline]
    pub(crate) fn of(text: &[u8]) -> GroupsBlock {
        let mut bytes = [0; 64];
        let mut length = 0;
        if text.len() <= LENGTH_MAX {
            length = text.len();
            bytes[..length].copy_from_slice(text);
        }
        GroupsBlock { bytes, length }
    }

    /// The text at `place` of `buffer`, loaded with what follows it where 64 bytes are there.
    #[inline]
    pub(crate) fn within(buffer: &[u8], place: &Range<usize>) -> GroupsBlock {
        let text = buffer.get(place.clone()).unwrap_or_default();
        match buffer.get(place.start..).and_then(<[u8]>::first_chunk) {
            Some(bytes) => {
                let length = if text.len() <= LENGTH_MAX { text.len() } else { 0 };
                GroupsBlock { bytes: *bytes, length }
            }
            None => GroupsBlock::of(text),
        }
    }

    /// Eight bytes, the first one lowest.
    #[inline]
    pub(crate) fn word(&self, number: usize) -> u64 {
        let (words, _) = self.bytes.as_chunks();
        words.get(number).map_or(0, |word| u64::from_le_bytes(*word))
    }

    /// The marks, by plain arithmetic.
    #[inline]
    pub(crate) fn marks(&self) -> Marks {
        let mut marks = Marks { colons: 0, dots: 0, hex_digits: 0 };
        for number in (0..8).rev() {
            let word = self.word(number);
            let ascii = !word & MARKS;
            let low = word & !MARKS;
            let lower = low | (ONES * 0x20);
            let digits = at_least(low, b'0') & !at_least(low, b'9' + 1);
            let letters = at_least(lower, b'a') & !at_least(lower, b'f' + 1);
            let colons = at_least(low, b':') & !at_least(low, b':' + 1);
            let dots = at_least(low, b'.') & !at_least(low, b'.' + 1);
            marks.colons = marks.colons << 8 | collect(colons & ascii);
            marks.dots = marks.dots << 8 | collect(dots & ascii);
            marks.hex_digits = marks.hex_digits << 8 | collect((digits | letters) & ascii);
        }
        marks
    }

    /// The address that the text's marks and digits say.
    #[inline]
    pub(crate) fn address(&self, marks: Marks) -> Option<u128> {
        let inside = (1_u64 << self.length) - 1;
        if marks.dots & inside != 0 {
            return self.with_dotted_end(marks);
        }
        let colons = marks.colons & inside;
        let digits = marks.hex_digits & inside;
        let mut ok = colons | digits == inside;

        let doubles = colons & colons >> 1;
        ok &= doubles & doubles.wrapping_sub(1) == 0;
        // Every other colon stands between digits.
        let singles = colons & !(doubles | doubles << 1);
        ok &= singles & !(digits << 1 & digits >> 1) == 0;
        // No five digits in a row.
        ok &= digits & digits >> 1 & digits >> 2 & digits >> 3 & digits >> 4 == 0;

        let starts = digits & !(digits << 1);
        let count = starts.count_ones();
        // Without a double all groups are before it.
        let count_before = (starts & doubles.wrapping_sub(1)).count_ones();
        // A double stands for one group at least.
        ok &= if doubles == 0 { count == 8 } else { count <= 7 };

        let dense = self.dense(starts, digits);
        let before = !u128::MAX.checked_shr(16 * count_before).unwrap_or(0);
        let missing_bits = 8_u32.wrapping_sub(count).wrapping_mul(16);
        let after = (dense & !before).checked_shr(missing_bits).unwrap_or(0);
        ok.then_some(dense & before | after)
    }

    /// The groups in their order from the highest bits on; anything below the last one.
    #[inline]
    fn dense(&self, mut starts: u64, digits: u64) -> u128 {
        let mut dense = 0_u128;
        for _ in 0..8 {
            // A missing group is read from the text's beginning.
            let start = starts.trailing_zeros() % 64;
            starts &= starts.wrapping_sub(1);
            let count = (!(digits >> start)).trailing_zeros();
            let four = self.bytes.get(start as usize..).and_then(<[u8]>::first_chunk);
            let four = u32::from_le_bytes(*four.unwrap_or(&[0; 4]));
            // The first digit in the highest byte, and the last one in the lowest.
            let text = (four << (32_u32.wrapping_sub(8 * count) % 32)).swap_bytes();
            let values = (text & 0x0f0f_0f0f) + 9 * (text >> 6 & 0x0101_0101);
            let pairs = (values | values >> 4) & 0x00ff_00ff;
            dense = dense << 16 | u128::from((pairs | pairs >> 8) & 0xffff);
        }
        dense
    }

    /// The address of a text that has dots: behind its last colon there must be a dotted quad.
    #[cold]
    fn with_dotted_end(&self, marks: Marks) -> Option<u128> {
        let colons = marks.colons & ((1 << self.length) - 1);
        let start = colons.checked_ilog2()? as usize + 1;
        let address = parse4(self.bytes.get(start..self.length)?)?;
        let mut rewritten = GroupsBlock { bytes: self.bytes, length: start + 9 };
        let text = format_groups(address);
        rewritten.bytes.get_mut(start..start + 9)?.copy_from_slice(&text);
        rewritten.address(rewritten.marks())
    }
}

/// `xxxx:xxxx`.
fn format_groups(address: u32) -> [u8; 9] {
    let digit = |place: u32| b"0123456789abcdef"[(address >> (4 * place) & 15) as usize];
    [digit(7), digit(6), digit(5), digit(4), b':', digit(3), digit(2), digit(1), digit(0)]
}

/// Marks the bytes that are at least `least`; all of them, and it, are below 128.
#[inline]
fn at_least(bytes: u64, least: u8) -> u64 {
    (bytes + ONES * u64::from(0x80 - least)) & MARKS
}

/// The marks of eight bytes as eight bits: each product lands on a bit of its own.
#[inline]
fn collect(marks: u64) -> u64 {
    marks.wrapping_mul(0x0002_0408_1020_4081) >> 56
}
