//! The environment variables of the library.
//!
//! | variable | value |
//! | --- | --- |
//! | `WHERED_GEOIP` | `index`: make the index in every mode; `tree`: in none |
//! | `WHERED_GEOIP_MMDB` | files and folders of MaxMind DBs, separated by colons |
//!
//! Those files answer in the place of legacy ones.
//!
//! A program that runs with more rights than its caller (set-user-ID) reads neither: the C library
//! withholds them.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// When an index is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Preference {
    /// Where a handle's flags ask for a file in memory.
    Flags,
    Index,
    Tree,
}

unsafe extern "C" {
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: C strings; what is found stays as long as nobody changes the environment, which a
    // program with threads may not do.
    unsafe {
        let found = secure_getenv(name.as_ptr());
        (!found.is_null()).then(|| CStr::from_ptr(found))
    }
}

pub(crate) fn preference() -> Preference {
    match variable(c"WHERED_GEOIP").map(CStr::to_bytes) {
        Some(b"index") => Preference::Index,
        Some(b"tree") => Preference::Tree,
        _ => Preference::Flags,
    }
}

/// Whether MaxMind DB files answer in the place of legacy ones.
pub(crate) fn has_mmdb_files() -> bool {
    variable(c"WHERED_GEOIP_MMDB").is_some_and(|list| !list.is_empty())
}

/// The MaxMind DB files that answer in the place of legacy ones, in their order; those of a folder
/// by name.
pub(crate) fn mmdb_files() -> Vec<CString> {
    let list = variable(c"WHERED_GEOIP_MMDB").map_or(&[][..], CStr::to_bytes);
    let mut files = Vec::new();
    for item in list.split(|&byte| byte == b':').filter(|item| !item.is_empty()) {
        let path = std::path::Path::new(OsStr::from_bytes(item));
        if !path.is_dir() {
            files.extend(CString::new(item));
            continue;
        }
        let Ok(entries) = std::fs::read_dir(path) else { continue };
        let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
        let mut inside: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|end| end == "mmdb")).collect();
        inside.sort();
        let names = inside.into_iter().map(|path| path.into_os_string().into_vec());
        files.extend(names.filter_map(|name| CString::new(name).ok()));
    }
    files
}
