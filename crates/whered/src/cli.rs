//! Every command and flag of the program, defined once: names, help texts and parsers.
//!
//! Not for: doing anything; each command has a file of its own.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use whered_engine::AccessMode;

pub(crate) use crate::control::{ControlArguments, StatusArguments};
pub(crate) use crate::db::flags::{BuildArguments, EditArguments, FieldsArguments, MergeArguments};
#[cfg(feature = "export")]
pub(crate) use crate::export::ExportArguments;
pub(crate) use crate::formats::FormatsArguments;
pub(crate) use crate::import::flags::{
    ImportCommand, ImportPointsArguments, ImportRdbArguments, ImportRedisArguments,
};
pub(crate) use crate::ingest::{FeedsArguments, IngestArguments};
pub(crate) use crate::rules::flags::{
    MatchArguments, RulesApplyArguments, RulesCheckArguments, RulesCommand, RulesCompileArguments,
    RulesConvertArguments, RulesExplainArguments, RulesTestArguments,
};
use crate::server::RespServer;
pub(crate) use crate::steer::SteerCommand;
pub(crate) use crate::sync::SyncArguments;
pub(crate) use crate::zone::flags::ZoneCommand;

/// Number, commit and date of this program, and the date alone; `build.rs` writes them.
pub(crate) const VERSION: &str = env!("WHERED_VERSION");
pub(crate) const DATE: &str = env!("WHERED_DATE");

