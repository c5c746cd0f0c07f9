//! A set of prefixes and ranges whose members may carry a value and may expire.
//!
//! For: blocklists, allowlists and other named sets that change while they are asked.
//! Not for: names, clocks or journals; the caller keeps those and passes the time. Not for the
//! fastest lookups either: see `CompiledSet` and `LiveIpv4`, which are made from a set.
//!
//! ```text
//! members: PrefixMap   10.0.0.0/8 -> { value: bytes or none, expires_at_millis: 900 or none }
//! ranges: BTreeMap     10.0.0.5-10.0.0.9 -> the same, for ranges that are no prefix
//! pieces: PrefixMap    the prefixes that a range consists of -> the ranges
//! expiries: ordered set of (expires_at_millis, block), one for each member that expires
//! ```
//!
//! Members stay as they were given: nothing is merged. The smallest live member that holds an
//! address is its match, which among prefixes is the longest; of a prefix and a range, or two
//! ranges, with equally many addresses the one that begins later.
//!
//! A member is *live* at `now_millis` when it has no expiry or `now_millis` is below it: at its
//! expiry a member is gone. Expired members stay in memory, unseen, until `remove_expired`,
//! `remove` or a new `insert` of the same prefix.
//!
//! Invariants: `expiries` has exactly the members that have an expiry; `value_bytes` is the sum
//! of the values' lengths; `pieces` has exactly the pieces of `ranges`, and `ranges` no prefix.
//!
//! Concurrency: plain data; readers share, a writer is alone.
//!
//! Cost: lookups as `PrefixMap`, plus one comparison a member met; insert and remove as
//! `PrefixMap`, plus O(log n) where an expiry changes; `remove_expired` O(log n) for each that is
//! removed and one comparison when none is due; `live_len` linear in the expired ones. A range costs
//! up to 62 (IPv4) or 254 (IPv6) pieces; sets without ranges pay one test for them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::{AddressRanges, Block, CompiledSet, Prefix, PrefixMap};

/// Prefixes and ranges with an optional value and an optional expiry; the smallest live one wins.
///
/// Times are milliseconds on any clock that the caller keeps to, usually since 1970.
///
/// # Examples
///
/// ```
/// use whered_ip::{Prefix, PrefixSet};
///
/// let (wide, narrow): (Prefix, Prefix) = ("203.0.113.0/24".parse()?, "203.0.113.7".parse()?);
/// let mut blocked = PrefixSet::new();
/// blocked.insert(wide, None, None, 0);
/// blocked.insert(narrow, Some(b"ssh"), Some(5_000), 0);
///
/// let found = blocked.longest_match(narrow.address(), 4_999).expect("a member");
/// assert_eq!((found.block, found.value), (narrow.into(), Some(&b"ssh"[..])));
///
/// // At its expiry a member is gone, and the shorter one is found.
/// let found = blocked.longest_match(narrow.address(), 5_000).expect("a member");
/// assert_eq!((found.block, found.value), (wide.into(), None));
/// # Ok::<(), whered_ip::PrefixError>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct PrefixSet {
    members: PrefixMap<Member>,
    ranges: BTreeMap<Block, Member>,
    pieces: PrefixMap<Vec<Block>>,
    /// How many pieces all ranges have together.
    piece_count: usize,
    expiries: BTreeSet<(u64, Block)>,
    value_bytes: usize,
}

/// What a member carries.
#[derive(Clone, Debug)]
struct Member {
    value: Option<Box<[u8]>>,
    expires_at_millis: Option<u64>,
}

/// A live member that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrefixMatch<'a> {
    /// The member, as it was inserted.
    pub block: Block,
    /// Its value, if it has one.
    pub value: Option<&'a [u8]>,
    /// The time from which on it is gone, if it expires.
    pub expires_at_millis: Option<u64>,
}

impl Member {
    #[inline]
    fn is_live(&self, now_millis: u64) -> bool {
        self.expires_at_millis.is_none_or(|expires_at_millis| now_millis < expires_at_millis)
    }

