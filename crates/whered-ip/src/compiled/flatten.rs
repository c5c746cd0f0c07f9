//! From prefixes in order to runs of cells with one slot each, in one pass.
//!
//! For: flattening nested prefixes into runs of equal answers, and runs of the last octets into
//! nodes. Not for: the first tables, which take the runs (see `ipv4`, `ipv6`), and how nodes are
//! written (see `node`).
//!
//! Both families are flattened by the same code: an IPv4 address stands in the upper 32 bits of
//! the 128. The prefixes that hold the current address are a stack, outermost first:
//!
//! ```text
//! 10.0.0.0/8 a      stack: a       10.0.0.0 -         nothing written yet
//! 10.1.0.0/16 b     stack: a b     10.0.0.0 - 10.0.255.255 is a
//! 11.0.0.0/8 c      stack: c       10.1.0.0/16 is b, then to 10.255.255.255 is a
//! ```
//!
//! What comes out is appended to the first table where it fills whole cells of it, and else to
//! the one open node of each level below; a node that is full is written, and its place is
//! appended to the level above:
//!
//! ```text
//! level 0   the first table   |cell|cell|...           cells of 2^(128 - first bits) addresses
//! level 1   an open node         |run |run|...         cells of 256 times fewer
//! level 2   an open node              |run|...
//!                                     ^ cursor: everything before it is written
//! ```
//!
//! Invariants: the cursor lies where the deepest open node that is not empty goes on, and all
//! nodes below the level to whose cells it is aligned are empty; prefixes come in strictly
//! rising order.
//!
//! Cost: linear in the prefixes, with two appends a prefix and one node a level of each append at
//! most; memory is that of the result and one 64-bit word for each node.

use std::collections::HashMap;
use std::fmt;
use std::iter::Peekable;
use std::net::IpAddr;

use super::node::NodePool;
use super::slot::Slot;
use super::{Match, Target};
use crate::Prefix;

/// Why prefixes make no index.
///
/// # Examples
///
/// ```
/// use whered_ip::{IndexForm, PrefixIndex};
///
/// let entries = [("10.0.0.0/8".parse()?, 1), ("9.0.0.0/8".parse()?, 2)];
/// let error = PrefixIndex::build(IndexForm::Compact, entries).expect_err("9 is before 10");
/// assert_eq!(error.position(), 1);
/// # Ok::<(), whered_ip::PrefixError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IndexError {
    /// A prefix does not come after the one before it in the order of [`Prefix`].
    OutOfOrder {
        /// How many prefixes came before it.
        position: usize,
        /// The prefix.
        prefix: Prefix,
    },
    /// A prefix that stands for IPv4 is no IPv6 prefix of at most 96 bits.
    Alias {
        /// How many prefixes came before it.
        position: usize,
        /// The prefix.
        prefix: Prefix,
    },
    /// More than 2^28 words of nodes in a family, or 2^23 different answers with values of 2^23
    /// and more.
    TooLarge {
        /// How many prefixes fitted.
        position: usize,
    },
}

impl IndexError {
    /// How many prefixes came before the one that did not go in.
    #[must_use]
    pub fn position(&self) -> usize {
        match self {
            IndexError::OutOfOrder { position, .. }
            | IndexError::Alias { position, .. }
            | IndexError::TooLarge { position } => *position,
        }
    }
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IndexError::OutOfOrder { position, prefix } => write!(
                f,
                "prefix number {position}, {prefix}, does not come after the one before it: \
                 allowed is IPv4 before IPv6, then by first address, then shorter before longer, \
                 each once"
            ),
            IndexError::Alias { position, prefix } => write!(
                f,
                "prefix number {position}, {prefix}, cannot stand for IPv4: allowed is an IPv6 \
                 prefix of at most 96 bits"
            ),
            IndexError::TooLarge { position } => {
                write!(f, "the index is full after {position} prefixes: nodes are at most 1 GiB")
            }
        }
    }
}

impl std::error::Error for IndexError {}

/// Entries with their number, stopped by the first one out of order.
pub(super) struct OrderedEntries<I> {
    entries: I,
    position: usize,
    before: Option<Prefix>,
}

/// An entry with its number, or why the entries end here.
pub(super) type Entry = Result<(usize, Prefix, Target), IndexError>;

impl<I> OrderedEntries<I> {
    pub(super) fn new(entries: I) -> OrderedEntries<I> {
        OrderedEntries { entries, position: 0, before: None }
    }
}

