//! Tests of the tree's invariants, which cannot be seen from outside.

use std::sync::Arc;

use super::branch::{Branch, MOST_CHILDREN, Node};
use super::leaf::{Leaf, MOST_ENTRIES};
use super::walk::Cursor;
use super::*;
use crate::cell::Cell;
use whered_random::Random;

impl Points {
    /// Fails unless every invariant in the header of `mod.rs` holds.
    pub(super) fn assert_sound(&self) {
        self.tree.assert_sound();
        // A number is found without a look at the leaves: no slot may be left over.
        self.members.assert_sound(self.len());
        let bytes = size_of::<Points>() + self.tree.memory_bytes() + self.members.recounted_bytes();
        assert_eq!(self.memory_bytes(), bytes);
        for (member, cell) in self {
            assert_eq!(self.cell(member), Some(cell), "{}", member.escape_ascii());
        }
    }
}

impl Tree {
    fn assert_sound(&self) {
        let (mut bytes, mut len) = (0, 0);
        for (index, middle) in self.root.children().iter().enumerate() {
            assert_eq!(self.root.firsts()[index], middle.first());
            assert_eq!(self.root.counts()[index], middle.count());
            bytes += check(middle);
            for lowest in middle.children() {
                bytes += check(lowest);
                for leaf in lowest.children() {
                    assert!((1..=MOST_ENTRIES).contains(&leaf.len()));
                    // However it was made, it can be written to a disk and read back.
                    assert!(Leaf::from_stored(leaf.words()).is_ok());
                    bytes += leaf.memory_bytes();
                    len += leaf.len();
                }
            }
        }
        assert_eq!(self.len(), len);
        assert_eq!(self.overflow.text_bytes(), self.overflow.recounted_text_bytes());
        let beside = self.root.memory_bytes() + self.overflow.memory_bytes();
        assert_eq!(self.memory_bytes(), memory::with_holes(bytes) + beside);
        let entries: Vec<(Cell, &[u8])> =
            self.iter().map(|(member, cell)| (cell, member)).collect();
        assert_eq!(entries.len(), self.len());
        assert!(entries.windows(2).all(|pair| pair[0] < pair[1]));
    }

    fn leaf_count(&self) -> usize {
        let Some(mut cursor) = Cursor::new(self) else { return 0 };
        1 + std::iter::from_fn(|| cursor.advance().then_some(())).count()
    }
}

/// Checks what a branch says of its children; returns its memory.
fn check<C: Node>(branch: &Arc<Branch<C>>) -> usize {
    assert!((1..=MOST_CHILDREN).contains(&branch.children().len()));
    assert_eq!(branch.firsts().len(), branch.children().len());
    assert_eq!(branch.counts().len(), branch.children().len());
    for (index, child) in branch.children().iter().enumerate() {
        assert_eq!(branch.firsts()[index], child.first());
        assert_eq!(branch.counts()[index], child.count());
    }
    branch.memory_bytes()
}

fn cell(bits: u64) -> Cell {
    Cell::from_bits(bits).unwrap()
}

