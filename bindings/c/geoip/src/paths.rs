//! Where databases are: file names by type, the custom folder, and MaxMind DB files in the place of
//! legacy ones.
//!
//! Not for opening. The table of names is a public data object, filled on first use:
//!
//! ```text
//! GeoIPDBFileName ──► [ null, "/usr/share/GeoIP/GeoIP.dat", ... ]   one for each type
//! ```
//!
//! Invariants: programs may hold their own copies of the two pointers, so they are read and written
//! as what they are, exported data. Like the original's, these functions are for one thread.

use crate::abi::{GeoIP, NUM_DB_TYPES, SILENCE};
use crate::data::{Data, OpenError};
use crate::editions::{self, EDITIONS, Edition};
use crate::environment;
use crate::format::{self, Layout};
use crate::handle;
use crate::source::Source;
use crate::status::{complain, guarded, say};
use crate::strings::copy;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::countries::Table;
use std::ptr::null;

/// Where databases are unless the program says otherwise.
const FOLDER: &[u8] = b"/usr/share/GeoIP";

/// The names of the types; null for those that have none.
#[allow(clippy::indexing_slicing, reason = "the table is made when the library is compiled")]
#[unsafe(no_mangle)]
pub(crate) static GeoIPDBDescription: Table<[*const c_char; NUM_DB_TYPES]> = {
    let mut names = [null(); NUM_DB_TYPES];
    let mut position = 0;
    while position < EDITIONS.len() {
        names[EDITIONS[position].number as usize] = EDITIONS[position].name.as_ptr();
        position += 1;
    }
    Table(names)
};

/// The file names of the types: null, or an array of [`NUM_DB_TYPES`].
#[unsafe(no_mangle)]
pub(crate) static mut GeoIPDBFileName: *mut *mut c_char = null_mut();

/// The folder of the databases; null: the usual one.
#[unsafe(no_mangle)]
pub(crate) static mut GeoIP_custom_directory: *mut c_char = null_mut();

/// Sets the folder of the databases. The string stays the caller's.
///
/// # Safety
///
/// `dir` is null, or a C string that lives as long as it is set.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_setup_custom_directory(dir: *mut c_char) {
    // SAFETY: exported data, which one thread uses.
    unsafe { (&raw mut GeoIP_custom_directory).write_volatile(dir) };
}

/// The path of a file in the folder of the databases.
fn full_path(name: &[u8]) -> Vec<u8> {
    // SAFETY: exported data: null or a C string.
    let folder = unsafe {
        let custom = (&raw const GeoIP_custom_directory).read_volatile();
        if custom.is_null() { FOLDER } else { CStr::from_ptr(custom).to_bytes() }
    };
    let separator: &[u8] = if folder.ends_with(b"/") { b"" } else { b"/" };
    [folder, separator, name].concat()
}

/// The path of a file in the folder of the databases, for the caller to free.
///
/// # Safety
///
/// `file_name` is a C string or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _GeoIP_full_path_to(file_name: *const c_char) -> *mut c_char {
    guarded(null_mut, || match file_name.is_null() {
        true => null_mut(),
        // SAFETY: the caller keeps the contract above.
        false => copy(&full_path(unsafe { CStr::from_ptr(file_name) }.to_bytes())),
    })
}

/// Fills the table of file names, if it is not filled.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn _GeoIP_setup_dbfilename() {
    guarded(
        || (),
        || {
            let table = &raw mut GeoIPDBFileName;
            // SAFETY: exported data, which one thread uses; calloc gives null pointers.
            unsafe {
                if !table.read_volatile().is_null() {
                    return;
                }
                let names = libc::calloc(NUM_DB_TYPES, size_of::<*mut c_char>());
                let names = names.cast::<*mut c_char>();
                if names.is_null() {
                    return;
                }
                for edition in EDITIONS.iter().filter(|edition| !edition.file.is_empty()) {
                    let path = copy(&full_path(edition.file.as_bytes()));
                    names.add(usize::from(edition.number)).write(path);
                }
                table.write_volatile(names);
            }
        },
    );
}

/// Frees the table of file names. 1: there was one.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GeoIP_cleanup() -> c_int {
    let table = &raw mut GeoIPDBFileName;
    // SAFETY: exported data, which one thread uses; the table has NUM_DB_TYPES strings from malloc.
    unsafe {
        let names = table.read_volatile();
        if names.is_null() {
            return 0;
        }
        for position in 0..NUM_DB_TYPES {
            libc::free(names.add(position).read().cast());
        }
        libc::free(names.cast());
        table.write_volatile(null_mut());
    }
    1
}

