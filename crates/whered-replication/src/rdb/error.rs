//! The error of the reader: the byte of the dump, what was found, what is allowed.
//!
//! Not for: what a server says of a key, which is `dump`'s.

use std::fmt;
use std::io;

/// Why a dump cannot be read on.
#[derive(Debug)]
pub struct RdbError {
    offset: u64,
    fault: Fault,
}

#[derive(Debug)]
enum Fault {
    Input(io::Error),
    Ended,
    Wrong(String),
}

impl RdbError {
    pub(super) fn new(offset: u64, what: impl Into<String>) -> RdbError {
        RdbError { offset, fault: Fault::Wrong(what.into()) }
    }

    pub(super) fn ended(offset: u64) -> RdbError {
        RdbError { offset, fault: Fault::Ended }
    }

    pub(super) fn input(offset: u64, error: io::Error) -> RdbError {
        RdbError { offset, fault: Fault::Input(error) }
    }

    /// The byte of the dump, from 0, at which reading stopped.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The error of the input itself, where it was not the dump's fault.
    #[must_use]
    pub fn input_error(&self) -> Option<&io::Error> {
        match &self.fault {
            Fault::Input(error) => Some(error),
            Fault::Ended | Fault::Wrong(_) => None,
        }
    }

    /// Whether the input ended before the dump did.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        matches!(self.fault, Fault::Ended)
    }
}

impl fmt::Display for RdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: ", self.offset)?;
        match &self.fault {
            Fault::Input(error) => write!(f, "{error}"),
            Fault::Ended => write!(f, "the dump ends too early"),
            Fault::Wrong(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for RdbError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            Fault::Input(error) => Some(error),
            Fault::Ended | Fault::Wrong(_) => None,
        }
    }
}
