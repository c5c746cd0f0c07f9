//! One piece of memory that holds the tables of a compiled index, made here or mapped from a file.
//!
//! For: tables that are built once and read by everybody, in huge pages where the kernel gives
//! them, or shared between processes by a mapping that the caller made. Not for: files (bytes
//! come in and go out), checksums (the owner of the format keeps them), tables that change.
//!
//! ```text
//! Image   | section | pad | section | pad | section |      each section begins at a cache line
//!            ▲                 ▲
//! Section<u32> { pointer, count, image }     holds the image's memory
//! ```
//!
//! Invariants: a section lies inside its image, is aligned for its items, and its items are plain
//! numbers, for which all bytes are sound. The memory is never written after the image is made.
//! (A mapped file that somebody overwrites is the operator's matter, as the access modes say:
//! readers then find other numbers, and they check every number they follow.)
#![allow(unsafe_code, reason = "memory of our own alignment, and numbers read in place")]

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// Where sections begin: at multiples of this.
const LINE_BYTES: usize = 64;
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// From this size on memory begins at a huge page.
const HUGE_MIN_BYTES: usize = HUGE_PAGE_BYTES / 2;
/// From this size on the last part, which no huge page would be filled by, has one all the same.
const HUGE_TAIL_MIN_BYTES: usize = HUGE_PAGE_BYTES / 4;

/// Memory that is shared by everybody who reads from it.
#[derive(Clone)]
pub struct Image(Arc<dyn Bytes>);

/// Bytes that stay where they are for as long as the value lives, also when it is moved.
trait Bytes: Send + Sync {
    fn bytes(&self) -> &[u8];
}

impl Image {
    /// Memory with copies of the sections, and the place of each.
    ///
    /// On Linux, memory of 1 MiB and more is offered to the kernel for huge pages; up to 1.5 MiB
    /// of the last one may stay unused.
    #[must_use]
    pub fn with_sections(sections: &[&[u8]]) -> (Image, Vec<Range<usize>>) {
        let mut places = Vec::with_capacity(sections.len());
        let mut end = 0_usize;
        for section in sections {
            let start = end.next_multiple_of(LINE_BYTES);
            end = start + section.len();
            places.push(start..end);
        }
        let mut pages = Pages::zeroed(end);
        for (section, place) in sections.iter().zip(&places) {
            pages.as_mut_slice()[place.clone()].copy_from_slice(section);
        }
        (Image(Arc::new(pages)), places)
    }

    /// Memory with copies of the parts, one behind the other, that `edit` changes before anybody
    /// reads it: a copy of a large table with some new rows costs little more than the copy.
    #[must_use]
    pub fn edited(parts: &[&[u8]], edit: impl FnOnce(&mut [u8])) -> Image {
        let mut pages = Pages::zeroed(parts.iter().map(|part| part.len()).sum());
        let mut rest = pages.as_mut_slice();
        for part in parts {
            let (place, behind) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = behind;
        }
        edit(pages.as_mut_slice());
        Image(Arc::new(pages))
    }

    /// An image over bytes that somebody else holds, such as a mapped file.
    ///
    /// The bytes must stay where they are for as long as `owner` lives, which is true of a
    /// `Vec<u8>`, a `Box<[u8]>` and a mapping; this is asked once, when the image is made.
    #[must_use]
    pub fn shared(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Image {
        struct Shared {
            bytes: NonNull<[u8]>,
            _owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
        }
        // SAFETY: the bytes are only read, and their owner may be sent and shared.
        unsafe impl Send for Shared {}
        // SAFETY: as above.
        unsafe impl Sync for Shared {}
        impl Bytes for Shared {
            fn bytes(&self) -> &[u8] {
                // SAFETY: the owner beside it keeps the bytes, and is never lent out mutably.
                unsafe { self.bytes.as_ref() }
            }
        }
        let bytes = NonNull::from((*owner).as_ref());
        Image(Arc::new(Shared { bytes, _owner: owner }))
    }

    /// All bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// The part of the image at `place` as numbers; `None` if it is not inside, or does not begin
    /// where such numbers may stand, or holds no whole number of them.
    #[must_use]
    pub fn section<T: Plain>(&self, place: Range<usize>) -> Option<Section<T>> {
        let bytes = self.as_bytes().get(place)?;
        // SAFETY: `Plain` promises that all bytes are sound values.
        let (before, items, behind) = unsafe { bytes.align_to::<T>() };
        if !before.is_empty() || !behind.is_empty() {
            return None;
        }
        Some(Section { items: NonNull::from(items), _image: self.clone(), _of: PhantomData })
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("size_bytes", &self.as_bytes().len()).finish()
    }
}

/// Numbers without padding for which every pattern of bits is a value.
///
/// # Safety
///
/// The implementor promises that.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

// SAFETY: numbers.
unsafe impl Plain for u8 {}
// SAFETY: numbers.
unsafe impl Plain for u16 {}
// SAFETY: numbers.
unsafe impl Plain for u32 {}
// SAFETY: numbers.
unsafe impl Plain for u64 {}
// SAFETY: numbers.
unsafe impl Plain for i64 {}
// SAFETY: numbers side by side, without padding between them.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// A table inside an [`Image`]; reads like a slice.
pub struct Section<T> {
    items: NonNull<[T]>,
    _image: Image,
    _of: PhantomData<T>,
}

// SAFETY: items are plain numbers that never change; the image may be sent and shared.
unsafe impl<T: Plain> Send for Section<T> {}
// SAFETY: as above.
unsafe impl<T: Plain> Sync for Section<T> {}

impl<T: Plain> Deref for Section<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the image beside it keeps the memory, which never changes.
        unsafe { self.items.as_ref() }
    }
}

