//! Addresses as disjoint ranges in order, for unions, intersections, differences and complements.
//!
//! For: union, intersection, difference, complement and summaries of sets, where the entries that
//! addresses came from no longer matter. Not for: entries, values, lookups of many addresses.
//!
//! ```text
//! blocks        [1 .. 4] [3 ....... 9] [10 .. 12]      [20 .. 29]
//! ranges        [1 ........................ 12]        [20 .. 29]     neighbours are one
//! ```
//!
//! Invariants: ranges rise and never touch, so that equal sets are equal values. Families are
//! apart: the complement of IPv4 addresses is that among all IPv4 addresses.
//!
//! Concurrency: plain data. Cost: linear in the ranges of both sides; making them sorts.

use std::net::IpAddr;

use super::Block;
use super::sweep::Number;
use crate::Prefix;

/// A set of addresses, whatever entries it came from.
///
/// # Examples
///
/// ```
/// use whered_ip::{AddressRanges, Block};
///
/// let blocks = ["10.0.0.0/24", "10.0.1.0/24"].map(|text| text.parse::<Block>());
/// let nets: AddressRanges = blocks.into_iter().collect::<Result<_, _>>()?;
/// let summary: Vec<String> = nets.prefixes().map(|prefix| prefix.to_string()).collect();
/// assert_eq!(summary, ["10.0.0.0/23"]);
/// assert!(nets.intersection(&nets.complement()).is_empty());
/// # Ok::<(), whered_ip::BlockError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AddressRanges {
    ipv4: Vec<(u32, u32)>,
    ipv6: Vec<(u128, u128)>,
}

impl AddressRanges {
    /// Whether no address is inside.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ipv4.is_empty() && self.ipv6.is_empty()
    }

    /// How many ranges there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ipv4.len() + self.ipv6.len()
    }

    /// Whether the address is inside.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => holds(&self.ipv4, v4.to_bits()),
            IpAddr::V6(v6) => holds(&self.ipv6, v6.to_bits()),
        }
    }

    /// The addresses of either.
    #[must_use]
    pub fn union(&self, other: &AddressRanges) -> AddressRanges {
        self.combined(other, |ours, theirs| ours || theirs)
    }

    /// The addresses of both.
    #[must_use]
    pub fn intersection(&self, other: &AddressRanges) -> AddressRanges {
        self.combined(other, |ours, theirs| ours && theirs)
    }

    /// The addresses of this one that the other lacks.
    #[must_use]
    pub fn difference(&self, other: &AddressRanges) -> AddressRanges {
        self.combined(other, |ours, theirs| ours && !theirs)
    }

    /// All addresses of both families that this one lacks.
    #[must_use]
    pub fn complement(&self) -> AddressRanges {
        self.combined(&AddressRanges::default(), |ours, _| !ours)
    }

    /// The ranges in order.
    pub fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        let ipv4 = self.ipv4.iter().map(|(first, last)| Block::v4(*first, *last));
        ipv4.chain(self.ipv6.iter().map(|(first, last)| Block::v6(*first, *last)))
    }

    /// The summary: the fewest prefixes that hold these addresses and no others, in order.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + '_ {
        self.blocks().flat_map(|block| block.prefixes())
    }

    fn combined(&self, other: &AddressRanges, keep: impl Fn(bool, bool) -> bool) -> AddressRanges {
        AddressRanges {
            ipv4: combined(&self.ipv4, &other.ipv4, u32::MAX, &keep),
            ipv6: combined(&self.ipv6, &other.ipv6, u128::MAX, &keep),
        }
    }
}

impl<B: Into<Block>> FromIterator<B> for AddressRanges {
    /// The addresses of all blocks, which may overlap and come in any order.
    fn from_iter<I: IntoIterator<Item = B>>(blocks: I) -> AddressRanges {
        let mut ranges = AddressRanges::default();
        for block in blocks {
            let block: Block = block.into();
            match (block.first(), block.last()) {
                (IpAddr::V4(first), IpAddr::V4(last)) => {
                    ranges.ipv4.push((first.to_bits(), last.to_bits()));
                }
                (IpAddr::V6(first), IpAddr::V6(last)) => {
                    ranges.ipv6.push((first.to_bits(), last.to_bits()));
                }
                // A block has one family.
                _ => {}
            }
        }
        merge(&mut ranges.ipv4);
        merge(&mut ranges.ipv6);
        ranges
    }
}

