//! What a handle is and how it is set: edition, copyright text, charset, Teredo, the last mask.
//!
//! Not for lookups. Null handles have no edition, no text, charset 0 and no Teredo.

use crate::abi::{GeoIP, TEREDO};
use crate::handle::Handle;
use crate::status::guarded;
use crate::strings::copy;
use std::ffi::{c_char, c_int, c_uchar};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

/// The version of libGeoIP whose interface this is.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GeoIP_lib_version() -> *const c_char {
    c"1.6.12".as_ptr()
}

/// The copyright text of the file, for the caller to free; null if it has none.
///
/// # Safety
///
/// `gi` is an open handle or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_database_info(gi: *mut GeoIP) -> *mut c_char {
    // SAFETY: the caller keeps the contract above.
    guarded(null_mut, || unsafe {
        let Some(handle) = Handle::of(gi) else { return null_mut() };
        handle.data().info().map_or(null_mut(), copy)
    })
}

/// The number of the file's edition.
///
/// # Safety
///
/// `gi` is an open handle or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_database_edition(gi: *mut GeoIP) -> c_uchar {
    // SAFETY: the caller keeps the contract above.
    guarded(
        || 0,
        || unsafe { Handle::of(gi).map_or(0, |handle| handle.data().layout.edition.number) },
    )
}

/// The charset of the handle's strings: 0 is ISO 8859-1, 1 UTF-8.
///
/// # Safety
///
/// `gi` is an open handle or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_charset(gi: *mut GeoIP) -> c_int {
    // SAFETY: the caller keeps the contract above.
    unsafe { Handle::of(gi) }.map_or(0, Handle::charset)
}

/// Sets the charset; returns the one before.
///
/// # Safety
///
/// `gi` is an open handle or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_set_charset(gi: *mut GeoIP, charset: c_int) -> c_int {
    // SAFETY: the caller keeps the contract above.
    let Some(handle) = (unsafe { Handle::of(gi) }) else { return 0 };
    let before = handle.charset();
    handle.set_charset(charset);
    before
}

/// Switches Teredo on or off; returns whether it was on.
///
/// # Safety
///
/// `gi` is an open handle or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_enable_teredo(gi: *mut GeoIP, true_false: c_int) -> c_int {
    // SAFETY: the caller keeps the contract above.
    let Some(handle) = (unsafe { Handle::of(gi) }) else { return 0 };
    let before = handle.extended_flags();
    // All bits of the number are set, as in the original.
    handle.set_extended_flags(before & !TEREDO | true_false as u32);
    c_int::from(before & TEREDO != 0)
}

/// Whether Teredo is on.
///
/// # Safety
///
/// `gi` is an open handle or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_teredo(gi: *mut GeoIP) -> c_int {
    // SAFETY: the caller keeps the contract above.
    unsafe { Handle::of(gi) }.map_or(0, |handle| c_int::from(handle.has_teredo()))
}

/// The mask of the handle's last lookup.
///
/// # Safety
///
/// `gi` is an open handle or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_last_netmask(gi: *mut GeoIP) -> c_int {
    // SAFETY: the caller keeps the contract above.
    unsafe { Handle::of(gi) }.map_or(0, |handle| handle.netmask().load(Relaxed))
}

/// How many bytes the handle's data takes in memory of its own: file, index and records.
///
/// # Safety
///
/// `gi` is an open handle or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn whered_geoip_memory_bytes(gi: *mut GeoIP) -> usize {
    // SAFETY: the caller keeps the contract above.
    unsafe { Handle::of(gi) }.map_or(0, |handle| handle.data().memory_bytes())
}
