//! Loads files of points into a collection of a running server.
//!
//! For: `whered import points`: CSV, TSV, NDJSON, GeoJSON and OpenStreetMap PBF, plain or packed,
//! as a stream. Not for: other shapes than points, and not for coordinates that a collection cannot
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
#[cfg(feature = "osm")]
mod osm;
#[cfg(feature = "osm")]
mod osm_format;
mod repeats;
mod sample;
mod sink;

use std::fmt;
use std::path::PathBuf;

use crate::error::ConnectError;
use crate::{Progress, Server};
use input::Input;
use sink::Sink;

/// The longest record.
pub(crate) const RECORD_BYTES_MAX: usize = 64 << 20;

/// What a file of points is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Values separated by commas or semicolons.
    Csv,
    /// Values separated by tabs.
    Tsv,
    /// One JSON object a line: fields, or a GeoJSON Feature.
    Ndjson,
    /// A GeoJSON FeatureCollection, or Features one after the other.
    GeoJson,
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
#[derive(Clone, Debug)]
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
    /// The column or member with the name; for OpenStreetMap nodes the tag, the node's number
    /// without one.
    pub member: Option<String>,
    /// OpenStreetMap: only nodes that have one of these tags; without any, all nodes.
    pub tags: Vec<TagFilter>,
    /// Stop at the first bad record.
    pub strict: bool,
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
    /// At a byte.
    Byte(u64),
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spot::Line { line, byte } => write!(f, "line {line} (byte {byte})"),
            Spot::Node { id, byte } => write!(f, "node {id} (block at byte {byte})"),
            Spot::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
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
    /// It was taken in the place of the usual one, whose values repeat.
    pub is_chosen: bool,
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
    let mut input = Input::open(&options.path)?;
    let format = match options.format {
        Some(format) => format,
        None => detect::format(&options.path, input.peek()?)
            .ok_or_else(|| input.fault("what it is cannot be seen; allowed: --format"))?,
    };
    let mut sink = Sink::new(server, options, &input, on_bad, watch);
    let read = match format {
        Format::Csv | Format::Tsv => csv::read(&mut input, format, options, &mut sink),
        Format::Ndjson => lines::read(&mut input, options, &mut sink),
        Format::GeoJson => geojson::read(&mut input, options, &mut sink),
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
