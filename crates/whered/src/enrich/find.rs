//! From many addresses to the keys of their records, and from a key to a record's fields.
//!
//! Not for texts and not for output. This is the seam between `enrich` and what answers: an index
//! that lies beside the file, if there is one; else at first the file's own tree, which costs
//! nothing to begin with, and for a long input also an index, built beside the work with the fields
//! that are wanted and used as soon as it is there.
//!
//! A key means a record of one [`DatabaseSnapshot`] and nothing else; equal keys are equal records.
//! A view stays what it is while others already get the index. Where IPv4 and IPv6 addresses have a
//! database each, the keys of the second begin behind those of the first.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};

use whered_engine::open_index_file;
use whered_mmdb::{
    Cell, DatabaseIndex, FieldPath, Found, IndexOptions, MmdbError, RecordId, Value,
};

use super::fields::{Column, InputDatabase};
use super::write::Field;
use crate::db::index_path;
use crate::outcome::Failure;

/// The key of an address that has no record.
pub(crate) const NO_RECORD: u32 = 0;

/// As many fields as an index can have; those behind them are read in place.
const FIELDS_MAX: usize = 255;

/// One database's file, and its index if there is one.
pub(crate) struct Source {
    named: InputDatabase,
    /// What is wanted of its records.
    fields: Vec<FieldPath>,
    index: OnceLock<DatabaseIndex>,
}

/// What finds records: the sources of IPv4 and of IPv6 addresses, which are mostly one.
pub(crate) struct Finder {
    sources: [Arc<Source>; 2],
    pub(crate) databases: [usize; 2],
}

/// What a source is at one moment.
#[derive(Clone, Copy)]
struct SourceSnapshot<'a> {
    named: &'a InputDatabase,
    index: Option<&'a DatabaseIndex>,
}

/// What a finder is at one moment.
#[derive(Clone, Copy)]
pub(crate) struct DatabaseSnapshot<'a> {
    of_family: [SourceSnapshot<'a>; 2],
    /// What is added to the second source's keys; zero where both are one.
    offset: u32,
}

/// What tells views apart whose keys mean other records: which sources have an index.
pub(crate) type SnapshotState = [bool; 2];

/// The key of a record while there is no index. Records stand at offsets of a file's data section,
/// which is smaller than the greatest one.
fn key_of(record: RecordId) -> u32 {
    record.to_u32().saturating_add(1)
}

impl Source {
    /// The database at `place`, for its columns.
    pub(crate) fn new(named: InputDatabase, place: usize, columns: &[Column]) -> Source {
        let fields = columns.iter().filter(|column| column.databases.contains(&place));
        let fields = fields.map(|column| column.path.clone()).take(FIELDS_MAX).collect();
        Source { named, fields, index: OnceLock::new() }
    }

    /// Takes the index from the file beside the database, if there is one.
    ///
    /// # Errors
    /// The file is no index of this database: one line that says why.
    pub(crate) fn open_index(&self) -> Result<(), String> {
        let path = index_path(&self.named.path);
        if path.exists() {
            let index = open_index_file(&path, &self.named.database);
            // Nobody else has set it before the work begins.
            let _ = self.index.set(index.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    /// Builds the index unless there is one, which takes about a second for a file of four million
    /// networks. A database with a fault has none: the walk tells of the fault if an address leads
    /// to it.
    pub(crate) fn build_index(&self) {
        if self.index.get().is_some() {
            return;
        }
        let options = IndexOptions { fields: self.fields.clone(), ..IndexOptions::default() };
        if let Ok(index) = DatabaseIndex::build(&self.named.database, &options) {
            // Nobody else builds it.
            let _ = self.index.set(index);
        }
    }

    fn view(&self) -> SourceSnapshot<'_> {
        SourceSnapshot { named: &self.named, index: self.index.get() }
    }
}

impl Finder {
    /// What finds records in a pair of sources.
    ///
    /// # Errors
    /// Two files that are too large together for their records to have keys.
    pub(crate) fn new(sources: &[Arc<Source>], databases: [usize; 2]) -> Result<Finder, Failure> {
        let source = |at: usize| {
            let found = databases.get(at).and_then(|place| sources.get(*place));
            found.cloned().ok_or_else(|| Failure::Message("no such database".to_owned()))
        };
        let finder = Finder { sources: [source(0)?, source(1)?], databases };
        let [four, six] = &finder.sources;
        let sizes = [four, six].map(|source| source.named.database.size_bytes());
        if !Arc::ptr_eq(four, six) && sizes.iter().sum::<u64>() + 2 > u64::from(u32::MAX) {
            let path = six.named.path.as_path();
            let first = four.named.path.display();
            return Err(Failure::file(path, format!("takes more than 4 GiB with {first}")));
        }
        Ok(finder)
    }

    /// Builds the indexes that are not there yet.
    pub(crate) fn build_index(&self) {
        self.sources.iter().for_each(|source| source.build_index());
    }

    pub(crate) fn view(&self) -> DatabaseSnapshot<'_> {
        let [four, six] = &self.sources;
        let of_family = [four.view(), six.view()];
        let offset = if Arc::ptr_eq(four, six) { 0 } else { of_family[0].keys_end() };
        DatabaseSnapshot { of_family, offset }
    }
}

impl DatabaseSnapshot<'_> {
    /// The keys are below this number; nothing if they are not dense.
    pub(crate) fn key_count(&self) -> Option<usize> {
        let [four, six] = self.of_family.map(|view| view.index.map(DatabaseIndex::row_count));
        if self.offset == 0 { four } else { Some(four?.saturating_add(six?)) }
    }

    /// What the keys mean.
    pub(crate) fn state(&self) -> SnapshotState {
        self.of_family.map(|view| view.index.is_some())
    }