/// The path of a type's file; `None` for a type that has no name for its file.
fn path_of(edition: c_int) -> Option<(&'static Edition, CString)> {
    let number = u8::try_from(edition).ok()?;
    let edition = editions::named(number).filter(|edition| !edition.file.is_empty())?;
    _GeoIP_setup_dbfilename();
    // SAFETY: the table has NUM_DB_TYPES entries, each null or a C string.
    let path = unsafe {
        let names = (&raw const GeoIPDBFileName).read_volatile();
        if names.is_null() {
            return None;
        }
        let path = names.add(usize::from(number)).read();
        if path.is_null() {
            return None;
        }
        CStr::from_ptr(path).to_owned()
    };
    Some((edition, path))
}

/// Opens the database of a type.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GeoIP_open_type(edition: c_int, flags: c_int) -> *mut GeoIP {
    guarded(null_mut, || {
        let Some((asked, path)) = path_of(edition) else {
            say(&format!("Invalid database type {edition}"));
            return null_mut();
        };
        let gi = handle::open(&path, flags, Some(asked));
        // A file of another edition, such as another revision, is not the one that was asked for.
        // SAFETY: a handle that was just made, or null.
        let is_asked =
            unsafe { gi.as_ref() }.is_some_and(|it| it.databaseType as u8 == asked.number);
        if is_asked {
            return gi;
        }
        // SAFETY: as above, and known to nobody else.
        unsafe { handle::GeoIP_delete(gi) };
        null_mut()
    })
}

/// Opens the country database.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GeoIP_new(flags: c_int) -> *mut GeoIP {
    GeoIP_open_type(c_int::from(editions::COUNTRY), flags)
}

/// Whether there is a file for a type.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GeoIP_db_avail(edition: c_int) -> c_int {
    guarded(
        || 0,
        || {
            let Some((asked, path)) = path_of(edition) else { return 0 };
            // SAFETY: a C string.
            let is_there = unsafe { libc::access(path.as_ptr(), libc::F_OK) } == 0;
            c_int::from(is_there || stand_in(&path, 0, Some(asked)).is_some())
        },
    )
}

/// The MaxMind DB that answers in the place of a legacy file: its path and data. `None`: the file
/// itself answers.
pub(crate) fn stand_in(
    path: &CStr,
    flags: c_int,
    asked: Option<&'static Edition>,
) -> Option<(CString, Data)> {
    if !environment::has_mmdb_files() || path.to_bytes().ends_with(b".mmdb") {
        return None;
    }
    let edition = asked.or_else(|| edition_of_file(path)).or_else(|| edition_of_name(path))?;
    let files = environment::mmdb_files();
    if files.is_empty() {
        complain_once(flags, "WHERED_GEOIP_MMDB names no MaxMind DB");
    }
    files.into_iter().find_map(|file| match Data::open(&file, flags, Some(edition)) {
        Ok(data) if data.mmdb.is_some() => Some((file, data)),
        // It has not the fields of this edition.
        Err(OpenError::NoMeaning(_)) => None,
        Ok(_) => {
            let name = file.to_string_lossy();
            complain_once(flags, &format!("WHERED_GEOIP_MMDB: {name} is no MaxMind DB"));
            None
        }
        Err(error) => {
            complain_once(flags, &format!("WHERED_GEOIP_MMDB: {}", error.line(&file)));
            None
        }
    })
}

/// Says what is wrong with the files that answer in the place of legacy ones: once in a process,
/// since programs open many databases.
fn complain_once(flags: c_int, line: &str) {
    static HAS_SAID: AtomicBool = AtomicBool::new(false);
    if flags & SILENCE == 0 && !HAS_SAID.swap(true, Relaxed) {
        complain(flags, line);
    }
}

/// The edition of the legacy file at a path, if one is there.
fn edition_of_file(path: &CStr) -> Option<&'static Edition> {
    let source = Source::open(path).ok()?;
    let mut tail = [0; format::TAIL_BYTES];
    Layout::read(source.tail(&mut tail), source.identity.size_bytes).map(|layout| layout.edition)
}

/// File names of legacy files that are not those of a type, and their editions.
const OTHER_NAMES: [(&str, u8); 6] = [
    ("GeoLiteCity.dat", editions::CITY_REV1),
    ("GeoLiteCityv6.dat", editions::CITY_REV1_V6),
    ("GeoLiteCountry.dat", editions::COUNTRY),
    ("GeoIPCountry.dat", editions::COUNTRY),
    ("GeoLiteASNum.dat", editions::AS_NUMBER),
    ("GeoIPASNum2.dat", editions::AS_NUMBER),
];

/// The edition that a file's name says.
fn edition_of_name(path: &CStr) -> Option<&'static Edition> {
    let name = path.to_bytes().rsplit(|&byte| byte == b'/').next()?;
    let other = OTHER_NAMES.iter().find(|(other, _)| other.as_bytes() == name);
    let named = |&(_, number): &(&str, u8)| editions::named(number);
    other.and_then(named).or_else(|| EDITIONS.iter().find(|it| it.file.as_bytes() == name))
}
