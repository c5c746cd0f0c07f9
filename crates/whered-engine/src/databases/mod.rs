//! Named databases: where each comes from, how its bytes are held, and the one way that every door
//! asks it.
//!
//! Not for: the formats (`whered-mmdb`), when to load again (the server watches files).
//!
//! ```text
//! DatabaseSource ──load: open, verify──> NamedDatabase (immutable) ──> Generation
//!                                             └─ DatabaseStatus: shared by all loads of the name
//! ```
//!
//! A database may have several files, each of one address family: they are joined into one in
//! memory ([`Database::join`]), so that everything behind knows only one.
//!
//! Invariants: what was loaded was verified whole; a [`NamedDatabase`] never changes, only its
//! status does. [`NamedDatabase::lookup`] and [`NamedDatabase::field`] are the only ways from a
//! single address to an answer, so that one place decides whether an index is used. Requests of
//! users come by [`NamedDatabase::answer`]; batches take the index itself.

mod access;
mod file;
mod joined;
mod status;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use whered_mmdb::{
    Database, DatabaseIndex, ErrorKind, FieldPath, IndexOptions, Lookup, Metadata, MmdbError,
    RecordId, Value, Verified,
};

use crate::clock;
use file::OpenedDatabase;

pub use access::AccessMode;
pub use file::{FileState, open_database_file, open_index_file, read_database_file, read_file};
pub use status::{DatabaseStatus, ReloadFailure, ReloadMode};

/// An IP database to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseSource {
    /// The name that questions use.
    pub name: String,
    /// The `.mmdb` or legacy `.dat` file.
    pub path: PathBuf,
    /// Further files of the same database: each answers for one address family.
    pub further_paths: Vec<PathBuf>,
    /// How its bytes are held.
    pub mode: AccessMode,
    /// How a new file is noticed.
    pub reload: ReloadMode,
    /// The fields that an index keeps as columns.
    pub fields: Vec<FieldPath>,
}

impl DatabaseSource {
    /// A database with the default mode, reloading and fields.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> DatabaseSource {
        DatabaseSource {
            name: name.into(),
            path: path.into(),
            further_paths: Vec::new(),
            mode: AccessMode::Indexed,
            reload: ReloadMode::Notify,
            fields: IndexOptions::default().fields,
        }
    }

    /// All files of the database.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.path).chain(&self.further_paths)
    }
}

/// A loaded database and its name.
#[derive(Debug)]
pub struct NamedDatabase {
    /// The name that questions use.
    pub name: String,
    /// What it was loaded from and how.
    pub source: DatabaseSource,
    /// The file as it was when it was read.
    pub file: FileState,
    /// The further files as they were when they were read.
    pub further_files: Vec<FileState>,
    /// When it was loaded, in milliseconds since 1970.
    pub loaded_at_millis: u64,
    /// What verification has counted.
    pub verified: Verified,
    /// How long reading and verifying took.
    pub load_time: Duration,
    /// The generation that it came with.
    pub generation: u64,
    /// What became of the loads of this name.
    pub status: Arc<DatabaseStatus>,
    database: Database,
    /// In [`AccessMode::Indexed`] only.
    index: Option<DatabaseIndex>,
    /// Whether a lookup without an error is the answer, for IPv4 and IPv6 addresses: not where no
    /// network of the family is there, nor where addresses have clients (Teredo).
    is_plain: [bool; 2],
}

/// How much memory of its own a database takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// The file's bytes that are held; a mapping's are the system's and count as none.
    pub file_bytes: u64,
    /// The index.
    pub index_bytes: u64,
    /// The columns.
    pub columns_bytes: u64,
}

