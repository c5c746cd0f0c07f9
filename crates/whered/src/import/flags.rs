//! The flags of `whered import`, defined once as all flags are.
//!
//! Not for doing anything. They stand apart from `cli` because that file has a reader's length.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use whered_connect::points::{Format, TagFilter};

const TARGET: &str = "redis://127.0.0.1:6380";

#[derive(Subcommand)]
pub(crate) enum ImportCommand {
    /// Copy every GEO key of a running Redis or Valkey; exit code 1 if any of them is not in the
    /// target whole at the end
    Redis(ImportRedisArguments),
    /// Load points from CSV, TSV, NDJSON, GeoJSON or OpenStreetMap PBF; exit code 1 if any
    /// record was bad
    Points(ImportPointsArguments),
}

#[derive(Args)]
pub(crate) struct ImportRedisArguments {
    /// The source: redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] or unix:///PATH
    #[arg(value_name = "URL")]
    pub(crate) source: String,
    /// The server to copy into, written the same way
    #[arg(long, value_name = "URL", default_value = TARGET)]
    pub(crate) to: String,
    /// Only keys that match, as in KEYS
    #[arg(long = "match", value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
    /// Numbered database, copied to the same number; may be repeated; without it, from the
    /// database of the source's URL to that of --to
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) db: Vec<i64>,
    /// Copy sorted sets with other scores than places too, as plain sorted sets
    #[arg(long)]
    pub(crate) all_zsets: bool,
    /// Delete keys of the target that have the same name, instead of leaving them alone
    #[arg(long)]
    pub(crate) replace: bool,
    /// Go on where an import that was stopped has come to
    #[arg(long)]
    pub(crate) resume: bool,
    /// Where the position is kept; removed when all is done
    #[arg(long, value_name = "FILE", default_value = "whered-import.state")]
    pub(crate) state: PathBuf,
}

#[derive(Args)]
pub(crate) struct ImportPointsArguments {
    /// The file, plain or packed with gzip or zstd; - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The collection to add to
    #[arg(long, value_name = "NAME")]
    pub(crate) key: String,
    /// The server: redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] or unix:///PATH
    #[arg(long, value_name = "URL", default_value = TARGET)]
    pub(crate) to: String,
    /// What the file is; without it, its name or its first bytes say so
    #[arg(long, value_enum)]
    pub(crate) format: Option<PointsFormat>,
    /// Column (name, or number from 1) or field (such as location.lon) of the longitude; without
    /// it, one of the usual names
    #[arg(long, value_name = "NAME")]
    pub(crate) longitude: Option<String>,
    /// The column or member with the latitude
    #[arg(long, value_name = "NAME")]
    pub(crate) latitude: Option<String>,
    /// The column or member with the point's name; for GeoJSON a property, for OpenStreetMap a tag;
    /// without it the id, or a common name of such columns whose values differ
    #[arg(long, value_name = "NAME")]
    pub(crate) member: Option<String>,
    /// OpenStreetMap: only nodes with this tag, such as amenity=cafe or amenity; may be repeated:
    /// any of them
    #[arg(long, value_name = "KEY[=VALUE]", value_parser = parse_tag)]
    pub(crate) tag: Vec<TagFilter>,
    /// Stop at the first bad record
    #[arg(long)]
    pub(crate) strict: bool,
}

/// What a file of points is.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PointsFormat {
    /// Comma-separated (or semicolon-separated) values
    Csv,
    /// Tab-separated values
    Tsv,
    /// One JSON object a line, GeoJSON Features among them
    Ndjson,
    /// A FeatureCollection of Points, or Features one after the other
    Geojson,
    /// Nodes of OpenStreetMap PBF
    Osm,
}

impl From<PointsFormat> for Format {
    fn from(format: PointsFormat) -> Format {
        match format {
            PointsFormat::Csv => Format::Csv,
            PointsFormat::Tsv => Format::Tsv,
            PointsFormat::Ndjson => Format::Ndjson,
            PointsFormat::Geojson => Format::GeoJson,
            PointsFormat::Osm => Format::Osm,
        }
    }
}

fn parse_tag(text: &str) -> Result<TagFilter, String> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(value.to_owned())),
        None => (text, None),
    };
    if key.is_empty() {
        return Err("allowed: a tag such as amenity=cafe or amenity".to_owned());
    }
    Ok(TagFilter { key: key.to_owned(), value })
}
