//! The lock of a data directory: one process at a time.
//!
//! The file `LOCK` is held by an advisory lock (`flock`) for the life of the [`DataDirectory`], or
//! until it is given up;
//! the kernel releases it when the process ends in whatever way, so a crash leaves nothing to
//! clean up. The file contains the process number as text, so that a second opener can name the
//! holder. The file is never removed: a removed lock file could be locked twice.
//!
//! A directory that has files, and none of ours among them, is another program's: it is refused
//! before anything is written there. Folders in it are nobody's business.
//!
//! What is made here is for its owner alone (`private.rs`), and so is from then on what an earlier
//! version has made. The mode of a directory that is there already is its owner's affair.
//!
//! Not for: what else lies in the directory (see [`crate::Journal`]).

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::journal::load::INCOMPLETE;
use crate::private;
use crate::storage::DirectoryStorage;
use crate::sys;

const LOCK_FILE: &str = "LOCK";
/// The prefix of our files' names.
const OURS: [&str; 4] = ["journal-", "snapshot-", "cold-", "LOCK"];
/// The folders in it that are ours.
const FOLDERS: [&str; 4] = ["spool", "quarantine", "sinks", "streams"];

/// A data directory that this process holds until the value is dropped.
///
/// ```no_run
/// use whered_store::DataDirectory;
/// let directory = DataDirectory::lock("data")?;
/// let error = DataDirectory::lock("data").err().expect("it is held");
/// assert_eq!(error.holder_pid(), Some(std::process::id()));
/// # Ok::<(), whered_store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    /// Dropping the file releases the lock.
    lock: File,
}

impl DataDirectory {
    /// Takes the directory for this process; creates it (and its parents) when absent.
    ///
    /// # Errors
    ///
    /// One line each: another process holds it ([`StoreError::holder_pid`] says which), the path is
    /// not a directory, it has files of another program only ([`StoreError::is_foreign`]), or the
    /// directory cannot be written.
    pub fn lock(path: impl AsRef<Path>) -> Result<DataDirectory, StoreError> {
        let path = path.as_ref();
        create(path)?;
        let shown = path.display().to_string();
        if let Some(name) = foreign_file(path).map_err(|error| cannot_read(&shown, &error))? {
            return Err(StoreError::foreign_directory(&shown, &name));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = private::open_file(&mut options, &path.join(LOCK_FILE))
            .map_err(|error| cannot_write(&shown, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::locked(&shown, read_pid(&mut file)));
            }
            Err(TryLockError::Error(error)) => {
                return Err(StoreError::io(
                    &format!("cannot lock the data directory {shown}"),
                    &error,
                ));
            }
        }
        write_pid(&mut file).map_err(|error| cannot_write(&shown, &error))?;
        private::tighten(path, &|name| OURS.iter().any(|own| name.starts_with(own)), &FOLDERS);
        Ok(DataDirectory { path: path.to_owned(), lock: file })
    }

    /// The process that holds a directory; `None` if none does. Nothing is written.
    ///
    /// # Errors
    ///
    /// The directory cannot be read, or its holder has written no number.
    pub fn holder(path: impl AsRef<Path>) -> Result<Option<u32>, StoreError> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let mut file = match File::open(path.join(LOCK_FILE)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_dir() => {
                return Ok(None);
            }
            Err(error) => return Err(cannot_read(&shown, &error)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => match read_pid(&mut file) {
                Some(pid) => Ok(Some(pid)),
                None => Err(StoreError::locked(&shown, None)),
            },
            Err(TryLockError::Error(error)) => Err(cannot_read(&shown, &error)),
        }
    }

