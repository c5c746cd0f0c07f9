//! The engine's error types: what can go wrong with a write, on opening or reloading, and when
//! reasons are asked for.
//!
//! Reads have no error: they answer `Option`. Each type is a small closed enum because callers
//! act on the case (a full disk and a poisoned journal are told apart by every door).

use std::fmt;

/// Why a write was refused. Nothing of it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The journal could not be extended (full disk); later writes may succeed again.
    Full(String),
    /// The journal has failed; all writes are refused until a restart.
    Poisoned(String),
    /// The operation is larger than a journal frame may be.
    TooLarge(String),
    /// A thing that the write names does not exist.
    NoSuch {
        /// The kind of thing, such as "pool" or "site".
        what: &'static str,
        /// The name that was given.
        name: String,
    },
    /// The key holds another kind of value than the write is for.
    WrongKind,
    /// The key, or a key of the database, is followed from another server, which alone changes it.
    Followed,
    /// The write contradicts a rule; the text says which and what is allowed.
    Refused(String),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Full(reason) => write!(f, "the journal cannot be extended: {reason}"),
            // The store's own sentence says already that the journal takes no writes, and why.
            WriteError::Poisoned(reason)
            | WriteError::TooLarge(reason)
            | WriteError::Refused(reason) => f.write_str(reason),
            WriteError::NoSuch { what, name } => write!(f, "no such {what} '{name}'"),
            WriteError::WrongKind => {
                f.write_str("Operation against a key holding the wrong kind of value")
            }
            WriteError::Followed => {
                f.write_str("the key is followed from another server, which alone changes it")
            }
        }
    }
}

impl std::error::Error for WriteError {}

impl From<whered_store::StoreError> for WriteError {
    fn from(error: whered_store::StoreError) -> Self {
        if error.is_poisoned() {
            WriteError::Poisoned(error.to_string())
        } else if error.is_too_large() {
            WriteError::TooLarge(error.to_string())
        } else {
            WriteError::Full(error.to_string())
        }
    }
}

/// Why the engine could not be opened, reloaded or closed: one line with the place.
#[derive(Debug)]
pub struct EngineError {
    message: String,
    holder_pid: Option<u32>,
    subject: Option<Subject>,
}

/// What of a setup an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The database of this name.
    Database(String),
    /// The zone of this origin.
    Zone(String),
    /// The ruleset of this name.
    Ruleset(String),
    /// The pool of this name.
    Pool(String),
    /// The feed of this name.
    Feed(String),
    /// The database that clients' places come from.
    PlaceDatabase,
    /// The data directory.
    DataDirectory,
}

impl EngineError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        EngineError { message: message.into(), holder_pid: None, subject: None }
    }

    /// This error, about something.
    pub(crate) fn about(self, subject: Subject) -> Self {
        EngineError { subject: Some(subject), ..self }
    }

    /// What of the setup it is about.
    pub fn subject(&self) -> Option<&Subject> {
        self.subject.as_ref()
    }

    /// The process that holds the data directory, when that is what stopped the opening.
    pub fn holder_pid(&self) -> Option<u32> {
        self.holder_pid
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EngineError {}

impl From<whered_store::StoreError> for EngineError {
    /// For damage with a word on what can be done.
    fn from(error: whered_store::StoreError) -> Self {
        let hint = "; nothing was changed; 'whered repair' keeps what is left";
        let hint = if error.needs_repair() { hint } else { "" };
        EngineError {
            message: format!("{error}{hint}"),
            holder_pid: error.holder_pid(),
            subject: Some(Subject::DataDirectory),
        }
    }
}

/// Why reasons could not be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplainError {
    /// The database, prefix set or pool does not exist.
    NoSuch {
        /// The kind of thing.
        what: &'static str,
        /// The name that was given.
        name: String,
    },
    /// The database could not be read at the answer's place.
    Unreadable(String),
    /// It takes longer than the caller has time for.
    TooLong,
}

impl fmt::Display for ExplainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExplainError::NoSuch { what, name } => write!(f, "no such {what} '{name}'"),
            ExplainError::Unreadable(reason) => f.write_str(reason),
            ExplainError::TooLong => f.write_str("the answer takes longer than it may"),
        }
    }
}

impl std::error::Error for ExplainError {}
