//! Opening a database and its index: what one version of a file is while it is served.
//!
//! Not for reading fields (`version`). A database is in memory, where nobody can change it, or
//! mapped together with its index.
#![allow(unsafe_code, reason = "mapping a file is unsafe: another process may change it")]

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use memmap2::Mmap;
use pyo3::exceptions::{PyFileNotFoundError, PyOSError, PyValueError};
use pyo3::prelude::*;
use whered_ip::Packing;
use whered_mmdb::{Database, DatabaseIndex, FieldPath, IndexForm, IndexOptions};

use crate::error::{InvalidDatabaseError, of_database};

/// Where the index of a database comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexChoice {
    /// From the file beside the database if it is that of this database, else it is built.
    Auto,
    /// From the file beside the database.
    File,
    /// Built in memory.
    Build,
}

impl IndexChoice {
    /// The choice that a caller named.
    ///
    /// # Errors
    ///
    /// `ValueError` for another name.
    pub(crate) fn of_name(name: &str) -> PyResult<IndexChoice> {
        match name {
            "auto" => Ok(IndexChoice::Auto),
            "file" => Ok(IndexChoice::File),
            "build" => Ok(IndexChoice::Build),
            other => Err(PyValueError::new_err(format!(
                "index={other:?}: allowed are \"auto\", \"file\" and \"build\""
            ))),
        }
    }
}

/// What tells one version of a file from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size_bytes: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(file: &File) -> io::Result<Stamp> {
        let metadata = file.metadata()?;
        Ok(Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size_bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }

    /// The stamp of the file at a path.
    ///
    /// # Errors
    ///
    /// `OSError` of the system.
    pub(crate) fn at(path: &Path) -> PyResult<Stamp> {
        open_regular(path)
            .and_then(|file| Stamp::of(&file))
            .map_err(|error| of_system(path, &error))
    }
}

/// A database with its index, and the files that stay mapped.
pub(crate) struct OpenDatabase {
    pub(crate) database: Database,
    pub(crate) index: DatabaseIndex,
    pub(crate) stamp: Stamp,
    mapped: Option<MappedFiles>,
}

/// The mapped files of a database.
struct MappedFiles {
    database: Arc<MappedFile>,
    index: Arc<MappedFile>,
}

impl OpenDatabase {
    /// Opens the database at a path and its index.
    ///
    /// With the index in a file both are mapped, so that processes share their memory; else the
    /// database is read into memory, where nobody can change it, and compiled.
    ///
    /// # Errors
    ///
    /// `FileNotFoundError` and `OSError` of the system; `InvalidDatabaseError` for a file that is
    /// no database or is damaged; with [`IndexChoice::File`] for an index of another database.
    pub(crate) fn new(path: &Path, choice: IndexChoice) -> PyResult<OpenDatabase> {
        let index_path = index_path(path);
        let has_index = choice != IndexChoice::Build && index_path.exists();
        if choice == IndexChoice::File && !has_index {
            return Err(PyFileNotFoundError::new_err(format!(
                "{}: there is no index; `Database(path).save_index()` and `whered db index` write it",
                index_path.display()
            )));
        }
        if has_index {
            match OpenDatabase::mapped(path, &index_path) {
                Err(_) if choice == IndexChoice::Auto => {}
                opened => return opened,
            }
        }
        let (bytes, stamp) = read(path)?;
        let database = Database::from_bytes(bytes).map_err(|error| in_file(path, &error))?;
        let options = IndexOptions { form: IndexForm::Compact, fields: Vec::<FieldPath>::new() };
        let index = DatabaseIndex::build(&database, &options);
        let index = index.map_err(|error| in_file(path, &error))?;
        Ok(OpenDatabase { database, index, stamp, mapped: None })
    }

    fn mapped(path: &Path, index_path: &Path) -> PyResult<OpenDatabase> {
        let (bytes, stamp) = MappedFile::new(path)?;
        let (index_bytes, _) = MappedFile::new(index_path)?;
        let owner = Bytes::from_owner(MappedFileBytes(Arc::clone(&bytes)));
        let database = Database::from_bytes(owner).map_err(|error| in_file(path, &error))?;
        let shared: Arc<dyn AsRef<[u8]> + Send + Sync> =
            Arc::new(MappedFileBytes(Arc::clone(&index_bytes)));
        let index = DatabaseIndex::from_bytes(shared, &database);
        let index = index.map_err(|error| in_file(index_path, &error))?;
        Ok(OpenDatabase {
            database,
            index,
            stamp,
            mapped: Some(MappedFiles { database: bytes, index: index_bytes }),
        })
    }

