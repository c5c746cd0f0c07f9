//! An immutable set that is compiled for lookups, which return numbers.
//!
//! Not for: changes (`LayeredSet`), names, or values and expiries, which the caller finds by the
//! number.
//!
//! ```text
//! blocks, smallest wins ──► elementary intervals ──┬─ IPv4 ──► k-ary tree, upper table, or rank by /24
//!  (prefixes and ranges)                           └─ IPv6 ──► k-ary tree, or stages
//! ```
//!
//! Which of the IPv4 forms it is follows from the data alone; [`CompiledSet::explain`] says which
//! and why. `docs/design/prefix-sets.md` has the measurements.
//!
//! Concurrency: never changes; any number of readers, no locks. Cost: see the forms.
use std::fmt;
use std::net::IpAddr;

use super::Block;
use super::address6::Address6;
use super::intervals::{ANSWER_MAX, Intervals4, Intervals6};
use super::rank::{self, Rank4};
use super::stages::{self, Stages6};
use super::sweep::{Intervals, NOTHING, Span};
use super::upper_table::UpperTable4;
use crate::simd::Compare;
use crate::tables::{LANES, prefetch_all_ahead};
use whered_simd::{Path, dispatch};

/// From how many intervals on the table of upper halves pays; below, the tree has two levels.
const UPPER_TABLE_INTERVALS_MIN: usize = 17 * 16;
/// From how many intervals on the bit map of all /24 pays: below, the tree is as near and smaller.
const RANK_INTERVALS_MIN: usize = 1 << 18;
/// The bit map needs that at most one interval in this many begins inside a /24.
const RANK_DEEP_SHARE: usize = 8;
/// From how many intervals of IPv6 on stages of 32 and 16 bits pay; below, the tree has three
/// levels.
const STAGES_INTERVALS_MIN: usize = 8 * 81;
/// Stages need that at most one interval in this many begins inside a /48.
const STAGES_DEEP_SHARE: usize = 8;

/// Blocks of addresses compiled into the form that suits them; of the blocks that hold an address
/// the smallest one answers, with a number that the caller gave it.
///
/// # Examples
///
/// ```
/// use whered_ip::{Block, CompiledSet};
///
/// let wide: Block = "10.0.0.0/8".parse()?;
/// let narrow: Block = "10.0.0.5-10.0.0.9".parse()?;
/// let set = CompiledSet::build([(wide, 1), (narrow, 2)]);
/// assert_eq!(set.lookup("10.0.0.7".parse()?), Some(2));
/// assert_eq!(set.lookup("10.0.0.10".parse()?), Some(1));
/// assert_eq!(set.lookup("11.0.0.0".parse()?), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CompiledSet {
    ipv4: Ipv4Form,
    ipv6: Ipv6Form,
    blocks: usize,
    /// Why IPv4 has its form.
    reason: String,
    path: Path,
}

enum Ipv4Form {
    Intervals(Intervals4),
    UpperTable(UpperTable4),
    Rank(Rank4),
}

enum Ipv6Form {
    Intervals(Intervals6),
    Stages(Stages6),
}

/// The form of the IPv4 part of a [`CompiledSet`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CompiledForm {
    /// Elementary intervals in a 17-way tree.
    Intervals,
    /// Elementary intervals by the upper half of the address, with sorted lists of lower halves.
    UpperTable,
    /// Rank in a bit map of all /24.
    Rank,
}

/// Blocks of both families, as they are compiled.
#[derive(Default)]
pub(crate) struct Spans {
    pub(crate) ipv4: Vec<Span<u32>>,
    pub(crate) ipv6: Vec<Span<u128>>,
}

impl Spans {
    pub(crate) fn push(&mut self, block: Block, answer: u32) {
        match (block.first(), block.last()) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                let (first, last) = (first.to_bits(), last.to_bits());
                self.ipv4.push(Span { first, last, answer });
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                let (first, last) = (first.to_bits(), last.to_bits());
                self.ipv6.push(Span { first, last, answer });
            }
            // A block has one family.
            _ => {}
        }
    }
}

