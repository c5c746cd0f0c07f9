//! From many addresses to the keys of their records, and from a key to a record's fields.
//!
//! Not for texts and not for output. This is the seam between `enrich` and what answers: at first
//! the file's own tree, which costs nothing to begin with; for a long input also an index, built
//! beside the work and used as soon as it is there.
//!
//! A key means a record of one [`View`] and nothing else; equal keys are equal records. A view
//! stays what it is while others already get the index.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use whered_mmdb::{DatabaseIndex, FieldPath, Found, IndexOptions, MmdbError, RecordId, Value};

use super::fields::Named;

/// The key of an address that has no record.
pub(crate) const NO_RECORD: u32 = 0;

/// What finds records in one database.
pub(crate) struct Finder {
    named: Named,
    index: OnceLock<DatabaseIndex>,
}

/// What a finder is at one moment.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    named: &'a Named,
    index: Option<&'a DatabaseIndex>,
}

impl Finder {
    pub(crate) fn new(named: Named) -> Finder {
        Finder { named, index: OnceLock::new() }
    }

    /// Builds the index, which takes about a second for a file of four million networks. A
    /// database with a fault has none: the walk tells of the fault if an address leads to it.
    pub(crate) fn build_index(&self) {
        // Rows hold the records' names alone: fields are read once a record and kept as text.
        let options = IndexOptions { fields: Vec::new(), ..IndexOptions::default() };
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
        self.walk(addresses.iter().map(|&bits| IpAddr::V4(Ipv4Addr::from_bits(bits))), keys)
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
        self.walk(addresses.iter().map(|&bits| IpAddr::V6(Ipv6Addr::from_bits(bits))), keys)
    }

    fn walk(
        &self,
        addresses: impl Iterator<Item = IpAddr>,
        keys: &mut Vec<u32>,
    ) -> Result<(), String> {
        keys.clear();
        for address in addresses {
            let found = self.named.database.lookup(address).map_err(|error| self.place(&error))?;
            // Records stand at offsets of a file's data section, which is smaller than that.
            keys.push(found.record.map_or(NO_RECORD, |record| record.to_u32().saturating_add(1)));
        }
        Ok(())
    }

    /// A field of the record with this key.
    ///
    /// # Errors
    /// A fault of the record, with the database's file.
    pub(crate) fn field(&self, key: u32, path: &FieldPath) -> Result<Option<Value>, String> {
        let record = match self.index {
            Some(index) => index.record(Found { row: key, length_bits: 0 }),
            None => key.checked_sub(1).map(RecordId::from_u32),
        };
        let Some(record) = record else { return Ok(None) };
        self.named.database.field(record, path).map_err(|error| self.place(&error))
    }

    fn place(&self, error: &MmdbError) -> String {
        format!("{}: {error}", self.named.path.display())
    }
}
