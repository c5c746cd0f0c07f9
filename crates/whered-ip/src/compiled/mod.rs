//! Values by prefix, compiled: found by the longest prefix that holds an address, never changed.
//!
//! For: databases of millions of networks that are loaded once and asked all day. Not for: maps
//! that change while they are used (see `LayeredSet`).
//!
//! For each family a first table, by the leading bits of the address, and nodes for eight bits
//! each below it. Slots are 32-bit words: an answer (value and length of the prefix) or the place
//! of a node; `slot` draws them, `ipv4` and `ipv6` the first tables, `node` the nodes.
//!
//! ```text
//!             first table                          nodes, in one array of words
//! IPv4   18 bits ──► 6 bits: runs by rank  ──►     8 bits: ends of runs | slots
//!        (or a slot for each of 24 bits)
//! IPv6   32 bits by hash ──► 32 bits: a tree  ──►  8 bits ──► 8 bits ... to 128
//! ```
//!
//! All tables lie in one [`Image`]: memory in huge pages, or a mapped file that several processes
//! share. IPv4 inside IPv6 (`::ffff:0:0/96` and the like) is one slot that sends the lookup to the
//! IPv4 side. Equal nodes are kept once: a node does not know where it hangs.
//!
//! Invariants: see the files. Sections of an image are not trusted beyond that: any bytes give
//! some answer, never a panic or a read outside.
//!
//! Concurrency: plain data that never changes; any number of readers.
//!
//! Cost: lookups cost what the first tables say, one to five cache lines in IPv4, mostly up to
//! three. Memory: 1 MiB (64 MiB in the fast form) if there is IPv4, and some 5 bytes an IPv4
//! network and 12 an IPv6 network. `docs/design/ip-index.md` has the measurements.

mod flatten;
mod ipv4;
mod ipv6;
mod lookup;
mod node;
mod prefetch;
mod slot;

use std::fmt;
use std::ops::Range;

use crate::Prefix;
use crate::image::{Image, Section, bytes_of};
use crate::simd;
use crate::simd::Path;
use crate::tables::LANES;
use flatten::{OrderedEntries, flatten};
use ipv4::Ipv4Table;
use ipv6::Ipv6Table;

pub use flatten::IndexError;
pub use prefetch::Items;

/// Values by prefix, found by the longest prefix that holds an address: compiled once from
/// prefixes in order, and never changed.
///
/// IPv4 and IPv6 are kept apart, but for prefixes that were built as [`Target::Ipv4`].
///
/// # Examples
///
/// ```
/// use whered_ip::{IndexForm, Match, PrefixIndex};
///
/// let networks = [
///     ("192.0.2.0/24".parse()?, 7),
///     ("192.0.2.128/25".parse()?, 8),
///     ("2001:db8::/32".parse()?, 9),
/// ];
/// let index = PrefixIndex::build(IndexForm::Compact, networks)?;
/// let found = index.lookup("192.0.2.200".parse()?);
/// assert_eq!(found, Some(Match { value: 8, length_bits: 25 }));
/// assert_eq!(index.lookup("192.0.3.1".parse()?), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PrefixIndex {
    ipv4: Ipv4Table,
    ipv6: Ipv6Table,
    /// Answers with wide values, IPv4's and IPv6's.
    wide: [Section<u64>; 2],
    path: Path,
}

/// The trade-off of an index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum IndexForm {
    /// Memory: some 5 bytes an IPv4 network of a city-scale database, and one read to three.
    #[default]
    Compact,
    /// Time in IPv4: one read for networks of up to 24 bits, at 60 MiB more.
    Fast,
}

/// The target of a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// This value.
    Value(u32),
    /// IPv4: the 32 bits behind the prefix are an IPv4 address, and what IPv4 answers for it
    /// counts, the length of the prefix added to that of the match; bits behind those do not
    /// count. Nothing is copied. An address that IPv4 does not know has no match, whatever prefix
    /// lies around this one; prefixes inside this one go before it. MaxMind's databases alias
    /// `::ffff:0:0/96`, `2002::/16` and `2001::/32` in this way, and hold IPv4 under `::/96`.
    Ipv4,
}

impl From<u32> for Target {
    fn from(value: u32) -> Target {
        Target::Value(value)
    }
}

