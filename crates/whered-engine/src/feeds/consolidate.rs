//! Records of uploads into staged rows.
//!
//! ```text
//! record ─> time ─> held with some dozens of others (ahead.rs); then, for the whole group:
//!   place ─> position (places.rs) ─┬─> each table of records and positions: row, rules
//!                                  └─> each item ─> each table of items: row, rules
//! ```
//! For: what one record does. Not for: reading uploads (`whered-feeds`), keeping (`step.rs`).
//!
//! A row whose key is the member and its position, and no more, is found by the position's number
//! without its key: most feeds have such a table, and it saves a hash probe and building the key.
//!
//! Each step is done for the group before the next one, and asks for the memory of the next one.
//!
//! Invariants: records count in upload order, in each table; a record counts for all tables or for
//! none. A group never goes beyond its upload: [`Consolidation::finish`].
//! Cost: bench/record says it; no allocation but for growing buffers.

use std::sync::RwLockReadGuard;

use whered_feeds::{Events, Item, Record, Value};

use super::ahead::Held;
use super::places::{Approach, Places, Sighted};
use super::quarantine::Quarantine;
use crate::tables::RowsOf;
use crate::tables::cell::{Cell, push_key_cell};
use crate::tables::index::hash_of;
use crate::tables::rows::Store;
use crate::tables::schema::{Field, Plan};
use crate::tables::stage::{Stage, TEXT_BYTES_MAX};
use crate::tables::texts::KEY_BYTES_MAX;

/// A record from further ahead of the clock is refused: its time would be the latest for ever.
const AHEAD_MILLIS_MAX: i64 = 24 * 3600 * 1000;

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
    pub(super) fn shed(&mut self) {
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

/// See the file's header.
pub(super) struct Consolidation<'a> {
    /// `None`: places are not asked for.
    pub(super) places: Option<&'a mut Places>,
    pub(super) targets: &'a mut [Target],
    /// The targets' tables.
    pub(super) stores: &'a [RwLockReadGuard<'a, Store>],
    pub(super) quarantine: &'a mut Quarantine,
    pub(super) day: &'a mut Day,
    /// Empty between uploads.
    pub(super) held: &'a mut Held,
    pub(super) noting: &'a mut Noting,
    pub(super) needs_day: bool,
    /// When the upload was received.
    pub(super) received_millis: i64,
    pub(super) records: u64,
    pub(super) rejected: u64,
    /// Records and items.
    pub(super) events: usize,
}

/// Memory for the steps of a group, used again by the next one.
#[derive(Debug, Default)]
pub(super) struct Noting {
    approaches: Vec<Approach>,
    sighted: Vec<Option<Sighted>>,
    notes: Vec<Note>,
    keys: Vec<u8>,
}

/// A row that a record or one of its items goes to.
#[derive(Clone, Copy, Debug)]
struct Note {
    record: usize,
    item: Option<usize>,
    row: Row,
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
struct Seen<'a> {
    record: &'a Record<'a>,
    item: Option<&'a Item<'a>>,
    time: i64,
    position: u32,
    day: &'a [u8],
}

impl<'a> Seen<'a> {
    #[inline]
    fn new(
        record: &'a Record<'a>,
        item: Option<usize>,
        sighted: Option<Sighted>,
        day: &'a Day,
    ) -> Seen<'a> {
        let item = item.and_then(|item| record.items.get(item));
        let position = sighted.map_or(0, |sighted| sighted.ordinal);
        let time = record.time_millis.unwrap_or(0);
        Seen { record, item, time, position, day: &day.text }
    }

    #[inline]
    fn cell(&self, field: Field) -> Cell<'a> {
        match field {
            Field::Member => Cell::Text(self.record.member),
            Field::Longitude => {
                self.record.place.map_or(Cell::Absent, |at| Cell::Number(at.longitude_degrees))
            }
            Field::Latitude => {
                self.record.place.map_or(Cell::Absent, |at| Cell::Number(at.latitude_degrees))
            }
            Field::Time => Cell::Time(self.time),
            Field::Item => self.item.map_or(Cell::Absent, |item| Cell::Text(item.key)),
            Field::Count => self.item.map_or(Cell::Absent, |item| Cell::Integer(item.count)),
            Field::Position => Cell::Integer(i64::from(self.position)),
            Field::Day => Cell::Text(self.day),
            Field::Own(place) => match self.record.fields.get(place) {
                Some(Value::Integer(value)) => Cell::Integer(*value),
                Some(Value::Number(value)) => Cell::Number(*value),
                Some(Value::Text(text)) => Cell::Text(text),
                Some(Value::Absent) | None => Cell::Absent,
            },
            Field::None => Cell::Absent,
        }
    }
}

impl Events for Consolidation<'_> {
    fn record(&mut self, record: &Record<'_>) {
        self.events += 1 + record.items.len();
        let time = record.time_millis.unwrap_or(self.received_millis);
        if let Some(reason) = self.refusal(record, time) {
            self.reject(record.offset_bytes, &reason);
            return;
        }
        self.records += 1;
        self.held.push(record, time);
        if self.held.is_whole() {
            self.finish();
        }
    }

    fn reject(&mut self, offset_bytes: u64, reason: &str) {
        self.rejected += 1;
        self.quarantine.add(offset_bytes, reason);
    }
}

