//! Records of uploads into staged rows.
//!
//! ```text
//! record ─> time, place ─> position (places.rs) ─┬─> each table of records and positions: row, rules
//!                                               └─> each item ─> each table of items: row, rules
//! ```
//! For: what one record does. Not for: reading uploads (`whered-feeds`), keeping (`step.rs`).
//!
//! A row whose key is the member and its position, and no more, is found by the position's number
//! without its key: most feeds have such a table, and it saves a hash probe and building the key.
//!
//! Invariants: records count in upload order; a record counts for all tables or for none.
//! Cost: bench/record says it; no allocation but for growing buffers.

use std::sync::RwLockReadGuard;

use whered_feeds::{Events, Item, Record, Value};

use super::places::{Places, Sighted};
use super::quarantine::Quarantine;
use crate::tables::RowsOf;
use crate::tables::cell::{Cell, push_key_cell};
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
    pub(super) key: &'a mut Vec<u8>,
    pub(super) needs_day: bool,
    /// When the upload was received.
    pub(super) received_millis: i64,
    pub(super) records: u64,
    pub(super) rejected: u64,
    /// Records and items.
    pub(super) events: usize,
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
        if self.needs_day {
            self.day.set(time);
        }
        let sighted = match (&mut self.places, record.place) {
            (Some(places), Some(place)) => Some(places.sight(record.member, place, time)),
            _ => None,
        };
        let position = sighted.map_or(0, |sighted| sighted.ordinal);
        let day = &self.day.text;
        for (target, store) in self.targets.iter_mut().zip(self.stores) {
            if target.plan.shape.of == RowsOf::Items {
                for item in record.items {
                    let seen = Seen { record, item: Some(item), time, position, day };
                    note(target, store, &seen, None, self.key);
                }
            } else {
                let seen = Seen { record, item: None, time, position, day };
                note(target, store, &seen, sighted, self.key);
            }
        }
    }

    fn reject(&mut self, offset_bytes: u64, reason: &str) {
        self.rejected += 1;
        self.quarantine.add(offset_bytes, reason);
    }
}

impl Consolidation<'_> {
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

/// Finds the row and applies the rules of its columns.
#[inline]
fn note(
    target: &mut Target,
    store: &Store,
    seen: &Seen<'_>,
    sighted: Option<Sighted>,
    key: &mut Vec<u8>,
) {
    let Target { plan, stage, by_place, .. } = target;
    let known = match (&by_place, sighted) {
        (Some(rows), Some(sighted)) => rows.get(sighted.row as usize).filter(|row| **row > 0),
        _ => None,
    };
    let staged = if let Some(row) = known {
        stage.numbered(store, *row - 1)
    } else {
        key.clear();
        plan.key.iter().for_each(|field| push_key_cell(key, seen.cell(*field)));
        // A table with 2^32 rows takes no more.
        let Some((staged, row)) = stage.row_of(store, key) else { return };
        if let (Some(rows), Some(sighted)) = (by_place, sighted) {
            let place = sighted.row as usize;
            if rows.len() <= place {
                rows.resize(place + 1, 0);
            }
            rows[place] = row + 1;
        }
        staged
    };
    for (index, (column, field)) in plan.shape.columns.iter().zip(&plan.columns).enumerate() {
        stage.note(staged, index, column, seen.cell(*field), seen.time);
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
