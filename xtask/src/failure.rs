//! Why a chore could not run at all, as one line for a person.
//!
//! Not for what a chore finds while it runs: that is a [`crate::finding::Finding`].

use std::fmt;
use std::io;
use std::path::Path;

/// A chore that could not do its work: a program is missing, a file cannot be read.
#[derive(Debug)]
pub(crate) struct ChoreError {
    message: String,
}

impl ChoreError {
    /// An error that reads as `message`.
    pub(crate) fn new(message: impl Into<String>) -> ChoreError {
        ChoreError { message: message.into() }
    }

    /// An error of the operating system on one file.
    pub(crate) fn on_file(path: &Path, error: &io::Error) -> ChoreError {
        ChoreError::new(format!("{}: {error}", path.display()))
    }

    /// A program that could not be started, with what would provide it.
    pub(crate) fn on_program(program: &str, error: &io::Error) -> ChoreError {
        ChoreError::new(format!("cannot start {program}: {error} (make tools provides it)"))
    }
}

impl fmt::Display for ChoreError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}
