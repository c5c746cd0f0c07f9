//! Regions of addresses: `GeoIP_region_by_*`, `GeoIP_assign_region_by_inetaddr*`.
//!
//! Not for names of regions (`region_table.rs`). The number in the tree says it all:
//!
//! | revision | number behind the base | region |
//! | --- | --- | --- |
//! | 0 | below 1000 | the country of that number |
//! | 0 | from 1000 on | a state of the United States |
//! | 1 | 0 | nothing |
//! | 1 | 1 to 676 | a state of the United States |
//! | 1 | 677 to 1352 | a province of Canada |
//! | 1 | from 1353 on | a country, 360 numbers each |
//!
//! A state's two letters are two digits to the base 26.

use crate::abi::{GeoIP, GeoIPLookup, GeoIPRegion, geoipv6_t};
use crate::address;
use crate::countries;
use crate::data::Data;
use crate::editions::{self, Content};
use crate::handle::Handle;
use crate::mmdb::Question;
use crate::questions::{is_answered, prepared, seek, set_netmask};
use crate::status::guarded;
use crate::tree::Address;
use std::ffi::{c_char, c_ulong};
use std::ptr::null_mut;

const REV0_STATES: u32 = 1000;
const REV1_STATES: u32 = 1;
const REV1_PROVINCES: u32 = 677;
const REV1_COUNTRIES: u32 = 1353;
const REV1_NUMBERS_PER_COUNTRY: u32 = 360;
const LETTERS: u32 = 26;

/// The number of revision 1 behind the base.
pub(crate) fn number(country: u8, region: Option<[u8; 2]>) -> u32 {
    let state = region.and_then(|[high, low]| {
        let digit = |letter: u8| letter.is_ascii_uppercase().then(|| u32::from(letter - b'A'));
        Some(digit(high)? * LETTERS + digit(low)?)
    });
    match (&countries::letters(country), state) {
        _ if country == 0 => 0,
        (b"US", Some(state)) => REV1_STATES + state,
        (b"CA", Some(state)) => REV1_PROVINCES + state,
        _ => REV1_COUNTRIES + u32::from(country) * REV1_NUMBERS_PER_COUNTRY,
    }
}

/// Two letters and the zero byte.
fn padded([first, second]: [u8; 2]) -> [c_char; 3] {
    [first as c_char, second as c_char, 0]
}

fn state(country: [u8; 2], state: u32) -> GeoIPRegion {
    // Beyond the last state the first letter goes on behind Z, as in the original.
    let letter = |digit: u32| (u32::from(b'A') + digit) as u8;
    let code = [letter(state / LETTERS), letter(state % LETTERS)];
    GeoIPRegion { country_code: padded(country), region: padded(code) }
}

fn country(number: u32) -> GeoIPRegion {
    let Some(number) = u8::try_from(number).ok() else { return GeoIPRegion::default() };
    GeoIPRegion { country_code: padded(countries::letters(number)), region: [0; 3] }
}

/// The region of a number behind the base.
fn decode(number: u32, edition: u8) -> GeoIPRegion {
    match (edition, number) {
        (editions::REGION_REV0, REV0_STATES..) => state(*b"US", number - REV0_STATES),
        (editions::REGION_REV0, _) => country(number),
        (_, ..REV1_STATES) => GeoIPRegion::default(),
        (_, REV1_STATES..REV1_PROVINCES) => state(*b"US", number - REV1_STATES),
        (_, REV1_PROVINCES..REV1_COUNTRIES) => state(*b"CA", number - REV1_PROVINCES),
        _ => country((number - REV1_COUNTRIES) / REV1_NUMBERS_PER_COUNTRY),
    }
}

/// The region of an address; all zero if it has none, or the database has no regions.
///
/// # Safety
///
/// `lookup` is a place for the mask, or null.
unsafe fn region(
    handle: &Handle,
    data: &Data,
    address: Address,
    lookup: *mut GeoIPLookup,
) -> GeoIPRegion {
    if let Some(mmdb) = &data.mmdb {
        let (number, code, depth_bits) = mmdb.region(prepared(handle, address));
        // SAFETY: the caller's promise.
        unsafe { set_netmask(handle, lookup, depth_bits) };
        return match (number, code) {
            (0, _) => GeoIPRegion::default(),
            (_, None) => country(number.into()),
            (_, Some(code)) => GeoIPRegion { region: padded(code), ..country(number.into()) },
        };
    }
    // SAFETY: as above.
    let number = unsafe { seek(handle, data, address, lookup) };
    match number.checked_sub(data.layout.base) {
        Some(number) if data.layout.edition.content == Content::Region => {
            decode(number, data.layout.edition.number)
        }
        _ => GeoIPRegion::default(),
    }
}

/// A region for the caller to delete; null if there is no answer.
///
/// # Safety
///
/// As [`region`].
unsafe fn allocated(
    handle: &Handle,
    address: Option<Address>,
    lookup: *mut GeoIPLookup,
) -> *mut GeoIPRegion {
    let Some(address) = address else { return null_mut() };
    let data = handle.data();
    if !is_answered(&data, Question::Region, address.is_ipv6) {
        return null_mut();
    }
    // SAFETY: the caller's promise.
    let found = unsafe { region(handle, &data, address, lookup) };
    // SAFETY: malloc has no preconditions.
    let place = unsafe { libc::malloc(size_of::<GeoIPRegion>()) }.cast::<GeoIPRegion>();
    if !place.is_null() {
        // SAFETY: new memory of that size.
        unsafe { place.write(found) };
    }
    place
}

