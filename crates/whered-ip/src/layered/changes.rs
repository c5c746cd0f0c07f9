//! The layer of a set that is in motion: which members came, went or changed since the other layer
//! was made.
//!
//! For: a value that is cheap to copy and to change, so that each change gives readers a new one.
//! Not for: many members for long; the owner folds them into the layer below.
//!
//! ```text
//! ipv4, ipv6   trees by leading bits, paths without branches left out, nodes shared by copies
//!
//!   10.0.0.0/8 came ─┬─ 10.0.0.4/30 piece of 10.0.0.3-10.0.0.9 ...
//!                    └─ 10.128.0.0/9 went
//!
//! filter       short: a bit for each upper 16 bits (IPv6: a hash of the upper 32) of addresses that a
//!              change concerns; long, above large sets: a bit for a hash of the upper 24 (48), for
//!              changes within one upper 16 (32); shared by all copies, bits are only ever set
//! ```
//!
//! A change copies the nodes on its way that others still look at. Ranges lie at each of the
//! prefixes that they consist of, and count once, at the first.
//!
//! Invariants: a node lies below another exactly when its prefix lies within; a node without a
//! change has two below. A set bit of the filter may be wrong, a clear one never is.
//!
//! Concurrency: readers of a copy share it; a writer owns its copy. Cost: a lookup
//! one bit, and where it is set a node a level, about log2 of the changes; a change as many copied
//! nodes of 128 bytes.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::base::leading_bits;
use super::members::Attribute;
use crate::{Block, Prefix};

/// A change of a member: its new attribute, or `None` if it was removed.
pub(super) type Change = Option<Attribute>;

const SHORT_WORDS: usize = (1 << 16) / 64;
/// This many changes set one bit in eight; a large set is folded before it has more.
const LONG_BITS: u32 = 19;
/// Sets below this size are folded long before the short bits are all set.
const LONG_MEMBERS_MIN: usize = 1 << 14;

#[derive(Clone, Default, Debug)]
pub(super) struct Changes {
    ipv4: Option<Arc<Node>>,
    ipv6: Option<Arc<Node>>,
    filter: Option<Arc<Filter>>,
    len: usize,
    /// Whether some member that came has an expiry.
    has_expiries: bool,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Node {
    /// The prefix, its leading bits at the top and the others zero.
    bits: u128,
    length: u8,
    /// The change of the member that is this prefix.
    own: Option<Change>,
    /// Ranges that have this prefix as a piece.
    ranges: Vec<RangeChange>,
    below: [Option<Arc<Node>>; 2],
}

#[derive(Clone, Debug)]
struct RangeChange {
    block: Block,
    change: Change,
    is_first_piece: bool,
}

#[derive(Debug)]
struct Filter {
    short: Box<[AtomicU64]>,
    /// Empty, or 2^19 bits.
    long: Box<[AtomicU64]>,
    /// A prefix of IPv6 shorter than 32 bits has changed.
    is_wide6: AtomicBool,
}

impl Changes {
    /// How many blocks are concerned.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn has_expiries(&self) -> bool {
        self.has_expiries
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let words = |filter: &Arc<Filter>| filter.short.len() + filter.long.len();
        self.bytes + self.filter.as_ref().map_or(0, words) * 8
    }

    /// Whether a change may concern the address.
    #[inline]
    pub(super) fn may_touch(&self, address: IpAddr) -> bool {
        let Some(filter) = &self.filter else { return false };
        match address {
            IpAddr::V4(v4) => filter.has4(v4.to_bits()),
            IpAddr::V6(v6) => filter.has6(v6.to_bits()),
        }
    }