/// The result of a lookup: the value and the length of the longest prefix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Match {
    /// The value that the prefix was given.
    pub value: u32,
    /// The length of the prefix, 0 to 32 or 0 to 128 bits.
    pub length_bits: u8,
}

impl Match {
    fn packed(self) -> u64 {
        u64::from(self.length_bits) << 32 | u64::from(self.value)
    }

    fn unpacked(packed: u64) -> Match {
        Match { value: packed as u32, length_bits: (packed >> 32) as u8 }
    }
}

/// How many sections an index has in an image.
const SECTIONS: usize = 4 + ipv6::SECTIONS;

impl PrefixIndex {
    /// Builds the index from prefixes with their values, in the order of [`Prefix`], each once.
    ///
    /// Prefixes may nest; the longest that holds an address answers. An IPv6 prefix may stand for
    /// IPv4 instead of having a value: see [`Target::Ipv4`]. Linear time, about 0.1 µs a prefix;
    /// memory is twice that of the result while it is laid out.
    ///
    /// # Errors
    ///
    /// When the prefixes are out of order or one comes twice, when one cannot stand for IPv4, and
    /// when the index gets too large (see [`IndexError::TooLarge`]; some 50 million networks).
    pub fn build<T: Into<Target>>(
        form: IndexForm,
        entries: impl IntoIterator<Item = (Prefix, T)>,
    ) -> Result<Self, IndexError> {
        let mut entries = OrderedEntries::new(entries.into_iter()).peekable();
        let (first4, nodes4, wide4);
        match form {
            IndexForm::Compact => {
                let mut flat = flatten::<ipv4::Blocks>(&mut entries, true)?;
                wide4 = std::mem::take(&mut flat.wide);
                (first4, nodes4) = flat.into_tables();
            }
            IndexForm::Fast => {
                let mut flat = flatten::<ipv4::Cells>(&mut entries, true)?;
                wide4 = std::mem::take(&mut flat.wide);
                (first4, nodes4) = flat.into_tables();
            }
        }
        let mut flat = flatten::<ipv6::Runs>(&mut entries, false)?;
        if let Some(Err(error)) = entries.next() {
            return Err(error);
        }
        let wide6 = std::mem::take(&mut flat.wide);
        let position = flat.count;
        let tables6 = flat.into_tables().ok_or(IndexError::TooLarge { position })?;
        let mut sections = vec![bytes_of(&first4), bytes_of(&nodes4)];
        sections.extend(tables6.sections());
        sections.extend([bytes_of(&wide4), bytes_of(&wide6)]);
        let (image, places) = Image::with_sections(&sections);
        Ok(Self::from_sections(&image, &places).expect("the sections were laid out just now"))
    }

    /// The index whose sections lie in an image at these places, in the order that
    /// [`sections`](Self::sections) gives them; `None` if they have no possible number or sizes.
    ///
    /// Contents are not checked: of an image with other contents answers are wrong, no more.
    #[must_use]
    pub fn from_sections(image: &Image, places: &[Range<usize>]) -> Option<Self> {
        let places: &[Range<usize>; SECTIONS] = places.try_into().ok()?;
        let [first4, nodes4, ipv6 @ .., wide4, wide6] = places;
        Some(PrefixIndex {
            ipv4: Ipv4Table::from_sections(image, &[first4.clone(), nodes4.clone()])?,
            ipv6: Ipv6Table::from_sections(image, ipv6)?,
            wide: [image.section(wide4.clone())?, image.section(wide6.clone())?],
            path: simd::path(),
        })
    }

    /// The tables' bytes, to be kept in a file. They read back on machines of the same byte order.
    #[must_use]
    pub fn sections(&self) -> Vec<&[u8]> {
        let mut sections = Vec::with_capacity(SECTIONS);
        sections.extend(self.ipv4.sections());
        sections.extend(self.ipv6.sections());
        sections.extend(self.wide.each_ref().map(|wide| bytes_of(wide)));
        sections
    }

    /// Which form the index has. One without IPv4 prefixes is compact.
    #[must_use]
    pub fn form(&self) -> IndexForm {
        self.ipv4.form()
    }

    /// How many bytes the tables take in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.sections().iter().map(|section| section.len()).sum()
    }
}

impl fmt::Debug for PrefixIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefixIndex")
            .field("form", &self.form())
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}
