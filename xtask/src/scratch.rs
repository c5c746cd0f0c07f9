//! A temporary folder that goes away with its owner.
//!
//! Names are made of the process id and a counter, so that two runs never share one.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::failure::ChoreError;

static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);

/// A fresh, empty folder, removed with all its content when dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes the folder below the system's temporary folder.
    pub(crate) fn new(purpose: &str) -> Result<Scratch, ChoreError> {
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("whered-{purpose}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(|error| ChoreError::on_file(&path, &error))?;
        Ok(Scratch { path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes an empty folder inside.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, ChoreError> {
        let path = self.path.join(name);
        std::fs::create_dir(&path).map_err(|error| ChoreError::on_file(&path, &error))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing can be done about a folder that stays: the system empties it some day.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_folder_is_fresh_and_goes_away_with_its_content() {
        let first = Scratch::new("test").unwrap();
        let second = Scratch::new("test").unwrap();
        assert_ne!(first.path(), second.path());
        let inside = first.folder("inside").unwrap();
        std::fs::write(inside.join("file"), "x").unwrap();
        let path = first.path().to_path_buf();
        drop(first);
        assert!(!path.exists());
    }
}
