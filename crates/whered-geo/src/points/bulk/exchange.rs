//! From changes to slots of the table and edits of the tree, one group of members after the other.
//!
//! For: the second stage of a batch. Not for: the table itself (`members/groups.rs`).
//!
//! ```text
//! group   ──► Latest   last change of each member
//!         ──► slots    asked for beforehand, exchanged for the new cells
//!         ──► edits    some at a time, to the lanes of their cells
//! ```
//!
//! Cost: a line of the table, 28 bytes read, and two edits of 24 bytes written for each change.

use super::batch::Record;
use super::name::Texts;
use super::rows::Rows;
use crate::points::leaf::Edit;
use crate::points::members::groups::Group;
use crate::points::outside::LONGEST_INSIDE_BYTES;
use crate::points::tree::bulk::Lanes;

/// How many changes ahead slots are asked for.
const AHEAD: usize = 24;
/// So many changes become edits before these are dealt out to the lanes: neither stage waits for
/// what the other's branches were mistaken in.
const STAGE: usize = 64;

/// What the stage needs to know of table, tree and batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    pub(super) lanes: &'a Lanes<'a>,
    pub(super) texts: Texts<'a>,
    /// The bits of a hash that the table knows.
    pub(super) telling_mask: u32,
}

/// What a thread made of its groups.
#[derive(Debug)]
pub(super) struct Exchanged {
    /// By lane.
    pub(super) edits: Rows<Edit>,
    /// What is to be changed one by one.
    pub(super) put_off: Vec<Record>,
    /// Members that the table has more, modulo 2^64.
    pub(super) growth: usize,
    latest: Latest,
    staged: Vec<Edit>,
}

impl Exchanged {
    /// Nothing yet; `edits` are empty.
    pub(super) fn new(edits: Rows<Edit>) -> Exchanged {
        let staged = Vec::with_capacity(2 * STAGE);
        Exchanged { edits, put_off: Vec::new(), growth: 0, latest: Latest::default(), staged }
    }

    /// Works a group off, whose changes are given in their order.
    pub(super) fn exchange<'r>(
        &mut self,
        pieces: impl Iterator<Item = &'r [Record]> + Clone,
        group: Group<'_>,
        around: Around<'_>,
    ) {
        let mut latest = std::mem::take(&mut self.latest);
        latest.clear(pieces.clone().map(<[Record]>::len).sum());
        for record in pieces.flatten() {
            latest.note(record, around);
        }
        self.exchange_latest(&latest.records, group, around);
        self.latest = latest;
    }

    fn exchange_latest(&mut self, latest: &[Record], mut group: Group<'_>, around: Around<'_>) {
        let telling = |record: &Record| record.hash() & around.telling_mask;
        for start in (0..latest.len()).step_by(STAGE) {
            for at in start..latest.len().min(start + STAGE) {
                if let Some(later) = latest.get(at + AHEAD) {
                    group.prefetch(telling(later));
                }
                let record = &latest[at];
                self.exchange_one(record, telling(record), &mut group, around.texts);
            }
            for edit in self.staged.drain(..) {
                let lane = around.lanes.lane(edit.bits(), edit.name(), around.texts);
                self.edits.push(lane, edit);
            }
        }
    }

    #[inline]
    fn exchange_one(
        &mut self,
        record: &Record,
        telling: u32,
        group: &mut Group<'_>,
        texts: Texts<'_>,
    ) {
        let bits = record.bits();
        let is_ready = !record.is_apart() && record.name.bytes(texts).len() <= LONGEST_INSIDE_BYTES;
        let taken = if is_ready { group.exchange(telling, bits) } else { None };
        let Some(taken) = taken else {
            self.put_off.push(*record);
            return;
        };
        for &old in taken.cells() {
            self.staged.push(Edit::removal(old, record.name));
            self.growth = self.growth.wrapping_sub(1);
        }
        if let Some(bits) = bits {
            self.staged.push(Edit::insertion(bits, record.name));
            self.growth = self.growth.wrapping_add(1);
        }
    }
}

/// The last change of each member of a group.
#[derive(Debug, Default)]
struct Latest {
    /// Those that the table cannot tell from each other are set apart.
    records: Vec<Record>,
    /// Numbers of records, from one on, at the first free place from where the hash leads.
    places: Vec<u32>,
}

impl Latest {
    fn clear(&mut self, expected: usize) {
        self.records.clear();
        self.places.clear();
        self.places.resize((2 * expected).next_power_of_two(), 0);
    }

    /// Takes a change, in the place of an earlier one of the same member.
    #[inline]
    fn note(&mut self, record: &Record, around: Around<'_>) {
        let telling = |record: &Record| record.hash() & around.telling_mask;
        let mask = self.places.len() - 1;
        // The lowest bit says only whether the name is a number.
        let mut at = (telling(record) >> 1) as usize & mask;
        let mut record = *record;
        while let Some(number) = self.places[at].checked_sub(1) {
            let known = &mut self.records[number as usize];
            if telling(known) == telling(&record) {
                if known.name.is_same(&record.name, around.texts) {
                    known.follow(&record);
                    return;
                }
                known.set_apart();
                record.set_apart();
            }
            at = (at + 1) & mask;
        }
        self.records.push(record);
        self.places[at] = self.records.len() as u32;
    }
}
