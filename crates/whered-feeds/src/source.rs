//! A mapping as it is written in a configuration, before it is compiled.
//!
//! For: plain data that a configuration reader fills. Not for: paths that make no sense; those are
//! found when it is compiled (`mapping.rs`).

use crate::error::MappingError;
use crate::mapping::Mapping;
use crate::time::TimeSource;
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
    /// JSON documents, each with an array of records, or records themselves.
    Json,
    /// JSON documents whose records are the features of a collection (RFC 7946).
    GeoJson,
}

impl Format {
    /// Every format with the name that configurations use.
    pub const ALL: [(&'static str, Format); 7] = [
        ("xml", Format::Xml),
        ("ndjson", Format::Ndjson),
        ("csv", Format::Csv),
        ("tsv", Format::Tsv),
        ("gpx", Format::Gpx),
        ("json", Format::Json),
        ("geojson", Format::GeoJson),
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
            Format::Json => "json",
            Format::GeoJson => "geojson",
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
    /// A time between 1970 and 2200: a number since 1970, ISO 8601 or RFC 2822, or whatever its
    /// [`TimeSource`] says.
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

/// Where a value is taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A path within the record.
    Path(String),
    /// One text for all records.
    Constant(String),
    /// A text that came with the upload.
    Upload(UploadField),
    /// Several values with a text between them; absent if one of them is.
    Join(Vec<ValueSource>, String),
}

/// A text that comes with an upload and is no part of its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UploadField {
    /// The name of the file.
    FileName,
    /// The name of the file without its ending.
    FileStem,
    /// A header of the request, by its name in lower case.
    Header(String),
    /// A parameter of the request's query.
    Query(String),
}

/// A value of records: where it is taken from and how it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSource {
    /// Where it is taken from.
    pub origin: Origin,
    /// The text for a record in which it is absent or empty.
    pub default: Option<String>,
    /// Which number of the text it is, from 1, where that has two to four of them.
    pub number: Option<usize>,
    /// How its text is read if it is a time.
    pub time: TimeSource,
}

impl ValueSource {
    /// A value with nothing but its origin.
    #[must_use]
    pub fn new(origin: Origin) -> ValueSource {
        ValueSource { origin, default: None, number: None, time: TimeSource::default() }
    }

    /// Whether it is the path of nothing.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(&self.origin, Origin::Path(path) if path.is_empty())
    }
}

impl From<&str> for ValueSource {
    fn from(path: &str) -> ValueSource {
        ValueSource::new(Origin::Path(path.to_owned()))
    }
}

impl From<String> for ValueSource {
    fn from(path: String) -> ValueSource {
        ValueSource::new(Origin::Path(path))
    }
}

/// How rows are divided.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RowsSource {
    /// What separates columns; without one a comma or, in TSV, a tab.
    pub delimiter: Option<u8>,
    /// How many lines before the header, or the first row, are no rows.
    pub skip_lines: usize,
    /// Rows that begin with it are none.
    pub comment: Option<u8>,
}

/// A mapping as it is written: which path is what.
///
/// Paths of XML: `@attribute` of the record's element, `child`, `child/@attribute`, `.` (its own
/// text), `../@attribute` and `../child` of the element around it (a child only if it comes before
/// the record), `../..` likewise; several separated by `|`, of which the first that is there
/// counts. `../child[n]` is the first child of that name for the first record, the second one for
/// the second record, and so on. `child[@key='name']` has that attribute. Names are compared with
/// their prefixes as they are written in the upload, or by the namespaces of `namespaces`.
///
/// Paths of JSON are dotted (`position.x`, `places.0`), with quotes around a name that has a dot
/// (`'vehicle.id'`); several separated by `|`. In JSON documents `../` leads to what holds the
/// records' array.
///
/// CSV and TSV have column names, which need a header row, or numbers from 1 (`#1`). Numbers alone
/// mean that there is no header.
#[derive(Clone, Debug, PartialEq)]
pub struct MappingSource {
    /// The format of the uploads.
    pub format: Format,
    /// XML: the path of a record's element from the root, as `upload/sighting`. GPX may leave it
    /// empty: all points. JSON documents: the path of the array of records, with `[]` behind a name
    /// whose array has records deeper inside; empty, if the document is that array or a record.
    /// Empty in the other formats, where each line is a record.
    pub record: String,
    /// The record's member. GPX may leave it empty: the name of the point, route or track; so may
    /// GeoJSON: the feature's `id`.
    pub member: ValueSource,
    /// Degrees east; together with `latitude`.
    pub longitude: Option<ValueSource>,
    /// Degrees north; together with `longitude`.
    pub latitude: Option<ValueSource>,
    /// The name of a zone; together with `x` and `y`, instead of `longitude` and `latitude`.
    pub zone: Option<ValueSource>,
    /// The coordinate on the zone's map that goes from west to east.
    pub x: Option<ValueSource>,
    /// The coordinate on the zone's map that goes from north to south.
    pub y: Option<ValueSource>,
    /// The zones that `zone` may name.
    pub zones: Vec<Zone>,
    /// When the event was.
    pub time: Option<ValueSource>,
    /// Further values: name, value, kind.
    pub fields: Vec<(String, ValueSource, FieldKind)>,
    /// A list within the record; XML and JSON only.
    pub items: Option<ItemsSource>,
    /// The encoding of uploads that do not say theirs, by a name that the web knows; else UTF-8.
    pub encoding: Option<String>,
    /// XML: the namespaces of the prefixes in paths; `default` is that of names without a prefix.
    /// Empty: prefixes are compared as they are written.
    pub namespaces: Vec<(String, String)>,
    /// How rows are divided.
    pub rows: RowsSource,
    /// Whether numbers may have a comma before their fraction.
    pub decimal_comma: bool,
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
            member: ValueSource::from(""),
            longitude: None,
            latitude: None,
            zone: None,
            x: None,
            y: None,
            zones: Vec::new(),
            time: None,
            fields: Vec::new(),
            items: None,
            encoding: None,
            namespaces: Vec::new(),
            rows: RowsSource::default(),
            decimal_comma: false,
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
