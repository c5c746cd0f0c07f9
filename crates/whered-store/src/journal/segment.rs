//! One segment file: its name and its header.
//!
//! ```text
//!   journal-<first sequence, 20 digits>.log
//!
//!   0         8         12        16               24            32     40         4096
//!   | magic   | version | crc32c  | first sequence | size bytes  | salt | zeros    | frames ...
//! ```
//!
//! All numbers are little endian. The checksum runs over the other bytes of the first forty. The
//! header has a block of its own, which is never rewritten: no later write can tear it. Version 2
//! says that the file was another segment before (`spare.rs`): behind its frames there are bytes of
//! that one instead of zeros, and the first block behind each group begins with zeros. Invariants:
//!
//! - a file bears a segment's name only after its header, its size and all of the segment before
//!   it are on stable storage (`writer.rs` renames a spare), so that a bad header under such a name
//!   is never the trace of a crash;
//! - the file has exactly `size bytes` for all its life, so that a file that was cut is noticed.

use crate::checksum;
use crate::error::StoreError;

/// Where the frames begin.
pub(crate) const HEADER_BYTES: u64 = 4096;

/// The smallest segment: the header and as much again.
pub const SEGMENT_SIZE_BYTES_MIN: u64 = 2 * HEADER_BYTES;

/// The largest segment; a larger file is not ours and is not read.
pub const SEGMENT_SIZE_BYTES_MAX: u64 = 2 << 30;

/// The header's bytes that carry something.
pub(crate) const HEADER_USED_BYTES: usize = 40;

const MAGIC: [u8; 8] = *b"whered\0J";
/// A segment of new space, and one in the space of an older one.
const VERSIONS: [u32; 2] = [1, 2];

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) first_sequence: u64,
    pub(crate) size_bytes: u64,
    pub(crate) salt: u64,
    /// Whether the space was an older segment's.
    pub(crate) is_reused: bool,
}

impl SegmentHeader {
    pub(crate) fn encode(self) -> [u8; HEADER_USED_BYTES] {
        let mut bytes = [0; HEADER_USED_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSIONS[usize::from(self.is_reused)].to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.size_bytes.to_le_bytes());
        bytes[32..].copy_from_slice(&self.salt.to_le_bytes());
        let checksum = checksum(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the header of `file` (a path for a person).
    ///
    /// The version is looked at before the checksum: a later version may sum up something else.
    pub(crate) fn decode(
        bytes: &[u8; HEADER_USED_BYTES],
        file: &str,
    ) -> Result<SegmentHeader, StoreError> {
        if bytes[..8] != MAGIC {
            return Err(StoreError::foreign_content(
                file,
                "this is not a journal of whered (its first eight bytes are other ones)",
            ));
        }
        let version = u32::from_le_bytes(field(bytes, 8));
        let stated_sum = u32::from_le_bytes(field(bytes, 12));
        if !VERSIONS.contains(&version) {
            // The checksum is right for a version of ours: the number was changed since.
            let is_damaged = VERSIONS.iter().any(|version| {
                let mut ours = *bytes;
                ours[8..12].copy_from_slice(&version.to_le_bytes());
                checksum(&ours) == stated_sum
            });
            if is_damaged {
                return Err(StoreError::damaged(file, 8, "the version is changed"));
            }
            return Err(StoreError::newer(
                file,
                8,
                &format!("journal format {version} is unknown; this program knows 1 and 2"),
            ));
        }
        if stated_sum != checksum(bytes) {
            return Err(StoreError::damaged(file, 12, "the checksum of the header is wrong"));
        }
        Ok(SegmentHeader {
            first_sequence: u64::from_le_bytes(field(bytes, 16)),
            size_bytes: u64::from_le_bytes(field(bytes, 24)),
            salt: u64::from_le_bytes(field(bytes, 32)),
            is_reused: version == VERSIONS[1],
        })
    }
}

fn checksum(bytes: &[u8; HEADER_USED_BYTES]) -> u32 {
    checksum::crc32c_append(checksum::crc32c(&bytes[..12]), &bytes[16..])
}

fn field<const LENGTH: usize>(bytes: &[u8; HEADER_USED_BYTES], offset: usize) -> [u8; LENGTH] {
    bytes[offset..offset + LENGTH].try_into().expect("the range has that length")
}

/// The meaning of a file's name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileName {
    /// A segment and its first sequence.
    Segment(u64),
    /// Preallocated space without entries, left behind by a crash.
    Spare,
    /// Nearly a segment's name: nobody of us makes such.
    Odd,
    /// Not the journal's.
    Other,
}

impl FileName {
    pub(crate) fn parse(name: &str) -> FileName {
        let Some(rest) = name.strip_prefix("journal-") else {
            return FileName::Other;
        };
        if rest.starts_with("spare-") && rest.ends_with(".new") {
            return FileName::Spare;
        }
        let Some(digits) = rest.strip_suffix(".log") else {
            return FileName::Other;
        };
        match digits.parse() {
            Ok(sequence) if sequence > 0 && segment_name(sequence) == name => {
                FileName::Segment(sequence)
            }
            _ => FileName::Odd,
        }
    }
}

/// The name of the segment that starts with this sequence.
pub(crate) fn segment_name(first_sequence: u64) -> String {
    format!("journal-{first_sequence:020}.log")
}

/// The name of a removed segment's space that waits to be another segment.
pub(crate) fn reusable_name(first_sequence: u64) -> String {
    format!("journal-spare-of-{first_sequence:020}.new")
}

/// The name of preallocated space that is not yet a segment.
pub(crate) fn spare_name(number: u64) -> String {
    format!("journal-spare-{number}.new")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_every_changed_bit_is_noticed() {
        for is_reused in [false, true] {
            let (first_sequence, size_bytes, salt) = (9, 1 << 26, 0x1234_5678);
            let header = SegmentHeader { first_sequence, size_bytes, salt, is_reused };
            let bytes = header.encode();
            assert_eq!(SegmentHeader::decode(&bytes, "f").unwrap(), header);
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes;
                changed[bit / 8] ^= 1 << (bit % 8);
                let error = SegmentHeader::decode(&changed, "f").unwrap_err();
                let expected = match bit / 8 {
                    0..8 => error.is_foreign(),
                    _ => error.is_damaged(),
                };
                assert!(expected && error.needs_repair(), "{error}");
                assert!(error.to_string().starts_with("f at byte "), "{error}");
            }
            // A newer version has its own number in its checksum.
            let mut newer = bytes;
            newer[8] = 3;
            let sum = checksum(&newer);
            newer[12..16].copy_from_slice(&sum.to_le_bytes());
            assert!(SegmentHeader::decode(&newer, "f").unwrap_err().is_newer());
        }
    }

    #[test]
    fn only_twenty_digits_make_a_segment() {
        assert_eq!(FileName::parse(&segment_name(17)), FileName::Segment(17));
        assert_eq!(FileName::parse(&segment_name(u64::MAX)), FileName::Segment(u64::MAX));
        assert_eq!(FileName::parse(&spare_name(3)), FileName::Spare);
        assert_eq!(FileName::parse(&reusable_name(3)), FileName::Spare);
        assert_eq!(FileName::parse("journal-17.log"), FileName::Odd);
        assert_eq!(FileName::parse("journal-+0000000000000000017.log"), FileName::Odd);
        assert_eq!(FileName::parse(&segment_name(0)), FileName::Odd);
        assert_eq!(FileName::parse("LOCK"), FileName::Other);
        assert_eq!(FileName::parse("journal-notes.txt"), FileName::Other);
    }
}
