//! What a batch asks the memory for when it knows a slot: the node that the slot leads to, and what the
//! caller keeps for a value.
//!
//! For: batches, whose lanes get to their slots at different stages; what belongs to a value is asked
//! for while other lanes still go on. Not for: reading anything.

use super::slot::Slot;
use crate::simd::{prefetch, prefetch_at};
use std::hint::select_unpredictable;

/// What to ask for.
pub(super) trait Next: Copy {
    /// Asks for what is read next by a lane with this slot.
    fn ask(self, nodes: &[u32], slot: Slot);
}

/// The node alone.
#[derive(Clone, Copy)]
pub(super) struct Node;

impl Next for Node {
    /// A slot that is no child asks for a line that is not read: cheaper than a branch.
    #[inline(always)]
    fn ask(self, nodes: &[u32], slot: Slot) {
        prefetch(nodes, slot.place());
    }
}

/// Items of a caller, one for each value: item n has the bytes from n times `item_bytes` on.
///
/// Nothing is read by it; a wrong size asks for the wrong lines.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    /// All items.
    pub bytes: &'a [u8],
    /// What an item takes.
    pub item_bytes: usize,
}

impl Next for Items<'_> {
    #[inline(always)]
    fn ask(self, nodes: &[u32], slot: Slot) {
        let node = nodes.as_ptr().wrapping_add(slot.place()).cast();
        let value = slot.narrow_value() as usize;
        let item = self.bytes.as_ptr().wrapping_add(value.wrapping_mul(self.item_bytes));
        prefetch_at(select_unpredictable(slot.is_child(), node, item));
    }
}