    fn value_len(&self) -> usize {
        self.value.as_ref().map_or(0, |value| value.len())
    }
}

impl<'a> PrefixMatch<'a> {
    #[inline]
    fn new((block, member): (impl Into<Block>, &'a Member)) -> Self {
        PrefixMatch {
            block: block.into(),
            value: member.value.as_deref(),
            expires_at_millis: member.expires_at_millis,
        }
    }

    /// Matches are better the smaller they are, of equally small ones the later.
    pub(crate) fn rank(&self) -> (Reverse<u128>, IpAddr) {
        (Reverse(self.block.size_less_one()), self.block.first())
    }
}

impl PrefixSet {
    /// An empty set.
    pub fn new() -> Self {
        PrefixSet::default()
    }

    /// How many members are in memory, the expired ones that were not yet removed included.
    pub fn len(&self) -> usize {
        self.members.len() + self.ranges.len()
    }

    /// Whether no member is in memory, not even an expired one.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.ranges.is_empty()
    }

    /// How many members are live; linear in the number of expired ones not yet removed.
    pub fn live_len(&self, now_millis: u64) -> usize {
        let expired = self.expiries.iter().take_while(|(at, _)| *at <= now_millis).count();
        self.len() - expired
    }

    /// Adds a member, or gives a member a new value and expiry in place of both old ones; true
    /// when the block was no live member before.
    ///
    /// An expiry that has already passed is kept like any other: the member is never seen and
    /// goes with the next [`remove_expired`](Self::remove_expired).
    ///
    /// # Panics
    ///
    /// When the set would hold 2^31 prefixes.
    pub fn insert(
        &mut self,
        block: impl Into<Block>,
        value: Option<&[u8]>,
        expires_at_millis: Option<u64>,
        now_millis: u64,
    ) -> bool {
        let block = block.into();
        let member = Member { value: value.map(Box::from), expires_at_millis };
        self.value_bytes += member.value_len();
        let old = match block.as_prefix() {
            Some(prefix) => self.members.insert(prefix, member),
            None => self.insert_range(block, member),
        };
        let was_live = old.as_ref().is_some_and(|old| old.is_live(now_millis));
        if let Some(old) = old {
            self.forget(block, &old);
        }
        if let Some(expires_at_millis) = expires_at_millis {
            self.expiries.insert((expires_at_millis, block));
        }
        !was_live
    }

    fn insert_range(&mut self, block: Block, member: Member) -> Option<Member> {
        let old = self.ranges.insert(block, member);
        if old.is_none() {
            for piece in block.prefixes() {
                self.piece_count += 1;
                match self.pieces.get_mut(&piece) {
                    Some(ranges) => ranges.push(block),
                    None => drop(self.pieces.insert(piece, vec![block])),
                }
            }
        }
        old
    }

    /// Removes a member; true when it was a live one.
    pub fn remove(&mut self, block: impl Into<Block>, now_millis: u64) -> bool {
        let block = block.into();
        let Some(old) = self.take(block) else {
            return false;
        };
        self.forget(block, &old);
        old.is_live(now_millis)
    }

    /// Takes a member out of its map.
    fn take(&mut self, block: Block) -> Option<Member> {
        if let Some(prefix) = block.as_prefix() {
            return self.members.remove(&prefix);
        }
        let old = self.ranges.remove(&block)?;
        for piece in block.prefixes() {
            let ranges = self.pieces.get_mut(&piece).expect("each range has its pieces");
            ranges.retain(|range| *range != block);
            self.piece_count -= 1;
            if ranges.is_empty() {
                self.pieces.remove(&piece);
            }
        }
        Some(old)
    }

    /// Removes at most `limit` expired members, the earliest expiry first; returns how many.
    ///
    /// One comparison when none is due.
    pub fn remove_expired(&mut self, now_millis: u64, limit: usize) -> usize {
        let mut removed = 0;
        while removed < limit
            && let Some((_, block)) = self.expiries.first().filter(|(at, _)| *at <= now_millis)
        {
            let block = *block;
            let old = self.take(block).expect("each expiry belongs to a member");
            self.forget(block, &old);
            removed += 1;
        }
        removed
    }

