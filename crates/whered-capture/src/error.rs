//! The one error of this crate: what ends a capture before its end.
//!
//! It says where (packet and byte offset of a binary format, line and column of a text), what was
//! found and what is allowed, in one line. It is one pointer wide; all text is made with the error.
//! Not for frames that are skipped: those are counted in [`crate::Totals`].

use std::{fmt, io};

/// What reading failed on: ask [`kind`](CaptureError::kind), or for its place; print it for a
/// person.
///
/// ```
/// use whered_capture::{Capture, ErrorKind};
/// let error = Capture::new(&b"\0\0\0\0"[..]).err().expect("no format");
/// assert_eq!(error.kind(), ErrorKind::UnknownFormat);
/// assert!(!error.to_string().contains('\n'));
/// ```
#[derive(Debug)]
pub struct CaptureError {
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    place: Place,
    found: String,
    allowed: String,
}

/// The families of faults, for callers that act on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The first bytes are of no format that is read here.
    UnknownFormat,
    /// A known format in a kind that is not read here.
    Unsupported,
    /// The bytes end within a record.
    Truncated,
    /// The bytes break the format.
    Malformed,
    /// A record beyond the limits against hostile files.
    Limit,
    /// The reader failed.
    Unreadable,
}

/// Where in its source an error lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The head of a file.
    Offset(u64),
    /// The packet's number from 1, and the offset of its record.
    Packet(u64, u64),
    /// Both from 1, the column in bytes.
    Line(u64, usize),
}

impl CaptureError {
    pub(crate) fn new(
        kind: ErrorKind,
        place: Place,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        let (found, allowed) = (found.into(), allowed.into());
        CaptureError { inner: Box::new(Inner { kind, place, found, allowed }) }
    }

    pub(crate) fn unreadable(place: Place, error: &io::Error) -> Self {
        let found = one_line(error.to_string().as_bytes());
        Self::new(ErrorKind::Unreadable, place, found, "bytes that can be read")
    }

    /// The family of the fault.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The number of the packet that could not be read, from 1; binary formats only.
    #[must_use]
    pub fn packet_number(&self) -> Option<u64> {
        match self.inner.place {
            Place::Packet(number, _) => Some(number),
            Place::Offset(_) | Place::Line(..) => None,
        }
    }

    /// The byte offset of the record that could not be read; binary formats only.
    #[must_use]
    pub fn offset_bytes(&self) -> Option<u64> {
        match self.inner.place {
            Place::Offset(offset) | Place::Packet(_, offset) => Some(offset),
            Place::Line(..) => None,
        }
    }

    /// The line, from 1; text formats only.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        match self.inner.place {
            Place::Line(line, _) => Some(line),
            Place::Offset(_) | Place::Packet(..) => None,
        }
    }

    /// The column in bytes, from 1; text formats only.
    #[must_use]
    pub fn column(&self) -> Option<usize> {
        match self.inner.place {
            Place::Line(_, column) => Some(column),
            Place::Offset(_) | Place::Packet(..) => None,
        }
    }

    /// The text that was found.
    #[must_use]
    pub fn found(&self) -> &str {
        &self.inner.found
    }

    /// The text that is allowed there.
    #[must_use]
    pub fn allowed(&self) -> &str {
        &self.inner.allowed
    }
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inner.place {
            Place::Offset(offset) => write!(f, "byte {offset}")?,
            Place::Packet(number, offset) => write!(f, "packet {number} at byte {offset}")?,
            Place::Line(line, column) => write!(f, "line {line}, column {column}")?,
        }
        write!(f, ": found {}, allowed: {}", self.inner.found, self.inner.allowed)
    }
}

impl std::error::Error for CaptureError {}

/// Bytes from outside as a short piece of one line.
pub(crate) fn one_line(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 80;
    let shown = bytes.get(..SHOWN_MAX).unwrap_or(bytes);
    let mut text = String::new();
    for letter in String::from_utf8_lossy(shown).chars() {
        if letter.is_control() { text.extend(letter.escape_default()) } else { text.push(letter) }
    }
    if bytes.len() > SHOWN_MAX {
        text.push_str("...");
    }
    text
}

/// The bytes on one line, in quotation marks.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", one_line(bytes))
}
