//! A member of a set, as lookups and walks return it.
//!
//! Not for: storing members; see [`super::LayeredSet`].

use std::cmp::Reverse;
use std::net::IpAddr;

use crate::Block;

/// A live member of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrefixMatch<'a> {
    /// The member, as it was inserted.
    pub block: Block,
    /// Its value, if it has one.
    pub value: Option<&'a [u8]>,
    /// The time at which it expires, if it does.
    pub expires_at_millis: Option<u64>,
}

impl PrefixMatch<'_> {
    /// Orders matches: a smaller block ranks higher, among equally small ones the one that begins
    /// later.
    pub(crate) fn rank(&self) -> (Reverse<u128>, IpAddr) {
        (Reverse(self.block.size_less_one()), self.block.first())
    }
}
