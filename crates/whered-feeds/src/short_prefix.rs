//! Compares up to sixteen bytes of markup at once.
//!
//! Not for: longer strings, which are compared in two steps or by the standard library.
//! Cost: five instructions.

/// How many bytes are compared at once.
const WORD_BYTES: usize = 16;

/// An expected prefix of up to sixteen bytes, and a mask of the bytes that count.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub(crate) struct ShortPrefix {
    bytes: [u8; WORD_BYTES],
    mask: [u8; WORD_BYTES],
}

impl ShortPrefix {
    /// The prefix of all these bytes, of which the first sixteen count.
    pub(crate) fn new(bytes: &[u8]) -> ShortPrefix {
        let mut prefix = ShortPrefix { bytes: [0; WORD_BYTES], mask: [0; WORD_BYTES] };
        for (index, byte) in bytes.iter().take(WORD_BYTES).enumerate() {
            (prefix.bytes[index], prefix.mask[index]) = (*byte, 0xff);
        }
        prefix
    }

    /// Whether the sixteen bytes begin with the prefix.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "vector instructions")]
    #[inline]
    pub(crate) fn matches(&self, word: &[u8; WORD_BYTES]) -> bool {
        use std::arch::x86_64::{
            _mm_and_si128, _mm_cmpeq_epi8, _mm_load_si128, _mm_loadu_si128, _mm_movemask_epi8,
        };
        // SAFETY: SSE2 is a part of x86-64. Each load reads an array of sixteen bytes, and the type
        // aligns those of `self` to sixteen.
        let equal = unsafe {
            let own = |bytes: &[u8; WORD_BYTES]| _mm_load_si128(bytes.as_ptr().cast());
            let word = _mm_loadu_si128(word.as_ptr().cast());
            let word = _mm_and_si128(word, own(&self.mask));
            _mm_movemask_epi8(_mm_cmpeq_epi8(word, own(&self.bytes)))
        };
        equal == 0xffff
    }

    /// Whether the sixteen bytes begin with the prefix.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    pub(crate) fn matches(&self, word: &[u8; WORD_BYTES]) -> bool {
        self.matches_as_number(word)
    }

    #[cfg(any(test, not(target_arch = "x86_64")))]
    #[inline]
    fn matches_as_number(&self, word: &[u8; WORD_BYTES]) -> bool {
        let [word, bytes, mask] = [word, &self.bytes, &self.mask].map(|b| u128::from_le_bytes(*b));
        word & mask == bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_the_standard_library() {
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
            let prefix = ShortPrefix::new(&bytes);
            assert_eq!(prefix.matches(&word), word.starts_with(&bytes), "{word:?} {bytes:?}");
            assert_eq!(prefix.matches_as_number(&word), prefix.matches(&word));
        }
    }
}
