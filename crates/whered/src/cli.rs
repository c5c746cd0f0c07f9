//! Every command and flag of the program, defined once: names, help texts and parsers.
//!
//! Not for: doing anything; each command has a file of its own.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use whered_engine::AccessMode;

#[cfg(feature = "export")]
pub(crate) use crate::export::ExportArguments;
pub(crate) use crate::import::flags::{ImportCommand, ImportPointsArguments, ImportRedisArguments};
pub(crate) use crate::ingest::{FeedsArguments, IngestArguments};
pub(crate) use crate::rules::flags::{
    MatchArguments, RulesCheckArguments, RulesCommand, RulesConvertArguments,
    RulesExplainArguments, RulesTestArguments,
};
pub(crate) use crate::steer::SteerCommand;
pub(crate) use crate::sync::SyncArguments;
pub(crate) use crate::zone::flags::ZoneCommand;

/// Answers where: IP addresses, places nearby, prefixes, and place-aware DNS, from memory.
#[derive(Parser)]
#[command(name = "whered", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the server: RESP, HTTP and DNS
    Serve(ServeArguments),
    /// Look addresses up in a database file, without a server
    Lookup(LookupArguments),
    /// Add what databases know to every line of logs and tables
    Enrich(EnrichArguments),
    /// Check a configuration file and everything that it names
    Check {
        /// The TOML file
        file: PathBuf,
    },
    /// Bring points from elsewhere into a running server
    #[command(subcommand)]
    Import(ImportCommand),
    /// Write a table of a feed or a collection of a running server into a Parquet, Arrow or CSV
    /// file; exit code 1 if there is none of that name
    #[cfg(feature = "export")]
    Export(ExportArguments),
    /// Send files to a feed of a running server, each once however often this is called; exit code
    /// 2 if any was refused
    Ingest(IngestArguments),
    /// Say how the feeds of a running server are: backlog, lag, records, groups on the disk
    Feeds(FeedsArguments),
    /// Check, test, explain and convert packet rules
    #[command(subcommand)]
    Rules(RulesCommand),
    /// Say why clients of a pool are sent where they are
    #[command(subcommand)]
    Steer(SteerCommand),
    /// Check DNS zones
    #[command(subcommand)]
    Zone(ZoneCommand),
    /// Say which rule each packet of a capture or a list meets; exit code 2 if a line was no packet
    /// or the capture broke
    Match(MatchArguments),
    /// Keep sets of the kernel's packet filter in step with a prefix set
    Sync(SyncArguments),
    /// Work with database files
    #[command(subcommand)]
    Db(DbCommand),
    /// Copy the data of a running server, which goes on meanwhile
    Backup(BackupArguments),
    /// Check a backup and make a data directory of it
    Restore {
        /// The backup
        backup: PathBuf,
        /// The new data directory; empty or not there yet
        data_dir: PathBuf,
    },
    /// Keep what can be kept of a damaged data directory; exit code 1 if anything was changed
    Repair {
        /// The data directory, which no server may use meanwhile
        data_dir: PathBuf,
    },
    /// Moved: the program `whered-bench`
    #[command(hide = true, disable_help_flag = true)]
    Bench {
        /// Whatever it was called with
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum DbCommand {
    /// Print what a database file says of itself
    Info {
        /// A .mmdb or legacy GeoIP .dat file
        file: PathBuf,
    },
    /// Build a .mmdb file from CSV or NDJSON rows
    Build(BuildArguments),
    /// Make a .mmdb file of a legacy GeoIP .dat file
    Convert(ConvertArguments),
    /// Print every network with its record
    Dump(DumpArguments),
    /// Say which networks have other records than before; exit code 1 if any has
    Diff(DiffArguments),
    /// Build the index that `enrich` uses when it lies beside its database: FILE.index
    Index(IndexArguments),
    /// Check a whole database file and name the first fault
    Verify {
        /// A .mmdb or legacy GeoIP .dat file
        file: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct BackupArguments {
    /// Where the copy goes; empty or not there yet; on the server's machine
    pub(crate) directory: PathBuf,
    /// The server: redis://[USER:PASSWORD@]HOST[:PORT] or unix:///PATH
    #[arg(long, value_name = "URL", default_value = "redis://127.0.0.1:6380")]
    pub(crate) from: String,
    /// A data directory that no server uses, instead of a server's
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct ServeArguments {
    /// Configuration file (TOML); without it and without a listening address: RESP, HTTP and DNS on
    /// loopback
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Serve embedded demonstration data
    #[arg(long, conflicts_with = "config")]
    pub(crate) demo: bool,
    /// Take the place of the server that runs on the same data directory, its sockets and data,
    /// without losing a question; without one, just start
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Where the journal is kept; without it and without a configured one: nothing is kept
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// RESP listening address, such as 127.0.0.1:6380; may be repeated; port 0 picks a free one
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    pub(crate) resp: Vec<SocketAddr>,
    /// HTTP listening address; may be repeated
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    pub(crate) http: Vec<SocketAddr>,
    /// DNS listening address (UDP and TCP); may be repeated
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    pub(crate) dns: Vec<SocketAddr>,
    /// DNS datagrams that one system call takes, 1 to 64; 1: one by one, as others do
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) udp_batch: Option<u8>,
}

#[derive(Args)]
pub(crate) struct LookupArguments {
    /// Database file (.mmdb or legacy GeoIP .dat); twice for a database with a file for each
    /// address family
    #[arg(
        long,
        value_name = "FILE",
        env = "WHERED_DB",
        default_value = "/usr/share/GeoIP/GeoIP.dat"
    )]
    pub(crate) db: Vec<PathBuf>,
    /// How the file is read: little of it, its tree, mapped, or whole
    #[arg(long, value_enum, default_value_t = LookupMode::Stream)]
    pub(crate) mode: LookupMode,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Json)]
    pub(crate) format: OutputFormat,
    /// Print only this field, such as country.iso_code; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) field: Vec<String>,
    /// Print the reasons for the answer as JSON
    #[arg(long, conflicts_with_all = ["format", "field"])]
    pub(crate) explain: bool,
    /// Addresses; without any, one a line from standard input
    #[arg(value_name = "IP")]
    pub(crate) addresses: Vec<String>,
}

