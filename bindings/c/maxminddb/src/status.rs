//! The status codes of libmaxminddb, their texts, and the door through which every function runs.
//!
//! Not for telling where a file is broken: the C interface has no room for it; `whered db verify`
//! says it.

use crate::abi::Int;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use whered_mmdb::{ErrorKind, MmdbError};

/// A failure, by its number in `maxminddb.h`. Success is the absence of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(crate) enum Failure {
    FileOpen = 1,
    CorruptSearchTree = 2,
    InvalidMetadata = 3,
    Io = 4,
    OutOfMemory = 5,
    UnknownDatabaseFormat = 6,
    InvalidData = 7,
    InvalidLookupPath = 8,
    LookupPathDoesNotMatchData = 9,
    InvalidNodeNumber = 10,
    Ipv6LookupInIpv4Database = 11,
    InvalidNetworkAddress = 12,
    DecoderLimit = 13,
}

impl From<MmdbError> for Failure {
    #[cold]
    fn from(error: MmdbError) -> Failure {
        match error.kind() {
            ErrorKind::Tree => Failure::CorruptSearchTree,
            ErrorKind::Metadata | ErrorKind::NotADatabase => Failure::InvalidMetadata,
            ErrorKind::Unsupported => Failure::UnknownDatabaseFormat,
            ErrorKind::AddressFamily => Failure::Ipv6LookupInIpv4Database,
            ErrorKind::Limit => Failure::DecoderLimit,
            _ => Failure::InvalidData,
        }
    }
}

/// The number that a C caller gets.
pub(crate) fn code(result: Result<(), Failure>) -> Int {
    match result {
        Ok(()) => 0,
        Err(failure) => failure as Int,
    }
}

/// Runs the body of an exported function. A panic would be a fault of ours: the caller gets
/// `fallback` instead of an abort.
#[inline(always)]
pub(crate) fn guarded<T>(fallback: impl FnOnce() -> T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| fallback())
}

/// The text of a status code, for the life of the program.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn MMDB_strerror(error_code: Int) -> *const c_char {
    text(error_code).as_ptr()
}

/// The texts are part of the interface: programs print them and scripts look for them.
fn text(error_code: Int) -> &'static CStr {
    match error_code {
        0 => c"Success (not an error)",
        1 => c"Error opening the specified MaxMind DB file",
        2 => c"The MaxMind DB file's search tree is corrupt",
        3 => c"The MaxMind DB file contains invalid metadata",
        4 => c"An attempt to read data from the MaxMind DB file failed",
        5 => c"A memory allocation call failed",
        6 => c"The MaxMind DB file is in a format this library can't handle (unknown record size or binary format version)",
        7 => c"The MaxMind DB file's data section contains bad data (unknown data type or corrupt data)",
        8 => c"The lookup path contained an invalid value (like a negative integer for an array index)",
        9 => c"The lookup path does not match the data (key that doesn't exist, array index bigger than the array, expected array or map where none exists)",
        10 => c"The MMDB_read_node function was called with a node number that does not exist in the search tree",
        11 => c"You attempted to look up an IPv6 address in an IPv4-only database",
        12 => c"The sockaddr family is unsupported; only AF_INET and AF_INET6 are accepted",
        13 => c"The decoded data structure exceeds the configured resource limits",
        _ => c"Unknown error code",
    }
}

/// The version of libmaxminddb whose interface this is.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn MMDB_lib_version() -> *const c_char {
    c"1.14.0".as_ptr()
}
