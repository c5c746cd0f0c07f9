//! The few primitives of the classifier that depend on the processor.
//!
//! For: code that is written once over a [`Processor`] and compiled once for each path. Not for:
//! whole algorithms, nor for asking the processor: `whered-simd` gives tokens.
//!
//! Every primitive compares unsigned 32-bit numbers of one cache line.
#![allow(unsafe_code, reason = "instructions beyond the baseline are called behind their token")]

use super::boxes::Keys;
use whered_simd::Scalar;

/// One cache line of numbers.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Line(pub(crate) [u32; 16]);

// SAFETY: sixteen numbers, which fill a line wholly.
unsafe impl whered_ip::image::Plain for Line {}

/// The numbers of lines, one behind the other.
#[inline(always)]
pub(crate) fn numbers(lines: &[Line]) -> &[u32] {
    // SAFETY: a line is sixteen numbers and nothing else, and its alignment is theirs or more.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * 16) }
}

/// Where each of sixteen keys comes from: a word of a packet, moved right and masked.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    pub(crate) words: Line,
    pub(crate) shifts: Line,
    pub(crate) masks: Line,
}

/// The primitives of one kind of processor.
pub(crate) trait Processor: Copy {
    /// How many of the numbers of a line that `places` has a bit for are at most `key`.
    fn rank(self, line: &Line, places: u16, key: u32) -> usize;
    /// Whether the first eight keys lie between the line's halves.
    fn inside8(self, keys: &Keys, ends: &Line) -> bool;
    /// Whether all sixteen keys lie between two lines.
    fn inside16(self, keys: &Keys, low: &Line, high: &Line) -> bool;
    /// The keys that come from these places of a packet's words, or the first eight of them.
    #[inline(always)]
    fn gather(self, words: &[u32; 16], from: &Sources, narrow: bool) -> Keys {
        let mut keys = Keys([0; 16]);
        let count = if narrow { 8 } else { 16 };
        for (lane, key) in keys.0[..count].iter_mut().enumerate() {
            let word = words[from.words.0[lane] as usize % 16];
            *key = word >> (from.shifts.0[lane] % 32) & from.masks.0[lane];
        }
        keys
    }
}

impl Processor for Scalar {
    #[inline(always)]
    fn rank(self, line: &Line, places: u16, key: u32) -> usize {
        let bounds = line.0.iter().enumerate();
        bounds
            .map(|(place, &bound)| usize::from(places >> place) & 1 & usize::from(bound <= key))
            .sum()
    }

    #[inline(always)]
    fn inside8(self, keys: &Keys, ends: &Line) -> bool {
        let (low, high) = ends.0.split_at(8);
        let lanes = keys.0[..8].iter().zip(low.iter().zip(high));
        lanes.fold(true, |all, (key, (low, high))| all & (low <= key) & (key <= high))
    }

