//! From what callers have to an address: text, numbers, host names, Teredo.
//!
//! Not for lookups. What is no address becomes the address 0, as in the original: a lookup of it
//! finds nothing, but sets the mask.

use crate::abi::geoipv6_t;
use crate::status::guarded;
use crate::tree::Address;
use std::ffi::{CStr, c_char, c_int, c_ulong};
use std::ptr::{null, null_mut};
use whered_ip::text::{parse4, parse6};

/// The bytes of a C string.
///
/// # Safety
///
/// `text` is a C string or null.
#[inline(always)]
unsafe fn bytes<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// An IPv4 address in text form; `None` for a null pointer.
///
/// # Safety
///
/// `text` is a C string or null.
#[inline(always)]
pub(crate) unsafe fn by_addr4(text: *const c_char) -> Option<Address> {
    // SAFETY: the caller's promise.
    Some(Address::v4(number4(unsafe { bytes(text) }?)))
}

/// An IPv6 address in text form; `None` for a null pointer.
///
/// # Safety
///
/// `text` is a C string or null.
#[inline(always)]
pub(crate) unsafe fn by_addr6(text: *const c_char) -> Option<Address> {
    // SAFETY: the caller's promise.
    Some(Address::v6(parse6(unsafe { bytes(text) }?).unwrap_or(0)))
}

/// The IPv4 address of a host; `None` if it has none.
///
/// # Safety
///
/// `name` is a C string or null.
pub(crate) unsafe fn by_name4(name: *const c_char) -> Option<Address> {
    // SAFETY: the caller's promise.
    let number = unsafe { _GeoIP_lookupaddress(name) };
    (number != 0).then(|| Address::v4(number as u32))
}

/// The IPv6 address of a host; `None` if it has none.
///
/// # Safety
///
/// `name` is a C string or null.
pub(crate) unsafe fn by_name6(name: *const c_char) -> Option<Address> {
    // SAFETY: the caller's promise.
    let bits = unsafe { _GeoIP_lookupaddress_v6(name) }.to_bits();
    (bits != 0).then(|| Address::v6(bits))
}

/// An IPv4 address as a number; only its low 32 bits count.
///
/// # Safety
///
/// None: unsafe for the sake of its neighbours.
#[inline(always)]
pub(crate) unsafe fn by_ipnum4(number: c_ulong) -> Option<Address> {
    Some(Address::v4(number as u32))
}

/// An IPv6 address as a number.
///
/// # Safety
///
/// None: unsafe for the sake of its neighbours.
#[inline(always)]
pub(crate) unsafe fn by_ipnum6(number: geoipv6_t) -> Option<Address> {
    Some(Address::v6(number.to_bits()))
}

/// An IPv4 address in libGeoIP's text form: four decimal numbers up to 255, any number of leading
/// zeros, a number without digits is 0. 0 if it is none.
#[inline(always)]
fn number4(text: &[u8]) -> u32 {
    match parse4(text) {
        Some(number) => number,
        None => number4_of_rare_forms(text),
    }
}

#[cold]
fn number4_of_rare_forms(text: &[u8]) -> u32 {
    let mut address = 0_u32;
    let mut octets = 0;
    for part in text.split(|&byte| byte == b'.') {
        // As the original counts: modulo 2^32, so that 4294967297 is 1.
        let octet = part.iter().try_fold(0_u32, |octet, byte| {
            let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'))?;
            Some(octet.wrapping_mul(10).wrapping_add(digit))
        });
        let Some(octet @ ..=255) = octet else { return 0 };
        address = address << 8 | octet;
        octets += 1;
    }
    if octets == 4 { address } else { 0 }
}

/// The first 32 bits of Teredo's addresses.
const TEREDO_PREFIX: u32 = 0x2001_0000;

/// The address to look up for a Teredo address: its client's, under `::/96`.
#[inline(always)]
pub(crate) fn without_teredo(bits: u128) -> u128 {
    if (bits >> 96) as u32 == TEREDO_PREFIX { u128::from(!(bits as u32)) } else { bits }
}

/// The number of an IPv4 address in text form, or 0.
///
/// # Safety
///
/// `addr` is a C string or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_addr_to_num(addr: *const c_char) -> c_ulong {
    // SAFETY: the caller keeps the contract above.
    guarded(|| 0, || unsafe { bytes(addr) }.map_or(0, |text| c_ulong::from(number4(text))))
}