impl<T: Into<Target>, I: Iterator<Item = (Prefix, T)>> Iterator for OrderedEntries<I> {
    type Item = Entry;

    fn next(&mut self) -> Option<Self::Item> {
        let (prefix, target) = self.entries.next()?;
        let target = target.into();
        let position = self.position;
        if self.before.is_some_and(|before| before >= prefix) {
            return Some(Err(IndexError::OutOfOrder { position, prefix }));
        }
        if target == Target::Ipv4 && (prefix.is_ipv4() || prefix.length_bits() > 96) {
            return Some(Err(IndexError::Alias { position, prefix }));
        }
        self.position += 1;
        self.before = Some(prefix);
        Some(Ok((position, prefix, target)))
    }
}

/// A table by the leading bits of an address, which receives the runs of a family.
pub(super) trait FirstTable: Default {
    /// How many leading bits choose a cell; the rest is a multiple of eight.
    const BITS: u32;

    /// The next `cells` cells have this slot; equal slots may come one after the other. `None` when
    /// the nodes are used up.
    fn append(&mut self, pool: &mut NodePool, cells: u128, slot: Slot) -> Option<()>;
}

/// The tables of one family, before they are laid out in memory.
#[derive(Default)]
pub(super) struct Flat<F> {
    pub(super) first: F,
    pub(super) nodes: Vec<u32>,
    /// Answers whose values are too wide for a slot, packed as [`Match::packed`] does.
    pub(super) wide: Vec<u64>,
    /// How many entries there were, those of the family before it included.
    pub(super) count: usize,
}

/// Takes the entries of one family off the front and makes its tables; all empty if there are
/// none.
pub(super) fn flatten<F: FirstTable>(
    entries: &mut Peekable<impl Iterator<Item = Entry>>,
    is_ipv4: bool,
) -> Result<Flat<F>, IndexError> {
    let mut flat = Flattener::<F>::new();
    let mut count = 0;
    let ours = |item: &Entry| match item {
        Ok((_, prefix, _)) => prefix.is_ipv4() == is_ipv4,
        Err(_) => true,
    };
    while let Some(item) = entries.next_if(ours) {
        let (position, prefix, target) = item?;
        count = position + 1;
        let full = IndexError::TooLarge { position };
        let slot = flat.slot(target, prefix.length_bits()).ok_or(full)?;
        flat.enter(&prefix, slot).ok_or(full)?;
    }
    let flat = flat.finish().ok_or(IndexError::TooLarge { position: count })?;
    Ok(Flat { count, ..flat })
}

/// Makes runs that do not overlap from prefixes that nest.
struct Flattener<F> {
    /// The prefixes that hold the current place, each inside the one before it.
    around: Vec<(u128, Slot)>,
    levels: Levels<F>,
    wide: Vec<u64>,
    wide_places: HashMap<(u32, u8), Slot>,
}

impl<F: FirstTable> Flattener<F> {
    fn new() -> Self {
        Flattener {
            around: Vec::new(),
            levels: Levels::new(),
            wide: Vec::new(),
            wide_places: HashMap::new(),
        }
    }

    /// The slot for an answer; `None` when there are too many wide ones.
    fn slot(&mut self, target: Target, length_bits: u8) -> Option<Slot> {
        let value = match target {
            Target::Ipv4 => return Some(Slot::alias(length_bits)),
            Target::Value(value) => value,
        };
        if let Some(slot) = Slot::narrow(value, length_bits) {
            return Some(slot);
        }
        if let Some(slot) = self.wide_places.get(&(value, length_bits)) {
            return Some(*slot);
        }
        let slot = Slot::wide(self.wide.len())?;
        self.wide.push(Match { value, length_bits }.packed());
        self.wide_places.insert((value, length_bits), slot);
        Some(slot)
    }

    /// Goes on to where a prefix begins; `None` when the nodes are used up.
    fn enter(&mut self, prefix: &Prefix, slot: Slot) -> Option<()> {
        let first = left_aligned(prefix.address());
        let last = first | u128::MAX.checked_shr(u32::from(prefix.length_bits())).unwrap_or(0);
        while let Some((end, slot)) = self.around.pop_if(|(end, _)| *end < first) {
            self.levels.append_to(end, slot)?;
        }
        if first > 0 {
            let around = self.around.last().map_or(Slot::NOTHING, |(_, slot)| *slot);
            self.levels.append_to(first - 1, around)?;
        }
        self.around.push((last, slot));
        Some(())
    }

