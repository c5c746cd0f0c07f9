//! How a command ends, and what it prints on standard error.
//!
//! Not for: reports, which go to standard output.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

/// A command that ran to its end.
pub(crate) enum Outcome {
    /// Exit code 0.
    Found,
    /// Exit code 1.
    NotFound,
    /// Exit code 2; the reason was printed already.
    Failed,
}

/// A command that did not run to its end.
pub(crate) enum Failure {
    /// One line for standard error; exit code 2.
    Message(String),
    /// The reader of standard output closed it; exit code 0.
    ClosedPipe,
}

impl Failure {
    /// A failure about a file.
    pub(crate) fn file(path: &Path, what: impl Display) -> Failure {
        Failure::Message(format!("{}: {what}", path.display()))
    }
}

/// An error of standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Failure::ClosedPipe
        } else {
            Failure::Message(format!("standard output: {error}"))
        }
    }
}

/// Prints one line on standard error. A closed standard error has no reader to tell.
pub(crate) fn complain(message: &str) {
    let _ = writeln!(io::stderr().lock(), "whered-bench: {message}");
}