    /// What [`DataDirectory::lock`] would be refused for, without making or changing anything.
    /// The lock is taken for a moment. Gives whether the directory is there.
    ///
    /// # Errors
    ///
    /// As [`DataDirectory::lock`].
    pub fn examine(path: impl AsRef<Path>) -> Result<bool, StoreError> {
        let path = path.as_ref();
        if !DataDirectory::examine_shared(path)? {
            return Ok(false);
        }
        let shown = path.display().to_string();
        let lock_path = path.join(LOCK_FILE);
        let Ok(mut file) = File::open(&lock_path) else {
            let may_write = sys::check_access(path, true);
            return may_write.map(|()| true).map_err(|error| cannot_write(&shown, &error));
        };
        sys::check_access(&lock_path, false).map_err(|error| cannot_write(&shown, &error))?;
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::locked(&shown, read_pid(&mut file)));
            }
            Err(TryLockError::Error(error)) => {
                let what = format!("cannot lock the data directory {shown}");
                return Err(StoreError::io(&what, &error));
            }
        }
        let may_write = sys::check_access(path, true);
        may_write.map(|()| true).map_err(|error| cannot_write(&shown, &error))
    }

    /// As [`DataDirectory::examine`], when another process may hold the directory.
    ///
    /// # Errors
    ///
    /// As [`DataDirectory::lock`], but for the lock.
    pub fn examine_shared(path: impl AsRef<Path>) -> Result<bool, StoreError> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        if !is_there(path)? {
            let parent = std::path::absolute(path).ok().and_then(|absolute| {
                absolute.ancestors().skip(1).find(|ancestor| ancestor.exists()).map(Path::to_owned)
            });
            let parent = parent.unwrap_or_else(|| PathBuf::from("/"));
            return sys::check_access(&parent, true).map(|()| false).map_err(|error| {
                StoreError::io(&format!("cannot create the data directory {shown}"), &error)
            });
        }
        match foreign_file(path).map_err(|error| cannot_read(&shown, &error))? {
            Some(name) => Err(StoreError::foreign_directory(&shown, &name)),
            None => Ok(true),
        }
    }

    /// The path as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the directory up for another process. Nothing may be written in it after this: journal
    /// and snapshots must be closed before.
    ///
    /// # Errors
    ///
    /// The system's; the directory is still held then.
    pub fn give_up(&self) -> Result<(), StoreError> {
        let shown = self.path.display();
        let text = || format!("cannot give up the data directory {shown}");
        self.lock.unlock().map_err(|error| StoreError::io(&text(), &error))
    }

    /// The files of this directory, for [`crate::Journal::open`].
    #[must_use]
    pub fn storage(&self) -> DirectoryStorage {
        DirectoryStorage::new(&self.path)
    }

    /// The files of a folder within, which is made, durably, when it is not there.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn folder(&self, name: impl AsRef<Path>) -> Result<DirectoryStorage, StoreError> {
        let path = self.path.join(name);
        create(&path)?;
        Ok(DirectoryStorage::new(path))
    }

    /// The names of the folders within a folder of this directory, in order; none if that is not
    /// there.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn folders(&self, name: impl AsRef<Path>) -> Result<Vec<String>, StoreError> {
        let path = self.path.join(name);
        let read = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&path)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    names.push(entry.file_name().to_string_lossy().into_owned());
                }
            }
            names.sort();
            Ok(names)
        };
        match read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            result => result.map_err(|error| {
                StoreError::io(&format!("cannot read {}", path.display()), &error)
            }),
        }
    }
}

/// The first file, by name, of a directory that has some and none of ours.
fn foreign_file(path: &Path) -> io::Result<Option<String>> {
    let mut first: Option<String> = None;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_pid = |text: String| text.trim().parse::<u32>().is_ok();
        let is_lock = name == LOCK_FILE;
        let is_ours = ["journal-", "snapshot-"].iter().any(|prefix| name.starts_with(prefix))
            || name == INCOMPLETE
            || is_lock && fs::read_to_string(entry.path()).is_ok_and(is_pid);
        if is_ours {
            return Ok(None);
        }
        // Other programs have files of that name, too; an empty one may be of ours.
        let counts = !is_lock && !name.starts_with('.') && entry.file_type()?.is_file();
        if counts && first.as_ref().is_none_or(|first| name < *first) {
            first = Some(name);
        }
    }
    Ok(first)
}

fn create(path: &Path) -> Result<(), StoreError> {
    if is_there(path)? {
        return Ok(());
    }
    create_durably(path).map_err(|error| {
        StoreError::io(&format!("cannot create the data directory {}", path.display()), &error)
    })
}

/// Whether a directory is there; anything else at its path is an error.
fn is_there(path: &Path) -> Result<bool, StoreError> {
    let cannot_use = |error: io::Error| {
        StoreError::io(&format!("cannot use {} as data directory", path.display()), &error)
    };
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(true),
        Ok(_) => Err(cannot_use(io::ErrorKind::NotADirectory.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(cannot_use(error)),
    }
}

/// Creates the directory and makes its name durable in each parent that was made for it, since
/// a synced journal in a directory that vanishes with the power is lost all the same.
fn create_durably(path: &Path) -> io::Result<()> {
    let absolute = std::path::absolute(path)?;
    let missing = absolute.ancestors().take_while(|ancestor| !ancestor.exists()).count();
    private::create_folders(&absolute)?;
    for parent in absolute.ancestors().skip(1).take(missing) {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

fn cannot_read(shown: &str, error: &io::Error) -> StoreError {
    StoreError::io(&format!("cannot read the data directory {shown}"), error)
}

fn cannot_write(shown: &str, error: &io::Error) -> StoreError {
    StoreError::io(&format!("cannot write in the data directory {shown}"), error)
}

fn read_pid(file: &mut File) -> Option<u32> {
    // A process number has at most ten digits; whatever else is in the file is not read.
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}
