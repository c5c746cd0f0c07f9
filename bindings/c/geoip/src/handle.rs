//! The handle: the public structure, and what hangs off it; opening and closing.
//!
//! ```text
//! GeoIP* ──► | the public 112 bytes | data ──┐ | reload | readers | segments |  one allocation
//!                                            └──► Data, never changed, replaced by a reload
//! ```
//!
//! Not for lookups. Hosts read the public fields, and write `charset` and `flags`: they are read at
//! each call. Invariants: `data` is never null; what it leads to lives until the handle is deleted,
//! or until a reload has replaced it and no lookup reads it (`readers.rs`). Everything that callers
//! get and do not free is constant or lives as long as the handle. Threads: any number may look up;
//! only one may delete, when no other uses the handle. `CHECK_CACHE` is set before a second thread
//! has the handle.

use crate::abi::{CHECK_CACHE, GeoIP, TEREDO};
use crate::data::Data;
use crate::editions::Edition;
use crate::paths;
use crate::readers::{DataGuard, Readers};
use crate::reload::{self, Reload};
use crate::status::{complain, guarded, keeping_errno};
use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicPtr};

#[repr(C)]
pub(crate) struct Handle {
    public: UnsafeCell<GeoIP>,
    pub(crate) data: AtomicPtr<Data>,
    pub(crate) reload: Reload,
    pub(crate) readers: Readers,
    /// What `databaseSegments` points to; the second one ends the list.
    segments: UnsafeCell<[c_uint; 2]>,
}

impl Handle {
    /// The handle behind a pointer of the caller.
    ///
    /// # Safety
    ///
    /// `gi` is null or was returned by this library and is not deleted.
    #[inline(always)]
    pub(crate) unsafe fn of<'a>(gi: *mut GeoIP) -> Option<&'a Handle> {
        // SAFETY: the caller's promise; the public structure begins a `Handle`.
        unsafe { gi.cast::<Handle>().as_ref() }
    }

    /// The data to answer from. With `CHECK_CACHE` the file is looked at, once a second at most.
    #[inline(always)]
    pub(crate) fn data(&self) -> DataGuard<'_> {
        if self.flags() & CHECK_CACHE == 0 {
            // SAFETY: see the invariants: nothing replaces it.
            return DataGuard::unannounced(unsafe { &*self.data.load(Acquire) });
        }
        // Not exact where threads meet, which only moves a look by some lookups.
        match self.reload.unchecked.load(Relaxed) {
            0 => reload::look(self),
            left => self.reload.unchecked.store(left - 1, Relaxed),
        }
        // SAFETY: see the invariants.
        unsafe { self.readers.read(&self.data) }
    }

    #[inline(always)]
    pub(crate) fn flags(&self) -> c_int {
        // SAFETY: a public field, which hosts may write between calls.
        unsafe { (&raw const (*self.public.get()).flags).read() }
    }

    #[inline(always)]
    pub(crate) fn charset(&self) -> c_int {
        // SAFETY: as above.
        unsafe { (&raw const (*self.public.get()).charset).read() }
    }

    pub(crate) fn set_charset(&self, charset: c_int) {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.public.get()).charset).write(charset) }
    }

    pub(crate) fn extended_flags(&self) -> c_uint {
        // SAFETY: as above.
        unsafe { (&raw const (*self.public.get()).ext_flags).read() }
    }

    pub(crate) fn set_extended_flags(&self, flags: c_uint) {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.public.get()).ext_flags).write(flags) }
    }

    #[inline(always)]
    pub(crate) fn has_teredo(&self) -> bool {
        self.extended_flags() & TEREDO != 0
    }

    /// The mask of the last lookup, whichever thread made it.
    #[inline(always)]
    pub(crate) fn netmask(&self) -> &AtomicI32 {
        // SAFETY: an aligned public field that lives as long as the handle; only we write it.
        unsafe { AtomicI32::from_ptr(&raw mut (*self.public.get()).netmask) }
    }

    #[inline(always)]
    pub(crate) fn last_check(&self) -> &AtomicI64 {
        // SAFETY: as above.
        unsafe { AtomicI64::from_ptr(&raw mut (*self.public.get()).last_mtime_check) }
    }

    pub(crate) fn path(&self) -> &CStr {
        // SAFETY: a C string of ours until the handle is deleted.
        unsafe { CStr::from_ptr((*self.public.get()).file_path) }
    }

    /// Shows in the public fields what the data is.
    pub(crate) fn show(&self, data: &Data) {
        let layout = &data.layout;
        // SAFETY: fields that hosts only read. One that reads while another thread reloads sees
        // the old or the new value of each.
        unsafe {
            let public = self.public.get();
            (&raw mut (*public).databaseType).write_volatile(layout.edition.number as c_char);
            (&raw mut (*public).record_length)
                .write_volatile(layout.edition.record_bytes as c_char);
            (&raw mut (*public).size).write_volatile(layout.size_bytes as c_long);
            let modified = data.identity.modified_seconds;
            (&raw mut (*public).mtime).write_volatile(modified);
            self.segments.get().cast::<c_uint>().write_volatile(layout.base);
        }
    }
}

