//! Which positions of a member may lie near a place: a few in lines of the member, more in the
//! grid.
//!
//! ```text
//! up to 16 positions  lines of the member = x i32 * 4 | y i32 * 4 | row u32 * 4      a cache line for four
//! more                grid (grid.rs)
//! ```
//! Most members have a few positions, and a cache line tells of four of them which may lie near: a
//! difference and a comparison each, without a hash, a list, or a jump that goes elsewhere each
//! time. With more positions most of them are far away, and the grid leaves those out.
//!
//! For: candidates; the caller asks each for its distance, and gives a member's ordinals in their
//! order.
//! Not for: positions' means, which are the caller's.
//!
//! Invariants: the position of ordinal n stands in the n-th place of its member's lines; whatever
//! lies within the radius is a candidate. Coordinates are whole numbers of units of 9 mm, 2^32 of
//! them round the globe, so that differences of longitudes go over the date line as the globe does;
//! what rounding takes is added to the reach.
//! Cost: one cache line for a member with up to four positions, two with eight, else four; lines
//! that were left wait for other members.

use whered_geo::{Place, Radius};
use whered_simd::prefetch;

use super::bounding_box::BoundingBox;
use super::grid::{EARTH_METERS, Grid, Squares, cut};

/// A member with more positions has all of them in the grid.
const FEW_MAX: u32 = 16;
/// Positions of a line.
const LANES: usize = 4;
/// Members have one line, two, or four.
const SIZES: usize = 3;
const UNITS_PER_DEGREE: f64 = (1_u64 << 31) as f64 / 180.0;
/// Bands of latitude on each side of the equator, of two to the power of this many units, 1.4
/// degrees.
const BAND_BITS: u32 = 24;
/// More than there are, which is 65: a power of two, so that none has to be looked for.
const BANDS: usize = 128;

/// See the file's header.
#[derive(Debug)]
pub(super) struct PositionIndex {
    lines: Vec<Line>,
    /// Where lines are free, for each size that members have.
    free: [Vec<u32>; SIZES],
    grid: Grid,
    /// How far the radius reaches to each side of a place, in units, by the band of its latitude.
    reach_east: [u32; BANDS],
    reach_north: u32,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line {
    x: [i32; LANES],
    y: [i32; LANES],
    rows: [u32; LANES],
}

/// Where the positions of a member are.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberSlots {
    pub(super) member: u32,
    /// How many it has.
    pub(super) positions: u32,
    /// The first of its lines, if it has few.
    pub(super) lines: u32,
}

impl MemberSlots {
    fn has_few(self) -> bool {
        self.positions <= FEW_MAX
    }
}

/// What is looked at for a place: a box around it, in which whatever lies within the radius is; or
/// squares of the grid.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SearchBox {
    bounds: BoundingBox,
    /// None: the member had few positions when it was asked.
    squares: Squares,
}

/// The unit that a coordinate is in, or at the edge of two one of them.
#[inline]
fn unit(degrees: f64) -> i32 {
    // What is beyond half the globe wraps.
    cut(degrees * UNITS_PER_DEGREE) as i32
}

/// How many units hold a reach, whatever was rounded; half the globe at most.
fn units(reach_degrees: f64) -> u32 {
    ((reach_degrees * UNITS_PER_DEGREE).ceil() + 2.0).min(f64::from(1_u32 << 31)) as u32
}

impl Line {
    #[inline]
    fn put(&mut self, lane: usize, row: u32, place: Place) {
        self.x[lane] = unit(place.longitude_degrees);
        self.y[lane] = unit(place.latitude_degrees);
        self.rows[lane] = row;
    }
}

/// How many lines this many positions take, as a power of two.
fn size_of_lines(positions: u32) -> usize {
    positions.div_ceil(LANES as u32).next_power_of_two().trailing_zeros() as usize
}

impl PositionIndex {
    pub(super) fn new(radius_meters: f64) -> PositionIndex {
        let grid = Grid::new(radius_meters);
        let reach_degrees = grid.reach_degrees();
        let reach_east = std::array::from_fn(|band| {
            let end_degrees = (((band + 1) << BAND_BITS) + 1) as f64 / UNITS_PER_DEGREE;
            // On the way from a place to another one at this distance no degree is shorter than
            // here. What is cut off at 89.9 degrees is met by circles of five degrees only, which
            // then go round the globe.
            let furthest = (end_degrees + reach_degrees).min(89.9);
            units(reach_degrees / furthest.to_radians().cos())
        });
        let (lines, free) = (Vec::new(), Default::default());
        PositionIndex { lines, free, grid, reach_east, reach_north: units(reach_degrees) }
    }

    /// One that nothing is put in.
    pub(super) fn none() -> PositionIndex {
        PositionIndex::new(EARTH_METERS)
    }

    pub(super) fn radius(&self) -> &Radius {
        self.grid.radius()
    }

