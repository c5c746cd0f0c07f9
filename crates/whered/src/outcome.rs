//! How a command ends, and the one way in which the program speaks to standard error.
//!
//! Not for: the server's log, which goes through `tracing`.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use serde_json::Value;

/// A command that did its work.
pub(crate) enum Outcome {
    /// Exit code 0.
    Found,
    /// Exit code 1.
    NotFound,
    /// Exit code 2: some of it failed, and each failure has had its line.
    Failed,
}

/// A command that could not.
pub(crate) enum Failure {
    /// One line for standard error; exit code 2.
    Message(String),
    /// The reader of our output has gone; that is its right.
    ClosedPipe,
}

impl Failure {
    /// A failure from anything that can say what is wrong.
    pub(crate) fn new(what: impl Display) -> Failure {
        Failure::Message(what.to_string())
    }

    /// A failure about a file.
    pub(crate) fn file(path: &Path, what: impl Display) -> Failure {
        Failure::Message(format!("{}: {what}", path.display()))
    }
}

/// Errors of standard output: a closed pipe is told apart.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Failure::ClosedPipe
        } else {
            Failure::Message(format!("standard output: {error}"))
        }
    }
}

/// Prints what a command has to say: the line of a text, or a JSON object.
pub(crate) fn say(is_json: bool, object: &Value, text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if is_json {
        writeln!(out, "{object}")?;
    } else {
        writeln!(out, "{text}")?;
    }
    Ok(out.flush()?)
}

/// Prints one line about a failure. There is nobody left to tell when that fails.
pub(crate) fn complain(message: &str) {
    let _ = writeln!(io::stderr().lock(), "whered: {message}");
}
