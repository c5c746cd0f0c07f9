//! City records: `GeoIP_record_by_*`, the records one after the other, and a call of our own that
//! fills a record in the caller's memory.
//!
//! Not for decoding (`records.rs`, `compiled.rs`).

use crate::abi::{CHARSET_UTF8, GeoIP, GeoIPRecord, MEMORY_CACHE, MMAP_CACHE, geoipv6_t};
use crate::address;
use crate::compiled::{Entry, EntryHead};
use crate::countries;
use crate::data::Data;
use crate::editions;
use crate::handle::Handle;
use crate::mmdb::Question;
use crate::questions::{is_answered, prepared, refuse, report_broken, seek, set_netmask};
use crate::records::City;
use crate::status::{guarded, say};
use crate::strings::{Buffer, Malloc, Memory, write, write_text};
use crate::tree::Address;
use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::ptr::null_mut;

/// A record for a caller, with its strings in `memory`.
#[inline(always)]
fn fill(city: &City<'_>, charset: c_int, memory: &mut impl Memory) -> GeoIPRecord {
    let number = c_int::from(city.country);
    GeoIPRecord {
        country_code: countries::code(number),
        country_code3: countries::code3(number),
        country_name: countries::name(number, charset),
        // The original leaves regions and postal codes in ISO 8859-1.
        region: write_text(city.region, 0, memory),
        city: write_text(city.city, charset, memory),
        postal_code: write_text(city.postal_code, 0, memory),
        latitude: city.latitude,
        longitude: city.longitude,
        metro_code: c_int::from(city.metro_code),
        area_code: c_int::from(city.area_code),
        charset,
        continent_code: countries::continent(number),
        netmask: 0,
    }
}

/// A record for the caller to delete, without a mask; null if there is no memory.
#[inline(always)]
fn allocated(city: &City<'_>, charset: c_int) -> *mut GeoIPRecord {
    // SAFETY: malloc has no preconditions.
    let place = unsafe { libc::malloc(size_of::<GeoIPRecord>()) }.cast::<GeoIPRecord>();
    if !place.is_null() {
        // SAFETY: new memory of that size.
        unsafe { place.write(fill(city, charset, &mut Malloc)) };
    }
    place
}

/// Looks up an address, and hands its record on. `None`: there is none.
#[inline(always)]
fn look_up<R>(
    handle: &Handle,
    data: &Data,
    address: Address,
    hand_on: impl FnOnce(&City<'_>) -> R,
) -> Option<(u8, R)> {
    if !is_answered(data, Question::City, address.is_ipv6) {
        return None;
    }
    let address = prepared(handle, address);
    let Some((depth_bits, made)) = data.city(address, hand_on) else {
        report_broken(handle, address);
        return None;
    };
    // SAFETY: a null pointer is no place.
    unsafe { set_netmask(handle, null_mut(), depth_bits) };
    made.map(|made| (depth_bits, made))
}

/// The record of an address for the caller to delete; null if it has none.
#[inline(always)]
fn record(handle: &Handle, address: Option<Address>) -> *mut GeoIPRecord {
    let Some(address) = address else { return null_mut() };
    let charset = handle.charset();
    let data = handle.data();
    if let Some(compiled) = &data.compiled {
        if !is_answered(&data, Question::City, address.is_ipv6) {
            return null_mut();
        }
        if let Some(found) = compiled.find(prepared(handle, address)) {
            // SAFETY: a null pointer is no place.
            unsafe { set_netmask(handle, null_mut(), found.depth_bits) };
            let Some(entry) = compiled.entry(found.value) else { return null_mut() };
            if let Some(record) = allocate_entry(entry, charset, found.depth_bits) {
                return record;
            }
        }
    }
    record_slowly(handle, &data, address, charset)
}

/// The record of an address from a file or a MaxMind DB, or with strings that are converted.
#[inline(never)]
fn record_slowly(
    handle: &Handle,
    data: &Data,
    address: Address,
    charset: c_int,
) -> *mut GeoIPRecord {
    let found = look_up(handle, data, address, |city| allocated(city, charset));
    let Some((depth_bits, place)) = found else { return null_mut() };
    // SAFETY: a record that was just made, or null.
    if let Some(record) = unsafe { place.as_mut() } {
        record.netmask = c_int::from(depth_bits);
    }
    place
}

macro_rules! functions {
    ($($name:ident ($argument:ty, $address:ident);)+) => { $(
        /// The city record of an address, for `GeoIPRecord_delete`; null if it has none.
        ///
        /// # Safety
        ///
        /// As the header says; pointers may be null.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(
            gi: *mut GeoIP,
            given: $argument,
        ) -> *mut GeoIPRecord {
            // SAFETY: the caller keeps the contract above.
            guarded(null_mut, || unsafe {
                let Some(handle) = Handle::of(gi) else { return null_mut() };
                record(handle, address::$address(given))
            })
        }
    )+ };
}

