//! The error of a link: one line for a person, with the primary's name in front.
//!
//! Not for: what is wrong inside of a dump (`rdb::RdbError`).

use std::fmt;
use std::io;

/// Why a link cannot go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkError {
    message: String,
    is_refusal: bool,
    needs_dump: bool,
}

impl LinkError {
    /// A fault of the connection, or of what came over it.
    #[must_use]
    pub fn new(name: &str, what: impl fmt::Display) -> LinkError {
        LinkError { message: format!("{name}: {what}"), is_refusal: false, needs_dump: false }
    }

    /// What a primary has answered instead of what was asked for.
    #[must_use]
    pub fn refusal(name: &str, what: impl fmt::Display) -> LinkError {
        LinkError { is_refusal: true, ..LinkError::new(name, what) }
    }

    /// A fault of the stream that a new connection would meet at the same offset.
    pub(crate) fn in_the_way(name: &str, what: impl fmt::Display) -> LinkError {
        LinkError { needs_dump: true, ..LinkError::new(name, what) }
    }

    pub(crate) fn of_socket(name: &str, error: &io::Error) -> LinkError {
        LinkError::new(name, described(error))
    }

    /// Whether the primary has answered with an error: it is there, and does not want this.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.is_refusal
    }

    /// Whether only a dump helps, because the stream would bring the same from its offset on.
    #[must_use]
    pub fn needs_dump(&self) -> bool {
        self.needs_dump
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LinkError {}

/// An error of a socket in words.
fn described(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "does not answer in time".to_owned(),
        io::ErrorKind::UnexpectedEof => "closes the connection".to_owned(),
        _ => one_line(&error.to_string(), 300),
    }
}

/// As much of a stranger's text as fits into a line.
pub(crate) fn one_line(text: &str, letters_max: usize) -> String {
    let plain = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    plain.take(letters_max).collect()
}