impl CompiledSet {
    /// Compiles blocks with their numbers: 1 to 2^31 - 1.
    ///
    /// Blocks may nest and overlap: the smallest one answers, of equally small ones the one that
    /// begins later, of equal ones the last one given. Neighbours with the same number are one
    /// interval inside, so that a set asked for membership only gets one number for all blocks.
    /// About 50 ns a block, sorted; memory 24 bytes (IPv6: 80) a block more meanwhile.
    ///
    /// # Panics
    ///
    /// When a number is zero or too large.
    #[must_use]
    pub fn build(blocks: impl IntoIterator<Item = (Block, u32)>) -> CompiledSet {
        Self::build_as(None, blocks)
    }

    /// As [`build`](Self::build), in the given form of IPv4 rather than the one that suits it.
    ///
    /// # Panics
    ///
    /// As [`build`](Self::build).
    #[must_use]
    pub fn build_as(
        form: Option<CompiledForm>,
        blocks: impl IntoIterator<Item = (Block, u32)>,
    ) -> CompiledSet {
        let mut spans = Spans::default();
        for (block, answer) in blocks {
            assert!((1..=ANSWER_MAX).contains(&answer), "answers are 1 to 2^31 - 1, not {answer}");
            spans.push(block, answer);
        }
        Self::of_spans(form, spans)
    }

    /// Compiles blocks for membership only: all of them answer 1.
    #[must_use]
    pub fn members(blocks: impl IntoIterator<Item = Block>) -> CompiledSet {
        Self::build(blocks.into_iter().map(|block| (block, 1)))
    }

    pub(crate) fn of_spans(form: Option<CompiledForm>, spans: Spans) -> CompiledSet {
        let blocks = spans.ipv4.len() + spans.ipv6.len();
        let ipv4 = Intervals::of(spans.ipv4);
        let ipv6 = Ipv6Form::build(&Intervals::of(spans.ipv6));
        let (suited, mut reason) = suited_form(&ipv4);
        let form = form.unwrap_or(suited);
        if form != suited {
            reason = "it was asked for".to_owned();
        }
        let ipv4 = match form {
            CompiledForm::Intervals => Ipv4Form::Intervals(Intervals4::build(&ipv4)),
            CompiledForm::UpperTable => Ipv4Form::UpperTable(UpperTable4::build(&ipv4)),
            CompiledForm::Rank => Ipv4Form::Rank(Rank4::build(&ipv4)),
        };
        CompiledSet { ipv4, ipv6, blocks, reason, path: whered_simd::path() }
    }

    /// The form of the IPv4 part.
    #[must_use]
    pub fn form(&self) -> CompiledForm {
        match &self.ipv4 {
            Ipv4Form::Intervals(_) => CompiledForm::Intervals,
            Ipv4Form::UpperTable(_) => CompiledForm::UpperTable,
            Ipv4Form::Rank(_) => CompiledForm::Rank,
        }
    }