functions! {
    GeoIP_record_by_addr(*const c_char, by_addr4);
    GeoIP_record_by_addr_v6(*const c_char, by_addr6);
    GeoIP_record_by_name(*const c_char, by_name4);
    GeoIP_record_by_name_v6(*const c_char, by_name6);
    GeoIP_record_by_ipnum(c_ulong, by_ipnum4);
    GeoIP_record_by_ipnum_v6(geoipv6_t, by_ipnum6);
}

/// Frees a record and its strings.
///
/// # Safety
///
/// `gir` is null, or came from this library and is used no more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIPRecord_delete(gir: *mut GeoIPRecord) {
    // SAFETY: the caller keeps the contract above; all of it came from malloc, and free takes null.
    unsafe {
        if let Some(record) = gir.as_mut() {
            libc::free(record.region.cast());
            libc::free(record.city.cast());
            libc::free(record.postal_code.cast());
            libc::free(gir.cast());
        }
    }
}

/// The result of [`whered_geoip_record_by_addr`] and its siblings when there is a record.
const FOUND: c_int = 1;
const NOT_FOUND: c_int = 0;
const TOO_SMALL: c_int = -1;

/// Fills the caller's record.
///
/// # Safety
///
/// `record` is a place for a record, and `memory` has `size_bytes` bytes.
#[inline(always)]
unsafe fn fill_for_caller(
    handle: &Handle,
    address: Option<Address>,
    record: *mut GeoIPRecord,
    memory: *mut c_void,
    size_bytes: usize,
) -> c_int {
    let Some(address) = address else { return NOT_FOUND };
    let data = handle.data();
    if let Some(compiled) = &data.compiled {
        if !is_answered(&data, Question::City, address.is_ipv6) {
            return NOT_FOUND;
        }
        if let Some(found) = compiled.find(prepared(handle, address)) {
            // SAFETY: a null pointer is no place.
            unsafe { set_netmask(handle, null_mut(), found.depth_bits) };
            let Some(entry) = compiled.entry(found.value) else { return NOT_FOUND };
            // SAFETY: the caller's promise.
            let is_filled = unsafe {
                copy_entry(entry, handle.charset(), found.depth_bits, record, memory, size_bytes)
            };
            if is_filled.is_some() {
                return FOUND;
            }
        }
    }
    // SAFETY: as above.
    unsafe { fill_slowly(handle, &data, address, record, memory, size_bytes) }
}

