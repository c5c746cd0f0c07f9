//! What bringing a change near has seen of it, so that it is not looked for twice.
//!
//! For: moves that are brought near together, under a shared lock, and made afterwards. Not for: finding anything
//! (`lookup.rs`, `warm.rs`).
//!
//! ```text
//! foresee    member ──► slot of the table, entry in its leaf ╮
//!            cell   ──► place in its leaf                    ├──► Foreseen
//!                                                            │
//! insert     is that still the member's slot and entry? ◄────┤    a few comparisons of what is near
//!            do both neighbours still enclose the cell? ◄────╯    else it is looked for, as without
//! ```
//!
//! Invariant: nothing depends on what was foreseen being true. Whatever has become of the collection meanwhile, or
//! of another one, what is used has been found to be so; the rest is looked for.
//! Cost: an entry is compared by its text, a place by the two cells beside it.

use super::members::Slot;
use super::tree::{Position, Tree};
use super::{Points, lookup};

/// What [`Points::foresee`] has seen of one point. The default is nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Foreseen {
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
    /// The slot and the entry of a member with this hash, if they are what was foreseen.
    pub(super) fn confirmed(
        &self,
        foreseen: &Foreseen,
        hash: u64,
        member: &[u8],
    ) -> Option<(Slot, lookup::Found)> {
        let SeenEntry { slot, at, bits } = foreseen.from?;
        let leaf = self.tree.leaf_if_any(at)?;
        let is_so = self.members.has(slot, hash, bits)
            && leaf.has(at.slot(), bits, member, &self.tree.outside);
        is_so.then_some((slot, lookup::Found { position: at, bits }))
    }
}

impl Tree {
    /// Where an entry in this cell belongs, if it is what was foreseen and no entry is in the cell.
    pub(super) fn confirmed_place(&self, foreseen: &Foreseen, bits: u64) -> Option<Position> {
        let at = foreseen.to?;
        self.leaf_if_any(at)?.is_between(at.slot(), bits).then_some(at)
    }
}
