//! Records of uploads into staged rows.
//!
//! ```text
//! block ─> groups of some dozens; for a whole group:
//!   place ─> position (places.rs) ─┬─> each table of records and positions: row, rules
//!                                  └─> each item ─> each table of items: row, rules
//! ```
//! For: what one record does. Not for: reading uploads (`read.rs`), keeping (`step.rs`), which
//! thread does it (`pipeline.rs`).
//!
//! A row whose key is the member and its position, and no more, is found by the position's number
//! without its key: most feeds have such a table, and it saves a hash probe and building the key.
//!
//! Each step is done for the group before the next one, and asks for the memory of the next one.
//!
//! Invariants: records count in upload order, in each table; a record counts for all tables or for
//! none.
//! Cost: see `bench/results/feed`; no allocation but for growing buffers.

use std::ops::Range;
use std::sync::RwLockReadGuard;

use whered_feeds::Value;
use whered_geo::ChangeBatch;
use whered_simd::prefetch;

use super::block::Block;
use super::pipeline::{Changed, Step};
use super::places::{Approach, Places};
use crate::tables::RowsOf;
use crate::tables::cell::{Cell, push_key_cell, push_varint};
use crate::tables::index::hash_of;
use crate::tables::rows::Store;
use crate::tables::schema::{Field, Plan};
use crate::tables::stage::Stage;
use crate::tables::wire;

const DAY_MILLIS: i64 = 24 * 3600 * 1000;

/// One table while batches are made.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) plan: Plan,
    pub(super) stage: Stage,
    /// Its number in the feed's journal entries.
    pub(super) number: usize,
    /// Rows by the place that names them, plus one; when the key is that.
    by_place: Option<Vec<u32>>,
}

impl Target {
    /// `has_places`: records have a place row; `is_merged`: a member may have several.
    pub(super) fn new(plan: Plan, number: usize, has_places: bool, is_merged: bool) -> Target {
        let names_place = |field: &Field| matches!(field, Field::Member | Field::Position);
        let is_named = has_places
            && plan.shape.of != RowsOf::Items
            && plan.key.iter().all(names_place)
            && plan.key.contains(&Field::Member)
            && (plan.key.contains(&Field::Position) || !is_merged);
        let by_place = is_named.then(Vec::new);
        Target { plan, stage: Stage::default(), number, by_place }
    }

    /// Forgets which rows places have: they were not kept.
    pub(super) fn forget(&mut self) {
        if let Some(by_place) = &mut self.by_place {
            by_place.clear();
        }
    }

    /// Gives back all memory.
    pub(super) fn release_memory(&mut self) {
        self.stage = Stage::default();
        self.by_place = self.by_place.take().map(|_| Vec::new());
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.stage.memory_bytes() + self.by_place.as_ref().map_or(0, |rows| rows.capacity() * 4)
    }
}

/// What tells a record's day again and again.
#[derive(Debug, Default)]
pub(super) struct Day {
    number: Option<i64>,
    text: Vec<u8>,
}

impl Day {
    /// Makes the text of a time's day, in UTC.
    fn set(&mut self, time: i64) {
        let number = time.div_euclid(DAY_MILLIS);
        if self.number == Some(number) {
            return;
        }
        self.number = Some(number);
        let (year, month, day) = civil(number);
        self.text.clear();
        self.text.extend_from_slice(format!("{year:04}-{month:02}-{day:02}").as_bytes());
    }
}

/// Year, month and day of a number of days since 1970, in the Gregorian calendar.
///
/// Years are counted from March, so that a leap day is the last of its year; 146,097 days are 400
/// years. Howard Hinnant, chrono-Compatible Low-Level Date Algorithms, `civil_from_days`.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Memory for the steps of a group, used again by the next one.
#[derive(Debug, Default)]
pub(super) struct RowBuffers {
    notes: Vec<Note>,
    keys: Vec<u8>,
    staged: Vec<StagedRow>,
}

