//! Files and folders for their owner alone, whatever the process's umask is.
//!
//! For: everything that is kept in a data directory, beside one (quarantine) or copied from one.
//! Not for: files that others are meant to read. A new folder gets 0700, a new file 0600; files
//! that an earlier version made wider are made so when the directory is locked.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
const MODE_BITS: u32 = 0o777;

/// Opens a file as the options say; one that it makes is for its owner alone.
///
/// # Errors
///
/// Whatever the system reports.
pub fn open_file(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.mode(FILE_MODE).open(path)?;
    let found = file.metadata()?;
    // A umask may have taken away what the owner needs.
    if found.is_file() && found.mode() & MODE_BITS != FILE_MODE {
        tolerate_others(file.set_permissions(Permissions::from_mode(FILE_MODE)))?;
    }
    Ok(file)
}

/// Makes a folder, and those that lead to it, for their owner alone; folders that are there stay as
/// they are.
///
/// # Errors
///
/// Whatever the system reports.
pub fn create_folders(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    path.parent().map_or(Ok(()), create_folders)?;
    match DirBuilder::new().mode(FOLDER_MODE).create(path) {
        // Another thread was first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE)),
    }
}

/// Takes from others what an earlier version has let them have: the plain files of a folder whose
/// name `is_ours`, and with them the folders in it that are all ours.
pub(crate) fn tighten(folder: &Path, is_ours: &dyn Fn(&str) -> bool, folders: &[&str]) {
    // What cannot be read or is another user's stays as it is: opening it will tell.
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let Ok(found) = entry.metadata() else { continue };
        if found.is_dir() && folders.contains(&&*name) {
            tighten_all(&path, found.mode());
        } else if found.is_file() && is_ours(&name) && found.mode() & 0o077 != 0 {
            let _ = fs::set_permissions(&path, Permissions::from_mode(FILE_MODE));
        }
    }
}

fn tighten_all(folder: &Path, mode: u32) {
    if mode & 0o077 != 0 {
        let _ = fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE));
    }
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(found) = entry.metadata() else { continue };
        if found.is_dir() {
            tighten_all(&entry.path(), found.mode());
        } else if found.is_file() && found.mode() & 0o077 != 0 {
            let _ = fs::set_permissions(entry.path(), Permissions::from_mode(FILE_MODE));
        }
    }
}

/// The file of another user, whom we may write for, has the mode that he wants.
fn tolerate_others(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & MODE_BITS
    }

    #[test]
    fn what_is_made_and_what_was_made_wider_is_for_its_owner_alone() {
        let top = std::env::temp_dir().join(format!("whered-private-{}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        create_folders(&top.join("a/b")).unwrap();
        assert_eq!((mode(&top), mode(&top.join("a/b"))), (0o700, 0o700));
        let file = top.join("a/journal-1");
        open_file(OpenOptions::new().write(true).create_new(true), &file).unwrap();
        assert_eq!(mode(&file), 0o600);
        for (path, wider) in [(&file, 0o644), (&top.join("a/b"), 0o755)] {
            fs::set_permissions(path, Permissions::from_mode(wider)).unwrap();
        }
        fs::write(top.join("a/b/spooled"), b"").unwrap();
        fs::write(top.join("a/database"), b"").unwrap();
        let database = Permissions::from_mode(0o644);
        fs::set_permissions(top.join("a/database"), database).unwrap();
        tighten(&top.join("a"), &|name| name.starts_with("journal-"), &["b"]);
        assert_eq!((mode(&file), mode(&top.join("a/b"))), (0o600, 0o700));
        assert_eq!(mode(&top.join("a/b/spooled")), 0o600);
        assert_eq!(mode(&top.join("a/database")), 0o644, "it is not ours");
        fs::remove_dir_all(top).unwrap();
    }
}