    #[inline(always)]
    fn inside16(self, keys: &Keys, low: &Line, high: &Line) -> bool {
        let lanes = keys.0.iter().zip(low.0.iter().zip(&high.0));
        lanes.fold(true, |all, (key, (low, high))| all & (low <= key) & (key <= high))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{Keys, Line, Processor, Sources};
    use std::arch::x86_64::*;
    use whered_simd::{Avx2, Avx512};

    impl Processor for Avx2 {
        #[inline(always)]
        fn rank(self, line: &Line, places: u16, key: u32) -> usize {
            // SAFETY: the token says that AVX2 and POPCNT are there.
            unsafe { avx2_rank(line, places, key) }
        }

        #[inline(always)]
        fn inside8(self, keys: &Keys, ends: &Line) -> bool {
            // SAFETY: the token says that AVX2 is there.
            unsafe { avx2_inside(&keys.0, 0, &ends.0, 0, &ends.0, 8) }
        }

        #[inline(always)]
        fn inside16(self, keys: &Keys, low: &Line, high: &Line) -> bool {
            // SAFETY: the token says that AVX2 is there.
            unsafe {
                avx2_inside(&keys.0, 0, &low.0, 0, &high.0, 0)
                    && avx2_inside(&keys.0, 8, &low.0, 8, &high.0, 8)
            }
        }

        #[inline(always)]
        fn gather(self, words: &[u32; 16], from: &Sources, narrow: bool) -> Keys {
            // SAFETY: the token says that AVX2 is there.
            unsafe { avx2_gather(words, from, narrow) }
        }
    }

    impl Processor for Avx512 {
        #[inline(always)]
        fn rank(self, line: &Line, places: u16, key: u32) -> usize {
            // SAFETY: the token says that AVX-512 F and POPCNT are there.
            unsafe { avx512_rank(line, places, key) }
        }

        #[inline(always)]
        fn inside8(self, keys: &Keys, ends: &Line) -> bool {
            // SAFETY: the token says that AVX-512 F and VL are there.
            unsafe { avx512_inside8(keys, ends) }
        }

        #[inline(always)]
        fn inside16(self, keys: &Keys, low: &Line, high: &Line) -> bool {
            // SAFETY: the token says that AVX-512 F is there.
            unsafe { avx512_inside16(keys, low, high) }
        }

        #[inline(always)]
        fn gather(self, words: &[u32; 16], from: &Sources, _narrow: bool) -> Keys {
            // SAFETY: the token says that AVX-512 F is there.
            unsafe { avx512_gather(words, from) }
        }
    }

    /// Eight numbers of a line, from the `from`-th on.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn eight(line: &[u32; 16], from: usize) -> __m256i {
        assert!(from <= 8);
        // SAFETY: at most eight numbers are skipped and eight read, of sixteen.
        unsafe { _mm256_loadu_si256(line.as_ptr().add(from).cast()) }
    }

