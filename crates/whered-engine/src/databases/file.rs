//! Database files: opening them in each access mode, and telling one state of a file from another.
//!
//! Not for: the format, or what serves afterwards. Only [`AccessMode::Mmap`] maps the file; the
//! other modes read through the descriptor, so that a file which is cut or overwritten in place
//! gives errors or old answers and never a signal.
//!
//! Cost: `memory` and `indexed` read the file once. `tree` and `stream` read, when they verify, the
//! whole file into memory for as long as that takes; unverified, only what opening needs.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use whered_ip::Packing;
use whered_mmdb::{Database, DatabaseIndex, IndexOptions, MmdbError, ReadAt, Resident, Verified};

use super::access::AccessMode;
use super::status::ReloadFailure;
use crate::clock;
use crate::error::EngineError;

/// What tells one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// The device and the file's number on it: another file under the same name differs here.
    pub device: u64,
    /// The file's number.
    pub inode: u64,
    /// Its size.
    pub size_bytes: u64,
    /// When its bytes were last changed: seconds since 1970, and nanoseconds.
    pub modified: (i64, i64),
    /// When anything of it was last changed, such as its permissions.
    pub changed: (i64, i64),
}

impl FileState {
    /// The state of the file that a path leads to now; symbolic links are followed.
    ///
    /// # Errors
    /// The system's, such as that there is no file.
    pub fn of(path: &Path) -> io::Result<FileState> {
        Ok(FileState::from_metadata(&std::fs::metadata(path)?))
    }

    fn from_metadata(found: &Metadata) -> FileState {
        FileState {
            device: found.dev(),
            inode: found.ino(),
            size_bytes: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

impl fmt::Display for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileState { inode, size_bytes, modified: (seconds, nanoseconds), .. } = self;
        write!(f, "inode {inode}, {size_bytes} bytes, modified {seconds}.{nanoseconds:09}")
    }
}

/// Opens one database file without verifying it; for programs that ask without a server.
///
/// # Errors
/// The file cannot be read or is no database: one line with the place.
pub fn open_database_file(path: &Path, mode: AccessMode) -> Result<Database, EngineError> {
    let opened = OpenedFile::new(path).and_then(|opened| opened.database(mode));
    opened.map_err(|fault| EngineError::new(format!("{}: {}", path.display(), fault.0)))
}

/// Opens one database file with all of it in memory, without verifying it.
///
/// # Errors
/// As [`open_database_file`].
pub fn read_database_file(path: &Path) -> Result<Database, EngineError> {
    open_database_file(path, AccessMode::Memory)
}

/// Maps an index that was kept as a file ([`DatabaseIndex::to_bytes`]) of this database. As in
/// [`AccessMode::Mmap`], nobody may cut or overwrite it in place; one that is renamed over it is
/// another file.
///
/// Cost: one pass over both for their checksums.
///
/// # Errors
/// The file cannot be read or is no index of this database: one line with the place.
pub fn open_index_file(path: &Path, database: &Database) -> Result<DatabaseIndex, EngineError> {
    let index = OpenedFile::new(path).and_then(|opened| {
        let bytes = opened.map()?;
        Ok(DatabaseIndex::from_bytes(Arc::new(bytes), database)?)
    });
    index.map_err(|fault| EngineError::new(format!("{}: {}", path.display(), fault.0)))
}

/// Reads a regular file whole. A pipe that nobody writes to would block a reload for ever, and a
/// device such as `/dev/zero` has no end: both are refused before they are opened.
///
/// # Errors
/// The system's, that it is no regular file, or that it is packed.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.read_to_end(&mut bytes)?;
    Packing::refuse(&bytes)?;
    Ok(bytes)
}

/// A database file that was opened and verified.
pub(super) struct OpenedDatabase {
    pub(super) database: Database,
    pub(super) verified: Verified,
    /// What was made of it where that was asked for.
    pub(super) index: Option<DatabaseIndex>,
    pub(super) state: FileState,
    /// Those of further files.
    pub(super) further: Vec<FileState>,
}

/// The failure of a load that a database's bytes are the reason of.
pub(super) fn failure_of(
    path: &Path,
    what: &dyn fmt::Display,
    file: Option<FileState>,
) -> ReloadFailure {
    let failure = ReloadFailure::of_content(format!("{}: {what}", path.display()));
    ReloadFailure { file, ..failure }
}

/// Whether a lookup without an error is the answer, for IPv4 and IPv6 addresses.
pub(super) fn is_plain(database: &Database) -> Result<[bool; 2], MmdbError> {
    let (ipv4, ipv6) = (database.covers(true)?, database.covers(false)?);
    Ok([ipv4, ipv6 && !database.has_teredo_clients()])
}

