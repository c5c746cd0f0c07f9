//! The structures of `GeoIP.h` and `GeoIPCity.h`, field by field, and their constants.
//!
//! Not for behaviour. Names are those of the header, so that one can be compared with the other; a
//! test compiles the installed header and compares every size and offset with these.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

/// An open database. It is allocated here but public: hosts read its fields, and some write
/// `charset` and `flags`.
#[repr(C)]
pub(crate) struct GeoIP {
    pub(crate) GeoIPDatabase: *mut c_void,
    pub(crate) file_path: *mut c_char,
    pub(crate) cache: *mut u8,
    pub(crate) index_cache: *mut u8,
    pub(crate) databaseSegments: *mut c_uint,
    pub(crate) databaseType: c_char,
    pub(crate) mtime: c_long,
    pub(crate) flags: c_int,
    pub(crate) size: c_long,
    pub(crate) record_length: c_char,
    pub(crate) charset: c_int,
    pub(crate) record_iter: c_int,
    pub(crate) netmask: c_int,
    pub(crate) last_mtime_check: c_long,
    pub(crate) dyn_seg_size: c_long,
    pub(crate) ext_flags: c_uint,
}

/// A city record. `region`, `city` and `postal_code` are the caller's, the other strings static.
#[repr(C)]
pub(crate) struct GeoIPRecord {
    pub(crate) country_code: *const c_char,
    pub(crate) country_code3: *const c_char,
    pub(crate) country_name: *const c_char,
    pub(crate) region: *mut c_char,
    pub(crate) city: *mut c_char,
    pub(crate) postal_code: *mut c_char,
    pub(crate) latitude: f32,
    pub(crate) longitude: f32,
    pub(crate) metro_code: c_int,
    pub(crate) area_code: c_int,
    pub(crate) charset: c_int,
    pub(crate) continent_code: *const c_char,
    pub(crate) netmask: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct GeoIPRegion {
    pub(crate) country_code: [c_char; 3],
    pub(crate) region: [c_char; 3],
}

/// The out parameter of the `_gl` functions.
#[repr(C)]
pub(crate) struct GeoIPLookup {
    pub(crate) netmask: c_int,
}

/// `struct in6_addr`, passed by value: two registers on x86-64.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct geoipv6_t {
    words: [u32; 4],
}

impl geoipv6_t {
    pub(crate) fn from_bits(bits: u128) -> geoipv6_t {
        let bytes = bits.to_be_bytes();
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        geoipv6_t { words }
    }

    #[inline(always)]
    pub(crate) fn to_bits(self) -> u128 {
        let [a, b, c, d] = self.words.map(|word| u128::from(u32::from_be(word)));
        a << 96 | b << 64 | c << 32 | d
    }
}

pub(crate) const MEMORY_CACHE: c_int = 1;
pub(crate) const CHECK_CACHE: c_int = 2;
pub(crate) const INDEX_CACHE: c_int = 4;
pub(crate) const MMAP_CACHE: c_int = 8;
pub(crate) const SILENCE: c_int = 16;

/// The charset that is not ISO 8859-1.
pub(crate) const CHARSET_UTF8: c_int = 1;

/// The bit of `ext_flags` for Teredo.
pub(crate) const TEREDO: c_uint = 1;

/// How many types of databases there are, 0 included.
pub(crate) const NUM_DB_TYPES: usize = 39;

#[cfg(test)]
#[path = "abi_tests.rs"]
mod tests;
