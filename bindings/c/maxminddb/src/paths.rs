//! The few paths whose answers are remembered, each with a small number.
//!
//! Not for answers (see `answers.rs`). A path takes the place that its hash says, once for the life
//! of the mapping, and numbers are given in order of arrival; a path that finds its place taken by
//! another, or comes after the last number, has none.
//!
//! ```text
//! hints    by the addresses of the first two names: which path it was last time
//!    │
//! places   by the hash of the names: | number | names, 16 octets each | ...
//! ```
//!
//! Invariants: the whole path is compared at each question, since callers may change the text in
//! their memory; so a hint is never more than that. Cost: for constant names of up to 14 octets
//! some ten instructions a name, for others one pass over them; nothing is locked once a path is
//! known.

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};

/// How many paths have a number: eight of a host's own beside the four usual ones.
pub(crate) const PATHS: usize = 12;
const PLACES: usize = 32;
const HINTS: usize = 32;
/// Names that are compared at once: their number, and their octets with the zero.
const BLOCKS: usize = 4;
const BLOCK_BYTES: usize = 16;
const PAGE_BYTES: usize = 4096;

/// The known paths; see the file's head.
#[derive(Default)]
pub(crate) struct Paths {
    places: [OnceLock<Box<Known>>; PLACES],
    /// To one of the places each, or null.
    hints: [AtomicPtr<Known>; HINTS],
    count: AtomicUsize,
    is_asked: AtomicBool,
}

struct Known {
    number: usize,
    /// The names one after the other, each with its zero byte.
    text: Box<[u8]>,
    /// For paths of few short names: each name in a block of its own. Otherwise empty.
    blocks: Box<[Block]>,
}

/// A short name, and which octets of it count.
#[derive(Clone, Copy)]
struct Block {
    octets: [u8; BLOCK_BYTES],
    mask: u32,
}

impl Paths {
    /// The number of a path, below [`PATHS`]; a new path gets one if there is one left.
    ///
    /// # Safety
    ///
    /// `path` is an array of C strings that ends with a null pointer.
    #[inline]
    pub(crate) unsafe fn number(&self, path: *const *const c_char) -> Option<usize> {
        // SAFETY: the caller's promise.
        unsafe {
            match self.number_at_once(path) {
                Some(number) => Some(number),
                None => self.number_by_text(path, self.hint(path)?),
            }
        }
    }

    /// The number of a path of few short names that was asked for from the same place before.
    ///
    /// # Safety
    ///
    /// As [`number`](Paths::number).
    #[inline(always)]
    pub(crate) unsafe fn number_at_once(&self, path: *const *const c_char) -> Option<usize> {
        // SAFETY: the caller's promise.
        unsafe {
            // A place keeps what it has for as long as there are hints.
            let known = self.hint(path)?.load(Acquire).as_ref()?;
            known.is_at_once(path).then_some(known.number)
        }
    }

    /// # Safety
    ///
    /// As [`number`](Paths::number).
    #[inline(always)]
    unsafe fn hint(&self, path: *const *const c_char) -> Option<&AtomicPtr<Known>> {
        // SAFETY: the caller's promise: behind a name there is another one or the null pointer.
        let (first, second) = unsafe {
            let first = *path;
            (first.addr(), if first.is_null() { 0 } else { (*path.add(1)).addr() })
        };
        self.hints.get((first.wrapping_add(second >> 1) >> 2) % HINTS)
    }

