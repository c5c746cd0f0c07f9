//! The tree as the chores see it: every file that git tracks or would track, read once.
//!
//! Not for writing, and not for ignored files: build products and local data are nobody's
//! business here. The whole text stays in memory (a few megabytes), so that each check is a
//! plain function from texts to findings and can be tested on made-up ones.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::ChoreError;

/// One text file of the repository.
#[derive(Debug, Clone)]
pub(crate) struct TextFile {
    /// Relative to the root, with `/` between folders.
    pub(crate) path: String,
    /// The whole content.
    pub(crate) text: String,
}

impl TextFile {
    /// The last part of the path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Whether any folder on the way to the file has this name.
    pub(crate) fn is_below(&self, folder: &str) -> bool {
        let mut parts: Vec<&str> = self.path.split('/').collect();
        parts.pop();
        parts.contains(&folder)
    }
}

/// The checked-out repository.
#[derive(Debug)]
pub(crate) struct Repository {
    root: PathBuf,
    paths: Vec<String>,
}

impl Repository {
    /// Opens the repository that this xtask belongs to.
    pub(crate) fn open() -> Result<Repository, ChoreError> {
        let root = find_root()?;
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&root)
            .output()
            .map_err(|error| ChoreError::on_program("git", &error))?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(ChoreError::new(format!("git ls-files failed: {reason}")));
        }
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut paths: Vec<String> = listed
            .split('\0')
            .filter(|path| !path.is_empty() && root.join(path).is_file())
            .map(str::to_owned)
            .collect();
        paths.sort_unstable();
        paths.dedup();
        Ok(Repository { root, paths })
    }

    /// The folder that holds `.git`.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Every file's path relative to the root, sorted.
    pub(crate) fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Reads one file as text.
    pub(crate) fn read(&self, path: &str) -> Result<String, ChoreError> {
        let full = self.root.join(path);
        std::fs::read_to_string(&full).map_err(|error| ChoreError::on_file(&full, &error))
    }

    /// Reads every file that is text (UTF-8 without a NUL byte); the others are left out.
    pub(crate) fn texts(&self) -> Result<Vec<TextFile>, ChoreError> {
        let mut texts = Vec::with_capacity(self.paths.len());
        for path in &self.paths {
            let full = self.root.join(path);
            let bytes = std::fs::read(&full).map_err(|error| ChoreError::on_file(&full, &error))?;
            match String::from_utf8(bytes) {
                Ok(text) if !text.contains('\0') => {
                    texts.push(TextFile { path: path.clone(), text });
                }
                _ => {}
            }
        }
        Ok(texts)
    }
}

/// Cargo says at run time where xtask's manifest lies; the root is one above it.
fn find_root() -> Result<PathBuf, ChoreError> {
    let manifest_folder = std::env::var_os("CARGO_MANIFEST_DIR")
        .ok_or_else(|| ChoreError::new("CARGO_MANIFEST_DIR is not set; run it as cargo xtask"))?;
    let manifest_folder = PathBuf::from(manifest_folder);
    manifest_folder
        .parent()
        .map(Path::to_path_buf)
        .ok_or_else(|| ChoreError::new("xtask has no folder above it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_knows_its_name_and_the_folders_above_it() {
        let file = TextFile { path: "crates/x/tests/wire.rs".to_owned(), text: String::new() };
        assert_eq!(file.name(), "wire.rs");
        assert!(file.is_below("tests"));
        assert!(!file.is_below("wire.rs"));
        assert!(!file.is_below("test"));
    }
}
