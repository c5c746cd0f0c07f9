//! A name as lookups want it: in lower case, with the places of its labels and the hash of each of
//! its suffixes.
//!
//! Not for: names that are kept (`name.rs`).
//!
//! ```text
//! bytes   03 w w w 07 e x a m p l e 03 c o m 00   in lower case; what is behind it means nothing
//! starts  0  4  12                                where each label begins
//! hashes  [.] [com.] [example.com.] [www...]      by the number of labels
//! ```
//!
//! It is read again and again into the same memory, and only what the name needs is written.
//! Invariants: those of a name in wire form; `hashes[0]` is [`HASH_OF_ROOT`].
//! Cost: sixteen bytes a step for the case, eight for the hash; one short chain of multiplications.
#![deny(clippy::indexing_slicing)]

use crate::name::{NAME_SIZE_MAX, Name};

const LABEL_COUNT_MAX: usize = 127;
/// How many bytes are lowered at a time: what the least of processors has in one register.
const STEP: usize = 16;
/// The length that most names do not exceed.
const STEPS: usize = 2 * STEP;
/// Room for whole steps and words behind the longest name.
const BYTES_SIZE: usize = (NAME_SIZE_MAX + 9).next_multiple_of(STEP);

/// The hash of the root, from which every name's hash grows label by label.
pub(crate) const HASH_OF_ROOT: u64 = 0x9e37_79b9_7f4a_7c15;

/// See the head of this file.
#[derive(Clone)]
pub(crate) struct LowerName {
    bytes: [u8; BYTES_SIZE],
    length: u8,
    count: u8,
    starts: [u8; LABEL_COUNT_MAX + 1],
    hashes: [u64; LABEL_COUNT_MAX + 1],
}

impl LowerName {
    /// The root.
    pub(crate) fn root() -> LowerName {
        LowerName {
            bytes: [0; BYTES_SIZE],
            length: 1,
            count: 0,
            starts: [0; LABEL_COUNT_MAX + 1],
            hashes: [HASH_OF_ROOT; LABEL_COUNT_MAX + 1],
        }
    }

    /// The name of this owned form.
    pub(crate) fn of(name: &Name) -> LowerName {
        let mut lower = LowerName::root();
        lower.read(name.as_wire());
        lower
    }

    /// Reads the uncompressed name that `bytes` begin with and gives its length; a compression
    /// pointer is no label. After a failure the name is some name or other.
    #[inline]
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Option<usize> {
        let length = self.read_bytes(bytes)?;
        self.hash();
        Some(length)
    }

    /// The first half of [`LowerName::read`]. A batch does the second one for all of its names
    /// after this, since a processor waits for its own stores when it loads across two of them.
    #[inline]
    pub(crate) fn read_bytes(&mut self, bytes: &[u8]) -> Option<usize> {
        let (mut at, mut count) = (0_usize, 0_usize);
        loop {
            let length = usize::from(*bytes.get(at)?);
            let next = at + 1 + length;
            if length > 63 || next > NAME_SIZE_MAX {
                return None;
            }
            if length == 0 {
                break;
            }
            *self.starts.get_mut(count)? = at as u8;
            count += 1;
            at = next;
        }
        (self.length, self.count) = (at as u8 + 1, count as u8);
        self.lower(bytes, at + 1);
        Some(at + 1)
    }

    /// Copies `length` bytes in lower case, and some behind them where there are any.
    #[inline]
    fn lower(&mut self, source: &[u8], length: usize) {
        let (targets, _) = self.bytes.as_chunks_mut::<STEP>();
        let (steps, tail) = source.as_chunks::<STEP>();
        if let ([first, second, ..], [to_first, to_second, ..], 0..=STEPS) =
            (steps, &mut *targets, length)
        {
            *to_first = first.map(|byte| byte.to_ascii_lowercase());
            *to_second = second.map(|byte| byte.to_ascii_lowercase());
            return;
        }
        let wanted = length.div_ceil(STEP);
        for (target, step) in targets.iter_mut().zip(steps).take(wanted) {
            *target = step.map(|byte| byte.to_ascii_lowercase());
        }
        if wanted > steps.len()
            && let Some(target) = targets.get_mut(steps.len())
            && let Some(part) = target.get_mut(..tail.len())
        {
            part.copy_from_slice(tail);
            part.make_ascii_lowercase();
        }
    }

