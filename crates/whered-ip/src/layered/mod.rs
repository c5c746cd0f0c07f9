//! A set in two layers: one that rests, compiled for lookups, and the changes since.
//!
//! For: sets that are asked all the time and changed now and then, by a writer who makes the next
//! version while readers keep theirs. Not for: threads, locks, clocks, journals (the owner's).
//!
//! ```text
//! version n      base ───────────────────────────┐
//!                changes: 3 came, 1 went         ├─ shared
//! version n + 1  base ───────────────────────────┘
//!                changes: 4 came, 1 went            most nodes shared with version n
//! fold           base of version n + 1, no changes
//! ```
//!
//! A lookup asks the changes that hold the address and the base, and gives the smallest live
//! member: what the base has counts unless a change says otherwise of that very block.
//!
//! Members stay as they were given: nothing is merged. A member is *live* at `now_millis` when it
//! has no expiry or `now_millis` is below it. Expired members stay in memory, unseen, until they
//! are removed or folded away.
//!
//! Invariants: `len` is the number of members, expired ones included; a change that says "went" of
//! a block that the base lacks is allowed and means nothing.
//!
//! Concurrency: plain data; copies are cheap and independent. Cost: a copy is some reference
//! counts; lookups as `CompiledSet` and a bit of a filter, more near changes; insert and remove
//! some copied nodes; folding is linear: some 100 ns a member.

mod base;
mod changes;
mod members;
mod prefix_match;

use std::net::IpAddr;
use std::sync::Arc;

use crate::{AddressRanges, Block, CompiledSet, Prefix};
use base::Base;
use changes::{Change, Changes};
use members::Attribute;
pub use members::MemberList;
pub use prefix_match::PrefixMatch;

/// Prefixes and ranges with values and expiries, in a compiled layer and a layer of changes.
///
/// # Examples
///
/// ```
/// use whered_ip::{Block, LayeredSet};
///
/// let (wide, narrow): (Block, Block) = ("203.0.113.0/24".parse()?, "203.0.113.7".parse()?);
/// let before = LayeredSet::new();
/// let mut blocked = before.clone();
/// blocked.insert(wide, None, None, 0);
/// blocked.insert(narrow, Some(b"ssh"), Some(5_000), 0);
/// let find = |set: &LayeredSet, now| set.longest_match(narrow.first(), now).map(|m| m.block);
/// assert_eq!(find(&blocked, 4_999), Some(narrow));
/// assert_eq!(find(&blocked, 5_000), Some(wide), "at its expiry a member is gone");
/// assert_eq!(find(&before, 0), None, "copies are independent");
/// let folded = blocked.fold(5_000);
/// assert_eq!((folded.pending_len(), folded.len()), (0, 1));
/// # Ok::<(), whered_ip::BlockError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LayeredSet {
    base: Arc<Base>,
    changes: Changes,
    len: usize,
}

/// How many members of which kind a [`LayeredSet`] has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberCounts {
    /// IPv4 prefixes and ranges.
    pub ipv4: usize,
    /// IPv6 prefixes and ranges.
    pub ipv6: usize,
    /// Those of both that are ranges and no prefixes.
    pub ranges: usize,
    /// Those that expire.
    pub expiring: usize,
}

impl MemberCounts {
    fn count(&mut self, block: &Block, attribute: &Attribute, one: impl Fn(usize) -> usize) {
        let of_family = if block.is_ipv4() { &mut self.ipv4 } else { &mut self.ipv6 };
        *of_family = one(*of_family);
        if block.as_prefix().is_none() {
            self.ranges = one(self.ranges);
        }
        if attribute.expires_at_millis.is_some() {
            self.expiring = one(self.expiring);
        }
    }
}

impl Default for LayeredSet {
    fn default() -> LayeredSet {
        LayeredSet::build(MemberList::new())
    }
}

fn matched(block: Block, attribute: &Attribute) -> PrefixMatch<'_> {
    PrefixMatch {
        block,
        value: attribute.value.as_deref(),
        expires_at_millis: attribute.expires_at_millis,
    }
}

impl LayeredSet {
    /// An empty set.
    #[must_use]
    pub fn new() -> LayeredSet {
        LayeredSet::default()
    }

    /// A set of these members, all of them compiled. Sorts, and takes some 60 ns a member.
    #[must_use]
    pub fn build(mut list: MemberList) -> LayeredSet {
        list.sort();
        LayeredSet::of_sorted(&list)
    }