    /// Whether a caller has asked for a path that is known.
    #[inline(always)]
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Relaxed)
    }

    /// From now on, each request for a path counts as one of a caller.
    pub(crate) fn forget_asked(&self) {
        self.is_asked.store(false, Relaxed);
        self.hints.iter().for_each(|hint| hint.store(null_mut(), Relaxed));
    }

    /// # Safety
    ///
    /// As [`Paths::number`].
    #[inline(never)]
    unsafe fn number_by_text(
        &self,
        path: *const *const c_char,
        hint: &AtomicPtr<Known>,
    ) -> Option<usize> {
        // SAFETY: the caller's promise: texts until the null pointer, at least one byte each.
        unsafe {
            let mut hash = 0_usize;
            let mut next = path;
            while !(*next).is_null() {
                let first = *(*next).cast::<u8>();
                let second = if first == 0 { 0 } else { *(*next).cast::<u8>().add(1) };
                hash = hash.wrapping_mul(31) + usize::from(first) + 3 * usize::from(second);
                next = next.add(1);
            }
            let place = (hash ^ (hash >> 3) ^ (hash >> 7)) % PLACES;
            let at = self.places.get(place)?;
            let known = match at.get() {
                Some(known) => known,
                None => self.learn(at, path)?,
            };
            if known.number >= PATHS || !is_same(&known.text, path) {
                return None;
            }
            hint.store(std::ptr::from_ref(known).cast_mut(), Release);
            self.is_asked.store(true, Relaxed);
            Some(known.number)
        }
    }

    /// # Safety
    ///
    /// As [`Paths::number`].
    #[cold]
    unsafe fn learn<'a>(
        &self,
        place: &'a OnceLock<Box<Known>>,
        path: *const *const c_char,
    ) -> Option<&'a Known> {
        if self.count.load(Relaxed) >= PATHS {
            return None;
        }
        Some(place.get_or_init(|| {
            // SAFETY: the caller's promise.
            let text = unsafe { copy(path) };
            Box::new(Known::new(self.count.fetch_add(1, Relaxed), text))
        }))
    }
}

impl Known {
    fn new(number: usize, text: Box<[u8]>) -> Known {
        let names = || text.split_inclusive(|byte| *byte == 0);
        // A path without a number is compared nowhere.
        let is_short = number < PATHS
            && names().count() <= BLOCKS
            && names().all(|name| name.len() < BLOCK_BYTES);
        let blocks = if is_short { names().map(Block::of).collect() } else { Box::default() };
        Known { number, text, blocks }
    }

    /// Whether this is the path, as far as it can be told by whole blocks.
    ///
    /// # Safety
    ///
    /// As [`Paths::number`].
    #[inline(always)]
    unsafe fn is_at_once(&self, path: *const *const c_char) -> bool {
        let mut next = path;
        for block in &self.blocks {
            // SAFETY: names until the null pointer; a block that does not cross a page's end can
            // be read wherever its first octet can.
            unsafe {
                let name = *next;
                if name.is_null() || name.addr() % PAGE_BYTES > PAGE_BYTES - BLOCK_BYTES {
                    return false;
                }
                if !block.is_at(name.cast()) {
                    return false;
                }
                next = next.add(1);
            }
        }
        // SAFETY: all names before this pointer were there.
        !self.blocks.is_empty() && unsafe { (*next).is_null() }
    }
}

impl Block {
    fn of(name: &[u8]) -> Block {
        let mut block = Block { octets: [0; BLOCK_BYTES], mask: (1 << name.len()) - 1 };
        for (octet, byte) in block.octets.iter_mut().zip(name) {
            *octet = *byte;
        }
        block
    }

    /// Whether this name stands there, its zero included.
    ///
    /// # Safety
    ///
    /// The processor can read a block there, whether or not all of it belongs to the text.
    #[inline(always)]
    unsafe fn is_at(&self, name: *const u8) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8};
            // SAFETY: SSE2 is part of x86-64; the caller's promise. The read is the processor's,
            // not the language's, since it may go beyond the caller's text.
            let same = unsafe {
                let there: __m128i;
                std::arch::asm!(
                    "movdqu {there}, [{name}]",
                    there = out(xmm_reg) there,
                    name = in(reg) name,
                    options(pure, readonly, nostack, preserves_flags)
                );
                let known = _mm_loadu_si128(self.octets.as_ptr().cast());
                _mm_movemask_epi8(_mm_cmpeq_epi8(known, there))
            };
            same as u32 & self.mask == self.mask
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let length = self.mask.trailing_ones() as usize;
            // SAFETY: octets are read until one differs, and the zero is among them.
            (0..length).all(|place| unsafe { *name.add(place) == self.octets[place] })
        }
    }
}