/// The number of an IPv6 address in text form, or all zero.
///
/// # Safety
///
/// `addr` is a C string or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _GeoIP_addr_to_num_v6(addr: *const c_char) -> geoipv6_t {
    guarded(
        || geoipv6_t::from_bits(0),
        || {
            // SAFETY: the caller keeps the contract above.
            let found = unsafe { bytes(addr) }.and_then(parse6);
            geoipv6_t::from_bits(found.unwrap_or(0))
        },
    )
}

/// The text of an IPv4 address, for the caller to free.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GeoIP_num_to_addr(ipnum: c_ulong) -> *mut c_char {
    guarded(null_mut, || {
        let text = std::net::Ipv4Addr::from_bits(ipnum as u32).to_string();
        crate::strings::copy(text.as_bytes())
    })
}

/// The IPv4 address of a host as a number, or 0. Waits for the resolver.
///
/// # Safety
///
/// `host` is a C string or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _GeoIP_lookupaddress(host: *const c_char) -> c_ulong {
    guarded(
        || 0,
        || {
            // SAFETY: the caller keeps the contract above; the family is that of the structure.
            let found = unsafe {
                resolve(host, libc::AF_INET, |address| {
                    (*address.cast::<libc::sockaddr_in>()).sin_addr.s_addr
                })
            };
            found.map_or(0, |address| c_ulong::from(u32::from_be(address)))
        },
    )
}

/// The IPv6 address of a host, or all zero. Waits for the resolver.
///
/// # Safety
///
/// `host` is a C string or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _GeoIP_lookupaddress_v6(host: *const c_char) -> geoipv6_t {
    guarded(
        || geoipv6_t::from_bits(0),
        || {
            // SAFETY: the caller keeps the contract above; the family is that of the structure.
            let found = unsafe {
                resolve(host, libc::AF_INET6, |address| {
                    (*address.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr
                })
            };
            geoipv6_t::from_bits(found.map_or(0, u128::from_be_bytes))
        },
    )
}

/// The first address of a host in a family.
///
/// # Safety
///
/// `host` is a C string or null; `read` reads a socket address of the family.
unsafe fn resolve<T>(
    host: *const c_char,
    family: c_int,
    read: impl FnOnce(*const libc::sockaddr) -> T,
) -> Option<T> {
    if host.is_null() {
        return None;
    }
    // SAFETY: all zero is what the hints of getaddrinfo begin with.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_family = family;
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut found = null_mut();
    // SAFETY: C strings and places of our own.
    if unsafe { libc::getaddrinfo(host, null(), &raw const hints, &raw mut found) } != 0 {
        return None;
    }
    // SAFETY: getaddrinfo has filled a list of at least one address of the family.
    unsafe {
        let first = read((*found).ai_addr);
        libc::freeaddrinfo(found);
        Some(first)
    }
}

/// Replaces a Teredo address by its client's.
///
/// # Safety
///
/// `ipnum` is an address or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __GEOIP_PREPARE_TEREDO(ipnum: *mut geoipv6_t) {
    // SAFETY: the caller keeps the contract above.
    if let Some(ipnum) = unsafe { ipnum.as_mut() } {
        *ipnum = geoipv6_t::from_bits(without_teredo(ipnum.to_bits()));
    }
}

/// Whether an address is all zero.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn __GEOIP_V6_IS_NULL(ipnum: geoipv6_t) -> c_int {
    c_int::from(ipnum.to_bits() == 0)
}

/// The blocks that are private: address and length.
const PRIVATE: [(c_ulong, u32); 5] =
    [(0x0a00_0000, 8), (0xac10_0000, 12), (0xc0a8_0000, 16), (0xa9fe_0000, 16), (0x7f00_0000, 8)];

/// Whether an address is private, link-local or of this host.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GeoIP_is_private_ipnum_v4(ipnum: c_ulong) -> c_int {
    let is_in = |&(block, length): &(c_ulong, u32)| (ipnum ^ block) >> (32 - length) == 0;
    c_int::from(PRIVATE.iter().any(is_in))
}

/// Whether an address in text form is private; what is no address is not.
///
/// # Safety
///
/// `addr` is a C string or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_is_private_v4(addr: *const c_char) -> c_int {
    // SAFETY: the caller keeps the contract above.
    GeoIP_is_private_ipnum_v4(unsafe { GeoIP_addr_to_num(addr) })
}
