//! Tests four points at once against a bounding box.
//!
//! For: indexes that leave out far points before they compute distances. Not for: distances.
//! Coordinates are whole numbers that wrap around, as longitudes do at the date line.
//! Cost: some ten instructions for four points.

const POINTS: usize = 4;

/// A rectangle of coordinates, which may cross the wrap-around.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BoundingBox {
    x: Extent,
    y: Extent,
}

/// A range of coordinates. Half of the range of `i32` is added to `start` and subtracted from
/// `width`: the test then compares signed numbers, which SSE2 does for four at once.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    start: i32,
    width: i32,
}

impl Extent {
    fn centered((center, reach): (i32, u32)) -> Extent {
        let start = center.wrapping_sub(reach as i32).wrapping_add(i32::MIN);
        Extent { start, width: (reach.saturating_mul(2) as i32).wrapping_add(i32::MIN) }
    }

    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn contains(self, number: i32) -> bool {
        number.wrapping_sub(self.start) <= self.width
    }
}

impl BoundingBox {
    /// The box around a center: each coordinate has its center and its reach to both sides. A reach
    /// of `1 << 31` contains every number.
    #[inline]
    pub(super) fn new(x: (i32, u32), y: (i32, u32)) -> BoundingBox {
        BoundingBox { x: Extent::centered(x), y: Extent::centered(y) }
    }

    /// A bit for each point, set if the box contains it; the first point has the lowest bit.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "vector loads take pointers")]
    #[inline]
    pub(super) fn contains(&self, x: &[i32; POINTS], y: &[i32; POINTS]) -> u32 {
        use std::arch::x86_64::{
            __m128i, _mm_castsi128_ps, _mm_cmpgt_epi32, _mm_loadu_si128, _mm_movemask_ps,
            _mm_or_si128, _mm_set1_epi32, _mm_sub_epi32,
        };
        // SAFETY: SSE2 is a part of x86-64, and each load reads the four numbers of an array.
        let beyond = unsafe {
            let beyond = |numbers: &[i32; POINTS], side: Extent| -> __m128i {
                let numbers = _mm_loadu_si128(numbers.as_ptr().cast());
                let from = _mm_sub_epi32(numbers, _mm_set1_epi32(side.start));
                _mm_cmpgt_epi32(from, _mm_set1_epi32(side.width))
            };
            _mm_movemask_ps(_mm_castsi128_ps(_mm_or_si128(beyond(x, self.x), beyond(y, self.y))))
        };
        beyond as u32 ^ ((1 << POINTS) - 1)
    }

    /// A bit for each point, set if the box contains it; the first point has the lowest bit.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    pub(super) fn contains(&self, x: &[i32; POINTS], y: &[i32; POINTS]) -> u32 {
        self.contains_scalar(x, y)
    }

    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn contains_scalar(&self, x: &[i32; POINTS], y: &[i32; POINTS]) -> u32 {
        let is_in = |point: usize| self.x.contains(x[point]) && self.y.contains(y[point]);
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
            let bounds = BoundingBox::new((center.0, reach[0]), (center.1, reach[1]));
            let is_within = |number: i32, center: i32, reach: u32| {
                let apart = number.wrapping_sub(center).unsigned_abs();
                apart <= reach
            };
            for point in 0..POINTS {
                let expected = is_within(x[point], center.0, reach[0])
                    && is_within(y[point], center.1, reach[1]);
                assert_eq!(
                    bounds.contains(&x, &y) >> point & 1 == 1,
                    expected,
                    "{bounds:?} {x:?} {y:?}"
                );
            }
            assert_eq!(bounds.contains(&x, &y), bounds.contains_scalar(&x, &y));
        }
    }
}
