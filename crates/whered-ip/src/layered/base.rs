//! The layer of a set that rests: its members in order, and compiled.
//!
//! For: what was loaded or folded. Not for: changes (`changes`), which layer counts (the module).
//!
//! ```text
//! place       0          1          2 ...                     IPv4, then IPv6
//! ends        (first, last) of each, in the order of Block
//! outer       the innermost prefix before it that holds its first address; - is none
//! attributes  number of value and expiry; no table where no member has any
//! ranges      those that are no prefix, as a search tree by first with the highest last below
//! compiled    address -> place + 1 of the smallest member, live or not
//! ```
//!
//! A lookup asks `compiled` and is done unless the member that it names is hidden: expired, or
//! changed since. Only then are all members around the address walked: the prefixes by `outer`, the
//! ranges by their tree.
//!
//! Concurrency: never changes. Cost: a lookup as `CompiledSet`, and one line more for the member;
//! a hidden member costs a binary search. 12 bytes an IPv4 member beside the compiled form, 36 an
//! IPv6 member, 4 more where some carry values or expiries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::members::{Attribute, MemberList};
use crate::simd::prefetch;
use crate::{Block, CompiledSet, Prefix, PrefixMatch};

/// There is no outer prefix.
const NONE: u32 = u32::MAX;

/// A number that addresses are.
trait Bits: Copy + Ord {
    fn is_prefix(first: Self, last: Self) -> bool;
}

impl Bits for u32 {
    fn is_prefix(first: u32, last: u32) -> bool {
        let hosts = first ^ last;
        hosts & hosts.wrapping_add(1) == 0 && first & hosts == 0
    }
}

impl Bits for u128 {
    fn is_prefix(first: u128, last: u128) -> bool {
        let hosts = first ^ last;
        hosts & hosts.wrapping_add(1) == 0 && first & hosts == 0
    }
}

/// Members in order, and compiled.
#[derive(Debug)]
pub(super) struct Base {
    compiled: CompiledSet,
    ipv4: Family<u32>,
    ipv6: Family<u128>,
    attributes: Vec<Attribute>,
    /// When members expire, the earliest first, and their places.
    expiries: Vec<(u64, u32)>,
    value_bytes: usize,
}

#[derive(Debug)]
struct Family<N> {
    ends: Vec<(N, N)>,
    outer: Vec<u32>,
    attributes: Vec<u32>,
    ranges: Ranges<N>,
}

/// The places of ranges that are no prefixes, by first address; the middle of each part is its
/// root, and `highest` the highest last address in that part.
#[derive(Debug)]
struct Ranges<N> {
    places: Vec<u32>,
    highest: Vec<N>,
}

impl Base {
    /// The members of a sorted list.
    pub(super) fn build(list: &MemberList) -> Base {
        debug_assert!(list.is_sorted());
        let MemberList { ipv4, ipv6, attributes, .. } = list;
        let has_attributes = attributes.len() > 1;
        let numbers4 = ipv4.iter().map(|(_, number)| *number).filter(|_| has_attributes).collect();
        let numbers6 =
            ipv6.iter().map(|(_, _, number)| *number).filter(|_| has_attributes).collect();
        let ends4 = ipv4.iter().map(|(key, _)| ((key >> 32) as u32, !(*key as u32))).collect();
        let ends6 = ipv6.iter().map(|(first, last, _)| (*first, !last)).collect();
        let ipv4 = Family::new(ends4, numbers4);
        let ipv6 = Family::new(ends6, numbers6);
        let blocks4 = ipv4.ends.iter().map(|(first, last)| Block::v4(*first, *last));
        let blocks6 = ipv6.ends.iter().map(|(first, last)| Block::v6(*first, *last));
        let compiled = CompiledSet::build(blocks4.chain(blocks6).zip(1..));
        let numbers = ipv4.attributes.iter().chain(&ipv6.attributes).zip(0..);
        let expiry = |number: u32| attributes[number as usize].expires_at_millis;
        let mut expiries: Vec<(u64, u32)> =
            numbers.filter_map(|(number, place)| Some((expiry(*number)?, place))).collect();
        expiries.sort_unstable();
        let value_bytes = attributes.iter().filter_map(|a| a.value.as_ref()).map(|v| v.len()).sum();
        let attributes = attributes.clone();
        Base { compiled, ipv4, ipv6, attributes, expiries, value_bytes }
    }

    pub(super) fn compiled(&self) -> &CompiledSet {
        &self.compiled
    }

    pub(super) fn len(&self) -> usize {
        self.ipv4.ends.len() + self.ipv6.ends.len()
    }