impl Consolidation<'_> {
    /// Does what records that are held do. Whoever scans an upload calls it at the end.
    pub(super) fn finish(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let mut held = std::mem::take(self.held);
        let (items, fields) = (held.items(), held.fields());
        let records = held.records(&items, &fields);
        self.sight(&records);
        for (target, store) in self.targets.iter_mut().zip(self.stores) {
            find_rows(target, store, &records, self.needs_day, self.day, self.noting);
            note_rows(target, store, &records, self.needs_day, self.day, self.noting);
        }
        // The records borrow the other two.
        drop(records);
        drop((items, fields));
        held.clear();
        *self.held = held;
    }

    /// Finds the positions of a group's records.
    fn sight(&mut self, records: &[Record<'_>]) {
        let Noting { approaches, sighted, .. } = &mut *self.noting;
        sighted.clear();
        let Some(places) = &mut self.places else {
            sighted.resize(records.len(), None);
            return;
        };
        approaches.clear();
        approaches.extend(records.iter().map(|record| places.approach(record.member)));
        for (record, approach) in records.iter().zip(approaches.iter_mut()) {
            if let Some(place) = record.place {
                places.approach_member(approach, record.member, place);
            }
        }
        approaches.iter().for_each(|approach| places.approach_rows(approach));
        sighted.extend(records.iter().zip(approaches.iter()).map(|(record, approach)| {
            let time = record.time_millis.unwrap_or(0);
            record.place.map(|place| places.sight(approach, record.member, place, time))
        }));
    }

    /// Why a record does not count, before it has changed anything.
    #[inline]
    fn refusal(&self, record: &Record<'_>, time: i64) -> Option<String> {
        if time > self.received_millis + AHEAD_MILLIS_MAX {
            let hours = (time - self.received_millis) / 3_600_000;
            return Some(format!("its time is {hours} hours ahead of the clock; allowed: 24"));
        }
        let mut text_bytes = record.member.len();
        for value in record.fields {
            if let Value::Text(text) = value {
                text_bytes += text.len();
            }
        }
        let longest = record.items.iter().map(|item| item.key.len()).max().unwrap_or(0);
        // What a key has beside its texts is far less than a quarter of what it may have.
        let allowed = KEY_BYTES_MAX.min(TEXT_BYTES_MAX) / 4 * 3;
        (text_bytes + longest > allowed)
            .then(|| format!("its texts have more than the {allowed} bytes that are allowed"))
    }
}

/// Asks for the rows of a group's records in one table.
fn find_rows(
    target: &Target,
    store: &Store,
    records: &[Record<'_>],
    needs_day: bool,
    day: &mut Day,
    noting: &mut Noting,
) {
    let Target { plan, stage, by_place, .. } = target;
    let Noting { sighted, notes, keys, .. } = noting;
    notes.clear();
    keys.clear();
    let mut add = |record: usize, item: Option<usize>, day: &Day| {
        let known = match (by_place, sighted[record]) {
            (Some(rows), Some(sighted)) => rows.get(sighted.row as usize).copied().unwrap_or(0),
            _ => 0,
        };
        let row = if let Some(row) = known.checked_sub(1) {
            stage.approach(row);
            Row::Known(row)
        } else {
            let seen = Seen::new(&records[record], item, sighted[record], day);
            let start = keys.len();
            plan.key.iter().for_each(|field| push_key_cell(keys, seen.cell(*field)));
            let (end, hash) = (keys.len(), hash_of(&keys[start..]));
            stage.approach_hash(store, hash);
            Row::Keyed { hash, start, end, likely: None }
        };
        notes.push(Note { record, item, row });
    };
    for (number, record) in records.iter().enumerate() {
        if needs_day {
            day.set(record.time_millis.unwrap_or(0));
        }
        if plan.shape.of == RowsOf::Items {
            (0..record.items.len()).for_each(|item| add(number, Some(item), day));
        } else {
            add(number, None, day);
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
    records: &[Record<'_>],
    needs_day: bool,
    day: &mut Day,
    noting: &Noting,
) {
    let Target { plan, stage, by_place, .. } = target;
    for Note { record, item, row } in &noting.notes {
        let (place, record) = (noting.sighted[*record], &records[*record]);
        let staged = match row {
            Row::Known(row) => stage.numbered(store, *row),
            Row::Keyed { hash, start, end, .. } => {
                // A table with 2^32 rows takes no more.
                let found = stage.row_of_hash(store, *hash, &noting.keys[*start..*end]);
                let Some((staged, row)) = found else { continue };
                if let (Some(rows), Some(sighted)) = (&mut *by_place, place) {
                    let place = sighted.row as usize;
                    if rows.len() <= place {
                        rows.resize(place + 1, 0);
                    }
                    rows[place] = row + 1;
                }
                staged
            }
        };
        if needs_day {
            day.set(record.time_millis.unwrap_or(0));
        }
        let seen = Seen::new(record, *item, place, day);
        for (index, (column, field)) in plan.shape.columns.iter().zip(&plan.columns).enumerate() {
            stage.note(staged, index, column, seen.cell(*field), seen.time);
        }
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
