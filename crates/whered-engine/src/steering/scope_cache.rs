//! The choice of every address and its exact scope, found as they are asked for and kept.
//!
//! ```text
//! address ─ upper 16 bits (IPv6: 32) ─> block ─ binary search ─> tile: outcome, scope
//!                                        │ not there yet: walk the regions below it once
//!                                        └ too dense to keep: walk from the root, climb
//! climb: while the other half of the next larger prefix comes to the same, that prefix is the scope
//! memo:  prefix -> uniform outcome or mixed, so that no part of a tree is walked twice
//! ```
//!
//! Invariants: all addresses of a scope have the outcome that is told with it, and of the next
//! shorter prefix not all have, unless the walk that would show it was too long: then the scope is
//! longer than need be for now, and the next question goes on where this one stopped.
//! At the same time: any number of threads; who fills a block keeps others that ask for it waiting.
//! Memory: 6 bytes a tile of IPv4 (`narrow.rs`) and 16 of IPv6, 0.5 MB for the memo and 2 MB for
//! blocks, from the first question on.
//! Cost: three or four cache lines where a block is there; filling it at most [`FILL_STEPS`]
//! splits.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use whered_simd::prefetch;

use super::direct_mapped::DirectMappedCache;
use super::narrow::Narrow;
use super::region::{Inputs, Region, bits_of};

/// Splits while a block is filled: some milliseconds.
const FILL_STEPS: u32 = 16_384;
/// Splits while one question climbs: some tenths of a millisecond.
const CLIMB_STEPS: u32 = 2_048;
/// How many questions are answered without keeping blocks where everything may change at any time.
const WARM_QUESTIONS: u32 = 256;

const BLOCK_BITS: [u8; 2] = [16, 32];
const BLOCKS6: usize = 1 << 14;
const MEMO_SLOTS: usize = 1 << 15;
/// Parts with fewer splits are not worth a place in the memo.
const MEMO_STEPS: u32 = 4;
const SCOPE_UNKNOWN: u8 = u8::MAX;
/// What the memo says of a prefix that is not uniform.
const MIXED: u64 = u32::MAX as u64;

/// What all addresses of a region come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RegionOutcome {
    /// Not all the same.
    Mixed,
    /// This outcome.
    All(u32),
    /// The walk was cut short.
    Unknown,
}

/// What comes of a uniform region.
pub(super) type Evaluate<'a> = dyn Fn(&Region) -> u32 + 'a;

/// See the head of this file.
pub(super) struct ScopeCache {
    inputs: Inputs,
    rules: CacheRules,
    /// The outcome of all addresses where nothing tells them apart.
    constant: OnceLock<u32>,
    questions: AtomicU32,
    blocks: [OnceLock<Box<[Slot]>>; 2],
    memo: OnceLock<DirectMappedCache>,
}

/// A place for a block, all of it in one cache line.
#[derive(Default)]
#[repr(align(32))]
struct Slot(OnceLock<Block>);

const _: () = assert!(size_of::<Slot>() == 32, "two in a cache line");

/// All of one /16, or /32 of IPv6, where `upper` tells of which one.
enum Block {
    /// One outcome, with a scope that may be shorter than the block.
    Uniform { upper: u32, outcome: u32, scope: AtomicU8 },
    /// The tiles of IPv4, where every block has a slot of its own.
    Narrow(Narrow),
    /// Those of IPv6 in order; the first begins with the block.
    Wide { upper: u32, tiles: Box<[Tile]> },
    /// More than are kept.
    Dense { upper: u32 },
}

impl Block {
    #[inline]
    fn is_of(&self, asked: u32) -> bool {
        match self {
            Block::Uniform { upper, .. } | Block::Wide { upper, .. } | Block::Dense { upper } => {
                *upper == asked
            }
            Block::Narrow(_) => true,
        }
    }
}

/// A prefix of one outcome within a block.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// The 64 bits behind those of the block.
    pub(super) start: u64,
    pub(super) outcome: u32,
    pub(super) scope: u8,
}

/// What may be kept of what was found.
#[derive(Clone, Copy)]
pub(super) struct CacheRules {
    /// Blocks are kept from the first question on.
    pub(super) is_steady: bool,
    /// Nothing is kept: answers depend on the time.
    pub(super) is_volatile: bool,
    /// The inputs are all that decides; otherwise an answer is good for its address alone.
    pub(super) is_whole: bool,
}

impl ScopeCache {
    pub(super) fn new(inputs: Inputs, rules: CacheRules) -> ScopeCache {
        ScopeCache {
            inputs,
            rules,
            constant: OnceLock::new(),
            questions: AtomicU32::new(0),
            blocks: Default::default(),
            memo: OnceLock::new(),
        }
    }

    pub(super) fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    pub(super) fn is_volatile(&self) -> bool {
        self.rules.is_volatile
    }

    pub(super) fn is_whole(&self) -> bool {
        self.rules.is_whole
    }

