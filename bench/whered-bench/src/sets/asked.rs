//! Our compiled sets being asked, as every comparison with rivals does.
//!
//! For: engines of `bench/versus` and of the rules' benches. Not for: timing. Batches are of 64
//! addresses in arrival order; the answers come back as one weighed sum.

use whered_ip::CompiledSet;

use crate::measure::{weighed, weighed_group};

/// Addresses of a batch.
const BATCH: usize = 64;

/// IPv4 addresses in batches.
#[must_use]
pub fn batches4(set: &CompiledSet, addresses: &[u32]) -> u64 {
    batches(addresses, |addresses, found| set.lookup4_batch(addresses, found))
}

/// IPv4 addresses one by one.
#[must_use]
pub fn singly4(set: &CompiledSet, addresses: &[u32]) -> u64 {
    let each = addresses.iter().enumerate();
    each.fold(0, |sum, (place, address)| weighed(sum, place, set.lookup4(*address)))
}

/// IPv6 addresses as octets, in batches.
#[must_use]
pub fn batches6(set: &CompiledSet, addresses: &[[u8; 16]]) -> u64 {
    batches(addresses, |addresses, found| set.lookup6_batch(addresses, found))
}

/// IPv6 addresses as octets, one by one.
#[must_use]
pub fn singly6(set: &CompiledSet, addresses: &[[u8; 16]]) -> u64 {
    let each = addresses.iter().enumerate();
    each.fold(0, |sum, (place, octets)| {
        weighed(sum, place, set.lookup6(u128::from_be_bytes(*octets)))
    })
}

#[inline(always)]
fn batches<A>(addresses: &[A], ask: impl Fn(&[A], &mut [u32])) -> u64 {
    let (mut found, mut sum) = ([0; BATCH], 0);
    for (group, addresses) in addresses.chunks(BATCH).enumerate() {
        let found = &mut found[..addresses.len()];
        ask(addresses, found);
        sum = weighed_group(sum, group * BATCH, found);
    }
    sum
}
