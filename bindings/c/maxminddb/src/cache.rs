//! Where the values of a few paths stand, for records that were asked before.
//!
//! Beside a tree; an index has `answers.rs`. For hosts that ask the same constant paths of every
//! record (a web server's variables). Not for values: only their places are kept, and a hit reads
//! the value in the file.
//!
//! ```text
//! paths   8 places, by a hash of the path: its text, written once, never changed
//! lines   one for each hash of an entry's offset, 64 bytes: 4 pairs of words
//!         | entry, place | entry, next | entry, place | entry, next | ...    for paths 0 to 3
//!         and a second line for paths 4 to 7
//! ```
//!
//! Each word of 64 bits holds the entry's offset beside the answer, so that words from different
//! writers can be mixed without harm: of one entry and path there is one right answer, and every
//! word that names the entry holds it. So relaxed loads and stores are enough, and no lock.
//!
//! Invariants: a path's place is taken by one path for the life of the mapping, and each question
//! compares the whole path with it; paths that find their place taken are not cached. The lines are
//! zero at first, and a word of entry 0 is told from that by a place of [`IS_KNOWN`]. Memory comes
//! from the kernel and is touched only where entries are asked; it goes with the mapping.

use std::ffi::{CStr, CString, c_char};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PATHS: usize = 8;
const WORDS_PER_LINE: usize = 2 * PATHS;
const LINE_BYTES: usize = 8 * WORDS_PER_LINE;

/// Set in every place that is kept; and if a pointer led there, so that the next word counts.
const IS_KNOWN: u32 = 1 << 31;
const HAS_POINTER: u32 = 1 << 30;
const PLACE: u32 = HAS_POINTER - 1;

/// A cache; see the file's head.
pub(crate) struct Cache {
    paths: [OnceLock<Box<[CString]>>; PATHS],
    lines: NonNull<AtomicU64>,
    /// One less than the number of lines, which is a power of two.
    mask: usize,
}

/// Where a value stands, and what follows the pointer that led there, if there was one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) at: u32,
    pub(crate) after_pointer: Option<u32>,
}

/// The two words of one entry and path.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a> {
    words: &'a [AtomicU64; 2],
    entry: u32,
}

impl Cache {
    /// A cache of up to `size_bytes`; `None` if there is no memory.
    pub(crate) fn new(size_bytes: usize) -> Option<Cache> {
        let lines = (size_bytes / LINE_BYTES).checked_ilog2().map_or(1, |log| 1_usize << log);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new memory at an address of the kernel's choice, zero at first.
        let memory = unsafe {
            libc::mmap(std::ptr::null_mut(), lines * LINE_BYTES, protection, flags, -1, 0)
        };
        if memory == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: ours; a request for huge pages that the kernel may ignore.
        unsafe { libc::madvise(memory, lines * LINE_BYTES, libc::MADV_HUGEPAGE) };
        let lines_at = NonNull::new(memory.cast())?;
        Some(Cache { paths: Default::default(), lines: lines_at, mask: lines - 1 })
    }

    /// The words of an entry and path; `None` if this path is not cached.
    ///
    /// # Safety
    ///
    /// `path` is an array of C strings that ends with a null pointer.
    #[inline]
    pub(crate) unsafe fn slot(&self, entry: u32, path: *const *const c_char) -> Option<Slot<'_>> {
        // SAFETY: the caller's promise.
        let number = unsafe { self.path_number(path) }?;
        let hash = (u64::from(entry).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        let word = (hash & self.mask) * WORDS_PER_LINE + 2 * number;
        // SAFETY: the line is below the number of lines and the path below theirs, so the two
        // words lie inside our memory; atomics may be shared.
        let words = unsafe { self.lines.add(word).cast::<[AtomicU64; 2]>().as_ref() };
        Some(Slot { words, entry })
    }

    /// The place of a path, which it takes if nobody has it.
    ///
    /// # Safety
    ///
    /// As [`slot`](Cache::slot).
    #[inline]
    unsafe fn path_number(&self, path: *const *const c_char) -> Option<usize> {
        // SAFETY: the caller's promise: texts until the null pointer, at least one byte each.
        let number = unsafe {
            let mut hash = 0_usize;
            let mut next = path;
            while !(*next).is_null() {
                let first = *(*next).cast::<u8>();
                let second = if first == 0 { 0 } else { *(*next).cast::<u8>().add(1) };
                hash = hash.wrapping_mul(31) + usize::from(first) + 3 * usize::from(second);
                next = next.add(1);
            }
            (hash ^ (hash >> 3) ^ (hash >> 7)) % PATHS
        };
        let known = self.paths.get(number)?;
        // SAFETY: as above.
        unsafe {
            let known = match known.get() {
                Some(known) => known,
                None => known.get_or_init(|| copy(path)),
            };
            is_same(known, path).then_some(number)
        }
    }
}

