//! Leaves that reach into each other, as they do where a leaf was split, joined or moved into
//! while the pages were written.
//!
//! For: making of sorted leaves such that each ends before the next one begins.
//! Not for: members that are twice in leaves far from each other (`table.rs`).
//!
//! ```text
//! leaves, by first entry    [a....b]   [c......e]            [j..k]
//!                                          [d......f]
//! runs that overlap                    └────run───┘          rewritten entry by entry
//! ```
//!
//! Within a run, a member's entry from the latest page stays. Between runs, that of the larger
//! cell is the later one, since pages are written in order of cells, and a leaf that was written
//! again is in a run with what it was before.
//! Cost: one comparison a leaf; the entries of a run are sorted twice.

use super::LoadedLeaf;
use crate::points::leaf::Leaf;
use crate::points::overflow::Text;

/// Entries of a leaf that is written anew: three quarters, as room to grow.
const ENTRIES: usize = super::super::leaf::MOST_ENTRIES / 4 * 3;
const TEXT_BYTES: usize = super::super::leaf::MOST_TEXT_BYTES / 4 * 3;

/// An entry of a run.
struct Entry<'a> {
    member: &'a [u8],
    bits: u64,
    page_number: u64,
}

/// The leaves, in order and without overlaps.
pub(super) fn resolve(leaves: Vec<LoadedLeaf>) -> Vec<LoadedLeaf> {
    let mut resolved = Vec::with_capacity(leaves.len());
    let mut run: Vec<LoadedLeaf> = Vec::new();
    // The last entry of the run, as the leaf of the run that has it.
    let mut last = 0;
    for leaf in leaves {
        if let Some(reaching) = run.get(last)
            && reaching.ends_before(&leaf)
        {
            finish_run(&mut run, &mut resolved);
            last = 0;
        } else if let Some(reaching) = run.get(last)
            && reaching.last_entry() < leaf.last_entry()
        {
            last = run.len();
        }
        run.push(leaf);
    }
    finish_run(&mut run, &mut resolved);
    resolved
}

impl LoadedLeaf {
    fn ends_before(&self, next: &LoadedLeaf) -> bool {
        let are_members_sorted = || self.last_entry().1 < next.leaf.short_member(0);
        self.last < next.first || self.last == next.first && are_members_sorted()
    }

    fn last_entry(&self) -> (u64, &[u8]) {
        (self.last, self.leaf.short_member(self.count - 1))
    }
}

fn finish_run(run: &mut Vec<LoadedLeaf>, resolved: &mut Vec<LoadedLeaf>) {
    if run.len() > 1 {
        rewrite(run, resolved);
        run.clear();
    }
    resolved.extend(run.pop());
}

fn rewrite(run: &[LoadedLeaf], resolved: &mut Vec<LoadedLeaf>) {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for LoadedLeaf { leaf, page_number, .. } in run {
        let page_number = *page_number;
        leaf.for_each_short(|_, bits, member| entries.push(Entry { member, bits, page_number }));
    }
    // The latest first, and of one page the larger cell, as between runs.
    entries.sort_by(|a, b| {
        let (a_age, b_age) = ((a.page_number, a.bits), (b.page_number, b.bits));
        a.member.cmp(b.member).then(b_age.cmp(&a_age))
    });
    entries.dedup_by(|later, kept| later.member == kept.member);
    entries.sort_by(|a, b| (a.bits, a.member).cmp(&(b.bits, b.member)));

    let (mut batch, mut text_bytes) = (Vec::new(), 0);
    for entry in &entries {
        let size = Text::Inside(entry.member).size();
        if batch.len() >= ENTRIES || text_bytes + size > TEXT_BYTES {
            finish_leaf(&batch, resolved);
            batch.clear();
            text_bytes = 0;
        }
        batch.push((entry.bits, entry.member));
        text_bytes += size;
    }
    finish_leaf(&batch, resolved);
}

fn finish_leaf(entries: &[(u64, &[u8])], resolved: &mut Vec<LoadedLeaf>) {
    // Its page does not matter any more.
    resolved.extend(Leaf::of_entries(entries).map(|leaf| LoadedLeaf::new(leaf, 0)));
}