    /// How many blocks it was compiled from.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks
    }

    /// Whether it was compiled from no blocks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// How many bytes the tables take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let ipv4 = match &self.ipv4 {
            Ipv4Form::Intervals(intervals) => intervals.memory_bytes(),
            Ipv4Form::UpperTable(form) => form.memory_bytes(),
            Ipv4Form::Rank(rank) => rank.memory_bytes(),
        };
        ipv4 + self.ipv6.memory_bytes()
    }

    /// Form, size and reason for people, one line a family.
    #[must_use]
    pub fn explain(&self) -> String {
        let path = match self.path {
            Path::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Path::Avx2(_) => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Path::Avx512(_) => "AVX-512",
        };
        let reason = &self.reason;
        let ipv4 = match &self.ipv4 {
            Ipv4Form::Intervals(form) => format!(
                "wide tree of {} intervals, {} levels of 17 ways, {path}, {} bytes, because {reason}",
                form.len(),
                form.depth(),
                form.memory_bytes()
            ),
            Ipv4Form::UpperTable(form) => format!(
                "{} intervals by upper half and sorted lower halves, {path}, {} bytes, because {reason}",
                form.len(),
                form.memory_bytes()
            ),
            Ipv4Form::Rank(form) => format!(
                "rank by /24 with answers of {} bits, {} bytes, because {reason}",
                form.answer_bits(),
                form.memory_bytes()
            ),
        };
        let (count, ways, lists) = match &self.ipv6 {
            Ipv6Form::Intervals(form) => {
                (form.len(), form.ways(), format!("{} lists below /64", form.deep_len()))
            }
            Ipv6Form::Stages(form) => {
                let ways = "steps of 32 and 16 bits".to_owned();
                (form.len(), ways, format!("{} lists below /48", form.deep_len()))
            }
        };
        let bytes = self.ipv6.memory_bytes();
        format!("IPv4: {ipv4}\nIPv6: {count} intervals in {ways}, {lists}, {path}, {bytes} bytes")
    }

    /// The number of the smallest block that holds the address.
    #[inline]
    #[must_use]
    pub fn lookup(&self, address: IpAddr) -> Option<u32> {
        let answer = match address {
            IpAddr::V4(v4) => self.lookup4(v4.to_bits()),
            IpAddr::V6(v6) => self.lookup6(v6.to_bits()),
        };
        (answer != NOTHING).then_some(answer)
    }

    /// The number for an IPv4 address given as a number; 0 if no block holds it.
    #[inline(always)]
    #[must_use]
    pub fn lookup4(&self, address: u32) -> u32 {
        // Before the choice of a path, since most addresses of most lists end here.
        if let Ipv4Form::UpperTable(form) = &self.ipv4
            && let Some(answer) = form.resolved(address)
        {
            return answer;
        }
        dispatch!(
            self.path,
            [](set: &CompiledSet = self, address: u32 = address) -> u32,
            |processor| set.answer4(processor, address)
        )
    }

    /// Prefetches what a lookup of this IPv4 address reads first, for an address that is looked up
    /// some nanoseconds later. It has no other effect.
    #[inline]
    pub fn prefetch4(&self, address: u32) {
        if let Ipv4Form::UpperTable(form) = &self.ipv4 {
            form.prefetch(address);
        }
    }

    /// The number for an IPv6 address given as a number; 0 if no block holds it.
    #[inline]
    #[must_use]
    pub fn lookup6(&self, address: u128) -> u32 {
        dispatch!(
            self.path,
            [](set: &CompiledSet = self, address: u128 = address) -> u32,
            |processor| set.ipv6.answer(processor, address)
        )
    }

    /// Looks up many IPv4 addresses at once: `found[n]` becomes what `lookup4` says of
    /// `addresses[n]`. They go side by side, 64 at a time.
    ///
    /// # Panics
    ///
    /// When the two slices differ in length.
    pub fn lookup4_batch(&self, addresses: &[u32], found: &mut [u32]) {
        assert_eq!(addresses.len(), found.len(), "one answer an address");
        let path = match self.path {
            // The compiler turns the bits of the upper table into AVX-512 gathers, which take
            // longer than loads.
            #[cfg(target_arch = "x86_64")]
            Path::Avx512(token) if self.is_resolved() => Path::Avx2(token.avx2()),
            path => path,
        };
        dispatch!(
            path,
            [](set: &CompiledSet = self, addresses: &[u32] = addresses, found: &mut [u32] = found) -> (),
            |processor| set.answers4(processor, addresses, found)
        );
    }

    /// Looks up many IPv6 addresses at once, numbers or octets: `found[n]` becomes what `lookup6`
    /// says of `addresses[n]`. They go side by side, 64 at a time.
    ///
    /// # Panics
    ///
    /// When the two slices differ in length.
    pub fn lookup6_batch<A: Address6>(&self, addresses: &[A], found: &mut [u32]) {
        assert_eq!(addresses.len(), found.len(), "one answer an address");
        dispatch!(
            self.path,
            [A: Address6](set: &CompiledSet = self, addresses: &[A] = addresses, found: &mut [u32] = found) -> (),
            |processor| set.answers6(processor, addresses, found)
        );
    }

    /// Whether most upper halves resolve the answer.
    #[cfg(target_arch = "x86_64")]
    fn is_resolved(&self) -> bool {
        matches!(&self.ipv4, Ipv4Form::UpperTable(form) if form.is_resolved())
    }

    #[inline(always)]
    fn answer4(&self, processor: impl Compare, address: u32) -> u32 {
        match &self.ipv4 {
            Ipv4Form::Intervals(form) => form.answer(processor, address),
            // `lookup4` has returned the resolved ones before.
            Ipv4Form::UpperTable(form) => form.answer_unresolved(processor, address),
            Ipv4Form::Rank(form) => form.answer(address),
        }
    }

    #[inline(always)]
    fn answers4(&self, processor: impl Compare, addresses: &[u32], found: &mut [u32]) {
        for (addresses, found) in addresses.chunks(LANES).zip(found.chunks_mut(LANES)) {
            prefetch_all_ahead(addresses);
            match &self.ipv4 {
                Ipv4Form::Intervals(form) => form.answers(processor, addresses, found),
                Ipv4Form::UpperTable(form) => form.answers(processor, addresses, found),
                Ipv4Form::Rank(form) => form.answers(addresses, found),
            }
        }
    }

    #[inline(always)]
    fn answers6(&self, processor: impl Compare, addresses: &[impl Address6], found: &mut [u32]) {
        for (addresses, found) in addresses.chunks(LANES).zip(found.chunks_mut(LANES)) {
            self.ipv6.answers(processor, addresses, found);
        }
    }
}

