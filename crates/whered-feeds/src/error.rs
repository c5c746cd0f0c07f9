//! The two errors of this crate: a mapping that cannot be, and an upload that cannot be read.
//!
//! For: one line that says what was found and what is allowed. Not for: single records that are
//! refused; those go to [`crate::Events::reject`] and the scan goes on.

use std::fmt;

use crate::assemble::one_line;

/// A mapping that cannot be compiled: its key, what was found and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingError {
    key: String,
    found: String,
    allowed: String,
}

impl MappingError {
    pub(crate) fn new(
        key: impl Into<String>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        MappingError { key: key.into(), found: found.into(), allowed: allowed.into() }
    }

    /// The key of the configuration, such as `longitude`, `fields.level` or `items.key`.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The text that was found there.
    #[must_use]
    pub fn found(&self) -> &str {
        &self.found
    }

    /// The text that is allowed there.
    #[must_use]
    pub fn allowed(&self) -> &str {
        &self.allowed
    }
}

impl fmt::Display for MappingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; allowed: {}", self.key, self.found, self.allowed)
    }
}

impl std::error::Error for MappingError {}

/// A fault that ends a scan, or refuses an upload before it is spooled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadError {
    kind: UploadErrorKind,
    offset_bytes: u64,
    message: String,
}

/// The families of faults, for callers that act on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UploadErrorKind {
    /// There is nothing in it.
    Empty,
    /// It is not UTF-8.
    Encoding,
    /// It is text of another kind than the feed's.
    WrongFormat,
    /// Something that is refused on purpose, such as a document type.
    Refused,
    /// The rest breaks the format.
    Malformed,
    /// The upload ends within something.
    Truncated,
    /// Beyond a limit against hostile uploads.
    Limit,
}

impl UploadError {
    pub(crate) fn new(
        kind: UploadErrorKind,
        offset_bytes: usize,
        message: impl Into<String>,
    ) -> Self {
        UploadError {
            kind,
            offset_bytes: offset_bytes as u64,
            message: one_line(&message.into()).into_owned(),
        }
    }

    /// The family of the fault.
    #[must_use]
    pub fn kind(&self) -> UploadErrorKind {
        self.kind
    }

    /// Where in the decompressed upload.
    #[must_use]
    pub fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// The fault, without its location.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for UploadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset_bytes, self.message)
    }
}

impl std::error::Error for UploadError {}
