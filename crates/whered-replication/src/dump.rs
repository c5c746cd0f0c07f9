//! The dump that follows `+FULLRESYNC`: its bytes, and that it ends where the primary says.
//!
//! ```text
//! newlines while the primary prepares ─> $bytes, dump      or      $EOF:mark, dump, mark
//! ```
//!
//! Not for: what is in it (`rdb`). Invariant: after [`DumpBody::finish`] the dump was whole, as
//! long as the primary said or up to its mark, and what follows is in the connection's buffer.

use std::io::{self, Read};

use crate::connection::Connection;
use crate::error::LinkError;

/// The mark behind a dump whose length is not known.
const MARK_BYTES: usize = 40;

/// How the end of a dump is known.
enum End {
    /// This many bytes are left.
    After(u64),
    /// This follows it.
    Mark([u8; MARK_BYTES]),
}

/// A dump that comes in.
pub struct DumpBody<'c> {
    connection: &'c mut Connection,
    end: End,
}

impl Connection {
    /// Waits for the dump's beginning.
    ///
    /// # Errors
    /// The connection ends, nothing but keep-alives comes, or no dump does.
    pub fn dump(&mut self) -> Result<DumpBody<'_>, LinkError> {
        let line = self.line()?;
        let mark = line.strip_prefix("$EOF:").and_then(|mark| mark.as_bytes().try_into().ok());
        let bytes = line.strip_prefix('$').and_then(|bytes| bytes.parse().ok());
        let end = match (mark, bytes) {
            (Some(mark), _) => End::Mark(mark),
            (None, Some(bytes)) => End::After(bytes),
            (None, None) => return Err(self.refusal("sends no dump", &line)),
        };
        Ok(DumpBody { connection: self, end })
    }
}

impl DumpBody<'_> {
    /// How many bytes the dump has, if the primary has said so.
    #[must_use]
    pub fn stated_bytes(&self) -> Option<u64> {
        match self.end {
            End::After(bytes) => Some(bytes),
            End::Mark(_) => None,
        }
    }

    /// Makes sure that the dump has ended where the primary says. `rest` was read beyond its end.
    ///
    /// # Errors
    /// It is longer than its last key, its mark is not there, or the connection ends.
    pub fn finish(self, rest: &[u8]) -> Result<(), LinkError> {
        let connection = self.connection;
        match self.end {
            End::After(0) if rest.is_empty() => Ok(()),
            End::After(_) => {
                Err(LinkError::new(connection.name(), "the dump is longer than its last key"))
            }
            End::Mark(mark) => {
                connection.give_back(rest);
                while connection.waiting().len() < MARK_BYTES {
                    connection.fill_patiently()?;
                }
                if connection.waiting()[..MARK_BYTES] != mark {
                    let what = "the dump does not end with its mark";
                    return Err(LinkError::new(connection.name(), what));
                }
                connection.take(MARK_BYTES);
                Ok(())
            }
        }
    }
}

impl Read for DumpBody<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let End::After(left) = &mut self.end else {
            return self.connection.read_patiently(into);
        };
        let here = into.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
        if here == 0 {
            return Ok(0);
        }
        let read = self.connection.read_patiently(&mut into[..here])?;
        *left -= read as u64;
        Ok(read)
    }
}
