//! The table of all members of leaves that came back, and the members that are there twice.
//!
//! For: naming every entry of the leaves once. Not for: how a table is filled
//! (`members/bulk.rs`).
//!
//! ```text
//! leaves ──names hashed──► rows ──► parts ──► members with equal hashes, by cell
//!                                             ──looked at──► table put right, stale entries
//! leaves ◄───────────────────────────────────────────────── rewritten without those
//! ```
//!
//! Invariant: afterwards a member has one entry in the leaves and one slot in the table.
//! Concurrency: leaves are read by all threads, each of which has its share of them; parts are
//! taken one by one.
//! Cost: one pass over all texts; some microseconds for a member that is there twice.

use std::sync::Mutex;
use std::thread;

use super::LoadedLeaf;
use crate::points::hash::Key;
use crate::points::leaf::{Leaf, LeafBuilder};
use crate::points::members::bulk::{self, FilledTable, HashKey, Row, Rows, Suspect};
use crate::points::members::{self, Members};

/// An entry of the leaves.
#[derive(Clone, Copy, Debug)]
struct EntryAt<'a> {
    key: HashKey,
    member: &'a [u8],
    bits: u64,
    at: LeafSlot,
}

/// A leaf's index and a slot there.
type LeafSlot = (u32, u16);

/// The leaves, which are in order and without overlaps, with one entry for each member, and their
/// table. Of a member's entries, that of the largest cell stays.
pub(super) fn build(mut leaves: Vec<LoadedLeaf>, threads: usize) -> (Vec<LoadedLeaf>, Members) {
    let count = leaves.iter().map(|loaded| loaded.count).sum();
    let (members, stale) =
        if count < bulk::FEWEST { few(&leaves) } else { many(&leaves, count, threads) };
    drop_entries(&mut leaves, stale, threads);
    (leaves, members)
}

/// The table filled one by one.
fn few(leaves: &[LoadedLeaf]) -> (Members, Vec<LeafSlot>) {
    let (mut members, mut stale) = (Members::new(), Vec::new());
    let mut all = Vec::new();
    for (index, loaded) in leaves.iter().enumerate() {
        loaded.leaf.for_each_short(|slot, bits, member| {
            let key = bulk::key_of(members.hash(member));
            all.push(EntryAt { key, member, bits, at: (index as u32, slot as u16) });
        });
    }
    for same in by_member(all).chunk_by(is_same_member) {
        settle(same, &mut members, &mut stale);
    }
    (members, stale)
}

/// The table filled by parts.
fn many(leaves: &[LoadedLeaf], count: usize, threads: usize) -> (Members, Vec<LeafSlot>) {
    let key = Key::random();
    let rows = scatter(leaves, count, threads, &key);
    let (parts, mut suspects) = fill(rows, threads);
    let mut members = Members::of_parts(key, parts);
    suspects.sort_unstable();
    suspects.dedup();
    // A cell whose suspects are in two shares is walked through twice, each time for its own.
    let shares = suspects.chunks(share_of(suspects.len(), threads));
    let found = on_threads(shares, |some| entries_of_suspects(leaves, some, members.key()));
    let found = by_member(found.concat());
    suspects.sort_unstable_by_key(|suspect| suspect.key);
    for of_one_hash in suspects.chunk_by(|a, b| a.key == b.key) {
        members.remove_suspects(of_one_hash);
    }
    let mut stale = Vec::new();
    for same in found.chunk_by(is_same_member) {
        settle(same, &mut members, &mut stale);
    }
    (members, stale)
}

