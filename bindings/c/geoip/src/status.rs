//! Messages, and the guard through which every exported function runs.
//!
//! Not for return values. Messages go where the original prints them: what is wrong with a file or
//! address to stderr, unless `SILENCE` is set; what is wrong with a call to stdout through C's
//! stdio, so that it comes in order with what the program prints.

use crate::abi::SILENCE;
use std::ffi::{CString, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of an exported function. A panic would be a fault of ours: the caller gets
/// `fallback` instead of an abort.
#[inline(always)]
pub(crate) fn guarded<T>(fallback: impl FnOnce() -> T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| fallback())
}

/// Prints a line to stderr unless the flags forbid it. errno stays as it was.
#[cold]
pub(crate) fn complain(flags: c_int, line: &str) {
    if flags & SILENCE != 0 {
        return;
    }
    let line = [line.as_bytes(), b"\n"].concat();
    keeping_errno(|| {
        // SAFETY: the line's bytes and their number. A message that cannot be written is lost.
        unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    });
}

/// Prints a line to stdout, through C's stdio.
#[cold]
pub(crate) fn say(line: &str) {
    if let Ok(line) = CString::new(line) {
        // SAFETY: a C string.
        unsafe { libc::puts(line.as_ptr()) };
    }
}

/// Does something that may set errno, and puts it back.
pub(crate) fn keeping_errno<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: errno belongs to this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { errno.read() };
    let made = act();
    // SAFETY: as above.
    unsafe { errno.write(saved) };
    made
}