/// Opens a file, or what answers in its place. `edition` is the type that is asked for, if one is.
pub(crate) fn open(path: &CStr, flags: c_int, edition: Option<&'static Edition>) -> *mut GeoIP {
    let (path, opened) = match paths::stand_in(path, flags, edition) {
        Some((path, data)) => (path, Ok(data)),
        None => (path.to_owned(), Data::open(path, flags, None)),
    };
    match opened {
        Ok(data) => keep(&path, flags, data),
        Err(error) => {
            complain(flags, &error.line(&path));
            null_mut()
        }
    }
}

fn keep(path: &CString, flags: c_int, data: Data) -> *mut GeoIP {
    // SAFETY: a C string; the copy is freed by `GeoIP_delete`.
    let file_path = unsafe { libc::strdup(path.as_ptr()) };
    if file_path.is_null() {
        return null_mut();
    }
    let public = GeoIP {
        GeoIPDatabase: null_mut(),
        file_path,
        cache: null_mut(),
        index_cache: null_mut(),
        databaseSegments: null_mut(),
        databaseType: 0,
        mtime: 0,
        flags,
        size: 0,
        record_length: 0,
        charset: 0,
        record_iter: 0,
        netmask: 0,
        last_mtime_check: 0,
        dyn_seg_size: 0,
        ext_flags: TEREDO,
    };
    let handle = Box::new(Handle {
        public: UnsafeCell::new(public),
        data: AtomicPtr::new(null_mut()),
        reload: Reload::default(),
        readers: Readers::default(),
        segments: UnsafeCell::new([0, 0]),
    });
    handle.show(&data);
    handle.data.store(Box::into_raw(Box::new(data)), Relaxed);
    let handle = Box::into_raw(handle);
    // SAFETY: just made, and known to nobody else; the segments are in the same allocation.
    unsafe {
        let segments = (*handle).segments.get().cast();
        (*(*handle).public.get()).databaseSegments = segments;
    }
    handle.cast()
}

/// Opens a database.
///
/// # Safety
///
/// `filename` is a C string or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_open(filename: *const c_char, flags: c_int) -> *mut GeoIP {
    guarded(null_mut, || {
        if filename.is_null() {
            return null_mut();
        }
        // SAFETY: the caller keeps the contract above.
        open(unsafe { CStr::from_ptr(filename) }, flags, None)
    })
}

/// Closes a database and frees the handle.
///
/// # Safety
///
/// `gi` is null, or an open handle that nobody uses any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_delete(gi: *mut GeoIP) {
    guarded(
        || (),
        || {
            if gi.is_null() {
                return;
            }
            // SAFETY: the caller keeps the contract above: the handle is ours alone.
            let handle = unsafe { Box::from_raw(gi.cast::<Handle>()) };
            keeping_errno(|| {
                // SAFETY: the data of a handle that nobody uses; the path was allocated by strdup.
                unsafe {
                    drop(Box::from_raw(handle.data.load(Acquire)));
                    libc::free((*handle.public.get()).file_path.cast());
                }
            });
        },
    );
}
