//! Finds the end of a value: the first byte that is one of three, or a control character.
//!
//! Sixteen bytes are searched at once. Most values end within the first sixteen, so that the branch
//! after the search is predicted.
//! Not for: what the byte means.
//! Cost: some fifteen instructions for sixteen bytes.

/// How many bytes are searched at once.
const WORD_BYTES: usize = 16;

/// The three bytes that end a value, each of them sixteen times.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub(crate) struct StopBytes([[u8; WORD_BYTES]; 3]);

impl StopBytes {
    /// The three bytes; two of them may be equal.
    pub(crate) fn new(stops: [u8; 3]) -> StopBytes {
        StopBytes(stops.map(|stop| [stop; WORD_BYTES]))
    }

    /// The index of the first byte that is one of the three or a control character (below `0x20`).
    #[inline]
    pub(crate) fn find(&self, text: &[u8]) -> Option<usize> {
        // Most end within the first sixteen bytes.
        let found = text.first_chunk().and_then(|word| self.find_in(word));
        if found.is_some() { found } else { self.find_beyond(text) }
    }

    #[inline(never)]
    fn find_beyond(&self, text: &[u8]) -> Option<usize> {
        let (words, rest) = text.as_chunks();
        let mut offsets = (0..).step_by(WORD_BYTES).zip(words);
        let found = offsets.find_map(|(at, word)| Some(at + self.find_in(word)?));
        let is_stop = |byte: u8| byte < 0x20 || self.0.iter().any(|stop| stop[0] == byte);
        let in_rest = || rest.iter().position(|byte| is_stop(*byte));
        found.or_else(|| Some(text.len() - rest.len() + in_rest()?))
    }

    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "vector instructions")]
    #[inline]
    fn find_in(&self, word: &[u8; WORD_BYTES]) -> Option<usize> {
        use std::arch::x86_64::{
            _mm_cmpeq_epi8, _mm_load_si128, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8,
            _mm_or_si128, _mm_set1_epi8,
        };
        // SAFETY: SSE2 is a part of x86-64. Each load reads an array of sixteen bytes, and the type
        // aligns those of `self` to sixteen.
        let found = unsafe {
            let word = _mm_loadu_si128(word.as_ptr().cast());
            let [a, b, c] = &self.0;
            let is = |stop: &[u8; WORD_BYTES]| {
                _mm_cmpeq_epi8(word, _mm_load_si128(stop.as_ptr().cast()))
            };
            let [a, b, c] = [is(a), is(b), is(c)];
            let control = _mm_cmpeq_epi8(_mm_min_epu8(word, _mm_set1_epi8(0x1f)), word);
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, control)))
        };
        (found != 0).then(|| found.trailing_zeros() as usize)
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    fn find_in(&self, word: &[u8; WORD_BYTES]) -> Option<usize> {
        self.find_by_sums(word)
    }

    /// By subtraction: `(x - 1) & !x` sets the high bit of the lowest zero byte of `x`. It may set
    /// wrong bits above that one, but only the lowest set bit counts.
    #[cfg(any(test, not(target_arch = "x86_64")))]
    #[inline]
    fn find_by_sums(&self, word: &[u8; WORD_BYTES]) -> Option<usize> {
        const ONES: u128 = u128::MAX / 0xff;
        let word = u128::from_le_bytes(*word);
        let zero = |x: u128| x.wrapping_sub(ONES) & !x;
        let [a, b, c] = self.0.map(|stop| zero(word ^ u128::from_le_bytes(stop)));
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let found = (a | b | c | control) & (ONES * 0x80);
        (found != 0).then(|| found.trailing_zeros() as usize / 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stop_is_the_one_of_a_loop() {
        let mut state = 5_u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        let stops = StopBytes::new(*b"\"<\xe4");
        for _ in 0..20_000 {
            let length = below(50);
            let bytes: Vec<u8> = (0..length)
                .map(|_| match below(24) {
                    kind @ 0..3 => b"\"<\xe4"[kind as usize],
                    3..8 => below(256) as u8,
                    _ => b'a',
                })
                .collect();
            let slow = bytes.iter().position(|byte| *byte < 0x20 || b"\"<\xe4".contains(byte));
            assert_eq!(stops.find(&bytes), slow, "{bytes:?}");
            if let Some(word) = bytes.first_chunk() {
                assert_eq!(stops.find_by_sums(word), stops.find_in(word), "{word:?}");
            }
        }
    }
}
