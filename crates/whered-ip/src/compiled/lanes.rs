//! Some of the lanes of a batch, in order: those that a stage goes on with.
//!
//! For: leaving lanes out without a branch. Not for: what a lane holds.

use crate::tables::LANES;

/// The lanes.
#[derive(Clone, Copy)]
pub(super) struct Lanes {
    lanes: [u8; LANES],
    count: usize,
}

impl Lanes {
    /// The first `count` lanes.
    #[inline(always)]
    pub(super) fn first(count: usize) -> Lanes {
        Lanes { lanes: std::array::from_fn(|lane| lane as u8), count: count.min(LANES) }
    }

    /// Keeps some of the lanes.
    ///
    /// In a loop of its own: the place a lane is kept at depends on what is still being read, and
    /// a stage that mixed both made later reads wait for where those writes would go.
    #[inline(always)]
    pub(super) fn retain(&mut self, is_kept: impl Fn(usize) -> bool) {
        let mut kept = 0;
        for place in 0..self.len() {
            let lane = self.lanes[place];
            self.lanes[kept] = lane;
            kept += usize::from(is_kept(usize::from(lane) % LANES));
        }
        self.count = kept;
    }

    pub(super) fn len(&self) -> usize {
        self.count.min(LANES)
    }

    #[inline(always)]
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.lanes[..self.len()].iter().map(|lane| usize::from(*lane) % LANES)
    }
}