/// Puts a member into the table with the last of its entries; the others are stale.
fn settle(entries: &[EntryAt<'_>], members: &mut Members, stale: &mut Vec<LeafSlot>) {
    if let Some((last, others)) = entries.split_last() {
        members.insert(members.hash(last.member), last.bits);
        stale.extend(others.iter().map(|entry| entry.at));
    }
}

fn is_same_member(a: &EntryAt<'_>, b: &EntryAt<'_>) -> bool {
    a.key == b.key && a.member == b.member
}

/// Sorts entries so that those of a member follow each other, the largest cell last.
fn by_member(mut entries: Vec<EntryAt<'_>>) -> Vec<EntryAt<'_>> {
    entries.sort_unstable_by(|a, b| (a.key, a.member, a.bits).cmp(&(b.key, b.member, b.bits)));
    entries
}

/// Hashes all names; each thread has a share of the leaves and rows of its own.
fn scatter(leaves: &[LoadedLeaf], count: usize, threads: usize, key: &Key) -> Vec<Rows> {
    let share = share_of(leaves.len(), threads);
    let room = count / leaves.len().div_ceil(share).max(1);
    on_threads(leaves.chunks(share), |leaves| {
        let mut rows = Rows::new(room);
        for loaded in leaves {
            loaded.leaf.for_each_short(|_, bits, member| rows.push(key.hash(member), bits));
        }
        rows
    })
}

/// How many of `count` things each thread has, except the last thread.
fn share_of(count: usize, threads: usize) -> usize {
    count.div_ceil(threads.max(1)).max(1)
}

/// Does each share of the work on a thread of its own, the first on this one.
fn on_threads<T: Send, R: Send>(
    mut shares: impl Iterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let Some(own) = shares.next() else { return Vec::new() };
    thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = shares.map(|share| scope.spawn(move || work(share))).collect();
        let own = work(own);
        let others = others.into_iter().map(|other| match other.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        std::iter::once(own).chain(others).collect()
    })
}

/// Fills all parts, and tells which members may be there twice.
fn fill(rows: Vec<Rows>, threads: usize) -> (Vec<FilledTable>, Vec<Suspect>) {
    let mut rows: Vec<_> = rows.into_iter().map(Rows::into_rows).collect();
    let by_part = (0..bulk::PARTS).map(|number| {
        let of_part: Vec<Row> = rows.iter_mut().filter_map(Iterator::next).collect();
        (number, of_part)
    });
    let work = Mutex::new(by_part.collect::<Vec<_>>().into_iter());
    let filled = on_threads(0..threads.max(1), |_| {
        let (mut parts, mut suspects) = (Vec::new(), Vec::new());
        loop {
            let next = work.lock().expect("taking work cannot fail").next();
            let Some((number, of_part)) = next else { return (parts, suspects) };
            parts.push(FilledTable::new(number, &of_part, &mut suspects));
        }
    });
    let (mut parts, mut suspects) = (Vec::with_capacity(bulk::PARTS), Vec::new());
    for (some_parts, some_suspects) in filled {
        parts.extend(some_parts);
        suspects.extend(some_suspects);
    }
    (parts, suspects)
}

/// The entries whose cells and hashes are suspected; `suspects` is sorted.
fn entries_of_suspects<'a>(
    leaves: &'a [LoadedLeaf],
    suspects: &[Suspect],
    key: &Key,
) -> Vec<EntryAt<'a>> {
    let mut found = Vec::new();
    // All suspects of a cell at once: a cell may have any number of entries.
    for of_cell in suspects.chunk_by(|a, b| a.cell_code == b.cell_code) {
        for bits in members::bits_of(of_cell[0].cell_code) {
            let from = leaves.partition_point(|loaded| loaded.first < bits).saturating_sub(1);
            let beginning = leaves.iter().enumerate().skip(from);
            for (index, loaded) in beginning.take_while(|(_, loaded)| loaded.first <= bits) {
                let of_leaf = entries_in_cell(&loaded.leaf, index, bits, key);
                found.extend(of_leaf.filter(|entry| {
                    of_cell.binary_search_by_key(&entry.key, |suspect| suspect.key).is_ok()
                }));
            }
        }
    }
    found
}

fn entries_in_cell<'a>(
    leaf: &'a Leaf,
    index: usize,
    bits: u64,
    key: &Key,
) -> impl Iterator<Item = EntryAt<'a>> {
    let key = key.clone();
    let from = leaf.keys().rank(bits);
    (from..leaf.len()).take_while(move |&slot| leaf.cell_bits(slot) == bits).map(move |slot| {
        let member = leaf.short_member(slot);
        let key = bulk::key_of(key.hash(member));
        EntryAt { key, member, bits, at: (index as u32, slot as u16) }
    })
}

/// Rewrites the leaves without some of their entries.
fn drop_entries(leaves: &mut Vec<LoadedLeaf>, mut stale: Vec<LeafSlot>, threads: usize) {
    if stale.is_empty() {
        return;
    }
    stale.sort_unstable();
    let share = share_of(leaves.len(), threads);
    let mut rest = &stale[..];
    let shares = leaves.chunks_mut(share).enumerate().map(|(number, leaves)| {
        let first = number * share;
        let count = rest.partition_point(|&(index, _)| (index as usize) < first + leaves.len());
        let (own, others) = rest.split_at(count);
        rest = others;
        (first, leaves, own)
    });
    let emptied = on_threads(shares, |(first, leaves, stale)| drop_some(leaves, first, stale));
    let (mut emptied, mut index) = (emptied.into_iter().flatten().peekable(), 0);
    leaves.retain(|_| {
        let is_emptied = emptied.next_if_eq(&index).is_some();
        index += 1;
        !is_emptied
    });
}

/// Drops stale entries from neighbouring leaves, from this index on. Leaves that would become empty
/// stay, and their indices are returned.
fn drop_some(leaves: &mut [LoadedLeaf], first: usize, stale: &[LeafSlot]) -> Vec<u32> {
    let mut emptied = Vec::new();
    for of_leaf in stale.chunk_by(|a, b| a.0 == b.0) {
        let loaded = &mut leaves[of_leaf[0].0 as usize - first];
        if of_leaf.len() == loaded.count {
            emptied.push(of_leaf[0].0);
        } else {
            let gone = of_leaf.iter().map(|&(_, slot)| usize::from(slot));
            *loaded = LoadedLeaf::new(LeafBuilder::without(&loaded.leaf, gone), loaded.page_number);
        }
    }
    emptied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_lose_what_is_stale_and_go_when_nothing_is_left() {
        let leaf = |from: u64, count: u64| {
            let entries: Vec<_> = (from..from + count).map(|bits| (bits, &b"m"[..])).collect();
            LoadedLeaf::new(Leaf::of_entries(&entries).unwrap(), 0)
        };
        let stale = vec![(3, 0), (1, 1), (0, 0), (0, 4), (0, 3), (0, 2), (0, 1), (1, 0), (2, 2)];
        for threads in 1..6 {
            let mut leaves = vec![leaf(0, 8), leaf(10, 2), leaf(20, 3), leaf(30, 1)];
            drop_entries(&mut leaves, stale.clone(), threads);
            let mut cells = Vec::new();
            leaves.iter().for_each(|leaf| leaf.leaf.for_each_short(|_, bits, _| cells.push(bits)));
            assert_eq!(cells, [5, 6, 7, 20, 21]);
            assert_eq!(leaves.len(), 2);
        }
    }
}
