//! Countries of addresses: the `GeoIP_id_by_*`, `GeoIP_country_*_by_*` functions.
//!
//! For: country, proxy, netspeed and large country editions. Not for the table (`countries.rs`).
//! One function looks up; the exported ones differ in what they are given and what they return.

use crate::abi::{GeoIP, GeoIPLookup, geoipv6_t};
use crate::address;
use crate::countries;
use crate::handle::Handle;
use crate::mmdb::Question;
use crate::questions::{is_answered, prepared, seek, set_netmask};
use crate::status::guarded;
use crate::tree::Address;
use std::ffi::{c_char, c_int, c_ulong};
use std::ptr::{null, null_mut};

/// The number of an address's country; 0 if it has none, and below 0 if the tree is broken.
///
/// # Safety
///
/// `lookup` is a place for the mask, or null.
#[inline(always)]
unsafe fn country(
    handle: &Handle,
    address: Option<Address>,
    is_ipv6: bool,
    lookup: *mut GeoIPLookup,
) -> c_int {
    let Some(address) = address else { return 0 };
    let data = handle.data();
    if !is_answered(&data, Question::Country, is_ipv6) {
        return 0;
    }
    if let Some(compiled) = &data.compiled {
        let address = prepared(handle, address);
        let found = match is_ipv6 {
            false => compiled.find4((address.bits >> 96) as u32),
            true => compiled.find(address),
        };
        if let Some(found) = found {
            // SAFETY: the caller's promise.
            unsafe { set_netmask(handle, lookup, found.depth_bits) };
            return found.value as c_int;
        }
    }
    // SAFETY: as above.
    unsafe { country_read(handle, &data, address, lookup) }
}

/// The country from a file or a MaxMind DB.
///
/// # Safety
///
/// As [`country`].
#[inline(never)]
unsafe fn country_read(
    handle: &Handle,
    data: &crate::data::Data,
    address: Address,
    lookup: *mut GeoIPLookup,
) -> c_int {
    if let Some(mmdb) = &data.mmdb {
        let (number, depth_bits) = mmdb.country(prepared(handle, address));
        // SAFETY: the caller's promise.
        unsafe { set_netmask(handle, lookup, depth_bits) };
        return number as c_int;
    }
    // SAFETY: as above. A broken tree gives 0 less the base, as with the original.
    let number = unsafe { seek(handle, data, address, lookup) };
    number.wrapping_sub(data.layout.base) as c_int
}

/// The answers of the exported functions, made of the country's number.
trait Answer {
    fn of(number: c_int, handle: &Handle) -> Self;
}

struct Number(c_int);
struct Code(*const c_char);
struct Code3(*const c_char);
struct Name(*const c_char);

impl Answer for Number {
    #[inline(always)]
    fn of(number: c_int, _: &Handle) -> Number {
        Number(number)
    }
}

impl Answer for Code {
    #[inline(always)]
    fn of(number: c_int, _: &Handle) -> Code {
        Code(if number > 0 { countries::code(number) } else { null() })
    }
}

impl Answer for Code3 {
    #[inline(always)]
    fn of(number: c_int, _: &Handle) -> Code3 {
        Code3(if number > 0 { countries::code3(number) } else { null() })
    }
}

impl Answer for Name {
    #[inline(always)]
    fn of(number: c_int, handle: &Handle) -> Name {
        Name(countries::name(number, handle.charset()))
    }
}

/// The functions of one kind of argument: with a place for the mask, and without.
macro_rules! functions {
    ($($with:ident $without:ident ($argument:ty, $address:ident, $is_ipv6:literal)
        -> $answer:ident $result:ty = $nothing:expr;)+) => { $(
        /// Returns the answer for an address; see the header. `gl` gets the mask.
        ///
        /// # Safety
        ///
        /// As the header says; pointers may be null.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $with(
            gi: *mut GeoIP,
            given: $argument,
            gl: *mut GeoIPLookup,
        ) -> $result {
            // SAFETY: the caller keeps the contract above.
            guarded(|| $nothing, || unsafe {
                let Some(handle) = Handle::of(gi) else { return $nothing };
                let number = country(handle, address::$address(given), $is_ipv6, gl);
                $answer::of(number, handle).0
            })
        }

        /// Returns the answer for an address; see the header.
        ///
        /// # Safety
        ///
        /// As the header says; pointers may be null.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $without(gi: *mut GeoIP, given: $argument) -> $result {
            // SAFETY: the caller keeps the contract above.
            guarded(|| $nothing, || unsafe {
                let Some(handle) = Handle::of(gi) else { return $nothing };
                let number = country(handle, address::$address(given), $is_ipv6, null_mut());
                $answer::of(number, handle).0
            })
        }
    )+ };
}

