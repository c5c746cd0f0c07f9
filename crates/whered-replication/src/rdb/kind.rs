//! The types of values that a dump can have and that are only passed over.
//!
//! Not for: how they are laid out (`skip`).

use std::fmt;

/// A type of value that is skipped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// A list.
    List,
    /// A set.
    Set,
    /// A hash, with or without times of its fields.
    Hash,
    /// A stream with its groups.
    Stream,
    /// A value of a module.
    Module,
    /// A string that is longer than the limit.
    LongString,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Padding is the caller's, as for any text.
        f.pad(match self {
            Kind::List => "list",
            Kind::Set => "set",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
            Kind::Module => "module",
            Kind::LongString => "long string",
        })
    }
}
