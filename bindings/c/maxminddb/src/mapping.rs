//! One mapped file, and what we remember of it in front of it.
//!
//! Not for what the bytes mean. The file is mapped shared and read-only, as the original maps it;
//! in front of it lies a private page whose end holds a [`Mapping`]:
//!
//! ```text
//! base                     content = MMDB_s.file_content
//! | page: ......| Mapping ||| the file ..................|  rest of the last page |
//!   private, read-write        MAP_SHARED, PROT_READ
//! ```
//!
//! So a [`Mapping`] is found from the one pointer that every copy of a caller's structure has, and
//! goes away with the file.
//!
//! Invariants: `content` is page aligned; `Mapping` is written before the pointer is given out,
//! and not changed until it is dropped; after `fork` each process has its own. A file that is
//! truncated while it is mapped makes reads fail with SIGBUS: as with the original, replace
//! databases by rename.

use crate::answers::Answers;
use crate::cache::Cache;
use crate::lookup::Index;
use crate::status::Failure;
use std::ffi::CStr;
use std::ptr::{NonNull, null_mut};
use whered_mmdb::FileTree;

/// What is known of a mapped database.
pub(crate) struct Mapping {
    /// Where the private page begins, and how long page and file are together.
    base: NonNull<u8>,
    total_bytes: usize,
    /// The file's search tree. It borrows the mapping and is dropped before it.
    pub(crate) tree: FileTree,
    pub(crate) index: Index,
    cache: Option<Cache>,
    answers: Option<Answers>,
}

// In front of the file there must be room, and the file's alignment must do.
const _: () = assert!(size_of::<Mapping>() <= 4096 && 4096 % align_of::<Mapping>() == 0);

/// A mapped file that is not yet known to be a database; unmapped when dropped.
pub(crate) struct MappedFile {
    base: NonNull<u8>,
    total_bytes: usize,
    content: NonNull<u8>,
    size_bytes: usize,
}

impl MappedFile {
    /// Maps a file. errno is that of the call that failed.
    pub(crate) fn open(path: &CStr) -> Result<MappedFile, Failure> {
        // SAFETY: a C string and constant flags.
        let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        if file < 0 {
            return Err(Failure::FileOpen);
        }
        let mapped = file_size(file).and_then(|size_bytes| MappedFile::map(file, size_bytes));
        keeping_errno(|| {
            // SAFETY: the descriptor is ours, and is not used again.
            unsafe { libc::close(file) };
        });
        mapped
    }