    /// `keys[n]` becomes the key of the record of `addresses[n]`.
    ///
    /// # Errors
    /// A fault of the database, with the database's file.
    pub(crate) fn find4(
        &self,
        addresses: &[u32],
        found: &mut Vec<Found>,
        keys: &mut Vec<u32>,
    ) -> Result<(), String> {
        self.of_family[0].find4(addresses, found, keys)
    }

    /// Looks up IPv6 addresses like [`DatabaseSnapshot::find4`]. A database of IPv4 addresses has
    /// no record for any of them.
    ///
    /// # Errors
    /// A fault of the database, with the database's file.
    pub(crate) fn find6(
        &self,
        addresses: &[u128],
        found: &mut Vec<Found>,
        keys: &mut Vec<u32>,
    ) -> Result<(), String> {
        self.of_family[1].find6(addresses, found, keys)?;
        if self.offset > 0 {
            keys.iter_mut().filter(|key| **key != NO_RECORD).for_each(|key| *key += self.offset);
        }
        Ok(())
    }

    /// The columns of the indexes that have a field.
    pub(crate) fn index_columns(&self, path: &FieldPath) -> [Option<usize>; 2] {
        self.of_family.map(|view| view.index?.column(path))
    }

    /// A field of the record with this key; from the index's column where it has one.
    ///
    /// # Errors
    /// A fault of the record, with the database's file.
    pub(crate) fn field(
        &self,
        key: u32,
        path: &FieldPath,
        index_columns: [Option<usize>; 2],
    ) -> Result<Field<'_>, String> {
        let ([four, six], [column4, column6]) = (&self.of_family, index_columns);
        match key.checked_sub(self.offset) {
            Some(key) if self.offset > 0 && key > 0 => six.field(key, path, column6),
            _ => four.field(key, path, column4),
        }
    }
}

impl<'a> SourceSnapshot<'a> {
    /// All keys are below this number.
    fn keys_end(&self) -> u32 {
        let end = match self.index {
            Some(index) => index.row_count(),
            None => self.named.database.as_bytes().len().saturating_add(1),
        };
        u32::try_from(end).unwrap_or(u32::MAX)
    }

    fn find4(
        &self,
        addresses: &[u32],
        found: &mut Vec<Found>,
        keys: &mut Vec<u32>,
    ) -> Result<(), String> {
        if let Some(index) = self.index {
            found.resize(addresses.len(), Found::default());
            index.lookup4_batch(addresses, found);
            keys.clear();
            keys.extend(found.iter().map(|found| found.row));
            return Ok(());
        }
        let addresses = addresses.iter().map(|bits| Ipv4Addr::from_bits(*bits).into());
        self.walk(addresses, keys)
    }

    fn find6(
        &self,
        addresses: &[u128],
        found: &mut Vec<Found>,
        keys: &mut Vec<u32>,
    ) -> Result<(), String> {
        let database = &self.named.database;
        let clients: Vec<u128>;
        let addresses = if database.has_teredo_clients() {
            // A client's IPv4 address is found below ::/96.
            let client = |bits: &u128| {
                let client = database.teredo_client(Ipv6Addr::from_bits(*bits).into());
                client.map_or(*bits, |client| u128::from(client.to_bits()))
            };
            clients = addresses.iter().map(client).collect();
            &clients
        } else {
            addresses
        };
        if let Some(index) = self.index {
            found.resize(addresses.len(), Found::default());
            index.lookup6_batch(addresses, found);
            keys.clear();
            keys.extend(found.iter().map(|found| found.row));
            return Ok(());
        }
        if self.named.database.metadata().ip_version == 4 {
            keys.clear();
            keys.resize(addresses.len(), NO_RECORD);
            return Ok(());
        }
        let addresses = addresses.iter().map(|bits| Ipv6Addr::from_bits(*bits).into());
        self.walk(addresses, keys)
    }

    /// Walks the file's own tree for each address.
    fn walk(
        &self,
        addresses: impl Iterator<Item = IpAddr>,
        keys: &mut Vec<u32>,
    ) -> Result<(), String> {
        keys.clear();
        for address in addresses {
            let found = self.named.database.lookup(address);
            let found = found.map_err(|error| self.place(&error))?;
            keys.push(found.record.map_or(NO_RECORD, key_of));
        }
        Ok(())
    }

    fn field(
        &self,
        key: u32,
        path: &FieldPath,
        index_column: Option<usize>,
    ) -> Result<Field<'a>, String> {
        let found = Found { row: key, length_bits: 0 };
        if let (Some(index), Some(column)) = (self.index, index_column) {
            match index.row(found).get(column) {
                Cell::Absent => return Ok(Field::Absent),
                Cell::Text(text) => return Ok(Field::Text(text)),
                Cell::Double(number) => return Ok(Field::Value(Value::Double(number))),
                Cell::Float(number) => return Ok(Field::Value(Value::Float(number))),
                Cell::Unsigned(number) => return Ok(Field::Value(Value::Uint64(number))),
                Cell::Signed(number) => return Ok(Field::Value(Value::Int32(number))),
                Cell::Boolean(truth) => return Ok(Field::Value(Value::Boolean(truth))),
                Cell::InPlace => {}
            }
        }
        let record = match self.index {
            Some(index) => index.record(found),
            None => key.checked_sub(1).map(RecordId::from_u32),
        };
        let Some(record) = record else { return Ok(Field::Absent) };
        let value = self.named.database.field(record, path).map_err(|error| self.place(&error))?;
        Ok(value.map_or(Field::Absent, Field::Value))
    }

    fn place(&self, error: &MmdbError) -> String {
        format!("{}: {error}", self.named.path.display())
    }
}