/// # Safety
///
/// As [`Paths::number`].
unsafe fn copy(path: *const *const c_char) -> Box<[u8]> {
    let mut text = Vec::new();
    let mut next = path;
    // SAFETY: the caller's promise.
    unsafe {
        while !(*next).is_null() {
            text.extend_from_slice(CStr::from_ptr(*next).to_bytes_with_nul());
            next = next.add(1);
        }
    }
    text.into_boxed_slice()
}

/// # Safety
///
/// As [`Paths::number`].
#[inline(always)]
unsafe fn is_same(known: &[u8], path: *const *const c_char) -> bool {
    let mut next = path;
    // SAFETY: the caller's promise; a name is read up to its zero byte, which ends the loop over
    // it on either side, and names up to the null pointer.
    unsafe {
        let mut text = (*next).cast::<u8>();
        for &byte in known {
            if text.is_null() || *text != byte {
                return false;
            }
            text = text.add(1);
            if byte == 0 {
                next = next.add(1);
                text = (*next).cast();
            }
        }
        text.is_null()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(paths: &Paths, names: &[&CStr]) -> Option<usize> {
        let path: Vec<_> =
            names.iter().map(|name| name.as_ptr()).chain([std::ptr::null()]).collect();
        // SAFETY: C strings, and a null pointer behind them.
        unsafe { paths.number(path.as_ptr()) }
    }

    #[test]
    fn paths_are_numbered_in_order_of_arrival_and_compared_as_a_whole() {
        let paths = Paths::default();
        assert_eq!(number(&paths, &[c"country", c"iso_code"]), Some(0));
        assert_eq!(number(&paths, &[c"city"]), Some(1));
        assert_eq!(number(&paths, &[]), Some(2));
        assert_eq!(number(&paths, &[c"country", c"iso_code"]), Some(0));
        assert_eq!(number(&paths, &[c"country", c"iso_codes"]), None);
        assert_eq!(number(&paths, &[c"country"]).filter(|number| *number < 3), None);
        assert_eq!(number(&paths, &[c"city"]), Some(1));
    }

    #[test]
    fn there_are_no_more_numbers_than_allowed() {
        let paths = Paths::default();
        for first in b'a'..=b'z' {
            for second in b'a'..=b'z' {
                let name = [first, second, 0];
                let name = CStr::from_bytes_with_nul(&name).unwrap();
                assert!(number(&paths, &[name]).is_none_or(|number| number < PATHS));
            }
        }
    }

    #[test]
    fn a_path_is_known_wherever_its_names_lie_and_another_text_there_is_another_path() {
        let paths = Paths::default();
        // Two pages and a bit: names that cross a page's end are among those compared.
        let mut memory = vec![0_u8; 3 * PAGE_BYTES];
        for start in 0..2 * PAGE_BYTES {
            let name = &mut memory[start..start + 5];
            name.copy_from_slice(b"city\0");
            let text: *const c_char = name.as_ptr().cast();
            let asked = [text, c"names".as_ptr(), text, std::ptr::null()];
            // SAFETY: C strings, and a null pointer behind them.
            unsafe {
                assert_eq!(paths.number(asked.as_ptr()), Some(0));
                assert_eq!(paths.number(asked.as_ptr()), Some(0));
                memory[start + 3] = b'i';
                assert_eq!(paths.number(asked.as_ptr()), None);
            }
        }
    }

    #[test]
    fn a_path_that_another_one_begins_with_is_another_path() {
        let paths = Paths::default();
        let names = [c"a", c"b", c"c", c"d", c"e"];
        for count in 1..=names.len() {
            for _ in 0..2 {
                let known = number(&paths, &names[..count]);
                assert!(known.is_none_or(|number| number == count - 1), "{count} names");
            }
        }
        assert_eq!(number(&paths, &[c"a name of more than 16 octets"]), Some(names.len()));
        assert_eq!(number(&paths, &[c"a name of more than 16 octets"]), Some(names.len()));
    }
}