    /// The second half of [`LowerName::read`]: hashes what the first has left.
    #[inline]
    pub(crate) fn hash(&mut self) {
        let mut hash = HASH_OF_ROOT;
        let mut left = usize::from(self.count) & LABEL_COUNT_MAX;
        for slot in &mut self.hashes {
            *slot = hash;
            let Some(&start) = left.checked_sub(1).and_then(|label| self.starts.get(label)) else {
                break;
            };
            hash = hash_label(hash, &self.bytes, start);
            left -= 1;
        }
    }

    /// How many labels, without the root.
    #[inline]
    pub(crate) fn label_count(&self) -> usize {
        self.count.into()
    }

    /// The wire form in lower case.
    #[inline]
    pub(crate) fn as_wire(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }

    /// Where the last `labels` labels begin; 0 for more than there are.
    #[inline]
    pub(crate) fn start_of(&self, labels: usize) -> usize {
        match usize::from(self.count).checked_sub(labels) {
            Some(skipped) if labels > 0 => self.starts.get(skipped).copied().unwrap_or(0).into(),
            Some(_) => usize::from(self.length) - 1,
            None => 0,
        }
    }

    /// The last `labels` labels in wire form.
    #[inline]
    pub(crate) fn suffix(&self, labels: usize) -> &[u8] {
        self.as_wire().get(self.start_of(labels)..).unwrap_or_default()
    }

    /// The hash of the last `labels` labels.
    #[inline]
    pub(crate) fn hash_of(&self, labels: usize) -> u64 {
        self.hashes.get(labels).copied().unwrap_or(HASH_OF_ROOT)
    }
}

/// The hash of the label that starts at `start`, below the name with hash `parent`.
#[inline(always)]
fn hash_label(parent: u64, bytes: &[u8; BYTES_SIZE], start: u8) -> u64 {
    let length = bytes.get(usize::from(start)).copied().unwrap_or(0);
    let mut hash = parent ^ u64::from(length).rotate_left(56);
    let (mut at, mut left) = (start, length);
    while left > 8 {
        hash = mix(hash, word_behind(bytes, at));
        (at, left) = (at.wrapping_add(8), left - 8);
    }
    // What stands behind the label is shifted out; no label is empty.
    let bits = u32::from(left.wrapping_mul(8));
    mix(hash, word_behind(bytes, at) & (u64::MAX >> (64_u32.wrapping_sub(bits) & 63)))
}

/// The eight bytes behind a place of a name, which are always there.
#[inline(always)]
fn word_behind(bytes: &[u8; BYTES_SIZE], at: u8) -> u64 {
    let at = usize::from(at) + 1;
    bytes.get(at..at + 8).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word))
}

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 32)
}

/// The hash of `*` below the name with hash `parent`.
#[inline]
pub(crate) fn hash_of_wildcard(parent: u64) -> u64 {
    mix(parent ^ 1_u64.rotate_left(56), u64::from(b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lower(text: &str) -> LowerName {
        LowerName::of(&text.parse().unwrap())
    }

    #[test]
    fn the_longest_name_with_the_most_labels_is_read() {
        let longest: Name = "a.".repeat(127).parse().unwrap();
        let name = LowerName::of(&longest);
        assert_eq!((name.label_count(), name.as_wire().len()), (127, 255));
        assert!(LowerName::root().read(&[63; 300]).is_none());
        assert!(LowerName::root().read(&[0xc0, 12]).is_none());
    }

    #[test]
    fn hashes_ignore_case_and_what_stands_behind() {
        let name = lower("WwW.eXample-long-Label.Com");
        let mut again = lower("other.name.that.was.here.before");
        let mut bytes = name.as_wire().to_vec();
        bytes.extend_from_slice(&[0xff; 20]);
        assert_eq!(again.read(&bytes), Some(name.as_wire().len()));
        for labels in 0..=3 {
            assert_eq!(again.hash_of(labels), name.hash_of(labels));
            assert_eq!(again.suffix(labels), name.suffix(labels));
        }
        assert_eq!(name.hash_of(2), lower("example-long-label.COM").hash_of(2));
        assert_eq!(name.suffix(1), b"\x03com\x00");
        assert_eq!(name.suffix(0), b"\x00");
        assert_eq!(hash_of_wildcard(name.hash_of(2)), lower("*.example-long-label.com").hash_of(3));
    }
}
