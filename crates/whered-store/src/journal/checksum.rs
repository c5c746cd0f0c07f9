//! CRC-32C of frames: most are some dozens of bytes, where the general routine's care for alignment
//! costs more than the sum itself.
//!
//! Not for: large payloads and blocks; the `crc32c` crate works on three stretches at once there.
//! Below 256 bytes one instruction for each eight bytes, wherever they begin, is faster (`bench/own
//! --bin store`, line "replay"). The scalar path is the crate's, and the test compares both.

/// Up to here the short routine is used.
#[cfg(target_arch = "x86_64")]
const SHORT_BYTES_MAX: usize = 256;

/// The instruction, known to be there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crc32c {
    #[cfg(target_arch = "x86_64")]
    has_instruction: bool,
}

impl Crc32c {
    /// Looks at the processor.
    pub(crate) fn new() -> Crc32c {
        Crc32c {
            #[cfg(target_arch = "x86_64")]
            has_instruction: std::arch::is_x86_feature_detected!("sse4.2"),
        }
    }

    /// Goes on from `sum` with the bytes of `head` and then those of `rest`.
    #[inline]
    pub(crate) fn append(self, sum: u32, head: [u8; 4], rest: &[u8]) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if self.has_instruction && rest.len() <= SHORT_BYTES_MAX {
            #[allow(unsafe_code, reason = "a function for a processor feature")]
            // SAFETY: the field is true only where `new` found the feature.
            return unsafe { short(sum, head, rest) };
        }
        crc32c::crc32c_append(crc32c::crc32c_append(sum, &head), rest)
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn short(sum: u32, head: [u8; 4], rest: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let mut state = u64::from(_mm_crc32_u32(!sum, u32::from_le_bytes(head)));
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        state = _mm_crc32_u64(state, u64::from_le_bytes(*word));
    }
    // The instruction leaves the upper half zero.
    let mut state = state as u32;
    let (half, rest) = rest.as_chunks::<4>();
    for half in half {
        state = _mm_crc32_u32(state, u32::from_le_bytes(*half));
    }
    for byte in rest {
        state = _mm_crc32_u8(state, *byte);
    }
    !state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lengths_and_places_give_the_sum_of_the_general_routine() {
        let bytes: Vec<u8> =
            (0..400_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let ours = Crc32c::new();
        for start in 0..9 {
            for length in 0..300 {
                let rest = &bytes[start..start + length];
                let head = [start as u8, 7, 0, length as u8];
                for sum in [0, 1, u32::MAX, 0x1234_5678] {
                    let expected = [&head[..], rest].concat();
                    assert_eq!(
                        ours.append(sum, head, rest),
                        crc32c::crc32c_append(sum, &expected),
                        "{length} bytes from {start}"
                    );
                }
            }
        }
    }
}