/// Answers where: IP geolocation, nearby points, prefixes and packet rules, place-aware DNS.
#[derive(Parser)]
#[command(name = "whered", version = VERSION, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the server (RESP, HTTP, DNS)
    Serve(ServeArguments),
    /// Look up IP addresses in a database file
    ///
    /// Exit code 1 if no address was found, 2 if one could not be looked up.
    Lookup(LookupArguments),
    /// Add database fields to each record of a log, CSV, TSV or NDJSON file
    Enrich(EnrichArguments),
    /// Check a configuration file and the files it names
    ///
    /// Exit code 2 with one line for the first error: the one that would stop `whered serve`.
    Check(CheckArguments),
    /// List the formats that files are read in, with an example of each
    Formats(FormatsArguments),
    /// Import points into a running server
    #[command(subcommand)]
    Import(ImportCommand),
    /// Export a feed's table or a collection to Parquet, Arrow or CSV
    ///
    /// Exit code 1 if the server has none of that name.
    #[cfg(feature = "export")]
    Export(ExportArguments),
    /// Upload files to a feed of a running server
    ///
    /// Each file is applied once, however often the command is repeated. Exit code 2 if the server
    /// refused one.
    Ingest(IngestArguments),
    /// Show the state of a server's feeds: backlog, lag, records
    Feeds(FeedsArguments),
    /// Check, test, explain and convert packet rules
    #[command(subcommand)]
    Rules(RulesCommand),
    /// Explain DNS steering decisions
    #[command(subcommand)]
    Steer(SteerCommand),
    /// Check DNS zones, convert from gdnsd
    #[command(subcommand)]
    Zone(ZoneCommand),
    /// Match packets of a capture or a list against rules
    ///
    /// Exit code 2 if a line is not a packet or the capture is damaged.
    Match(MatchArguments),
    /// Keep ipset or nftables sets equal to a prefix set
    Sync(SyncArguments),
    /// Build, convert, check and compare database files
    #[command(subcommand)]
    Db(DbCommand),
    /// Show the state of a running server
    ///
    /// Exit code 1 if no server answers there.
    Status(StatusArguments),
    /// Have a running server reread its configuration and say what came of it
    ///
    /// Exit code 1 if no server uses the data directory, 2 if the server refused the configuration
    /// and serves on as before.
    Reload(ControlArguments),
    /// Stop a running server and wait for its end
    ///
    /// Exit code 1 if no server was there.
    Stop(ControlArguments),
    /// Back up the data of a running server
    Backup(BackupArguments),
    /// Check a backup and restore it into a new data directory
    Restore {
        /// The backup
        backup: PathBuf,
        /// The new data directory: empty, or not existing yet
        data_dir: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Repair a damaged data directory, keeping as much as possible
    ///
    /// Exit code 1 if anything was changed.
    Repair {
        /// The data directory; no server may be using it
        data_dir: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the completions of a shell
    ///
    /// bash reads them from /usr/share/bash-completion/completions/whered, zsh from a file _whered
    /// in its fpath, fish from whered.fish in a folder of vendor_completions.d.
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write the manual pages, one for each command
    Man(ManArguments),
    /// Moved: the program `whered-bench`
    #[command(hide = true, disable_help_flag = true)]
    Bench {
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum DbCommand {
    /// Print a database file's metadata
    Info(FileArguments),
    /// Build a .mmdb file from tables (CSV, TSV ...) or NDJSON rows
    Build(BuildArguments),
    /// Convert a legacy GeoIP .dat file to .mmdb
    Convert(ConvertArguments),
    /// Print every network with its record
    Dump(DumpArguments),
    /// Compare two database files
    ///
    /// Exit code 1 if they differ.
    Diff(DiffArguments),
    /// Change networks, fields or metadata of a database file
    Edit(EditArguments),
    /// Name the fields of a database file and how often they have a value
    Fields(FieldsArguments),
    /// Build the index file that `enrich` uses (FILE.index)
    Index(IndexArguments),
    /// Lay database files and rows over each other
    Merge(MergeArguments),
    /// Verify a whole database file and report the first error
    Verify(FileArguments),
}

#[derive(Args)]
pub(crate) struct FileArguments {
    /// A .mmdb or legacy GeoIP .dat file
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ManArguments {
    /// The old spelling of --output
    #[arg(value_name = "DIR", hide = true)]
    pub(crate) old: Vec<PathBuf>,
    /// The directory for them; it is made if it is absent
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct BackupArguments {
    /// The target directory on the server's machine: empty, or not existing yet
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) server: RespServer,
    /// Back up this data directory, which no server may be using, instead of a server's
    #[arg(long, value_name = "DIR", conflicts_with_all = ["server", "password_file"])]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ServeArguments {
    /// Configuration file (TOML). Without it and without an address below, RESP, HTTP and DNS
    /// listen on loopback
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Serve embedded demonstration data
    #[arg(long, conflicts_with = "config")]
    pub(crate) demo: bool,
    /// Take over from the server that runs on the same data directory, without losing a request
    ///
    /// Without such a server, just start.
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Data directory. Without it and without one in the configuration, nothing is persisted
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// RESP address such as 127.0.0.1:6380; repeatable; port 0 chooses a free port
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    pub(crate) resp: Vec<SocketAddr>,
    /// HTTP address; repeatable
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    pub(crate) http: Vec<SocketAddr>,
    /// DNS address (UDP and TCP); repeatable
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    pub(crate) dns: Vec<SocketAddr>,
    /// DNS datagrams per system call, 1 to 64
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) udp_batch: Option<u8>,
}

#[derive(Args)]
pub(crate) struct CheckArguments {
    /// The TOML file
    pub(crate) file: PathBuf,
    /// Allow another process to hold its addresses and data, as for `serve --take-over`
    ///
    /// A process that serves this very file always may.
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct LookupArguments {
    /// Database file (.mmdb or legacy GeoIP .dat); give two if IPv4 and IPv6 have files of their own
    #[arg(
        long,
        value_name = "FILE",
        env = "WHERED_DB",
        default_value = "/usr/share/GeoIP/GeoIP.dat"
    )]
    pub(crate) db: Vec<PathBuf>,
    /// How to read the file
    #[arg(long, value_enum, default_value_t = LookupMode::Stream)]
    pub(crate) mode: LookupMode,
    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Json)]
    pub(crate) format: OutputFormat,
    /// Print only this field, such as country.iso_code; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) field: Vec<String>,
    /// Print the reasons for the answer as JSON
    #[arg(long, conflicts_with_all = ["format", "field"])]
    pub(crate) explain: bool,
    /// Addresses; without any, one per line from standard input
    #[arg(value_name = "IP")]
    pub(crate) addresses: Vec<String>,
}

