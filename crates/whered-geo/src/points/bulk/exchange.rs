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
//! Cost: a line of the table, 28 bytes read, and two edits of 24 bytes written for each change; of
//! a number 16 and 12 bytes.

use super::batch::Record;
use super::name::{BatchName, Name, Number, Texts};
use super::rows::Rows;
use crate::points::leaf::{Edit, Edits};
use crate::points::members::groups::Group;
use crate::points::overflow::LONGEST_INSIDE_BYTES;
use crate::points::tree::bulk::Lanes;

/// How many changes ahead slots are asked for.
const AHEAD: usize = 24;
/// This many changes become edits before these are dealt out to the lanes: neither stage waits for
/// what the other's branches were mistaken in.
const STAGE: usize = 64;

/// The state of table, tree and batch that the stage reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExchangeContext<'a> {
    pub(super) lanes: &'a Lanes<'a>,
    pub(super) texts: Texts<'a>,
    /// The bits of a hash that the table knows.
    pub(super) telling_mask: u32,
}

/// What a thread made of its groups. Numbers and names, which the table always tells apart, go by
/// themselves.
#[derive(Debug)]
pub(super) struct ExchangeResult {
    pub(super) edits: Edits,
    pub(super) rest: Rest,
    numbers: ExchangeState<Number>,
    names: ExchangeState<Name>,
}

/// The results of a thread other than edits.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// The changes that are applied one by one.
    pub(super) put_off: Vec<Record>,
    /// Members that the table has more, modulo 2^64.
    pub(super) growth: usize,
}

impl ExchangeResult {
    /// Nothing yet; `edits` are empty.
    pub(super) fn new(edits: Edits) -> ExchangeResult {
        let (numbers, names) = (ExchangeState::default(), ExchangeState::default());
        ExchangeResult { edits, rest: Rest::default(), numbers, names }
    }

    /// Works off a group's changes of members that are numbers, given in their order.
    pub(super) fn exchange_numbers<'r>(
        &mut self,
        pieces: impl Iterator<Item = &'r [Record<Number>]> + Clone,
        group: &mut Group<'_>,
        around: ExchangeContext<'_>,
    ) {
        self.numbers.exchange(pieces, group, around, &mut self.edits.numbers, &mut self.rest);
    }

    /// Works off a group's other changes, given in their order.
    pub(super) fn exchange_names<'r>(
        &mut self,
        pieces: impl Iterator<Item = &'r [Record]> + Clone,
        group: &mut Group<'_>,
        around: ExchangeContext<'_>,
    ) {
        self.names.exchange(pieces, group, around, &mut self.edits.names, &mut self.rest);
    }
}

/// How edits are made of changes; its memory is used again.
#[derive(Debug, Default)]
struct ExchangeState<N> {
    latest: LatestRecord<N>,
    staged: Vec<Edit<N>>,
}

impl<N: BatchName> ExchangeState<N> {
    fn exchange<'r>(
        &mut self,
        pieces: impl Iterator<Item = &'r [Record<N>]> + Clone,
        group: &mut Group<'_>,
        around: ExchangeContext<'_>,
        edits: &mut Rows<Edit<N>>,
        rest: &mut Rest,
    ) where
        N: 'r,
    {
        self.latest.clear(pieces.clone().map(<[_]>::len).sum());
        for record in pieces.flatten() {
            self.latest.note(record, around);
        }
        let latest = &self.latest.records;
        let telling = |record: &Record<N>| record.hash() & around.telling_mask;
        for start in (0..latest.len()).step_by(STAGE) {
            for at in start..latest.len().min(start + STAGE) {
                if let Some(later) = latest.get(at + AHEAD) {
                    group.prefetch(telling(later));
                }
                let record = &latest[at];
                exchange_one(record, telling(record), group, around.texts, &mut self.staged, rest);
            }
            for edit in self.staged.drain(..) {
                edits.push(around.lanes.lane(&edit, around.texts), edit);
            }
        }
    }
}

/// Exchanges the slot of a member for that of its new cell.
#[inline]
fn exchange_one<N: BatchName>(
    record: &Record<N>,
    telling: u32,
    group: &mut Group<'_>,
    texts: Texts<'_>,
    staged: &mut Vec<Edit<N>>,
    rest: &mut Rest,
) {
    let bits = record.bits();
    let is_ready = !record.is_apart() && record.name.len(texts) <= LONGEST_INSIDE_BYTES;
    let taken = if is_ready { group.exchange(telling, bits) } else { None };
    let Some(taken) = taken else {
        rest.put_off.push(record.named());
        return;
    };
    for &old in taken.cells() {
        staged.push(Edit::removal(old, record.name));
        rest.growth = rest.growth.wrapping_sub(1);
    }
    if let Some(bits) = bits {
        staged.push(Edit::insertion(bits, record.name));
        rest.growth = rest.growth.wrapping_add(1);
    }
}

/// The last change of each member of a group.
#[derive(Debug, Default)]
struct LatestRecord<N> {
    /// Those that the table cannot tell from each other are set apart.
    records: Vec<Record<N>>,
    /// Numbers of records, from one on, at the first free place from where the hash leads.
    places: Vec<u32>,
}

impl<N: BatchName> LatestRecord<N> {
    fn clear(&mut self, expected: usize) {
        self.records.clear();
        self.places.clear();
        self.places.resize((2 * expected).next_power_of_two(), 0);
    }

    /// Takes a change, in the place of an earlier one of the same member.
    #[inline]
    fn note(&mut self, record: &Record<N>, around: ExchangeContext<'_>) {
        let telling = |record: &Record<N>| record.hash() & around.telling_mask;
        let mask = self.places.len() - 1;
        // The lowest bit says only whether the name is a number.
        let mut at = (telling(record) >> 1) as usize & mask;
        let mut record = *record;
        while let Some(number) = self.places[at].checked_sub(1) {
            let known = &mut self.records[number as usize];
            if telling(known) == telling(&record) {
                if known.name.is_same(record.name, around.texts) {
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
