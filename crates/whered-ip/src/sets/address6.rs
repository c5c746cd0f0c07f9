//! IPv6 addresses as callers have them: numbers, or octets as they come from the network.
//!
//! For: questions about many addresses, which need not be turned around first. Not for parsing.

use std::net::Ipv6Addr;

use crate::tables::Each;

/// An IPv6 address: a number, 16 octets in the network's order, or the library's own type. No other
/// types have it.
///
/// # Examples
///
/// ```
/// use whered_ip::{Block, CompiledSet};
///
/// let block: Block = "2001:db8::/32".parse()?;
/// let set = CompiledSet::members([block]);
/// let address: std::net::Ipv6Addr = "2001:db8::1".parse()?;
/// let mut found = [0];
/// set.lookup6_batch(&[address.octets()], &mut found);
/// assert_eq!(found, [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Address6: Copy + private::Sealed {
    /// The first 64 bits.
    fn upper(self) -> u64;
    /// All 128 bits.
    fn number(self) -> u128;
}

mod private {
    pub trait Sealed {}
    impl Sealed for u128 {}
    impl Sealed for [u8; 16] {}
    impl Sealed for std::net::Ipv6Addr {}
}

impl Address6 for u128 {
    #[inline(always)]
    fn upper(self) -> u64 {
        (self >> 64) as u64
    }

    #[inline(always)]
    fn number(self) -> u128 {
        self
    }
}

impl Address6 for [u8; 16] {
    #[inline(always)]
    fn upper(self) -> u64 {
        u64::from_be_bytes(*self.first_chunk().expect("16 octets have a first eight"))
    }

    #[inline(always)]
    fn number(self) -> u128 {
        u128::from_be_bytes(self)
    }
}

impl Address6 for Ipv6Addr {
    #[inline(always)]
    fn upper(self) -> u64 {
        self.octets().upper()
    }

    #[inline(always)]
    fn number(self) -> u128 {
        self.to_bits()
    }
}

/// The first 64 bits of as many addresses as a batch has; 0 behind them.
#[inline(always)]
pub(super) fn uppers(addresses: &[impl Address6]) -> Each<u64> {
    let mut uppers = Each::new();
    for (upper, address) in uppers.iter_mut().zip(addresses) {
        *upper = address.upper();
    }
    uppers
}
