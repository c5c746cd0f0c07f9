//! The few paths whose answers are remembered, each with a small number.
//!
//! Not for answers (see `cache.rs` and `answers.rs`). A path takes the place that its hash says,
//! once for the life of the mapping, and numbers are given in order of arrival; a path that finds
//! its place taken by another, or comes after the last number, has none.
//!
//! Invariants: the whole path is compared at each question, since callers may change the text in
//! their memory. Cost: one pass over the path; nothing is locked once a path is known.

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many paths have a number.
pub(crate) const PATHS: usize = 8;
const PLACES: usize = 32;

/// The known paths; see the file's head.
#[derive(Default)]
pub(crate) struct Paths {
    places: [OnceLock<Known>; PLACES],
    count: AtomicUsize,
}

struct Known {
    number: usize,
    /// The names one after the other, each with its zero byte.
    text: Box<[u8]>,
}

impl Paths {
    /// The number of a path, below [`PATHS`]; a new path gets one if there is one left.
    ///
    /// # Safety
    ///
    /// `path` is an array of C strings that ends with a null pointer.
    #[inline]
    pub(crate) unsafe fn number(&self, path: *const *const c_char) -> Option<usize> {
        // SAFETY: the caller's promise: texts until the null pointer, at least one byte each.
        let place = unsafe {
            let mut hash = 0_usize;
            let mut next = path;
            while !(*next).is_null() {
                let first = *(*next).cast::<u8>();
                let second = if first == 0 { 0 } else { *(*next).cast::<u8>().add(1) };
                hash = hash.wrapping_mul(31) + usize::from(first) + 3 * usize::from(second);
                next = next.add(1);
            }
            self.places.get((hash ^ (hash >> 3) ^ (hash >> 7)) % PLACES)?
        };
        // SAFETY: as above.
        unsafe {
            let known = match place.get() {
                Some(known) => known,
                None => self.learn(place, path)?,
            };
            (known.number < PATHS && is_same(&known.text, path)).then_some(known.number)
        }
    }

    /// # Safety
    ///
    /// As [`Paths::number`].
    #[cold]
    unsafe fn learn<'a>(
        &self,
        place: &'a OnceLock<Known>,
        path: *const *const c_char,
    ) -> Option<&'a Known> {
        if self.count.load(Relaxed) >= PATHS {
            return None;
        }
        Some(place.get_or_init(|| {
            // SAFETY: the caller's promise.
            let text = unsafe { copy(path) };
            Known { number: self.count.fetch_add(1, Relaxed), text }
        }))
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
}
