//! IPv4 prefixes that change millions of times a second while they are asked.
//!
//! For: the busy sets: one writer changes cells in place, readers on other threads never wait and
//! see each change at once. Not for: ranges (give their prefixes), IPv6, values, expiries (a
//! `PrefixSet`'s, which the owner brings up to date later), or sets that rest (a `CompiledSet` is a
//! fraction of the size). What is there and what is around it is in `live_members`.
//!
//! ```text
//! address   | 16 bits | 8 bits | 4 bits | 4 bits |
//!
//! root      65,536 cells ──► blocks of 256 ──► blocks of 16 ──► blocks of 16
//!
//! cell      0                                  no prefix
//!           | 0 | length, 6 bits | answer, 25 bits |      the longest prefix that holds it
//!           | 1 | block, 31 bits |                        longer prefixes below
//!
//! words     chunks of 2^14, 2^15, ... words that are made as needed and never move
//! ```
//!
//! Adding a prefix writes its cells unless a longer one has them; removing writes the cells that
//! have its length: no other prefix of that length can be there. A block whose last prefix goes is
//! replaced by a cell and *retired*: a reader may still be on its way through. It is used again only
//! after [`LiveIpv4::reclaim`], which the owner calls when all readers have begun anew since.
//!
//! Invariants: each word is written by the one writer only; a block has a prefix that ends in it or
//! below; a cell's answer is right at every moment for the prefixes of a moment during the lookup.
//! A change of a short prefix reaches its cells one after the other.
//!
//! Concurrency: any number of [`LiveReader`]s beside the one [`LiveIpv4`]. Cost: a lookup one to
//! four reads; a change as many writes as the prefix has cells at its level: 1 to 256, up to 65,536
//! and all blocks below for /0 to /8. Memory: 256 KiB, 1 KiB for each /16 with longer prefixes, 64
//! octets for each /24 and /28 with longer ones; 4 MiB and 16 to 32 bytes a prefix for the writer.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use super::live_members::LiveMembers;
use crate::Prefix;
use crate::simd::prefetch;
use crate::tables::LANES;

const CHILD: u32 = 1 << 31;
const ANSWER_BITS: u32 = 25;
/// The highest answer that a cell has room for.
const ANSWER_MAX: u32 = (1 << ANSWER_BITS) - 1;
const ROOT_CELLS: u32 = 1 << 16;
/// The bits of an address that come after each level: root, and three levels of blocks.
const SHIFTS: [u32; 4] = [16, 8, 4, 0];
/// Words of the first chunk; each further one has twice as many.
const FIRST_CHUNK: u32 = 1 << 14;
const CHUNKS: usize = 17;

/// What a reader finds: the longest prefix, by its length and its answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LiveMatch {
    /// How many leading bits of the address are the prefix.
    pub length_bits: u8,
    /// The number that the prefix was added with.
    pub answer: u32,
}

/// The cells, shared by the writer and all readers.
struct Cells {
    root: Box<[AtomicU32]>,
    chunks: [OnceLock<Box<[AtomicU32]>>; CHUNKS],
}

impl Cells {
    /// The word with this number; `None` if its chunk was never made.
    #[inline(always)]
    fn word(&self, number: u32) -> Option<&AtomicU32> {
        let place = number / FIRST_CHUNK + 1;
        let chunk = place.ilog2();
        let first = ((1 << chunk) - 1) * FIRST_CHUNK;
        self.chunks.get(chunk as usize)?.get()?.get((number - first) as usize)
    }

    /// So many words from this number on, all of one chunk.
    ///
    /// # Panics
    ///
    /// When the chunk was never made: the writer's blocks lie in such that were.
    #[inline(always)]
    fn words(&self, number: u32, count: u32) -> &[AtomicU32] {
        let chunk = (number / FIRST_CHUNK + 1).ilog2();
        let first = (number - ((1 << chunk) - 1) * FIRST_CHUNK) as usize;
        let words = self.chunks[chunk as usize].get().expect("blocks lie in chunks that were made");
        &words[first..first + count as usize]
    }

