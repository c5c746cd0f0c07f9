//! The filter of points for the processor at hand: AVX-512, AVX2 or plain Rust.
//!
//! For: [`masks`], which takes keys apart, computes `h` and compares. Not for: what `h` is and
//! why the limits are safe (`filter.rs`), nor for asking the processor (`whered-simd`).
//!
//! ```text
//! masks ─► Path::Avx512(token) ─► #[target_feature] entry ─┐
//!      ├─► Path::Avx2(token) ───► #[target_feature] entry ─┼─► compute, in groups of 16
//!      └─► Path::Scalar ────────► baseline entry ──────────┘
//! ```
//!
//! The body is plain Rust in loops of 16 over arrays, which the compiler turns into vectors of each
//! entry's width; the paths round differently (only some have fused multiplication), which the
//! limits allow for. Only the comparisons are intrinsics, since a mask is what no loop gives.

#[cfg(target_arch = "x86_64")]
use whered_simd::{Avx2, Avx512};
use whered_simd::{Path, Scalar};

use crate::cell::{STEPS, deinterleave};
use crate::cover::{COLUMN_RADIANS, ROW_RADIANS};
use crate::distance::hav_series;
use crate::filter::{BLOCK, Bounds, Filter, Form, Long, Masks, Short, TURN_MASK};

/// Lanes that one loop treats together.
const GROUP: usize = 16;

/// Keys of a leaf, ascending, none at the limit of the globe; at most [`BLOCK`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyBlock<'a> {
    /// Distances from a base.
    Narrow {
        /// The number that is added to each.
        base: u64,
        /// The distances.
        deltas: &'a [u32],
    },
    /// Cell bits.
    Wide(&'a [u64]),
}

impl KeyBlock<'_> {
    fn len(&self) -> usize {
        match self {
            KeyBlock::Narrow { deltas, .. } => deltas.len(),
            KeyBlock::Wide(keys) => keys.len(),
        }
    }
}

/// The `h` of each key of a block.
pub(crate) type Haversines = [f32; BLOCK];

