//! Values by prefix, compiled: found by the longest prefix that holds an address, never changed.
//!
//! For: databases of millions of networks that are loaded once and asked all day. Not for: maps
//! that change while they are used (see `PrefixMap`).
//!
//! For each family a first table, indexed by the first bits of the address, and nodes for eight
//! bits each below it. Slots are 32-bit words: an answer (value and length of the prefix) or the
//! place of a node; `node` draws both.
//!
//! ```text
//!           first table                       nodes, in one array of words
//!           2^16 slots (2^24: IPv4, fast)     +------+-------------------+
//! 0.0       | nothing          |         +--> | ends | slot slot slot    |  192.0.x
//! ...       |                  |         |    +------+--|----------------+
//! 192.0     | node ------------+---------+              |  192.0.2.x
//! 192.1     | 17, length 12    |              +------+<-+----------------+
//! ...       |                  |              | ends | slot slot         |
//! 255.255   | nothing          |              +------+-------------------+
//!           bits 0-15 (0-23)                  bits 16-23, 24-31, and so on to 128 in IPv6
//! ```
//!
//! A node's slots stand right behind the ends of its runs, so that a small node, as most are,
//! costs one cache line rather than a bitmap here and a slot there. Equal nodes are kept once,
//! also across depths: a node does not know where it hangs.
//!
//! IPv4 inside IPv6 (`::ffff:0:0/96` and the like) is one slot that sends the lookup to the IPv4
//! side.
//!
//! Invariants: a first table is empty (no prefix in the family) or complete; no way through nodes
//! is longer than the address; nodes behind a slot were written before it, so there are no cycles;
//! more in `node`.
//!
//! Concurrency: plain data that never changes; any number of readers.
//!
//! Cost: lookup one slot of the first table and a step for each further octet that the answer
//! needs: at most 2 in IPv4 (1 in the fast form), 14 in IPv6, mostly 2 to 4 in real tables. Memory
//! 256 KiB a family that is not empty (64 MiB for IPv4 in the fast form) and some 5 bytes an IPv4
//! network, 7 an IPv6 network. `docs/design/ip-index.md` has the measurements.

mod batch;
mod build;
mod lookup;
mod node;

use std::fmt;

pub use build::IndexError;

/// Values by prefix, found by the longest prefix that holds an address: compiled once from
/// prefixes in order, and never changed.
///
/// Two forms with one face: [`CompactIndex`] and [`FastIndex`]. They differ in the number of
/// leading bits of an IPv4 address that index the first table, `FIRST_BITS4`: 16 or 24.
///
/// IPv4 and IPv6 are kept apart, unless the index was built with aliases.
///
/// # Examples
///
/// ```
/// use whered_ip::{CompactIndex, Match};
///
/// let index = CompactIndex::build([
///     ("192.0.2.0/24".parse()?, 7),
///     ("192.0.2.128/25".parse()?, 8),
///     ("2001:db8::/32".parse()?, 9),
/// ])?;
/// let found = index.lookup("192.0.2.200".parse()?);
/// assert_eq!(found, Some(Match { value: 8, length_bits: 25 }));
/// assert_eq!(index.lookup("192.0.3.1".parse()?), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PrefixIndex<const FIRST_BITS4: u32> {
    v4: Trie<FIRST_BITS4>,
    v6: Trie<16>,
}

/// The form that saves memory: some 5 bytes a network of a city-scale database.
pub type CompactIndex = PrefixIndex<16>;

/// The form that saves time in IPv4: one read for networks of up to 24 bits, at 64 MiB more.
pub type FastIndex = PrefixIndex<24>;

/// What a lookup found: the value of the longest prefix, and how long that prefix is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Match {
    /// The value that the prefix was given.
    pub value: u32,
    /// The length of the prefix, 0 to 32 or 0 to 128 bits.
    pub length_bits: u8,
}

/// The tables of one family.
#[derive(Clone)]
struct Trie<const FIRST_BITS: u32> {
    /// Slots by the first bits of the address; empty if the family has no prefix.
    first: Vec<u32>,
    /// The nodes, see `node`.
    nodes: Vec<u32>,
    /// Answers whose values are too wide for a slot.
    wide: Vec<Match>,
}

impl<const FIRST_BITS: u32> Trie<FIRST_BITS> {
    /// From how many runs on a node gets a slot for each cell, which saves the rank.
    ///
    /// A bitmap with this many slots is not much smaller than 256 slots; the fast form pays more.
    const DIRECT_FROM_RUNS: usize = if FIRST_BITS == 16 { 224 } else { 64 };

    fn empty() -> Self {
        Trie { first: Vec::new(), nodes: Vec::new(), wide: Vec::new() }
    }

    fn memory_bytes(&self) -> usize {
        self.first.capacity() * size_of::<u32>()
            + self.nodes.capacity() * size_of::<u32>()
            + self.wide.capacity() * size_of::<Match>()
    }
}

impl<const FIRST_BITS4: u32> PrefixIndex<FIRST_BITS4> {
    /// How many bytes the index takes in memory.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.v4.memory_bytes() + self.v6.memory_bytes()
    }
}

impl<const FIRST_BITS4: u32> fmt::Debug for PrefixIndex<FIRST_BITS4> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefixIndex")
            .field("first_bits4", &FIRST_BITS4)
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}