    /// The outcome for an address, and its scope.
    #[inline]
    pub(super) fn find(&self, bits: u128, is_ipv4: bool, evaluate: &Evaluate<'_>) -> (u32, u8) {
        let family = usize::from(!is_ipv4);
        if !self.rules.is_whole || self.inputs.is_empty() {
            return self.find_plain(bits, is_ipv4, evaluate);
        }
        if let Some(block) = self.block(family, bits, evaluate) {
            let length = u32::from(BLOCK_BITS[family]);
            match block {
                Block::Narrow(tiles) => return tiles.find((bits >> 96) as u16),
                Block::Wide { tiles, .. } => {
                    let at = (bits << length >> 64) as u64;
                    let next = tiles.partition_point(|tile| tile.start <= at);
                    let tile = tiles[next - 1];
                    return (tile.outcome, tile.scope);
                }
                Block::Uniform { outcome, scope, .. } => {
                    let known = scope.load(Ordering::Relaxed);
                    if known != SCOPE_UNKNOWN {
                        return (*outcome, known);
                    }
                    let (found, length, is_exact) = self.walk(bits, is_ipv4, evaluate);
                    if is_exact {
                        scope.store(length, Ordering::Relaxed);
                    }
                    return (found, length);
                }
                Block::Dense { .. } => {}
            }
        }
        let (outcome, scope, _) = self.walk(bits, is_ipv4, evaluate);
        (outcome, scope)
    }

    /// Asks for what [`ScopeCache::find`] will read for these addresses, stage by stage; reads
    /// nothing that is not there yet.
    pub(super) fn prefetch(&self, addresses: impl Iterator<Item = IpAddr> + Clone) {
        let place = |address: IpAddr| {
            let (bits, family) = (bits_of(address), usize::from(!address.is_ipv4()));
            let (_, slot) = place_of(family, bits);
            Some((self.blocks[family].get()?, slot, (bits >> 96) as u16))
        };
        for (blocks, slot, ..) in addresses.clone().filter_map(place) {
            prefetch(blocks, slot);
        }
        let narrow = |address: IpAddr| {
            let (blocks, slot, lower) = place(address)?;
            match blocks[slot].0.get() {
                Some(Block::Narrow(tiles)) => Some((tiles, lower)),
                _ => None,
            }
        };
        let addresses = addresses.filter(IpAddr::is_ipv4);
        addresses
            .clone()
            .filter_map(narrow)
            .for_each(|(tiles, lower)| tiles.prefetch_starts(lower));
        addresses.filter_map(narrow).for_each(|(tiles, lower)| tiles.prefetch_value(lower));
    }

    /// The outcome where there is nothing to walk, or too much.
    #[cold]
    fn find_plain(&self, bits: u128, is_ipv4: bool, evaluate: &Evaluate<'_>) -> (u32, u8) {
        let mut region = self.inputs.root(is_ipv4);
        if self.rules.is_whole {
            return (*self.constant.get_or_init(|| evaluate(&region)), 0);
        }
        while region.length < region.length_max() {
            region = self.inputs.halves(&region, bits).0;
        }
        (evaluate(&region), region.length)
    }

    /// The block of an address, filled if need be; `None` where blocks are not kept.
    #[inline]
    fn block(&self, family: usize, bits: u128, evaluate: &Evaluate<'_>) -> Option<&Block> {
        if self.rules.is_volatile {
            return None;
        }
        let (upper, slot) = place_of(family, bits);
        if let Some(block) = self.blocks[family].get().and_then(|blocks| blocks[slot].0.get()) {
            // Another prefix of IPv6 may have come first.
            return block.is_of(upper).then_some(block);
        }
        if !self.rules.is_steady
            && self.questions.fetch_add(1, Ordering::Relaxed).min(WARM_QUESTIONS) < WARM_QUESTIONS
        {
            return None;
        }
        let blocks = self.blocks[family].get_or_init(|| {
            let count = if family == 0 { 1 << 16 } else { BLOCKS6 };
            (0..count).map(|_| Slot::default()).collect()
        });
        let block = blocks[slot].0.get_or_init(|| self.fill(family, bits, evaluate));
        block.is_of(upper).then_some(block)
    }

    /// Walks all of a block.
    #[cold]
    fn fill(&self, family: usize, bits: u128, evaluate: &Evaluate<'_>) -> Block {
        let length = BLOCK_BITS[family];
        let mut region = self.inputs.root(family == 0);
        while region.length < length && !self.inputs.is_uniform(&region) {
            region = self.inputs.halves(&region, bits).0;
        }
        let (upper, _) = place_of(family, bits);
        if region.length < length {
            let (outcome, scope) = (evaluate(&region), SCOPE_UNKNOWN.into());
            return Block::Uniform { upper, outcome, scope };
        }
        let (mut tiles, mut steps) = (Vec::new(), FILL_STEPS);
        match self.gather(&region, length, &mut tiles, &mut steps, evaluate) {
            RegionOutcome::All(outcome) => {
                Block::Uniform { upper, outcome, scope: SCOPE_UNKNOWN.into() }
            }
            RegionOutcome::Unknown => Block::Dense { upper },
            RegionOutcome::Mixed => {
                tiles.sort_unstable_by_key(|tile| tile.start);
                match family {
                    0 => Narrow::new(&tiles).map_or(Block::Dense { upper }, Block::Narrow),
                    _ => Block::Wide { upper, tiles: tiles.into() },
                }
            }
        }
    }