    /// Closes all prefixes; `None` when the nodes are used up.
    fn finish(mut self) -> Option<Flat<F>> {
        if self.around.is_empty() {
            return Some(Flat::default());
        }
        while let Some((last, slot)) = self.around.pop() {
            self.levels.append_to(last, slot)?;
        }
        self.levels.append_to(u128::MAX, Slot::NOTHING)?;
        let Levels { first, pool, .. } = self.levels;
        Some(Flat { first, nodes: pool.finish(), wide: self.wide, count: 0 })
    }
}

/// The first table and one open node for each level below it.
struct Levels<F> {
    first: F,
    open: Vec<OpenNode>,
    pool: NodePool,
    /// The first address that is not written yet; `None` behind the last one.
    cursor: Option<u128>,
}

/// A node whose cells are known from the first up to some cell.
struct OpenNode {
    count: usize,
    ends: [u8; 256],
    slots: [u32; 256],
}

impl OpenNode {
    /// The next cells, up to this one, have this slot.
    #[inline]
    fn push(&mut self, end: u8, slot: Slot) {
        if self.count == 0 || self.slots[self.count - 1] != slot.0 {
            self.slots[self.count] = slot.0;
            self.count += 1;
        }
        self.ends[self.count - 1] = end;
    }
}

impl<F: FirstTable> Levels<F> {
    fn new() -> Self {
        Levels { first: F::default(), open: Vec::new(), pool: NodePool::new(), cursor: Some(0) }
    }

    /// How many bits of an address choose inside of a cell of this level.
    #[inline]
    fn cell_bits(level: u32) -> u32 {
        128 - F::BITS - 8 * level
    }

    /// Everything from the cursor to `last`, if that is not behind it already, has this slot;
    /// `None` when the nodes are used up.
    fn append_to(&mut self, last: u128, slot: Slot) -> Option<()> {
        while let Some(cursor) = self.cursor.filter(|cursor| *cursor <= last) {
            // The largest cells that begin at the cursor and end at `last` or before.
            let more = last - cursor;
            let fits = more.checked_add(1).map_or(128, |span| 127 - span.leading_zeros());
            let largest = fits.min(cursor.trailing_zeros());
            let level = Self::cell_bits(0).saturating_sub(largest).div_ceil(8);
            let bits = Self::cell_bits(level);
            let cells = (more >> bits) + u128::from(more & mask(bits) == mask(bits));
            if level == 0 {
                self.cursor = cursor.checked_add((cells - 1) << bits)?.checked_add(1 << bits);
                self.first.append(&mut self.pool, cells, slot)?;
                continue;
            }
            let cell = (cursor >> bits) as u8;
            let more_cells = (cells - 1).min(u128::from(255 - cell));
            self.cursor = cursor.checked_add(more_cells << bits)?.checked_add(1 << bits);
            self.push(level, cell + more_cells as u8, slot)?;
        }
        Some(())
    }

    /// Pushes cells into the open node of a level; writes it and those above if they get full.
    fn push(&mut self, level: u32, end: u8, slot: Slot) -> Option<()> {
        let (mut level, mut end, mut slot) = (level as usize, end, slot);
        while self.open.len() < level {
            self.open.push(OpenNode { count: 0, ends: [0; 256], slots: [0; 256] });
        }
        while level > 0 {
            let node = &mut self.open[level - 1];
            node.push(end, slot);
            if end != 255 {
                return Some(());
            }
            let only = Slot(node.slots[0]);
            slot = if node.count == 1 && !only.is_child() {
                only
            } else {
                self.pool.add(&node.ends[..node.count], &node.slots[..node.count])?
            };
            node.count = 0;
            level -= 1;
            // The cell that was just finished is the one before the cursor.
            let finished = self.cursor.unwrap_or(0).wrapping_sub(1);
            end = (finished >> Self::cell_bits(level as u32)) as u8;
        }
        self.first.append(&mut self.pool, 1, slot)
    }
}

/// The lowest `bits` bits; at most 127.
#[inline]
fn mask(bits: u32) -> u128 {
    (1 << bits) - 1
}

/// The address in the upper bits of 128, IPv4 in the upper 32.
#[inline]
fn left_aligned(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}