    fn map(file: i32, size_bytes: usize) -> Result<MappedFile, Failure> {
        // SAFETY: sysconf has no preconditions.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) })
            .map_err(|_| Failure::OutOfMemory)?;
        // No file ends beyond isize::MAX, so that nothing here overflows.
        let total_bytes = page + size_bytes.next_multiple_of(page).max(page);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(null_mut(), total_bytes, libc::PROT_NONE, flags, -1, 0) };
        let Some(base) = not_failed(base) else {
            return Err(Failure::OutOfMemory);
        };
        // SAFETY: `page` is inside the mapping that was just made.
        let content = unsafe { base.add(page) };
        let mapped = MappedFile { base, total_bytes, content, size_bytes };
        // SAFETY: both ranges lie inside our own mapping, and nobody else knows them yet. A file
        // of no bytes is refused by the kernel, as it is for the original.
        let (file_part, own_part) = unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            let at = content.as_ptr().cast();
            let part = libc::mmap(at, size_bytes, libc::PROT_READ, flags, file, 0);
            let own = libc::PROT_READ | libc::PROT_WRITE;
            (part, libc::mprotect(base.as_ptr().cast(), page, own))
        };
        if not_failed(file_part).is_none() {
            let is_memory = std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOMEM);
            return Err(if is_memory { Failure::OutOfMemory } else { Failure::Io });
        }
        if own_part != 0 {
            return Err(Failure::OutOfMemory);
        }
        Ok(mapped)
    }

    /// The file's bytes. Nobody may keep them longer than the mapping lasts, which the lifetime
    /// cannot say: a [`Mapping`] lies inside what it borrows.
    pub(crate) fn bytes(&self) -> &'static [u8] {
        // SAFETY: `size_bytes` bytes are mapped for reading until the file is unmapped; the users
        // of these bytes (`Mapping`, and `open` until it fails) are dropped before that.
        unsafe { std::slice::from_raw_parts(self.content.as_ptr(), self.size_bytes) }
    }

    /// Keeps the file mapped until [`Mapping::close`]; the pointer is the caller's
    /// `file_content`.
    pub(crate) fn keep(
        self,
        tree: FileTree,
        index: Index,
        cache: Option<Cache>,
        answers: Option<Answers>,
    ) -> NonNull<u8> {
        let content = self.content;
        let (base, total_bytes) = (self.base, self.total_bytes);
        let mapping = Mapping { base, total_bytes, tree, index, cache, answers };
        // SAFETY: the page in front of `content` is ours and writable, a `Mapping` fits into it,
        // and the place is aligned: see the assertion above.
        unsafe { content.cast::<Mapping>().sub(1).write(mapping) };
        std::mem::forget(self);
        content
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

// SAFETY: the mapping belongs to this value and is only read.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

impl Drop for MappedFile {
    fn drop(&mut self) {
        unmap(self.base, self.total_bytes);
    }
}

impl Mapping {
    /// The mapping whose file begins at `content`.
    ///
    /// # Safety
    ///
    /// `content` came from [`MappedFile::keep`] and is not closed; it stays open as long as the
    /// reference lives.
    #[inline]
    pub(crate) unsafe fn of<'a>(content: *const u8) -> &'a Mapping {
        // SAFETY: the caller's promise.
        unsafe { &*content.cast::<Mapping>().sub(1) }
    }

    /// Returns the mapping; `None` for a structure that `MMDB_open` has not filled or `MMDB_close`
    /// has left, whose `content` is null.
    ///
    /// # Safety
    ///
    /// As [`of`](Mapping::of), or null.
    #[inline(always)]
    pub(crate) unsafe fn of_open<'a>(content: *const u8) -> Option<&'a Mapping> {
        // SAFETY: the caller's promise.
        (!content.is_null()).then(|| unsafe { Mapping::of(content) })
    }

    /// The cache kept beside the tree.
    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    /// The answers kept beside the index.
    #[inline(always)]
    pub(crate) fn answers(&self) -> Option<&Answers> {
        self.answers.as_ref()
    }

    /// Unmaps the file and forgets what hung on it.
    ///
    /// # Safety
    ///
    /// As [`of`](Mapping::of), and nobody uses the file any more.
    pub(crate) unsafe fn close(content: *const u8) {
        // SAFETY: the caller's promise; the value is moved out once and its memory then unmapped.
        let mapping = unsafe { content.cast::<Mapping>().sub(1).read() };
        let (base, total_bytes) = (mapping.base, mapping.total_bytes);
        drop(mapping);
        unmap(base, total_bytes);
    }
}

fn file_size(file: i32) -> Result<usize, Failure> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: an open descriptor and a place for the answer, read only if the call succeeded.
    let size = unsafe {
        if libc::fstat(file, status.as_mut_ptr()) != 0 {
            return Err(Failure::FileOpen);
        }
        status.assume_init().st_size
    };
    usize::try_from(size).map_err(|_| Failure::OutOfMemory)
}

fn not_failed(mapped: *mut libc::c_void) -> Option<NonNull<u8>> {
    if mapped == libc::MAP_FAILED { None } else { NonNull::new(mapped.cast()) }
}

fn unmap(base: NonNull<u8>, total_bytes: usize) {
    keeping_errno(|| {
        // SAFETY: the range is one mapping that we made, and its owner is gone.
        unsafe { libc::munmap(base.as_ptr().cast(), total_bytes) };
    });
}

/// Does something that may set errno, and puts it back: callers ask it after our failures.
pub(crate) fn keeping_errno<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: errno belongs to this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { errno.read() };
    let made = act();
    // SAFETY: as above.
    unsafe { errno.write(saved) };
    made
}
