//! From changes to slots of the table and edits of the tree, one group of members after the other.
//!
//! For: the second stage of a batch. Not for: the table itself (`members/bulk.rs`).
//!
//! ```text
//! group   ──► Latest   last change of each member, last first
//!         ──► slots    asked for beforehand, exchanged for the new cells
//!         ──► edits    some at a time, to the lanes of their cells
//! ```
//!
//! Cost: a line of the table, one of the change, and two edits of 24 bytes for each.

use super::Change;
use crate::cell::Cell;
use crate::points::leaf::Edit;
use crate::points::members::groups::Group;
use crate::points::outside::LONGEST_INSIDE_BYTES;
use crate::points::tree::bulk::{LaneEdits, Lanes};

/// How many changes ahead slots and changes are asked for.
const AHEAD: usize = 24;
/// So many changes become edits before these are dealt out to the lanes: neither stage waits for
/// what the other's branches were mistaken in.
const STAGE: usize = 64;
/// Room for edits in a block.
const BLOCK_EDITS: std::ops::RangeInclusive<usize> = 8..=128;

/// What the table knows of a member's hash, and the number of its change in the round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashed {
    pub(super) telling: u32,
    pub(super) index: u32,
}

/// What a thread made of its groups.
#[derive(Debug)]
pub(super) struct Exchanged<'c> {
    /// By lane.
    pub(super) edits: Vec<LaneEdits<'c>>,
    /// What is to be changed one by one.
    pub(super) put_off: Vec<Change<'c>>,
    /// Members that the table has more, modulo 2^64.
    pub(super) growth: usize,
    changes: &'c [Change<'c>],
    latest: Latest,
    staged: Vec<Edit<'c>>,
    block: usize,
}

impl<'c> Exchanged<'c> {
    pub(super) fn new(changes: &'c [Change<'c>], lanes: usize, block: usize) -> Exchanged<'c> {
        Exchanged {
            edits: std::iter::repeat_with(LaneEdits::default).take(lanes).collect(),
            put_off: Vec::new(),
            growth: 0,
            changes,
            latest: Latest::default(),
            staged: Vec::with_capacity(2 * STAGE),
            block: block.clamp(*BLOCK_EDITS.start(), *BLOCK_EDITS.end()),
        }
    }

    /// Works a group off, whose changes are given in their order in some pieces.
    pub(super) fn exchange(&mut self, pieces: &[&[Hashed]], group: Group<'_>, lanes: &Lanes<'_>) {
        let mut latest = std::mem::take(&mut self.latest);
        latest.clear(pieces.iter().map(|piece| piece.len()).sum());
        for change in pieces.iter().rev().flat_map(|piece| piece.iter().rev()) {
            latest.note(*change, self.changes);
        }
        latest.verify(self.changes);
        self.exchange_latest(&latest.changes, group, lanes);
        self.latest = latest;
    }

    fn exchange_latest(
        &mut self,
        latest: &[(Hashed, bool)],
        mut group: Group<'_>,
        lanes: &Lanes<'_>,
    ) {
        for start in (0..latest.len()).step_by(STAGE) {
            for at in start..latest.len().min(start + STAGE) {
                if let Some((later, _)) = latest.get(at + AHEAD) {
                    group.prefetch(later.telling);
                    whered_cpu::prefetch(self.changes, later.index as usize);
                }
                let (hashed, is_single) = latest[at];
                self.exchange_one(hashed, is_single, &mut group);
            }
            for edit in self.staged.drain(..) {
                self.edits[lanes.lane(edit.bits(), edit.member())].push(edit, self.block);
            }
        }
    }

    #[inline]
    fn exchange_one(&mut self, hashed: Hashed, is_single: bool, group: &mut Group<'_>) {
        let change = self.changes[hashed.index as usize];
        let bits = change.cell.map(Cell::bits);
        let is_ready = is_single && change.member.len() <= LONGEST_INSIDE_BYTES;
        let taken = if is_ready { group.exchange(hashed.telling, bits) } else { None };
        let Some(taken) = taken else {
            self.put_off.push(change);
            return;
        };
        for &old in taken.cells() {
            self.staged.push(Edit::removal(old, change.member));
            self.growth = self.growth.wrapping_sub(1);
        }
        if let Some(bits) = bits {
            self.staged.push(Edit::insertion(bits, change.member));
            self.growth = self.growth.wrapping_add(1);
        }
    }
}

/// The last change of each member of a group.
#[derive(Debug, Default)]
struct Latest {
    /// With whether the table can tell the member from all others that change.
    changes: Vec<(Hashed, bool)>,
    /// Numbers of changes, from one on, at the first free place from where the hash leads.
    places: Vec<u32>,
    /// Changes left out since the table takes their members for that of the change with this
    /// number (from nought on); the names are compared when all have been asked for.
    left_out: Vec<(Hashed, u32)>,
    /// Those of them that are another member's after all.
    apart: Vec<Hashed>,
}

impl Latest {
    fn clear(&mut self, expected: usize) {
        self.changes.clear();
        self.left_out.clear();
        self.apart.clear();
        self.places.clear();
        self.places.resize((2 * expected).next_power_of_two(), 0);
    }

    /// Takes a change, unless a later one of a member that is alike was there.
    #[inline]
    fn note(&mut self, change: Hashed, all: &[Change<'_>]) {
        let mask = self.places.len() - 1;
        let mut at = change.telling as usize & mask;
        while self.places[at] != 0 {
            let number = self.places[at] - 1;
            let (other, _) = self.changes[number as usize];
            if change.telling == other.telling {
                whered_cpu::prefetch(all, change.index as usize);
                whered_cpu::prefetch(all, other.index as usize);
                self.left_out.push((change, number));
                return;
            }
            at = (at + 1) & mask;
        }
        self.changes.push((change, true));
        self.places[at] = self.changes.len() as u32;
    }

    /// Compares the names of what was left out. Members that are merely alike are all changed one
    /// by one, the last change of each.
    fn verify(&mut self, all: &[Change<'_>]) {
        let member = |change: Hashed| all[change.index as usize].member;
        for (at, &(change, number)) in self.left_out.iter().enumerate() {
            if let Some(&(later, later_number)) = self.left_out.get(at + AHEAD) {
                let (other, _) = self.changes[later_number as usize];
                whered_cpu::prefetch(member(later), 0);
                whered_cpu::prefetch(member(other), 0);
            }
            let (other, is_single) = &mut self.changes[number as usize];
            if member(change) == member(*other) {
                continue;
            }
            *is_single = false;
            let is_known = |known: &Hashed| {
                known.telling == change.telling && member(*known) == member(change)
            };
            if !self.apart.iter().any(is_known) {
                self.apart.push(change);
            }
        }
        self.changes.extend(self.apart.iter().map(|&change| (change, false)));
    }
}
