//! A database compiled for lookups: an address to its record, and to a few decoded fields, without
//! walking the file's tree.
//!
//! For: servers and bulk jobs. Not for: one question (building reads the whole file; a walk of the
//! tree answers sooner), fields that were not chosen (ask the [`Database`] with the record's id).
//!
//! ```text
//! address ──PrefixIndex──► row number, network length       every address of the family has one
//!                              │                            row 0: no record
//!                              ▼
//! ids     | starts    | steps     |                         those of the records, see `ids`
//! rows    | fields    | fields    | ...                     one a record, see `rows`
//! ```
//!
//! The whole address space is tiled by the leaves of the file's tree, empty ones included, so that
//! the network of an answer is exactly the file's, also when the answer is "no record". Aliases
//! (`2002::/16` and the like) cost one slot each.
//!
//! Invariants: row numbers below [`DatabaseIndex::row_count`]; rows are those of the database it
//! was built from. The caller that loads an index from a file gives the database, whose checksum is
//! compared.
//!
//! Concurrency: immutable; any number of readers. Cost: a lookup one to five cache lines in IPv4,
//! six to nine in IPv6, most of them near; a row one more, and one for each text of it, of which
//! those that many rows share are near. Nothing is allocated.

mod build;
mod column;
mod file;
mod ids;
mod pool;
mod rows;
mod rows_builder;

use crate::database::Database;
use crate::error::MmdbError;
use crate::path::FieldPath;
use crate::tree::RecordId;
use rows::Rows;
use std::net::IpAddr;
use whered_ip::{IndexForm, Match, Prefix, PrefixIndex};

pub use rows::{Cell, Row};

/// How a database is compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexOptions {
    /// Whether the index saves memory or time.
    pub form: IndexForm,
    /// The fields that are decoded once for all addresses: the columns of a [`Row`], in this
    /// order. At most 255.
    pub fields: Vec<FieldPath>,
}

/// The fields that are decoded when nobody chooses others.
const DEFAULT_FIELDS: [&[&str]; 5] = [
    &["country", "iso_code"],
    &["city", "names", "en"],
    &["location", "latitude"],
    &["location", "longitude"],
    &["autonomous_system_number"],
];

impl Default for IndexOptions {
    /// The compact form; country code, English city name, latitude, longitude, and the number of
    /// the autonomous system.
    fn default() -> IndexOptions {
        let fields = DEFAULT_FIELDS.iter().map(|path| FieldPath::new(path.iter().copied()));
        IndexOptions { form: IndexForm::Compact, fields: fields.collect() }
    }
}

/// A database's addresses and chosen fields, compiled.
///
/// ```
/// use whered_mmdb::{Cell, Database, DatabaseIndex, IndexOptions, Writer, WriterOptions, rows};
/// let mut writer = Writer::new(WriterOptions::default())?;
/// rows::read_csv(b"network,country.iso_code\n192.0.2.0/24,DE\n", &mut writer)?;
/// let database = Database::from_bytes(writer.finish()?)?;
///
/// let index = DatabaseIndex::build(&database, &IndexOptions::default())?;
/// let found = index.lookup("192.0.2.7".parse()?);
/// assert!(found.is_record());
/// assert_eq!(found.length_bits, 24);
/// let row = index.row(found);
/// assert_eq!(row.get(0), Cell::Text(b"DE"));
/// assert_eq!(row.get(1), Cell::Absent);
/// assert_eq!(index.lookup("192.0.3.7".parse()?).is_record(), false);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DatabaseIndex {
    networks: PrefixIndex,
    rows: Rows,
    fields: Vec<FieldPath>,
    is_ipv6: bool,
}

/// The answer of a lookup: a row, if the address has a record, and the length of its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Found {
    /// The number of the row; 0 means that the database has no record for the address.
    pub row: u32,
    /// The length of the network around the address that has this answer: 0 to 32 bits for an IPv4
    /// address, 0 to 128 for an IPv6 one, 0 in a family that the database does not have.
    pub length_bits: u8,
}

impl Found {
    /// Whether the database has a record for the address.
    #[must_use]
    #[inline]
    pub fn is_record(self) -> bool {
        self.row != 0
    }

    /// The network of the answer to a question for `address`.
    #[must_use]
    pub fn network(self, address: IpAddr) -> Prefix {
        let most = if address.is_ipv4() { 32 } else { 128 };
        Prefix::new(address, self.length_bits.min(most)).expect("the length is one of its family")
    }
}

impl From<Match> for Found {
    #[inline(always)]
    fn from(found: Match) -> Found {
        Found { row: found.value, length_bits: found.length_bits }
    }
}

impl From<Option<Match>> for Found {
    #[inline(always)]
    fn from(found: Option<Match>) -> Found {
        found.map_or(Found::default(), Found::from)
    }
}

