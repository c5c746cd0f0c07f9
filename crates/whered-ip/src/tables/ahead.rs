//! Asking the memory for addresses that a later batch reads.
//!
//! For: batches whose reads jump about, which keeps the processor from seeing that the addresses
//! themselves lie one behind the other. Not for: what an address leads to.
//!
//! It is the batch after the next one that is asked for: the next one is too near for lines that come
//! from memory. The processor waits for few lines at a time, so that a batch which waits for its own
//! lines asks when most of them are there (`ask_ahead`), and any other one before it begins.

use super::LANES;
use crate::simd::prefetch;

const CACHE_LINE_BYTES: usize = 64;

/// Asks for the line that begins with the address this lane has in the batch after the next one; does
/// nothing for other lanes.
#[inline(always)]
pub(crate) fn ask_ahead<A>(addresses: &[A], lane: usize) {
    if lane.is_multiple_of(CACHE_LINE_BYTES / size_of::<A>()) {
        prefetch(addresses, 2 * LANES + lane);
    }
}

/// Asks for all of them, unless this batch is the last one.
#[inline(always)]
pub(crate) fn ask_ahead_all<A>(addresses: &[A]) {
    if addresses.len() == LANES {
        for lane in 0..LANES {
            ask_ahead(addresses, lane);
        }
    }
}
