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
use super::Scalar;
#[cfg(target_arch = "x86_64")]
use std::arch::asm;

/// The primitives of one kind of processor.
pub(crate) trait Processor: Copy {
    /// How many bits are set.
    fn ones(self, bits: u64) -> u32;
}

impl Processor for Scalar {
    #[inline(always)]
    fn ones(self, bits: u64) -> u32 {
        bits.count_ones()
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

/// The portable form of [`first_not_below`].
#[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "the twin in the tests"))]
pub(crate) fn first_not_below_scalar(octets: &[u32; 4], bound: u8) -> usize {
    let mut octets = octets.iter().flat_map(|word| word.to_le_bytes());
    octets.position(|octet| octet >= bound).unwrap_or(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn all_paths_count_alike() {
        let Some(avx2) = Avx2::new() else { return };
        for bits in [0, 1, 1 << 63, 0x8421, u64::MAX] {
            assert_eq!(avx2.ones(bits), Scalar.ones(bits));
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
