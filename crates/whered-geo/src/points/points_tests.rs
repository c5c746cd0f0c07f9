//! Tests of the tree's invariants, which cannot be seen from outside.

use super::*;
use crate::cell::Cell;

impl Points {
    /// Fails unless every invariant in the header of `mod.rs` holds.
    fn assert_sound(&self) {
        assert_eq!(self.firsts.len(), self.blocks.len());
        let mut tree_bytes = 0;
        for (block, &first) in self.blocks.iter().zip(&self.firsts) {
            assert!(!block.leaves.is_empty() && block.leaves.len() <= MOST_LEAVES);
            assert_eq!(block.firsts[0], first);
            assert_eq!(block.firsts.len(), block.leaves.len());
            assert_eq!(block.count, block.leaves.iter().map(Leaf::len).sum::<usize>());
            tree_bytes += block.memory_bytes();
            for (leaf, &first) in block.leaves.iter().zip(&block.firsts) {
                assert!(leaf.len() > 0 && !leaf.is_too_large());
                assert_eq!(leaf.cells()[0], first);
                tree_bytes += leaf.memory_bytes();
            }
        }
        assert_eq!(self.tree_bytes, tree_bytes);
        assert_eq!(self.len, self.blocks.iter().map(|block| block.count).sum::<usize>());
        let entries: Vec<(Cell, &[u8])> =
            self.iter().map(|(member, cell)| (cell, member)).collect();
        assert_eq!(entries.len(), self.len);
        assert!(entries.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(entries.iter().all(|&(cell, member)| self.cell(member) == Some(cell)));
    }
}

/// A small generator with a fixed seed (Knuth's multiplier).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

fn cell(bits: u64) -> Cell {
    Cell::from_bits(bits).unwrap()
}

#[test]
fn the_tree_stays_sound_while_it_grows_moves_and_shrinks_over_several_blocks() {
    let mut random = Random(42);
    let mut points = Points::new();
    for id in 0..150_000u64 {
        points.insert(id.to_string().as_bytes(), cell(random.below(1 << 30) << 20));
    }
    assert!(points.blocks.len() > 1);
    points.assert_sound();
    for _ in 0..50_000 {
        let member = random.below(150_000).to_string();
        points.insert(member.as_bytes(), cell(random.below(1 << 10)));
    }
    points.assert_sound();
    for id in 0..150_000u64 {
        assert!(points.remove(id.to_string().as_bytes()));
        if id % 30_000 == 0 || id == 149_900 {
            points.assert_sound();
        }
    }
    assert!(points.is_empty() && points.blocks.is_empty());
    points.assert_sound();
}

#[test]
fn many_members_in_one_cell_are_ordered_by_their_bytes() {
    let mut random = Random(7);
    let mut points = Points::new();
    for _ in 0..20_000 {
        points.insert(random.below(1 << 20).to_string().as_bytes(), cell(77));
    }
    points.assert_sound();
    let (member, _) = points.iter().nth(12_345).unwrap();
    assert_eq!(points.rank(member), Some(12_345));
    assert_eq!(points.iter_cells(cell(77), cell(77)).remaining(), points.len());
    assert_eq!(points.iter_cells(cell(78), Cell::MAX).remaining(), 0);
}

#[test]
fn entries_that_arrive_in_order_fill_their_leaves() {
    let mut points = Points::new();
    for id in 0..50_000u64 {
        points.insert(format!("{id:06}").as_bytes(), cell(id));
    }
    points.assert_sound();
    let leaves: usize = points.blocks.iter().map(|block| block.leaves.len()).sum();
    assert!(leaves < 50_000 / 220, "{leaves}");
}

#[test]
fn huge_members_lie_outside_and_are_freed() {
    let mut points = Points::new();
    let huge = vec![7u8; 8 << 20];
    let before = points.memory_bytes();
    points.insert(&huge, cell(5));
    points.insert(b"beside", cell(5));
    points.insert(&huge, cell(6));
    assert!(points.memory_bytes() - before > 8 << 20);
    assert!(points.memory_bytes() - before < 9 << 20);
    assert_eq!(points.rank(&huge), Some(1));
    points.assert_sound();
    assert!(points.remove(&huge));
    assert!(points.memory_bytes() - before < 4096);
    points.assert_sound();
}