#[test]
fn the_tree_stays_sound_while_it_grows_moves_and_shrinks_over_several_branches() {
    let mut random = Random(42);
    let mut points = Points::new();
    for id in 0..150_000u64 {
        points.insert(id.to_string().as_bytes(), cell(random.below(1 << 30) << 20));
    }
    assert!(points.root.children()[0].children().len() > 3);
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
    assert!(points.is_empty() && points.root.children().is_empty());
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
    let leaves = points.leaf_count();
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

#[test]
fn the_account_of_memory_is_right_after_every_kind_of_change() {
    let mut random = Random(11);
    let mut points = Points::new();
    let mut views = Vec::new();
    for round in 0..60_000u64 {
        let member = match random.below(50) {
            0 => vec![b'x'; 1000 + random.below(60) as usize],
            1 => vec![b'y'; 1 << random.below(14)],
            _ => random.below(20_000).to_string().into_bytes(),
        };
        // Growing for the first third, shrinking in the last.
        if random.below(60_000) < round * 2 / 3 {
            points.remove(&member);
        } else {
            let bits = [77, random.below(1 << 12), random.below(1 << 30) << 20];
            points.insert(&member, cell(bits[random.below(3) as usize]));
        }
        match random.below(2_000) {
            0 => views.push(points.freeze()),
            1 => views.clear(),
            _ => {}
        }
        if round % 6_000 == 0 {
            points.assert_sound();
            points.clone().assert_sound();
        }
    }
    points.assert_sound();
}

#[test]
fn the_hint_of_one_member_moves_no_other() {
    let (mut points, mut hints) = (Points::new(), [LookupHint::default()]);
    for number in 0..1000u32 {
        points.insert(format!("name {number}").as_bytes(), cell(u64::from(number / 2)));
    }
    // Each of these shares its cell with the one before it in the order of names.
    for number in (1..1000u32).step_by(2) {
        let (one, other) = (format!("name {}", number - 1), format!("name {number}"));
        points.lookup_hints(&[(other.as_bytes(), cell(77_777))], &mut hints);
        points.insert_with_hint(one.as_bytes(), cell(99_999), &hints[0]);
    }
    points.assert_sound();
}

#[test]
fn nearly_all_hints_are_confirmed() {
    let mut random = Random(5);
    let mut points = Points::new();
    for number in 0..100_000u64 {
        points.insert(number.to_string().as_bytes(), cell(random.below(1 << 31) << 20));
    }
    let (mut entries, mut places) = (0, 0);
    for _ in 0..1000 {
        let name = random.below(100_000).to_string();
        let to = cell(random.below(1 << 31) << 20);
        let mut hints = [LookupHint::default()];
        points.lookup_hints(&[(name.as_bytes(), to)], &mut hints);
        let hash = points.members.hash(name.as_bytes());
        entries += usize::from(points.confirmed(&hints[0], hash, name.as_bytes()).is_some());
        places += usize::from(points.tree.confirmed_place(&hints[0], to.bits()).is_some());
        points.insert_with_hint(name.as_bytes(), to, &hints[0]);
    }
    assert!(entries > 950 && places > 950, "{entries} entries and {places} places of 1000");
    points.assert_sound();
}

#[test]
fn hits_that_are_held_stay_whatever_becomes_of_the_collection() {
    use crate::{Found, Order, Place, Search, Shape};
    let mut random = Random(17);
    let mut points = Points::new();
    let member = |number: u64| match number % 5_000 {
        0 => vec![b'x'; 1500 + number as usize / 5_000],
        _ => number.to_string().into_bytes(),
    };
    let mut move_some = |points: &mut Points, count: u64| {
        for _ in 0..count {
            let number = random.below(60_000);
            if random.below(9) == 0 {
                points.remove(&member(number));
            } else {
                points.insert(&member(number), cell(random.below(1 << 31) << 20));
            }
        }
    };
    move_some(&mut points, 120_000);
    let center = Place::new(8.0, 50.0).expect("on the globe");
    for (radius_meters, order) in [
        (5e5, Order::Unsorted),
        (8e6, Order::Unsorted),
        (3e7, Order::Unsorted),
        (8e6, Order::Ascending),
        (8e6, Order::Descending),
    ] {
        let shape = Shape::Circle { radius_meters };
        let search = Search { center, shape, order, count: None, any: false };
        let mut expected = Found::new();
        points.tree.find(&search, &mut expected);
        let told = |found: &Found, tree: &Tree| -> Vec<(Vec<u8>, Cell)> {
            found.hits(tree).map(|hit| (hit.member().to_vec(), hit.cell())).collect()
        };
        let expected = told(&expected, &points);
        let mut found = Found::new();
        points.tree.find(&search, &mut found);
        let held = points.hold(&mut found);
        held.assert_sound();
        assert!(held.len() < points.len() || radius_meters > 2e7, "some leaves are not held");
        let mut unsorted = Found::new();
        points.tree.find(&Search { order: Order::Unsorted, ..search.clone() }, &mut unsorted);
        let scanned = points.hold(&mut unsorted);
        move_some(&mut points, 30_000);
        assert!(told(&found, &held) == expected, "{radius_meters} m, {order:?}");
        scanned.sort(&search, &mut unsorted);
        assert!(
            told(&unsorted, &scanned) == expected,
            "sorted later, {radius_meters} m, {order:?}"
        );
    }
    points.assert_sound();
}