/// The access modes that build no index.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LookupMode {
    /// Only what an address needs, when it needs it
    Stream,
    /// The search tree at once, records when they are needed
    Tree,
    /// The file mapped; nobody may cut it meanwhile
    Mmap,
    /// The whole file at once
    Memory,
}

impl From<LookupMode> for AccessMode {
    fn from(mode: LookupMode) -> AccessMode {
        match mode {
            LookupMode::Stream => AccessMode::Stream,
            LookupMode::Tree => AccessMode::Tree,
            LookupMode::Mmap => AccessMode::Mmap,
            LookupMode::Memory => AccessMode::Memory,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// One JSON object a line
    Json,
    /// One `address: value, value` line each
    Text,
    /// One `address,value...` line each, without a header
    Csv,
}

#[derive(Args)]
pub(crate) struct EnrichArguments {
    /// Logs, CSV, TSV or NDJSON, plain or packed with gzip or zstd; without any, standard input
    #[arg(value_name = "FILE")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Database file (.mmdb or legacy GeoIP .dat); may be repeated; its name is that of its file;
    /// files that are given one NAME are one database, with a file for each address family
    #[arg(long, value_name = "[NAME=]FILE", required = true)]
    pub(crate) db: Vec<String>,
    /// Field to add, such as country.iso_code, for IPv4 and IPv6 addresses each from the first
    /// database that has it, or from the one that is named; may be repeated; without any, the usual
    /// ones
    #[arg(long, value_name = "[NAME:]PATH")]
    pub(crate) field: Vec<String>,
    /// Where to write; packed if it ends in .gz or .zst; without it, standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// What the input is; without it, its first line says so
    #[arg(long, value_enum)]
    pub(crate) input_format: Option<InputFormat>,
    /// What to write; without it, what the output's name says, else NDJSON for a log and the
    /// input's own format for the others
    #[arg(long, value_enum)]
    pub(crate) output_format: Option<EnrichFormat>,
    /// Column or member that holds the address, by name or by number from 1; without it, found out
    #[arg(long, value_name = "NAME|NUMBER")]
    pub(crate) column: Option<String>,
    /// Which address of a list counts, such as X-Forwarded-For: the first, the last, or the first
    /// public one
    #[arg(long, value_enum, default_value_t = ListChoice::First)]
    pub(crate) list: ListChoice,
    /// Whether CSV or TSV begins with a header; auto: unless there is an address in the first row
    #[arg(long, value_enum, default_value_t = HeaderChoice::Auto)]
    pub(crate) header: HeaderChoice,
    /// Threads that work beside the reading and the writing one; without it, one a core
    #[arg(long, value_name = "COUNT", value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    /// Look nothing up: for measuring what everything else costs
    #[arg(long, hide = true)]
    pub(crate) no_lookup: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum InputFormat {
    /// nginx or Apache access log, common or combined
    Combined,
    /// Comma-separated (or semicolon-separated) values
    Csv,
    /// Tab-separated values
    Tsv,
    /// One JSON object a line
    Ndjson,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum EnrichFormat {
    /// The input's own lines, with fields behind them
    Same,
    /// One JSON object a line
    Ndjson,
    /// Comma-separated values
    Csv,
    /// Tab-separated values
    Tsv,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ListChoice {
    /// The first: what the first proxy, or the client itself, said
    First,
    /// The last: the peer of the last proxy that added to the list
    Last,
    /// The first that is no private, local or otherwise special address; without any, the first
    Public,
}

impl From<ListChoice> for whered_ip::text::ListChoice {
    fn from(choice: ListChoice) -> whered_ip::text::ListChoice {
        match choice {
            ListChoice::First => whered_ip::text::ListChoice::First,
            ListChoice::Last => whered_ip::text::ListChoice::Last,
            ListChoice::Public => whered_ip::text::ListChoice::Public,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum HeaderChoice {
    Auto,
    Yes,
    No,
}

#[derive(Args)]
pub(crate) struct BuildArguments {
    /// Rows, - for standard input: CSV whose header names the columns (network, then field paths
    /// with an optional :type), or NDJSON with a member network on every line
    pub(crate) rows: PathBuf,
    /// The .mmdb file to write
    pub(crate) output: PathBuf,
    /// How the rows are written; without it ndjson if the file's name ends in .ndjson, .jsonl or
    /// .json, else csv
    #[arg(long, value_enum)]
    pub(crate) format: Option<RowsFormat>,
    /// The database type that the file states
    #[arg(long, value_name = "NAME", default_value = "whered-City")]
    pub(crate) database_type: String,
    /// The description that the file states, in English
    #[arg(long, value_name = "TEXT", default_value = "built by whered")]
    pub(crate) description: String,
    /// A language of the records' names that the file states; may be repeated
    #[arg(long, value_name = "CODE", default_value = "en")]
    pub(crate) language: Vec<String>,
    /// 4 for IPv4 networks only, 6 for both
    #[arg(long, value_name = "4|6", default_value_t = 6, value_parser = parse_ip_version)]
    pub(crate) ip_version: u16,
    /// Do not let ::ffff:0:0/96 and 2002::/16 lead to the IPv4 networks
    #[arg(long)]
    pub(crate) no_ipv4_aliases: bool,
    /// When the data were made, in seconds since 1970; without it now
    #[arg(long, value_name = "SECONDS")]
    pub(crate) build_epoch_seconds: Option<u64>,
    /// Size of a tree record in bits; without it the smallest that fits
    #[arg(long, value_name = "24|28|32", value_parser = parse_record_size)]
    pub(crate) record_size_bits: Option<u16>,
}

#[derive(Args)]
pub(crate) struct ConvertArguments {
    /// The legacy GeoIP .dat file
    pub(crate) input: PathBuf,
    /// The .mmdb file to write
    pub(crate) output: PathBuf,
    /// The database type that the file states; without it the legacy edition's name
    #[arg(long, value_name = "NAME")]
    pub(crate) database_type: Option<String>,
    /// Size of a tree record in bits; without it the smallest that fits
    #[arg(long, value_name = "24|28|32", value_parser = parse_record_size)]
    pub(crate) record_size_bits: Option<u16>,
}

#[derive(Args)]
pub(crate) struct DumpArguments {
    /// A .mmdb or legacy GeoIP .dat file
    pub(crate) file: PathBuf,
    /// How to print; csv needs --field
    #[arg(long, value_enum, default_value_t = RowsFormat::Ndjson)]
    pub(crate) format: RowsFormat,
    /// Print only this field, such as country.iso_code; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) field: Vec<String>,
    /// Print the types that JSON or CSV cannot tell apart, so that `db build` gives them back
    #[arg(long)]
    pub(crate) types: bool,
}

#[derive(Args)]
pub(crate) struct IndexArguments {
    /// A .mmdb or legacy GeoIP .dat file
    pub(crate) file: PathBuf,
    /// Field that the index holds decoded, such as country.iso_code; may be repeated; without any,
    /// the usual ones
    #[arg(long, value_name = "PATH")]
    pub(crate) field: Vec<String>,
    /// Whether the index saves memory or time
    #[arg(long, value_enum, default_value_t = IndexChoice::Compact)]
    pub(crate) form: IndexChoice,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IndexChoice {
    /// Some 5 bytes an IPv4 network
    Compact,
    /// Fewer reads for an IPv4 address, 60 MiB more
    Fast,
}

#[derive(Args)]
pub(crate) struct DiffArguments {
    /// The older file (.mmdb or legacy GeoIP .dat)
    pub(crate) old: PathBuf,
    /// The newer file
    pub(crate) new: PathBuf,
    /// How to print
    #[arg(long, value_enum, default_value_t = DiffFormat::Text)]
    pub(crate) format: DiffFormat,
    /// Print only how many networks were added, removed and changed
    #[arg(long)]
    pub(crate) summary: bool,
}

/// How rows are written down.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowsFormat {
    /// Comma-separated values behind a line that names the columns
    Csv,
    /// One JSON object a line
    Ndjson,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFormat {
    /// One JSON object a line
    Json,
    /// One line each: `+` added, `-` removed, `~` changed
    Text,
}

fn parse_ip_version(text: &str) -> Result<u16, String> {
    match text {
        "4" => Ok(4),
        "6" => Ok(6),
        _ => Err("allowed: 4, 6".to_owned()),
    }
}

fn parse_record_size(text: &str) -> Result<u16, String> {
    match text {
        "24" => Ok(24),
        "28" => Ok(28),
        "32" => Ok(32),
        _ => Err("allowed: 24, 28, 32".to_owned()),
    }
}

fn parse_threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|threads| (1..=1024).contains(threads));
    threads.ok_or_else(|| "allowed: 1 to 1024".to_owned())
}

/// An address as people write it.
pub(crate) fn parse_address(text: &str) -> Result<IpAddr, String> {
    let address = whered_ip::text::read(text.as_bytes());
    address.ok_or_else(|| "allowed: an IP address such as 192.0.2.1 or 2001:db8::1".to_owned())
}

pub(crate) fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let allowed = "allowed: an address with a port such as 127.0.0.1:6380 or [::1]:6380";
    text.parse().map_err(|_| allowed.to_owned())
}
