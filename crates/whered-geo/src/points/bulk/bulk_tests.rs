//! Batches against the same changes made one by one.

use std::collections::BTreeMap;

use super::*;
use crate::points::hash::Key;
use crate::points::members::Members;
use crate::points::number::number;
use whered_random::Random;

/// The twin: a map, which needs no order of entries to say what a batch makes of it.
type Twin = BTreeMap<Vec<u8>, u64>;

/// The make-up of a batch.
#[derive(Clone, Copy)]
struct Mix {
    /// Numbers that members are named by.
    members: u64,
    /// Of a hundred changes.
    removals: u64,
    /// Over how many bits cells are spread.
    cell_bits: u32,
}

type Owned = Vec<(Vec<u8>, Option<u64>)>;

type Entries = Vec<(Vec<u8>, Cell)>;

fn batch(random: &mut Random, count: usize, mix: Mix) -> Owned {
    let change = |random: &mut Random| {
        let number = random.below(mix.members);
        let member = match number % 97 {
            0 => vec![b'l'; 1000 + (number / 97 % 40) as usize],
            1 => Vec::new(),
            2 => format!("{number:0200}").into_bytes(),
            _ => number.to_string().into_bytes(),
        };
        let bits = match random.below(40) {
            0 => 77,
            1 => [1 << 52, 1 << 53, 3 << 52, 0, 5][random.below(5) as usize],
            _ => random.below(1 << mix.cell_bits.min(30)) << mix.cell_bits.saturating_sub(30),
        };
        let is_removal = random.below(100) < mix.removals;
        (member, (!is_removal).then_some(bits))
    };
    (0..count).map(|_| change(random)).collect()
}

fn changes(batch: &Owned) -> Vec<Change<'_>> {
    let cell = |bits| Cell::from_bits(bits).unwrap();
    batch.iter().map(|(member, bits)| Change { member, cell: bits.map(cell) }).collect()
}

fn apply_to_twin(twin: &mut Twin, batch: &Owned) {
    for (member, bits) in batch {
        match bits {
            Some(bits) => _ = twin.insert(member.clone(), *bits),
            None => _ = twin.remove(member),
        }
    }
}

fn assert_same(points: &Points, twin: &Twin) {
    points.assert_sound();
    let mut expected: Vec<(u64, &[u8])> =
        twin.iter().map(|(member, bits)| (*bits, member.as_slice())).collect();
    expected.sort_unstable();
    let found: Vec<(u64, &[u8])> =
        points.iter().map(|(member, cell)| (cell.bits(), member)).collect();
    assert_eq!(found.len(), expected.len());
    assert!(found == expected);
    points.members.assert_sound(points.len());
}

fn entries(view: &Tree) -> Entries {
    view.iter().map(|(member, cell)| (member.to_vec(), cell)).collect()
}

/// Applies a batch in one round, however small it is: with one thread as a batch that is kept for
/// as long as it has the right number of rows, with more as a list.
fn apply_in_a_round(points: &mut Points, kept: &mut ChangeBatch, batch: &Owned, threads: usize) {
    if threads == 1 {
        if kept.row_count() != points.rows_wanted() || kept.key != *points.members.key() {
            *kept = points.change_batch();
        }
        changes(batch).iter().for_each(|change| kept.push(change.member, change.cell));
        points.apply_round(std::slice::from_mut(kept), threads);
        kept.clear();
    } else {
        let mut batches = Vec::new();
        points.collect(&changes(batch), threads, &mut batches);
        points.apply_round(&mut batches, threads);
    }
}

/// Random batches of all sizes on one collection, beside its twin, with views held now and then.
fn run(seed: u64, rounds: usize, sizes: &[usize], mixes: &[Mix]) {
    let mut random = Random(seed);
    let (mut points, mut twin) = (Points::new(), Twin::new());
    let mut held: Option<(Tree, Entries)> = None;
    let mut kept = points.change_batch();
    for round in 0..rounds {
        let mix = mixes[random.below(mixes.len() as u64) as usize];
        let size = sizes[random.below(sizes.len() as u64) as usize];
        let batch = batch(&mut random, size, mix);
        apply_to_twin(&mut twin, &batch);
        let threads = 1 + random.below(3) as usize;
        apply_in_a_round(&mut points, &mut kept, &batch, threads);
        assert_same(&points, &twin);
        if let Some((view, then)) = &held {
            assert_eq!(&entries(view), then);
        }
        match round % 4 {
            0 => held = Some((points.freeze(), entries(&points))),
            2 => held = None,
            _ => {}
        }
    }
}

#[test]
fn small_batches_make_what_single_changes_make() {
    let mix = |members, removals, cell_bits| Mix { members, removals, cell_bits };
    let mixes = [mix(500, 20, 52), mix(2000, 20, 40), mix(300, 60, 8), mix(2000, 100, 52)];
    for seed in 0..12 {
        run(seed, 40, &[1, 2, 3, 10, 100, 700], &mixes);
    }
}

#[test]
fn large_batches_make_what_single_changes_make() {
    let mix = |members, removals, cell_bits| Mix { members, removals, cell_bits };
    let mixes = [mix(90_000, 10, 52), mix(150_000, 5, 35), mix(90_000, 20, 3), mix(60_000, 80, 52)];
    for seed in 0..4 {
        run(seed, 8, &[5_000, 30_000, 70_000, 150_000], &mixes);
    }
}