/// # Safety
///
/// As [`Cache::slot`].
unsafe fn copy(path: *const *const c_char) -> Box<[CString]> {
    let mut names = Vec::new();
    let mut next = path;
    // SAFETY: the caller's promise.
    unsafe {
        while !(*next).is_null() {
            names.push(CStr::from_ptr(*next).to_owned());
            next = next.add(1);
        }
    }
    names.into_boxed_slice()
}

/// # Safety
///
/// As [`Cache::slot`].
#[inline]
unsafe fn is_same(known: &[CString], path: *const *const c_char) -> bool {
    let mut next = path;
    for name in known {
        // SAFETY: the caller's promise; we stop at the null pointer.
        unsafe {
            if (*next).is_null() || libc::strcmp(name.as_ptr(), *next) != 0 {
                return false;
            }
            next = next.add(1);
        }
    }
    // SAFETY: as above.
    unsafe { (*next).is_null() }
}

impl Slot<'_> {
    /// What is known of the entry's value at the path.
    #[inline]
    pub(crate) fn get(self) -> Option<Place> {
        let [place, next] = self.words;
        let of_entry = |word: u64| ((word >> 32) as u32 == self.entry).then_some(word as u32);
        let place = of_entry(place.load(Relaxed))?;
        if place & IS_KNOWN == 0 {
            return None;
        }
        let after_pointer = match place & HAS_POINTER {
            0 => None,
            _ => Some(of_entry(next.load(Relaxed)).filter(|&next| next != 0)?),
        };
        Some(Place { at: place & PLACE, after_pointer })
    }

    /// Remembers a place, if the words have room for it.
    #[inline]
    pub(crate) fn set(self, found: Place) {
        if found.at > PLACE {
            return;
        }
        let [place, next] = self.words;
        let word = |number: u32| (u64::from(self.entry) << 32) | u64::from(number);
        let mut flags = IS_KNOWN;
        if let Some(after) = found.after_pointer {
            next.store(word(after), Relaxed);
            flags |= HAS_POINTER;
        }
        place.store(word(found.at | flags), Relaxed);
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let size_bytes = (self.mask + 1) * LINE_BYTES;
        // SAFETY: our own memory, of which no slot is left.
        unsafe { libc::munmap(self.lines.as_ptr().cast(), size_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(names: &[&'static CStr]) -> Vec<*const c_char> {
        names.iter().map(|name| name.as_ptr()).chain([std::ptr::null()]).collect()
    }

    #[test]
    fn an_entry_and_path_give_what_was_set_and_others_nothing() {
        let cache = Cache::new(1 << 16).unwrap();
        let paths = [path(&[c"country", c"iso_code"]), path(&[c"city"]), path(&[])];
        for entry in [0, 1, 77, u32::MAX] {
            for (number, path) in (0..).zip(&paths) {
                // SAFETY: the paths end with a null pointer.
                let Some(slot) = (unsafe { cache.slot(entry, path.as_ptr()) }) else { continue };
                assert_eq!(slot.get(), None);
                for after_pointer in [None, Some(9)] {
                    let place = Place { at: entry / 4 + number, after_pointer };
                    slot.set(place);
                    assert_eq!(slot.get(), Some(place).filter(|place| place.at <= PLACE));
                }
            }
        }
    }

    #[test]
    fn another_text_in_the_same_memory_is_another_path() {
        let cache = Cache::new(0).unwrap();
        let mut text = *b"ab\0";
        let asked = |text: &[u8; 3]| {
            let path = [text.as_ptr().cast(), std::ptr::null()];
            // SAFETY: the text ends with a zero byte, the path with a null pointer.
            unsafe { cache.slot(1, path.as_ptr()) }.map(|slot| {
                let known = slot.get();
                slot.set(Place { at: 5, after_pointer: None });
                known
            })
        };
        assert_eq!(asked(&text), Some(None));
        assert!(asked(&text).is_some_and(|known| known.is_some()));
        text[1] = b'c';
        assert!(asked(&text).is_none_or(|known| known.is_none()));
    }
}