impl DatabaseIndex {
    /// Compiles a database.
    ///
    /// Linear in networks and records (`docs/design/ip-index.md` has the time for a city database);
    /// memory is that of the networks twice, or, if that is more, that of the result with 16 bytes
    /// for each field of each record and all texts.
    ///
    /// # Errors
    ///
    /// A fault of the tree or of a record, as [`Database::verify`] finds it; of kind `Limit` when
    /// there are more than 255 fields, or the database is too large for an index.
    pub fn build(database: &Database, options: &IndexOptions) -> Result<DatabaseIndex, MmdbError> {
        build::build(database, options)
    }

    /// Looks up an address.
    #[must_use]
    #[inline]
    pub fn lookup(&self, address: IpAddr) -> Found {
        match address {
            IpAddr::V4(v4) => self.lookup4(v4.to_bits()),
            IpAddr::V6(v6) => self.lookup6(v6.to_bits()),
        }
    }

    /// Looks up an IPv4 address, given as a number (192.0.2.1 is 0xc000_0201).
    #[must_use]
    #[inline(always)]
    pub fn lookup4(&self, address: u32) -> Found {
        self.networks.lookup4(address).into()
    }

    /// Looks up an IPv6 address, given as a number.
    #[must_use]
    #[inline]
    pub fn lookup6(&self, address: u128) -> Found {
        self.networks.lookup6(address).into()
    }

    /// Looks up many IPv4 addresses at once: `found[n]` is the answer for `addresses[n]`.
    ///
    /// # Panics
    ///
    /// When the two slices differ in length.
    #[inline]
    pub fn lookup4_batch(&self, addresses: &[u32], found: &mut [Found]) {
        self.networks.lookup4_batch(addresses, found);
    }

    /// Like [`lookup4_batch`](Self::lookup4_batch), and prefetches the row of each answer while
    /// other lookups go on, so that [`row`](Self::row) does not wait for its first cache line. It
    /// pays for batches of ten to a few hundred addresses.
    ///
    /// # Panics
    ///
    /// When the two slices differ in length.
    #[inline]
    pub fn lookup4_batch_with_rows(&self, addresses: &[u32], found: &mut [Found]) {
        self.networks.lookup4_batch_with(addresses, found, self.rows.items());
        self.rows.prefetch_texts(&found.iter().map(|found| found.row));
    }

    /// Looks up many IPv6 addresses at once: `found[n]` is the answer for `addresses[n]`.
    ///
    /// # Panics
    ///
    /// When the two slices differ in length.
    #[inline]
    pub fn lookup6_batch(&self, addresses: &[u128], found: &mut [Found]) {
        self.networks.lookup6_batch(addresses, found);
    }

    /// The decoded fields of an answer; all absent if it has no record.
    #[must_use]
    #[inline]
    pub fn row(&self, found: Found) -> Row<'_> {
        self.rows.get(found.row)
    }

    /// Prefetches the rows of many answers and their strings, so that [`row`](Self::row) does not
    /// wait for them. It pays from some ten answers on.
    #[inline]
    pub fn prefetch_rows(&self, found: &[Found]) {
        self.rows.prefetch(&found.iter().map(|found| found.row));
    }

    /// The record of an answer, to ask the database for other fields.
    #[must_use]
    #[inline]
    pub fn record(&self, found: Found) -> Option<RecordId> {
        self.rows.record(found.row)
    }

    /// The record's number (its offset in the data section), or 0 if the answer has no record: for
    /// callers that keep both apart by [`Found::is_record`], without a branch.
    #[must_use]
    #[inline]
    pub fn offset_or_zero(&self, found: Found) -> u32 {
        self.rows.offset_or_zero(found.row)
    }

    /// The record of a row, by the row's number.
    #[must_use]
    #[inline]
    pub fn record_of_row(&self, row: u32) -> Option<RecordId> {
        self.rows.record(row)
    }

    /// The number of a record's row; `None` if no address leads to that record. Takes some twenty
    /// steps of a binary search.
    #[must_use]
    pub fn row_of(&self, record: RecordId) -> Option<u32> {
        self.rows.row_of(record)
    }

    /// The fields that rows have, in the order of their columns.
    #[must_use]
    pub fn fields(&self) -> &[FieldPath] {
        &self.fields
    }

    /// The column of a field, if it was chosen.
    #[must_use]
    pub fn column(&self, path: &FieldPath) -> Option<usize> {
        self.fields.iter().position(|field| field == path)
    }

    /// How many rows there are, the empty row 0 included: one more than the database has records.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.rows.count()
    }

    /// Whether IPv6 addresses may be asked for; of an IPv4 database they have nothing.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.is_ipv6
    }

    /// Which form the index has.
    #[must_use]
    pub fn form(&self) -> IndexForm {
        self.networks.form()
    }

    /// How many bytes the addresses' tables take in memory.
    #[must_use]
    pub fn networks_bytes(&self) -> usize {
        self.networks.memory_bytes()
    }

    /// How many bytes the decoded fields take in memory.
    #[must_use]
    pub fn columns_bytes(&self) -> usize {
        self.rows.memory_bytes()
    }

    /// How many cache lines a lookup reads one after the other, each found by the one before.
    #[must_use]
    pub fn accesses(&self, address: IpAddr) -> usize {
        self.networks.accesses(address)
    }
}