/// The access modes that build no index.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LookupMode {
    /// Read only the parts that an address needs
    Stream,
    /// Read the search tree at once and records on demand
    Tree,
    /// Map the file; it must not be truncated meanwhile
    Mmap,
    /// Read the whole file at once
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
    /// One JSON object per line
    Json,
    /// Lines of `address: value, value`
    Text,
    /// Lines of `address,value,...` without a header
    Csv,
}

#[derive(Args)]
pub(crate) struct EnrichArguments {
    /// Input files, plain or compressed with gzip, zstd, xz, bzip2 or LZ4, or Parquet; without any,
    /// standard input
    #[arg(value_name = "FILE")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Database file (.mmdb or legacy GeoIP .dat), named after the file or NAME; repeatable
    ///
    /// Two files with one NAME are a database with one file for each address family.
    #[arg(long, value_name = "[NAME=]FILE", required = true)]
    pub(crate) db: Vec<String>,
    /// Field to add, such as country.iso_code; repeatable; without any, the common fields
    ///
    /// It is taken from the database NAME, or from the first that has it for the address family.
    #[arg(long, value_name = "[NAME:]PATH")]
    pub(crate) field: Vec<String>,
    /// Text before the names of the added columns, for an input that has these names already
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// Output file, compressed if it ends in .gz or .zst; without it, standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Input format; without it, detected from the first line
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) input_format: Option<InputFormat>,
    /// Output format; without it, taken from the output's name, else NDJSON for logs and the input's
    /// format for other files
    #[arg(long, value_enum)]
    pub(crate) format: Option<EnrichFormat>,
    /// Column or member with the address, by name or by number from 1; without it, detected
    #[arg(long, value_name = "NAME|NUMBER")]
    pub(crate) column: Option<String>,
    /// Encoding of the input; without it, UTF-8, or UTF-16 with a byte order mark
    #[arg(long, value_enum)]
    pub(crate) encoding: Option<Encoding>,
    /// Format string of nginx ($remote_addr ...) or Apache (%h ...) that the log was written with
    #[arg(long, value_name = "FORMAT", conflicts_with = "input_format")]
    pub(crate) pattern: Option<String>,
    /// Lines of any text: look up the first public address in each
    #[arg(long, conflicts_with_all = ["input_format", "pattern", "column"])]
    pub(crate) anywhere: bool,
    /// Which address of a list to use, such as that of X-Forwarded-For
    #[arg(long, value_enum, default_value_t = ListChoice::First)]
    pub(crate) list: ListChoice,
    /// Whether CSV or TSV has a header; auto: yes if its first row has no address
    #[arg(long, value_enum, default_value_t = HeaderChoice::Auto)]
    pub(crate) header: HeaderChoice,
    /// Worker threads besides those that read and write; without it, one per core
    #[arg(long, value_name = "NUMBER", value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    /// Look nothing up: for measuring what everything else costs
    #[arg(long, hide = true)]
    pub(crate) no_lookup: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum InputFormat {
    /// nginx or Apache access log, common or combined
    Combined,
    /// Comma-separated (or semicolon- or pipe-separated) values
    Csv,
    /// Tab-separated values
    Tsv,
    /// Pipe-separated values
    Psv,
    /// JSON objects: one per line, an array, pretty-printed, or in {"Records": [...]}
    #[value(alias = "json")]
    Ndjson,
    /// Apache Parquet
    Parquet,
    /// W3C extended log with #Fields, as of IIS
    #[value(alias = "iis")]
    W3c,
    /// Amazon CloudFront standard log
    Cloudfront,
    /// Zeek log in TSV
    Zeek,
    /// AWS Application Load Balancer access log
    Alb,
    /// AWS Classic Load Balancer access log
    Elb,
    /// Amazon S3 server access log
    S3,
    /// AWS VPC flow log
    Vpc,
    /// HAProxy log, HTTP or TCP
    Haproxy,
    /// Squid native access log
    Squid,
    /// Envoy default access log
    Envoy,
    /// Istio default access log
    Istio,
    /// nginx error log
    NginxError,
    /// Packets that the kernel logs for iptables, nft, ufw and firewalld, also in a system log
    #[value(alias = "nftables", alias = "ufw", alias = "nflog", alias = "kernel")]
    Iptables,
    /// System log: the address of the client in messages of sshd and others
    #[value(alias = "sshd", alias = "auth")]
    Syslog,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Encoding {
    /// UTF-8
    #[value(name = "utf-8")]
    Utf8,
    /// UTF-16, little-endian
    #[value(name = "utf-16le", alias = "utf-16")]
    Utf16le,
    /// UTF-16, big-endian
    #[value(name = "utf-16be")]
    Utf16be,
    /// ISO 8859-1 (Latin-1)
    #[value(name = "iso-8859-1", alias = "latin1")]
    Iso88591,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum EnrichFormat {
    /// The input's format, with the fields appended
    Same,
    /// One JSON object per line
    Ndjson,
    /// Comma-separated values
    Csv,
    /// Tab-separated values
    Tsv,
    /// Apache Parquet
    Parquet,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ListChoice {
    /// The first: the client, as reported by it or by the first proxy
    First,
    /// The last: the peer of the last proxy that added to the list
    Last,
    /// The first public address; if there is none, the first
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
pub(crate) struct ConvertArguments {
    /// The legacy GeoIP .dat file
    #[arg(required = true, num_args = 1..=2, value_name = "FILE")]
    pub(crate) paths: Vec<PathBuf>,
    /// The .mmdb file to write
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Database type in the metadata; without it, the legacy edition's name
    #[arg(long, value_name = "NAME")]
    pub(crate) database_type: Option<String>,
    /// Size of a tree record in bits; without it, the smallest that fits
    #[arg(long, value_name = "24|28|32", value_parser = parse_record_size)]
    pub(crate) record_size_bits: Option<u16>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct DumpArguments {
    /// A .mmdb or legacy GeoIP .dat file
    pub(crate) file: PathBuf,
    /// Output format; csv needs --field
    #[arg(long, value_enum, default_value_t = RowsFormat::Ndjson)]
    pub(crate) format: RowsFormat,
    /// Print only this field, such as country.iso_code; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) field: Vec<String>,
    /// Add type names where JSON or CSV lose the type, so that `db build` restores it
    #[arg(long)]
    pub(crate) types: bool,
    /// Print type, description and languages first, so that `db build` restores them
    ///
    /// Whole records with --types have them anyway.
    #[arg(long)]
    pub(crate) metadata: bool,
    /// Threads; without it, one for each processor
    #[arg(long, value_name = "NUMBER", value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
}

#[derive(Args)]
pub(crate) struct IndexArguments {
    /// A .mmdb or legacy GeoIP .dat file
    pub(crate) file: PathBuf,
    /// Field to store decoded, such as country.iso_code; repeatable. Without any, the common fields
    #[arg(long, value_name = "PATH")]
    pub(crate) field: Vec<String>,
    /// Form of the index
    #[arg(long, value_enum, default_value_t = IndexChoice::Compact)]
    pub(crate) form: IndexChoice,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IndexChoice {
    /// About 5 bytes per IPv4 network
    Compact,
    /// Fewer memory reads per IPv4 address, 60 MiB larger
    Fast,
}

#[derive(Args)]
pub(crate) struct DiffArguments {
    /// The older file (.mmdb or legacy GeoIP .dat)
    pub(crate) old: PathBuf,
    /// The newer file
    pub(crate) new: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t = DiffFormat::Text)]
    pub(crate) format: DiffFormat,
    /// Print JSON: --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Print only how many networks were added, removed and changed
    #[arg(long)]
    pub(crate) summary: bool,
}

/// The format of rows.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowsFormat {
    /// Comma-separated values with a header
    Csv,
    /// One JSON object per line
    Ndjson,
}

impl DiffArguments {
    pub(crate) fn format(&self) -> DiffFormat {
        if self.json { DiffFormat::Json } else { self.format }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFormat {
    /// One JSON object per line
    Json,
    /// One line per network: `+` added, `-` removed, `~` changed
    Text,
}

pub(crate) fn parse_ip_version(text: &str) -> Result<u16, String> {
    match text {
        "4" => Ok(4),
        "6" => Ok(6),
        _ => Err("allowed: 4, 6".to_owned()),
    }
}

pub(crate) fn parse_record_size(text: &str) -> Result<u16, String> {
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
