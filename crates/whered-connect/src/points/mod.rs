//! Loads files of points into a collection of a running server.
//!
//! For: `whered import points`: tables, JSON in its forms, WKT, Parquet and OpenStreetMap PBF, as a
//! stream. Not for: other shapes than points, and not for coordinates that a collection cannot
//! hold: such a record is bad, counted and told with its place, and the others go on.
//!
//! ```text
//! input ─> unpacked ─> reader of the format ─> Sink ─> GEOADD of 100 points, 10 commands at once
//!                        └─ bad record ──────> told, counted; with `strict` the end
//! ```
//!
//! Invariants: a record is either added or bad or left out, and the three counts make the total;
//! memory is one record ([`RECORD_BYTES_MAX`] at most), one block of a PBF file, two windows of
//! commands, the first records (`sample`), and what members there were (`repeats`). Cost: one pass;
//! a window is on its way while the next one is read.

mod csv;
mod detect;
mod geojson;
mod input;
mod json;
mod lines;
mod list;
mod names;
#[cfg(feature = "osm")]
mod osm;
#[cfg(feature = "osm")]
mod osm_format;
#[cfg(feature = "export")]
mod parquet;
mod repeats;
mod sample;
mod sink;
mod wkb;
mod wkt;

use std::fmt;
use std::fs::File;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::ConnectError;
use crate::{Progress, Server};
use input::Input;
use sink::{Sink, Target};

/// The longest record.
pub(crate) const RECORD_BYTES_MAX: usize = 64 << 20;

/// What a file of points is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Values separated by commas, semicolons, tabs or bars, with quotes.
    Csv,
    /// Values separated by tabs, without quotes.
    Tsv,
    /// The tables of GeoNames: 19 columns between tabs, no header.
    GeoNames,
    /// One JSON object a line: fields, or a GeoJSON Feature.
    Ndjson,
    /// A JSON array of objects, or an object of objects whose keys are the members.
    Json,
    /// A GeoJSON FeatureCollection, or Features or other objects one after the other.
    GeoJson,
    /// One geometry as well-known text a line.
    Wkt,
    /// Parquet: GeoParquet's points, or columns of longitude and latitude.
    Parquet,
    /// OpenStreetMap's PBF: its nodes.
    Osm,
}

/// Which tag lets a node in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TagFilter {
    /// The tag's key.
    pub key: String,
    /// The value it must have; without one, any.
    pub value: Option<String>,
}

/// What is loaded, and how it is read.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The file; `-` for standard input.
    pub path: PathBuf,
    /// What it is; without it, its name or its first bytes say so.
    pub format: Option<Format>,
    /// The collection.
    pub key: Vec<u8>,
    /// Column (by name, or by number from 1) or field (dotted) of the longitude.
    pub longitude: Option<String>,
    /// The column or member with the latitude.
    pub latitude: Option<String>,
    /// The column or field with a geometry, in the place of longitude and latitude.
    pub geometry: Option<String>,
    /// The delimiter of a table; without it, the first line decides.
    pub delimiter: Option<u8>,
    /// The column or member with the name; for OpenStreetMap nodes the tag, the node's number
    /// without one.
    pub member: Option<String>,
    /// OpenStreetMap: only nodes that have one of these tags; without any, all nodes.
    pub tags: Vec<TagFilter>,
    /// Stop at the first bad record.
    pub strict: bool,
    /// All of standard input, where it is Parquet, which is read from its end.
    pub spooled: Option<Arc<File>>,
}

/// Where in the input something is, as far as its format can say. Bytes are those of the unpacked
/// input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spot {
    /// In a line, from 1, that begins at a byte, from 0.
    Line {
        /// The line.
        line: u64,
        /// The byte.
        byte: u64,
    },
    /// In a block that begins at a byte, a node with this number.
    Node {
        /// The node's number.
        id: i64,
        /// The byte.
        byte: u64,
    },
    /// In a row of a Parquet file, from 1.
    Row(u64),
    /// At a byte.
    Byte(u64),
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spot::Line { line, byte } => write!(f, "line {line} (byte {byte})"),
            Spot::Node { id, byte } => write!(f, "node {id} (block at byte {byte})"),
            Spot::Row(row) => write!(f, "row {row}"),
            Spot::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

/// Why a column or field names the members.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MemberChoice {
    /// The caller or its usual name says so.
    #[default]
    Usual,
    /// The values of the usual one repeat.
    Instead,
    /// None has a usual name, and this one is an identifier's.
    Unusual,
}