fn holds<N: Number>(ranges: &[(N, N)], number: N) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= number);
    after
        .checked_sub(1)
        .and_then(|place| ranges.get(place))
        .is_some_and(|(_, last)| number <= *last)
}

/// Sorts ranges and makes one of those that overlap or touch.
fn merge<N: Number>(ranges: &mut Vec<(N, N)>) {
    if !ranges.is_sorted() {
        ranges.sort_unstable();
    }
    ranges.dedup_by(|(first, last), (_, before)| {
        let touches = before.next().is_none_or(|next| *first <= next);
        if touches {
            *before = (*before).max(*last);
        }
        touches
    });
}

/// Walks both from zero to the last address and keeps what is wanted.
fn combined<N: Number>(
    ours: &[(N, N)],
    theirs: &[(N, N)],
    highest: N,
    keep: impl Fn(bool, bool) -> bool,
) -> Vec<(N, N)> {
    let mut found: Vec<(N, N)> = Vec::new();
    let (mut ours, mut theirs) = (ours.iter().peekable(), theirs.iter().peekable());
    let mut at = Some(N::ZERO);
    while let Some(start) = at {
        // Inside of each or not, and up to where that stays so.
        let [(in_ours, our_end), (in_theirs, their_end)] = [&mut ours, &mut theirs].map(|ranges| {
            while ranges.next_if(|(_, last)| *last < start).is_some() {}
            match ranges.peek() {
                Some((first, last)) if *first <= start => (true, *last),
                Some((first, _)) => (false, first.before()),
                None => (false, highest),
            }
        });
        let end = our_end.min(their_end);
        if keep(in_ours, in_theirs) {
            match found.last_mut() {
                Some((_, last)) if last.next() == Some(start) => *last = end,
                _ => found.push((start, end)),
            }
        }
        at = end.next();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Addresses around both ends of IPv4, in which everything happens.
    const WINDOW: u32 = 40;

    fn address(place: u32) -> u32 {
        if place < WINDOW { place } else { u32::MAX - (2 * WINDOW - 1 - place) }
    }

    fn ranges() -> impl Strategy<Value = AddressRanges> {
        let block = (0..2 * WINDOW, 0..12_u32).prop_map(|(first, more)| {
            let (first, last) = (address(first), address((first + more).min(2 * WINDOW - 1)));
            Block::v4(first, last)
        });
        prop::collection::vec(block, 0..8).prop_map(|blocks| blocks.into_iter().collect())
    }

    proptest! {
        #[test]
        fn reckoning_with_ranges_is_reckoning_with_each_address(a in ranges(), b in ranges()) {
            let six: Block = "::/0".parse().unwrap();
            let all: AddressRanges = ["0.0.0.0/0", "::/0"].map(|t| t.parse::<Block>().unwrap()).into_iter().collect();
            prop_assert_eq!(&a.union(&a.complement()), &all);
            prop_assert!(a.complement().blocks().any(|block| block == six));
            prop_assert_eq!(&a.complement().complement(), &a);
            let summary: AddressRanges = a.prefixes().collect();
            prop_assert_eq!(&summary, &a);
            let both = [a.union(&b), a.intersection(&b), a.difference(&b)];
            for place in 0..2 * WINDOW {
                let at = IpAddr::V4(address(place).into());
                let (in_a, in_b) = (a.contains(at), b.contains(at));
                prop_assert_eq!(
                    both.each_ref().map(|set| set.contains(at)),
                    [in_a || in_b, in_a && in_b, in_a && !in_b]
                );
            }
            for set in both {
                let blocks: Vec<Block> = set.blocks().collect();
                for pair in blocks.windows(2) {
                    let (IpAddr::V4(last), IpAddr::V4(first)) = (pair[0].last(), pair[1].first()) else { continue };
                    prop_assert!(last.to_bits() + 1 < first.to_bits(), "neighbours are one");
                }
            }
        }
    }
}