impl<T: Plain> Section<T> {
    /// Prefetches the cache line of an item. An index out of bounds does no harm.
    #[inline(always)]
    pub fn prefetch(&self, place: usize) {
        crate::simd::prefetch(self, place);
    }
}

impl<T> Clone for Section<T> {
    fn clone(&self) -> Self {
        Section { items: self.items, _image: self._image.clone(), _of: PhantomData }
    }
}

impl<T: Plain> fmt::Debug for Section<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} items", self.len())
    }
}

/// The bytes of plain numbers, as they lie in memory.
#[must_use]
pub fn bytes_of<T: Plain>(items: &[T]) -> &[u8] {
    // SAFETY: `Plain` promises that there is no padding, so all bytes are initialised.
    unsafe { std::slice::from_raw_parts(items.as_ptr().cast(), size_of_val(items)) }
}

/// Numbers in memory of their own, in huge pages where they are many.
pub(crate) fn section<T: Plain>(items: &[T]) -> Section<T> {
    let (image, places) = Image::with_sections(&[bytes_of(items)]);
    image.section(places[0].clone()).expect("laid out just now")
}

/// Two tables side by side, so that they share huge pages where both together are many.
pub(crate) fn sections<A: Plain, B: Plain>(a: &[A], b: &[B]) -> (Section<A>, Section<B>) {
    let (image, places) = Image::with_sections(&[bytes_of(a), bytes_of(b)]);
    let expected = "laid out just now";
    (
        image.section(places[0].clone()).expect(expected),
        image.section(places[1].clone()).expect(expected),
    )
}

/// Zeroed memory that begins at a huge page if it is large, at a cache line if not.
struct Pages {
    start: NonNull<u8>,
    layout: Layout,
    size_bytes: usize,
}

impl Pages {
    fn zeroed(size_bytes: usize) -> Pages {
        let (alignment, kept) = match size_bytes {
            0..HUGE_MIN_BYTES => (LINE_BYTES, size_bytes.max(1)),
            _ if size_bytes % HUGE_PAGE_BYTES < HUGE_TAIL_MIN_BYTES => {
                (HUGE_PAGE_BYTES, size_bytes.next_multiple_of(4096))
            }
            _ => (HUGE_PAGE_BYTES, size_bytes.next_multiple_of(HUGE_PAGE_BYTES)),
        };
        let layout = Layout::from_size_align(kept, alignment).expect("sizes are those of slices");
        // SAFETY: the size is not zero.
        let start = unsafe { std::alloc::alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        if alignment == HUGE_PAGE_BYTES {
            ask_for_huge_pages(start, kept);
        }
        // SAFETY: at least that many octets were allocated at `start`; nobody sees what is behind.
        unsafe { start.write_bytes(0, size_bytes) };
        Pages { start, layout, size_bytes }
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: allocated, zeroed, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.size_bytes) }
    }
}

impl Bytes for Pages {
    fn bytes(&self) -> &[u8] {
        // SAFETY: allocated and zeroed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.size_bytes) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) }
    }
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Pages {}
// SAFETY: shared references only read.
unsafe impl Sync for Pages {}

/// Tells the kernel that these pages had better be huge. It may say no: nothing depends on it.
fn ask_for_huge_pages(start: NonNull<u8>, size_bytes: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: the range was allocated just now; the advice changes no contents.
    unsafe {
        libc::madvise(start.as_ptr().cast(), size_bytes, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, size_bytes);
}
