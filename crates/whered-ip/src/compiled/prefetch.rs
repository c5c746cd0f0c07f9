//! What a batch prefetches when it knows a slot: the node that the slot leads to, and the caller's
//! item for a value.
//!
//! The lanes of a batch reach their slots at different stages. A value's item is prefetched while
//! other lanes still descend. Not for: reading anything.

use super::slot::Slot;
use crate::simd::{prefetch, prefetch_at};
use std::hint::select_unpredictable;

/// The line that a slot makes a batch prefetch.
pub(super) trait Prefetch: Copy {
    /// Prefetches what a lane with this slot reads next.
    fn prefetch(self, nodes: &[u32], slot: Slot);
}

/// The node alone.
#[derive(Clone, Copy)]
pub(super) struct Node;

impl Prefetch for Node {
    /// A slot that is no child prefetches a line that is not read, which is cheaper than a branch.
    #[inline(always)]
    fn prefetch(self, nodes: &[u32], slot: Slot) {
        prefetch(nodes, slot.place());
    }
}

/// Items of a caller, one for each value: item n has the bytes from n times `item_bytes` on.
///
/// It reads nothing; a wrong size prefetches the wrong lines.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    /// All items.
    pub bytes: &'a [u8],
    /// The size of an item.
    pub item_bytes: usize,
}

impl Prefetch for Items<'_> {
    #[inline(always)]
    fn prefetch(self, nodes: &[u32], slot: Slot) {
        let node = nodes.as_ptr().wrapping_add(slot.place()).cast();
        let value = slot.narrow_value() as usize;
        let item = self.bytes.as_ptr().wrapping_add(value.wrapping_mul(self.item_bytes));
        prefetch_at(select_unpredictable(slot.is_child(), node, item));
    }
}