impl Ipv6Form {
    fn build(intervals: &Intervals<u128>) -> Ipv6Form {
        let count = intervals.0.len();
        let is_routing_like = stages::deep_len(intervals) <= count / STAGES_DEEP_SHARE;
        let is_suited = count >= STAGES_INTERVALS_MIN && is_routing_like;
        let stages = is_suited.then(|| Stages6::build(intervals)).flatten();
        stages.map_or_else(|| Ipv6Form::Intervals(Intervals6::build(intervals)), Ipv6Form::Stages)
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Ipv6Form::Intervals(form) => form.memory_bytes(),
            Ipv6Form::Stages(form) => form.memory_bytes(),
        }
    }

    #[inline(always)]
    fn answer(&self, processor: impl Compare, address: u128) -> u32 {
        match self {
            Ipv6Form::Intervals(form) => form.answer(processor, address),
            Ipv6Form::Stages(form) => form.answer(processor, address),
        }
    }

    #[inline(always)]
    fn answers(&self, processor: impl Compare, addresses: &[impl Address6], found: &mut [u32]) {
        match self {
            Ipv6Form::Intervals(form) => {
                prefetch_all_ahead(addresses);
                form.answers(processor, addresses, found);
            }
            // Asks itself, when it waits for little.
            Ipv6Form::Stages(form) => form.answers(processor, addresses, found),
        }
    }
}

/// The form that suits these intervals, and why.
fn suited_form(intervals: &Intervals<u32>) -> (CompiledForm, String) {
    let count = intervals.0.len();
    if count < RANK_INTERVALS_MIN {
        let (form, below) = match count {
            0..UPPER_TABLE_INTERVALS_MIN => (CompiledForm::Intervals, UPPER_TABLE_INTERVALS_MIN),
            _ => (CompiledForm::UpperTable, RANK_INTERVALS_MIN),
        };
        return (form, format!("there are fewer than {below} intervals"));
    }
    let deep = rank::deep_len(intervals);
    let reason =
        format!("intervals begin inside {deep} of the /24s, and there are {count} of them");
    let is_routing_like = deep <= count / RANK_DEEP_SHARE;
    (if is_routing_like { CompiledForm::Rank } else { CompiledForm::UpperTable }, reason)
}

impl fmt::Debug for CompiledSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledSet")
            .field("form", &self.form())
            .field("len", &self.blocks)
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}
