//! Texts of addresses: `GeoIP_name_by_*` and `GeoIP_org_by_*`.
//!
//! For: the editions of organizations, providers, systems, domains and the like.

use crate::abi::{GeoIP, GeoIPLookup, geoipv6_t};
use crate::address;
use crate::handle::Handle;
use crate::mmdb::Question;
use crate::questions::{is_answered, prepared, report_broken, set_netmask};
use crate::records::Text;
use crate::status::guarded;
use crate::strings::{Malloc, copy, write_text};
use crate::tree::Address;
use std::ffi::{c_char, c_ulong};
use std::ptr::null_mut;

/// The text of an address for the caller to free; null if it has none.
///
/// # Safety
///
/// `lookup` is a place for the mask, or null.
unsafe fn text(handle: &Handle, address: Option<Address>, lookup: *mut GeoIPLookup) -> *mut c_char {
    let Some(address) = address else { return null_mut() };
    let data = handle.data();
    if !is_answered(&data, Question::Text, address.is_ipv6) {
        return null_mut();
    }
    let (address, charset) = (prepared(handle, address), handle.charset());
    let found = data.text(address, |text: Text<'_>| match text.is_empty() {
        // An empty text is one, unlike an empty field of a city.
        true => copy(b""),
        false => write_text(text, charset, &mut Malloc),
    });
    let Some((depth_bits, text)) = found else {
        report_broken(handle, address);
        return null_mut();
    };
    // SAFETY: the caller's promise.
    unsafe { set_netmask(handle, lookup, depth_bits) };
    text.unwrap_or(null_mut())
}

macro_rules! functions {
    ($($with:ident $($without:ident)+ ($argument:ty, $address:ident);)+) => { $(
        /// The text of an address for the caller to free; `gl` gets the mask.
        ///
        /// # Safety
        ///
        /// As the header says; pointers may be null.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $with(
            gi: *mut GeoIP,
            given: $argument,
            gl: *mut GeoIPLookup,
        ) -> *mut c_char {
            // SAFETY: the caller keeps the contract above.
            guarded(null_mut, || unsafe {
                let Some(handle) = Handle::of(gi) else { return null_mut() };
                text(handle, address::$address(given), gl)
            })
        }

        $(
            /// The text of an address for the caller to free.
            ///
            /// # Safety
            ///
            /// As the header says; pointers may be null.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $without(
                gi: *mut GeoIP,
                given: $argument,
            ) -> *mut c_char {
                // SAFETY: the caller keeps the contract above.
                unsafe { $with(gi, given, null_mut()) }
            }
        )+
    )+ };
}

functions! {
    GeoIP_name_by_addr_gl GeoIP_name_by_addr GeoIP_org_by_addr(*const c_char, by_addr4);
    GeoIP_name_by_addr_v6_gl GeoIP_name_by_addr_v6 GeoIP_org_by_addr_v6(*const c_char, by_addr6);
    GeoIP_name_by_name_gl GeoIP_name_by_name GeoIP_org_by_name(*const c_char, by_name4);
    GeoIP_name_by_name_v6_gl GeoIP_name_by_name_v6 GeoIP_org_by_name_v6(*const c_char, by_name6);
    GeoIP_name_by_ipnum_gl GeoIP_name_by_ipnum GeoIP_org_by_ipnum(c_ulong, by_ipnum4);
    GeoIP_name_by_ipnum_v6_gl GeoIP_name_by_ipnum_v6 GeoIP_org_by_ipnum_v6(geoipv6_t, by_ipnum6);
}
