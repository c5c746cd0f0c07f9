//! Whether sixteen bytes begin in a certain way.
//!
//! For: scanners that compare markup of up to sixteen bytes at once. Not for: longer texts, which
//! are compared in two steps or by the standard library. Cost: five instructions.

/// How many bytes are looked at together.
const WORD_BYTES: usize = 16;

/// What must be there: up to sixteen bytes, and which of them count.
///
/// ```
/// let start = whered_simd::Start::new(b"\" x=\"");
/// assert!(start.fits(b"\" x=\"12.25\" y=\"8"));
/// assert!(!start.fits(b"\" y=\"12.25\" x=\"8"));
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct Start {
    bytes: [u8; WORD_BYTES],
    mask: [u8; WORD_BYTES],
}

impl Start {
    /// Of the first sixteen of these bytes, or all of them.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Start {
        let mut start = Start { bytes: [0; WORD_BYTES], mask: [0; WORD_BYTES] };
        for (place, byte) in bytes.iter().take(WORD_BYTES).enumerate() {
            (start.bytes[place], start.mask[place]) = (*byte, 0xff);
        }
        start
    }

    /// Whether these begin so.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "instructions that every such processor has")]
    #[inline]
    #[must_use]
    pub fn fits(&self, word: &[u8; WORD_BYTES]) -> bool {
        use std::arch::x86_64::{
            _mm_and_si128, _mm_cmpeq_epi8, _mm_load_si128, _mm_loadu_si128, _mm_movemask_epi8,
        };
        // SAFETY: SSE2 is a part of x86-64, and what is loaded are sixteen bytes each, those of
        // `self` from places that are multiples of sixteen.
        let equal = unsafe {
            let own = |bytes: &[u8; WORD_BYTES]| _mm_load_si128(bytes.as_ptr().cast());
            let word = _mm_loadu_si128(word.as_ptr().cast());
            let word = _mm_and_si128(word, own(&self.mask));
            _mm_movemask_epi8(_mm_cmpeq_epi8(word, own(&self.bytes)))
        };
        equal == 0xffff
    }

    /// Whether these begin so.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    #[must_use]
    pub fn fits(&self, word: &[u8; WORD_BYTES]) -> bool {
        self.fits_by_numbers(word)
    }

    #[cfg(any(test, not(target_arch = "x86_64")))]
    #[inline]
    fn fits_by_numbers(&self, word: &[u8; WORD_BYTES]) -> bool {
        let [word, bytes, mask] = [word, &self.bytes, &self.mask].map(|b| u128::from_le_bytes(*b));
        word & mask == bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_standard_library_says() {
        let mut state = 5_u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        for _ in 0..20_000 {
            let word: [u8; WORD_BYTES] = std::array::from_fn(|_| below(3) as u8 * 127);
            let mut bytes = word.to_vec();
            bytes.truncate(below(17) as usize);
            if !bytes.is_empty() && below(2) == 0 {
                let place = below(bytes.len() as u64) as usize;
                bytes[place] ^= 1 << below(8);
            }
            let start = Start::new(&bytes);
            assert_eq!(start.fits(&word), word.starts_with(&bytes), "{word:?} {bytes:?}");
            assert_eq!(start.fits_by_numbers(&word), start.fits(&word));
        }
    }
}
