//! A file, or a folder, that appears under its name when it is whole.
//!
//! For: every output that replaces a file, or makes a folder. Not for devices and pipes, which have
//! no whole.
//!
//! It is written under a name beside the target that no file has, and renamed at the end. The name
//! ends in `.part`, which drop folders pass over. A file
//! that is replaced keeps its permissions, and a symbolic link goes on leading to the file that it
//! leads to. A run that fails removes what it wrote, and so does one that SIGINT, SIGTERM or SIGHUP
//! ends: a thread waits for these signals from the first file on.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use crate::interrupt;

/// How many names are tried.
const NAMES_MAX: u32 = 1000;

/// The files and folders that have not got their names yet.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static WATCH: Once = Once::new();

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every unfinished file; none is made or finished while the guard lives.
fn remove_unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    let files = unfinished();
    for file in files.iter() {
        // There is nobody to tell: the run ends by a signal.
        let _ = if file.is_dir() { fs::remove_dir_all(file) } else { fs::remove_file(file) };
    }
    files
}

/// Makes something under a name beside the target that nothing has.
fn make_temporary<T>(
    target: &Path,
    make: impl Fn(&Path) -> io::Result<T>,
) -> io::Result<(PathBuf, T)> {
    WATCH.call_once(|| interrupt::before_end(|| std::mem::forget(remove_unfinished())));
    let mut all = unfinished();
    for number in 0..NAMES_MAX {
        let mut name = target.as_os_str().to_owned();
        name.push(format!(".{}-{number}.part", std::process::id()));
        let temporary = PathBuf::from(name);
        match make(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(made) => {
                all.push(temporary.clone());
                return Ok((temporary, made));
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "no name beside it is free"))
}

/// A folder that is being filled, and appears under its name when it is whole.
pub(crate) struct NewFolder {
    target: PathBuf,
    temporary: PathBuf,
    is_finished: bool,
}

impl NewFolder {
    /// Begins to fill what will be `target`, which must be new or empty.
    pub(crate) fn new(target: &Path) -> io::Result<NewFolder> {
        // Without a slash at its end.
        let target: PathBuf = target.components().collect();
        let target = fs::canonicalize(&target).unwrap_or(target);
        match fs::read_dir(&target).map(|mut entries| entries.next().is_some()) {
            Ok(true) => {
                let message = "the folder is not empty; allowed: a new or an empty one";
                return Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, message));
            }
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
                parent.map_or(Ok(()), fs::create_dir_all)?;
            }
            Err(error) => return Err(error),
        }
        let (temporary, ()) = make_temporary(&target, |path| fs::create_dir(path))?;
        Ok(NewFolder { target, temporary, is_finished: false })
    }

    /// Where it is until it has its name.
    pub(crate) fn path(&self) -> &Path {
        &self.temporary
    }

    /// Writes a new file of it. No signal ends the run in between, which would leave a part.
    pub(crate) fn write(&self, name: &Path, bytes: &[u8]) -> io::Result<()> {
        let _all = unfinished();
        let path = self.temporary.join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        File::create_new(path)?.write_all(bytes)
    }

    /// Gives the folder its name.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let mut all = unfinished();
        fs::rename(&self.temporary, &self.target)?;
        all.retain(|known| *known != self.temporary);
        drop(all);
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for NewFolder {
    /// Removes what was not finished.
    fn drop(&mut self) {
        if !self.is_finished {
            // There is nobody to tell; the run has failed with a better reason.
            let _ = fs::remove_dir_all(&self.temporary);
            unfinished().retain(|known| *known != self.temporary);
        }
    }
}

/// A file that is being written.
pub(crate) struct NewFile {
    /// The file that is replaced, or made.
    target: PathBuf,
    temporary: PathBuf,
    /// None once the file has its name.
    file: Option<File>,
}

impl NewFile {
    /// Begins to write what will be `target`.
    pub(crate) fn new(target: &Path) -> io::Result<NewFile> {
        NewFile::new_with(target, None)
    }

    /// As [`NewFile::new`], for its owner alone.
    pub(crate) fn new_private(target: &Path) -> io::Result<NewFile> {
        NewFile::new_with(target, Some(Permissions::from_mode(0o600)))
    }

    fn new_with(target: &Path, permissions: Option<Permissions>) -> io::Result<NewFile> {
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        let found = || fs::metadata(&target).ok().map(|found| found.permissions());
        let permissions = permissions.or_else(found);
        let (temporary, file) = make_temporary(&target, |path| File::create_new(path))?;
        let file = NewFile { target, temporary, file: Some(file) };
        file.allow(permissions)?;
        Ok(file)
    }

    fn allow(&self, permissions: Option<Permissions>) -> io::Result<()> {
        match (&self.file, permissions) {
            (Some(file), Some(permissions)) => file.set_permissions(permissions),
            _ => Ok(()),
        }
    }

    /// Makes sure that a crash leaves the bytes.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_all)
    }

    /// Gives the file its name.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let mut all = unfinished();
        fs::rename(&self.temporary, &self.target)?;
        all.retain(|known| *known != self.temporary);
        drop(all);
        self.file = None;
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().map_or(Ok(bytes.len()), |file| Write::write(file, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for NewFile {
    /// Removes what was not finished.
    fn drop(&mut self) {
        if self.file.is_some() {
            // There is nobody to tell; the run has failed with a better reason.
            let _ = fs::remove_file(&self.temporary);
            unfinished().retain(|known| *known != self.temporary);
        }
    }
}
