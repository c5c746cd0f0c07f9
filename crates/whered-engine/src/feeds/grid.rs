//! Which positions of a member that has many may lie near a place: a hash of coarse squares.
//!
//! ```text
//! the globe in bands of 12 radii; some bands are a zone; each band of a zone in the same columns, of at
//!     least 12 radii at the zone's narrower edge
//! (member, band, column) ─ hash ─> slot = tag u32 | first row + 1 u32
//! links[row] = next row + 1 u32 | tag of its slot u32
//! ```
//! For: candidates; the caller asks each for its member and distance. So two squares with one tag
//! may share a list. Why 12 radii: a circle of one radius then meets 1.4 squares on average, and a
//! square rarely has more than a few positions of one member, which lie about a radius apart.
//!
//! Invariants: every row stands in the list of the square of its place; all squares that a circle
//! meets are looked at, also over the date line. It is in no file: it is made of the rows again.
//! Cost: one or two cache lines a square, and 8 bytes a row beside the slots.

use std::f64::consts::PI;

use whered_geo::{Place, Radius};
use whered_simd::prefetch;

use crate::tables::index::fold;

/// The radius that distances are counted with, in metres.
pub(super) const EARTH_METERS: f64 = 6_372_797.560_856;
/// How many radii a square is high.
const RADII: f64 = 12.0;
const SLOTS_MIN: usize = 64;
/// A zone is at most so high, or one band: few enough zones that they stay in a near cache.
const ZONE_DEGREES: f64 = 0.25;

/// See the file's header.
#[derive(Debug)]
pub(super) struct Grid {
    slots: Vec<u64>,
    used: usize,
    links: Vec<Link>,
    /// Of which version lists' first rows are: another one with each change; never zero.
    version: u32,
    radius: Radius,
    /// A little more than the radius.
    reach_degrees: f64,
    bands_per_degree: f64,
    /// A zone has two to the power of this many bands.
    zone_shift: u32,
    zones: Box<[Columns]>,
}

/// A square of one member: the tag of its slot.
type Tag = u32;

/// A row in the list of its square.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// The row after it, plus one.
    next: u32,
    /// Of the list that it stands in.
    tag: Tag,
}

/// Circles that meet more squares are looked up square by square.
const SQUARES_MAX: usize = 4;

/// The squares of a member that a circle meets, one or two as a rule; right for as long as the grid
/// has its radius.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Squares {
    tags: [Tag; SQUARES_MAX],
    /// The first row in the list of each, plus one, in this version of the grid.
    firsts: [u32; SQUARES_MAX],
    version: u32,
    /// Above [`SQUARES_MAX`]: not all of them are here.
    count: u32,
}

impl Squares {
    /// Whether none was looked for.
    #[inline]
    pub(super) fn is_none(&self) -> bool {
        self.count == 0
    }

    /// Those that are known; all or none.
    #[inline]
    fn known(&self) -> &[Tag] {
        self.tags.get(..self.count as usize).unwrap_or(&[])
    }
}

impl Grid {
    pub(super) fn new(radius_meters: f64) -> Grid {
        let radius_degrees = radius_meters / EARTH_METERS * 180.0 / PI;
        let height_degrees = RADII * radius_degrees;
        let reach_degrees = radius_degrees * 1.001;
        let zone_shift = (ZONE_DEGREES / height_degrees).max(1.0).log2() as u32;
        let zone_degrees = height_degrees * (1_u64 << zone_shift) as f64;
        let zones = (0..(180.0 / zone_degrees).ceil() as u32).map(|zone| {
            let south = f64::from(zone) * zone_degrees - 90.0;
            Columns::between(south, south + zone_degrees, height_degrees, reach_degrees)
        });
        Grid {
            slots: Vec::new(),
            used: 0,
            links: Vec::new(),
            version: 1,
            radius: Radius::new(radius_meters),
            reach_degrees,
            bands_per_degree: 1.0 / height_degrees,
            zone_shift,
            zones: zones.collect(),
        }
    }

    pub(super) fn radius(&self) -> &Radius {
        &self.radius
    }

    /// A little more than the radius.
    pub(super) fn reach_degrees(&self) -> f64 {
        self.reach_degrees
    }

    /// Adds a row at a place.
    pub(super) fn insert(&mut self, row: u32, member: u32, place: Place) {
        if self.links.len() <= row as usize {
            self.links.resize(row as usize + 1, Link::default());
        }
        self.put_in(row, self.tag_of(member, place));
    }

    /// Takes note that a row is at another place.
    #[inline]
    pub(super) fn move_row(&mut self, row: u32, member: u32, to: Place) {
        let tag = self.tag_of(member, to);
        if self.links[row as usize].tag != tag {
            self.take_out(row);
            self.put_in(row, tag);
        }
    }

