//! Which numbers of one line are below a bound, and reading sixteen of a table: the primitives of
//! `tables`, `sets` and IPv6 in `compiled` that depend on the kind of processor.
//!
//! Not for whole descents; those are written once over [`Compare`] and compiled once a path.
//!
//! ```text
//! line of 16 u32   | k0 k1 ... k15 |   k < bound: 1111 1100 0000 0000 ──► 6
//! line of  8 u64   | k0 k1 ...  k7 |   k < bound: 1110 0000           ──► 3
//! ```
//!
//! Numbers of the k-ary trees are kept with their highest bit flipped and compared as signed ones,
//! since AVX2 knows no other comparison; others are plain. Cost: AVX-512 one comparison and one
//! count a line, AVX2 two of each.
#![allow(unsafe_code, reason = "instructions beyond the baseline are called behind their token")]

#[cfg(target_arch = "x86_64")]
pub(crate) use whered_simd::{Avx2, Avx512};

use whered_simd::Scalar;

/// Compares a line of numbers with a bound.
pub(crate) trait Compare: Copy {
    /// How many of sixteen are below `bound`; all with their highest bit flipped.
    fn below16(self, line: &[u32; 16], bound: u32) -> u32;
    /// How many of the first eight of sixteen are below `bound`; all with their highest bit
    /// flipped.
    fn below8_of16(self, line: &[u32; 16], bound: u32) -> u32;
    /// How many of eight are below `bound`; all with their highest bit flipped.
    fn below8(self, line: &[u64; 8], bound: u64) -> u32;
    /// Which of 32 plain numbers are not above `bound`: one bit each, the first one lowest.
    fn not_above32(self, line: &[u16; 32], bound: u16) -> u32;
    /// Which of sixteen plain numbers are not below `bound`: one bit each, the first one lowest.
    fn not_below16(self, line: &[u32; 16], bound: u32) -> u16;
    /// Which of sixteen have their second lowest bit set: one bit each, the first one lowest.
    fn second_bits16(self, numbers: &[u32; 16]) -> u16;
    /// Sixteen numbers of a table; those of places that are not before its last one are any.
    fn read16(self, table: &[u16], places: &[u32; 16]) -> [u32; 16];
}

impl Compare for Scalar {
    #[inline(always)]
    fn below16(self, line: &[u32; 16], bound: u32) -> u32 {
        line.iter().map(|key| u32::from((*key as i32) < bound as i32)).sum()
    }

