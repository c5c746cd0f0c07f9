//! A database's metadata, and the search for the metadata section of a MaxMind DB file.
//!
//! Not for the tree or the records. The section is one map at the file's end, behind the marker
//! `\xab\xcd\xefMaxMind.com`; the last marker within the file's last 128 KiB counts.
//!
//! Required keys must be there with an unsigned integer (any width whose value fits) or string;
//! `languages` and `description` may be missing. Unknown keys are passed over, as the
//! specification's minor versions demand.
#![deny(clippy::indexing_slicing)]

use crate::decode::Section;
use crate::error::{ErrorKind, MmdbError};
use crate::path::FieldPath;
use crate::value::{Value, ValueSink};
use crate::walk::Budget;

/// The bytes in front of the metadata map.
pub(crate) const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";

/// How far from the file's end the marker may stand.
pub(crate) const MAX_METADATA_BYTES: usize = 128 << 10;

/// A database's metadata (specification, "Database Metadata").
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// The structure of the records, such as `GeoLite2-City`; for a legacy file its edition's name.
    pub database_type: String,
    /// Language code and text.
    pub description: Vec<(String, String)>,
    /// The languages of localized names.
    pub languages: Vec<String>,
    /// 4 or 6. A database of version 6 usually holds IPv4 addresses too.
    pub ip_version: u16,
    /// Bits of one of the two records of a tree node: 24, 28 or 32.
    pub record_size_bits: u16,
    /// Nodes of the search tree.
    pub node_count: u32,
    /// When the database was built: seconds since 1970. For a legacy file from the date in its
    /// copyright line, 0 if there is none.
    pub build_epoch_seconds: u64,
    /// Major version of the binary format; 2, or 0 for a legacy file.
    pub format_major: u16,
    /// Minor version of the binary format.
    pub format_minor: u16,
}

/// Where the marker of the metadata begins in a file's bytes or in its last ones, if there is one.
pub(crate) fn find_marker(bytes: &[u8]) -> Option<usize> {
    let first = bytes.len().saturating_sub(MAX_METADATA_BYTES);
    let tail = bytes.get(first..)?;
    tail.windows(MARKER.len()).rposition(|window| window == MARKER).map(|position| first + position)
}

/// Reads the metadata map: the bytes behind the marker, which begin at `start` in the file.
pub(crate) fn read(bytes: &[u8], start: usize) -> Result<Metadata, MmdbError> {
    let section = Section::new(bytes, start);
    let mut sink = ValueSink::default();
    section
        .walk(0, &mut Budget::new(), &mut sink)
        .map_err(|error| error.of_kind(ErrorKind::Metadata))?;
    let map = Reader { map: sink.finish(), offset_bytes: start as u64 };
    let metadata = Metadata {
        format_major: map.unsigned("binary_format_major_version", "2")?,
        format_minor: map.unsigned("binary_format_minor_version", "a uint16")?,
        build_epoch_seconds: map.unsigned("build_epoch", "a uint64")?,
        database_type: map.text("database_type")?,
        description: map.description()?,
        ip_version: map.unsigned("ip_version", "4 or 6")?,
        languages: map.languages()?,
        node_count: map.unsigned("node_count", "a uint32")?,
        record_size_bits: map.unsigned("record_size", "24, 28 or 32")?,
    };
    if metadata.format_major != 2 {
        let found = format!("binary format version {}", metadata.format_major);
        return Err(MmdbError::new(ErrorKind::Unsupported, found, "version 2").at(start as u64));
    }
    if !matches!(metadata.ip_version, 4 | 6) {
        return Err(map.fault("ip_version", &metadata.ip_version.to_string(), "4 or 6"));
    }
    if metadata.node_count == 0 {
        return Err(map.fault("node_count", "0", "at least one node"));
    }
    Ok(metadata)
}

/// The metadata map and where it begins.
struct Reader {
    map: Value,
    offset_bytes: u64,
}

impl Reader {
    fn fault(&self, key: &str, found: &str, allowed: &str) -> MmdbError {
        MmdbError::new(ErrorKind::Metadata, found, allowed).at(self.offset_bytes).within(key)
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.map.get(&FieldPath::new([key]))
    }

    /// An unsigned integer of any width, if its value fits the field's type.
    fn unsigned<T: TryFrom<u128>>(&self, key: &str, allowed: &str) -> Result<T, MmdbError> {
        let number = match self.get(key) {
            Some(Value::Uint16(number)) => u128::from(*number),
            Some(Value::Uint32(number)) => u128::from(*number),
            Some(Value::Uint64(number)) => u128::from(*number),
            Some(Value::Uint128(number)) => *number,
            other => return Err(self.fault(key, describe(other), allowed)),
        };
        T::try_from(number).map_err(|_| self.fault(key, &number.to_string(), allowed))
    }

    fn text(&self, key: &str) -> Result<String, MmdbError> {
        match self.get(key) {
            Some(Value::String(text)) => Ok(text.clone()),
            other => Err(self.fault(key, describe(other), "a string")),
        }
    }

    fn languages(&self) -> Result<Vec<String>, MmdbError> {
        let values = match self.get("languages") {
            None => return Ok(Vec::new()),
            Some(Value::Array(values)) => values,
            other => return Err(self.fault("languages", describe(other), "an array of strings")),
        };
        let texts = values.iter().map(|value| match value {
            Value::String(text) => Ok(text.clone()),
            other => Err(self.fault("languages", describe(Some(other)), "an array of strings")),
        });
        texts.collect()
    }

    fn description(&self) -> Result<Vec<(String, String)>, MmdbError> {
        let pairs = match self.get("description") {
            None => return Ok(Vec::new()),
            Some(Value::Map(pairs)) => pairs,
            other => return Err(self.fault("description", describe(other), "a map of strings")),
        };
        let texts = pairs.iter().map(|(language, value)| match value {
            Value::String(text) => Ok((language.clone(), text.clone())),
            other => Err(self.fault("description", describe(Some(other)), "a map of strings")),
        });
        texts.collect()
    }
}

/// A value's type, for an error message.
pub(crate) fn describe(value: Option<&Value>) -> &'static str {
    match value {
        None => "nothing",
        Some(Value::Map(_)) => "a map",
        Some(Value::Array(_)) => "an array",
        Some(Value::String(_)) => "a string",
        Some(Value::Bytes(_)) => "bytes",
        Some(Value::Double(_)) => "a double",
        Some(Value::Float(_)) => "a float",
        Some(Value::Uint16(_)) => "a uint16",
        Some(Value::Uint32(_)) => "a uint32",
        Some(Value::Uint64(_)) => "a uint64",
        Some(Value::Uint128(_)) => "a uint128",
        Some(Value::Int32(_)) => "an int32",
        Some(Value::Boolean(_)) => "a boolean",
    }
}