    /// How many of each: IPv4, IPv6, ranges that are no prefixes.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let ranges = self.ipv4.ranges.places.len() + self.ipv6.ranges.places.len();
        (self.ipv4.ends.len(), self.ipv6.ends.len(), ranges)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let attributes = self.attributes.capacity() * size_of::<Attribute>();
        let expiries = self.expiries.capacity() * size_of::<(u64, u32)>();
        let families = self.ipv4.memory_bytes() + self.ipv6.memory_bytes();
        size_of::<Base>()
            + self.compiled.memory_bytes()
            + families
            + attributes
            + self.value_bytes
            + expiries
    }

    /// The members whose time is over, by place.
    pub(super) fn expired(&self, now_millis: u64) -> impl Iterator<Item = usize> + '_ {
        let ended = self.expiries.partition_point(|(at, _)| *at <= now_millis);
        self.expiries[..ended].iter().map(|(_, place)| *place as usize)
    }

    /// The earliest and the latest expiry.
    pub(super) fn expiry_bounds(&self) -> Option<(u64, u64)> {
        Some((self.expiries.first()?.0, self.expiries.last()?.0))
    }

    /// How many members are expired.
    pub(super) fn expired_len(&self, now_millis: u64) -> usize {
        self.expiries.partition_point(|(at, _)| *at <= now_millis)
    }

    pub(super) fn expiring_len(&self) -> usize {
        self.expiries.len()
    }

    #[inline]
    pub(super) fn block(&self, place: usize) -> Block {
        match self.ipv4.ends.get(place) {
            Some((first, last)) => Block::v4(*first, *last),
            None => {
                let (first, last) = self.ipv6.ends[place - self.ipv4.ends.len()];
                Block::v6(first, last)
            }
        }
    }

    #[inline]
    pub(super) fn attribute(&self, place: usize) -> &Attribute {
        if self.attributes.len() == 1 {
            return &self.attributes[0];
        }
        let number = match self.ipv4.attributes.get(place) {
            Some(number) => *number,
            None => self.ipv6.attributes[place - self.ipv4.ends.len()],
        };
        &self.attributes[number as usize]
    }

    #[inline]
    pub(super) fn member(&self, place: usize) -> PrefixMatch<'_> {
        let attribute = self.attribute(place);
        PrefixMatch {
            block: self.block(place),
            value: attribute.value.as_deref(),
            expires_at_millis: attribute.expires_at_millis,
        }
    }

    /// The place of the first member that comes after this block.
    pub(super) fn place_after(&self, block: &Block) -> usize {
        match (block.first(), block.last()) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                self.ipv4.place_after(first.to_bits(), last.to_bits())
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                self.ipv4.ends.len() + self.ipv6.place_after(first.to_bits(), last.to_bits())
            }
            // A block has one family.
            _ => self.len(),
        }
    }

    /// The member that is this very block, live or not.
    pub(super) fn get(&self, block: &Block) -> Option<usize> {
        let place = self.place_after(block).checked_sub(1)?;
        (self.block(place) == *block).then_some(place)
    }

    /// The place that the compiled form names for each IPv4 address, plus one; 0 for none.
    pub(super) fn places4(&self, addresses: &[u32], found: &mut [u32]) {
        self.compiled.lookup4_batch(addresses, found);
    }

    /// Prefetches the ends of an IPv4 member, given by its index plus one.
    #[inline]
    pub(super) fn prefetch4(&self, place: u32) {
        prefetch(&self.ipv4.ends, (place as usize).wrapping_sub(1));
    }

    /// The smallest member that holds the address, live or not.
    #[inline]
    pub(super) fn smallest(&self, address: IpAddr) -> Option<usize> {
        self.compiled.lookup(address).map(|answer| answer as usize - 1)
    }

    /// Whether a member, live or not, begins or ends within the prefix.
    pub(super) fn has_inside(&self, prefix: Prefix) -> bool {
        let hosts = u128::MAX.checked_shr(u32::from(prefix.length_bits())).unwrap_or(0);
        let first = leading_bits(prefix.address());
        let last = first | hosts;
        match prefix.address() {
            IpAddr::V4(_) => self.ipv4.has_inside((first >> 96) as u32, (last >> 96) as u32),
            IpAddr::V6(_) => self.ipv6.has_inside(first, last),
        }
    }

    /// All members that hold the address, live or not, in no order.
    pub(super) fn holding(&self, address: IpAddr, mut each: impl FnMut(usize)) {
        match address {
            IpAddr::V4(v4) => self.ipv4.holding(v4.to_bits(), each),
            IpAddr::V6(v6) => {
                let before = self.ipv4.ends.len();
                self.ipv6.holding(v6.to_bits(), |place| each(before + place));
            }
        }
    }
}

