//! Where a prefetch found a point, so that the change that follows need not search again.
//!
//! For: moves whose memory is prefetched together under a shared lock and that are applied
//! afterwards. Not for: searching (`lookup.rs`, `prefetch.rs`).
//!
//! ```text
//! lookup_hints   member ──► slot of the table, entry in its leaf ╮
//!                cell   ──► position in its leaf                 ├──► LookupHint
//!                                                                │
//! insert         is that still the member's slot and entry? ◄────┤   a few comparisons of cached memory,
//!                do both neighbours still enclose the cell? ◄────╯   else a search as without a hint
//! ```
//!
//! Invariant: a hint is checked before it is used, so that a wrong one changes nothing. The
//! collection may have changed since, and the hint may come from another one. Cost: an entry is
//! compared by its member, a position by its two neighbouring cells.

use super::members::Slot;
use super::tree::{Position, Tree};
use super::{Points, lookup};

/// Where [`Points::lookup_hints`] found one point. The default is an empty hint.
#[derive(Clone, Copy, Debug, Default)]
pub struct LookupHint {
    /// Where the member is.
    pub(super) from: Option<SeenEntry>,
    /// Where the cell belongs.
    pub(super) to: Option<Position>,
}

/// A member's slot in the table, and what is most likely its entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeenEntry {
    pub(super) slot: Slot,
    pub(super) at: Position,
    pub(super) bits: u64,
}

impl Points {
    /// The slot and the entry of a member with this hash, if the hint is still right.
    pub(super) fn confirmed(
        &self,
        hint: &LookupHint,
        hash: u64,
        member: &[u8],
    ) -> Option<(Slot, lookup::Found)> {
        let SeenEntry { slot, at, bits } = hint.from?;
        let leaf = self.tree.leaf_if_any(at)?;
        let is_so = self.members.has(slot, hash, bits)
            && leaf.has(at.slot(), bits, member, &self.tree.overflow);
        is_so.then_some((slot, lookup::Found { position: at, bits }))
    }
}

impl Tree {
    /// Where an entry in this cell belongs, if the hint is still right and no entry is in the cell.
    pub(super) fn confirmed_place(&self, hint: &LookupHint, bits: u64) -> Option<Position> {
        let at = hint.to?;
        self.leaf_if_any(at)?.is_between(at.slot(), bits).then_some(at)
    }
}