/// Copies an entry of the index: all strings at once. `None`: they have to be converted, or do not
/// fit.
///
/// # Safety
///
/// As [`fill_for_caller`].
#[inline(always)]
unsafe fn copy_entry(
    entry: Entry<'_>,
    charset: c_int,
    netmask: u8,
    record: *mut GeoIPRecord,
    memory: *mut c_void,
    size_bytes: usize,
) -> Option<()> {
    let head = entry.head()?;
    let strings = entry.string_bytes(head.lengths)?;
    if strings.len() > size_bytes || (charset == CHARSET_UTF8 && !head.is_ascii) {
        return None;
    }
    let [region, city, postal] = head.lengths.map(usize::from);
    let start: *mut c_char = memory.cast();
    // SAFETY: the strings fit into the caller's memory, each with its zero byte, and the record is
    // the caller's; offsets are those of the three strings.
    unsafe {
        std::ptr::copy_nonoverlapping(strings.as_ptr(), start.cast(), strings.len());
        let at = |length: usize, offset: usize| match length {
            0 => null_mut(),
            _ => start.add(offset),
        };
        let strings = [at(region, 0), at(city, region + 1), at(postal, region + city + 2)];
        record.write(record_of(&head, strings, charset, netmask));
    }
    Some(())
}

/// A record of an entry's numbers.
#[inline(always)]
fn record_of(
    head: &EntryHead,
    [region, city, postal_code]: [*mut c_char; 3],
    charset: c_int,
    netmask: u8,
) -> GeoIPRecord {
    let number = c_int::from(head.country);
    GeoIPRecord {
        country_code: countries::code(number),
        country_code3: countries::code3(number),
        country_name: countries::name(number, charset),
        region,
        city,
        postal_code,
        latitude: head.latitude,
        longitude: head.longitude,
        metro_code: c_int::from(head.metro_code),
        area_code: c_int::from(head.area_code),
        charset,
        continent_code: countries::continent(number),
        netmask: c_int::from(netmask),
    }
}

/// Allocates an entry's record for the caller to delete. `None`: strings have to be converted, or
/// there is no memory.
#[inline(always)]
fn allocate_entry(entry: Entry<'_>, charset: c_int, netmask: u8) -> Option<*mut GeoIPRecord> {
    let head = entry.head()?;
    if charset == CHARSET_UTF8 && !head.is_ascii {
        return None;
    }
    let mut rest = entry.string_bytes(head.lengths)?;
    // SAFETY: malloc has no preconditions.
    let place = unsafe { libc::malloc(size_of::<GeoIPRecord>()) }.cast::<GeoIPRecord>();
    if place.is_null() {
        return None;
    }
    let strings = head.lengths.map(|length| {
        let (text, behind) = rest.split_at_checked(usize::from(length)).unwrap_or_default();
        rest = behind.get(1..).unwrap_or_default();
        if text.is_empty() { null_mut() } else { write(text, &mut Malloc) }
    });
    // SAFETY: new memory of that size.
    unsafe { place.write(record_of(&head, strings, charset, netmask)) };
    Some(place)
}

/// Fills the caller's record from a file or a MaxMind DB, or with strings that are converted.
///
/// # Safety
///
/// As [`fill_for_caller`].
#[inline(never)]
unsafe fn fill_slowly(
    handle: &Handle,
    data: &Data,
    address: Address,
    record: *mut GeoIPRecord,
    memory: *mut c_void,
    size_bytes: usize,
) -> c_int {
    let charset = handle.charset();
    // SAFETY: the caller's promise.
    let mut buffer = unsafe { Buffer::new(memory.cast(), size_bytes) };
    let found = look_up(handle, data, address, |city| {
        let filled = fill(city, charset, &mut buffer);
        // SAFETY: as above.
        unsafe { record.write(filled) };
    });
    let Some((depth_bits, ())) = found else { return NOT_FOUND };
    // SAFETY: the record was filled.
    unsafe { (*record).netmask = c_int::from(depth_bits) };
    if buffer.is_short { TOO_SMALL } else { FOUND }
}

macro_rules! own_functions {
    ($($name:ident ($argument:ty, $address:ident);)+) => { $(
        /// Fills a city record in the caller's memory: nothing is allocated, and
        /// `GeoIPRecord_delete` must not be called. 1: found; 0: there is none, and `record` is as
        /// it was; -1: `memory` is too small, and strings that did not fit are null.
        ///
        /// # Safety
        ///
        /// `gi` is an open handle or null, `record` a place for a record, and `memory` has
        /// `size_bytes` bytes.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(
            gi: *mut GeoIP,
            given: $argument,
            record: *mut GeoIPRecord,
            memory: *mut c_void,
            size_bytes: usize,
        ) -> c_int {
            // SAFETY: the caller keeps the contract above.
            guarded(|| NOT_FOUND, || unsafe {
                let Some(handle) = Handle::of(gi).filter(|_| !record.is_null()) else {
                    return NOT_FOUND;
                };
                let size_bytes = if memory.is_null() { 0 } else { size_bytes };
                fill_for_caller(handle, address::$address(given), record, memory, size_bytes)
            })
        }
    )+ };
}

