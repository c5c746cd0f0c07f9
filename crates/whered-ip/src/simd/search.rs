//! The few primitives of a compiled index that depend on the processor.
//!
//! For: code that is written once over a [`Processor`] and compiled once for each path. Not for:
//! whole algorithms; they stay with the structure that they read.
//!
//! ```text
//! PrefixIndex::lookup4 ──► Path::Avx2(token) ──► #[target_feature] entry ─┐
//!                     └──► Path::Scalar ───────► baseline entry ──────────┴─► one generic body
//! ```
#![allow(unsafe_code, reason = "instructions beyond the baseline are called behind their token")]

#[cfg(target_arch = "x86_64")]
use super::Avx2;
#[cfg(target_arch = "x86_64")]
use std::arch::asm;

/// The primitives of one kind of processor.
pub(crate) trait Processor: Copy {
    /// How many bits are set.
    fn ones(self, bits: u64) -> u32;
    /// How many of eight rising numbers are below `bound`; all of them signed.
    fn below(self, rising: &[i64; 8], bound: i64) -> usize;
}

/// What every machine has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalar;

impl Processor for Scalar {
    #[inline(always)]
    fn ones(self, bits: u64) -> u32 {
        bits.count_ones()
    }

    #[inline(always)]
    fn below(self, rising: &[i64; 8], bound: i64) -> usize {
        rising.iter().map(|number| usize::from(*number < bound)).sum()
    }
}

#[cfg(target_arch = "x86_64")]
impl Processor for Avx2 {
    #[inline(always)]
    fn ones(self, bits: u64) -> u32 {
        let ones: u64;
        // SAFETY: the token says that POPCNT is there; it reads and writes these registers only.
        unsafe {
            asm!("popcnt {}, {}", out(reg) ones, in(reg) bits, options(pure, nomem, nostack));
        }
        ones as u32
    }

    #[inline(always)]
    fn below(self, rising: &[i64; 8], bound: i64) -> usize {
        // SAFETY: the token says that AVX2 and POPCNT are there.
        unsafe { x86_64::below(rising, bound) }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{
        __m256i, _mm256_castsi256_ps, _mm256_cmpgt_epi64, _mm256_loadu_si256, _mm256_movemask_ps,
        _mm256_packs_epi32, _mm256_set1_epi64x,
    };

    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn below(rising: &[i64; 8], bound: i64) -> usize {
        let bound = _mm256_set1_epi64x(bound);
        let [low, high] = [0, 4].map(|first| {
            // SAFETY: four numbers of eight octets each stand from `first`, 0 or 4, on.
            let four = unsafe { _mm256_loadu_si256(rising[first..].as_ptr().cast::<__m256i>()) };
            _mm256_cmpgt_epi64(bound, four)
        });
        // One bit for each of the eight, in an order that does not matter: packing both halves
        // first waits once, not twice, for the slow way from vectors to numbers.
        let both = _mm256_castsi256_ps(_mm256_packs_epi32(low, high));
        (_mm256_movemask_ps(both) as u32).count_ones() as usize
    }
}

/// The place of the first of 16 octets that is not below `bound`; 16 if all are.
///
/// SSE2 belongs to every x86-64, so this needs no token.
#[inline(always)]
pub(crate) fn first_not_below(octets: &[u32; 4], bound: u8) -> usize {
    #[cfg(all(target_arch = "x86_64", target_endian = "little"))]
    {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_max_epu8, _mm_movemask_epi8,
            _mm_set1_epi8,
        };
        // SAFETY: SSE2 is part of x86-64, and 16 octets are there to be read.
        let mask = unsafe {
            let octets = _mm_loadu_si128(octets.as_ptr().cast::<__m128i>());
            let highest = _mm_max_epu8(octets, _mm_set1_epi8(bound as i8));
            _mm_movemask_epi8(_mm_cmpeq_epi8(highest, octets)) as u32
        };
        (mask | 1 << 16).trailing_zeros() as usize
    }
    #[cfg(not(all(target_arch = "x86_64", target_endian = "little")))]
    first_not_below_scalar(octets, bound)
}

/// The same on any machine.
#[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "the twin in the tests"))]
pub(crate) fn first_not_below_scalar(octets: &[u32; 4], bound: u8) -> usize {
    let mut octets = octets.iter().flat_map(|word| word.to_le_bytes());
    octets.position(|octet| octet >= bound).unwrap_or(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_paths_count_alike() {
        let rising = [i64::MIN, -3, -3, 0, 1 << 40, 1 << 62, i64::MAX, i64::MAX];
        for number in rising {
            for bound in [number.wrapping_sub(1), number, number.wrapping_add(1)] {
                let expected = rising.iter().filter(|number| **number < bound).count();
                assert_eq!(Scalar.below(&rising, bound), expected);
                #[cfg(target_arch = "x86_64")]
                if let Some(avx2) = Avx2::new() {
                    assert_eq!(avx2.below(&rising, bound), expected);
                    assert_eq!(avx2.ones(bound as u64), Scalar.ones(bound as u64));
                }
            }
        }
    }

    #[test]
    fn octets_are_found_alike() {
        let octets = [0x0302_0100, 0x7f7f_1004, 0xfe90_8180, 0xffff_fffe];
        for bound in 0..=255 {
            let expected = first_not_below_scalar(&octets, bound);
            assert_eq!(first_not_below(&octets, bound), expected, "{bound}");
        }
        assert_eq!(first_not_below(&[0; 4], 1), 16);
    }
}
