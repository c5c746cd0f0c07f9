//! Counting, in one line of sorted numbers, how many are below a bound: the one primitive of the
//! wide trees of `sets`, for each kind of processor.
//!
//! Not for whole descents; those are written once over [`Compare`] and compiled once a path.
//!
//! ```text
//! line of 16 u32   | k0 k1 ... k15 |   k < bound: 1111 1100 0000 0000 ──► 6
//! line of  8 u64   | k0 k1 ...  k7 |   k < bound: 1110 0000           ──► 3
//! ```
//!
//! Numbers are kept with their highest bit flipped and compared as signed ones, since AVX2 knows
//! no other comparison. Cost: AVX-512 one comparison and one count a line, AVX2 two of each.
#![allow(unsafe_code, reason = "instructions beyond the baseline are called behind their token")]

#[cfg(target_arch = "x86_64")]
pub(crate) use whered_cpu::{Avx2, Avx512};

use super::Scalar;

/// The paths that wide trees have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WidePath {
    /// Plain Rust, on every processor.
    Scalar,
    /// 256-bit comparisons.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// 512-bit comparisons into masks.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

/// The wide path of this process.
pub(crate) fn wide_path() -> WidePath {
    match whered_cpu::path() {
        whered_cpu::Path::Scalar => WidePath::Scalar,
        #[cfg(target_arch = "x86_64")]
        whered_cpu::Path::Avx2(avx2) => WidePath::Avx2(avx2),
        #[cfg(target_arch = "x86_64")]
        whered_cpu::Path::Avx512(avx512) => WidePath::Avx512(avx512),
    }
}

/// Compares a line of numbers with a bound; both with their highest bit flipped.
pub(crate) trait Compare: Copy {
    /// How many of sixteen are below `bound`.
    fn below16(self, line: &[u32; 16], bound: u32) -> u32;
    /// How many of eight are below `bound`.
    fn below8(self, line: &[u64; 8], bound: u64) -> u32;
    /// Which of 32 plain numbers are not above `bound`: one bit each, the first one lowest.
    fn not_above32(self, line: &[u16; 32], bound: u16) -> u32;
}

impl Compare for Scalar {
    #[inline(always)]
    fn below16(self, line: &[u32; 16], bound: u32) -> u32 {
        line.iter().map(|key| u32::from((*key as i32) < bound as i32)).sum()
    }

    #[inline(always)]
    fn below8(self, line: &[u64; 8], bound: u64) -> u32 {
        line.iter().map(|key| u32::from((*key as i64) < bound as i64)).sum()
    }

    #[inline(always)]
    fn not_above32(self, line: &[u16; 32], bound: u16) -> u32 {
        // As octets of 0 and 1 first, which compilers do side by side.
        let flags = line.map(|key| u8::from(key <= bound));
        let (eights, _) = flags.as_chunks::<8>();
        // Eight octets of 0 or 1 to eight bits: the product brings each to the highest octet.
        let bits =
            |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        eights.iter().rev().fold(0, |all, eight| all << 8 | bits(eight) as u32)
    }
}

#[cfg(target_arch = "x86_64")]
impl Compare for Avx2 {
    #[inline(always)]
    fn below16(self, line: &[u32; 16], bound: u32) -> u32 {
        // SAFETY: the token says that AVX2 and POPCNT are there.
        unsafe { x86_64::below16_avx2(line, bound) }
    }

    #[inline(always)]
    fn below8(self, line: &[u64; 8], bound: u64) -> u32 {
        // SAFETY: the token says that AVX2 and POPCNT are there.
        unsafe { x86_64::below8_avx2(line, bound) }
    }

    #[inline(always)]
    fn not_above32(self, line: &[u16; 32], bound: u16) -> u32 {
        // SAFETY: the token says that the instructions are there.
        unsafe { x86_64::not_above32_avx2(line, bound) }
    }
}

#[cfg(target_arch = "x86_64")]
impl Compare for Avx512 {
    #[inline(always)]
    fn below16(self, line: &[u32; 16], bound: u32) -> u32 {
        // SAFETY: the token says that AVX-512 F and POPCNT are there.
        unsafe { x86_64::below16_avx512(line, bound) }
    }

    #[inline(always)]
    fn below8(self, line: &[u64; 8], bound: u64) -> u32 {
        // SAFETY: the token says that AVX-512 F and POPCNT are there.
        unsafe { x86_64::below8_avx512(line, bound) }
    }