    /// Adds a member's next position; `of` has those before it, and `place_of` tells where they
    /// are.
    pub(super) fn insert(
        &mut self,
        of: &mut MemberSlots,
        row: u32,
        place: Place,
        place_of: impl Fn(u32) -> Place,
    ) {
        let before = *of;
        of.positions += 1;
        if !of.has_few() {
            if before.has_few() {
                for known in self.give_back(before).into_iter().take(before.positions as usize) {
                    self.grid.insert(known, of.member, place_of(known));
                }
            }
            self.grid.insert(row, of.member, place);
            return;
        }
        let nth = before.positions as usize;
        if nth == 0 || size_of_lines(before.positions) < size_of_lines(of.positions) {
            self.enlarge(before, of);
        }
        self.lines[of.lines as usize + nth / LANES].put(nth % LANES, row, place);
    }

    /// Gives a member lines for one position more.
    fn enlarge(&mut self, before: MemberSlots, of: &mut MemberSlots) {
        let size = size_of_lines(of.positions);
        of.lines = self.free[size].pop().unwrap_or_else(|| {
            self.lines.resize(self.lines.len() + (1 << size), Line::default());
            (self.lines.len() - (1 << size)) as u32
        });
        if before.positions > 0 {
            let (from, to) = (before.lines as usize, of.lines as usize);
            let lines = 1 << size_of_lines(before.positions);
            self.lines.copy_within(from..from + lines, to);
            self.give_back(before);
        }
    }

    /// Frees a member's lines; gives the rows that stand in them.
    fn give_back(&mut self, of: MemberSlots) -> [u32; FEW_MAX as usize] {
        let size = size_of_lines(of.positions);
        self.free[size].push(of.lines);
        let mut rows = [0; FEW_MAX as usize];
        let lines = &self.lines[of.lines as usize..][..1 << size];
        for (line, rows) in lines.iter().zip(rows.as_chunks_mut::<LANES>().0) {
            *rows = line.rows;
        }
        rows
    }

    /// Takes note that the position of an ordinal is at another place.
    #[inline]
    pub(super) fn move_row(&mut self, of: MemberSlots, ordinal: u32, row: u32, to: Place) {
        if of.has_few() {
            let nth = ordinal as usize - 1;
            self.lines[of.lines as usize + nth / LANES].put(nth % LANES, row, to);
        } else {
            self.grid.move_row(row, of.member, to);
        }
    }

    /// The first step to the positions near a place: asks for what tells which they are.
    #[inline]
    pub(super) fn approach(&self, of: MemberSlots, place: Place, search_box: &mut SearchBox) {
        if !of.has_few() {
            self.grid.find_squares(of.member, place, &mut search_box.squares);
            return;
        }
        self.lines_of(of).for_each(|line| prefetch(&self.lines, line));
        let (x, y) = (unit(place.longitude_degrees), unit(place.latitude_degrees));
        let east = self.reach_east[(y.unsigned_abs() >> BAND_BITS) as usize % BANDS];
        search_box.bounds = BoundingBox::new((x, east), (y, self.reach_north));
    }

    /// The second step: gives `each` rows that are likely to be near.
    #[inline]
    pub(super) fn likely(
        &self,
        of: MemberSlots,
        search_box: &mut SearchBox,
        each: impl FnMut(u32),
    ) {
        if of.has_few() {
            self.in_lines(of, search_box, each);
        } else {
            self.grid.find_firsts(&mut search_box.squares, each);
        }
    }

    /// Gives `each` all rows of the member that may lie within the radius of a place, and perhaps
    /// others, also of other members; `search_box` is this place's.
    #[inline]
    pub(super) fn each(
        &self,
        of: MemberSlots,
        place: Place,
        search_box: &SearchBox,
        each: impl FnMut(u32),
    ) {
        if of.has_few() {
            self.in_lines(of, search_box, each);
        } else if search_box.squares.is_none() {
            // It had few then.
            let mut squares = Squares::default();
            self.grid.find_squares(of.member, place, &mut squares);
            self.grid.near(of.member, place, &squares, each);
        } else {
            self.grid.near(of.member, place, &search_box.squares, each);
        }
    }

    /// The numbers of a member's lines.
    #[inline]
    fn lines_of(&self, of: MemberSlots) -> std::ops::Range<usize> {
        let first = of.lines as usize;
        first..first + (of.positions as usize).div_ceil(LANES)
    }

