//! The answers behind the first 48 bits of an address: short sorted lists of 80 bits.
//!
//! For: the few boundaries of a routing table there. Not for: sets with many (`intervals`).
//!
//! ```text
//! bounds       | b0 | b1 | ...           where list n begins, and the next
//! lows         | 16 + 64 bits | ...      the last 80 bits of its boundaries, sorted
//! low_answers  | at the list's beginning | behind each boundary | ...
//! ```
//!
//! Invariants: one answer more a list than it has boundaries. Concurrency: never changes. Cost: a
//! binary search; 20 bytes a boundary and 8 a list.

use crate::image::{Section, bytes_of, section};

/// The bits that lists look at.
pub(super) const LIST_BITS: u32 = 80;

/// The lists.
pub(super) struct Lists {
    bounds: Section<u32>,
    lows: Section<[u64; 2]>,
    low_answers: Section<u32>,
}

/// The lists while they are filled.
#[derive(Default)]
pub(super) struct Builder {
    bounds: Vec<u32>,
    lows: Vec<[u64; 2]>,
    low_answers: Vec<u32>,
}

impl Builder {
    /// A list for what begins below one /48: the answer at its beginning, and the other intervals.
    /// Gives its number.
    pub(super) fn push(&mut self, first: u32, rest: &[(u128, u32)]) -> u32 {
        let list = u32::try_from(self.bounds.len()).expect("fewer lists than boundaries");
        self.bounds.push(u32::try_from(self.lows.len()).expect("fewer than 2^32 boundaries"));
        self.low_answers.push(first);
        for (start, answer) in rest {
            self.lows.push(low_of(*start));
            self.low_answers.push(*answer);
        }
        list
    }

    pub(super) fn finish(mut self) -> Lists {
        self.bounds.push(u32::try_from(self.lows.len()).expect("fewer than 2^32 boundaries"));
        Lists {
            bounds: section(&self.bounds),
            lows: section(&self.lows),
            low_answers: section(&self.low_answers),
        }
    }
}

/// The last 80 bits, in order.
fn low_of(address: u128) -> [u64; 2] {
    [(address >> 64) as u64 & 0xffff, address as u64]
}

impl Lists {
    pub(super) fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let lows = bytes_of(&self.lows).len() + bytes_of(&self.low_answers).len();
        bytes_of(&self.bounds).len() + lows
    }

    /// The answer of a list for an address.
    pub(super) fn answer(&self, list: u32, address: u128) -> u32 {
        let list = list as usize;
        let (start, end) = (self.bounds[list] as usize, self.bounds[list + 1] as usize);
        let low = low_of(address);
        let below = self.lows[start..end].partition_point(|boundary| *boundary <= low);
        self.low_answers[start + list + below]
    }
}