    /// One bit for each number that is at most the key.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn at_most(bounds: __m256i, key: __m256i) -> u32 {
        let holds = _mm256_cmpeq_epi32(_mm256_max_epu32(bounds, key), key);
        _mm256_movemask_ps(_mm256_castsi256_ps(holds)) as u32
    }

    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    fn avx2_rank(line: &Line, places: u16, key: u32) -> usize {
        let key = _mm256_set1_epi32(key as i32);
        let bits = at_most(eight(&line.0, 0), key) | at_most(eight(&line.0, 8), key) << 8;
        (bits & u32::from(places)).count_ones() as usize
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn avx2_inside(
        keys: &[u32; 16],
        at: usize,
        low: &[u32; 16],
        low_at: usize,
        high: &[u32; 16],
        high_at: usize,
    ) -> bool {
        let keys = eight(keys, at);
        let from = _mm256_cmpeq_epi32(_mm256_max_epu32(eight(low, low_at), keys), keys);
        let to = _mm256_cmpeq_epi32(_mm256_min_epu32(eight(high, high_at), keys), keys);
        _mm256_movemask_epi8(_mm256_and_si256(from, to)) == -1
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn avx2_gather(words: &[u32; 16], from: &Sources, narrow: bool) -> Keys {
        let mut keys = Keys([0; 16]);
        for &at in if narrow { &[0][..] } else { &[0, 8] } {
            let places = eight(&from.words.0, at);
            // A permutation looks at the lower three bits of a place; the fourth says which half.
            let near = _mm256_permutevar8x32_epi32(eight(words, 0), places);
            let far = _mm256_permutevar8x32_epi32(eight(words, 8), places);
            let is_far = _mm256_cmpgt_epi32(places, _mm256_set1_epi32(7));
            let word = _mm256_blendv_epi8(near, far, is_far);
            let moved = _mm256_srlv_epi32(word, eight(&from.shifts.0, at));
            let masked = _mm256_and_si256(moved, eight(&from.masks.0, at));
            // SAFETY: eight numbers are written from the first or the ninth on, of sixteen.
            unsafe { _mm256_storeu_si256(keys.0.as_mut_ptr().add(at).cast(), masked) };
        }
        keys
    }

    /// The sixteen numbers of a line.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn sixteen(line: &[u32; 16]) -> __m512i {
        // SAFETY: sixteen numbers are read, of sixteen.
        unsafe { _mm512_loadu_si512(line.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    fn avx512_rank(line: &Line, places: u16, key: u32) -> usize {
        let key = _mm512_set1_epi32(key as i32);
        let bits = _mm512_mask_cmple_epu32_mask(places, sixteen(&line.0), key);
        bits.count_ones() as usize
    }

    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512vl")]
    fn avx512_inside8(keys: &Keys, ends: &Line) -> bool {
        let keys = eight(&keys.0, 0);
        let from = _mm256_cmple_epu32_mask(eight(&ends.0, 0), keys);
        _mm256_mask_cmpge_epu32_mask(from, eight(&ends.0, 8), keys) == 0xff
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn avx512_gather(words: &[u32; 16], from: &Sources) -> Keys {
        let words = _mm512_permutexvar_epi32(sixteen(&from.words.0), sixteen(words));
        let moved = _mm512_srlv_epi32(words, sixteen(&from.shifts.0));
        let masked = _mm512_and_si512(moved, sixteen(&from.masks.0));
        let mut keys = Keys([0; 16]);
        // SAFETY: sixteen numbers are written, of sixteen.
        unsafe { _mm512_storeu_si512(keys.0.as_mut_ptr().cast(), masked) };
        keys
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn avx512_inside16(keys: &Keys, low: &Line, high: &Line) -> bool {
        let keys = sixteen(&keys.0);
        let from = _mm512_cmple_epu32_mask(sixteen(&low.0), keys);
        _mm512_mask_cmpge_epu32_mask(from, sixteen(&high.0), keys) == 0xffff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds a processor against the scalar path on numbers at and around the ends.
    #[cfg(target_arch = "x86_64")]
    fn check<P: Processor>(processor: P) {
        let numbers = [0, 1, 5, 7, 100, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX];
        let mut line = Line([0; 16]);
        for (lane, number) in line.0.iter_mut().enumerate() {
            *number = numbers[lane * numbers.len() / 16];
        }
        for &key in &numbers {
            for places in [0xfe, 0xfffe] {
                let expected = Scalar.rank(&line, places, key);
                assert_eq!(processor.rank(&line, places, key), expected, "{key}");
            }
        }
        let (low, high) = (Line([5; 16]), Line([u32::MAX - 1; 16]));
        let mut halves = low;
        halves.0[8..].copy_from_slice(&high.0[8..]);
        for lane in 0..16 {
            for &key in &numbers {
                let mut keys = Keys([7; 16]);
                keys.0[lane] = key;
                assert_eq!(processor.inside8(&keys, &halves), Scalar.inside8(&keys, &halves));
                let wide = processor.inside16(&keys, &low, &high);
                assert_eq!(wide, Scalar.inside16(&keys, &low, &high), "lane {lane}, {key}");
            }
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn vectors_gather_as_numbers_do() {
        let words: [u32; 16] =
            std::array::from_fn(|word| 0x9e37_79b9u32.wrapping_mul(word as u32 + 1));
        let line = |of: &dyn Fn(u32) -> u32| Line(std::array::from_fn(|lane| of(lane as u32)));
        let from = Sources {
            words: line(&|lane| lane * 7 % 16),
            shifts: line(&|lane| lane * 5 % 32),
            masks: line(&|lane| if lane % 3 == 0 { u32::MAX } else { lane % 2 }),
        };
        let expected = Scalar.gather(&words, &from, false).0;
        assert_eq!(expected[3], words[5] >> 15);
        for narrow in [false, true] {
            let count = if narrow { 8 } else { 16 };
            let expected = &expected[..count];
            assert_eq!(&Scalar.gather(&words, &from, narrow).0[..count], expected);
            if let Some(token) = whered_simd::Avx2::new() {
                assert_eq!(&token.gather(&words, &from, narrow).0[..count], expected);
            }
            if let Some(token) = whered_simd::Avx512::new() {
                assert_eq!(&token.gather(&words, &from, narrow).0[..count], expected);
            }
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn vectors_compare_as_numbers_do() {
        if let Some(token) = whered_simd::Avx2::new() {
            check(token);
        }
        if let Some(token) = whered_simd::Avx512::new() {
            check(token);
        }
    }
}
