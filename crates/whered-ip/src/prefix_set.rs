//! A set of prefixes whose members may carry a value and may expire.
//!
//! For: blocklists, allowlists and other named sets that change while they are asked.
//! Not for: names, clocks or journals; the caller keeps those and passes the time.
//!
//! ```text
//! members: PrefixMap   10.0.0.0/8 -> { value: bytes or none, expires_at_millis: 900 or none }
//! expiries: ordered set of (expires_at_millis, prefix), one for each member that expires
//! ```
//!
//! A member is *live* at `now_millis` when it has no expiry or `now_millis` is below it: at its
//! expiry a member is gone. Expired members stay in memory, unseen, until `remove_expired`,
//! `remove` or a new `insert` of the same prefix.
//!
//! Invariants: `expiries` has exactly the members that have an expiry; `value_bytes` is the sum
//! of the values' lengths.
//!
//! Concurrency: plain data; readers share, a writer is alone.
//!
//! Cost: lookups as `PrefixMap`, plus one comparison a member met; insert and remove as
//! `PrefixMap`, plus O(log n) where an expiry changes; `remove_expired` O(log n) for each that is
//! removed and one comparison when none is due; `live_len` linear in the expired ones.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::{Prefix, PrefixMap};

/// Prefixes with an optional value and an optional expiry; the longest live match wins.
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
/// assert_eq!((found.prefix, found.value), (narrow, Some(&b"ssh"[..])));
///
/// // At its expiry a member is gone, and the shorter one is found.
/// let found = blocked.longest_match(narrow.address(), 5_000).expect("a member");
/// assert_eq!((found.prefix, found.value), (wide, None));
/// # Ok::<(), whered_ip::PrefixError>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct PrefixSet {
    members: PrefixMap<Member>,
    expiries: BTreeSet<(u64, Prefix)>,
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
    /// The member's prefix, as it was inserted.
    pub prefix: Prefix,
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
    fn new((prefix, member): (Prefix, &'a Member)) -> Self {
        PrefixMatch {
            prefix,
            value: member.value.as_deref(),
            expires_at_millis: member.expires_at_millis,
        }
    }
}

impl PrefixSet {
    /// An empty set.
    pub fn new() -> Self {
        PrefixSet::default()
    }

    /// How many members are in memory, the expired ones that were not yet removed included.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether no member is in memory, not even an expired one.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// How many members are live; linear in the number of expired ones not yet removed.
    pub fn live_len(&self, now_millis: u64) -> usize {
        let expired = self.expiries.iter().take_while(|(at, _)| *at <= now_millis).count();
        self.len() - expired
    }

    /// Adds a member, or gives a member a new value and expiry in place of both old ones; true
    /// when the prefix was no live member before.
    ///
    /// An expiry that has already passed is kept like any other: the member is never seen and
    /// goes with the next [`remove_expired`](Self::remove_expired).
    ///
    /// # Panics
    ///
    /// When the set would hold 2^31 prefixes.
    pub fn insert(
        &mut self,
        prefix: Prefix,
        value: Option<&[u8]>,
        expires_at_millis: Option<u64>,
        now_millis: u64,
    ) -> bool {
        let member = Member { value: value.map(Box::from), expires_at_millis };
        self.value_bytes += member.value_len();
        let old = self.members.insert(prefix, member);
        let was_live = old.as_ref().is_some_and(|old| old.is_live(now_millis));
        if let Some(old) = old {
            self.forget(prefix, &old);
        }
        if let Some(expires_at_millis) = expires_at_millis {
            self.expiries.insert((expires_at_millis, prefix));
        }
        !was_live
    }

    /// Removes a member; true when it was a live one.
    pub fn remove(&mut self, prefix: &Prefix, now_millis: u64) -> bool {
        let Some(old) = self.members.remove(prefix) else {
            return false;
        };
        self.forget(*prefix, &old);
        old.is_live(now_millis)
    }

    /// Removes at most `limit` expired members, the earliest expiry first; returns how many.
    ///
    /// One comparison when none is due.
    pub fn remove_expired(&mut self, now_millis: u64, limit: usize) -> usize {
        let mut removed = 0;
        while removed < limit
            && let Some((_, prefix)) = self.expiries.first().filter(|(at, _)| *at <= now_millis)
        {
            let prefix = *prefix;
            let old = self.members.remove(&prefix).expect("each expiry belongs to a member");
            self.forget(prefix, &old);
            removed += 1;
        }
        removed
    }

    /// The earliest expiry of all members, past or to come: when `remove_expired` has work next.
    pub fn next_expiry_millis(&self) -> Option<u64> {
        self.expiries.first().map(|(expires_at_millis, _)| *expires_at_millis)
    }

    /// The live member with this very prefix.
    pub fn get(&self, prefix: &Prefix, now_millis: u64) -> Option<PrefixMatch<'_>> {
        let member = self.members.get(prefix).filter(|member| member.is_live(now_millis))?;
        Some(PrefixMatch::new((*prefix, member)))
    }

    /// The longest live member that holds the address; an expired one hides nothing.
    #[inline]
    pub fn longest_match(&self, address: IpAddr, now_millis: u64) -> Option<PrefixMatch<'_>> {
        self.members
            .longest_match_where(address, |member| member.is_live(now_millis))
            .map(PrefixMatch::new)
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
    }

    /// All live members that hold the address, shortest first.
    pub fn all_matches(
        &self,
        address: IpAddr,
        now_millis: u64,
    ) -> impl Iterator<Item = PrefixMatch<'_>> {
        self.members
            .all_matches(address)
            .filter(move |(_, member)| member.is_live(now_millis))
            .map(PrefixMatch::new)
    }

    /// All live members in the order of [`Prefix`]: IPv4 first, by first address, shorter before
    /// longer.
    pub fn iter(&self, now_millis: u64) -> impl Iterator<Item = PrefixMatch<'_>> {
        self.members
            .iter()
            .filter(move |(_, member)| member.is_live(now_millis))
            .map(PrefixMatch::new)
    }

    /// About how many bytes the set takes, values and expiries included; constant time.
    pub fn memory_bytes(&self) -> usize {
        // A B-tree's nodes are about two thirds full.
        let expiry_bytes = self.expiries.len() * size_of::<(u64, Prefix)>() * 3 / 2;
        size_of::<Self>() + self.members.memory_bytes() + self.value_bytes + expiry_bytes
    }

    /// Drops what stood beside the map for a member that is no longer in it.
    fn forget(&mut self, prefix: Prefix, old: &Member) {
        self.value_bytes -= old.value_len();
        if let Some(expires_at_millis) = old.expires_at_millis {
            self.expiries.remove(&(expires_at_millis, prefix));
        }
    }
}
