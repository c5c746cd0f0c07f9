//! Inserting, moving and removing points.
//!
//! For: keeping tree and table in step, and the tree balanced.
//! Not for: loading in bulk; entries that arrive in order fill their leaves nevertheless.
//! A leaf is split when it is too large, joined with a neighbour when both together would be
//! three quarters full; blocks likewise. A move is a removal and an insertion in the tree, one
//! replaced number in the table.
//! Cost: two or three walks from the top to a leaf; splits move 128 entries, block splits 256
//! leaves.

use super::leaf::Leaf;
use super::{Block, Inserted, MOST_LEAVES, Points};
use crate::cell::Cell;

impl Points {
    /// Puts a member into a cell, whether or not it was somewhere before.
    pub fn insert(&mut self, member: &[u8], cell: Cell) -> Inserted {
        let bits = cell.bits();
        let hash = self.members.hash(member);
        let Some((slot, old_bits)) = self.members.find(hash, |bits| self.holds(bits, member))
        else {
            self.members.insert(hash, bits);
            self.insert_entry(bits, member);
            return Inserted::New;
        };
        if old_bits == bits {
            return Inserted::Unchanged;
        }
        self.members.replace(slot, bits);
        self.remove_entry(old_bits, member);
        self.insert_entry(bits, member);
        Inserted::Moved
    }

    /// Removes a member; says whether there was one.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let hash = self.members.hash(member);
        let Some((slot, bits)) = self.members.find(hash, |bits| self.holds(bits, member)) else {
            return false;
        };
        self.members.remove(slot);
        self.remove_entry(bits, member);
        true
    }

    fn insert_entry(&mut self, bits: u64, member: &[u8]) {
        self.len += 1;
        let Some((block, leaf)) = self.leaf_for(bits, member) else {
            self.insert_first_entry(bits, member);
            return;
        };
        let node = &mut self.blocks[block];
        let entries = &mut node.leaves[leaf];
        let slot = entries
            .find(bits, member, &self.outside)
            .expect_err("a member is inserted into the tree only after it was removed from it");
        let bytes_before = entries.memory_bytes();
        entries.insert(slot, bits, member, &mut self.outside);
        node.count += 1;
        node.firsts[leaf] = entries.cells()[0];
        let upper = entries.is_too_large().then(|| entries.split(slot));
        self.tree_bytes = self.tree_bytes + entries.memory_bytes() - bytes_before;
        self.firsts[block] = node.firsts[0];
        if let Some(upper) = upper {
            self.insert_leaf(block, leaf + 1, upper);
        }
    }

    fn insert_first_entry(&mut self, bits: u64, member: &[u8]) {
        let mut entries = Leaf::default();
        entries.insert(0, bits, member, &mut self.outside);
        self.blocks.push(Block::default());
        self.firsts.push(bits);
        self.insert_leaf(0, 0, entries);
        self.blocks[0].count = 1;
    }

    /// Puts a leaf into a block, whose count has it already, and splits the block if need be.
    fn insert_leaf(&mut self, block: usize, leaf: usize, entries: Leaf) {
        let node = &mut self.blocks[block];
        let bytes_before = node.memory_bytes();
        self.tree_bytes += entries.memory_bytes();
        node.firsts.insert(leaf, entries.cells()[0]);
        node.leaves.insert(leaf, entries);
        let upper = (node.leaves.len() > MOST_LEAVES).then(|| node.split(leaf));
        self.tree_bytes = self.tree_bytes + node.memory_bytes() - bytes_before;
        if let Some(upper) = upper {
            self.tree_bytes += upper.memory_bytes();
            self.firsts.insert(block + 1, upper.firsts[0]);
            self.blocks.insert(block + 1, upper);
        }
    }

    fn remove_entry(&mut self, bits: u64, member: &[u8]) {
        let (block, leaf) =
            self.leaf_for(bits, member).expect("the table has only cells that are in the tree");
        let node = &mut self.blocks[block];
        let entries = &mut node.leaves[leaf];
        let slot = entries
            .find(bits, member, &self.outside)
            .expect("the entry was found before it is removed");
        let bytes_before = entries.memory_bytes();
        entries.remove(slot, &mut self.outside);
        self.tree_bytes = self.tree_bytes + entries.memory_bytes() - bytes_before;
        node.count -= 1;
        self.len -= 1;
        if let Some(&first) = entries.cells().first() {
            node.firsts[leaf] = first;
        }
        self.tidy_leaf(block, leaf);
        self.tidy_block(block);
    }

    /// After a removal: drops an empty leaf, joins a small one with a neighbour.
    fn tidy_leaf(&mut self, block: usize, leaf: usize) {
        let node = &mut self.blocks[block];
        let joins = |lower: usize| {
            node.leaves.get(lower + 1).is_some_and(|upper| node.leaves[lower].can_take(upper))
        };
        // The neighbour before comes second, so that an emptied leaf needs no case of its own
        // unless it is the only one or its neighbours are full.
        let lower = if joins(leaf) {
            leaf
        } else if leaf > 0 && joins(leaf - 1) {
            leaf - 1
        } else if node.leaves[leaf].len() == 0 {
            let empty = node.leaves.remove(leaf);
            node.firsts.remove(leaf);
            self.tree_bytes -= empty.memory_bytes();
            return;
        } else {
            return;
        };
        let upper = node.leaves.remove(lower + 1);
        node.firsts.remove(lower + 1);
        let bytes_before = node.leaves[lower].memory_bytes() + upper.memory_bytes();
        node.leaves[lower].append(&upper);
        node.firsts[lower] = node.leaves[lower].cells()[0];
        self.tree_bytes = self.tree_bytes + node.leaves[lower].memory_bytes() - bytes_before;
    }

    /// After a removal: drops an empty block, joins a small one with a neighbour.
    fn tidy_block(&mut self, block: usize) {
        let Some(&first) = self.blocks[block].firsts.first() else {
            self.tree_bytes -= self.blocks.remove(block).memory_bytes();
            self.firsts.remove(block);
            return;
        };
        self.firsts[block] = first;
        let joins = |lower: usize| {
            let pair = self.blocks.get(lower..lower + 2);
            pair.is_some_and(|pair| pair[0].leaves.len() + pair[1].leaves.len() <= MOST_LEAVES / 2)
        };
        let lower = if joins(block) {
            block
        } else if block > 0 && joins(block - 1) {
            block - 1
        } else {
            return;
        };
        let mut upper = self.blocks.remove(lower + 1);
        self.firsts.remove(lower + 1);
        let node = &mut self.blocks[lower];
        let bytes_before = node.memory_bytes() + upper.memory_bytes();
        node.count += upper.count;
        node.leaves.append(&mut upper.leaves);
        node.firsts.append(&mut upper.firsts);
        self.tree_bytes = self.tree_bytes + node.memory_bytes() - bytes_before;
    }
}

impl Block {
    /// Cuts off the upper half; little, if the last leaf was inserted last.
    fn split(&mut self, inserted_leaf: usize) -> Block {
        let len = self.leaves.len();
        let at = if inserted_leaf + 1 == len { len - len / 16 } else { len / 2 };
        let leaves = self.leaves.split_off(at);
        let firsts = self.firsts.split_off(at);
        let count = leaves.iter().map(Leaf::len).sum();
        self.count -= count;
        Block { leaves, firsts, count }
    }
}
