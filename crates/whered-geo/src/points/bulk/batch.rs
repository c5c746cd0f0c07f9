//! Changes that are collected to be applied together, dealt out by hash as they come.
//!
//! For: readers of changes in order, above all of a journal. Not for: applying them
//! (`mod.rs`).
//!
//! ```text
//! Record  │ hash 32 │ cell, or that it goes │ Name or Number │      28 bytes or 16, in the row of its
//!                                                                 hash; the first few are a list until then
//! ```
//!
//! Invariants: a row has its records in the order of the changes, so that all changes of a member
//! are in one row in their order, and all with a number or all with a name.
//! Concurrency: a plain value; made on one thread while another one applies a batch.
//! Cost: a hash and up to 28 bytes a change; the memory is kept when a batch has been applied.

use super::name::{BatchName, Name, Number, Texts};
use super::rows::Rows;
use super::{Change, Points};
use crate::cell::Cell;
use crate::points::hash::Key;
use crate::points::leaf::Edits;

/// A row for this many members: with a change for each four of them, as many records as lie in the
/// caches together with their part of the table.
const MEMBERS_A_ROW: usize = 32 << 10;
const MOST_ROWS: usize = 2048;

/// This many records are a list before they are dealt out to rows, which takes memory for each row.
const FEW_RECORDS: usize = 512;

/// Changes of one collection, in order; made by [`Points::change_batch`].
#[derive(Clone, Debug)]
pub struct ChangeBatch {
    pub(super) key: Key,
    /// The first records, until there are too many.
    few: Vec<Record>,
    is_dealt_out: bool,
    /// How many rows there are, or will be.
    row_count: usize,
    numbers: Rows<Record<Number>>,
    names: Rows<Record>,
    /// Names that are too long for a record.
    pub(super) text: Vec<u8>,
    /// Which of the texts this one is.
    text_number: u8,
    len: usize,
    bytes: usize,
    longest_added: usize,
    /// Memory for edits, by thread.
    pub(super) spare: Vec<Edits>,
}

/// A change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record<N = Name> {
    hash: u32,
    cell_low: u32,
    /// The upper bits of the cell, and flags.
    cell_high: u32,
    pub(super) name: N,
}

const GOES: u32 = 1 << 31;
const APART: u32 = 1 << 30;

impl<N: BatchName> Record<N> {
    #[inline]
    fn new(hash: u64, cell: Option<Cell>, name: N) -> Record<N> {
        let bits = cell.map_or(u64::from(GOES) << 32, Cell::bits);
        let (cell_low, cell_high) = (bits as u32, (bits >> 32) as u32);
        Record { hash: (hash >> 32) as u32, cell_low, cell_high, name }
    }

    /// The upper half of the name's hash.
    pub(super) fn hash(&self) -> u32 {
        self.hash
    }

    /// The cell's bits, if the member is to have one.
    #[inline]
    pub(super) fn bits(&self) -> Option<u64> {
        let high = u64::from(self.cell_high & !(GOES | APART));
        (self.cell_high & GOES == 0).then_some(high << 32 | u64::from(self.cell_low))
    }

    /// Takes over what a later change of the same member says.
    pub(super) fn follow(&mut self, later: &Record<N>) {
        self.cell_low = later.cell_low;
        self.cell_high = later.cell_high | self.cell_high & APART;
    }

    /// The row of the record, of `rows` rows.
    #[inline]
    fn row(&self, rows: usize) -> usize {
        ((u64::from(self.hash) * rows as u64) >> 32) as usize
    }

    /// Notes that the table may take the member for another one of the batch.
    pub(super) fn set_apart(&mut self) {
        self.cell_high |= APART;
    }

    pub(super) fn is_apart(&self) -> bool {
        self.cell_high & APART != 0
    }

    /// The record with its name in place of a number.
    pub(super) fn named(&self) -> Record {
        self.with(self.name.name())
    }

    fn with<M>(&self, name: M) -> Record<M> {
        let Record { hash, cell_low, cell_high, .. } = *self;
        Record { hash, cell_low, cell_high, name }
    }
}

impl Record {
    /// The change as it came.
    pub(super) fn change<'a>(&'a self, texts: Texts<'a>) -> Change<'a> {
        let cell = self.bits().and_then(Cell::from_bits);
        Change { member: self.name.bytes(texts), cell }
    }
}

impl Points {
    /// An empty batch for changes of this collection. It may be applied to others as well, or when
    /// the collection has grown: that only takes longer.
    pub fn change_batch(&self) -> ChangeBatch {
        self.numbered_batch(0)
    }

