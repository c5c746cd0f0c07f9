//! Names of regions by libGeoIP's codes, and the codes by those of ISO 3166-2.
//!
//! Not for lookups of addresses. A region's code is that of ISO 3166-2 in the United States and
//! Canada and of FIPS 10-4 elsewhere. `tables/generate.py` says where the rows come from.
//! Invariant: rows are in the order of their keys, a country's two letters and the region's two
//! characters.

use crate::status::guarded;
use std::ffi::{CStr, c_char};
use std::ptr::null;

struct Row {
    key: [u8; 4],
    iso: &'static [u8],
    name: &'static CStr,
}

const fn row(key: &[u8; 4], iso: &'static [u8], name: &'static CStr) -> Row {
    Row { key: *key, iso, name }
}

static ROWS: &[Row] = &include!(concat!(env!("OUT_DIR"), "/regions.rs"));

/// A country's two letters and a region's first two characters; `None` if either is shorter.
pub(crate) fn key(country: &[u8], region: &[u8]) -> Option<[u8; 4]> {
    let (&[first, second], &[high, low, ..]) = (country, region) else { return None };
    Some([first, second, high, low])
}

/// The name of a region.
fn name(key: [u8; 4]) -> Option<&'static CStr> {
    let found = ROWS.binary_search_by_key(&key, |row| row.key).ok()?;
    ROWS.get(found).map(|row| row.name)
}

/// The code of a region that has this code in ISO 3166-2, without the country.
pub(crate) fn code_of_iso(country: [u8; 2], iso: &[u8]) -> Option<[u8; 2]> {
    let start = ROWS.partition_point(|row| row.key.get(..2) < Some(&country[..]));
    let mut rows = ROWS.iter().skip(start).take_while(|row| row.key.starts_with(&country));
    let [_, _, high, low] = rows.find(|row| !iso.is_empty() && row.iso == iso)?.key;
    Some([high, low])
}

/// The name of a region, or null.
///
/// # Safety
///
/// Both are C strings or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_region_name_by_code(
    country_code: *const c_char,
    region_code: *const c_char,
) -> *const c_char {
    guarded(null, || {
        if country_code.is_null() || region_code.is_null() {
            return null();
        }
        // SAFETY: the caller keeps the contract above.
        let [country, region] =
            [country_code, region_code].map(|code| unsafe { CStr::from_ptr(code) }.to_bytes());
        key(country, region).and_then(name).map_or(null(), CStr::as_ptr)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_lead_from_both_codes() {
        assert!(ROWS.windows(2).all(|rows| rows[0].key < rows[1].key));
        assert_eq!(name(*b"USCA"), Some(c"California"));
        assert_eq!(name(*b"DE02"), Some(c"Bayern"));
        assert_eq!(name(*b"DEZZ"), None);
        assert_eq!(code_of_iso(*b"DE", b"BY"), Some(*b"02"));
        assert_eq!(code_of_iso(*b"US", b"CA"), Some(*b"CA"));
        assert_eq!(code_of_iso(*b"DE", b""), None);
        assert_eq!(code_of_iso(*b"ZZ", b"BY"), None);
    }
}
