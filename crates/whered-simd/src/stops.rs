//! Where a text ends: the first byte that is one of three, or a control character.
//!
//! For: scanners of uploads, sixteen bytes at once, so that most values end in the first step,
//! whatever their length, and no branch is guessed wrongly. Not for: what the byte means.
//!
//! Cost: some fifteen instructions for sixteen bytes.

/// How many bytes are looked at together.
const WORD_BYTES: usize = 16;

/// The three bytes, each of them sixteen times; see the file's header.
///
/// ```
/// let stops = whered_simd::Stops::new(*b"\"<&");
/// assert_eq!(stops.find(b"17\" x="), Some(2));
/// assert_eq!(stops.find(b"17"), None);
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct Stops([[u8; WORD_BYTES]; 3]);

impl Stops {
    /// Of these three; one may stand there twice.
    #[must_use]
    pub fn new(stops: [u8; 3]) -> Stops {
        Stops(stops.map(|stop| [stop; WORD_BYTES]))
    }

    /// How long a text is before the first byte that is one of the three, or a control character
    /// (below `0x20`); `None` if there is none.
    #[inline]
    #[must_use]
    pub fn find(&self, text: &[u8]) -> Option<usize> {
        // Most end within the first sixteen bytes.
        let found = text.first_chunk().and_then(|word| self.find_in(word));
        if found.is_some() { found } else { self.find_beyond(text) }
    }

    #[inline(never)]
    fn find_beyond(&self, text: &[u8]) -> Option<usize> {
        let (words, rest) = text.as_chunks();
        let mut places = (0..).step_by(WORD_BYTES).zip(words);
        let found = places.find_map(|(at, word)| Some(at + self.find_in(word)?));
        let is_stop = |byte: u8| byte < 0x20 || self.0.iter().any(|stop| stop[0] == byte);
        let in_rest = || rest.iter().position(|byte| is_stop(*byte));
        found.or_else(|| Some(text.len() - rest.len() + in_rest()?))
    }

    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "instructions that every such processor has")]
    #[inline]
    fn find_in(&self, word: &[u8; WORD_BYTES]) -> Option<usize> {
        use std::arch::x86_64::{
            _mm_cmpeq_epi8, _mm_load_si128, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8,
            _mm_or_si128, _mm_set1_epi8,
        };
        // SAFETY: SSE2 is a part of x86-64, and what is loaded are sixteen bytes each, those of
        // `self` from places that are multiples of sixteen.
        let places = unsafe {
            let word = _mm_loadu_si128(word.as_ptr().cast());
            let [a, b, c] = &self.0;
            let is = |stop: &[u8; WORD_BYTES]| {
                _mm_cmpeq_epi8(word, _mm_load_si128(stop.as_ptr().cast()))
            };
            let [a, b, c] = [is(a), is(b), is(c)];
            let control = _mm_cmpeq_epi8(_mm_min_epu8(word, _mm_set1_epi8(0x1f)), word);
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, control)))
        };
        (places != 0).then(|| places.trailing_zeros() as usize)
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    fn find_in(&self, word: &[u8; WORD_BYTES]) -> Option<usize> {
        self.find_by_sums(word)
    }

    /// By additions: `(x - 1) & !x` has its high bit in the lowest zero byte of `x`; what it may
    /// say wrongly lies above the first right one, and the lowest bit is what is asked for.
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
        let stops = Stops::new(*b"\"<\xe4");
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