    /// Whether a change may concern the IPv4 address.
    #[inline]
    pub(super) fn may_touch4(&self, address: u32) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.has4(address))
    }

    /// Notes what became of a block; what was noted before is forgotten. `base_len` is the size of
    /// the layer below.
    pub(super) fn put(&mut self, block: Block, change: Change, base_len: usize) {
        let is_long = base_len >= LONG_MEMBERS_MIN;
        let filter = self.filter.get_or_insert_with(|| Arc::new(Filter::new(is_long)));
        filter.set(&block);
        let root = if block.is_ipv4() { &mut self.ipv4 } else { &mut self.ipv6 };
        self.has_expiries |= change.as_ref().is_some_and(|a| a.expires_at_millis.is_some());
        let value_bytes =
            change.as_ref().and_then(|a| a.value.as_ref()).map_or(0, |value| value.len());
        let (mut is_new, mut pieces) = (false, 0);
        if let Some(prefix) = block.as_prefix() {
            let node = node_at(root, &prefix);
            is_new = node.own.is_none();
            node.own = Some(change);
        } else {
            for (place, piece) in block.prefixes().enumerate() {
                let node = node_at(root, &piece);
                let change = change.clone();
                match node.ranges.iter_mut().find(|range| range.block == block) {
                    Some(range) => range.change = change,
                    None => {
                        let is_first_piece = place == 0;
                        is_new = true;
                        node.ranges.push(RangeChange { block, change, is_first_piece });
                    }
                }
                pieces += 1;
            }
        }
        if is_new {
            self.len += 1;
            // A prefix makes two nodes at most, and 1.4 with random ones.
            self.bytes += (1 + pieces) * (size_of::<Node>() + 16) * 3 / 2;
        }
        self.bytes += value_bytes;
    }

    /// The change of this very block.
    pub(super) fn get(&self, block: &Block) -> Option<&Change> {
        if self.is_empty() {
            return None;
        }
        let root = if block.is_ipv4() { &self.ipv4 } else { &self.ipv6 };
        let prefix = block.prefixes().next()?;
        let (bits, length) = (leading_bits(prefix.address()), prefix.length_bits());
        let mut at = root.as_deref();
        while let Some(node) = at.filter(|node| node.length <= length && node.holds(bits)) {
            if node.length == length {
                return match block.as_prefix() {
                    Some(_) => node.own.as_ref(),
                    None => {
                        let mut ranges = node.ranges.iter();
                        ranges.find(|range| range.block == *block).map(|range| &range.change)
                    }
                };
            }
            at = node.towards(bits);
        }
        None
    }

    /// All changed blocks that hold the address, in no order.
    pub(super) fn holding<'a>(&'a self, address: IpAddr, mut each: impl FnMut(Block, &'a Change)) {
        let root = if address.is_ipv4() { &self.ipv4 } else { &self.ipv6 };
        let bits = leading_bits(address);
        let mut at = root.as_deref();
        while let Some(node) = at.filter(|node| node.holds(bits)) {
            if let Some(change) = &node.own {
                each(node.block(address.is_ipv4()), change);
            }
            node.ranges.iter().for_each(|range| each(range.block, &range.change));
            at = node.towards(bits);
        }
    }

    /// Whether a block that has changed begins or ends within the prefix.
    pub(super) fn has_inside(&self, prefix: Prefix) -> bool {
        let root = if prefix.is_ipv4() { &self.ipv4 } else { &self.ipv6 };
        let (bits, length) = (leading_bits(prefix.address()), prefix.length_bits());
        let mut at = root.as_deref();
        while let Some(node) = at {
            if node.length > length {
                // Whatever it has, or has below it, is smaller than the prefix.
                return leading(node.bits, length) == bits;
            }
            if !node.holds(bits) {
                return false;
            }
            if node.length == length {
                return node.below.iter().any(Option::is_some);
            }
            at = node.towards(bits);
        }
        false
    }

    /// All changes in the order of blocks.
    pub(super) fn sorted(&self) -> Vec<(Block, &Change)> {
        let mut found = Vec::with_capacity(self.len);
        for (root, is_ipv4) in [(&self.ipv4, true), (&self.ipv6, false)] {
            if let Some(node) = root {
                node.collect(is_ipv4, &mut found);
            }
        }
        if !found.is_sorted_by_key(|(block, _)| *block) {
            found.sort_by_key(|(block, _)| *block);
        }
        found
    }
}

impl Node {
    fn new(bits: u128, length: u8) -> Node {
        Node { bits, length, own: None, ranges: Vec::new(), below: [None, None] }
    }

    fn holds(&self, bits: u128) -> bool {
        leading(bits, self.length) == self.bits
    }

    fn towards(&self, bits: u128) -> Option<&Node> {
        // At 128 bits nothing lies below.
        self.below[bit(bits, self.length)].as_deref()
    }

    fn block(&self, is_ipv4: bool) -> Block {
        let hosts = u128::MAX.checked_shr(u32::from(self.length)).unwrap_or(0);
        let last = self.bits | hosts;
        if is_ipv4 {
            Block::v4((self.bits >> 96) as u32, (last >> 96) as u32)
        } else {
            Block::v6(self.bits, last)
        }
    }

