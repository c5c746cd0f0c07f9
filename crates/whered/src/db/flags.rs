//! Flags of `whered db build`, `merge`, `edit` and `fields`.
//!
//! Not for what they do.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use whered_mmdb::rows::Layout;

use crate::cli::{DiffFormat, Encoding, HeaderChoice, parse_ip_version, parse_record_size};

#[derive(Args)]
pub(crate) struct BuildArguments {
    /// Files with rows: tables (CSV, TSV, semicolons) or NDJSON; - for standard input
    ///
    /// Of GeoLite2 the Blocks and the Locations together.
    #[arg(required = true, num_args = 1.., value_name = "FILE")]
    pub(crate) paths: Vec<PathBuf>,
    /// The .mmdb file to write
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadingArguments,
    #[command(flatten)]
    pub(crate) stated: StatedArguments,
    /// 4 for IPv4 networks only, 6 for both; without it, what the rows say, or 6
    #[arg(long, value_name = "4|6", value_parser = parse_ip_version)]
    pub(crate) ip_version: Option<u16>,
    /// Do not alias ::ffff:0:0/96 and 2002::/16 to the IPv4 networks
    #[arg(long)]
    pub(crate) no_ipv4_aliases: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How rows are read.
#[derive(Args)]
pub(crate) struct ReadingArguments {
    /// Input format: csv, tsv, ndjson, json, or a layout such as geofeed or ip2location-db11;
    /// without it, detected
    ///
    /// json is an array of rows. A layout is that of a table without a header; `whered formats
    /// databases` lists them.
    #[arg(long, value_name = "FORMAT", value_parser = parse_format)]
    pub(crate) input_format: Option<RowsChoice>,
    /// Delimiter of tables: one character, or tab; without it, the first of tab ; , | in the rows
    #[arg(long, value_name = "CHARACTER", value_parser = parse_delimiter)]
    pub(crate) delimiter: Option<u8>,
    /// Whether the first row of a table names the columns
    #[arg(long, value_enum, default_value_t = HeaderChoice::Auto)]
    pub(crate) header: HeaderChoice,
    /// Names for the columns of tables: network (or start_ip,end_ip), PATH[:TYPE], - to leave one
    /// out
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) columns: Vec<String>,
    /// Types of columns without a :type: guess takes the one that all cells fit
    #[arg(long, value_enum, default_value_t = TypesChoice::Guess)]
    pub(crate) types: TypesChoice,
    /// Which row an address gets where networks overlap
    #[arg(long, value_enum, default_value_t = OverlapChoice::Longest)]
    pub(crate) overlaps: OverlapChoice,
    /// Count wrong rows and go on
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// Encoding of the rows; without it UTF-8, or UTF-16 if a byte order mark says so
    #[arg(long, value_enum)]
    pub(crate) encoding: Option<Encoding>,
    /// Take files that give no network
    #[arg(long)]
    pub(crate) allow_empty: bool,
}

/// What the file states of itself.
#[derive(Args)]
pub(crate) struct StatedArguments {
    /// Database type in the metadata
    #[arg(long, value_name = "NAME")]
    pub(crate) database_type: Option<String>,
    /// English description in the metadata
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Language of the records' names in the metadata; repeatable
    #[arg(long, value_name = "CODE")]
    pub(crate) language: Vec<String>,
    /// Build time in seconds since 1970; without it, now
    #[arg(long, value_name = "SECONDS")]
    pub(crate) build_epoch_seconds: Option<u64>,
    /// Size of a tree record in bits; without it, the smallest that fits
    #[arg(long, value_name = "24|28|32", value_parser = parse_record_size)]
    pub(crate) record_size_bits: Option<u16>,
}

/// How rows are written.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum RowsChoice {
    Csv,
    Tsv,
    Ndjson,
    Layout(Layout),
}

fn parse_format(text: &str) -> Result<RowsChoice, String> {
    Ok(match text {
        "csv" => RowsChoice::Csv,
        "tsv" => RowsChoice::Tsv,
        "ndjson" | "json" => RowsChoice::Ndjson,
        _ => RowsChoice::Layout(Layout::from_name(text).ok_or_else(|| {
            format!("allowed: csv, tsv, ndjson, json, {}", Layout::names().join(", "))
        })?),
    })
}

pub(crate) fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r' | b'#') => Ok(*byte),
        _ => Err("allowed: one character such as ; or |, or tab".to_owned()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum TypesChoice {
    /// Boolean, whole number, double or text, whichever all cells of the column fit
    Guess,
    /// Text
    Text,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum OverlapChoice {
    /// The longest prefix; of equal ones the last row
    Longest,
    /// The last row
    Last,
}

#[derive(Args)]
pub(crate) struct MergeArguments {
    /// Database files (.mmdb or legacy GeoIP .dat); each is laid over those before it
    #[arg(required = true, num_args = 1.., value_name = "FILE")]
    pub(crate) paths: Vec<PathBuf>,
    /// The .mmdb file to write
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// File with rows that is laid over them, as `db build` reads it; repeatable
    #[arg(long = "rows", value_name = "ROWS")]
    pub(crate) row_files: Vec<PathBuf>,
    /// Where two records meet
    #[arg(long, value_enum, default_value_t = MergeChoice::Deep)]
    pub(crate) by: MergeChoice,
    /// Take only this field from what is laid over; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<String>,
    #[command(flatten)]
    pub(crate) reading: ReadingArguments,
    #[command(flatten)]
    pub(crate) stated: StatedArguments,
    /// Do not alias ::ffff:0:0/96 and 2002::/16 to the IPv4 networks
    #[arg(long)]
    pub(crate) no_ipv4_aliases: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum MergeChoice {
    /// Maps are merged field by field; the later value wins
    Deep,
    /// The later record wins as a whole
    Replace,
}

#[derive(Args)]
pub(crate) struct EditArguments {
    /// The .mmdb or legacy GeoIP .dat file
    #[arg(required = true, num_args = 1..=2, value_name = "FILE")]
    pub(crate) paths: Vec<PathBuf>,
    /// The .mmdb file to write
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Set a field in a network: 'NETWORK PATH[:TYPE]=VALUE'; repeatable
    #[arg(long, value_name = "CHANGE")]
    pub(crate) set: Vec<String>,
    /// Remove a field in a network: 'NETWORK PATH'; repeatable
    #[arg(long, value_name = "CHANGE")]
    pub(crate) unset: Vec<String>,
    /// Remove a network's record; repeatable
    #[arg(long, value_name = "NETWORK")]
    pub(crate) delete: Vec<String>,
    /// Remove a field from every record; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) drop_field: Vec<String>,
    /// Keep only this field of every record; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) keep_field: Vec<String>,
    /// Rename a field of every record; repeatable
    #[arg(long, value_name = "OLD=NEW")]
    pub(crate) rename_field: Vec<String>,
    #[command(flatten)]
    pub(crate) stated: StatedArguments,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct FieldsArguments {
    /// A .mmdb or legacy GeoIP .dat file
    pub(crate) file: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t = DiffFormat::Text)]
    pub(crate) format: DiffFormat,
    /// Print JSON: --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}