    #[inline(always)]
    fn load(&self, number: u32) -> u32 {
        // Acquire: a block is filled before the cell that leads to it is written.
        self.word(number).map_or(0, |word| word.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn find(&self, address: u32) -> u32 {
        let mut cell = self.root[(address >> 16) as usize].load(Ordering::Acquire);
        if cell & CHILD != 0 {
            cell = self.load((cell & !CHILD) + (address >> 8 & 0xff));
            if cell & CHILD != 0 {
                cell = self.load((cell & !CHILD) + (address >> 4 & 0xf));
                if cell & CHILD != 0 {
                    cell = self.load((cell & !CHILD) + (address & 0xf));
                }
            }
        }
        cell
    }
}

impl Cells {
    /// What `find` finds for at most [`LANES`] addresses, as answers alone; the second reads of all
    /// are asked for before the first of them is made.
    #[inline(always)]
    fn find_lanes(&self, addresses: &[u32], found: &mut [u32]) {
        for (found, address) in found.iter_mut().zip(addresses) {
            *found = self.root[(address >> 16) as usize].load(Ordering::Acquire);
            if *found & CHILD != 0 {
                self.warm((*found & !CHILD) + (address >> 8 & 0xff));
            }
        }
        for (found, address) in found.iter_mut().zip(addresses) {
            let mut cell = *found;
            for level in 1..SHIFTS.len() {
                if cell & CHILD == 0 {
                    break;
                }
                cell = self.load((cell & !CHILD) + place_in(*address, level));
            }
            *found = if cell & CHILD == 0 { cell & ANSWER_MAX } else { 0 };
        }
    }

    /// Asks for a word before it is read.
    #[inline(always)]
    fn warm(&self, number: u32) {
        if let Some(word) = self.word(number) {
            prefetch(std::slice::from_ref(word), 0);
        }
    }
}

fn matched(cell: u32) -> Option<LiveMatch> {
    // A child here is a cell that changed while it was read for the fourth time: cannot be.
    (cell != 0 && cell & CHILD == 0).then_some(LiveMatch {
        length_bits: (cell >> ANSWER_BITS) as u8,
        answer: cell & ANSWER_MAX,
    })
}

/// One reader of a [`LiveIpv4`]; clones read the same.
#[derive(Clone)]
pub struct LiveReader(Arc<Cells>);

impl LiveReader {
    /// The longest prefix that holds the address, given as a number.
    #[inline]
    #[must_use]
    pub fn lookup4(&self, address: u32) -> Option<LiveMatch> {
        matched(self.0.find(address))
    }

    /// Looks up many addresses: `found[n]` becomes the answer for `addresses[n]`, 0 without one.
    ///
    /// # Panics
    ///
    /// When the two slices differ in length.
    pub fn answers4(&self, addresses: &[u32], found: &mut [u32]) {
        assert_eq!(addresses.len(), found.len(), "one answer an address");
        for (addresses, found) in addresses.chunks(LANES).zip(found.chunks_mut(LANES)) {
            self.0.find_lanes(addresses, found);
        }
    }
}

impl std::fmt::Debug for LiveReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveReader").finish_non_exhaustive()
    }
}

/// The one writer of a live table of IPv4 prefixes.
///
/// # Examples
///
/// ```
/// use whered_ip::{LiveIpv4, LiveMatch, Prefix};
///
/// let (wide, narrow): (Prefix, Prefix) = ("10.0.0.0/8".parse()?, "10.1.0.0/20".parse()?);
/// let mut live = LiveIpv4::new();
/// let reader = live.reader();
/// live.insert(wide, 1);
/// live.insert(narrow, 2);
/// let address = 0x0a01_0203;
/// assert_eq!(reader.lookup4(address), Some(LiveMatch { length_bits: 20, answer: 2 }));
/// assert_eq!(live.remove(&narrow), Some(2));
/// assert_eq!(reader.lookup4(address), Some(LiveMatch { length_bits: 8, answer: 1 }));
/// # Ok::<(), whered_ip::PrefixError>(())
/// ```
pub struct LiveIpv4 {
    cells: Arc<Cells>,
    members: LiveMembers,
    /// How many prefixes end in each block or below; by the block's first word over 16.
    residents: Vec<u32>,
    /// Where the next block that was never used begins.
    end: u32,
    /// Blocks of 256 and of 16 words that may be used again, and those that may not yet.
    free: [Vec<u32>; 2],
    retired: [Vec<u32>; 2],
}

impl Default for LiveIpv4 {
    fn default() -> Self {
        LiveIpv4::new()
    }
}

impl LiveIpv4 {
    /// A table without prefixes.
    #[must_use]
    pub fn new() -> LiveIpv4 {
        let root = (0..ROOT_CELLS).map(|_| AtomicU32::new(0)).collect();
        let cells = Cells { root, chunks: [const { OnceLock::new() }; CHUNKS] };
        LiveIpv4 {
            cells: Arc::new(cells),
            members: LiveMembers::new(),
            residents: Vec::new(),
            end: 0,
            free: Default::default(),
            retired: Default::default(),
        }
    }

    /// A reader for another thread.
    #[must_use]
    pub fn reader(&self) -> LiveReader {
        LiveReader(Arc::clone(&self.cells))
    }

