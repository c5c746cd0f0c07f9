//! Lookups in a file that is not in memory: the first levels of the tree are kept, the rest is read
//! in blocks.
//!
//! For: STANDARD. Not for: handles that keep the file or an index. The table of first levels is
//! made when a handle has answered [`LOOKUPS_BEFORE_TOP`] times, so that a program that asks once
//! reads no more than it needs:
//!
//! ```text
//! top:  for each of the first 14 bits: | number | depth |   a leaf, or the node to go on at
//! ```
//!
//! Invariants: what a block lacks is read; a read that comes short ends the walk without an answer.
//! Cost: without the table one read for most levels, with it one or two; 128 KiB.

use crate::format::Layout;
use crate::source::Source;
use crate::tree::{self, Address, Leaf, Start};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const TOP_BITS: u8 = 14;
const LOOKUPS_BEFORE_TOP: u32 = 64;
const BLOCK_BYTES: usize = 1024;

#[derive(Default)]
pub(crate) struct Disk {
    lookups: AtomicU32,
    top: OnceLock<Option<Box<[Leaf]>>>,
}

impl Disk {
    /// Walks an address from the file's root or from where the table leads.
    pub(crate) fn walk(&self, source: &Source, layout: &Layout, address: Address) -> Option<Leaf> {
        let start = match self.start(source, layout, address) {
            Some(leaf) if leaf.number >= layout.base => return Some(leaf),
            Some(Leaf { number, depth_bits }) => Start { node: number, depth_bits },
            None => Start::default(),
        };
        let size = layout.edition.node_bytes();
        let mut block = [0; BLOCK_BYTES];
        let (mut first, mut count) = (0_u64, 0_usize);
        tree::walk(layout.base, start, address, |node, right| {
            let at = u64::from(node) * size;
            // The rule of files in memory: a node beyond the end is none, even if it can be read.
            if at + size > layout.size_bytes {
                return None;
            }
            let is_read = at >= first && at + size <= first + count as u64;
            if !is_read {
                first = at;
                count = source.read_at(&mut block, first).len();
            }
            let start = (at - first) as usize;
            let node = block.get(..count)?.get(start..start + size as usize)?;
            tree::record(node, right)
        })
    }

    /// Where the table leads, once there is one.
    fn start(&self, source: &Source, layout: &Layout, address: Address) -> Option<Leaf> {
        let top = match self.top.get() {
            Some(top) => top,
            None if self.lookups.load(Relaxed) > LOOKUPS_BEFORE_TOP => return None,
            // One lookup makes it. The others go on without, so that none waits: not for a thread
            // that a child of a fork does not have either.
            None if self.lookups.fetch_add(1, Relaxed) != LOOKUPS_BEFORE_TOP => return None,
            None => {
                let _ = self.top.set(top(source, layout));
                self.top.get()?
            }
        };
        let index = (address.bits >> (128 - u32::from(TOP_BITS))) as usize;
        top.as_ref()?.get(index).copied()
    }
}

/// The table of a file's first levels. `None`: the tree is broken there.
fn top(source: &Source, layout: &Layout) -> Option<Box<[Leaf]>> {
    let bytes = source.read_whole()?;
    let leaves = tree::leaves(&bytes, layout, layout.edition.is_ipv6, TOP_BITS)?;
    let mut top = Vec::with_capacity(1 << TOP_BITS);
    for (_, leaf) in leaves {
        let count = 1 << TOP_BITS.saturating_sub(leaf.depth_bits);
        top.extend(std::iter::repeat_n(leaf, count));
    }
    Some(top.into_boxed_slice())
}
