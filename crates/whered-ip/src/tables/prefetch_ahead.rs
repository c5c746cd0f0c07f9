//! Prefetches the addresses that a later batch looks up.
//!
//! For: batches with random reads, behind which the processor does not see that the addresses
//! themselves are read in order. Not for: what an address leads to.
//!
//! The prefetch is for the batch after the next one, since the next one is too near for lines that
//! come from memory. The processor waits for few lines at a time. A batch that waits for lines of
//! its own therefore prefetches when most of them have arrived (`prefetch_ahead`), any other batch
//! before it begins.

use super::LANES;
use crate::simd::prefetch;

const CACHE_LINE_BYTES: usize = 64;

/// Prefetches the line that begins with the address of this lane in the batch after the next one.
/// Lanes that do not begin a line prefetch nothing.
#[inline(always)]
pub(crate) fn prefetch_ahead<A>(addresses: &[A], lane: usize) {
    if lane.is_multiple_of(CACHE_LINE_BYTES / size_of::<A>()) {
        prefetch(addresses, 2 * LANES + lane);
    }
}

/// Prefetches all addresses of the batch after the next one, unless this batch is the last one.
#[inline(always)]
pub(crate) fn prefetch_all_ahead<A>(addresses: &[A]) {
    if addresses.len() == LANES {
        for lane in 0..LANES {
            prefetch_ahead(addresses, lane);
        }
    }
}
