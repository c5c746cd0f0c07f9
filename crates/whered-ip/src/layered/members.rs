//! Members of a set in a list: what a set is built from, and what a load is kept as.
//!
//! For: collecting blocks with values and expiries in any order. Not for: lookups.
//!
//! ```text
//! ipv4        | first, 32 bits | complement of last, 32 bits |  attribute, 32 bits
//! ipv6        first, 128 bits    complement of last             attribute
//! attributes  0: none   1: { value, expires_at_millis }   2: ...          each of them once
//! ```
//!
//! Invariants: attribute 0 has neither value nor expiry; every number is that of an attribute.
//! Sorted by these keys, blocks are in the order of [`Block`].
//!
//! Concurrency: plain data. Cost: adding is constant, and one hash where value or expiry differ
//! from those of the member before; sorting O(n log n), or linear when they come in order.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::Block;

/// A member's value and expiry.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Attribute {
    pub(crate) value: Option<Arc<[u8]>>,
    pub(crate) expires_at_millis: Option<u64>,
}

impl Attribute {
    #[inline]
    pub(crate) fn is_live(&self, now_millis: u64) -> bool {
        self.expires_at_millis.is_none_or(|expires_at_millis| now_millis < expires_at_millis)
    }
}

/// Blocks with values and expiries, in any order; of equal blocks the last one counts.
///
/// # Examples
///
/// ```
/// use whered_ip::{LayeredSet, MemberList};
///
/// let mut list = MemberList::new();
/// list.push("10.0.0.3-10.0.0.9".parse()?, Some(b"lab"), None);
/// list.push("10.0.0.0/8".parse()?, None, None);
/// let set = LayeredSet::build(list);
/// let found = set.longest_match("10.0.0.4".parse()?, 0).expect("it is a member");
/// assert_eq!((found.block.to_string().as_str(), found.value), ("10.0.0.3-10.0.0.9", Some(&b"lab"[..])));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MemberList {
    pub(super) ipv4: Vec<(u64, u32)>,
    pub(super) ipv6: Vec<(u128, u128, u32)>,
    pub(super) attributes: Vec<Attribute>,
    known: HashMap<Attribute, u32>,
    /// The attribute of the last request.
    last: u32,
}

impl Default for MemberList {
    fn default() -> MemberList {
        let attributes = vec![Attribute::default()];
        let known = HashMap::from([(Attribute::default(), 0)]);
        MemberList { ipv4: Vec::new(), ipv6: Vec::new(), attributes, known, last: 0 }
    }
}

impl MemberList {
    /// An empty list.
    #[must_use]
    pub fn new() -> MemberList {
        MemberList::default()
    }

    /// How many members there are, equal blocks counted each time.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ipv4.len() + self.ipv6.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a member.
    ///
    /// # Panics
    ///
    /// When there would be 2^32 different pairs of value and expiry.
    pub fn push(&mut self, block: Block, value: Option<&[u8]>, expires_at_millis: Option<u64>) {
        let number = self.attribute(value, expires_at_millis);
        self.push_with(block, number);
    }

    /// The number of a pair of value and expiry, for [`push_with`](Self::push_with).
    ///
    /// # Panics
    ///
    /// When there would be 2^32 different pairs.
    pub fn attribute(&mut self, value: Option<&[u8]>, expires_at_millis: Option<u64>) -> u32 {
        let last = &self.attributes[self.last as usize];
        if last.value.as_deref() != value || last.expires_at_millis != expires_at_millis {
            let attribute = Attribute { value: value.map(Arc::from), expires_at_millis };
            let next = u32::try_from(self.attributes.len()).expect("fewer than 2^32 are different");
            let number = *self.known.entry(attribute.clone()).or_insert(next);
            if number == next {
                self.attributes.push(attribute);
            }
            self.last = number;
        }
        self.last
    }

    /// Adds a member with a pair of value and expiry that is known by its number.
    ///
    /// # Panics
    ///
    /// When no pair has that number.
    pub fn push_with(&mut self, block: Block, number: u32) {
        assert!((number as usize) < self.attributes.len(), "{number} is no attribute's number");
        match (block.first(), block.last()) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                let key = u64::from(first.to_bits()) << 32 | u64::from(!last.to_bits());
                self.ipv4.push((key, number));
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                self.ipv6.push((first.to_bits(), !last.to_bits(), number));
            }
            // A block has one family.
            _ => {}
        }
    }

    /// Brings the members into the order of [`Block`]; of equal blocks the last one stays.
    pub fn sort(&mut self) {
        if !self.ipv4.is_sorted_by(|(a, _), (b, _)| a < b) {
            self.ipv4.sort_by_key(|(key, _)| *key);
            // The one that stays is the earlier of the two, and takes over what the later one has.
            self.ipv4.dedup_by(|later, earlier| {
                let is_equal = later.0 == earlier.0;
                if is_equal {
                    earlier.1 = later.1;
                }
                is_equal
            });
        }
        if !self.ipv6.is_sorted_by(|a, b| (a.0, a.1) < (b.0, b.1)) {
            self.ipv6.sort_by_key(|(first, last, _)| (*first, *last));
            self.ipv6.dedup_by(|later, earlier| {
                let is_equal = (later.0, later.1) == (earlier.0, earlier.1);
                if is_equal {
                    earlier.2 = later.2;
                }
                is_equal
            });
        }
    }

    /// Whether the members stand in the order of [`Block`], none of them twice.
    #[must_use]
    pub fn is_sorted(&self) -> bool {
        self.ipv4.is_sorted_by(|(a, _), (b, _)| a < b)
            && self.ipv6.is_sorted_by(|a, b| (a.0, a.1) < (b.0, b.1))
    }

    /// Adds all members of another list behind these.
    pub fn append(&mut self, other: &MemberList) {
        let numbers: Vec<u32> = other
            .attributes
            .iter()
            .map(|a| self.attribute(a.value.as_deref(), a.expires_at_millis))
            .collect();
        for (block, number) in other.iter() {
            self.push_with(block, numbers[number as usize]);
        }
    }

    /// The pairs of value and expiry that members have, by number; number 0 has neither.
    pub fn attributes(&self) -> impl ExactSizeIterator<Item = (Option<&[u8]>, Option<u64>)> {
        let shown = |attribute: &Attribute| attribute.expires_at_millis;
        self.attributes.iter().map(move |a| (a.value.as_deref(), shown(a)))
    }

    /// The members with the numbers of their attributes: IPv4 first, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = (Block, u32)> {
        let ipv4 = self
            .ipv4
            .iter()
            .map(|(key, attribute)| (Block::v4((key >> 32) as u32, !(*key as u32)), *attribute));
        let ipv6 = self.ipv6.iter();
        ipv4.chain(ipv6.map(|(first, last, attribute)| (Block::v6(*first, !last), *attribute)))
    }
}

impl fmt::Debug for MemberList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attributes: Vec<_> = self.attributes().collect();
        f.debug_map().entry(&"attributes", &attributes).entries(self.iter()).finish()
    }
}

impl PartialEq for MemberList {
    fn eq(&self, other: &MemberList) -> bool {
        (&self.ipv4, &self.ipv6, &self.attributes) == (&other.ipv4, &other.ipv6, &other.attributes)
    }
}