    #[inline(always)]
    fn below8_of16(self, line: &[u32; 16], bound: u32) -> u32 {
        line[..8].iter().map(|key| u32::from((*key as i32) < bound as i32)).sum()
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

    #[inline(always)]
    fn not_below16(self, line: &[u32; 16], bound: u32) -> u16 {
        let each = line.iter().rev();
        each.fold(0, |bits, number| bits << 1 | u16::from(*number >= bound))
    }

    #[inline(always)]
    fn second_bits16(self, numbers: &[u32; 16]) -> u16 {
        numbers.iter().rev().fold(0, |bits, number| bits << 1 | (number >> 1 & 1) as u16)
    }

    #[inline(always)]
    fn read16(self, table: &[u16], places: &[u32; 16]) -> [u32; 16] {
        places.map(|place| table.get(place as usize).copied().map_or(0, u32::from))
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
    fn below8_of16(self, line: &[u32; 16], bound: u32) -> u32 {
        // SAFETY: the token says that AVX2 and POPCNT are there.
        unsafe { x86_64::below8_of16_avx2(line, bound) }
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

    #[inline(always)]
    fn not_below16(self, line: &[u32; 16], bound: u32) -> u16 {
        // SAFETY: the token says that the instructions are there.
        unsafe { x86_64::not_below16_avx2(line, bound) }
    }

    #[inline(always)]
    fn second_bits16(self, numbers: &[u32; 16]) -> u16 {
        // SAFETY: the token says that the instructions are there.
        unsafe { x86_64::second_bits16_avx2(numbers) }
    }

    #[inline(always)]
    fn read16(self, table: &[u16], places: &[u32; 16]) -> [u32; 16] {
        Scalar.read16(table, places)
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
    fn below8_of16(self, line: &[u32; 16], bound: u32) -> u32 {
        self.avx2().below8_of16(line, bound)
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

    #[inline(always)]
    fn not_below16(self, line: &[u32; 16], bound: u32) -> u16 {
        // SAFETY: the token says that the instructions are there.
        unsafe { x86_64::not_below16_avx512(line, bound) }
    }

    #[inline(always)]
    fn second_bits16(self, numbers: &[u32; 16]) -> u16 {
        // SAFETY: the token says that the instructions are there.
        unsafe { x86_64::second_bits16_avx512(numbers) }
    }

    #[inline(always)]
    fn read16(self, table: &[u16], places: &[u32; 16]) -> [u32; 16] {
        // SAFETY: the token says that the instructions are there.
        unsafe { x86_64::read16_avx512(table, places) }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_castsi256_pd, _mm256_castsi256_ps, _mm256_cmpeq_epi16,
        _mm256_cmpeq_epi32, _mm256_cmpgt_epi32, _mm256_cmpgt_epi64, _mm256_loadu_si256,
        _mm256_max_epu16, _mm256_max_epu32, _mm256_movemask_epi8, _mm256_movemask_pd,
        _mm256_movemask_ps, _mm256_packs_epi16, _mm256_packs_epi32, _mm256_permute4x64_epi64,
        _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_slli_epi32,
        _mm512_and_si512, _mm512_cmpge_epu32_mask, _mm512_cmple_epu16_mask,
        _mm512_cmplt_epi32_mask, _mm512_cmplt_epi64_mask, _mm512_i32gather_epi32,
        _mm512_loadu_si512, _mm512_min_epu32, _mm512_set1_epi16, _mm512_set1_epi32,
        _mm512_set1_epi64, _mm512_storeu_si512, _mm512_test_epi32_mask,
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
    pub(super) fn below8_of16_avx2(line: &[u32; 16], bound: u32) -> u32 {
        // SAFETY: sixteen numbers of four octets each, of which eight are read.
        let eight = unsafe { _mm256_loadu_si256(line.as_ptr().cast::<__m256i>()) };
        let below = _mm256_cmpgt_epi32(_mm256_set1_epi32(bound as i32), eight);
        (_mm256_movemask_ps(_mm256_castsi256_ps(below)) as u32).count_ones()
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

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn not_below16_avx2(line: &[u32; 16], bound: u32) -> u16 {
        let bound = _mm256_set1_epi32(bound as i32);
        let [low, high] = [0, 8].map(|first| {
            // SAFETY: eight numbers of four octets each stand from `first`, 0 or 8, on.
            let eight = unsafe { _mm256_loadu_si256(line[first..].as_ptr().cast::<__m256i>()) };
            let is = _mm256_cmpeq_epi32(_mm256_max_epu32(eight, bound), eight);
            _mm256_movemask_ps(_mm256_castsi256_ps(is)) as u16
        });
        low | high << 8
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn second_bits16_avx2(numbers: &[u32; 16]) -> u16 {
        let [low, high] = [0, 8].map(|first| {
            // SAFETY: eight numbers of four octets each stand from `first`, 0 or 8, on.
            let eight = unsafe { _mm256_loadu_si256(numbers[first..].as_ptr().cast::<__m256i>()) };
            // To where signs are.
            let moved = _mm256_slli_epi32::<30>(eight);
            _mm256_movemask_ps(_mm256_castsi256_ps(moved)) as u16
        });
        low | high << 8
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn second_bits16_avx512(numbers: &[u32; 16]) -> u16 {
        // SAFETY: sixteen numbers of four octets each.
        let numbers = unsafe { _mm512_loadu_si512(numbers.as_ptr().cast::<__m512i>()) };
        _mm512_test_epi32_mask(numbers, _mm512_set1_epi32(2))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn read16_avx512(table: &[u16], places: &[u32; 16]) -> [u32; 16] {
        let Some(last) = table.len().checked_sub(2) else { return [0; 16] };
        // SAFETY: sixteen numbers of four octets each.
        let places = unsafe { _mm512_loadu_si512(places.as_ptr().cast::<__m512i>()) };
        let last = _mm512_set1_epi32(i32::try_from(last).unwrap_or(i32::MAX));
        let places = _mm512_min_epu32(places, last);
        // SAFETY: two numbers are read from each place, the last of which has one behind it.
        let two = unsafe { _mm512_i32gather_epi32::<2>(places, table.as_ptr().cast()) };
        let mut found = [0; 16];
        let first = _mm512_and_si512(two, _mm512_set1_epi32(0xffff));
        // SAFETY: sixteen numbers of four octets each.
        unsafe { _mm512_storeu_si512(found.as_mut_ptr().cast(), first) };
        found
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn not_below16_avx512(line: &[u32; 16], bound: u32) -> u16 {
        // SAFETY: sixteen numbers of four octets each.
        let numbers = unsafe { _mm512_loadu_si512(line.as_ptr().cast::<__m512i>()) };
        _mm512_cmpge_epu32_mask(numbers, _mm512_set1_epi32(bound as i32))
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
    fn all_paths_tell_alike_second_bits() {
        for factor in [0x1357_9bdf_u32, 0xffff_fffd, 2, 0x8000_0001] {
            let numbers: [u32; 16] = std::array::from_fn(|at| (at as u32).wrapping_mul(factor));
            let each = numbers.iter().enumerate();
            let expected =
                each.fold(0, |bits, (at, number)| bits | u16::from(number & 2 != 0) << at);
            assert_eq!(Scalar.second_bits16(&numbers), expected);
            #[cfg(target_arch = "x86_64")]
            {
                if let Some(avx2) = Avx2::new() {
                    assert_eq!(avx2.second_bits16(&numbers), expected);
                }
                if let Some(avx512) = Avx512::new() {
                    assert_eq!(avx512.second_bits16(&numbers), expected);
                }
            }
        }
    }

    #[test]
    fn all_paths_tell_alike_which_are_not_below() {
        let line: [u32; 16] = std::array::from_fn(|place| (place as u32).wrapping_mul(0x1357_9bdf));
        let bounds = line.into_iter().flat_map(|key| [key.wrapping_sub(1), key, key + 1, !key]);
        for bound in bounds.chain([0, 1, 1 << 31, u32::MAX]) {
            let each = line.iter().enumerate();
            let expected = each.fold(0, |bits, (at, key)| bits | u16::from(*key >= bound) << at);
            assert_eq!(Scalar.not_below16(&line, bound), expected, "{bound}");
            #[cfg(target_arch = "x86_64")]
            {
                if let Some(avx2) = Avx2::new() {
                    assert_eq!(avx2.not_below16(&line, bound), expected, "{bound}");
                }
                if let Some(avx512) = Avx512::new() {
                    assert_eq!(avx512.not_below16(&line, bound), expected, "{bound}");
                }
            }
        }
    }

    /// Reads what is expected, and without harm from tables that are too short.
    fn reads(processor: impl Compare, table: &[u16], places: &[u32; 16], expected: &[u32; 16]) {
        assert_eq!(processor.read16(table, places), *expected);
        for few in [&table[..0], &table[..1], &table[..2]] {
            processor.read16(few, &[u32::MAX; 16]);
            processor.read16(few, places);
        }
    }

    #[test]
    fn all_paths_read_alike_and_nothing_outside() {
        let table: Vec<u16> = (0..100_u32).map(|n| (n * 40_503) as u16).collect();
        let places: [u32; 16] = std::array::from_fn(|turn| (turn as u32 * 37) % 99);
        let expected = places.map(|place| u32::from(table[place as usize]));
        reads(Scalar, &table, &places, &expected);
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(avx2) = Avx2::new() {
                reads(avx2, &table, &places, &expected);
            }
            if let Some(avx512) = Avx512::new() {
                reads(avx512, &table, &places, &expected);
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
            let below =
                |keys: &[u32]| keys.iter().filter(|key| (**key as i32) < bound as i32).count();
            assert_eq!(expected.0 as usize, below(&line16));
            assert_eq!(Scalar.below8_of16(&line16, bound) as usize, below(&line16[..8]));
            #[cfg(target_arch = "x86_64")]
            if let Some(avx2) = Avx2::new() {
                assert_eq!(avx2.below8_of16(&line16, bound) as usize, below(&line16[..8]));
            }
        }
    }
}
