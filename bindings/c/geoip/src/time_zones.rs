//! Time zones by country and region.
//!
//! Not for offsets from UTC. `tables/generate.py` says where the rows come from. A row of a
//! country's two letters holds for its regions without a row; countries with several zones have a
//! row for each region. Invariant: rows are in the order of their keys.

use crate::region_table::key;
use crate::status::guarded;
use std::ffi::{CStr, c_char};
use std::ptr::null;

struct Row {
    key: &'static [u8],
    zone: &'static CStr,
}

const fn row(key: &'static [u8], zone: &'static CStr) -> Row {
    Row { key, zone }
}

static ROWS: &[Row] = &include!(concat!(env!("OUT_DIR"), "/time_zones.rs"));

fn zone(key: &[u8]) -> Option<&'static CStr> {
    let found = ROWS.binary_search_by_key(&key, |row| row.key).ok()?;
    ROWS.get(found).map(|row| row.zone)
}

/// The time zone of a region, or else of its country if that has one; null if neither is known.
///
/// # Safety
///
/// Both are C strings or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_time_zone_by_country_and_region(
    country_code: *const c_char,
    region_code: *const c_char,
) -> *const c_char {
    guarded(null, || {
        if country_code.is_null() {
            return null();
        }
        // SAFETY: the caller keeps the contract above.
        let country = unsafe { CStr::from_ptr(country_code) }.to_bytes();
        let of_region = || {
            // SAFETY: as above.
            let region = (!region_code.is_null()).then(|| unsafe { CStr::from_ptr(region_code) });
            zone(&key(country, region?.to_bytes())?)
        };
        of_region().or_else(|| zone(country)).map_or(null(), CStr::as_ptr)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_country_has_one_zone_or_each_of_its_regions() {
        assert!(ROWS.windows(2).all(|rows| rows[0].key < rows[1].key));
        assert_eq!(zone(b"DE"), Some(c"Europe/Berlin"));
        assert_eq!(zone(b"US"), None);
        assert_eq!(zone(b"USCA"), Some(c"America/Los_Angeles"));
    }
}
