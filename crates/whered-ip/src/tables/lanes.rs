//! Some of the lanes of a batch, in order: those that a stage goes on with.
//!
//! For: leaving lanes out without a branch for each. Not for: what a lane holds.
//!
//! A bit for each lane, the first one lowest.

use super::LANES;
use crate::simd::Compare;

/// The lanes.
#[derive(Clone, Copy)]
pub(crate) struct Lanes(u64);

impl Lanes {
    /// Those of all lanes of which this is true.
    ///
    /// In a loop of its own: what is asked is asked of all lanes before any goes on.
    #[inline(always)]
    pub(crate) fn of(is_one: impl Fn(usize) -> bool) -> Lanes {
        Lanes((0..LANES).fold(0, |lanes, lane| lanes | u64::from(is_one(lane)) << lane))
    }

    /// The lanes whose number is not below `bound`.
    #[inline(always)]
    pub(crate) fn not_below(processor: impl Compare, numbers: &[u32; LANES], bound: u32) -> Lanes {
        let mut lanes = 0;
        for numbers in numbers.as_chunks::<16>().0.iter().rev() {
            lanes = lanes << 16 | u64::from(processor.not_below16(numbers, bound));
        }
        Lanes(lanes)
    }

    /// Those before the lane `count`.
    pub(crate) fn first(self, count: usize) -> Lanes {
        Lanes(self.0 & u64::MAX.checked_shr((LANES - count.min(LANES)) as u32).unwrap_or(0))
    }

    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }
}

impl Iterator for Lanes {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let lane = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    }
}