    #[inline]
    fn in_lines(&self, of: MemberSlots, search_box: &SearchBox, mut each: impl FnMut(u32)) {
        let mut first = of.lines as usize;
        let mut left = of.positions;
        while left > 0 {
            // Two lines are looked at, since asking whether there are two costs more; one of them
            // again where there is no other.
            let pair = [first, first + usize::from(left > LANES as u32)];
            let [low, high] = pair.map(|line| {
                let Line { x, y, .. } = &self.lines[line];
                search_box.bounds.contains(x, y)
            });
            let known = (1 << left.min(2 * LANES as u32)) - 1;
            let mut bits = (low | high << LANES) & known;
            while bits != 0 {
                let nth = bits.trailing_zeros() as usize;
                each(self.lines[pair[nth / LANES]].rows[nth % LANES]);
                bits &= bits - 1;
            }
            first += 2;
            left = left.saturating_sub(2 * LANES as u32);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        // A member with a position has had lines.
        if self.lines.is_empty() {
            return 0;
        }
        let free: usize = self.free.iter().map(|free| free.capacity() * 4).sum();
        self.lines.capacity() * size_of::<Line>() + free + self.grid.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whered_random::Random;

    /// Around the date line, the equator, a town, and the ends of what a cell can hold.
    const CORNERS: [(f64, f64); 6] =
        [(180.0, 10.0), (-180.0, -85.0), (0.0, 0.0), (8.0, 50.0), (12.0, 85.0), (179.0, -60.0)];

    /// Some radii from one of the corners.
    fn place(random: &mut Random, reach_degrees: f64) -> Place {
        let (x, y) = CORNERS[random.below(6) as usize];
        let mut noise = || (random.below(4000) as f64 / 1000.0 - 2.0) * reach_degrees;
        let (x, y) = (x + noise() / 0.3, y + noise());
        let turns = (x / 360.0).round();
        Place { longitude_degrees: x - turns * 360.0, latitude_degrees: y.clamp(-85.05, 85.05) }
    }

    /// What `near` gives for a place, asked ahead or not.
    fn found(near: &PositionIndex, of: MemberSlots, at: Place, is_ahead: bool) -> Vec<u32> {
        let (mut search_box, mut rows) = (SearchBox::default(), Vec::new());
        near.approach(of, at, &mut search_box);
        if is_ahead {
            near.likely(of, &mut search_box, |_| {});
        }
        near.each(of, at, &search_box, |row| rows.push(row));
        rows
    }

    #[test]
    fn whatever_lies_within_the_radius_is_a_candidate() {
        let mut random = Random(3);
        for radius_meters in [1e-3, 0.01, 1.0, 25.0, 3000.0, 1e5, 3e6, 1.5e7] {
            let mut near = PositionIndex::new(radius_meters);
            let reach_degrees = near.grid.reach_degrees();
            // The first members have few positions, the last ones many.
            let mut members: Vec<MemberSlots> =
                (0..12).map(|member| MemberSlots { member, positions: 0, lines: 0 }).collect();
            let mut rows: Vec<(u32, u32, Place)> = Vec::new();
            for _ in 0..600 {
                let member = (random.below(12) * random.below(12) / 11) as usize;
                let row = rows.len() as u32;
                let at = place(&mut random, reach_degrees);
                let of = &mut members[member];
                near.insert(of, row, at, |row| rows[row as usize].2);
                rows.push((member as u32, of.positions, at));
                let moved = random.below(rows.len() as u64) as usize;
                let to = place(&mut random, reach_degrees);
                let (member, ordinal, _) = rows[moved];
                rows[moved].2 = to;
                near.move_row(members[member as usize], ordinal, moved as u32, to);

                let (asked, at) = (random.below(12), place(&mut random, reach_degrees));
                let found = found(&near, members[asked as usize], at, !row.is_multiple_of(3));
                for (row, (member, _, other)) in (0..).zip(&rows) {
                    let is_own = u64::from(*member) == asked;
                    let is_near = is_own && at.distance_meters(*other) <= radius_meters;
                    assert!(!is_near || found.contains(&row), "{at:?} {other:?} {radius_meters}");
                }
            }
            let positions = || members.iter().map(|of| of.positions);
            assert!(positions().any(|count| count > FEW_MAX + 10));
            assert!(positions().any(|count| (2..FEW_MAX).contains(&count)));
        }
    }

    #[test]
    fn lines_that_a_member_has_no_more_are_another_s() {
        let mut near = PositionIndex::new(25.0);
        let at = Place { longitude_degrees: 8.0, latitude_degrees: 50.0 };
        let fill = |near: &mut PositionIndex, member, positions| {
            let mut of = MemberSlots { member, positions: 0, lines: 0 };
            (0..positions).for_each(|row| near.insert(&mut of, row, at, |_| at));
            assert_eq!(found(near, of, at, true).len(), positions as usize);
        };
        // One line, two, four, and the grid.
        fill(&mut near, 0, FEW_MAX + 1);
        assert_eq!(near.lines.len(), 7);
        fill(&mut near, 1, FEW_MAX);
        fill(&mut near, 2, 4);
        fill(&mut near, 3, 8);
        // All but the line that the last one began with.
        assert_eq!(near.lines.len(), 7 + 1);
    }

    #[test]
    fn what_is_far_away_is_left_out() {
        let mut near = PositionIndex::new(25.0);
        let mut of = MemberSlots { member: 0, positions: 0, lines: 0 };
        for row in 0..FEW_MAX {
            let at =
                Place { longitude_degrees: 8.0 + f64::from(row) * 1e-3, latitude_degrees: 60.0 };
            near.insert(&mut of, row, at, |_| at);
        }
        for row in 0..FEW_MAX {
            // 17 m to the east.
            let longitude_degrees = 8.0003 + f64::from(row) * 1e-3;
            let at = Place { longitude_degrees, latitude_degrees: 60.0 };
            assert_eq!(found(&near, of, at, true), [row]);
        }
    }
}