    fn collect<'a>(&'a self, is_ipv4: bool, found: &mut Vec<(Block, &'a Change)>) {
        if let Some(change) = &self.own {
            found.push((self.block(is_ipv4), change));
        }
        let ranges = self.ranges.iter().filter(|range| range.is_first_piece);
        found.extend(ranges.map(|range| (range.block, &range.change)));
        self.below.iter().flatten().for_each(|below| below.collect(is_ipv4, found));
    }
}

fn leading(bits: u128, length: u8) -> u128 {
    bits & !u128::MAX.checked_shr(u32::from(length)).unwrap_or(0)
}

/// The bit that follows `length` leading ones; 0 behind the last.
fn bit(bits: u128, length: u8) -> usize {
    let shift = 127_u32.checked_sub(u32::from(length));
    shift.map_or(0, |shift| (bits >> shift & 1) as usize)
}

/// The node of a prefix, alone, made where it is missing; nodes on the way that others look at are
/// copied.
fn node_at<'a>(mut slot: &'a mut Option<Arc<Node>>, prefix: &Prefix) -> &'a mut Node {
    let (bits, length) = (leading_bits(prefix.address()), prefix.length_bits());
    while let Some(node) = slot.take() {
        let differing = (node.bits ^ bits).leading_zeros() as u8;
        let common = differing.min(node.length).min(length);
        if common == node.length {
            let node = Arc::make_mut(slot.insert(node));
            if node.length == length {
                return node;
            }
            slot = &mut node.below[bit(bits, node.length)];
            continue;
        }
        // A branch, or the prefix itself, comes between.
        let mut between = Node::new(leading(bits, common), common);
        let side = bit(node.bits, common);
        between.below[side] = Some(node);
        let between = Arc::make_mut(slot.insert(Arc::new(between)));
        if common == length {
            return between;
        }
        slot = &mut between.below[1 - side];
    }
    Arc::make_mut(slot.insert(Arc::new(Node::new(bits, length))))
}

impl Filter {
    fn new(is_long: bool) -> Filter {
        let words = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        let long = words(if is_long { (1 << LONG_BITS) / 64 } else { 0 });
        Filter { short: words(SHORT_WORDS), long, is_wide6: AtomicBool::new(false) }
    }

    #[inline]
    fn has4(&self, address: u32) -> bool {
        has(&self.short, address >> 16) || has(&self.long, hashed(address >> 8, LONG_BITS))
    }

    #[inline]
    fn has6(&self, address: u128) -> bool {
        self.is_wide6.load(Ordering::Relaxed)
            || has(&self.short, hashed((address >> 96) as u32, 16))
            || has(&self.long, long6(address))
    }

    fn set(&self, block: &Block) {
        let is_long = !self.long.is_empty();
        match (block.first(), block.last()) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                let (first, last) = (first.to_bits(), last.to_bits());
                if is_long && first >> 16 == last >> 16 && last - first < 0xffff {
                    (first >> 8..=last >> 8).for_each(|n| set(&self.long, hashed(n, LONG_BITS)));
                } else {
                    (first >> 16..=last >> 16).for_each(|n| set(&self.short, n));
                }
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                let (first, last) = (first.to_bits(), last.to_bits());
                if is_long && first >> 80 == last >> 80 {
                    set(&self.long, long6(first));
                } else if first >> 96 == last >> 96 {
                    set(&self.short, hashed((first >> 96) as u32, 16));
                } else {
                    // Readers see it by whatever made the change visible to them.
                    self.is_wide6.store(true, Ordering::Relaxed);
                }
            }
            // A block has one family.
            _ => {}
        }
    }
}

#[inline]
fn has(words: &[AtomicU64], number: u32) -> bool {
    let word = words.get(number as usize / 64);
    word.is_some_and(|word| word.load(Ordering::Relaxed) >> (number % 64) & 1 != 0)
}

fn set(words: &[AtomicU64], number: u32) {
    let bit = 1 << (number % 64);
    if let Some(word) = words.get(number as usize / 64)
        && word.load(Ordering::Relaxed) & bit == 0
    {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// How many bits of a number's hash count.
#[inline]
fn hashed(number: u32, bits: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b1) >> (32 - bits)
}

#[inline]
fn long6(address: u128) -> u32 {
    let upper = (address >> 80) as u64;
    (upper.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - LONG_BITS)) as u32
}