/// Tests a block of keys; `haversines` tells `h` of each, infinite outside the bounds.
///
/// # Panics
///
/// If there are more than [`BLOCK`] keys.
#[inline]
pub(crate) fn masks(
    path: Path,
    filter: &Filter,
    keys: KeyBlock<'_>,
    haversines: &mut Haversines,
) -> Masks {
    assert!(keys.len() <= BLOCK, "a block is {BLOCK} keys");
    whered_simd::dispatch!(
        path,
        [](filter: &Filter = filter, keys: KeyBlock<'_> = keys, haversines: &mut Haversines = haversines) -> Masks,
        |token| compute(token, filter, keys, haversines)
    )
}

/// The operations that differ between processors, other than the width of vectors.
trait Lanes: Copy {
    /// `a b + c`, rounded once where that is cheap.
    fn multiply_add(a: f32, b: f32, c: f32) -> f32;

    /// A bit for each of the numbers that is at most `limit`.
    fn at_most(self, numbers: &Haversines, limit: f32) -> u64;
}

impl Lanes for Scalar {
    #[inline(always)]
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }

    #[inline(always)]
    fn at_most(self, numbers: &Haversines, limit: f32) -> u64 {
        let bits = numbers.iter().enumerate();
        bits.fold(0, |mask, (lane, &number)| mask | u64::from(number <= limit) << lane)
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx2 {
    #[inline(always)]
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    #[inline(always)]
    #[allow(unsafe_code, reason = "loads and comparisons of AVX")]
    fn at_most(self, numbers: &Haversines, limit: f32) -> u64 {
        use std::arch::x86_64::*;
        let mut mask = 0;
        for (group, eight) in numbers.as_chunks::<8>().0.iter().enumerate() {
            // SAFETY: the token states AVX2; eight numbers are there to be read.
            let found = unsafe {
                let eight = _mm256_loadu_ps(eight.as_ptr());
                _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(eight, _mm256_set1_ps(limit)))
            };
            mask |= u64::from(found as u32) << (8 * group);
        }
        mask
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx512 {
    #[inline(always)]
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    #[inline(always)]
    #[allow(unsafe_code, reason = "loads and comparisons of AVX-512")]
    fn at_most(self, numbers: &Haversines, limit: f32) -> u64 {
        use std::arch::x86_64::*;
        let mut mask = 0;
        for (group, sixteen) in numbers.as_chunks::<16>().0.iter().enumerate() {
            // SAFETY: the token states AVX-512; sixteen numbers are there to be read.
            let found = unsafe {
                let sixteen = _mm512_loadu_ps(sixteen.as_ptr());
                _mm512_cmp_ps_mask::<_CMP_LE_OQ>(sixteen, _mm512_set1_ps(limit))
            };
            mask |= u64::from(found) << (16 * group);
        }
        mask
    }
}

/// Columns and rows of up to a block of keys, in groups.
struct Cells {
    x: [u32; BLOCK],
    y: [u32; BLOCK],
}

#[inline(always)]
fn compute<L: Lanes>(
    lanes: L,
    filter: &Filter,
    keys: KeyBlock<'_>,
    haversines: &mut Haversines,
) -> Masks {
    let count = keys.len();
    let groups = count.div_ceil(GROUP);
    let mut cells = Cells { x: [0; BLOCK], y: [0; BLOCK] };
    match keys {
        KeyBlock::Narrow { base, deltas } => cells.take_narrow(base, deltas),
        KeyBlock::Wide(keys) => cells.take_wide(keys),
    }
    let (x, y) = (cells.x.as_chunks::<GROUP>().0, cells.y.as_chunks::<GROUP>().0);
    let (all_h, _) = haversines.as_chunks_mut::<GROUP>();
    for ((x, y), h) in x.iter().zip(y).zip(all_h).take(groups) {
        match &filter.form {
            Form::Short(short) => short_form::<L>(short, &filter.bounds, x, y, h),
            Form::Long(long) => long_form(long, &filter.bounds, x, y, h),
        }
    }
    let counted = u64::MAX.checked_shr(64 - count as u32).unwrap_or(0);
    let inside = lanes.at_most(haversines, filter.inside);
    let near = lanes.at_most(haversines, filter.outside);
    Masks { inside: inside & counted, doubtful: near & !inside & counted }
}

impl Cells {
    #[inline(always)]
    fn take_wide(&mut self, keys: &[u64]) {
        for ((x, y), &key) in self.x.iter_mut().zip(&mut self.y).zip(keys) {
            (*x, *y) = deinterleave(key);
        }
    }

    /// The low half of a key gives 16 bits of each coordinate; the upper half is that of the base,
    /// or one more where adding the lower halves carries.
    #[inline(always)]
    fn take_narrow(&mut self, base: u64, deltas: &[u32]) {
        let low = base as u32;
        let (x0, y0) = deinterleave(base >> 32 << 32);
        let (x1, y1) = deinterleave((base >> 32).wrapping_add(1) << 32);
        for ((x, y), &delta) in self.x.iter_mut().zip(&mut self.y).zip(deltas) {
            let key = low.wrapping_add(delta);
            let carries = key < low;
            *x = gather_16(key >> 1) | if carries { x1 } else { x0 };
            *y = gather_16(key) | if carries { y1 } else { y0 };
        }
    }
}

/// The even bits of a number, side by side.
#[inline(always)]
fn gather_16(bits: u32) -> u32 {
    let mut bits = bits & 0x5555_5555;
    bits = (bits | bits >> 1) & 0x3333_3333;
    bits = (bits | bits >> 2) & 0x0f0f_0f0f;
    bits = (bits | bits >> 4) & 0x00ff_00ff;
    (bits | bits >> 8) & 0x0000_ffff
}

/// From the centre's cell to another, in cells: columns the shorter way around.
#[inline(always)]
fn differences(bounds: &Bounds, x: u32, y: u32) -> (i32, i32) {
    const HALF: u32 = 1 << (STEPS - 1);
    let column = x.wrapping_sub(bounds.x).wrapping_add(HALF) & TURN_MASK;
    (column as i32 - HALF as i32, y.wrapping_sub(bounds.y) as i32)
}

/// `h` after what the bounds say.
#[inline(always)]
fn bounded(bounds: &Bounds, x: u32, y: u32, h: f32) -> f32 {
    let is_within = (x.wrapping_sub(bounds.west) & TURN_MASK <= bounds.width)
        & (y.wrapping_sub(bounds.south) <= bounds.height);
    let is_inner = y.wrapping_sub(bounds.inner_south) <= bounds.inner_height;
    let least = if is_inner { 0.0 } else { bounds.doubtful };
    let h = if h < least { least } else { h };
    if is_within { h } else { f32::INFINITY }
}

#[inline(always)]
fn short_form<L: Lanes>(
    short: &Short,
    bounds: &Bounds,
    x: &[u32; GROUP],
    y: &[u32; GROUP],
    h: &mut [f32; GROUP],
) {
    let Short { across, along, cosines, .. } = short;
    for lane in 0..GROUP {
        let (dx, dy) = differences(bounds, x[lane], y[lane]);
        let (dx, dy) = (dx as f32 + short.dx, dy as f32 + short.dy);
        let (xx, yy) = (dx * dx, dy * dy);
        let a = xx * L::multiply_add(xx, across[1], across[0]);
        let b = yy * L::multiply_add(yy, along[1], along[0]);
        let mut p = L::multiply_add(dy, cosines[4], cosines[3]);
        p = L::multiply_add(dy, p, cosines[2]);
        p = L::multiply_add(dy, p, cosines[1]);
        p = L::multiply_add(dy, p, cosines[0]);
        h[lane] = bounded(bounds, x[lane], y[lane], L::multiply_add(p, a, b));
    }
}

#[inline(always)]
fn long_form(
    long: &Long,
    bounds: &Bounds,
    x: &[u32; GROUP],
    y: &[u32; GROUP],
    h: &mut [f32; GROUP],
) {
    for lane in 0..GROUP {
        let (dx, dy) = differences(bounds, x[lane], y[lane]);
        let dx = (f64::from(dx) + long.dx) * COLUMN_RADIANS;
        let dy = (f64::from(dy) + long.dy) * ROW_RADIANS;
        let (a, b) = (hav_series::<13>(dx * dx), hav_series::<13>(dy * dy));
        // The cosine of a sum; sin d = 2 sin(d/2) cos(d/2).
        let sin = (2.0 * (b * (1.0 - b)).max(0.0).sqrt()).copysign(dy);
        let cos = long.cos * (1.0 - 2.0 * b) - long.sin * sin;
        let value = if long.is_box { cos * cos * a } else { b + long.cos * cos * a };
        h[lane] = bounded(bounds, x[lane], y[lane], value as f32);
    }
}