/// A row that a record or one of its items goes to.
#[derive(Clone, Copy, Debug)]
struct Note {
    record: usize,
    item: Option<usize>,
    row: Row,
}

/// A row that was found, and is staged.
#[derive(Clone, Copy, Debug)]
struct StagedRow {
    record: usize,
    item: Option<usize>,
    at: usize,
}

/// How a row is found.
#[derive(Clone, Copy, Debug)]
enum Row {
    Known(u32),
    /// By the hash and the place of its key; and which row has that hash, as it seems.
    Keyed {
        hash: u32,
        start: usize,
        end: usize,
        likely: Option<u32>,
    },
}

/// What a field is asked of.
struct RecordFields<'a> {
    block: &'a Block,
    record: usize,
    item: Option<usize>,
    day: &'a [u8],
}

impl<'a> RecordFields<'a> {
    #[inline]
    fn cell(&self, field: Field) -> Cell<'a> {
        let RecordFields { block, record, .. } = *self;
        let item = || self.item.map(|item| block.item(item));
        match field {
            Field::Member => Cell::Text(block.member(record)),
            Field::Longitude => {
                block.place(record).map_or(Cell::Absent, |at| Cell::Number(at.longitude_degrees))
            }
            Field::Latitude => {
                block.place(record).map_or(Cell::Absent, |at| Cell::Number(at.latitude_degrees))
            }
            Field::Time => Cell::Time(block.time_millis(record)),
            Field::Item => item().map_or(Cell::Absent, |(key, _)| Cell::Text(key)),
            Field::Count => item().map_or(Cell::Absent, |(_, count)| Cell::Integer(count)),
            Field::Position => {
                let ordinal = block.sighted[record].map_or(0, |sighted| sighted.ordinal);
                Cell::Integer(i64::from(ordinal))
            }
            Field::Day => Cell::Text(self.day),
            Field::Own(place) => match block.field(record, place) {
                Value::Integer(value) => Cell::Integer(value),
                Value::Number(value) => Cell::Number(value),
                Value::Text(text) => Cell::Text(text),
                Value::Absent => Cell::Absent,
            },
            Field::None => Cell::Absent,
        }
    }
}

/// The step that finds the positions of records; without places they have none.
pub(super) struct PositionStage<'a> {
    pub(super) places: Option<&'a mut Places>,
    pub(super) approaches: &'a mut Vec<Approach>,
    /// What the collection gets, if there is one.
    pub(super) points: Option<ChangeBatch>,
    /// Room for names of points.
    pub(super) name: &'a mut Vec<u8>,
    pub(super) changed: &'a Changed,
}

/// What places have become.
pub(super) struct PositionChanges {
    /// For the journal.
    pub(super) changes: Vec<u8>,
    pub(super) points: Option<ChangeBatch>,
}

impl Step for PositionStage<'_> {
    type Output = PositionChanges;

    fn take(&mut self, block: &mut Block) {
        match &mut self.places {
            Some(places) => {
                find_positions(places, self.approaches, block);
                self.changed.note_places(places.changed_len());
            }
            None => block.sighted.resize(block.groups().map(|group| group.len()).sum(), None),
        }
    }

    fn end(self) -> PositionChanges {
        let PositionStage { places, mut points, name, .. } = self;
        let mut changes = Vec::new();
        if let Some(places) = places {
            let places = &*places;
            places.push_changes(&mut changes, |row| {
                if let Some(points) = &mut points {
                    let cell = places.point(row, name);
                    points.push(name, Some(cell));
                }
            });
        }
        PositionChanges { changes, points }
    }
}

