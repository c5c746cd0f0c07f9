//! An index kept as a file, so that a restart does not build it and several processes share it.
//!
//! Not for opening files: bytes come in and go out.
//!
//! ```text
//! 0    magic "whrdidx" 0, version u32, byte order u32 (0x01020304)
//! 16   checksum of the database u32, of this file behind the header u32, size of the database u64
//! 32   columns u32, is IPv6 u32, length of the field texts u32, number of sections u32
//! 48   places of the sections: first byte u64, one behind the last u64, each
//!      field texts, one a line
//!      sections, each at a multiple of 64 bytes
//! ```
//!
//! Numbers are in the byte order of the machine that wrote them; another order is refused, and so
//! is another version, another database, and any change of the bytes (crc32c).
#![deny(clippy::indexing_slicing)]

use crc_fast::{CrcAlgorithm, Digest};

use crate::database::Database;
use crate::error::{ErrorKind, MmdbError};
use crate::index::DatabaseIndex;
use crate::index::rows::{self, Rows};
use crate::path::FieldPath;
use std::ops::Range;
use std::sync::Arc;
use whered_ip::PrefixIndex;
use whered_ip::image::Image;

const MAGIC: &[u8; 8] = b"whrdidx\0";
const VERSION: u32 = 5;
const BYTE_ORDER: u32 = 0x0102_0304;
const HEADER_BYTES: usize = 48;
const LINE_BYTES: usize = 64;
/// More sections than any version has.
const MOST_SECTIONS: usize = 64;

impl DatabaseIndex {
    /// The index as the bytes of a file, tied to the database that it was built from.
    ///
    /// Cost: one copy of the index, one pass over the database for its checksum.
    #[must_use]
    pub fn to_bytes(&self, database: &Database) -> Vec<u8> {
        let mut sections = self.networks.sections();
        sections.extend(self.rows.sections());
        let texts: Vec<String> = self.fields.iter().map(ToString::to_string).collect();
        let texts = texts.join("\n");
        let mut file = vec![0; HEADER_BYTES + 16 * sections.len()];
        file.extend(texts.as_bytes());
        let mut places = Vec::new();
        for section in &sections {
            file.resize(file.len().next_multiple_of(LINE_BYTES), 0);
            places.extend((file.len() as u64).to_ne_bytes());
            file.extend_from_slice(section);
            places.extend((file.len() as u64).to_ne_bytes());
        }
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend(MAGIC);
        header.extend(VERSION.to_ne_bytes());
        header.extend(BYTE_ORDER.to_ne_bytes());
        header.extend(database.checksum().to_ne_bytes());
        let at_checksum = header.len();
        header.extend([0; 4]);
        header.extend(database.size_bytes().to_ne_bytes());
        let counts = [self.fields.len(), usize::from(self.is_ipv6), texts.len(), sections.len()];
        header.extend(counts.iter().flat_map(|count| (*count as u32).to_ne_bytes()));
        header.extend(places);
        for (place, byte) in file.iter_mut().zip(header) {
            *place = byte;
        }
        let checksum = checksum_of(&file).to_ne_bytes();
        for (place, byte) in file.iter_mut().skip(at_checksum).zip(checksum) {
            *place = byte;
        }
        file
    }

    /// The index in the bytes of a file that [`to_bytes`](Self::to_bytes) made of this database.
    /// Nothing is copied: lookups read the bytes where they are, such as in a mapping.
    ///
    /// Cost: one pass over both for their checksums.
    ///
    /// # Errors
    ///
    /// Of kind `Index`: the bytes are no index, of another version or byte order, of another
    /// database, or damaged.
    pub fn from_bytes(
        bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
        database: &Database,
    ) -> Result<DatabaseIndex, MmdbError> {
        let image = Image::shared(bytes);
        let header = Header::read(image.as_bytes())?;
        if (header.database_checksum, header.database_bytes)
            != (database.checksum(), database.size_bytes())
        {
            return Err(refused("the index of another database", "that of this one"));
        }
        let index = header.index(&image);
        index.ok_or_else(|| refused("tables of impossible sizes", "those of an index"))
    }
}

/// The checksum of an index file's bytes, those of the checksum itself left out.
fn checksum_of(file: &[u8]) -> u32 {
    let (before, behind) = file.split_at(file.len().min(20));
    let behind = behind.get(4..).unwrap_or_default();
    let mut sum = Digest::new(CrcAlgorithm::Crc32Iscsi);
    sum.update(before);
    sum.update(behind);
    sum.finalize() as u32
}

#[cold]
fn refused(found: &str, allowed: &str) -> MmdbError {
    MmdbError::new(ErrorKind::Index, found, allowed)
}

struct Header {
    database_checksum: u32,
    database_bytes: u64,
    is_ipv6: bool,
    fields: Vec<FieldPath>,
    places: Vec<Range<usize>>,
}

impl Header {
    fn read(file: &[u8]) -> Result<Header, MmdbError> {
        let cut = || refused("fewer bytes than an index has", "whole files");
        let number = |at: usize| {
            let bytes = file.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
            bytes.map(|bytes| u32::from_ne_bytes(*bytes)).ok_or_else(cut)
        };
        let long = |at: usize| {
            let bytes = file.get(at..at + 8).and_then(|bytes| bytes.first_chunk());
            bytes.map(|bytes| u64::from_ne_bytes(*bytes)).ok_or_else(cut)
        };
        if file.get(..8) != Some(MAGIC) {
            return Err(refused("bytes that are no index", "files that whered wrote as one"));
        }
        if number(12)? != BYTE_ORDER {
            return Err(refused("an index of another byte order", "this machine's"));
        }
        if number(8)? != VERSION {
            let found = format!("an index of version {}", number(8)?);
            return Err(refused(&found, &format!("version {VERSION}")));
        }
        if number(20)? != checksum_of(file) {
            return Err(refused("damaged bytes (their checksum differs)", "whole files"));
        }
        let (columns, text_bytes) = (number(32)? as usize, number(40)? as usize);
        let sections = (number(44)? as usize).min(MOST_SECTIONS);
        let texts_at = HEADER_BYTES + 16 * sections;
        let places = (0..sections).map(|section| {
            let at = HEADER_BYTES + 16 * section;
            let place = |at| long(at).map(|place| usize::try_from(place).unwrap_or(usize::MAX));
            Ok(place(at)?..place(at + 8)?)
        });
        let texts = file.get(texts_at..texts_at.saturating_add(text_bytes)).ok_or_else(cut)?;
        let fields = if columns == 0 {
            Vec::new()
        } else {
            let texts = String::from_utf8_lossy(texts);
            texts.split('\n').map(str::parse).collect::<Result<Vec<FieldPath>, _>>()?
        };
        if fields.len() != columns {
            return Err(refused("another number of fields than columns", "one field a column"));
        }
        Ok(Header {
            database_checksum: number(16)?,
            database_bytes: long(24)?,
            is_ipv6: number(36)? == 1,
            fields,
            places: places.collect::<Result<_, _>>()?,
        })
    }

    fn index(self, image: &Image) -> Option<DatabaseIndex> {
        let split = self.places.len().checked_sub(rows::SECTIONS)?;
        let (networks, rows) = self.places.split_at_checked(split)?;
        let networks = PrefixIndex::from_sections(image, networks)?;
        let rows = Rows::from_sections(image, rows)?;
        (rows.columns() == self.fields.len()).then_some(DatabaseIndex {
            networks,
            rows,
            fields: self.fields,
            is_ipv6: self.is_ipv6,
        })
    }
}