impl NamedDatabase {
    /// Opens and verifies the file of a source.
    ///
    /// # Errors
    /// The file cannot be read, changes meanwhile, is no database, or fails verification.
    pub(crate) fn load(
        source: &DatabaseSource,
        status: Arc<DatabaseStatus>,
    ) -> Result<NamedDatabase, ReloadFailure> {
        let started = Instant::now();
        let options = IndexOptions { fields: source.fields.clone(), ..IndexOptions::default() };
        let index = (source.mode == AccessMode::Indexed).then_some(&options);
        let OpenedDatabase { database, verified, index, state, further } =
            if source.further_paths.is_empty() {
                file::open_verified(&source.path, source.mode, index)?
            } else {
                joined::open(source, index)?
            };
        let is_plain = file::is_plain(&database)
            .map_err(|error| file::failure_of(&source.path, &error, Some(state)))?;
        Ok(NamedDatabase {
            name: source.name.clone(),
            source: source.clone(),
            file: state,
            further_files: further,
            loaded_at_millis: clock::now_millis(),
            verified,
            load_time: started.elapsed(),
            generation: 0,
            status,
            database,
            index,
            is_plain,
        })
    }

    /// The record of an address and the network for which it is the answer.
    ///
    /// # Errors
    /// An IPv6 address in a file of IP version 4; bytes that cannot be read any more.
    pub fn lookup(&self, address: IpAddr) -> Result<Lookup, MmdbError> {
        match &self.index {
            // An address that the database cannot have is refused by the database.
            Some(index) if address.is_ipv4() || index.is_ipv6() => {
                let found = index.lookup(address);
                Ok(Lookup { prefix: found.network(address), record: index.record(found) })
            }
            _ => self.database.lookup(address),
        }
    }

    /// The answer for an address that a user asks about, as [`Database::answer`] gives it: a
    /// Teredo address by its client in a legacy V6 edition, and an address of a family that the
    /// database does not cover as an error, which is counted.
    ///
    /// # Errors
    /// [`ErrorKind::AddressFamily`] for such a family; bytes that cannot be read any more.
    #[inline]
    pub fn answer(&self, address: IpAddr) -> Result<Lookup, MmdbError> {
        let found = self.lookup(address);
        if self.is_plain[usize::from(address.is_ipv6())] && found.is_ok() {
            return found;
        }
        self.answer_otherwise(address)
    }

    #[cold]
    fn answer_otherwise(&self, address: IpAddr) -> Result<Lookup, MmdbError> {
        let found = self.database.answer(address);
        if found.as_ref().is_err_and(|error| error.kind() == ErrorKind::AddressFamily) {
            self.status.note_uncovered();
        }
        found
    }

    /// Whether any network of a family has a record.
    ///
    /// # Errors
    /// Bytes that cannot be read any more.
    pub fn covers(&self, is_ipv4: bool) -> Result<bool, MmdbError> {
        self.database.covers(is_ipv4)
    }

    /// One field of a record.
    ///
    /// # Errors
    /// A record beyond the limits; bytes that cannot be read any more.
    pub fn field(&self, record: RecordId, path: &FieldPath) -> Result<Option<Value>, MmdbError> {
        self.database.field(record, path)
    }

    /// Appends a whole record as JSON.
    ///
    /// # Errors
    /// As [`NamedDatabase::field`]; `out` is then as it was.
    pub fn write_record_json(&self, record: RecordId, out: &mut Vec<u8>) -> Result<(), MmdbError> {
        self.database.write_record_json(record, out)
    }

    /// What the file says of itself.
    pub fn metadata(&self) -> &Metadata {
        self.database.metadata()
    }

    /// The file's own tree and records: for walks over networks, not for single addresses.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The index, in the mode that has one: for batches, and for its columns.
    #[inline]
    pub fn index(&self) -> Option<&DatabaseIndex> {
        self.index.as_ref()
    }

    /// The memory that it takes.
    pub fn memory_use(&self) -> MemoryUse {
        let file_bytes = match self.source.mode {
            AccessMode::Mmap if self.further_files.is_empty() => 0,
            _ => self.database.as_bytes().len() as u64,
        };
        let index = self.index.as_ref();
        MemoryUse {
            file_bytes,
            index_bytes: index.map_or(0, |index| index.networks_bytes() as u64),
            columns_bytes: index.map_or(0, |index| index.columns_bytes() as u64),
        }
    }
}
