//! Debian's libGeoIP on a legacy country file, with each of its combinations of flags.
//!
//! Not for the loops (`c/geoip.c`).

use std::ffi::{CStr, CString, c_char, c_int};
use std::ops::Range;
use std::path::Path;
use whered_bench::lookup::{AddressList, Binary, Calls, Engine, Input, Task, Wants};

#[repr(C)]
struct Opened {
    _private: [u8; 0],
}

#[allow(unsafe_code, reason = "the C side of this package")]
unsafe extern "C" {
    fn geoip_open(file: *const c_char, flags: c_int) -> *mut Opened;
    fn geoip_close(opened: *mut Opened);
    fn geoip_version() -> *const c_char;
    fn geoip_run_texts(
        opened: *mut Opened,
        texts: *const u8,
        starts: *const u32,
        count: usize,
    ) -> u64;
    fn geoip_run_numbers(opened: *mut Opened, addresses: *const u32, count: usize) -> u64;
}

/// The combinations of flags: name and number (`GeoIPOptions` of GeoIP.h).
pub(crate) const FLAGS: [(&str, i32); 7] = [
    ("STANDARD", 0),
    ("CHECK_CACHE", 2),
    ("INDEX_CACHE", 4),
    ("INDEX+CHECK", 4 | 2),
    ("MEMORY_CACHE", 1),
    ("MEMORY+CHECK", 1 | 2),
    ("MMAP_CACHE", 8),
];

/// A file open in libGeoIP.
pub(crate) struct GeoipEngine {
    flags: (&'static str, i32),
    opened: *mut Opened,
}

#[allow(unsafe_code, reason = "the trait asks for it")]
// SAFETY: comparisons run in one thread; nothing here calls an engine from two.
unsafe impl Sync for GeoipEngine {}

impl GeoipEngine {
    /// Opens a file.
    pub(crate) fn open(file: &Path, flags: (&'static str, i32)) -> Result<GeoipEngine, String> {
        let name = CString::new(file.to_string_lossy().as_bytes())
            .map_err(|error| format!("{}: {error}", file.display()))?;
        #[allow(unsafe_code, reason = "the C side of this package")]
        // SAFETY: the name ends with a zero byte and lives through the call.
        let opened = unsafe { geoip_open(name.as_ptr(), flags.1) };
        if opened.is_null() {
            return Err(format!("{}: libGeoIP does not open it", file.display()));
        }
        Ok(GeoipEngine { flags, opened })
    }
}

impl Drop for GeoipEngine {
    #[allow(unsafe_code, reason = "the C side of this package")]
    fn drop(&mut self) {
        // SAFETY: it came from `geoip_open` and is closed nowhere else.
        unsafe { geoip_close(self.opened) };
    }
}

impl Engine for GeoipEngine {
    fn name(&self) -> String {
        format!("libGeoIP-{}", self.flags.0)
    }

    fn settings(&self) -> String {
        #[allow(unsafe_code, reason = "the C side of this package")]
        // SAFETY: the version is a constant text.
        let version = unsafe { CStr::from_ptr(geoip_version()) };
        format!(
            "libGeoIP {}, flags {}; GeoIP_id_by_addr (text), GeoIP_id_by_ipnum (binary)",
            version.to_string_lossy(),
            self.flags.1
        )
    }

    fn can(&self, task: Task) -> bool {
        task.calls == Calls::Single && task.wants == Wants::Record
    }

    fn run(&self, task: Task, list: &AddressList, part: Range<usize>) -> Result<u64, String> {
        let Binary::V4(addresses) = &list.binary else {
            return Err("IPv6 addresses; allowed: IPv4".to_owned());
        };
        let (bytes, starts) = list.texts();
        let (addresses, starts) = (&addresses[part.clone()], &starts[part]);
        #[allow(unsafe_code, reason = "the C side of this package")]
        // SAFETY: both slices have the stated number of elements, and each text ends with a zero
        // byte.
        Ok(unsafe {
            match task.input {
                Input::Binary => {
                    geoip_run_numbers(self.opened, addresses.as_ptr(), addresses.len())
                }
                Input::Text => {
                    geoip_run_texts(self.opened, bytes.as_ptr(), starts.as_ptr(), starts.len())
                }
            }
        })
    }

    fn is_slow(&self) -> bool {
        // Those that read the file for each lookup.
        self.flags.1 & (1 | 4 | 8) == 0
    }
}
