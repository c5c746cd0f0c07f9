//! Which of four points lie in a box around another one.
//!
//! For: indexes that leave out what is far away before they reckon distances. Not for: distances.
//! Coordinates are whole numbers that wrap: what is beyond the largest is next to the smallest, as
//! longitudes are. Cost: some ten instructions for four points.

const POINTS: usize = 4;

/// A box.
///
/// ```
/// // Two units to the east and to the west, one to the north and to the south.
/// let around = whered_simd::Vicinity::new((i32::MAX, 2), (10, 1));
/// let (x, y) = ([i32::MAX - 2, i32::MAX - 3, i32::MIN + 1, i32::MAX], [11, 10, 9, 12]);
/// assert_eq!(around.holds(&x, &y), 0b0101);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Vicinity {
    x: Side,
    y: Side,
}

/// The numbers from `start` on, so many more than one: half of what there are is added to the one
/// and taken from the other, so that they are compared as numbers with a sign, which every
/// processor does for four at once.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    start: i32,
    width: i32,
}

impl Side {
    fn around((center, reach): (i32, u32)) -> Side {
        let start = center.wrapping_sub(reach as i32).wrapping_add(i32::MIN);
        Side { start, width: (reach.saturating_mul(2) as i32).wrapping_add(i32::MIN) }
    }

    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn holds(self, number: i32) -> bool {
        number.wrapping_sub(self.start) <= self.width
    }
}

impl Vicinity {
    /// The box of both coordinates' center and reach, which is added on both sides; a reach of half
    /// of the numbers, `1 << 31`, holds all.
    #[inline]
    #[must_use]
    pub fn new(x: (i32, u32), y: (i32, u32)) -> Vicinity {
        Vicinity { x: Side::around(x), y: Side::around(y) }
    }

    /// The points in the box: a bit for each, the first one's is the lowest.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "instructions that every such processor has")]
    #[inline]
    #[must_use]
    pub fn holds(&self, x: &[i32; POINTS], y: &[i32; POINTS]) -> u32 {
        use std::arch::x86_64::{
            __m128i, _mm_castsi128_ps, _mm_cmpgt_epi32, _mm_loadu_si128, _mm_movemask_ps,
            _mm_or_si128, _mm_set1_epi32, _mm_sub_epi32,
        };
        // SAFETY: SSE2 is a part of x86-64, and what is loaded are four numbers each.
        let beyond = unsafe {
            let beyond = |numbers: &[i32; POINTS], side: Side| -> __m128i {
                let numbers = _mm_loadu_si128(numbers.as_ptr().cast());
                let from = _mm_sub_epi32(numbers, _mm_set1_epi32(side.start));
                _mm_cmpgt_epi32(from, _mm_set1_epi32(side.width))
            };
            _mm_movemask_ps(_mm_castsi128_ps(_mm_or_si128(beyond(x, self.x), beyond(y, self.y))))
        };
        beyond as u32 ^ ((1 << POINTS) - 1)
    }

    /// The points in the box: a bit for each, the first one's is the lowest.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    #[must_use]
    pub fn holds(&self, x: &[i32; POINTS], y: &[i32; POINTS]) -> u32 {
        self.holds_one_by_one(x, y)
    }

    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn holds_one_by_one(&self, x: &[i32; POINTS], y: &[i32; POINTS]) -> u32 {
        let is_in = |point: usize| self.x.holds(x[point]) && self.y.holds(y[point]);
        (0..POINTS).fold(0, |bits, point| bits | u32::from(is_in(point)) << point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_points_in_a_box_are_those_within_reach() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 32) as u32
        };
        for round in 0..20_000 {
            // Reaches of all sizes, and points about as far.
            let size = 1 + round % 32;
            let (mut near, mut center) = (|| random() >> (32 - size), (0, 0));
            let reach =
                [near(), near()].map(|reach| if round % 7 == 0 { 1 << 31 } else { reach / 2 });
            center.0 = (near() as i32).wrapping_mul(1 + round);
            center.1 = near() as i32;
            let mut point =
                |center: i32| center.wrapping_add(near() as i32).wrapping_sub(near() as i32);
            let x: [i32; POINTS] = std::array::from_fn(|_| point(center.0));
            let y: [i32; POINTS] = std::array::from_fn(|_| point(center.1));
            let around = Vicinity::new((center.0, reach[0]), (center.1, reach[1]));
            let is_within = |number: i32, center: i32, reach: u32| {
                let apart = number.wrapping_sub(center).unsigned_abs();
                apart <= reach
            };
            for point in 0..POINTS {
                let expected = is_within(x[point], center.0, reach[0])
                    && is_within(y[point], center.1, reach[1]);
                assert_eq!(
                    around.holds(&x, &y) >> point & 1 == 1,
                    expected,
                    "{around:?} {x:?} {y:?}"
                );
            }
            assert_eq!(around.holds(&x, &y), around.holds_one_by_one(&x, &y));
        }
    }
}
