//! Prefix sets out of files, where the setup says that they may lie.
//!
//! Not for: which files may be read, and formats (`prefix_sets/text.rs`).

use super::Engine;
use crate::error::WriteError;
use crate::prefix_sets::{LoadOptions, ReadyMembers};

impl Engine {
    /// As [`ReadyMembers::of_text`], from a file of the directory for sets; `dump:blocked` is the
    /// set `blocked` of the file `dump`, where there is no file of that whole name.
    ///
    /// # Errors
    /// `Refused` also when no directory is configured, or the file cannot be read or lies outside.
    pub fn read_set_file(
        &self,
        file: &str,
        how: &LoadOptions<'_>,
    ) -> Result<ReadyMembers, WriteError> {
        let directory = self.control().setup.sets_directory.clone();
        ReadyMembers::of_file(directory.as_deref(), file, how)
    }
}