/// Opens and verifies one database file, and compiles it beside that if `index` says how.
pub(super) fn open_verified(
    path: &Path,
    mode: AccessMode,
    index: Option<&IndexOptions>,
) -> Result<OpenedDatabase, ReloadFailure> {
    let failure = |fault: Fault, file: Option<FileState>, is_changing: bool| ReloadFailure {
        message: format!("{}: {}", path.display(), fault.0),
        at_millis: clock::now_millis(),
        file,
        is_changing,
    };
    let opened = OpenedFile::new(path).map_err(|fault| failure(fault, None, false))?;
    let state = opened.state;
    let verified = opened.verified(mode, index);
    // Another file under this name is not asked about here: this one was whole, and the watcher
    // will see the other. The same file with other bytes may be half of each.
    let now = FileState::of(path).ok().filter(|now| now.inode == state.inode);
    let is_changing =
        now.is_some_and(|now| (now.size_bytes, now.modified) != (state.size_bytes, state.modified));
    match verified {
        Ok(_) if is_changing => {
            let found = "was changed while it was read; allowed: files that are complete";
            Err(failure(Fault(found.to_owned()), Some(state), true))
        }
        Ok((database, verified, index)) => {
            Ok(OpenedDatabase { database, verified, index, state, further: Vec::new() })
        }
        Err(fault) => Err(failure(fault, Some(state), is_changing)),
    }
}

/// What was found wrong, without the file's name.
struct Fault(String);

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault(error.to_string())
    }
}

impl From<MmdbError> for Fault {
    fn from(error: MmdbError) -> Fault {
        Fault(error.to_string())
    }
}

/// An open file and its state at that moment.
struct OpenedFile {
    file: File,
    state: FileState,
}

impl OpenedFile {
    fn new(path: &Path) -> Result<OpenedFile, Fault> {
        let file = open_regular(path)?;
        let state = FileState::from_metadata(&file.metadata()?);
        Ok(OpenedFile { file, state })
    }

    /// The database as the mode wants it, nothing verified.
    fn database(self, mode: AccessMode) -> Result<Database, Fault> {
        let mut head = [0; Packing::HEAD_BYTES];
        let length = self.file.read_at(&mut head, 0)?;
        let opened = self.opened_in(mode);
        // A tree may begin with any bytes: only what is no database is looked at as a packed file.
        opened.map_err(|fault| {
            match head.get(..length).and_then(|head| Packing::refuse(head).err()) {
                Some(packed) => Fault(packed.to_string()),
                None => fault,
            }
        })
    }

    fn opened_in(self, mode: AccessMode) -> Result<Database, Fault> {
        let resident = match mode {
            AccessMode::Mmap => return Ok(Database::from_bytes(self.map()?)?),
            AccessMode::Memory | AccessMode::Indexed => {
                return Ok(Database::from_bytes(self.read()?)?);
            }
            AccessMode::Stream => Resident::Nothing,
            AccessMode::Tree => Resident::Tree,
        };
        let OpenedFile { file, state } = self;
        let reader = OpenFile { file, size_bytes: state.size_bytes };
        Ok(Database::from_reader(reader, resident)?)
    }

    /// As [`OpenedFile::database`], verified whole; a database on a reader reads itself into memory
    /// for that.
    ///
    /// An index is built at the same time on another thread, since both take about as long; if
    /// the file is broken, the verifier says better where.
    fn verified(
        self,
        mode: AccessMode,
        index: Option<&IndexOptions>,
    ) -> Result<(Database, Verified, Option<DatabaseIndex>), Fault> {
        let database = self.database(mode)?;
        let Some(options) = index else {
            let verified = database.verify()?;
            return Ok((database, verified, None));
        };
        let (verified, index) = thread::scope(|scope| {
            let index = scope.spawn(|| DatabaseIndex::build(&database, options));
            (database.verify(), index.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        let verified = verified?;
        let index = index.map_err(|error| Fault(format!("no index can be built: {error}")))?;
        Ok((database, verified, Some(index)))
    }

    /// All bytes, as many as there were when the file was opened.
    fn read(&self) -> Result<Vec<u8>, Fault> {
        let size = usize::try_from(self.state.size_bytes)
            .map_err(|_| Fault("is larger than this machine can address".to_owned()))?;
        let mut bytes = vec![0; size];
        self.file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    #[allow(unsafe_code, reason = "the mode that maps files needs a mapping")]
    fn map(&self) -> Result<bytes::Bytes, Fault> {
        // SAFETY: the mapping is private and read-only, and lives as long as its owner in the
        // `Bytes`. That nobody changes or cuts the file below it is what the mode asks of its
        // operator (docs/guide/databases.md); every read of the bytes is checked and copied, and
        // nothing that was read once is trusted to read the same again.
        let mapping = unsafe { memmap2::Mmap::map(&self.file) }?;
        Ok(bytes::Bytes::from_owner(mapping))
    }
}

fn open_regular(path: &Path) -> io::Result<File> {
    let kind = std::fs::metadata(path)?.file_type();
    // Reading a folder has an error of its own.
    if !kind.is_file() && !kind.is_dir() {
        let message = "is a pipe, a socket or a device; allowed: a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    File::open(path)
}

/// A file that is read range by range.
#[derive(Debug)]
struct OpenFile {
    file: File,
    size_bytes: u64,
}

impl ReadAt for OpenFile {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset_bytes)
    }
}