    #[inline(always)]
    fn not_above32(self, line: &[u16; 32], bound: u16) -> u32 {
        // SAFETY: the token says that the instructions are there.
        unsafe { x86_64::not_above32_avx512(line, bound) }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_castsi256_pd, _mm256_cmpeq_epi16, _mm256_cmpgt_epi32,
        _mm256_cmpgt_epi64, _mm256_loadu_si256, _mm256_max_epu16, _mm256_movemask_epi8,
        _mm256_movemask_pd, _mm256_packs_epi16, _mm256_packs_epi32, _mm256_permute4x64_epi64,
        _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_epi64x, _mm512_cmple_epu16_mask,
        _mm512_cmplt_epi32_mask, _mm512_cmplt_epi64_mask, _mm512_loadu_si512, _mm512_set1_epi16,
        _mm512_set1_epi32, _mm512_set1_epi64,
    };

    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn below16_avx2(line: &[u32; 16], bound: u32) -> u32 {
        let bound = _mm256_set1_epi32(bound as i32);
        let [low, high] = [0, 8].map(|first| {
            // SAFETY: eight numbers of four octets each stand from `first`, 0 or 8, on.
            let eight = unsafe { _mm256_loadu_si256(line[first..].as_ptr().cast::<__m256i>()) };
            _mm256_cmpgt_epi32(bound, eight)
        });
        // Two octets for each of the sixteen, in an order that does not matter.
        (_mm256_movemask_epi8(_mm256_packs_epi32(low, high)) as u32).count_ones() / 2
    }

    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn below8_avx2(line: &[u64; 8], bound: u64) -> u32 {
        let bound = _mm256_set1_epi64x(bound as i64);
        let [low, high] = [0, 4].map(|first| {
            // SAFETY: four numbers of eight octets each stand from `first`, 0 or 4, on.
            let four = unsafe { _mm256_loadu_si256(line[first..].as_ptr().cast::<__m256i>()) };
            _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(bound, four))) as u32
        });
        (low | high << 4).count_ones()
    }

    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn below16_avx512(line: &[u32; 16], bound: u32) -> u32 {
        // SAFETY: sixteen numbers of four octets each.
        let keys = unsafe { _mm512_loadu_si512(line.as_ptr().cast::<__m512i>()) };
        let mask = _mm512_cmplt_epi32_mask(keys, _mm512_set1_epi32(bound as i32));
        u32::from(mask).count_ones()
    }

    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn below8_avx512(line: &[u64; 8], bound: u64) -> u32 {
        // SAFETY: eight numbers of eight octets each.
        let keys = unsafe { _mm512_loadu_si512(line.as_ptr().cast::<__m512i>()) };
        let mask = _mm512_cmplt_epi64_mask(keys, _mm512_set1_epi64(bound as i64));
        u32::from(mask).count_ones()
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn not_above32_avx2(line: &[u16; 32], bound: u16) -> u32 {
        let bound = _mm256_set1_epi16(bound as i16);
        let [low, high] = [0, 16].map(|first| {
            // SAFETY: sixteen numbers of two octets each stand from `first`, 0 or 16, on.
            let keys = unsafe { _mm256_loadu_si256(line[first..].as_ptr().cast::<__m256i>()) };
            _mm256_cmpeq_epi16(_mm256_max_epu16(keys, bound), bound)
        });
        // Packing takes 128 bits of each in turn; the permutation brings them into order.
        let octets = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(low, high));
        _mm256_movemask_epi8(octets) as u32
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn not_above32_avx512(line: &[u16; 32], bound: u16) -> u32 {
        // SAFETY: 32 numbers of two octets each.
        let keys = unsafe { _mm512_loadu_si512(line.as_ptr().cast::<__m512i>()) };
        _mm512_cmple_epu16_mask(keys, _mm512_set1_epi16(bound as i16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_paths_tell_alike_which_are_not_above() {
        let line: [u16; 32] = std::array::from_fn(|place| (place * place * 68) as u16);
        for bound in line.into_iter().flat_map(|key| [key.wrapping_sub(1), key, key + 1, !key]) {
            let each = line.iter().enumerate();
            let expected = each.fold(0, |bits, (at, key)| bits | u32::from(*key <= bound) << at);
            assert_eq!(Scalar.not_above32(&line, bound), expected, "{bound}");
            #[cfg(target_arch = "x86_64")]
            {
                if let Some(avx2) = Avx2::new() {
                    assert_eq!(avx2.not_above32(&line, bound), expected, "{bound}");
                }
                if let Some(avx512) = Avx512::new() {
                    assert_eq!(avx512.not_above32(&line, bound), expected, "{bound}");
                }
            }
        }
    }

    #[test]
    fn all_paths_count_alike() {
        let line16: [u32; 16] = std::array::from_fn(|place| match place {
            0..8 => (place as u32 * 3) ^ 1 << 31,
            8..14 => u32::MAX / 2 - 20 + place as u32,
            _ => u32::MAX / 2,
        });
        let line8: [u64; 8] = line16
            .first_chunk::<8>()
            .map_or([0; 8], |line| line.map(|key| u64::from(key) << 32 | 7));
        for bound in line16.into_iter().flat_map(|key| [key.wrapping_sub(1), key, key + 1]) {
            let wide = u64::from(bound) << 32 | 7;
            let expected = (Scalar.below16(&line16, bound), Scalar.below8(&line8, wide));
            #[cfg(target_arch = "x86_64")]
            {
                if let Some(avx2) = Avx2::new() {
                    assert_eq!((avx2.below16(&line16, bound), avx2.below8(&line8, wide)), expected);
                }
                if let Some(avx512) = Avx512::new() {
                    let found = (avx512.below16(&line16, bound), avx512.below8(&line8, wide));
                    assert_eq!(found, expected);
                }
            }
            let naive = line16.iter().filter(|key| (**key as i32) < bound as i32).count();
            assert_eq!(expected.0 as usize, naive);
        }
    }
}