own_functions! {
    whered_geoip_record_by_addr(*const c_char, by_addr4);
    whered_geoip_record_by_addr_v6(*const c_char, by_addr6);
    whered_geoip_record_by_ipnum(c_ulong, by_ipnum4);
    whered_geoip_record_by_ipnum_v6(geoipv6_t, by_ipnum6);
}

/// The number of an address's record; 0 if the database has no city records.
fn record_number(handle: &Handle, address: Option<Address>) -> c_int {
    let Some(address) = address else { return 0 };
    let data = handle.data();
    let edition = data.layout.edition;
    let is_city = edition.content == editions::Content::City;
    if data.mmdb.is_none() && !(is_city && edition.is_ipv6 == address.is_ipv6) {
        refuse(&data, editions::CITY_REV1);
        return 0;
    }
    // SAFETY: a null pointer is no place.
    unsafe { seek(handle, &data, address, null_mut()) as c_int }
}

/// The number of the record of an IPv4 address.
///
/// # Safety
///
/// As the header says; pointers may be null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_record_id_by_addr(
    gi: *mut GeoIP,
    addr: *const c_char,
) -> c_int {
    // SAFETY: the caller keeps the contract above.
    guarded(
        || 0,
        || unsafe {
            Handle::of(gi).map_or(0, |handle| record_number(handle, address::by_addr4(addr)))
        },
    )
}

/// The number of the record of an IPv6 address.
///
/// # Safety
///
/// As the header says; pointers may be null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_record_id_by_addr_v6(
    gi: *mut GeoIP,
    addr: *const c_char,
) -> c_int {
    // SAFETY: the caller keeps the contract above.
    guarded(
        || 0,
        || unsafe {
            Handle::of(gi).map_or(0, |handle| record_number(handle, address::by_addr6(addr)))
        },
    )
}

/// The number of the first record behind the tree.
///
/// # Safety
///
/// `gi` is an open handle or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_init_record_iter(gi: *mut GeoIP) -> c_int {
    // SAFETY: the caller keeps the contract above.
    guarded(
        || 0,
        || unsafe {
            Handle::of(gi).map_or(0, |handle| handle.data().layout.base.wrapping_add(1) as c_int)
        },
    )
}

/// The record of a number, for `GeoIPRecord_delete`, and the number of the next one. 1: the handle
/// keeps the file in memory, where there are no numbers.
///
/// # Safety
///
/// As the header says; pointers may be null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_next_record(
    gi: *mut GeoIP,
    gir: *mut *mut GeoIPRecord,
    record_iter: *mut c_int,
) -> c_int {
    // SAFETY: the caller keeps the contract above.
    guarded(
        || 1,
        || unsafe {
            let (Some(handle), Some(gir), Some(number)) =
                (Handle::of(gi), gir.as_mut(), record_iter.as_mut())
            else {
                return 1;
            };
            if handle.flags() & (MEMORY_CACHE | MMAP_CACHE) != 0 {
                say("GeoIP_next_record not supported in memory cache mode");
                return 1;
            }
            let data = handle.data();
            if data.mmdb.is_some() {
                say("GeoIP_next_record not supported in a MaxMind DB");
                return 1;
            }
            let charset = handle.charset();
            let made = data.record(*number as u32, |city, next| (allocated(city, charset), next));
            *gir = null_mut();
            if let Some((record, next)) = made {
                *gir = record;
                *number = next as c_int;
            }
            0
        },
    )
}