functions! {
    GeoIP_id_by_addr_gl GeoIP_id_by_addr(*const c_char, by_addr4, false) -> Number c_int = 0;
    GeoIP_id_by_addr_v6_gl GeoIP_id_by_addr_v6(*const c_char, by_addr6, true) -> Number c_int = 0;
    GeoIP_id_by_name_gl GeoIP_id_by_name(*const c_char, by_name4, false) -> Number c_int = 0;
    GeoIP_id_by_name_v6_gl GeoIP_id_by_name_v6(*const c_char, by_name6, true) -> Number c_int = 0;
    GeoIP_id_by_ipnum_gl GeoIP_id_by_ipnum(c_ulong, by_ipnum4, false) -> Number c_int = 0;
    GeoIP_id_by_ipnum_v6_gl GeoIP_id_by_ipnum_v6(geoipv6_t, by_ipnum6, true) -> Number c_int = 0;

    GeoIP_country_id_by_addr_gl GeoIP_country_id_by_addr(*const c_char, by_addr4, false)
        -> Number c_int = 0;
    GeoIP_country_id_by_addr_v6_gl GeoIP_country_id_by_addr_v6(*const c_char, by_addr6, true)
        -> Number c_int = 0;
    GeoIP_country_id_by_name_gl GeoIP_country_id_by_name(*const c_char, by_name4, false)
        -> Number c_int = 0;
    GeoIP_country_id_by_name_v6_gl GeoIP_country_id_by_name_v6(*const c_char, by_name6, true)
        -> Number c_int = 0;

    GeoIP_country_code_by_addr_gl GeoIP_country_code_by_addr(*const c_char, by_addr4, false)
        -> Code *const c_char = null();
    GeoIP_country_code_by_addr_v6_gl GeoIP_country_code_by_addr_v6(*const c_char, by_addr6, true)
        -> Code *const c_char = null();
    GeoIP_country_code_by_name_gl GeoIP_country_code_by_name(*const c_char, by_name4, false)
        -> Code *const c_char = null();
    GeoIP_country_code_by_name_v6_gl GeoIP_country_code_by_name_v6(*const c_char, by_name6, true)
        -> Code *const c_char = null();
    GeoIP_country_code_by_ipnum_gl GeoIP_country_code_by_ipnum(c_ulong, by_ipnum4, false)
        -> Code *const c_char = null();
    GeoIP_country_code_by_ipnum_v6_gl GeoIP_country_code_by_ipnum_v6(geoipv6_t, by_ipnum6, true)
        -> Code *const c_char = null();

    GeoIP_country_code3_by_addr_gl GeoIP_country_code3_by_addr(*const c_char, by_addr4, false)
        -> Code3 *const c_char = null();
    GeoIP_country_code3_by_addr_v6_gl GeoIP_country_code3_by_addr_v6(*const c_char, by_addr6, true)
        -> Code3 *const c_char = null();
    GeoIP_country_code3_by_name_gl GeoIP_country_code3_by_name(*const c_char, by_name4, false)
        -> Code3 *const c_char = null();
    GeoIP_country_code3_by_name_v6_gl GeoIP_country_code3_by_name_v6(*const c_char, by_name6, true)
        -> Code3 *const c_char = null();
    GeoIP_country_code3_by_ipnum_gl GeoIP_country_code3_by_ipnum(c_ulong, by_ipnum4, false)
        -> Code3 *const c_char = null();
    GeoIP_country_code3_by_ipnum_v6_gl GeoIP_country_code3_by_ipnum_v6(geoipv6_t, by_ipnum6, true)
        -> Code3 *const c_char = null();

    GeoIP_country_name_by_addr_gl GeoIP_country_name_by_addr(*const c_char, by_addr4, false)
        -> Name *const c_char = null();
    GeoIP_country_name_by_addr_v6_gl GeoIP_country_name_by_addr_v6(*const c_char, by_addr6, true)
        -> Name *const c_char = null();
    GeoIP_country_name_by_name_gl GeoIP_country_name_by_name(*const c_char, by_name4, false)
        -> Name *const c_char = null();
    GeoIP_country_name_by_name_v6_gl GeoIP_country_name_by_name_v6(*const c_char, by_name6, true)
        -> Name *const c_char = null();
    GeoIP_country_name_by_ipnum_gl GeoIP_country_name_by_ipnum(c_ulong, by_ipnum4, false)
        -> Name *const c_char = null();
    GeoIP_country_name_by_ipnum_v6_gl GeoIP_country_name_by_ipnum_v6(geoipv6_t, by_ipnum6, true)
        -> Name *const c_char = null();
}