    /// Whether database and index are mapped files.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    /// Makes sure that the mapped files have not been cut: reading behind their end would kill
    /// the process. To be called before each piece of work; nothing to do without mapped files.
    ///
    /// # Errors
    ///
    /// `InvalidDatabaseError` that names the file.
    #[inline]
    pub(crate) fn check(&self) -> PyResult<()> {
        match &self.mapped {
            None => Ok(()),
            Some(mapped) => mapped.database.check().and_then(|()| mapped.index.check()),
        }
    }

    /// [`check`](Self::check) for what reads the index alone.
    #[inline]
    pub(crate) fn check_index(&self) -> PyResult<()> {
        self.mapped.as_ref().map_or(Ok(()), |mapped| mapped.index.check())
    }
}

/// The file that keeps the index of a database.
pub(crate) fn index_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".index");
    PathBuf::from(name)
}

/// A mapped file, and the file itself, to ask for its size.
struct MappedFile {
    map: Mmap,
    file: File,
    path: PathBuf,
}

impl MappedFile {
    fn new(path: &Path) -> PyResult<(Arc<MappedFile>, Stamp)> {
        let mapped = || {
            let file = open_regular(path)?;
            let stamp = Stamp::of(&file)?;
            // SAFETY: others may change the file, as documented: readers check every number that
            // they follow, and `check` finds a file that was cut.
            let map = unsafe { Mmap::map(&file) }?;
            Ok((Arc::new(MappedFile { map, file, path: path.to_owned() }), stamp))
        };
        mapped().map_err(|error| of_system(path, &error))
    }

    fn check(&self) -> PyResult<()> {
        let size_bytes = self.file.metadata().map_err(|error| of_system(&self.path, &error))?.len();
        if size_bytes < self.map.len() as u64 {
            return Err(InvalidDatabaseError::new_err(format!(
                "{}: cut to {size_bytes} bytes while it was mapped; replace files by renaming",
                self.path.display()
            )));
        }
        Ok(())
    }
}

/// The bytes of a mapped file, for owners that want a type of their own.
struct MappedFileBytes(Arc<MappedFile>);

impl AsRef<[u8]> for MappedFileBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0.map
    }
}

fn read(path: &Path) -> PyResult<(Vec<u8>, Stamp)> {
    let read = || {
        let mut file = open_regular(path)?;
        let stamp = Stamp::of(&file)?;
        let mut bytes = Vec::with_capacity(stamp.size_bytes as usize);
        file.read_to_end(&mut bytes)?;
        Packing::refuse(&bytes)?;
        Ok((bytes, stamp))
    };
    read().map_err(|error| of_system(path, &error))
}

/// Opens a regular file: a pipe that nobody writes to would block for ever, and a device such as
/// `/dev/zero` has no end.
fn open_regular(path: &Path) -> io::Result<File> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    File::open(path)
}

/// The system's error with the file's name; of the class that Python gives this error.
#[cold]
pub(crate) fn of_system(path: &Path, error: &io::Error) -> PyErr {
    match error.raw_os_error() {
        // With a number Python chooses the class: FileNotFoundError, PermissionError and so on.
        Some(number) => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((number, text, path.display().to_string()))
        }
        None => PyOSError::new_err(format!("{}: {error}", path.display())),
    }
}

/// A database's error with the file's name.
#[cold]
pub(crate) fn in_file(path: &Path, error: &whered_mmdb::MmdbError) -> PyErr {
    match error.kind() {
        whered_mmdb::ErrorKind::AddressFamily | whered_mmdb::ErrorKind::Path => of_database(error),
        _ => InvalidDatabaseError::new_err(format!("{}: {error}", path.display())),
    }
}

/// Writes a file whole beside its place and renames it there. A symbolic link goes on leading to
/// the file that it leads to.
pub(crate) fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // Renaming over a device would remove it from the system.
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.new", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let mut file = File::create_new(&temporary)?;
    let written = io::Write::write_all(&mut file, bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&temporary, &path));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}
