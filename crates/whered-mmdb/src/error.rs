//! The one error of this crate.
//!
//! An error says where (byte offset in the file, field path), what was found there and what is
//! allowed. It is one pointer wide, so that the good path of a lookup carries no weight; all text
//! is made when the error is made, never before.
//!
//! Not for CSV rows: those have lines and columns and an error of their own ([`crate::rows`]).

use std::fmt;

/// The error of this crate. It has a [`kind`](MmdbError::kind), an
/// [`offset_bytes`](MmdbError::offset_bytes) and a [`path`](MmdbError::path); its `Display` form is
/// for people.
///
/// ```
/// use whered_mmdb::{Database, ErrorKind};
/// let error = Database::from_bytes(b"no database".to_vec()).err().expect("it is none");
/// assert_eq!(error.kind(), ErrorKind::NotADatabase);
/// assert!(!error.to_string().contains('\n'));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MmdbError {
    inner: Box<Inner>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    offset_bytes: Option<u64>,
    path: String,
    found: String,
    allowed: String,
}

/// The families of faults, for callers that act on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are neither a MaxMind DB nor a legacy GeoIP file.
    NotADatabase,
    /// A known kind of file that this crate does not read (another edition or major version).
    Unsupported,
    /// The metadata section breaks the specification.
    Metadata,
    /// The search tree breaks the specification.
    Tree,
    /// The data section breaks the specification.
    Data,
    /// A record goes beyond the limits against hostile files (depth, values, bytes).
    Limit,
    /// An IPv6 address or prefix met a file that holds IPv4 only.
    AddressFamily,
    /// A field path is not well formed.
    Path,
    /// The writer was given something that the format cannot hold.
    Writing,
    /// Bytes are no index of this database (see [`crate::DatabaseIndex::from_bytes`]).
    Index,
    /// Bytes that a [`crate::ReadAt`] was asked for could not be read.
    Unreadable,
}

impl ErrorKind {
    /// The words that begin the printed error.
    fn words(self) -> &'static str {
        match self {
            ErrorKind::NotADatabase => "not a MaxMind DB or GeoIP file",
            ErrorKind::Unsupported => "unsupported database",
            ErrorKind::Metadata => "broken metadata",
            ErrorKind::Tree => "broken search tree",
            ErrorKind::Data => "broken data section",
            ErrorKind::Limit => "record beyond the limits",
            ErrorKind::AddressFamily => "wrong address family",
            ErrorKind::Path => "bad field path",
            ErrorKind::Writing => "cannot be written",
            ErrorKind::Index => "unusable index",
            ErrorKind::Unreadable => "cannot be read",
        }
    }
}

impl MmdbError {
    /// The family of the fault.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Where in the file the fault lies, in bytes from its start, if it lies in a file.
    #[must_use]
    pub fn offset_bytes(&self) -> Option<u64> {
        self.inner.offset_bytes
    }

    /// The field path (`country.names.en`) or the network at which the fault was met; empty if
    /// there is none.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.inner.path
    }

    /// The text that was found, without its location.
    pub(crate) fn found(&self) -> &str {
        &self.inner.found
    }

    /// The text that is allowed there.
    pub(crate) fn allowed(&self) -> &str {
        &self.inner.allowed
    }

    #[cold]
    pub(crate) fn new(
        kind: ErrorKind,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> MmdbError {
        MmdbError {
            inner: Box::new(Inner {
                kind,
                offset_bytes: None,
                path: String::new(),
                found: found.into(),
                allowed: allowed.into(),
            }),
        }
    }

    /// Adds the error's offset in the file.
    #[cold]
    pub(crate) fn at(mut self, offset_bytes: u64) -> MmdbError {
        self.inner.offset_bytes = Some(offset_bytes);
        self
    }

    /// Adds the field `segment` that the error is in; each level calls it on the way out.
    #[cold]
    pub(crate) fn within(mut self, segment: &str) -> MmdbError {
        let inner = self.inner.path.as_str();
        self.inner.path = match (segment, inner) {
            ("", _) => return self,
            (_, "") => segment.to_string(),
            _ => format!("{segment}.{inner}"),
        };
        self
    }

    /// Adds the network whose record the error is in.
    #[cold]
    #[must_use]
    pub fn at_network(self, network: whered_ip::Prefix) -> MmdbError {
        self.within(&network.to_string())
    }

    /// Changes the error's kind, for example of a data fault inside the metadata.
    #[cold]
    pub(crate) fn of_kind(mut self, kind: ErrorKind) -> MmdbError {
        self.inner.kind = kind;
        self
    }
}

impl fmt::Display for MmdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, offset_bytes, path, found, allowed } = &*self.inner;
        f.write_str(kind.words())?;
        if let Some(offset) = offset_bytes {
            write!(f, " at byte {offset}")?;
        }
        if !path.is_empty() {
            // Keys come from the file: control characters must not reach a terminal.
            write!(f, " ({})", shown(path))?;
        }
        write!(f, ": found {found}; allowed: {allowed}")
    }
}

impl std::error::Error for MmdbError {}

/// The most characters of foreign text in a message.
const SHOWN_CHARACTERS_MAX: usize = 80;

/// Foreign text as a message shows it: what a terminal could obey is escaped, and what is long
/// is cut. Quotes and backslashes stay as they are: the text is read by people.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == SHOWN_CHARACTERS_MAX {
            shown.push_str("...");
            break;
        }
        match character {
            '"' | '\'' | '\\' => shown.push(character),
            other => shown.extend(other.escape_debug()),
        }
    }
    shown
}