    /// About how many bytes the table takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let chunks = self.cells.chunks.iter().filter_map(OnceLock::get).map(|words| words.len());
        let spare: usize = self.free.iter().chain(&self.retired).map(Vec::capacity).sum();
        let words = chunks.sum::<usize>() + ROOT_CELLS as usize + self.residents.capacity() + spare;
        words * size_of::<u32>() + self.members.memory_bytes()
    }

    /// How many prefixes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no prefix.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.len() == 0
    }

    /// The answer of this very prefix, if it is there.
    #[must_use]
    pub fn get(&self, prefix: &Prefix) -> Option<u32> {
        let span = Span::of(*prefix)?;
        self.members.get(span.first, prefix.length_bits())
    }

    /// Asks for the memory that changes of these prefixes will read, so that the waits overlap: for
    /// commands that have many, or come many together.
    pub fn warm(&self, prefixes: &[Prefix]) {
        for prefix in prefixes {
            let Some(span) = Span::of(*prefix) else { continue };
            self.members.warm(span.first, prefix.length_bits());
            prefetch(&self.cells.root, span.place(0) as usize);
        }
        for span in prefixes.iter().filter_map(|prefix| Span::of(*prefix)) {
            let cell = self.cells.root[span.place(0) as usize].load(Ordering::Relaxed);
            if cell & CHILD != 0 {
                self.cells.warm((cell & !CHILD) + span.place(1));
                prefetch(&self.residents, (cell & !CHILD) as usize / 16);
            }
            self.members.warm_outer(span.first, span.length);
        }
    }

    /// Adds an IPv4 prefix with its answer, 1 to 2^25 - 1, or gives one that is there another
    /// answer; returns the answer that it had. An IPv6 prefix changes nothing.
    ///
    /// # Panics
    ///
    /// When the answer is out of its bounds, or 2^31 cells are not enough.
    pub fn insert(&mut self, prefix: Prefix, answer: u32) -> Option<u32> {
        assert!((1..=ANSWER_MAX).contains(&answer), "answers are 1 to 2^25 - 1, not {answer}");
        let span = Span::of(prefix)?;
        let cell = u32::from(prefix.length_bits()) << ANSWER_BITS | answer;
        let old = self.members.insert(span.first, prefix.length_bits(), answer);
        if old.is_some() {
            self.rewrite(&span, u32::from(prefix.length_bits()), cell);
            return old;
        }
        let base = self.descend(&span, true);
        self.overlay(self.cells_of(&span, base), cell, span.level);
        None
    }

    /// Takes a prefix away; returns the answer that it had, if it was there.
    pub fn remove(&mut self, prefix: &Prefix) -> Option<u32> {
        let span = Span::of(*prefix)?;
        let length = prefix.length_bits();
        let old = self.members.remove(span.first, length)?;
        let outer = self.members.outer(span.first, length);
        let cell = outer.map_or(0, |(outer, answer)| u32::from(outer) << ANSWER_BITS | answer);
        self.rewrite(&span, u32::from(length), cell);
        self.leave(&span);
        Some(old)
    }

    /// How many words of memory wait for [`reclaim`](Self::reclaim).
    #[must_use]
    pub fn retired_words(&self) -> usize {
        self.retired[0].len() * 256 + self.retired[1].len() * 16
    }

    /// Lets retired blocks be used again. To be called when every lookup that was under way at the
    /// last removal has ended; a lookup that has not may find a wrong answer, no worse.
    pub fn reclaim(&mut self) {
        for (free, retired) in self.free.iter_mut().zip(&mut self.retired) {
            free.append(retired);
        }
    }

    fn slot(&self, is_root: bool, number: u32) -> &AtomicU32 {
        if is_root {
            return &self.cells.root[number as usize];
        }
        self.cells.word(number).expect("blocks lie in chunks that were made")
    }

    /// The cells of a prefix in the block in which it ends.
    #[inline]
    fn cells_of(&self, span: &Span, block: Option<u32>) -> &[AtomicU32] {
        let (first, last) = span.cells(block);
        match block {
            None => &self.cells.root[first as usize..=last as usize],
            Some(_) => self.cells.words(first, last - first + 1),
        }
    }

    /// The cells of the block below one of a level.
    #[inline]
    fn cells_below(&self, cell: u32, level: usize) -> &[AtomicU32] {
        self.cells.words(cell & !CHILD, block_cells(level + 1))
    }

    /// Puts a cell wherever no longer prefix is: into these, or into the blocks below.
    fn overlay(&self, cells: &[AtomicU32], cell: u32, level: usize) {
        for slot in cells {
            let old = slot.load(Ordering::Relaxed);
            if old & CHILD != 0 {
                self.overlay(self.cells_below(old, level), cell, level + 1);
            } else if old >> ANSWER_BITS <= cell >> ANSWER_BITS {
                slot.store(cell, Ordering::Release);
            }
        }
    }

    /// Puts a cell wherever this very prefix is.
    fn rewrite(&mut self, span: &Span, length: u32, cell: u32) {
        let base = self.descend(span, false);
        self.exchange(self.cells_of(span, base), length, cell, span.level);
    }

    fn exchange(&self, cells: &[AtomicU32], length: u32, cell: u32, level: usize) {
        for slot in cells {
            let old = slot.load(Ordering::Relaxed);
            if old & CHILD != 0 {
                self.exchange(self.cells_below(old, level), length, cell, level + 1);
            } else if old != 0 && old >> ANSWER_BITS == length {
                slot.store(cell, Ordering::Release);
            }
        }
    }

    /// Goes to the block in which the prefix ends and counts it there and on the way if it is new;
    /// `None` is the root. Missing blocks are made, filled with what the cell had.
    fn descend(&mut self, span: &Span, is_new: bool) -> Option<u32> {
        let mut block: Option<u32> = None;
        for level in 0..span.level {
            let number = block.unwrap_or(0) + span.place(level);
            let cell = self.slot(block.is_none(), number).load(Ordering::Relaxed);
            let below = if cell & CHILD != 0 {
                cell & !CHILD
            } else {
                let made = self.make_block(level + 1, cell);
                self.slot(block.is_none(), number).store(CHILD | made, Ordering::Release);
                made
            };
            self.residents[below as usize / 16] += u32::from(is_new);
            block = Some(below);
        }
        block
    }

    /// Counts a prefix that went, and replaces the first block on its way that is left empty.
    fn leave(&mut self, span: &Span) {
        let mut block: Option<u32> = None;
        let mut emptied = false;
        for level in 0..span.level {
            let number = block.unwrap_or(0) + span.place(level);
            let cell = self.slot(block.is_none(), number).load(Ordering::Relaxed);
            if cell & CHILD == 0 {
                return;
            }
            let below = cell & !CHILD;
            let residents = &mut self.residents[below as usize / 16];
            *residents = residents.saturating_sub(1);
            if *residents == 0 {
                if !emptied {
                    // All of its cells have what is around it.
                    let mut first = below;
                    let mut around = self.cells.load(first);
                    while around & CHILD != 0 {
                        first = around & !CHILD;
                        around = self.cells.load(first);
                    }
                    self.slot(block.is_none(), number).store(around, Ordering::Release);
                }
                emptied = true;
                self.retired[usize::from(level > 0)].push(below);
            }
            block = Some(below);
        }
    }

    fn make_block(&mut self, level: usize, cell: u32) -> u32 {
        let cells = block_cells(level);
        let first =
            self.free[usize::from(level > 1)].pop().unwrap_or_else(|| self.new_block(cells));
        for number in first..first + cells {
            self.slot(false, number).store(cell, Ordering::Relaxed);
        }
        self.residents[first as usize / 16] = 0;
        first
    }

    /// Words that were never used; chunks end at multiples of a block.
    fn new_block(&mut self, cells: u32) -> u32 {
        let first = self.end.next_multiple_of(cells);
        for skipped in (self.end..first).step_by(16) {
            self.free[1].push(skipped);
        }
        self.end = first + cells;
        assert!(self.end < CHILD, "a live table has fewer than 2^31 cells");
        let chunk = (first / FIRST_CHUNK + 1).ilog2();
        let words = FIRST_CHUNK << chunk;
        self.cells.chunks[chunk as usize]
            .get_or_init(|| (0..words).map(|_| AtomicU32::new(0)).collect());
        self.residents.resize(self.end as usize / 16, 0);
        first
    }
}

