//! How a database's bytes are held: the five access modes and their names.
//!
//! Not for: opening ([`super::file`]). `docs/guide/databases.md` has the modes' costs in a table.

use std::fmt;
use std::str::FromStr;

/// Where a database's bytes are while it answers, from the least memory to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessMode {
    /// In the file: every node and field is read when it is asked for.
    Stream,
    /// The search tree in memory, records in the file.
    Tree,
    /// In a mapping of the file. Cutting the file in place ends this process.
    Mmap,
    /// The whole file in memory.
    Memory,
    /// The whole file in memory, and an index over it.
    Indexed,
}

impl AccessMode {
    /// Every mode.
    pub const ALL: [AccessMode; 5] = [
        AccessMode::Stream,
        AccessMode::Tree,
        AccessMode::Mmap,
        AccessMode::Memory,
        AccessMode::Indexed,
    ];

    /// The name in the configuration and in answers.
    pub fn name(self) -> &'static str {
        match self {
            AccessMode::Stream => "stream",
            AccessMode::Tree => "tree",
            AccessMode::Mmap => "mmap",
            AccessMode::Memory => "memory",
            AccessMode::Indexed => "indexed",
        }
    }
}

impl fmt::Display for AccessMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AccessMode {
    type Err = String;

    /// # Errors
    /// What is allowed.
    fn from_str(text: &str) -> Result<AccessMode, String> {
        let found = AccessMode::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| AccessMode::ALL.map(AccessMode::name).join(", "))
    }
}
