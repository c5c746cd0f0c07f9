//! What a call asks of a handle: the check of the edition, and the lookup with its masks.
//!
//! Not for answers. Every lookup sets the handle's mask and that of the caller's `GeoIPLookup`,
//! unless the tree is broken, which is reported on stderr and leaves both as they are.

use crate::abi::{GeoIPLookup, geoipv6_t};
use crate::address;
use crate::data::Data;
use crate::editions::{self, Content};
use crate::handle::Handle;
use crate::mmdb::Question;
use crate::status::{complain, say};
use crate::tree::{Address, Leaf};
use std::ffi::c_ulong;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering::Relaxed;

/// Whether a database has the edition that a function answers from; if not, says so.
#[inline(always)]
pub(crate) fn is_answered(data: &Data, question: Question, is_ipv6: bool) -> bool {
    let edition = data.layout.edition;
    let content = match question {
        Question::Country => Content::Number,
        Question::Region => Content::Region,
        Question::City => Content::City,
        Question::Text => Content::Text,
    };
    // Regions are answered in both families from the one tree there is.
    let is_family = question == Question::Region || edition.is_ipv6 == is_ipv6;
    let is_legacy = data.mmdb.is_none();
    if is_legacy && edition.content == content && is_family {
        return true;
    }
    is_answered_otherwise(data, question, is_ipv6)
}

#[cold]
#[inline(never)]
fn is_answered_otherwise(data: &Data, question: Question, is_ipv6: bool) -> bool {
    if let Some(mmdb) = &data.mmdb
        && mmdb.answers(question)
    {
        return true;
    }
    let expected = match (question, is_ipv6) {
        (Question::Country, false) => editions::COUNTRY,
        (Question::Country, true) => editions::COUNTRY_V6,
        (Question::Region, _) => editions::REGION_REV1,
        (Question::City, false) => editions::CITY_REV1,
        (Question::City, true) => editions::CITY_REV1_V6,
        (Question::Text, _) => editions::ORGANIZATION,
    };
    refuse(data, expected);
    false
}

/// Says that a database is of the wrong edition.
#[cold]
pub(crate) fn refuse(data: &Data, expected: u8) {
    let name = data.layout.edition.name.to_string_lossy();
    let expected = editions::named(expected).map_or("", |it| it.name.to_str().unwrap_or_default());
    say(&format!("Invalid database type {name}, expected {expected}"));
}

/// The address that is looked up for one that was given.
#[inline(always)]
pub(crate) fn prepared(handle: &Handle, address: Address) -> Address {
    if address.is_ipv6 && handle.has_teredo() {
        return Address::v6(address::without_teredo(address.bits));
    }
    address
}

/// Sets the masks.
///
/// # Safety
///
/// `lookup` is a place for the mask, or null.
#[inline(always)]
pub(crate) unsafe fn set_netmask(handle: &Handle, lookup: *mut GeoIPLookup, depth_bits: u8) {
    handle.netmask().store(i32::from(depth_bits), Relaxed);
    // SAFETY: the caller's promise.
    if let Some(lookup) = unsafe { lookup.as_mut() } {
        lookup.netmask = i32::from(depth_bits);
    }
}

/// Says that a walk came to no end.
#[cold]
pub(crate) fn report_broken(handle: &Handle, address: Address) {
    let shown = match address.is_ipv6 {
        true => Ipv6Addr::from_bits(address.bits).to_string(),
        false => Ipv4Addr::from_bits((address.bits >> 96) as u32).to_bits().to_string(),
    };
    complain(
        handle.flags(),
        &format!("Error Traversing Database for ipnum = {shown} - Perhaps database is corrupt?"),
    );
}

/// The number in the tree for an address; 0 if the tree is broken.
///
/// # Safety
///
/// `lookup` is a place for the mask, or null.
pub(crate) unsafe fn seek(
    handle: &Handle,
    data: &Data,
    address: Address,
    lookup: *mut GeoIPLookup,
) -> u32 {
    let address = prepared(handle, address);
    let Some(Leaf { number, depth_bits }) = data.seek(address) else {
        report_broken(handle, address);
        return 0;
    };
    // SAFETY: the caller's promise.
    unsafe { set_netmask(handle, lookup, depth_bits) };
    number
}

macro_rules! raw_seeks {
    ($($name:ident($argument:ty) $(with $lookup:ident)? = $address:ident;)+) => { $(
        /// The number in the tree for an address; 0 if the tree is broken.
        ///
        /// # Safety
        ///
        /// `gi` is an open handle or null; a place for the mask may be null.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(
            gi: *mut crate::abi::GeoIP,
            ipnum: $argument
            $(, $lookup: *mut GeoIPLookup)?
        ) -> std::ffi::c_uint {
            crate::status::guarded(|| 0, || {
                #[allow(unused_mut, unused_assignments, reason = "some have no such argument")]
                let mut place = std::ptr::null_mut();
                $(place = $lookup;)?
                // SAFETY: the caller keeps the contract above.
                unsafe {
                    let (Some(handle), Some(address)) = (Handle::of(gi), address::$address(ipnum))
                    else {
                        return 0;
                    };
                    seek(handle, &handle.data(), address, place)
                }
            })
        }
    )+ };
}

raw_seeks! {
    _GeoIP_seek_record(c_ulong) = by_ipnum4;
    _GeoIP_seek_record_gl(c_ulong) with gl = by_ipnum4;
    _GeoIP_seek_record_v6(geoipv6_t) = by_ipnum6;
    _GeoIP_seek_record_v6_gl(geoipv6_t) with gl = by_ipnum6;
}
