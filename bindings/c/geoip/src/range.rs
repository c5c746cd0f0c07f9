//! The range of addresses around one that have its answer: `GeoIP_range_by_ip`.
//!
//! Not for IPv6, as in the original. Neighbouring networks with the same number are one range. A
//! range of all addresses takes as many lookups as the tree has networks.

use crate::abi::{GeoIP, GeoIPLookup};
use crate::address;
use crate::handle::Handle;
use crate::questions::seek;
use crate::status::guarded;
use crate::strings::copy;
use crate::tree::Address;
use std::ffi::c_char;
use std::net::Ipv4Addr;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

/// The range of an address: its first and last address in text form, for
/// `GeoIP_range_by_ip_delete`; `gl` gets the mask.
///
/// # Safety
///
/// As the header says; pointers may be null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_range_by_ip_gl(
    gi: *mut GeoIP,
    addr: *const c_char,
    gl: *mut GeoIPLookup,
) -> *mut *mut c_char {
    // SAFETY: the caller keeps the contract above.
    guarded(null_mut, || unsafe {
        let (Some(handle), Some(address)) = (Handle::of(gi), address::by_addr4(addr)) else {
            return null_mut();
        };
        let found = range(handle, (address.bits >> 96) as u32, gl);
        found.map_or(null_mut(), |(first, last)| pair([first, last]))
    })
}

/// The first and last address of a range. `None`: the tree has more networks than a file of its
/// size describes, as only a broken one does.
///
/// # Safety
///
/// `lookup` is a place for the mask, or null.
unsafe fn range(handle: &Handle, address: u32, lookup: *mut GeoIPLookup) -> Option<(u32, u32)> {
    let data = handle.data();
    let mut steps = data.layout.size_bytes.saturating_mul(4).saturating_add(256);
    // The number of an address, the first and last address of its network, and the mask. A broken
    // tree has the number 0 and no mask; then that of the handle goes on, as in the original.
    let network = |address: u32, lookup: *mut GeoIPLookup| {
        let mut own = GeoIPLookup { netmask: handle.netmask().load(Relaxed) };
        // SAFETY: a place of our own.
        let number = unsafe { seek(handle, &data, Address::v4(address), &raw mut own) };
        // SAFETY: the caller's promise.
        if let Some(lookup) = unsafe { lookup.as_mut() }
            && number != 0
        {
            lookup.netmask = own.netmask;
        }
        let host = u32::MAX.checked_shr(own.netmask.clamp(0, 32) as u32).unwrap_or(0);
        (number, address & !host, address | host, own.netmask)
    };
    let (number, mut first, mut last, mask) = network(address, lookup);
    while number != 0
        && let Some(before) = first.checked_sub(1)
    {
        let (other, start, ..) = network(before, null_mut());
        if other != number {
            break;
        }
        first = start;
        steps = steps.checked_sub(1)?;
    }
    while number != 0
        && let Some(behind) = last.checked_add(1)
    {
        let (other, _, end, _) = network(behind, null_mut());
        if other != number {
            break;
        }
        last = end;
        steps = steps.checked_sub(1)?;
    }
    handle.netmask().store(mask, Relaxed);
    Some((first, last))
}

/// Two addresses in an array for the caller; null if there is no memory.
fn pair(addresses: [u32; 2]) -> *mut *mut c_char {
    // SAFETY: malloc has no preconditions.
    let place = unsafe { libc::malloc(size_of::<[*mut c_char; 2]>()) }.cast::<[*mut c_char; 2]>();
    if place.is_null() {
        return null_mut();
    }
    let texts = addresses.map(|bits| copy(Ipv4Addr::from_bits(bits).to_string().as_bytes()));
    // SAFETY: new memory of that size.
    unsafe { place.write(texts) };
    place.cast()
}

/// The range of an address: its first and last address in text form, for
/// `GeoIP_range_by_ip_delete`.
///
/// # Safety
///
/// As the header says; pointers may be null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_range_by_ip(
    gi: *mut GeoIP,
    addr: *const c_char,
) -> *mut *mut c_char {
    // SAFETY: the caller keeps the contract above.
    unsafe { GeoIP_range_by_ip_gl(gi, addr, null_mut()) }
}

/// Frees a range.
///
/// # Safety
///
/// `ptr` is null, or came from `GeoIP_range_by_ip` and is used no more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_range_by_ip_delete(ptr: *mut *mut c_char) {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        if let Some([first, last]) = ptr.cast::<[*mut c_char; 2]>().as_ref() {
            libc::free(first.cast());
            libc::free(last.cast());
            libc::free(ptr.cast());
        }
    }
}