    /// Makes tiles of the largest uniform parts of a region that is not uniform itself.
    fn gather(
        &self,
        region: &Region,
        block_length: u8,
        tiles: &mut Vec<Tile>,
        steps: &mut u32,
        evaluate: &Evaluate<'_>,
    ) -> RegionOutcome {
        if self.inputs.is_uniform(region) {
            return RegionOutcome::All(evaluate(region));
        }
        // What a tile cannot say is as if there were too many.
        if region.length >= block_length + 64 || *steps == 0 {
            return RegionOutcome::Unknown;
        }
        *steps -= 1;
        let halves = [false, true].map(|bit| self.inputs.half(region, bit));
        let found = [0, 1].map(|at| self.gather(&halves[at], block_length, tiles, steps, evaluate));
        match found {
            [RegionOutcome::Unknown, _] | [_, RegionOutcome::Unknown] => {
                return RegionOutcome::Unknown;
            }
            [RegionOutcome::All(a), RegionOutcome::All(b)] if a == b => {
                return RegionOutcome::All(a);
            }
            _ => {}
        }
        for (half, below) in halves.iter().zip(found) {
            if let RegionOutcome::All(outcome) = below {
                let start = (half.bits << block_length >> 64) as u64;
                tiles.push(Tile { start, outcome, scope: half.length });
            }
        }
        RegionOutcome::Mixed
    }

    /// Walks down to an address and climbs to its scope; says whether that is the exact one.
    #[cold]
    fn walk(&self, bits: u128, is_ipv4: bool, evaluate: &Evaluate<'_>) -> (u32, u8, bool) {
        let mut region = self.inputs.root(is_ipv4);
        let mut others = Vec::with_capacity(32);
        while !self.inputs.is_uniform(&region) {
            let (own, other) = self.inputs.halves(&region, bits);
            others.push(other);
            region = own;
        }
        let outcome = evaluate(&region);
        let mut steps = CLIMB_STEPS;
        let mut scope = region.length;
        while let Some(other) = others.pop() {
            match self.below(&other, &mut steps, evaluate) {
                RegionOutcome::All(same) if same == outcome => scope -= 1,
                RegionOutcome::Unknown => return (outcome, scope, false),
                _ => break,
            }
        }
        (outcome, scope, true)
    }

    /// What all addresses of a region come to.
    fn below(&self, region: &Region, steps: &mut u32, evaluate: &Evaluate<'_>) -> RegionOutcome {
        if self.inputs.is_uniform(region) {
            return RegionOutcome::All(evaluate(region));
        }
        let memo = if self.rules.is_volatile { None } else { memo_key(region) };
        let memo =
            memo.map(|key| (self.memo.get_or_init(|| DirectMappedCache::new(MEMO_SLOTS)), key));
        if let Some(known) = memo.and_then(|(memo, key)| memo.get(key)) {
            return if known == MIXED {
                RegionOutcome::Mixed
            } else {
                RegionOutcome::All(known as u32)
            };
        }
        if *steps == 0 {
            return RegionOutcome::Unknown;
        }
        *steps -= 1;
        let before = *steps;
        let left = self.below(&self.inputs.half(region, false), steps, evaluate);
        let below = match left {
            RegionOutcome::Mixed | RegionOutcome::Unknown => left,
            RegionOutcome::All(_) => {
                match self.below(&self.inputs.half(region, true), steps, evaluate) {
                    RegionOutcome::Unknown => RegionOutcome::Unknown,
                    right if right == left => left,
                    _ => RegionOutcome::Mixed,
                }
            }
        };
        if before - *steps >= MEMO_STEPS
            && let Some((memo, key)) = memo
        {
            match below {
                RegionOutcome::Mixed => memo.put(key, MIXED),
                RegionOutcome::All(outcome) => memo.put(key, outcome.into()),
                RegionOutcome::Unknown => {}
            }
        }
        below
    }
}

/// The leading bits of an address's block, and the slot for it.
#[inline]
fn place_of(family: usize, bits: u128) -> (u32, usize) {
    let upper = (bits >> (128 - u32::from(BLOCK_BITS[family]))) as u32;
    let slot = match family {
        0 => upper as usize,
        _ => upper.wrapping_mul(0x9e37_79b1) as usize >> (32 - BLOCKS6.ilog2()),
    };
    (upper, slot)
}

/// Prefixes of IPv6 longer than 56 bits have no key: little is below them.
fn memo_key(region: &Region) -> Option<u64> {
    let length = u64::from(region.length);
    if region.is_ipv4 {
        return Some((region.bits >> 96 << 32) as u64 | length << 1 | 1);
    }
    (region.length <= 56).then_some(((region.bits >> 72) as u64) << 8 | length << 1)
}
