//! Where a feed's members are: merged positions, or the latest place of each.
//!
//! ```text
//! members  index ─> number ─> name, how many positions
//! rows     member | ordinal | count | x | y | time | batch        in chunks, never moved
//!          merged: x, y sums of degrees, count sightings          latest: x the cell, time of it
//! grid     member and place ─> rows near it                       merged only, made of the rows
//! ```
//! For: the rule that the sightings of a member within r metres of a position (of its mean) are that
//! position; the nearest one, of equally near ones the oldest. And without such a rule, for the
//! latest place by time. Not for: the collection, which gets the points (`step.rs`); bytes (`places_wire.rs`).
//!
//! Invariants: rows and members are never removed; ordinals of a member go from 1 without a gap.
//! A batch changes rows in place and remembers what they were: what is not kept in the journal is
//! undone. So nobody else may look between the two: the owner's lock is held.
//! Cost: a hash probe for the member, one or two for the grid, a distance for each position near.

#[path = "places_cold.rs"]
mod cold;
#[path = "places_wire.rs"]
mod wire;

use whered_cpu::prefetch;
use whered_geo::{Cell, Center, NearestWithin, Place};

use super::grid::{Grid, Squares};
use crate::tables::index::{Index, hash_of};
use crate::tables::texts::{Arena, ArenaMark};

const CHUNK_ROWS: usize = 4096;

/// What a feed remembers of places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PlaceRule {
    /// Nothing.
    None,
    /// The latest place of each member.
    Latest,
    /// Positions, merged within so many metres.
    Merged(f64),
}

impl PlaceRule {
    /// Numbers are for ever: the journal has them.
    pub(crate) fn number(self) -> u8 {
        match self {
            PlaceRule::None => 0,
            PlaceRule::Latest => 1,
            PlaceRule::Merged(_) => 2,
        }
    }

    fn is_merged(self) -> bool {
        matches!(self, PlaceRule::Merged(_))
    }
}

/// One position, or the latest place.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct PlaceRow {
    member: u32,
    ordinal: u32,
    count: u64,
    x: u64,
    y: u64,
    time: i64,
    batch: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    name: u64,
    positions: u32,
}

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Places {
    rule: PlaceRule,
    names: Arena,
    index: Index,
    members: Vec<Member>,
    rows: Vec<Box<[PlaceRow]>>,
    len: u32,
    grid: Grid,
    /// Whether the grid is that of the rows: replaying leaves it alone.
    has_grid: bool,
    /// What the batch that is made has changed, as it was.
    changed: Vec<(u32, PlaceRow)>,
    begun: Begun,
}

/// What there was when a batch began.
#[derive(Clone, Copy, Debug, Default)]
struct Begun {
    batch: u64,
    len: u32,
    members: usize,
    names: ArenaMark,
}

/// What is known of a sighting before its turn, from a moment in which earlier ones of its group had
/// not been noted yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Approach {
    hash: u32,
    /// [`UNKNOWN`] if there was none yet.
    member: u32,
    /// These two if positions are merged.
    squares: Squares,
    center: Center,
}

/// No member has this number.
const UNKNOWN: u32 = u32::MAX;
/// In the place of one that a record does not have, and nobody asks for.
const NOWHERE: Place = Place { longitude_degrees: 0.0, latitude_degrees: 0.0 };

/// Where a sighting was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sighted {
    pub(crate) row: u32,
    pub(crate) ordinal: u32,
}

impl Places {
    pub(crate) fn new(rule: PlaceRule) -> Places {
        Places {
            rule,
            names: Arena::default(),
            index: Index::default(),
            members: Vec::new(),
            rows: Vec::new(),
            len: 0,
            grid: if let PlaceRule::Merged(meters) = rule {
                Grid::new(meters)
            } else {
                Grid::none()
            },
            has_grid: true,
            changed: Vec::new(),
            begun: Begun::default(),
        }
    }