impl std::fmt::Debug for LiveIpv4 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveIpv4")
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}

fn block_cells(level: usize) -> u32 {
    if level == 1 { 256 } else { 16 }
}

/// Where a prefix ends: its level, and its first and last address.
struct Span {
    first: u32,
    last: u32,
    level: usize,
    length: u8,
}

impl Span {
    fn of(prefix: Prefix) -> Option<Span> {
        let std::net::IpAddr::V4(first) = prefix.address() else { return None };
        let first = first.to_bits();
        let length = u32::from(prefix.length_bits());
        let last = first | u32::MAX.checked_shr(length).unwrap_or(0);
        let level = SHIFTS.iter().position(|shift| length <= 32 - shift)?;
        Some(Span { first, last, level, length: prefix.length_bits() })
    }

    /// The cell of a level on the way to the prefix.
    fn place(&self, level: usize) -> u32 {
        place_in(self.first, level)
    }

    /// The words of its first and its last cell in the block.
    fn cells(&self, block: Option<u32>) -> (u32, u32) {
        let block = block.unwrap_or(0);
        (block + place_in(self.first, self.level), block + place_in(self.last, self.level))
    }
}

fn place_in(address: u32, level: usize) -> u32 {
    let cells = if level == 0 { ROOT_CELLS } else { block_cells(level) };
    address >> SHIFTS[level] & (cells - 1)
}