/// Finds the positions of a block's records.
fn find_positions(places: &mut Places, approaches: &mut Vec<Approach>, block: &mut Block) {
    for group in block.groups() {
        approaches.clear();
        let approach = |record| places.approach(block.member(record));
        approaches.extend(group.clone().map(approach));
        for (record, approach) in group.clone().zip(approaches.iter_mut()) {
            if let Some(place) = block.place(record) {
                places.approach_member(approach, block.member(record), place);
            }
        }
        approaches.iter_mut().for_each(|approach| places.approach_rows(approach));
        for (record, approach) in group.zip(approaches.iter()) {
            let time = block.time_millis(record);
            let sighted = block
                .place(record)
                .map(|place| places.sight(approach, block.member(record), place, time));
            block.sighted.push(sighted);
        }
    }
}

/// The step that changes rows beside the tables.
pub(super) struct RowStage<'a> {
    pub(super) targets: &'a mut [Target],
    /// The targets' tables.
    pub(super) stores: &'a [RwLockReadGuard<'a, Store>],
    pub(super) buffers: &'a mut RowBuffers,
    pub(super) day: &'a mut Day,
    pub(super) needs_day: bool,
    pub(super) changed: &'a Changed,
}

/// What tables become.
pub(super) struct RowChanges {
    /// For the journal: those that change, and how.
    pub(super) changes: Vec<u8>,
    /// How many rows change.
    pub(super) rows: u64,
}

impl Step for RowStage<'_> {
    type Output = RowChanges;

    /// Applies the rules of all tables to a block's records, whose positions are known.
    fn take(&mut self, block: &mut Block) {
        for group in block.groups() {
            for (target, store) in self.targets.iter_mut().zip(self.stores) {
                let day = self.needs_day.then_some(&mut *self.day);
                find_rows(target, store, block, group.clone(), day, self.buffers);
                let day = self.needs_day.then_some(&mut *self.day);
                note_rows(target, store, block, day, self.buffers);
            }
        }
        let staged = self.targets.iter().map(|target| target.stage.staged_len());
        self.changed.note_rows(staged.sum());
    }

    fn end(self) -> RowChanges {
        let changed = || {
            let targets = self.targets.iter().zip(self.stores);
            targets.filter(|(target, _)| !target.stage.is_empty())
        };
        let (mut changes, mut rows) = (Vec::new(), 0);
        push_varint(&mut changes, changed().count() as u64);
        for (target, store) in changed() {
            push_varint(&mut changes, target.number as u64);
            rows += wire::push_changes(&mut changes, store, &target.stage);
        }
        RowChanges { changes, rows }
    }
}

/// The text of the day of a record, where a table has days.
fn day_of<'d>(day: &'d mut Option<&mut Day>, block: &Block, record: usize) -> &'d [u8] {
    match day {
        Some(day) => {
            day.set(block.time_millis(record));
            &day.text
        }
        None => &[],
    }
}

/// Asks for the rows of a group's records in one table.
fn find_rows(
    target: &Target,
    store: &Store,
    block: &Block,
    group: Range<usize>,
    mut day: Option<&mut Day>,
    buffers: &mut RowBuffers,
) {
    let Target { plan, stage, by_place, .. } = target;
    let RowBuffers { notes, keys, .. } = buffers;
    notes.clear();
    keys.clear();
    if let Some(rows) = by_place {
        let sighted = group.clone().filter_map(|record| block.sighted[record]);
        sighted.for_each(|sighted| prefetch(rows, sighted.row as usize));
    }
    let mut add = |record: usize, item: Option<usize>, day: &[u8]| {
        let known = match (by_place, block.sighted[record]) {
            (Some(rows), Some(sighted)) => rows.get(sighted.row as usize).copied().unwrap_or(0),
            _ => 0,
        };
        let row = if let Some(row) = known.checked_sub(1) {
            stage.approach(row);
            Row::Known(row)
        } else {
            let seen = RecordFields { block, record, item, day };
            let start = keys.len();
            plan.key.iter().for_each(|field| push_key_cell(keys, seen.cell(*field)));
            let (end, hash) = (keys.len(), hash_of(&keys[start..]));
            stage.approach_hash(store, hash);
            Row::Keyed { hash, start, end, likely: None }
        };
        notes.push(Note { record, item, row });
    };
    for record in group {
        let day = day_of(&mut day, block, record);
        if plan.shape.of == RowsOf::Items {
            block.items(record).for_each(|item| add(record, Some(item), day));
        } else {
            add(record, None, day);
        }
    }
    for note in notes.iter_mut() {
        match &mut note.row {
            Row::Known(row) => stage.approach_words(store, *row),
            Row::Keyed { hash, likely, .. } => *likely = stage.approach_likely(store, *hash),
        }
    }
    for note in notes.iter() {
        if let Row::Keyed { likely: Some(row), .. } = note.row {
            stage.approach_key(store, row);
        }
    }
}

