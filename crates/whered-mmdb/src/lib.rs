//! MaxMind DB (`.mmdb`) and legacy GeoIP (`.dat`) files: bytes in, records out; a verifier and a
//! writer.
//!
//! For: [`Database`] (open, look up, read fields, walk, compare, verify), [`Writer`] (networks and
//! values → a file's bytes), [`rows`] (CSV and NDJSON → writer), [`DatabaseIndex`] (a database
//! compiled for many lookups).
//! Bytes may be owned, mapped, or asked for range by range ([`ReadAt`]); the answers are the same.
//!
//! Not for: opening files, threads, reloading; this crate knows nothing of the engine.
//!
//! ```text
//!        rows (CSV, NDJSON)
//!               │
//! Prefix, Value ▼
//!  ──────────► Writer ──► bytes ──► Database ──► Lookup { prefix, record id }
//!                                      │              │
//!                                      ▼              ▼
//!                                   Verified     Value, number, text, JSON
//! ```
//!
//! The format is MaxMind DB file format 2.0, <https://maxmind.github.io/MaxMind-DB/>; reading is as
//! strict as that text. Hostile bytes give errors with their place: never a panic, never a loop,
//! never memory out of proportion. A record is bounded by [`MAX_DEPTH`],
//! [`MAX_VALUES_PER_RECORD`] and [`MAX_PAYLOAD_BYTES_PER_RECORD`], since pointers would let a small
//! file describe an endless one.
//!
//! Concurrency: a [`Database`] is immutable and may be asked by any number of threads; a
//! [`Writer`] belongs to one.
//!
//! ```
//! use whered_mmdb::{Database, Writer, WriterOptions, rows};
//! let mut writer = Writer::new(WriterOptions::default())?;
//! let csv = b"network,country.iso_code,asn:uint32\n192.0.2.0/24,DE,64500\n2001:db8::/32,FR,\n";
//! assert_eq!(rows::read_csv(csv, &mut writer)?, 2);
//! let database = Database::from_bytes(writer.finish()?)?;
//! let record = database.lookup("192.0.2.1".parse()?)?.record.expect("it is in the first row");
//! let mut json = Vec::new();
//! database.write_record_json(record, &mut json)?;
//! assert_eq!(json, br#"{"country":{"iso_code":"DE"},"asn":64500}"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod database;
mod decode;
mod diff;
mod edit;
mod error;
mod families;
pub mod fields;
mod file_tree;
mod index;
mod json;
mod legacy;
mod metadata;
mod networks;
mod open;
mod ordered;
mod parts;
mod path;
mod read_at;
mod record_set;
pub mod rows;
mod tree;
mod value;
mod verify;
mod walk;
mod within;
mod writer;

pub use database::{Database, Format, Lookup};
pub use diff::{Difference, Differences, FieldChange};
pub use error::{ErrorKind, MmdbError};
pub use families::by_family;
pub use file_tree::{Branch, FileTree, TreeShape};
pub use index::{Cell, DatabaseIndex, Found, IndexOptions, Row};
pub use legacy::LegacyEdition;
pub use metadata::Metadata;
pub use networks::Networks;
pub use path::FieldPath;
pub use read_at::{ReadAt, Resident};
pub use rows::{RowsError, RowsFormat};
pub use tree::{RecordId, TreeNode};
pub use value::Value;
pub use verify::Verified;
pub use walk::{MAX_DEPTH, MAX_PAYLOAD_BYTES_PER_RECORD, MAX_VALUES_PER_RECORD};
pub use whered_ip::IndexForm;
pub use writer::{StoredValue, Writer, WriterOptions};