    /// The earliest expiry of all members, past or to come: when `remove_expired` has work next.
    pub fn next_expiry_millis(&self) -> Option<u64> {
        self.expiries.first().map(|(expires_at_millis, _)| *expires_at_millis)
    }

    /// The live member that is this very block.
    pub fn get(&self, block: impl Into<Block>, now_millis: u64) -> Option<PrefixMatch<'_>> {
        let block = block.into();
        let member = match block.as_prefix() {
            Some(prefix) => self.members.get(&prefix),
            None => self.ranges.get(&block),
        };
        let member = member.filter(|member| member.is_live(now_millis))?;
        Some(PrefixMatch::new((block, member)))
    }

    /// The smallest live member that holds the address; an expired one hides nothing.
    #[inline]
    pub fn longest_match(&self, address: IpAddr, now_millis: u64) -> Option<PrefixMatch<'_>> {
        let found = self
            .members
            .longest_match_where(address, |member| member.is_live(now_millis))
            .map(PrefixMatch::new);
        if self.ranges.is_empty() { found } else { self.smaller(found, address, now_millis) }
    }

    /// The best of a match and of all ranges that hold the address.
    fn smaller<'a>(
        &'a self,
        found: Option<PrefixMatch<'a>>,
        address: IpAddr,
        now_millis: u64,
    ) -> Option<PrefixMatch<'a>> {
        self.ranges_with(address, now_millis).chain(found).max_by_key(PrefixMatch::rank)
    }

    /// The live ranges that hold the address, in no order.
    fn ranges_with(
        &self,
        address: IpAddr,
        now_millis: u64,
    ) -> impl Iterator<Item = PrefixMatch<'_>> {
        let blocks = self.pieces.all_matches(address).flat_map(|(_, blocks)| blocks);
        blocks
            .filter_map(|block| self.ranges.get_key_value(block))
            .filter(move |(_, member)| member.is_live(now_millis))
            .map(|(block, member)| PrefixMatch::new((*block, member)))
    }

    /// Looks up many addresses at once; `found` is emptied and gets one answer an address, in
    /// the same order.
    pub fn longest_match_batch<'a>(
        &'a self,
        addresses: &[IpAddr],
        now_millis: u64,
        found: &mut Vec<Option<PrefixMatch<'a>>>,
    ) {
        found.clear();
        self.members.longest_match_batch_where(
            addresses,
            |member| member.is_live(now_millis),
            |answer| found.push(answer.map(PrefixMatch::new)),
        );
        if !self.ranges.is_empty() {
            for (found, address) in found.iter_mut().zip(addresses) {
                *found = self.smaller(*found, *address, now_millis);
            }
        }
    }

    /// The longest other prefix in memory that covers this one, expired or not: what a live table
    /// shows where this one is taken away.
    pub fn outer_prefix(&self, prefix: &Prefix) -> Option<Prefix> {
        self.members.outer(prefix).map(|(outer, _)| outer)
    }

    /// All live members that hold the address, the largest first.
    pub fn all_matches(
        &self,
        address: IpAddr,
        now_millis: u64,
    ) -> impl Iterator<Item = PrefixMatch<'_>> {
        let prefixes = self
            .members
            .all_matches(address)
            .filter(move |(_, member)| member.is_live(now_millis))
            .map(PrefixMatch::new);
        let mut ranges: Vec<PrefixMatch<'_>> = Vec::new();
        if !self.ranges.is_empty() {
            ranges.extend(self.ranges_with(address, now_millis));
            ranges.sort_by_key(PrefixMatch::rank);
        }
        merged(prefixes, ranges.into_iter(), |a, b| a.rank() <= b.rank())
    }

    /// All live members in the order of [`Block`]: IPv4 first, by first address, larger before
    /// smaller.
    pub fn iter(&self, now_millis: u64) -> impl Iterator<Item = PrefixMatch<'_>> {
        self.live(self.members.iter(), self.ranges.iter(), now_millis)
    }

    /// The live members that come after this block in the order of [`iter`](Self::iter), whether
    /// or not it is a member: how a long walk goes on after the set has changed.
    pub fn iter_after(
        &self,
        after: impl Into<Block>,
        now_millis: u64,
    ) -> impl Iterator<Item = PrefixMatch<'_>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let after = after.into();
        // The shortest prefix that begins with the block's first address and is not larger, or
        // that very prefix: what comes after a range comes after it or is it.
        let prefix = after.prefixes().next().unwrap_or(Prefix::host(after.first()));
        let is_member = move |(found, _): &(Prefix, &Member)| Block::from(*found) > after;
        let at = self.members.get(&prefix).map(|member| (prefix, member)).filter(is_member);
        let prefixes = at.into_iter().chain(self.members.iter_after(&prefix));
        self.live(prefixes, self.ranges.range((Excluded(after), Unbounded)), now_millis)
    }

    fn live<'a>(
        &'a self,
        prefixes: impl Iterator<Item = (Prefix, &'a Member)>,
        ranges: impl Iterator<Item = (&'a Block, &'a Member)>,
        now_millis: u64,
    ) -> impl Iterator<Item = PrefixMatch<'a>> {
        let prefixes =
            prefixes.filter(move |(_, member)| member.is_live(now_millis)).map(PrefixMatch::new);
        let ranges = ranges
            .filter(move |(_, member)| member.is_live(now_millis))
            .map(|(block, member)| PrefixMatch::new((*block, member)));
        merged(prefixes, ranges, |a, b| a.block <= b.block)
    }

    /// The addresses of all live members, to reckon with: unions, complements, summaries.
    pub fn addresses(&self, now_millis: u64) -> AddressRanges {
        self.iter(now_millis).map(|found| found.block).collect()
    }

    /// The live members compiled for membership: each answers 1. Members that expire or change
    /// later are the caller's matter, who compiles again.
    pub fn compile_members(&self, now_millis: u64) -> CompiledSet {
        CompiledSet::members(self.iter(now_millis).map(|found| found.block))
    }

    /// The live members compiled for their matches: the member at place n of
    /// [`iter`](Self::iter) answers n + 1.
    pub fn compile(&self, now_millis: u64) -> CompiledSet {
        CompiledSet::build(self.iter(now_millis).map(|found| found.block).zip(1..))
    }

    /// About how many bytes the set takes, values and expiries included; constant time.
    pub fn memory_bytes(&self) -> usize {
        // A B-tree's nodes are about two thirds full.
        let expiry_bytes = self.expiries.len() * size_of::<(u64, Block)>() * 3 / 2;
        let range_bytes = self.ranges.len() * size_of::<(Block, Member)>() * 3 / 2
            + self.piece_count * size_of::<Block>()
            + self.pieces.memory_bytes();
        let member_bytes = self.members.memory_bytes() + self.value_bytes;
        size_of::<Self>() + member_bytes + range_bytes + expiry_bytes
    }

    /// Drops what stood beside the map for a member that is no longer in it.
    fn forget(&mut self, block: Block, old: &Member) {
        self.value_bytes -= old.value_len();
        if let Some(expires_at_millis) = old.expires_at_millis {
            self.expiries.remove(&(expires_at_millis, block));
        }
    }
}

/// Two iterators in order as one in order; `is_before` says whether the first one's item comes
/// before the second one's.
fn merged<T>(
    first: impl Iterator<Item = T>,
    second: impl Iterator<Item = T>,
    is_before: impl Fn(&T, &T) -> bool,
) -> impl Iterator<Item = T> {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    std::iter::from_fn(move || match (first.peek(), second.peek()) {
        (Some(a), Some(b)) if !is_before(a, b) => second.next(),
        (None, _) => second.next(),
        _ => first.next(),
    })
}