/// What a load came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LoadSummary {
    /// Points that the server acknowledged.
    pub written: u64,
    /// Of these, members that it did not have before.
    pub added: u64,
    /// Bad records.
    pub bad: u64,
    /// Nodes that no tag let in, or that have no such tag to be named by.
    pub left_out: u64,
    /// What named the members, such as `column 'name'`; empty where the caller said it, and for
    /// nodes by their numbers.
    pub member: String,
    /// Why that names them.
    pub choice: MemberChoice,
    /// Members that came more than once with another place.
    pub repeated_members: u64,
    /// Records that a later one of the same member has replaced with another place.
    pub replaced: u64,
    /// There were more members than could be remembered, so that the last two may be larger.
    pub repeats_are_part: bool,
}

/// Loads a file. Each bad record is given to `on_bad` with a line that names its place.
///
/// # Errors
///
/// An input that cannot be read or is damaged where no next record can be found, columns that are
/// not there, a server that refuses, and with `strict` the first bad record. What was acknowledged
/// until then stays.
pub fn load(
    server: &mut Server,
    options: &LoadOptions,
    on_bad: &mut dyn FnMut(&str),
    watch: &mut dyn FnMut(Progress),
) -> Result<LoadSummary, ConnectError> {
    let target = Target::Server(server);
    #[cfg(feature = "export")]
    if options.spooled.is_some()
        || options
            .format
            .map_or_else(|| parquet::is_parquet(&options.path), |format| format == Format::Parquet)
    {
        return read_parquet(target, options, on_bad, watch);
    }
    read(Input::open(&options.path)?, target, options, on_bad, watch)
}

/// Reads points without a server: each one is given to `on_point` with longitude, latitude and
/// member. Otherwise as [`load`], whose options it takes; the path only says the format, and
/// Parquet needs a file.
///
/// ```
/// use whered_connect::points::{LoadOptions, scan};
/// let text = "name;lat;lng\nFrankfurt;50.11;8.68\n";
/// let mut points = Vec::new();
/// let mut on_point = |x: f64, y: f64, member: &[u8]| points.push((x, y, member.to_vec()));
/// scan(text.as_bytes(), &LoadOptions::default(), &mut on_point, &mut |_| {})?;
/// assert_eq!(points, [(8.68, 50.11, b"Frankfurt".to_vec())]);
/// # Ok::<(), whered_connect::ConnectError>(())
/// ```
///
/// # Errors
///
/// As [`load`], but for those of a server.
pub fn scan(
    input: &[u8],
    options: &LoadOptions,
    on_point: &mut dyn FnMut(f64, f64, &[u8]),
    on_bad: &mut dyn FnMut(&str),
) -> Result<LoadSummary, ConnectError> {
    let stream = Box::new(Cursor::new(input.to_vec()));
    let input = Input::new("input".to_owned(), stream, None)?;
    read(input, Target::Closure(on_point), options, on_bad, &mut |_| {})
}

#[cfg(feature = "export")]
fn read_parquet<'a>(
    target: Target<'a>,
    options: &'a LoadOptions,
    on_bad: &'a mut dyn FnMut(&str),
    watch: &'a mut dyn FnMut(Progress),
) -> Result<LoadSummary, ConnectError> {
    let source = parquet::source(options)?;
    let read_bytes = source.read_bytes.clone();
    let mut sink = Sink::new(target, options, source, on_bad, watch);
    let read = parquet::read(options, &read_bytes, &mut sink);
    // What was read before a fault is good and is written.
    let loaded = sink.finish();
    read?;
    loaded
}

fn read<'a>(
    mut input: Input,
    target: Target<'a>,
    options: &'a LoadOptions,
    on_bad: &'a mut dyn FnMut(&str),
    watch: &'a mut dyn FnMut(Progress),
) -> Result<LoadSummary, ConnectError> {
    let format = match options.format {
        Some(format) => format,
        None => detect::format(&options.path, input.peek()?, options)
            .ok_or_else(|| input.fault("what it is cannot be seen; allowed: --input-format"))?,
    };
    let mut sink = Sink::new(target, options, input.source(), on_bad, watch);
    let read = match format {
        Format::Csv | Format::Tsv | Format::GeoNames => {
            csv::read(&mut input, format, options, &mut sink)
        }
        Format::Ndjson => lines::read(&mut input, options, &mut sink),
        Format::Json => list::read(&mut input, options, &mut sink),
        Format::GeoJson => geojson::read(&mut input, options, &mut sink),
        Format::Wkt => wkt::read(&mut input, &mut sink),
        Format::Parquet if cfg!(feature = "export") => {
            Err(input.fault("Parquet is read from its end; allowed: a file that is not packed"))
        }
        Format::Parquet => Err(input.fault("Parquet is not built in (feature export)")),
        #[cfg(feature = "osm")]
        Format::Osm => osm::read(&mut input, options, &mut sink),
        #[cfg(not(feature = "osm"))]
        Format::Osm => Err(input.fault("OpenStreetMap PBF is not built in (feature osm)")),
    };
    // What was read before a fault is good and is written.
    let loaded = sink.finish();
    read?;
    loaded
}

#[cfg(test)]
#[path = "points_tests.rs"]
mod tests;