    /// As [`build`](Self::build), of a list that is sorted.
    ///
    /// # Panics
    ///
    /// When it is not, in builds that check that.
    #[must_use]
    pub fn of_sorted(list: &MemberList) -> LayeredSet {
        let base = Base::build(list);
        let len = base.len();
        LayeredSet { base: Arc::new(base), changes: Changes::default(), len }
    }

    /// How many members are in memory, the expired ones that were not yet removed included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no member is in memory, not even an expired one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many members are live; linear in the expired ones not yet removed, and in the changes
    /// when some of them have expiries.
    #[must_use]
    pub fn live_len(&self, now_millis: u64) -> usize {
        self.len - self.expired_len(now_millis)
    }

    /// How many members are expired and not yet removed; cost as [`live_len`](Self::live_len).
    #[must_use]
    pub fn expired_len(&self, now_millis: u64) -> usize {
        let expired = self.base.expired(now_millis);
        let in_base =
            expired.filter(|place| self.changes.get(&self.base.block(*place)).is_none()).count();
        if !self.changes.has_expiries() {
            return in_base;
        }
        let is_expired = |change: &Change| change.as_ref().is_some_and(|a| !a.is_live(now_millis));
        in_base + self.changes.sorted().iter().filter(|(_, change)| is_expired(change)).count()
    }

    /// How many blocks have changed since the compiled layer was made.
    #[must_use]
    pub fn pending_len(&self) -> usize {
        self.changes.len()
    }

    /// How many expired members the compiled layer has, overwritten ones included: whether folding
    /// would free some. Logarithmic.
    #[must_use]
    pub fn base_expired_len(&self, now_millis: u64) -> usize {
        self.base.expired_len(now_millis)
    }

    /// Counts members by kind, expired ones included; linear in the changes.
    #[must_use]
    pub fn counts(&self) -> MemberCounts {
        let (ipv4, ipv6, ranges) = self.base.counts();
        let mut counts = MemberCounts { ipv4, ipv6, ranges, expiring: self.base.expiring_len() };
        for (block, change) in self.changes.sorted() {
            if let Some(place) = self.base.get(&block) {
                counts.count(&block, self.base.attribute(place), |n| n - 1);
            }
            if let Some(attribute) = change {
                counts.count(&block, attribute, |n| n + 1);
            }
        }
        counts
    }

    /// The compiled layer itself: its form and why it has it.
    #[must_use]
    pub fn compiled(&self) -> &CompiledSet {
        self.base.compiled()
    }

    /// The earliest and the latest expiry in the compiled layer, past or to come.
    #[must_use]
    pub fn expiry_bounds(&self) -> Option<(u64, u64)> {
        self.base.expiry_bounds()
    }

