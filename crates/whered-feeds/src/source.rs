//! A mapping as it is written in a configuration, before it is compiled.
//!
//! For: plain data that a configuration reader fills. Not for: paths that make no sense; those are
//! found when it is compiled (`mapping.rs`).

use crate::error::MappingError;
use crate::mapping::Mapping;
use crate::zone::Zone;

/// The format of a feed's uploads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// One document with an element for each record.
    Xml,
    /// One JSON object on each line.
    Ndjson,
    /// Rows with commas and quotes (RFC 4180).
    Csv,
    /// Rows with tabs and without quotes.
    Tsv,
    /// XML whose records are the points of tracks, routes and waypoints.
    Gpx,
}

impl Format {
    /// Every format with the name that configurations use.
    pub const ALL: [(&'static str, Format); 5] = [
        ("xml", Format::Xml),
        ("ndjson", Format::Ndjson),
        ("csv", Format::Csv),
        ("tsv", Format::Tsv),
        ("gpx", Format::Gpx),
    ];

    /// The format of a name.
    ///
    /// ```
    /// use whered_feeds::Format;
    /// assert_eq!(Format::from_name("xml"), Some(Format::Xml));
    /// assert_eq!(Format::from_name("XML"), None);
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Format> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }

    /// Its name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Xml => "xml",
            Format::Ndjson => "ndjson",
            Format::Csv => "csv",
            Format::Tsv => "tsv",
            Format::Gpx => "gpx",
        }
    }
}

/// The kind of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// A whole number of 64 bits with a sign.
    Integer,
    /// A finite number.
    Number,
    /// UTF-8 text.
    Text,
    /// A time between 1970 and 2200: seconds or milliseconds since 1970, told apart by their size,
    /// or RFC 3339.
    Time,
}

impl FieldKind {
    /// Every kind with the name that configurations use.
    pub const ALL: [(&'static str, FieldKind); 4] = [
        ("integer", FieldKind::Integer),
        ("number", FieldKind::Number),
        ("text", FieldKind::Text),
        ("time", FieldKind::Time),
    ];

    /// The kind of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<FieldKind> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }
}

/// A mapping as it is written: which path is what.
///
/// Paths of XML: `@attribute` of the record's element, `child`, `child/@attribute`, `.` (its own
/// text), `../@attribute` and `../child` of the element around it (a child only if it comes before
/// the record), `../..` likewise; several separated by `|`, of which the first that is there
/// counts. Names are compared with their prefixes, as they are written in the upload. Paths of
/// NDJSON are dotted (`position.x`, `places.0`). CSV and TSV have column names, which need a
/// header row, or numbers from 1 (`#1`), which mean that there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct MappingSource {
    /// The format of the uploads.
    pub format: Format,
    /// XML: the path of a record's element from the root, as `upload/sighting`. GPX may leave it
    /// empty: all points. Empty in the other formats, where each line is a record.
    pub record: String,
    /// The record's member. GPX may leave it empty: the name of the point, route or track.
    pub member: String,
    /// Degrees east; together with `latitude`.
    pub longitude: Option<String>,
    /// Degrees north; together with `longitude`.
    pub latitude: Option<String>,
    /// The name of a zone; together with `x` and `y`, instead of `longitude` and `latitude`.
    pub zone: Option<String>,
    /// The coordinate on the zone's map that goes from west to east.
    pub x: Option<String>,
    /// The coordinate on the zone's map that goes from north to south.
    pub y: Option<String>,
    /// The zones that `zone` may name.
    pub zones: Vec<Zone>,
    /// When the event was.
    pub time: Option<String>,
    /// Further values: name, path, kind.
    pub fields: Vec<(String, String, FieldKind)>,
    /// A list within the record; XML and NDJSON only.
    pub items: Option<ItemsSource>,
}

/// A list within each record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemsSource {
    /// XML: the path of an element below the record's. NDJSON: the path of an array.
    pub each: String,
    /// The item's key, by a path within the element.
    pub key: String,
    /// How many it stands for, by a path within it; without one, each is 1.
    pub count: Option<String>,
}

impl MappingSource {
    /// A mapping with nothing but its format.
    #[must_use]
    pub fn new(format: Format) -> MappingSource {
        MappingSource {
            format,
            record: String::new(),
            member: String::new(),
            longitude: None,
            latitude: None,
            zone: None,
            x: None,
            y: None,
            zones: Vec::new(),
            time: None,
            fields: Vec::new(),
            items: None,
        }
    }

    /// Checks it and makes it ready for scans.
    ///
    /// # Errors
    ///
    /// [`MappingError`] with the first key that makes no sense.
    pub fn compile(self) -> Result<Mapping, MappingError> {
        Mapping::compile(self)
    }
}
