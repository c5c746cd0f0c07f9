//! From many addresses to the keys of their records, and from a key to a record's fields.
//!
//! Not for texts and not for output. This is the seam between `enrich` and what answers: an index
//! that lies beside the file, if there is one; else at first the file's own tree, which costs
//! nothing to begin with, and for a long input also an index, built beside the work with the fields
//! that are wanted and used as soon as it is there.
//!
//! A key means a record of one [`View`] and nothing else; equal keys are equal records. A view
//! stays what it is while others already get the index.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use whered_engine::open_index_file;
use whered_mmdb::{
    Cell, DatabaseIndex, FieldPath, Found, IndexOptions, MmdbError, RecordId, Value,
};

use super::fields::{Column, Named};
use super::write::Field;
use crate::db::index_path;

/// The key of an address that has no record.
pub(crate) const NO_RECORD: u32 = 0;

/// As many fields as an index can have; those behind them are read in place.
const FIELDS_MAX: usize = 255;

/// What finds records in one database.
pub(crate) struct Finder {
    named: Named,
    /// What is wanted of its records.
    fields: Vec<FieldPath>,
    index: OnceLock<DatabaseIndex>,
}

/// What a finder is at one moment.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    named: &'a Named,
    index: Option<&'a DatabaseIndex>,
}

/// The key of a record while there is no index. Records stand at offsets of a file's data section,
/// which is smaller than the greatest one.
fn key_of(record: RecordId) -> u32 {
    record.to_u32().saturating_add(1)
}

impl Finder {
    /// What finds records in the database at `place`, for its columns.
    pub(crate) fn new(named: Named, place: usize, columns: &[Column]) -> Finder {
        let fields = columns.iter().filter(|column| column.database == place);
        let fields = fields.map(|column| column.path.clone()).take(FIELDS_MAX).collect();
        Finder { named, fields, index: OnceLock::new() }
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

    pub(crate) fn view(&self) -> View<'_> {
        View { named: &self.named, index: self.index.get() }
    }
}

impl View<'_> {
    /// The keys are below this number; nothing if they are not dense.
    pub(crate) fn key_count(&self) -> Option<usize> {
        self.index.map(DatabaseIndex::row_count)
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

    /// The same for IPv6. A database of IPv4 addresses has no record for any of them.
    ///
    /// # Errors
    /// A fault of the database, with the database's file.
    pub(crate) fn find6(
        &self,
        addresses: &[u128],
        found: &mut Vec<Found>,
        keys: &mut Vec<u32>,
    ) -> Result<(), String> {
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

    /// The column of the index that has a field.
    pub(crate) fn index_column(&self, path: &FieldPath) -> Option<usize> {
        self.index?.column(path)
    }

    /// A field of the record with this key; from the index's column where it has one.
    ///
    /// # Errors
    /// A fault of the record, with the database's file.
    pub(crate) fn field(
        &self,
        key: u32,
        path: &FieldPath,
        index_column: Option<usize>,
    ) -> Result<Field<'_>, String> {
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
