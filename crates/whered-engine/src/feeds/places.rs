//! Where a feed's members are: merged positions, or the latest place of each.
//!
//! ```text
//! members  index ─> number ─> name, how many positions, the first of their lines
//! rows     member | ordinal | count | x | y | time | batch | mean     64 bytes, in chunks, never moved
//!          merged: x, y sums of degrees, count sightings          latest: x the cell, time of it
//! near     member and place ─> rows near it                       merged only, made of the rows
//! ```
//! For: the rule that the sightings of a member within r metres of a position (of its mean) are
//! that position; the nearest one, of equally near ones the oldest. And without such a rule, for
//! the latest place by time. Not for: the collection, which gets the points (`step.rs`); bytes
//! (`places_wire.rs`).
//!
//! Invariants: rows and members are never removed; ordinals of a member go from 1 without a gap.
//! A batch changes rows in place and remembers what they were: what is not kept in the journal is
//! undone. So nobody else may look between the two: the owner's lock is held.
//! Cost: a hash probe for the member, a look at its lines or one or two probes of the grid
//! (`near.rs`), a distance for each position near.

#[path = "places_cold.rs"]
mod cold;
#[path = "places_wire.rs"]
mod wire;

use whered_geo::{Cell, Center, NearestWithin, Place};
use whered_simd::prefetch;

use super::near::{MemberSlots, PositionIndex, SearchBox};
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
    /// Positions, merged within this many metres.
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

/// One position, or the latest place: one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(align(64))]
struct LocationRow {
    member: u32,
    ordinal: u32,
    values: Values,
    /// If positions are merged, the mean that the values have: it is asked more often than it
    /// changes, and takes two divisions. Its longitude goes beyond 180 degrees where the sum's
    /// does.
    mean: (f64, f64),
}

/// What a batch changes of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Values {
    count: u64,
    x: u64,
    y: u64,
    time: i64,
    batch: u64,
}

impl LocationRow {
    #[inline]
    fn set(&mut self, values: Values) {
        let count = values.count.max(1) as f64;
        self.mean = (f64::from_bits(values.x) / count, f64::from_bits(values.y) / count);
        self.values = values;
    }

    /// The place that a merged row is at.
    #[inline]
    fn place(&self) -> Place {
        let (longitude, latitude_degrees) = self.mean;
        let longitude_degrees = if longitude.abs() > 180.0 {
            longitude - (longitude / 360.0).round() * 360.0
        } else {
            longitude
        };
        Place { longitude_degrees, latitude_degrees }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    name: u64,
    positions: u32,
    /// Of its positions, if they are merged.
    lines: u32,
}

#[inline]
fn row_of(rows: &[Box<[LocationRow]>], row: u32) -> &LocationRow {
    &rows[row as usize / CHUNK_ROWS][row as usize % CHUNK_ROWS]
}

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Places {
    rule: PlaceRule,
    names: Arena,
    index: Index,
    members: Vec<Member>,
    rows: Vec<Box<[LocationRow]>>,
    len: u32,
    near: PositionIndex,
    /// Whether that is of the rows: replaying leaves it alone.
    has_near: bool,
    /// What the batch that is made has changed, as it was.
    changed: Vec<(u32, Values)>,
    checkpoint: Checkpoint,
}

/// What there was when a batch began.
#[derive(Clone, Copy, Debug, Default)]
struct Checkpoint {
    batch: u64,
    len: u32,
    members: usize,
    names: ArenaMark,
}

/// What is known of a sighting before its turn, from a moment in which earlier ones of its group
/// had not been noted yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Approach {
    hash: u32,
    /// [`UNKNOWN`] if there was none yet.
    member: u32,
    /// If positions are merged.
    search_box: SearchBox,
}

/// No member has this number.
const UNKNOWN: u32 = u32::MAX;

