//! The one error of this crate: a line for a person, and questions for the caller.
//!
//! Errors are made on rare paths only; a value is one pointer wide. The display form is one line:
//! the place, what was found there, and what was expected or can be done.

use std::fmt;
use std::io;

/// A fault of a data directory, a journal or one of its files.
///
/// Its display form is one line. The caller asks for the cases that it treats apart:
///
/// ```
/// use whered_store::DataDirectory;
/// let error = DataDirectory::lock("/dev/null/data").err().expect("not a directory");
/// assert!(!error.is_full() && !error.is_poisoned() && error.holder_pid().is_none());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct StoreError(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    kind: Kind,
    message: String,
    file: Option<String>,
    offset_bytes: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Locked { pid: Option<u32> },
    Full,
    Poisoned,
    TooLarge,
    Closed,
    Damaged,
    Foreign,
    ForeignContent,
    Newer,
    Refused,
    Exists,
    Io,
}

impl StoreError {
    /// The process that holds the data directory, if that is the error and it left its number.
    #[must_use]
    pub fn holder_pid(&self) -> Option<u32> {
        match self.0.kind {
            Kind::Locked { pid } => pid,
            _ => None,
        }
    }

    /// Whether another process holds the data directory.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        matches!(self.0.kind, Kind::Locked { .. })
    }

    /// Whether the disk (or a quota) has no room: a later attempt may succeed.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.kind == Kind::Full
    }

    /// Whether the journal met an input/output error and takes no writes until a restart.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.0.kind == Kind::Poisoned
    }

    /// Whether the payload is larger than a frame can be.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.0.kind == Kind::TooLarge
    }

    /// Whether the journal was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.kind == Kind::Closed
    }

    /// Whether bytes that were once safely written are changed or missing.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.0.kind == Kind::Damaged
    }

    /// Whether a file bears a name of ours and is not ours, or a whole directory is not.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        matches!(self.0.kind, Kind::Foreign | Kind::ForeignContent)
    }

    /// Whether a file of ours cannot be used as it is, and [`crate::repair`] goes on without it: it
    /// is damaged, or has the content of another program.
    #[must_use]
    pub fn needs_repair(&self) -> bool {
        matches!(self.0.kind, Kind::Damaged | Kind::ForeignContent)
    }

    /// Whether a file was written by a newer version of this program.
    #[must_use]
    pub fn is_newer(&self) -> bool {
        self.0.kind == Kind::Newer
    }

    /// Whether the caller's replay function refused an entry.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.0.kind == Kind::Refused
    }

    /// Whether what was to be made is there already: a snapshot that starts at the same sequence
    /// (nothing was changed since), or files where an empty directory is needed.
    #[must_use]
    pub fn is_existing(&self) -> bool {
        self.0.kind == Kind::Exists
    }

    /// The file that the error is about, as a path for a person.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.0.file.as_deref()
    }

    /// The byte in [`StoreError::file`] where the error was found.
    #[must_use]
    pub fn offset_bytes(&self) -> Option<u64> {
        self.0.offset_bytes
    }

    /// Whether the system reported it, rather than what was found in a file.
    pub(crate) fn is_io(&self) -> bool {
        matches!(self.0.kind, Kind::Io | Kind::Full)
    }

    fn new(kind: Kind, message: String) -> StoreError {
        StoreError(Box::new(Inner { kind, message, file: None, offset_bytes: None }))
    }

    fn at(kind: Kind, file: &str, offset_bytes: u64, what: &str) -> StoreError {
        StoreError(Box::new(Inner {
            kind,
            message: format!("{file} at byte {offset_bytes}: {what}"),
            file: Some(file.to_owned()),
            offset_bytes: Some(offset_bytes),
        }))
    }

    pub(crate) fn locked(directory: &str, pid: Option<u32>) -> StoreError {
        let holder = pid.map_or_else(
            || "another process".to_owned(),
            |pid| format!("the process with number {pid}"),
        );
        let message = format!("the data directory {directory} is in use by {holder}");
        StoreError::new(Kind::Locked { pid }, message)
    }

    /// An error of the operating system while doing `what` ("cannot create x").
    pub(crate) fn io(what: &str, error: &io::Error) -> StoreError {
        let kind = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Kind::Full,
            _ => Kind::Io,
        };
        StoreError::new(kind, format!("{what}: {error}"))
    }

    pub(crate) fn full(message: String) -> StoreError {
        StoreError::new(Kind::Full, message)
    }

    pub(crate) fn poisoned(reason: &str) -> StoreError {
        let message = format!("the journal takes no writes until a restart: {reason}");
        StoreError::new(Kind::Poisoned, message)
    }

    pub(crate) fn too_large(size_bytes: usize, size_bytes_max: usize) -> StoreError {
        let message = format!(
            "an entry of {size_bytes} bytes is too large for the journal, \
             which takes up to {size_bytes_max}"
        );
        StoreError::new(Kind::TooLarge, message)
    }

    pub(crate) fn exists(message: String) -> StoreError {
        StoreError::new(Kind::Exists, message)
    }

    pub(crate) fn closed() -> StoreError {
        StoreError::new(Kind::Closed, "the journal is closed".to_owned())
    }

    pub(crate) fn damaged(file: &str, offset_bytes: u64, what: &str) -> StoreError {
        StoreError::at(Kind::Damaged, file, offset_bytes, what)
    }

    pub(crate) fn foreign(file: &str, offset_bytes: u64, what: &str) -> StoreError {
        StoreError::at(Kind::Foreign, file, offset_bytes, what)
    }

    /// A file of ours by its name, whose first bytes are not ours.
    pub(crate) fn foreign_content(file: &str, what: &str) -> StoreError {
        StoreError::at(Kind::ForeignContent, file, 0, what)
    }

    /// A directory of another program, of which one file is named.
    pub(crate) fn foreign_directory(directory: &str, file: &str) -> StoreError {
        let message = format!(
            "the directory {directory} has files and none of whered's (found {file}); allowed: an \
             empty directory or a data directory of whered"
        );
        StoreError::new(Kind::Foreign, message)
    }

    pub(crate) fn newer(file: &str, offset_bytes: u64, what: &str) -> StoreError {
        StoreError::at(Kind::Newer, file, offset_bytes, what)
    }

    pub(crate) fn refused(file: &str, offset_bytes: u64, what: &str) -> StoreError {
        StoreError::at(Kind::Refused, file, offset_bytes, what)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.message)
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "StoreError({:?})", self.0.message)
    }
}

impl std::error::Error for StoreError {}
