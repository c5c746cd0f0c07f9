//! Values by prefix, found by the longest prefix that holds an address: the live form.
//!
//! For: maps that change while they are used. Not for: the last nanosecond of lookup on a table
//! that never changes; that is what compiled forms are for.
//!
//! One multibit trie per family with a stride of eight bits: each level of nodes consumes one
//! octet of the address. A node numbers the prefixes that end inside its octet as in Knuth's
//! allotment routing tables (ART), see `base_index`, and keeps them in a packed vector beside a
//! bit set; children likewise.
//!
//! ```text
//!                        nodes (a slab)                          entries (a slab)
//!              +--------------------------------+        +------------------------+
//! 0: IPv4 root | children  256 bits + ranks     |        | 0: 10.0.0.0/8   value  |
//! 1: IPv6 root | links     [u32] one a child  --+------> | 1: 10.1.0.0/16  value  |
//! 2: ...       |- - - - - 64 bytes - - - - - - -|        | 2: (free)              |
//!              | prefixes  256 bits + ranks     |        | 3: 2001:db8::/32 value |
//!              | entries   [u32] one a prefix --+------> | ...                    |
//!              +--------------------------------+        +------------------------+
//!
//! 10.0.0.0/8, 10.1.0.0/16, 10.1.2.0/23, 192.0.2.1/32 (entries 0 1 2 3):
//!
//! root --10--> node --1--> node            node at "10.":   prefixes {/0 of it: entry 0}
//!   \--192--> entry 3                      node at "10.1.": prefixes {/0: entry 1,
//!                                                                     /7 of octet 2: entry 2}
//! ```
//!
//! A child is either a node or a single entry: a subtree that would hold one prefix only is that
//! entry, whatever its length. A lone IPv6 host costs one link and one entry, not sixteen nodes.
//!
//! Invariants:
//!
//! - a prefix of length L ends in the node at depth L / 8 under index `1 << (L % 8) | high bits`,
//!   or hangs as an entry from a node above that one;
//! - below every node except the two roots there are at least two entries, so that the shape
//!   depends only on the prefixes held, not on their history;
//! - no node is deeper than 3 (IPv4) or 15 (IPv6): two different prefixes that share all octets
//!   before the last one part there at the latest;
//! - `links.len()` is the number of child bits, `entries.len()` that of prefix bits.
//!
//! Concurrency: plain data; readers share, a writer is alone.
//!
//! Cost, with d ≤ 4 (IPv4) or 16 (IPv6) nodes on the way: lookup d node reads and one entry
//! read; insert and remove the same plus shifting at most 255 numbers; iteration linear; memory
//! 128 bytes a node and 20 bytes plus the value an entry, about.

mod base_index;
mod iter;
mod lookup;
#[doc(hidden)]
pub mod naive;
mod node;
mod ranked_bits;
mod slab;
mod update;

use std::fmt;
use std::net::IpAddr;

use crate::Prefix;
pub use iter::Iter;
pub use lookup::AllMatches;
use node::Node;
use slab::Slab;

/// Values by prefix, found by the longest prefix that holds an address.
///
/// IPv4 and IPv6 prefixes stand side by side and never meet; an IPv4-mapped IPv6 address is an
/// IPv6 address here.
///
/// # Examples
///
/// ```
/// use whered_ip::PrefixMap;
///
/// let mut sites = PrefixMap::new();
/// sites.insert("0.0.0.0/0".parse()?, "anywhere");
/// sites.insert("198.51.100.0/24".parse()?, "fra");
/// let address = "198.51.100.7".parse().expect("a fixed address");
///
/// let (prefix, site) = sites.longest_match(address).expect("the default route matches all");
/// assert_eq!((prefix.to_string().as_str(), *site), ("198.51.100.0/24", "fra"));
///
/// sites.remove(&prefix);
/// assert_eq!(sites.longest_match(address).map(|(_, site)| *site), Some("anywhere"));
/// # Ok::<(), whered_ip::PrefixError>(())
/// ```
#[derive(Clone)]
pub struct PrefixMap<V> {
    nodes: Slab<Node>,
    entries: Slab<Entry<V>>,
}

/// A prefix that is held, with its value.
#[derive(Clone)]
struct Entry<V> {
    prefix: Prefix,
    value: V,
}

/// Where the IPv4 trie starts in the slab of nodes.
const ROOT_IPV4: u32 = 0;
/// Where the IPv6 trie starts in the slab of nodes.
const ROOT_IPV6: u32 = 1;

impl<V> PrefixMap<V> {
    /// An empty map: two empty roots.
    pub fn new() -> Self {
        let mut nodes = Slab::new();
        assert_eq!(nodes.insert(Node::default()), ROOT_IPV4, "a new slab starts at 0");
        assert_eq!(nodes.insert(Node::default()), ROOT_IPV6, "a slab counts upwards");
        PrefixMap { nodes, entries: Slab::new() }
    }

    /// How many prefixes are held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no prefix is held.
    pub fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    /// About how many bytes the map itself takes, without what the values point to.
    ///
    /// Constant time: slabs by their capacity; the vectors inside nodes by the number of slots
    /// that must exist (one an entry, one a node that is no root), half as many spare, and 32
    /// bytes of allocator overhead a node.
    pub fn memory_bytes(&self) -> usize {
        let slots = self.entries.len() + self.nodes.len() - 2;
        size_of::<Self>()
            + self.nodes.memory_bytes()
            + self.entries.memory_bytes()
            + slots * size_of::<u32>() * 3 / 2
            + self.nodes.len() * 32
    }
}

impl<V> Default for PrefixMap<V> {
    fn default() -> Self {
        PrefixMap::new()
    }
}

impl<V: fmt::Debug> fmt::Debug for PrefixMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<V: PartialEq> PartialEq for PrefixMap<V> {
    /// Two maps are equal when they hold the same prefixes with equal values.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<V: Eq> Eq for PrefixMap<V> {}

impl<V> Extend<(Prefix, V)> for PrefixMap<V> {
    fn extend<I: IntoIterator<Item = (Prefix, V)>>(&mut self, items: I) {
        for (prefix, value) in items {
            self.insert(prefix, value);
        }
    }
}

impl<V> FromIterator<(Prefix, V)> for PrefixMap<V> {
    /// Collects prefixes; of equal ones the last value stays.
    fn from_iter<I: IntoIterator<Item = (Prefix, V)>>(items: I) -> Self {
        let mut map = PrefixMap::new();
        map.extend(items);
        map
    }
}

/// The octets of an address in network order; IPv4 fills the first four, the rest is zero.
#[inline]
fn octets_of(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&v4.octets());
            octets
        }
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The root of the trie for this family.
#[inline]
fn root_of(is_ipv4: bool) -> u32 {
    if is_ipv4 { ROOT_IPV4 } else { ROOT_IPV6 }
}
