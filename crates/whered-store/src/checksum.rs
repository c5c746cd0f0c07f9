//! CRC-32C of frames and blocks. Most frames are some dozens of bytes, where a general routine's
//! choices cost more than the sum itself.
//!
//! Not for: how large payloads and blocks are summed; `crc-fast` multiplies polynomials there, many
//! bytes at once. Below 256 bytes one instruction for each eight bytes, wherever they begin, is
//! faster (`bench/own --bin store`, line "replay"). The scalar path is the crate's, and the test
//! compares both with a third program.

use crc_fast::{CrcAlgorithm, Digest};

/// The sum of some bytes.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Goes on from the sum of what comes before.
pub(crate) fn crc32c_append(sum: u32, bytes: &[u8]) -> u32 {
    // A sum is a state's opposite.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!sum));
    digest.update(bytes);
    digest.finalize() as u32
}

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
        crc32c_append(crc32c_append(sum, &head), rest)
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
    fn long_stretches_have_the_sum_of_the_other_program() {
        let bytes: Vec<u8> =
            (0..70_000_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        assert_eq!(crc32c(b"123456789"), 0xe306_9283, "the check value of RFC 3720's sum");
        for length in (0..600).chain([4096, 4097, 65_535, 69_990]) {
            let part = &bytes[length % 7..][..length];
            assert_eq!(crc32c(part), ::crc32c::crc32c(part), "{length}");
            for sum in [0, 1, u32::MAX, 0x1234_5678] {
                let expected = ::crc32c::crc32c_append(sum, part);
                assert_eq!(crc32c_append(sum, part), expected, "{length} after {sum:x}");
            }
        }
    }

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
                        ::crc32c::crc32c_append(sum, &expected),
                        "{length} bytes from {start}"
                    );
                }
            }
        }
    }
}