macro_rules! functions {
    ($($with:ident $without:ident ($argument:ty, $address:ident);)+) => { $(
        /// The region of an address, for `GeoIPRegion_delete`; `gl` gets the mask.
        ///
        /// # Safety
        ///
        /// As the header says; pointers may be null.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $with(
            gi: *mut GeoIP,
            given: $argument,
            gl: *mut GeoIPLookup,
        ) -> *mut GeoIPRegion {
            // SAFETY: the caller keeps the contract above.
            guarded(null_mut, || unsafe {
                let Some(handle) = Handle::of(gi) else { return null_mut() };
                allocated(handle, address::$address(given), gl)
            })
        }

        /// The region of an address, for `GeoIPRegion_delete`.
        ///
        /// # Safety
        ///
        /// As the header says; pointers may be null.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $without(
            gi: *mut GeoIP,
            given: $argument,
        ) -> *mut GeoIPRegion {
            // SAFETY: the caller keeps the contract above.
            unsafe { $with(gi, given, null_mut()) }
        }
    )+ };
}

functions! {
    GeoIP_region_by_addr_gl GeoIP_region_by_addr(*const c_char, by_addr4);
    GeoIP_region_by_addr_v6_gl GeoIP_region_by_addr_v6(*const c_char, by_addr6);
    GeoIP_region_by_name_gl GeoIP_region_by_name(*const c_char, by_name4);
    GeoIP_region_by_name_v6_gl GeoIP_region_by_name_v6(*const c_char, by_name6);
    GeoIP_region_by_ipnum_gl GeoIP_region_by_ipnum(c_ulong, by_ipnum4);
    GeoIP_region_by_ipnum_v6_gl GeoIP_region_by_ipnum_v6(geoipv6_t, by_ipnum6);
}

/// Fills the caller's region; what is not found is all zero.
///
/// # Safety
///
/// `gir` is a place for a region or null, `gl` a place for the mask or null.
unsafe fn assign(
    gi: *mut GeoIP,
    address: Option<Address>,
    gir: *mut GeoIPRegion,
    gl: *mut GeoIPLookup,
) {
    // SAFETY: the caller's promise.
    guarded(
        || (),
        || unsafe {
            let Some(gir) = gir.as_mut() else { return };
            *gir = GeoIPRegion::default();
            // Of any edition, as in the original: one without regions is looked up in vain.
            if let (Some(handle), Some(address)) = (Handle::of(gi), address) {
                *gir = region(handle, &handle.data(), address, gl);
            }
        },
    );
}

/// Fills a region for an address in network order; `gl` gets the mask.
///
/// # Safety
///
/// As the header says; pointers may be null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_assign_region_by_inetaddr_gl(
    gi: *mut GeoIP,
    inetaddr: c_ulong,
    gir: *mut GeoIPRegion,
    gl: *mut GeoIPLookup,
) {
    let address = Address::v4(u32::from_be(inetaddr as u32));
    // SAFETY: the caller keeps the contract above.
    unsafe { assign(gi, Some(address), gir, gl) }
}

/// Fills a region for an address in network order.
///
/// # Safety
///
/// As the header says; pointers may be null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_assign_region_by_inetaddr(
    gi: *mut GeoIP,
    inetaddr: c_ulong,
    gir: *mut GeoIPRegion,
) {
    // SAFETY: the caller keeps the contract above.
    unsafe { GeoIP_assign_region_by_inetaddr_gl(gi, inetaddr, gir, null_mut()) }
}

/// Fills a region for an IPv6 address; `gl` gets the mask.
///
/// # Safety
///
/// As the header says; pointers may be null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_assign_region_by_inetaddr_v6_gl(
    gi: *mut GeoIP,
    inetaddr: geoipv6_t,
    gir: *mut GeoIPRegion,
    gl: *mut GeoIPLookup,
) {
    // SAFETY: the caller keeps the contract above.
    unsafe { assign(gi, Some(Address::v6(inetaddr.to_bits())), gir, gl) }
}

/// Fills a region for an IPv6 address.
///
/// # Safety
///
/// As the header says; pointers may be null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_assign_region_by_inetaddr_v6(
    gi: *mut GeoIP,
    inetaddr: geoipv6_t,
    gir: *mut GeoIPRegion,
) {
    // SAFETY: the caller keeps the contract above.
    unsafe { GeoIP_assign_region_by_inetaddr_v6_gl(gi, inetaddr, gir, null_mut()) }
}

/// Frees a region.
///
/// # Safety
///
/// `gir` is null, or came from a `GeoIP_region_by_*` function and is used no more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIPRegion_delete(gir: *mut GeoIPRegion) {
    // SAFETY: the caller keeps the contract above; it came from malloc.
    unsafe { libc::free(gir.cast()) };
}
