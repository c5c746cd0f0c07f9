//! Uploads in several formats, read into events by a mapping: upload bytes in, [`Record`]s out.
//!
//! For: XML, GPX, JSON, CSV and TSV, whole in memory and already decompressed; which paths or
//! columns are the member, the place, the time, fields and items says a [`Mapping`].
//! Not for: files, decompression, tables, consolidation, clocks.
//!
//! ```text
//! upload ─► walk ─┬─► a shape that was seen before ──┐
//!                 │   (own scanner, no allocation)   ├─► texts by slot ─► Record ─► Events
//!                 └─► quick-xml, serde_json, csv ────┘                └─► reason ──► reject
//! ```
//!
//! Invariants:
//! - events come in the order of the upload, each with the byte offset of its record;
//! - what the quick scanner accepts, the library's path reads the same; whatever else it meets is
//!   left to the library's path (`scan_by_library` is the naive twin that tests compare with);
//! - one broken record is rejected alone with its offset and a reason; only what makes the rest
//!   unreadable (an upload that is cut off, another encoding, a document type) ends a scan.
//!
//! Concurrency: a mapping is immutable and may be shared by threads; a scan belongs to one.
//! Cost: no allocation for a record of a known shape; `bench/own` (`feeds`) has the times.
//!
//! ```
//! use whered_feeds::{Events, Format, MappingSource, Record};
//!
//! struct Seen(Vec<String>);
//! impl Events for Seen {
//!     fn record(&mut self, record: &Record<'_>) {
//!         let place = record.place.expect("the mapping has a place");
//!         let member = String::from_utf8_lossy(record.member);
//!         self.0.push(format!("{member} at {} {}", place.longitude_degrees, place.latitude_degrees));
//!     }
//!     fn reject(&mut self, offset_bytes: u64, reason: &str) {
//!         self.0.push(format!("byte {offset_bytes}: {reason}"));
//!     }
//! }
//!
//! let mut source = MappingSource::new(Format::Xml);
//! source.record = "upload/sighting".to_owned();
//! source.member = "@object".into();
//! source.longitude = Some("@x".into());
//! source.latitude = Some("@y".into());
//! let mapping = source.compile()?;
//!
//! let upload = br#"<upload><sighting object="7" x="8.5" y="50"/><sighting object="8"/></upload>"#;
//! let mut seen = Seen(Vec::new());
//! let totals = mapping.scan(upload, &mut seen)?;
//! assert_eq!((totals.records, totals.rejected), (1, 1));
//! assert_eq!(seen.0, ["7 at 8.5 50", "byte 45: longitude is missing"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
mod assemble;
mod digits;
mod encoding;
mod error;
mod event;
mod json;
mod location;
mod mapping;
mod role;
#[cfg(test)]
mod role_tests;
mod rows;
mod shape;
mod short_prefix;
mod source;
mod stop_bytes;
#[cfg(test)]
mod testing;
mod time;
mod upload;
mod value;
mod xml;
mod zone;

pub use encoding::is_known as is_known_encoding;
pub use error::{MappingError, UploadError, UploadErrorKind};
pub use event::{Events, Item, Record, Totals, Value};
pub use location::{Location, Locator};
pub use mapping::Mapping;
pub use source::{
    FieldKind, Format, ItemsSource, MappingSource, Origin, RowsSource, UploadField, ValueSource,
};
pub use time::{EpochScale, TimeSource, TwiceShown};
pub use upload::UploadFields;
pub use zone::Zone;
