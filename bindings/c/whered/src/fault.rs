//! What was wrong: a status for the caller, and a line of text for a person.
//!
//! Not for what was not found, which is no fault. The text is kept for each thread until its next
//! call that fails, since C has no better place for it.

use crate::abi::OK;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use whered_mmdb::{ErrorKind, MmdbError};

/// A failed call; the numbers are those of `whered.h`.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) status: i32,
    text: String,
}

pub(crate) const BAD_ARGUMENT: i32 = 2;
pub(crate) const CANNOT_READ: i32 = 3;
const BAD_DATABASE: i32 = 4;
const WRONG_FAMILY: i32 = 5;
const INTERNAL: i32 = 6;

impl Fault {
    #[cold]
    pub(crate) fn new(status: i32, text: impl Display) -> Fault {
        Fault { status, text: text.to_string() }
    }
}

impl From<MmdbError> for Fault {
    #[cold]
    fn from(error: MmdbError) -> Fault {
        let status = match error.kind() {
            ErrorKind::AddressFamily => WRONG_FAMILY,
            ErrorKind::Path => BAD_ARGUMENT,
            _ => BAD_DATABASE,
        };
        Fault::new(status, error)
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs a call's body, and turns its fault, or a panic of ours, into a status.
pub(crate) fn status(body: impl FnOnce() -> Result<i32, Fault>) -> i32 {
    let done = catch_unwind(AssertUnwindSafe(body));
    let fault = match done {
        Ok(Ok(status)) => return status,
        Ok(Err(fault)) => fault,
        Err(_) => Fault::new(INTERNAL, "a fault inside libwhered"),
    };
    remember(&fault);
    debug_assert_ne!(fault.status, OK);
    fault.status
}

/// Keeps a fault's text for [`whered_error_text`].
pub(crate) fn remember(fault: &Fault) {
    let text = CString::new(fault.text.replace('\0', "\\0")).unwrap_or_default();
    LAST.with(|last| last.replace(text));
}

/// What was wrong with this thread's last call that failed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn whered_error_text() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}
