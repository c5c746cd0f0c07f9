//! Address texts on x86-64 with AVX2: a dotted quad in some forty instructions without a branch on
//! what it holds, and the marks that the IPv6 reader works from.
//!
//! Not for loading: texts come as blocks of 16 or 64 bytes, of which the first `length` count.
//!
//! How a quad is read, here `10.0.23.4` (length 9):
//!
//! ```text
//! ends       2 4 7 9                       dots, and where the text ends
//! wanted     ends - 4 3 2 1 for each       -2 -1  0  1 |  0  1  2  3 |  3  4  5  6 |  5  6  7  8
//! present    behind the end before          .  .  0  1 |  .  .  .  3 |  .  .  5  6 |  .  .  .  8
//! shuffled   digits                         0  0  1  0 |  0  0  0  0 |  0  0  2  3 |  0  0  0  4
//! weighted   0 100 10 1, summed                     10 |           0 |          23 |           4
//! ```
//!
//! The first column of each four must be empty and the last one filled: so a part has one to three
//! digits. What was tried: a table of 81 shuffles instead of the subtraction; it saves six
//! instructions and costs 1.3 KB of cache, which the lookups want more.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::simd::Avx2;
use crate::text::{DottedBlock, GroupsBlock, Marks};

/// One dotted quad.
#[inline]
#[allow(unsafe_code, reason = "calling code of an instruction set is unsafe by its nature")]
pub(crate) fn dotted(_proof: Avx2, block: DottedBlock) -> Option<u32> {
    // SAFETY: the proof exists, so the processor has all features that it is compiled for.
    unsafe { read_dotted(block) }
}

/// The dotted quads at `places` of `buffer`.
#[allow(unsafe_code, reason = "calling code of an instruction set is unsafe by its nature")]
pub(crate) fn dotted_batch_within(
    _proof: Avx2,
    buffer: &[u8],
    places: &[Range<usize>],
    found: &mut [Option<u32>],
) {
    // SAFETY: the proof exists, so the processor has all features that it is compiled for.
    unsafe { read_dotted_batch_within(buffer, places, found) }
}

/// One IPv6 address.
#[inline]
#[allow(unsafe_code, reason = "calling code of an instruction set is unsafe by its nature")]
pub(crate) fn groups(_proof: Avx2, block: &GroupsBlock) -> Option<u128> {
    // SAFETY: the proof exists, so the processor has all features that it is compiled for.
    unsafe { read_groups(block) }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn read_dotted_batch_within(buffer: &[u8], places: &[Range<usize>], found: &mut [Option<u32>]) {
    for (place, found) in places.iter().zip(found) {
        *found = read_dotted(DottedBlock::within(buffer, place));
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn read_dotted(block: DottedBlock) -> Option<u32> {
    let DottedBlock { bytes, length } = block;
    let text = _mm_set_epi64x((bytes >> 64) as i64, bytes as i64);
    let inside = (1_u32 << length) - 1;

    let dots = _mm_movemask_epi8(_mm_cmpeq_epi8(text, _mm_set1_epi8(b'.' as i8))) as u32 & inside;
    let digits = _mm_sub_epi8(text, _mm_set1_epi8(b'0' as i8));
    let is_digit = _mm_cmpeq_epi8(_mm_min_epu8(digits, _mm_set1_epi8(9)), digits);
    let digit_marks = _mm_movemask_epi8(is_digit) as u32 & inside;
    let mut ok = dots | digit_marks == inside;

    // The ends of the four parts, one a byte. With three dots the fourth end is the text's own.
    let ends = dots | (1 << length);
    let second = ends & ends.wrapping_sub(1);
    let third = second & second.wrapping_sub(1);
    let fourth = third & third.wrapping_sub(1);
    ok &= fourth == 1 << length;
    let packed = ends.trailing_zeros()
        | second.trailing_zeros() << 8
        | third.trailing_zeros() << 16
        | fourth.trailing_zeros() << 24;

    let four_times = _mm_set_epi8(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    let end = _mm_shuffle_epi8(_mm_cvtsi32_si128(packed as i32), four_times);
    // The end before the first part stands at -1.
    let before = _mm_shuffle_epi8(_mm_cvtsi32_si128((packed << 8 | 0xff) as i32), four_times);
    let wanted = _mm_sub_epi8(end, _mm_set1_epi32(0x0102_0304));
    let is_present = _mm_cmpgt_epi8(wanted, before);
    let present = _mm_movemask_epi8(is_present) as u32;
    ok &= present & 0x9999 == 0x8888;

    // An index with its highest bit set gives zero.
    let absent = _mm_xor_si128(is_present, _mm_set1_epi8(-1));
    let placed = _mm_shuffle_epi8(digits, _mm_or_si128(wanted, absent));
    let zeros = _mm_movemask_epi8(_mm_cmpeq_epi8(placed, _mm_setzero_si128())) as u32;
    // A part's first digit may be zero only in the last column.
    let first = present & !(present << 1);
    ok &= first & zeros & 0x7777 == 0;

    let pairs = _mm_maddubs_epi16(placed, _mm_set1_epi32(0x010a_6400));
    let parts = _mm_madd_epi16(pairs, _mm_set1_epi16(1));
    ok &= _mm_testz_si128(parts, _mm_set1_epi32(!0xff)) == 1;
    let last_first = _mm_set_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12);
    let address = _mm_cvtsi128_si32(_mm_shuffle_epi8(parts, last_first)) as u32;
    ok.then_some(address)
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn read_groups(block: &GroupsBlock) -> Option<u128> {
    let word = |number: usize| block.word(number) as i64;
    let low = marks(_mm256_set_epi64x(word(3), word(2), word(1), word(0)));
    let high = marks(_mm256_set_epi64x(word(7), word(6), word(5), word(4)));
    let join = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    block.address(Marks {
        colons: join(low[0], high[0]),
        dots: join(low[1], high[1]),
        hex_digits: join(low[2], high[2]),
    })
}

/// Where colons, dots and hexadecimal digits stand among 32 bytes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn marks(text: __m256i) -> [u32; 3] {
    let equal = |byte: u8| {
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(text, _mm256_set1_epi8(byte as i8))) as u32
    };
    let at_most = |bytes: __m256i, most: i8| {
        let least = _mm256_min_epu8(bytes, _mm256_set1_epi8(most));
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(least, bytes)) as u32
    };
    let digits = at_most(_mm256_sub_epi8(text, _mm256_set1_epi8(b'0' as i8)), 9);
    let lower = _mm256_or_si256(text, _mm256_set1_epi8(0x20));
    let letters = at_most(_mm256_sub_epi8(lower, _mm256_set1_epi8(b'a' as i8)), 5);
    [equal(b':'), equal(b'.'), digits | letters]
}
