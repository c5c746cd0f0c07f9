//! libmaxminddb, or a drop-in for it, opened by name and called from C.
//!
//! Not for the loops (`c/maxmind.c`), so that no line of Rust stands between two calls.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ops::Range;
use std::path::Path;
use whered_bench::lookup::{AddressList, Binary, Calls, Engine, Input, Task, Wants};

#[repr(C)]
struct Opened {
    _private: [u8; 0],
}

#[repr(C)]
struct Job {
    v4: *const u32,
    v6: *const u128,
    texts: *const u8,
    starts: *const u32,
    count: usize,
}

#[allow(unsafe_code, reason = "the C side of this package")]
unsafe extern "C" {
    fn maxmind_open(
        library: *const c_char,
        file: *const c_char,
        mode: *const c_char,
        message: *mut c_char,
        size: usize,
    ) -> *mut Opened;
    fn maxmind_close(opened: *mut Opened);
    fn maxmind_version(opened: *const Opened) -> *const c_char;
    fn maxmind_run(
        opened: *const Opened,
        job: *const Job,
        input: c_int,
        wants: c_int,
        octets: c_int,
        sum: *mut u64,
    ) -> c_int;
}

/// Which calls are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallsUsed {
    /// `MMDB_lookup_string` and `MMDB_get_value`, as most programs do.
    Usual,
    /// `inet_pton`, `MMDB_lookup_sockaddr` and `MMDB_aget_value`, which are faster.
    Fastest,
}

/// A library with a file open in it.
pub(crate) struct MaxmindEngine {
    name: String,
    used: CallsUsed,
    opened: *mut Opened,
    library: String,
    mode: Option<String>,
}

#[allow(unsafe_code, reason = "an open database of libmaxminddb is only read")]
// SAFETY: libmaxminddb's functions may be called from any number of threads on one open database,
// and so may those of a drop-in; nothing here changes it after opening.
unsafe impl Sync for MaxmindEngine {}

impl MaxmindEngine {
    /// Opens a file through a library; `mode` becomes the drop-in's `WHERED_MMDB`.
    pub(crate) fn open(
        name: &str,
        library: &str,
        mode: Option<&str>,
        file: &Path,
        used: CallsUsed,
    ) -> Result<MaxmindEngine, String> {
        let text = |text: &str| CString::new(text).map_err(|error| format!("{text:?}: {error}"));
        let (library_name, file_name) = (text(library)?, text(&file.to_string_lossy())?);
        let mode_text = mode.map(text).transpose()?;
        let mut message = [0_u8; 512];
        #[allow(unsafe_code, reason = "the C side of this package")]
        // SAFETY: all texts end with a zero byte and live through the call; the message's size is
        // the one stated, and the C side ends it with a zero byte.
        let opened = unsafe {
            maxmind_open(
                library_name.as_ptr(),
                file_name.as_ptr(),
                mode_text.as_ref().map_or(std::ptr::null(), |mode| mode.as_ptr()),
                message.as_mut_ptr().cast(),
                message.len(),
            )
        };
        if opened.is_null() {
            let why = CStr::from_bytes_until_nul(&message).unwrap_or_default();
            return Err(format!("{library}: {}", why.to_string_lossy()));
        }
        let (name, library) = (name.to_owned(), library.to_owned());
        Ok(MaxmindEngine { name, used, opened, library, mode: mode.map(str::to_owned) })
    }

    fn version(&self) -> String {
        #[allow(unsafe_code, reason = "the C side of this package")]
        // SAFETY: the library is open as long as `self` lives, and its version is a constant text.
        let version = unsafe { CStr::from_ptr(maxmind_version(self.opened)) };
        version.to_string_lossy().into_owned()
    }
}

impl Drop for MaxmindEngine {
    #[allow(unsafe_code, reason = "the C side of this package")]
    fn drop(&mut self) {
        // SAFETY: it came from `maxmind_open` and is closed nowhere else.
        unsafe { maxmind_close(self.opened) };
    }
}

impl Engine for MaxmindEngine {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn settings(&self) -> String {
        let calls = match self.used {
            CallsUsed::Usual => {
                "MMDB_lookup_sockaddr (binary), MMDB_lookup_string (text), MMDB_get_value with four \
                 constant paths"
            }
            CallsUsed::Fastest => {
                "MMDB_lookup_sockaddr (text: inet_pton first), MMDB_aget_value with four constant \
                 paths"
            }
        };
        let library = Path::new(&self.library).file_name().unwrap_or_default().to_string_lossy();
        let (version, mode) = (self.version(), self.mode.as_deref().unwrap_or("unset"));
        format!("{library} {version}, WHERED_MMDB {mode}, MMDB_MODE_MMAP, warmed; {calls}")
    }

    fn can(&self, task: Task) -> bool {
        task.calls == Calls::Single
            && matches!(task.wants, Wants::Record | Wants::Fields | Wants::Octets)
    }

    fn run(&self, task: Task, list: &AddressList, part: Range<usize>) -> Result<u64, String> {
        let (bytes, starts) = list.texts();
        let mut job = Job {
            v4: std::ptr::null(),
            v6: std::ptr::null(),
            texts: bytes.as_ptr(),
            starts: starts[part.clone()].as_ptr(),
            count: part.len(),
        };
        match &list.binary {
            Binary::V4(addresses) => job.v4 = addresses[part].as_ptr(),
            Binary::V6(addresses) => job.v6 = addresses[part].as_ptr(),
        }
        let input = match (task.input, self.used) {
            (Input::Binary, _) => 0,
            (Input::Text, CallsUsed::Usual) => 2,
            (Input::Text, CallsUsed::Fastest) => 4,
        };
        let wants = match (task.wants, self.used) {
            (Wants::Record, _) => 0,
            (_, CallsUsed::Usual) => 1,
            (_, CallsUsed::Fastest) => 2,
        };
        let octets = c_int::from(task.wants == Wants::Octets);
        let mut sum = 0;
        let input = input + c_int::from(!list.is_ipv4());
        #[allow(unsafe_code, reason = "the C side of this package")]
        // SAFETY: the slices above have `count` elements each, the one of the list's family is
        // there, and each text ends with a zero byte; the C side reads no more than that.
        let status =
            unsafe { maxmind_run(self.opened, &raw const job, input, wants, octets, &raw mut sum) };
        if status == 0 { Ok(sum) } else { Err(format!("status {status}")) }
    }
}