/// Where a sighting was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SightingSlot {
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
            near: if let PlaceRule::Merged(meters) = rule {
                PositionIndex::new(meters)
            } else {
                PositionIndex::none()
            },
            has_near: true,
            changed: Vec::new(),
            checkpoint: Checkpoint::default(),
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
        self.make_near();
    }

    /// Makes what finds the rows near a place, of the rows.
    fn make_near(&mut self) {
        if let PlaceRule::Merged(meters) = self.rule {
            self.near = PositionIndex::new(meters);
            (0..self.len).for_each(|row| self.note_near(row));
        }
        self.has_near = true;
    }

    /// Makes it if it is not of the rows.
    pub(crate) fn ensure_near(&mut self) {
        if !self.has_near {
            self.make_near();
        }
    }

    /// Takes note of its member's next row.
    fn note_near(&mut self, row: u32) {
        let LocationRow { member, ordinal, .. } = *self.row(row);
        let lines = &mut self.members[member as usize].lines;
        let mut of = MemberSlots { member, positions: ordinal - 1, lines: *lines };
        let place_of = |row| row_of(&self.rows, row).place();
        self.near.insert(&mut of, row, place_of(row), place_of);
        *lines = of.lines;
    }

    /// Where a member's rows are looked for.
    #[inline]
    fn of(&self, member: u32) -> MemberSlots {
        let Member { positions, lines, .. } = self.members[member as usize];
        MemberSlots { member, positions, lines }
    }

    /// From now on changes are those of this batch, until it is kept or undone.
    pub(crate) fn begin(&mut self, batch: u64) {
        self.changed.clear();
        let (len, members) = (self.len, self.members.len());
        self.checkpoint = Checkpoint { batch, len, members, names: self.names.mark() };
    }

    /// The first of the steps to a sighting: asks for what finds its member.
    #[inline]
    pub(crate) fn approach(&self, name: &[u8]) -> Approach {
        let hash = hash_of(name);
        self.index.fetch(hash);
        Approach { hash, member: UNKNOWN, search_box: SearchBox::default() }
    }

    /// The second step: finds the member, and asks for what finds its positions.
    #[inline]
    pub(crate) fn approach_member(&self, approach: &mut Approach, name: &[u8], place: Place) {
        let Some(member) = self.member(approach.hash, name) else { return };
        approach.member = member;
        if self.rule.is_merged() {
            self.near.approach(self.of(member), place, &mut approach.search_box);
        } else {
            self.fetch_row(member);
        }
    }

    /// The third step: asks for the positions.
    #[inline]
    pub(crate) fn approach_rows(&self, approach: &mut Approach) {
        let Approach { member, search_box, .. } = approach;
        if *member != UNKNOWN && self.rule.is_merged() {
            self.near.likely(self.of(*member), search_box, |row| self.fetch_row(row));
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
    ) -> SightingSlot {
        let Approach { hash, search_box, .. } = approach;
        let mut late = SearchBox::default();
        let (member, search_box) = if approach.member != UNKNOWN {
            (approach.member, search_box)
        } else if let Some(member) = self.member(*hash, name) {
            // An earlier one of the group has made it.
            self.near.approach(self.of(member), place, &mut late);
            (member, &late)
        } else {
            (self.add_member(*hash, name), &late)
        };
        if !self.rule.is_merged() {
            return self.sight_latest(member, place, time);
        }
        let of = self.of(member);
        let Some(row) = self.nearest(of, place, search_box) else {
            let (x, y) = (place.longitude_degrees.to_bits(), place.latitude_degrees.to_bits());
            let sighted = self.add_row(member, Values { x, y, count: 1, ..Values::default() });
            self.note_near(sighted.row);
            return sighted;
        };
        let changed = self.changing(row);
        let mut values = changed.values;
        // Near the date line the sighting is taken where it is next to the position.
        let away = changed.mean.0 - place.longitude_degrees;
        // A rounding takes a call where SSE 4.1 may be missing, and is a zero nearly always.
        let across = if away.abs() < 180.0 { 0.0 } else { (away / 360.0).round() * 360.0 };
        let longitude = place.longitude_degrees + across;
        values.x = (f64::from_bits(values.x) + longitude).to_bits();
        values.y = (f64::from_bits(values.y) + place.latitude_degrees).to_bits();
        values.count += 1;
        changed.set(values);
        let (ordinal, place) = (changed.ordinal, changed.place());
        self.near.move_row(of, ordinal, row, place);
        SightingSlot { row, ordinal }
    }

    fn sight_latest(&mut self, member: u32, place: Place, time: i64) -> SightingSlot {
        let cell = Cell::from_place(place).bits();
        // There is one row for each member, made with it.
        if member == self.len {
            return self.add_row(member, Values { x: cell, time, ..Values::default() });
        }
        if time >= self.row(member).values.time {
            let values = &mut self.changing(member).values;
            (values.x, values.time) = (cell, time);
        }
        SightingSlot { row: member, ordinal: 1 }
    }

    /// The nearest position within the radius; of equally near ones the oldest.
    #[inline]
    fn nearest(&self, of: MemberSlots, place: Place, search_box: &SearchBox) -> Option<u32> {
        let center = Center::new(place);
        let mut nearest = NearestWithin::new(&center, self.near.radius());
        self.near.each(of, place, search_box, |row| {
            let known = self.row(row);
            if known.member == of.member {
                nearest.offer(known.place(), row);
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
        self.members.push(Member { name, ..Member::default() });
        self.index.insert(hash, member);
        member
    }

    /// Adds a row of the member's next ordinal.
    fn add_row(&mut self, member: u32, values: Values) -> SightingSlot {
        let ordinal = self.members[member as usize].positions + 1;
        self.members[member as usize].positions = ordinal;
        let number = self.len;
        if (number as usize).is_multiple_of(CHUNK_ROWS) {
            self.rows.push(vec![LocationRow::default(); CHUNK_ROWS].into_boxed_slice());
        }
        self.len += 1;
        let batch = self.checkpoint.batch;
        let row = self.row_mut(number);
        (row.member, row.ordinal) = (member, ordinal);
        row.set(Values { batch, ..values });
        SightingSlot { row: number, ordinal }
    }

    /// A row that is about to be changed: it is remembered before this batch does that for the
    /// first time.
    #[inline]
    fn changing(&mut self, row: u32) -> &mut LocationRow {
        let changed = &mut self.rows[row as usize / CHUNK_ROWS][row as usize % CHUNK_ROWS];
        if changed.values.batch != self.checkpoint.batch {
            self.changed.push((row, changed.values));
            changed.values.batch = self.checkpoint.batch;
        }
        changed
    }

    /// Asks for a row.
    #[inline]
    fn fetch_row(&self, row: u32) {
        let Some(chunk) = self.rows.get(row as usize / CHUNK_ROWS) else { return };
        prefetch(chunk, row as usize % CHUNK_ROWS);
    }

    #[inline]
    fn row(&self, row: u32) -> &LocationRow {
        row_of(&self.rows, row)
    }

    #[inline]
    fn row_mut(&mut self, row: u32) -> &mut LocationRow {
        &mut self.rows[row as usize / CHUNK_ROWS][row as usize % CHUNK_ROWS]
    }

    /// Puts everything back as it was when the batch began.
    pub(crate) fn undo(&mut self) {
        for (row, old) in std::mem::take(&mut self.changed) {
            self.row_mut(row).set(old);
        }
        let Checkpoint { len, members, names, .. } = self.checkpoint;
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
        self.make_near();
    }

    /// How many rows the batch has changed or added.
    pub(crate) fn changed_len(&self) -> usize {
        self.changed.len() + (self.len - self.checkpoint.len) as usize
    }

    /// The member of a collection that a row is, in `name`, and its cell.
    pub(crate) fn point(&self, row: u32, name: &mut Vec<u8>) -> Cell {
        let LocationRow { member, ordinal, values, .. } = *self.row(row);
        name.clear();
        name.extend_from_slice(self.names.get(self.members[member as usize].name));
        if !self.rule.is_merged() {
            return Cell::from_bits(values.x).unwrap_or(Cell::MIN);
        }
        name.push(b'#');
        name.extend_from_slice(ordinal.to_string().as_bytes());
        Cell::from_place(self.row(row).place())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.rows.len() * CHUNK_ROWS * size_of::<LocationRow>()
            + self.members.capacity() * size_of::<Member>()
            + self.names.memory_bytes()
            + self.index.memory_bytes()
            + self.near.memory_bytes()
    }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