    /// The rows of a batch for this collection.
    pub(super) fn rows_wanted(&self) -> usize {
        (self.len() / MEMBERS_A_ROW).next_power_of_two().min(MOST_ROWS)
    }

    /// A batch whose long names are in the text with this number.
    pub(super) fn numbered_batch(&self, number: u8) -> ChangeBatch {
        ChangeBatch {
            key: self.members.key().clone(),
            few: Vec::new(),
            is_dealt_out: false,
            row_count: self.rows_wanted(),
            numbers: Rows::new(0),
            names: Rows::new(0),
            text: Vec::new(),
            text_number: number,
            len: 0,
            bytes: 0,
            longest_added: 0,
            spare: Vec::new(),
        }
    }
}

impl ChangeBatch {
    /// Appends a change: where the member is to be, or `None` if it is to go.
    #[inline]
    pub fn push(&mut self, member: &[u8], cell: Option<Cell>) {
        let (hash, number) = self.key.hash_and_number(member);
        let text_before = self.text.len();
        match number {
            Some(number) if self.is_dealt_out => {
                let record = Record::new(hash, cell, Number(number));
                self.numbers.push(record.row(self.row_count), record);
            }
            _ => {
                let name = Name::new(member, &mut self.text, self.text_number);
                self.push_named(Record::new(hash, cell, name));
            }
        }
        let record =
            if number.is_some() { size_of::<Record<Number>>() } else { size_of::<Record>() };
        self.bytes += record + self.text.len() - text_before;
        self.len += 1;
        if cell.is_some() && member.len() > self.longest_added {
            self.longest_added = member.len();
        }
    }

    fn push_named(&mut self, record: Record) {
        if self.is_dealt_out {
            self.names.push(record.row(self.row_count), record);
            return;
        }
        self.few.push(record);
        if self.few.len() == FEW_RECORDS {
            self.deal_out();
        }
    }

    /// Sees to it that all records are in rows.
    pub(super) fn deal_out(&mut self) {
        if self.is_dealt_out {
            return;
        }
        self.is_dealt_out = true;
        if self.names.count() == 0 {
            self.names = Rows::new(self.row_count);
            self.numbers = Rows::new(self.row_count);
        }
        for record in self.few.drain(..) {
            let row = record.row(self.row_count);
            match self.key.hash_and_number(record.name.bytes_of(&self.text)) {
                (_, Some(number)) => self.numbers.push(row, record.with(Number(number))),
                _ => self.names.push(row, record),
            }
        }
    }

    /// The number of changes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes that its changes take: 16 for each member that is a number below 2^31, 28 for
    /// another one and beside them its name if that is long (the first few are 28 bytes each,
    /// whatever they are).
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The length of the longest name of those that are to have a cell.
    pub fn longest_added_bytes(&self) -> usize {
        self.longest_added
    }

    /// Forgets all changes and keeps the memory.
    pub fn clear(&mut self) {
        if self.is_dealt_out {
            self.numbers.clear(self.row_count);
            self.names.clear(self.row_count);
        }
        self.is_dealt_out = false;
        self.few.clear();
        self.text.clear();
        (self.len, self.bytes, self.longest_added) = (0, 0, 0);
    }

    pub(super) fn row_count(&self) -> usize {
        self.row_count
    }

    /// The records of a row whose names are numbers, in pieces, when they have been dealt out.
    pub(super) fn numbers(&self, row: usize) -> impl Iterator<Item = &[Record<Number>]> + Clone {
        self.numbers.blocks(row)
    }

    /// The other records of a row.
    pub(super) fn names(&self, row: usize) -> impl Iterator<Item = &[Record]> + Clone {
        self.names.blocks(row)
    }

    /// Calls with all changes; those of each member are in order.
    pub fn for_each(&self, mut f: impl FnMut(Change<'_>)) {
        // A batch that others may see has one text.
        self.records().for_each(|record| f(record.change(&[&*self.text])));
    }

    /// All records; those of each member are in order.
    pub(super) fn records(&self) -> impl Iterator<Item = Record> {
        let rows = || 0..if self.is_dealt_out { self.row_count } else { 0 };
        let numbers = rows().flat_map(|row| self.numbers(row)).flatten().map(Record::named);
        let names = rows().flat_map(|row| self.names(row)).flatten();
        self.few.iter().chain(names).copied().chain(numbers)
    }
}