#[test]
fn a_collection_comes_from_nothing_and_goes_to_nothing() {
    let mut random = Random(11);
    let (mut points, mut twin) = (Points::new(), Twin::new());
    let mix = Mix { members: 1 << 40, removals: 0, cell_bits: 52 };
    let all = batch(&mut random, 300_000, mix);
    apply_to_twin(&mut twin, &all);
    points.apply_bulk(&changes(&all), 2);
    assert_same(&points, &twin);
    assert!(points.root.children()[0].children().len() > 5);
    let gone: Owned = all.into_iter().map(|(member, _)| (member, None)).collect();
    let (most, last) = gone.split_at(250_000);
    for part in [most.to_vec(), last.to_vec(), last.to_vec()] {
        apply_to_twin(&mut twin, &part);
        points.apply_bulk(&changes(&part), 2);
        assert_same(&points, &twin);
    }
    assert!(points.is_empty() && points.root.children().is_empty());
    assert!(points.insert(b"again", Cell::MIN) == crate::Inserted::New);
    points.assert_sound();
}

#[test]
fn members_that_the_table_cannot_tell_apart_are_told_apart() {
    let mut random = Random(5);
    let (mut points, mut twin) = (Points::new(), Twin::new());
    // All members of three bytes but numbers have one hash, and share few cells at that.
    points.members = Members::with_key(Key::blind_to(3));
    for round in 0..60 {
        let change = |random: &mut Random| {
            let number = random.below(if round < 20 { 4 } else { 900 }) as u16;
            let [low, high] = number.to_le_bytes();
            let bits = (random.below(5) > 0).then(|| random.below(7) * 0x3_0000_0005);
            (vec![b'm', low, high], bits)
        };
        let count = [1, 2, 5, 200][round % 4];
        let batch: Owned = (0..count).map(|_| change(&mut random)).collect();
        apply_to_twin(&mut twin, &batch);
        let mut kept = points.change_batch();
        apply_in_a_round(&mut points, &mut kept, &batch, 1 + round % 2);
        assert_same(&points, &twin);
    }
}

#[test]
fn the_last_of_many_changes_of_a_member_counts() {
    let mut points = Points::new();
    let numbers: Vec<String> = (0..1000u64).map(|number| (number % 3).to_string()).collect();
    let change = |(number, name): (u64, &'_ String)| -> (Vec<u8>, Option<u64>) {
        (name.clone().into_bytes(), (number % 2 == 0).then_some(number << 30))
    };
    let batch: Owned = (0..).zip(&numbers).map(change).collect();
    for threads in [1, 2, 3] {
        points.apply_bulk(&changes(&batch), threads);
        points.assert_sound();
        let found: Vec<_> = points.iter().map(|(member, cell)| (member, cell.bits())).collect();
        // Numbers 997, 998 and 999 are the last of their members; odd ones removed.
        assert_eq!(found, [(&b"2"[..], 998 << 30)]);
    }
}

#[test]
fn a_batch_that_changes_nothing_leaves_every_leaf_where_it_is() {
    let mut random = Random(3);
    let mut points = Points::new();
    let mix = Mix { members: 1 << 40, removals: 0, cell_bits: 52 };
    let all = batch(&mut random, 100_000, mix);
    points.apply_bulk(&changes(&all), 2);
    let bytes = points.memory_bytes();
    let last: Owned = {
        let mut twin = Twin::new();
        apply_to_twin(&mut twin, &all);
        twin.into_iter().map(|(member, bits)| (member, Some(bits))).collect()
    };
    let view = points.freeze();
    points.apply_bulk(&changes(&last), 2);
    points.assert_sound();
    assert_eq!(points.memory_bytes(), bytes);
    let leaf = |tree: &Tree| {
        std::ptr::from_ref(tree.leaf(tree.first_from(1 << 50)).bulk(0, &tree.overflow))
    };
    assert_eq!(leaf(&view), leaf(&points));
}

/// The memory that a change of this member takes in a batch.
fn bytes_of(name: &[u8]) -> usize {
    match number(name) {
        Some(_) => 16,
        None => 28 + if name.len() > 15 { name.len() } else { 0 },
    }
}

#[test]
fn a_batch_may_be_of_another_collection_or_of_one_that_has_grown() {
    let mut random = Random(8);
    let mix = Mix { members: 200_000, removals: 10, cell_bits: 52 };
    let (mut points, mut twin) = (Points::new(), Twin::new());
    let mut kept = [Points::new().change_batch(), points.change_batch()];
    for (round, size) in [10, 700, 100_000, 30_000, 300_000, 300, 400_000].into_iter().enumerate() {
        for kept in &mut kept {
            let batch = batch(&mut random, size, mix);
            apply_to_twin(&mut twin, &batch);
            changes(&batch).iter().for_each(|change| kept.push(change.member, change.cell));
            let longest =
                batch.iter().filter(|(_, bits)| bits.is_some()).map(|(name, _)| name.len());
            assert_eq!(kept.longest_added_bytes(), longest.max().unwrap_or(0));
            assert_eq!((kept.len(), kept.is_empty()), (size, false));
            assert_eq!(kept.bytes(), batch.iter().map(|(name, _)| bytes_of(name)).sum::<usize>());
            points.apply_batch(kept, 1 + round % 2);
            assert_same(&points, &twin);
            assert!(kept.is_empty() && kept.bytes() == 0);
        }
    }
}