/// Applies the rules of a table's columns to the rows that [`find_rows`] has asked for.
fn note_rows(
    target: &mut Target,
    store: &Store,
    block: &Block,
    day: Option<&mut Day>,
    buffers: &mut RowBuffers,
) {
    stage_rows(target, store, block, buffers);
    let Target { plan, stage, .. } = target;
    let (rows, mut day) = (&buffers.staged, day);
    for (index, (column, field)) in plan.shape.columns.iter().zip(&plan.columns).enumerate() {
        // The fields that most columns have, each with a loop of its own.
        let time = |row: &StagedRow| block.time_millis(row.record);
        let number = |number: Option<f64>| number.map_or(Cell::Absent, Cell::Number);
        let place = |row: &StagedRow| block.place(row.record);
        let longitude = |row: &StagedRow| number(place(row).map(|place| place.longitude_degrees));
        let latitude = |row: &StagedRow| number(place(row).map(|place| place.latitude_degrees));
        let rows = rows.iter();
        match field {
            Field::None => {
                stage.note_all(index, column, rows.map(|row| (row.at, Cell::Absent, time(row))));
            }
            Field::Time => {
                let seen = rows.map(|row| (row.at, Cell::Time(time(row)), time(row)));
                stage.note_all(index, column, seen);
            }
            Field::Longitude => {
                stage.note_all(index, column, rows.map(|row| (row.at, longitude(row), time(row))));
            }
            Field::Latitude => {
                stage.note_all(index, column, rows.map(|row| (row.at, latitude(row), time(row))));
            }
            field => rows.for_each(|row| {
                let StagedRow { record, item, at } = *row;
                let seen =
                    RecordFields { block, record, item, day: day_of(&mut day, block, record) };
                stage.note(at, index, column, seen.cell(*field), time(row));
            }),
        }
    }
}

/// Stages the rows that [`find_rows`] has asked for.
fn stage_rows(target: &mut Target, store: &Store, block: &Block, buffers: &mut RowBuffers) {
    let Target { stage, by_place, .. } = target;
    let RowBuffers { notes, keys, staged } = buffers;
    staged.clear();
    for &Note { record, item, row } in &*notes {
        let at = match row {
            Row::Known(row) => stage.numbered(store, row),
            Row::Keyed { hash, start, end, .. } => {
                // A table with 2^32 rows takes no more.
                let found = stage.row_of_hash(store, hash, &keys[start..end]);
                let Some((at, row)) = found else { continue };
                if let (Some(rows), Some(sighted)) = (&mut *by_place, block.sighted[record]) {
                    let place = sighted.row as usize;
                    if rows.len() <= place {
                        rows.resize(place + 1, 0);
                    }
                    rows[place] = row + 1;
                }
                at
            }
        };
        staged.push(StagedRow { record, item, at });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let known = [
            (0, "1970-01-01"),
            (951_782_400_000, "2000-02-29"),
            (951_868_800_000, "2000-03-01"),
            (1_735_603_200_000, "2024-12-31"),
            (-1, "1969-12-31"),
        ];
        let mut day = Day::default();
        for (time, text) in known {
            day.set(time);
            assert_eq!(day.text, text.as_bytes());
        }
    }
}