impl<N: Bits> Family<N> {
    fn new(ends: Vec<(N, N)>, attributes: Vec<u32>) -> Family<N> {
        let mut outer = Vec::with_capacity(ends.len());
        let mut open: Vec<u32> = Vec::new();
        let mut ranges = Vec::new();
        let mut is_nested = false;
        for (place, (first, last)) in (0_u32..).zip(&ends) {
            while open.last().is_some_and(|inner| ends[*inner as usize].1 < *first) {
                open.pop();
            }
            is_nested |= !open.is_empty();
            outer.push(open.last().copied().unwrap_or(NONE));
            if N::is_prefix(*first, *last) {
                open.push(place);
            } else {
                ranges.push(place);
            }
        }
        if !is_nested {
            outer = Vec::new();
        }
        let ranges = Ranges::new(ranges, &ends);
        Family { ends, outer, attributes, ranges }
    }

    fn memory_bytes(&self) -> usize {
        let numbers = self.outer.capacity() + self.attributes.capacity();
        let ranges = self.ranges.places.capacity() * size_of::<u32>()
            + self.ranges.highest.capacity() * size_of::<N>();
        self.ends.capacity() * size_of::<(N, N)>() + numbers * size_of::<u32>() + ranges
    }

    fn place_after(&self, first: N, last: N) -> usize {
        // The larger of blocks that begin together come first.
        self.ends.partition_point(|end| end.0 < first || end.0 == first && end.1 >= last)
    }

    /// Whether a member begins or ends between the ends of a prefix.
    fn has_inside(&self, first: N, last: N) -> bool {
        let from = self.ends.partition_point(|end| end.0 < first);
        let begins = self.ends[from..].iter().take_while(|end| end.0 <= last);
        // Those that begin with the prefix and reach its end hold all of it.
        if begins.into_iter().any(|end| end.0 != first || end.1 < last) {
            return true;
        }
        // Of those that begin before it, only ranges can end within.
        let mut ends = false;
        self.ranges.holding(first, &self.ends, &mut |place| ends |= self.ends[place].1 < last);
        ends
    }

    fn holding(&self, address: N, mut each: impl FnMut(usize)) {
        let before = self.ends.partition_point(|(first, _)| *first <= address);
        let mut at = before.checked_sub(1);
        while let Some(place) = at {
            let (first, last) = self.ends[place];
            if address <= last && N::is_prefix(first, last) {
                each(place);
            }
            let outer = self.outer.get(place).copied().unwrap_or(NONE);
            at = (outer != NONE).then_some(outer as usize);
        }
        self.ranges.holding(address, &self.ends, &mut each);
    }
}

impl<N: Bits> Ranges<N> {
    fn new(places: Vec<u32>, ends: &[(N, N)]) -> Ranges<N> {
        let mut highest: Vec<N> = places.iter().map(|place| ends[*place as usize].1).collect();
        if !highest.is_empty() {
            raise(&mut highest);
        }
        Ranges { places, highest }
    }

    fn holding(&self, address: N, ends: &[(N, N)], each: &mut impl FnMut(usize)) {
        visit(&self.places, &self.highest, ends, address, each);
    }
}

/// Makes of the last addresses of ranges the highest ones of their parts; gives that of all.
fn raise<N: Bits>(part: &mut [N]) -> N {
    let middle = part.len() / 2;
    let mut high = part[middle];
    let (left, right) = part.split_at_mut(middle);
    if !left.is_empty() {
        high = high.max(raise(left));
    }
    let (root, right) = right.split_at_mut(1);
    if !right.is_empty() {
        high = high.max(raise(right));
    }
    root[0] = high;
    high
}

fn visit<N: Bits>(
    places: &[u32],
    highest: &[N],
    ends: &[(N, N)],
    address: N,
    each: &mut impl FnMut(usize),
) {
    let middle = places.len() / 2;
    if highest.get(middle).is_none_or(|highest| *highest < address) {
        return;
    }
    visit(&places[..middle], &highest[..middle], ends, address, each);
    let place = places[middle] as usize;
    let (first, last) = ends[place];
    if first <= address {
        if address <= last {
            each(place);
        }
        visit(&places[middle + 1..], &highest[middle + 1..], ends, address, each);
    }
}

/// An address of either family as its leading bits.
pub(super) fn leading_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(Ipv4Addr::to_bits(v4)) << 96,
        IpAddr::V6(v6) => Ipv6Addr::to_bits(v6),
    }
}