    /// Puts a row at the front of a list.
    fn put_in(&mut self, row: u32, tag: Tag) {
        self.change();
        if (self.used + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let slot = self.slot_of(tag);
        if self.slots[slot] == 0 {
            self.used += 1;
        }
        self.links[row as usize] = Link { next: self.slots[slot] as u32, tag };
        self.slots[slot] = u64::from(tag) << 32 | u64::from(row + 1);
    }

    /// Takes a row out of its list.
    fn take_out(&mut self, row: u32) {
        let Link { next: after, tag } = self.links[row as usize];
        let slot = self.slot_of(tag);
        let mut before: Option<u32> = None;
        let mut at = self.slots[slot] as u32;
        while at != 0 && at != row + 1 {
            before = Some(at - 1);
            at = self.links[at as usize - 1].next;
        }
        match before {
            // An empty list keeps its slot, until the slots are made anew.
            None => self.slots[slot] = u64::from(tag) << 32 | u64::from(after),
            Some(before) => self.links[before as usize].next = after,
        }
    }

    fn change(&mut self) {
        self.version = self.version.wrapping_add(1).max(1);
    }

    /// Finds the squares of a member that may have rows within the radius of a place, and asks for
    /// their slots. `squares` is changed in its place: what is written in parts and then copied as
    /// a whole waits for the parts.
    #[inline]
    pub(super) fn find_squares(&self, member: u32, place: Place, squares: &mut Squares) {
        let mask = self.slots.len().wrapping_sub(1);
        let mut count = 0;
        self.each_square(member, place, |tag| {
            prefetch(&self.slots, tag as usize & mask);
            if let Some(free) = squares.tags.get_mut(count) {
                *free = tag;
            }
            count += 1;
        });
        (squares.count, squares.version) = (count as u32, 0);
    }

    /// Finds the first rows of squares, asks for what comes after them, and gives them to `each`.
    #[inline]
    pub(super) fn find_firsts(&self, squares: &mut Squares, mut each: impl FnMut(u32)) {
        let Squares { tags, firsts, count, .. } = &mut *squares;
        if *count as usize > SQUARES_MAX {
            return;
        }
        for (tag, known) in tags.iter().zip(firsts).take(*count as usize) {
            let first = self.first(*tag);
            *known = first;
            if first != 0 {
                prefetch(&self.links, first as usize - 1);
                each(first - 1);
            }
        }
        squares.version = self.version;
    }

    /// Gives `each` all rows of the member that may lie within the radius, and perhaps others;
    /// `squares` are those of this member and place.
    #[inline]
    pub(super) fn near(
        &self,
        member: u32,
        place: Place,
        squares: &Squares,
        mut each: impl FnMut(u32),
    ) {
        let mut all = |first: u32| {
            let mut at = first;
            while at != 0 {
                each(at - 1);
                at = self.links[at as usize - 1].next;
            }
        };
        let count = squares.count as usize;
        if squares.version == self.version {
            squares.firsts.iter().take(count).for_each(|first| all(*first));
        } else if count <= SQUARES_MAX {
            squares.known().iter().for_each(|tag| all(self.first(*tag)));
        } else {
            self.each_square(member, place, |tag| all(self.first(tag)));
        }
    }

    /// The first row in a square's list, plus one.
    #[inline]
    fn first(&self, tag: Tag) -> u32 {
        if self.slots.is_empty() { 0 } else { self.slots[self.slot_of(tag)] as u32 }
    }

    /// Gives `each` the squares of a member that a circle meets.
    #[inline]
    fn each_square(&self, member: u32, place: Place, mut each: impl FnMut(Tag)) {
        let Place { longitude_degrees, latitude_degrees } = place;
        let south = self.band(latitude_degrees - self.reach_degrees);
        let north = self.band(latitude_degrees + self.reach_degrees);
        let mut columns = self.columns(south);
        // A circle is nowhere wider in degrees than in the zone that is next to a pole.
        let reach = if south == north {
            columns.reach_degrees
        } else {
            columns.reach_degrees.max(self.columns(north).reach_degrees)
        };
        let mut band = south;
        loop {
            let first = columns.place_of(longitude_degrees - reach);
            let last = columns.place_of(longitude_degrees + reach);
            let end = last.min(first + columns.count - 1) + 1;
            for column in first..end {
                each(tag(member, (band, columns.squares_around(column))));
            }
            if band >= north {
                return;
            }
            band += 1;
            columns = self.columns(band);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * 8
            + self.links.capacity() * size_of::<Link>()
            + size_of_val(&*self.zones)
    }

    /// The square of a member that a place is in.
    #[inline]
    fn tag_of(&self, member: u32, place: Place) -> Tag {
        let band = self.band(place.latitude_degrees);
        let columns = self.columns(band);
        tag(member, (band, columns.squares_around(columns.place_of(place.longitude_degrees))))
    }

    #[inline]
    fn band(&self, latitude_degrees: f64) -> i64 {
        cut((latitude_degrees + 90.0) * self.bands_per_degree)
    }

    /// Those of a band's zone; beyond a pole those next to it.
    #[inline]
    fn columns(&self, band: i64) -> &Columns {
        let zone = (band >> self.zone_shift).clamp(0, self.zones.len() as i64 - 1);
        &self.zones[zone as usize]
    }

    /// The slot with this tag, or the free one where it would be.
    #[inline]
    fn slot_of(&self, tag: Tag) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = tag as usize & mask;
        while self.slots[slot] != 0 && (self.slots[slot] >> 32) as u32 != tag {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Doubles the slots, and leaves those out whose lists are empty.
    fn grow(&mut self) {
        let larger = vec![0; (self.slots.len() * 2).max(SLOTS_MIN)];
        let old = std::mem::replace(&mut self.slots, larger);
        self.used = 0;
        for slot in old.into_iter().filter(|slot| *slot as u32 != 0) {
            let place = self.slot_of((slot >> 32) as u32);
            self.slots[place] = slot;
            self.used += 1;
        }
    }
}

/// The whole number that is nearest to half less than this, hence the one below it, or at the edge
/// between two always the same one of both; `f64::floor` is a call where SSE 4.1 may be missing.
#[inline]
pub(super) fn cut(value: f64) -> i64 {
    // As large as this, a double has no room for a fraction, and its lowest bits are a whole
    // number.
    const WHOLE: f64 = (3_u64 << 51) as f64;
    (value - 0.5 + WHOLE).to_bits().wrapping_sub(WHOLE.to_bits()) as i64
}

/// The columns of a zone.
#[derive(Clone, Copy, Debug)]
struct Columns {
    count: i64,
    per_degree: f64,
    /// So far a circle reaches to the east, and to the west, at most.
    reach_degrees: f64,
}

impl Columns {
    /// Those of the zone between two latitudes.
    fn between(south: f64, north: f64, width_degrees: f64, reach_degrees: f64) -> Columns {
        // What is cut off at 89.9 degrees is met by circles of five degrees only, which then are as
        // wide as the globe.
        let narrow = south.abs().max(north.abs()).min(89.9).to_radians().cos();
        let count = (360.0 * narrow / width_degrees).floor().max(1.0);
        Columns {
            count: count as i64,
            per_degree: count * (1.0 / 360.0),
            reach_degrees: reach_degrees / narrow,
        }
    }

    /// The column of a longitude, beyond the date line below zero and above the count.
    #[inline]
    fn place_of(&self, longitude_degrees: f64) -> i64 {
        cut((longitude_degrees + 180.0) * self.per_degree)
    }

    /// The column of a place beyond the date line: no division where it is not beyond.
    #[inline]
    fn squares_around(&self, place: i64) -> i64 {
        if (0..self.count).contains(&place) { place } else { place.rem_euclid(self.count) }
    }
}

/// Never zero together with an empty list: a free slot is zero as a whole.
#[inline]
fn tag(member: u32, (band, column): (i64, i64)) -> Tag {
    let (first, second) = (u64::from(member) | (band as u64) << 32, column as u64);
    let folded = fold(first ^ 0x2545_f491_4f6c_dd1d, second ^ 0xe703_7ed1_a0b4_28db);
    ((folded >> 32) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_the_number_below() {
        for value in [-1.5, -0.25, 0.001, 0.75, 199_999.999, 2e12 + 0.25] {
            assert_eq!(cut(value), value.floor() as i64, "{value}");
        }
        for edge in [-2, -1, 0, 1, 2, 200_000] {
            assert!([edge - 1, edge].contains(&cut(edge as f64)), "{edge}");
        }
    }

    #[test]
    fn whatever_lies_within_the_radius_is_a_candidate() {
        let mut state = 3_u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        for radius_meters in [1.0, 25.0, 3000.0, 100_000.0] {
            let mut grid = Grid::new(radius_meters);
            let degrees = grid.reach_degrees;
            // Around the date line, the equator, a town, and the ends of what a cell can hold.
            let corners = [
                (180.0, 10.0),
                (-180.0, -85.0),
                (0.0, 0.0),
                (8.0, 50.0),
                (12.0, 85.0),
                (179.0, -60.0),
            ];
            let mut place = || {
                let (x, y) = corners[below(6) as usize];
                let noise = |random: u64| (random as f64 / 1000.0 - 2.0) * degrees;
                let (x, y) = (x + noise(below(4000)) / 0.3, y + noise(below(4000)));
                let longitude_degrees = if x > 180.0 {
                    x - 360.0
                } else if x < -180.0 {
                    x + 360.0
                } else {
                    x
                };
                Place { longitude_degrees, latitude_degrees: y.clamp(-85.05, 85.05) }
            };
            let mut places: Vec<Place> = Vec::new();
            for row in 0..300_u32 {
                places.push(place());
                grid.insert(row, row % 2, places[row as usize]);
                let moved = (row / 2) as usize;
                let to = place();
                let member = moved as u32 % 2;
                grid.move_row(moved as u32, member, to);
                places[moved] = to;
            }
            for asked in 0..300 {
                let (at, member) = (place(), asked % 2);
                let mut found = Vec::new();
                let mut squares = Squares::default();
                grid.find_squares(member, at, &mut squares);
                if asked % 3 > 0 {
                    grid.find_firsts(&mut squares, |_| {});
                }
                grid.near(member, at, &squares, |row| found.push(row));
                for (row, other) in (0..).zip(&places) {
                    let is_near = row % 2 == member && at.distance_meters(*other) <= radius_meters;
                    assert!(!is_near || found.contains(&row), "{at:?} {other:?} {radius_meters}");
                }
            }
        }
    }
}
