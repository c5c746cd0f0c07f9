//! The flags of `whered import`, defined once as all flags are.
//!
//! Not for doing anything. They stand apart from `cli` because that file has a reader's length.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use whered_connect::points::{Format, TagFilter};

use crate::db::flags::parse_delimiter;
use crate::server::RespServer;

#[derive(Subcommand)]
pub(crate) enum ImportCommand {
    /// Copy all GEO keys of a running Redis or Valkey
    ///
    /// Exit code 1 if a key is not complete in the target at the end.
    Redis(ImportRedisArguments),
    /// Load the sorted sets and strings of a dump (RDB) of Redis or Valkey
    ///
    /// Exit code 1 if the target has or refuses a key.
    Rdb(ImportRdbArguments),
    /// Load points from tables, JSON, GeoJSON, WKT, GeoParquet or OpenStreetMap PBF
    ///
    /// Exit code 1 if a record was bad.
    Points(ImportPointsArguments),
}

#[derive(Args)]
pub(crate) struct ImportRedisArguments {
    /// The source: redis:// or rediss://[USER@]HOST[:PORT][/DATABASE], or unix:///PATH
    #[arg(value_name = "URL")]
    pub(crate) source: String,
    /// File with the password of the source; without it, REDISCLI_AUTH
    #[arg(long, value_name = "FILE")]
    pub(crate) source_password_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: RespServer,
    /// Copy only keys that match this pattern of KEYS
    #[arg(long = "match", value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
    /// Numbered database, copied to that number; repeatable
    ///
    /// Without it, from the database of the source's URL to that of --server.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) db: Vec<i64>,
    /// Copy sorted sets whose scores are no positions too, as plain sorted sets
    #[arg(long)]
    pub(crate) all_zsets: bool,
    /// Replace keys of the target instead of leaving them alone
    #[arg(long)]
    pub(crate) replace: bool,
    /// Continue an interrupted import
    #[arg(long)]
    pub(crate) resume: bool,
    /// File for the progress of the import; removed at the end
    #[arg(long, value_name = "FILE", default_value = "whered-import.state")]
    pub(crate) state_file: PathBuf,
    /// Let the target, which follows the source by a [[replica]], take its place
    ///
    /// Waits until the target has everything, pauses the writers of the source, and promotes the
    /// target. The source's user needs +info and +client|pause.
    #[arg(long, conflicts_with_all = ["pattern", "db", "all_zsets", "replace", "resume", "state_file"])]
    pub(crate) live: bool,
    /// For how long the source takes no writes
    #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "live",
          value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) pause_seconds: u64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ImportRdbArguments {
    /// The dump, plain or compressed; - for standard input; or the URL of a server that makes one
    ///
    /// redis:// or rediss://[USER@]HOST[:PORT], or unix:///PATH. Its user needs +psync +replconf.
    #[arg(value_name = "FILE|URL")]
    pub(crate) source: String,
    /// File with the password of the source; without it, REDISCLI_AUTH
    #[arg(long, value_name = "FILE")]
    pub(crate) source_password_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: RespServer,
    /// Load only keys that match this pattern of KEYS; repeatable: any of them
    #[arg(long = "match", value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,
    /// Numbered database, loaded into that number; repeatable
    ///
    /// Without it, all databases of the dump.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) db: Vec<i64>,
    /// Replace keys of the target instead of leaving them alone
    #[arg(long)]
    pub(crate) replace: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ImportPointsArguments {
    /// The file, plain or compressed; - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The collection to add to
    #[arg(long, value_name = "NAME")]
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) server: RespServer,
    /// Format of the file; without it, detected from its name or first bytes
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) input_format: Option<PointsFormat>,
    /// Column (name or number) or field with the longitude; without it, a common name of such
    /// columns
    ///
    /// Columns are numbered from 1; a field is a path such as location.lon.
    #[arg(long, value_name = "NAME")]
    pub(crate) longitude: Option<String>,
    /// The column or member with the latitude
    #[arg(long, value_name = "NAME")]
    pub(crate) latitude: Option<String>,
    /// The column or field with a geometry, instead of longitude and latitude: WKT, EWKT, WKB
    #[arg(long, value_name = "NAME", conflicts_with_all = ["longitude", "latitude"])]
    pub(crate) geometry: Option<String>,
    /// Delimiter of a table: one character, or tab; without it, as the first line says
    #[arg(long, value_name = "CHARACTER", value_parser = parse_delimiter)]
    pub(crate) delimiter: Option<u8>,
    /// Column or field with the point's name; for GeoJSON a property, for OpenStreetMap a tag
    ///
    /// Without it the id, or a common name of such columns whose values differ.
    #[arg(long, value_name = "NAME")]
    pub(crate) member: Option<String>,
    /// OpenStreetMap: only nodes with this tag, such as amenity=cafe or amenity; repeatable: any of
    /// them
    #[arg(long, value_name = "KEY[=VALUE]", value_parser = parse_tag)]
    pub(crate) tag: Vec<TagFilter>,
    /// Stop at the first bad record
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The format of a file of points.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PointsFormat {
    /// Values between commas, semicolons, tabs or bars, with quotes
    Csv,
    /// Values between tabs, without quotes
    Tsv,
    /// A table of GeoNames: 19 columns between tabs, no header
    Geonames,
    /// One JSON object per line; may be GeoJSON Features
    Ndjson,
    /// A JSON array of objects, or an object of objects whose keys are the members
    Json,
    /// A FeatureCollection of Points, or Features or other objects one after the other
    Geojson,
    /// One geometry as WKT a line, whose number is the member
    Wkt,
    /// GeoParquet with points, or Parquet with columns of longitude and latitude
    Parquet,
    /// Nodes of OpenStreetMap PBF
    Osm,
}

impl From<PointsFormat> for Format {
    fn from(format: PointsFormat) -> Format {
        match format {
            PointsFormat::Csv => Format::Csv,
            PointsFormat::Tsv => Format::Tsv,
            PointsFormat::Ndjson => Format::Ndjson,
            PointsFormat::Geonames => Format::GeoNames,
            PointsFormat::Json => Format::Json,
            PointsFormat::Wkt => Format::Wkt,
            PointsFormat::Parquet => Format::Parquet,
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