    /// About how many bytes the set takes; constant time. Copies share most of it.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.base.memory_bytes() + self.changes.memory_bytes()
    }

    /// Whether some member has an expiry, so that answers may change without a change of the set.
    #[must_use]
    pub fn has_expiries(&self) -> bool {
        self.base.expiring_len() > 0 || self.changes.has_expiries()
    }

    /// Whether no member, live or not, begins or ends within the prefix: all its addresses then
    /// have the same match. Logarithmic in the members.
    #[must_use]
    pub fn is_uniform(&self, prefix: Prefix) -> bool {
        !self.changes.has_inside(prefix) && !self.base.has_inside(prefix)
    }

    /// The attribute of this very block, live or not.
    fn attribute(&self, block: &Block) -> Option<&Attribute> {
        match self.changes.get(block) {
            Some(change) => change.as_ref(),
            None => self.base.get(block).map(|place| self.base.attribute(place)),
        }
    }

    /// Adds a member, or gives a member a new value and expiry in place of both old ones; true
    /// when the block was no live member before.
    pub fn insert(
        &mut self,
        block: impl Into<Block>,
        value: Option<&[u8]>,
        expires_at_millis: Option<u64>,
        now_millis: u64,
    ) -> bool {
        self.insert_shared(block.into(), value.map(Arc::from), expires_at_millis, now_millis)
    }

    /// As [`insert`](Self::insert), with a value that many members may share.
    pub fn insert_shared(
        &mut self,
        block: Block,
        value: Option<Arc<[u8]>>,
        expires_at_millis: Option<u64>,
        now_millis: u64,
    ) -> bool {
        let attribute = Attribute { value, expires_at_millis };
        let old = self.attribute(&block);
        let was_live = old.is_some_and(|old| old.is_live(now_millis));
        let is_new = old.is_none();
        if old == Some(&attribute) {
            return !was_live;
        }
        self.len += usize::from(is_new);
        self.changes.put(block, Some(attribute), self.base.len());
        !was_live
    }

    /// Removes a member; true when it was a live one.
    pub fn remove(&mut self, block: impl Into<Block>, now_millis: u64) -> bool {
        let block = block.into();
        let Some(old) = self.attribute(&block) else {
            return false;
        };
        let was_live = old.is_live(now_millis);
        self.len -= 1;
        self.changes.put(block, None, self.base.len());
        was_live
    }

    /// The live member that is this very block.
    #[must_use]
    pub fn get(&self, block: impl Into<Block>, now_millis: u64) -> Option<PrefixMatch<'_>> {
        let block = block.into();
        let attribute = self.attribute(&block).filter(|found| found.is_live(now_millis))?;
        Some(matched(block, attribute))
    }

    /// The smallest live member that holds the address; an expired one hides nothing.
    #[inline]
    #[must_use]
    pub fn longest_match(&self, address: IpAddr, now_millis: u64) -> Option<PrefixMatch<'_>> {
        if self.changes.may_touch(address) {
            return self.best(address, now_millis);
        }
        let place = self.base.smallest(address)?;
        let found = self.base.member(place);
        if self.base.attribute(place).is_live(now_millis) {
            return Some(found);
        }
        self.best(address, now_millis)
    }

    /// Whether a live member holds the address.
    #[inline]
    #[must_use]
    pub fn contains(&self, address: IpAddr, now_millis: u64) -> bool {
        if self.changes.may_touch(address) {
            return self.best(address, now_millis).is_some();
        }
        // As `longest_match`, without a look at the member's ends.
        let Some(place) = self.base.smallest(address) else { return false };
        self.base.attribute(place).is_live(now_millis) || self.best(address, now_millis).is_some()
    }

    /// The best of all members that hold the address.
    fn best(&self, address: IpAddr, now_millis: u64) -> Option<PrefixMatch<'_>> {
        let mut changed = false;
        let mut best: Option<PrefixMatch<'_>> = None;
        self.changes.holding(address, |block, change| {
            changed = true;
            if let Some(attribute) = change.as_ref().filter(|a| a.is_live(now_millis)) {
                let found = matched(block, attribute);
                if best.is_none_or(|best| best.rank() < found.rank()) {
                    best = Some(found);
                }
            }
        });
        let Some(place) = self.base.smallest(address) else { return best };
        let counts = |place: usize| {
            self.base.attribute(place).is_live(now_millis)
                && !(changed && self.changes.get(&self.base.block(place)).is_some())
        };
        let better = |found: PrefixMatch<'_>, best: &Option<PrefixMatch<'_>>| {
            best.is_none_or(|best| best.rank() < found.rank())
        };
        if counts(place) {
            let found = self.base.member(place);
            return if better(found, &best) { Some(found) } else { best };
        }
        self.base.holding(address, |place| {
            let found = self.base.member(place);
            if better(found, &best) && counts(place) {
                best = Some(found);
            }
        });
        best
    }

    /// Waits for the memory that lookups of these addresses will read, for all of them together.
    /// IPv6 addresses are passed over.
    pub fn prefetch(&self, addresses: impl Iterator<Item = IpAddr>) {
        const AT_ONCE: usize = 32;
        let (mut numbers, mut places) = ([0_u32; AT_ONCE], [0_u32; AT_ONCE]);
        let mut addresses = addresses.filter(IpAddr::is_ipv4);
        loop {
            let mut count = 0;
            for (number, address) in numbers.iter_mut().zip(&mut addresses) {
                *number = leading_number(address);
                count += 1;
            }
            if count == 0 {
                return;
            }
            self.base.places4(&numbers[..count], &mut places[..count]);
            places[..count].iter().for_each(|place| self.base.prefetch4(*place));
        }
    }

    /// Looks up many addresses at once; `found` is emptied and gets one answer an address, in
    /// the same order.
    pub fn longest_match_batch<'a>(
        &'a self,
        addresses: &[IpAddr],
        now_millis: u64,
        found: &mut Vec<Option<PrefixMatch<'a>>>,
    ) {
        const AT_ONCE: usize = 256;
        found.clear();
        found.reserve(addresses.len());
        let (mut numbers, mut places) = ([0_u32; AT_ONCE], [0_u32; AT_ONCE]);
        for addresses in addresses.chunks(AT_ONCE) {
            if !addresses.iter().all(IpAddr::is_ipv4) {
                found.extend(addresses.iter().map(|at| self.longest_match(*at, now_millis)));
                continue;
            }
            let numbers = &mut numbers[..addresses.len()];
            let places = &mut places[..addresses.len()];
            for (number, address) in numbers.iter_mut().zip(addresses) {
                *number = leading_number(*address);
            }
            self.base.places4(numbers, places);
            places.iter().for_each(|place| self.base.prefetch4(*place));
            for ((number, place), address) in numbers.iter().zip(&*places).zip(addresses) {
                found.push(self.settled(*number, *place, *address, now_millis));
            }
        }
    }

    /// The match where the compiled layer has answered a place, plus one.
    #[inline]
    fn settled(
        &self,
        number: u32,
        place: u32,
        address: IpAddr,
        now_millis: u64,
    ) -> Option<PrefixMatch<'_>> {
        if self.changes.may_touch4(number) {
            return self.best(address, now_millis);
        }
        let place = place.checked_sub(1)? as usize;
        if self.base.attribute(place).is_live(now_millis) {
            return Some(self.base.member(place));
        }
        self.best(address, now_millis)
    }

    /// All live members that hold the address, the largest first.
    pub fn all_matches(
        &self,
        address: IpAddr,
        now_millis: u64,
    ) -> impl Iterator<Item = PrefixMatch<'_>> {
        let mut found = Vec::new();
        self.changes.holding(address, |block, change| {
            if let Some(attribute) = change.as_ref().filter(|a| a.is_live(now_millis)) {
                found.push(matched(block, attribute));
            }
        });
        self.base.holding(address, |place| {
            let member = self.base.member(place);
            let is_live = self.base.attribute(place).is_live(now_millis);
            if is_live && self.changes.get(&member.block).is_none() {
                found.push(member);
            }
        });
        found.sort_by_key(PrefixMatch::rank);
        found.into_iter()
    }

    /// All live members in the order of [`Block`]: IPv4 first, by first address, larger before
    /// smaller.
    pub fn iter(&self, now_millis: u64) -> impl Iterator<Item = PrefixMatch<'_>> {
        self.members(0, self.changes.sorted(), now_millis)
    }

    /// The live members that come after this block in the order of [`iter`](Self::iter), whether or
    /// not it is a member: how a long walk goes on.
    pub fn iter_after(
        &self,
        after: impl Into<Block>,
        now_millis: u64,
    ) -> impl Iterator<Item = PrefixMatch<'_>> {
        let after = after.into();
        let mut changed = self.changes.sorted();
        changed.drain(..changed.partition_point(|(block, _)| *block <= after));
        self.members(self.base.place_after(&after), changed, now_millis)
    }

    fn members<'a>(
        &'a self,
        first: usize,
        changed: Vec<(Block, &'a Change)>,
        now_millis: u64,
    ) -> impl Iterator<Item = PrefixMatch<'a>> {
        let mut base = (first..self.base.len()).peekable();
        let mut changed = changed.into_iter().peekable();
        std::iter::from_fn(move || {
            loop {
                let resting = base.peek().map(|place| (self.base.block(*place), *place));
                let (block, attribute) = match (resting, changed.peek()) {
                    (Some((block, _)), Some((new, _))) if *new <= block => {
                        // What the base has of the same block does not count any more.
                        base.next_if(|_| *new == block);
                        let (block, change) = changed.next()?;
                        (block, change.as_ref())
                    }
                    (Some((block, place)), _) => {
                        base.next();
                        (block, Some(self.base.attribute(place)))
                    }
                    (None, _) => {
                        let (block, change) = changed.next()?;
                        (block, change.as_ref())
                    }
                };
                if let Some(attribute) = attribute.filter(|a| a.is_live(now_millis)) {
                    return Some(matched(block, attribute));
                }
            }
        })
    }

    /// The addresses of all live members, for unions, complements and summaries.
    #[must_use]
    pub fn addresses(&self, now_millis: u64) -> AddressRanges {
        self.iter(now_millis).map(|found| found.block).collect()
    }

    /// The live members as a list.
    #[must_use]
    pub fn to_list(&self, now_millis: u64) -> MemberList {
        let mut list = MemberList::new();
        for found in self.iter(now_millis) {
            list.push(found.block, found.value, found.expires_at_millis);
        }
        list
    }

    /// A set with the live members, all of them compiled. The caller repeats changes that are made
    /// to `self` later.
    #[must_use]
    pub fn fold(&self, now_millis: u64) -> LayeredSet {
        LayeredSet::build(self.to_list(now_millis))
    }
}

fn leading_number(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(v4) => v4.to_bits(),
        IpAddr::V6(_) => 0,
    }
}