    pub(crate) fn rule(&self) -> PlaceRule {
        self.rule
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Takes another radius.
    pub(crate) fn set_rule(&mut self, rule: PlaceRule) {
        self.rule = rule;
        self.make_grid();
    }

    /// Makes the grid of the rows.
    pub(crate) fn make_grid(&mut self) {
        self.has_grid = true;
        let PlaceRule::Merged(meters) = self.rule else { return };
        self.grid = Grid::new(meters);
        for row in 0..self.len {
            let PlaceRow { member, .. } = *self.row(row);
            self.grid.insert(row, member, mean(self.row(row)));
        }
    }

    /// Makes the grid if it is not that of the rows.
    pub(crate) fn ensure_grid(&mut self) {
        if !self.has_grid {
            self.make_grid();
        }
    }

    /// From now on changes are those of this batch, until it is kept or undone.
    pub(crate) fn begin(&mut self, batch: u64) {
        self.changed.clear();
        let (len, members) = (self.len, self.members.len());
        self.begun = Begun { batch, len, members, names: self.names.mark() };
    }

    /// The first of the steps to a sighting: asks for what finds its member.
    #[inline]
    pub(crate) fn approach(&self, name: &[u8], place: Option<Place>) -> Approach {
        let hash = hash_of(name);
        self.index.fetch(hash);
        let center = Center::new(place.unwrap_or(NOWHERE));
        Approach { hash, member: UNKNOWN, squares: Squares::default(), center }
    }

    /// The second step: finds the member, and asks for what finds its positions.
    #[inline]
    pub(crate) fn approach_member(&self, approach: &mut Approach, name: &[u8], place: Place) {
        let Some(member) = self.member(approach.hash, name) else { return };
        approach.member = member;
        if self.rule.is_merged() {
            self.grid.find_squares(member, place, &mut approach.squares);
        } else {
            self.fetch_row(member);
        }
    }

    /// The third step: asks for the positions.
    #[inline]
    pub(crate) fn approach_rows(&self, approach: &mut Approach) {
        if approach.member != UNKNOWN {
            self.grid.find_firsts(&mut approach.squares, |row| self.fetch_row(row));
        }
    }

    /// Takes note of a sighting; the steps before it only made it quicker.
    #[inline]
    pub(crate) fn sight(
        &mut self,
        approach: &Approach,
        name: &[u8],
        place: Place,
        time: i64,
    ) -> Sighted {
        let Approach { hash, squares, center, .. } = approach;
        let mut late = Squares::default();
        let (member, squares) = if approach.member != UNKNOWN {
            (approach.member, squares)
        } else if let Some(member) = self.member(*hash, name) {
            // An earlier one of the group has made it.
            self.grid.find_squares(member, place, &mut late);
            (member, &late)
        } else {
            (self.add_member(*hash, name), &late)
        };
        if !self.rule.is_merged() {
            return self.sight_latest(member, place, time);
        }
        let Some(row) = self.nearest(member, place, center, squares) else {
            let (x, y) = (place.longitude_degrees.to_bits(), place.latitude_degrees.to_bits());
            let sighted = self.add_row(member, PlaceRow { x, y, count: 1, ..PlaceRow::default() });
            self.grid.insert(sighted.row, member, place);
            return sighted;
        };
        self.remember(row);
        let changed = self.row_mut(row);
        let (before, ordinal) = (mean(changed), changed.ordinal);
        // Near the date line the sighting is taken where it is next to the position.
        let away = f64::from_bits(changed.x) / changed.count as f64 - place.longitude_degrees;
        // A rounding takes a call where SSE 4.1 may be missing, and is a zero nearly always.
        let across = if away.abs() < 180.0 { 0.0 } else { (away / 360.0).round() * 360.0 };
        let longitude = place.longitude_degrees + across;
        changed.x = (f64::from_bits(changed.x) + longitude).to_bits();
        changed.y = (f64::from_bits(changed.y) + place.latitude_degrees).to_bits();
        changed.count += 1;
        let after = mean(changed);
        self.grid.move_row(row, member, (before, after));
        Sighted { row, ordinal }
    }

    fn sight_latest(&mut self, member: u32, place: Place, time: i64) -> Sighted {
        let cell = Cell::from_place(place).bits();
        // There is one row for each member, made with it.
        if member == self.len {
            return self.add_row(member, PlaceRow { x: cell, time, ..PlaceRow::default() });
        }
        if time >= self.row(member).time {
            self.remember(member);
            let changed = self.row_mut(member);
            (changed.x, changed.time) = (cell, time);
        }
        Sighted { row: member, ordinal: 1 }
    }

    /// The nearest position within the radius; of equally near ones the oldest.
    #[inline]
    fn nearest(
        &self,
        member: u32,
        place: Place,
        center: &Center,
        squares: &Squares,
    ) -> Option<u32> {
        let mut nearest = NearestWithin::new(center, self.grid.radius());
        self.grid.near(member, place, squares, |row| {
            let known = self.row(row);
            if known.member == member {
                nearest.offer(mean(known), row);
            }
        });
        nearest.number()
    }

    #[inline]
    fn member(&self, hash: u32, name: &[u8]) -> Option<u32> {
        self.index.find(hash, |member| self.names.get(self.members[member as usize].name) == name)
    }

    fn add_member(&mut self, hash: u32, name: &[u8]) -> u32 {
        let member = self.members.len() as u32;
        let name = self.names.push(name);
        self.members.push(Member { name, positions: 0 });
        self.index.insert(hash, member);
        member
    }

    /// Adds a row of the member's next ordinal.
    fn add_row(&mut self, member: u32, row: PlaceRow) -> Sighted {
        let ordinal = self.members[member as usize].positions + 1;
        self.members[member as usize].positions = ordinal;
        let number = self.len;
        if (number as usize).is_multiple_of(CHUNK_ROWS) {
            self.rows.push(vec![PlaceRow::default(); CHUNK_ROWS].into_boxed_slice());
        }
        self.len += 1;
        let batch = self.begun.batch;
        *self.row_mut(number) = PlaceRow { member, ordinal, batch, ..row };
        Sighted { row: number, ordinal }
    }

    /// Remembers a row before this batch changes it for the first time.
    #[inline]
    fn remember(&mut self, row: u32) {
        let batch = self.begun.batch;
        if self.row(row).batch != batch {
            self.changed.push((row, *self.row(row)));
            self.row_mut(row).batch = batch;
        }
    }

    /// Asks for a row, which lies in one cache line or two.
    #[inline]
    fn fetch_row(&self, row: u32) {
        let Some(chunk) = self.rows.get(row as usize / CHUNK_ROWS) else { return };
        prefetch(chunk, row as usize % CHUNK_ROWS);
        prefetch(chunk, row as usize % CHUNK_ROWS + 1);
    }

    #[inline]
    fn row(&self, row: u32) -> &PlaceRow {
        &self.rows[row as usize / CHUNK_ROWS][row as usize % CHUNK_ROWS]
    }

    #[inline]
    fn row_mut(&mut self, row: u32) -> &mut PlaceRow {
        &mut self.rows[row as usize / CHUNK_ROWS][row as usize % CHUNK_ROWS]
    }

    /// Puts everything back as it was when the batch began.
    pub(crate) fn undo(&mut self) {
        for (row, old) in std::mem::take(&mut self.changed) {
            *self.row_mut(row) = old;
        }
        let Begun { len, members, names, .. } = self.begun;
        for row in len..self.len {
            let member = self.row(row).member as usize;
            self.members[member].positions -= 1;
        }
        self.len = len;
        self.rows.truncate((len as usize).div_ceil(CHUNK_ROWS));
        self.members.truncate(members);
        self.names.reset(names);
        self.index.clear();
        for (member, Member { name, .. }) in self.members.iter().enumerate() {
            self.index.insert(hash_of(self.names.get(*name)), member as u32);
        }
        self.make_grid();
    }

    /// How many rows the batch has changed or added.
    pub(crate) fn changed_len(&self) -> usize {
        self.changed.len() + (self.len - self.begun.len) as usize
    }

    /// The member of a collection that a row is, in `name`, and its cell.
    pub(crate) fn point(&self, row: u32, name: &mut Vec<u8>) -> Cell {
        let PlaceRow { member, ordinal, x, .. } = *self.row(row);
        name.clear();
        name.extend_from_slice(self.names.get(self.members[member as usize].name));
        if !self.rule.is_merged() {
            return Cell::from_bits(x).unwrap_or(Cell::MIN);
        }
        name.push(b'#');
        name.extend_from_slice(ordinal.to_string().as_bytes());
        Cell::from_place(mean(self.row(row)))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.rows.len() * CHUNK_ROWS * size_of::<PlaceRow>()
            + self.members.capacity() * size_of::<Member>()
            + self.names.memory_bytes()
            + self.index.memory_bytes()
            + self.grid.memory_bytes()
    }
}

/// The place that a merged row is at.
#[inline]
fn mean(row: &PlaceRow) -> Place {
    let count = row.count.max(1) as f64;
    let longitude = f64::from_bits(row.x) / count;
    let latitude_degrees = f64::from_bits(row.y) / count;
    let longitude_degrees = if longitude.abs() > 180.0 {
        longitude - (longitude / 360.0).round() * 360.0
    } else {
        longitude
    };
    Place { longitude_degrees, latitude_degrees }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
