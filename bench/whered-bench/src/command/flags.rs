//! The flags of `whered-bench`.
//!
//! Not for: doing anything (`command/mod.rs`).

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Makes benchmark data and measures whered with it.
#[derive(Parser)]
#[command(name = "whered-bench", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// The program `whered` that is measured; without it, the file beside this program
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) whered: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// Write made-up city and ASN databases of the real ones' size and shape
    Data(BenchDataArguments),
    /// Measure lookups in a database file, in every access mode
    Lookup(BenchLookupArguments),
    /// Measure searches, single members and moves of a RESP server with made-up points
    Geo(BenchGeoArguments),
    /// Measure DNS over UDP beside an echo with the same system calls
    Dns(BenchDnsArguments),
    /// Send a crowd's uploads to a feed and look at its tables, or write them as files
    Feed(BenchFeedArguments),
    /// Write a large set into this kernel, in a network namespace of its own, and change it while
    /// packets try to slip through
    Sync(BenchSyncArguments),
    /// Kill servers, cut off and fill up their disks, and look whether they kept everything
    Faults(BenchFaultsArguments),
    /// Measure prefix sets and rules as their number grows, beside the kernel's where it is allowed
    Rules(BenchRulesArguments),
}

impl BenchCommand {
    /// Whether it starts a `whered` with these arguments.
    pub(crate) fn starts_servers(&self) -> bool {
        match self {
            BenchCommand::Data(_) | BenchCommand::Lookup(_) | BenchCommand::Rules(_) => false,
            BenchCommand::Geo(arguments) => arguments.server.is_none() && !arguments.list,
            BenchCommand::Dns(arguments) => arguments.echo.is_none() && !arguments.no_net,
            BenchCommand::Feed(arguments) => {
                let is_elsewhere = arguments.write.is_some() || arguments.server.is_some();
                !is_elsewhere && arguments.bare_receiver.is_none()
            }
            BenchCommand::Sync(_) | BenchCommand::Faults(_) => true,
        }
    }
}

#[derive(Args)]
pub(crate) struct BenchRulesArguments {
    /// Only sections with one of these in their names: cidrs-4096, seed-, acl-, places-, kernel-
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Addresses asked of each prefix set
    #[arg(long, value_name = "N", default_value_t = 40_000_000)]
    pub(crate) addresses: usize,
    /// Packets asked of each ruleset in every round
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    pub(crate) packets: usize,
    /// Rounds of each section
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub(crate) rounds: usize,
    /// Seconds of further planning at 16 k rules
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub(crate) plan_seconds: u64,
    /// A folder with city.mmdb and asn.mmdb (`whered-bench data` writes it), for rules with places
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// A folder with ClassBench's own rulesets, NAME.rules.gz
    #[arg(long, value_name = "DIR")]
    pub(crate) classbench: Option<PathBuf>,
    /// The core that is used; without it, the system chooses
    #[arg(long, value_name = "N")]
    pub(crate) core: Option<usize>,
    /// What everything is drawn with
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// A file for the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct BenchFeedArguments {
    /// Write the uploads into this folder instead of sending them
    #[arg(long, value_name = "DIR")]
    pub(crate) write: Option<PathBuf>,
    /// Be the bare receiver, which appends whatever comes to this file
    #[arg(long, value_name = "FILE", conflicts_with = "write")]
    pub(crate) bare_receiver: Option<PathBuf>,
    /// Where the bare receiver listens
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// How uploads are written
    #[arg(long, value_enum, default_value_t = UploadFormatChoice::Xml)]
    pub(crate) format: UploadFormatChoice,
    /// How files are packed
    #[arg(long, value_enum, default_value_t = PackingChoice::None)]
    pub(crate) packing: PackingChoice,
    /// Sightings without their loot
    #[arg(long)]
    pub(crate) no_loot: bool,
    /// Uploads of each phase, or files
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) uploads: usize,
    /// The size of an upload
    #[arg(long, value_name = "BYTES", default_value_t = 100_000)]
    pub(crate) size: usize,
    /// Objects in the world
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) objects: u32,
    /// Clients at once
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) clients: usize,
    /// A folder for the server's files, on the disk that is meant; without it, a temporary one
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// The HTTP door of a server that runs already, is empty, and has the feed of examples/mobmap
    #[arg(long, value_name = "ADDR", requires = "pid")]
    pub(crate) server: Option<SocketAddr>,
    /// That server's process
    #[arg(long, value_name = "N", requires = "server")]
    pub(crate) pid: Option<u32>,
    /// What everything is made with
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write everything as JSON, too
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Run it without and with loot, on a disk of its own as well, and put all into this folder's
    /// record of the day
    #[arg(long, value_name = "DIR", requires = "date", conflicts_with_all = ["json", "no_loot"])]
    pub(crate) record: Option<PathBuf>,
    /// The date in the names of these files
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) date: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum UploadFormatChoice {
    Xml,
    Ndjson,
    Csv,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum PackingChoice {
    None,
    Gzip,
    Zstd,
}

#[derive(Args)]
pub(crate) struct BenchLookupArguments {
    /// Database file (.mmdb), such as `whered-bench data` writes
    #[arg(long, value_name = "FILE")]
    pub(crate) db: PathBuf,
    /// Threads at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// How to print
    #[arg(long, value_enum, default_value_t = ReportFormat::Table)]
    pub(crate) format: ReportFormat,
    /// Addresses of each list
    #[arg(long, value_name = "N", default_value_t = 3_000_000)]
    pub(crate) addresses: usize,
    /// Addresses that an engine looks up before the next one has its turn
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    pub(crate) round: usize,
    /// The core that one thread is held to; without it, the system chooses
    #[arg(long, value_name = "N")]
    pub(crate) core: Option<usize>,
    /// What the addresses are drawn with
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Args)]
pub(crate) struct BenchGeoArguments {
    /// How many points; 60841557 are as many as the public benchmark has
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) points: u64,
    /// A RESP server that runs already and is empty or has the points; without it, a whered with
    /// one thread is started
    #[arg(long, value_name = "ADDR", requires = "pid")]
    pub(crate) server: Option<SocketAddr>,
    /// That server's process
    #[arg(long, value_name = "N", requires = "server")]
    pub(crate) pid: Option<u32>,
    /// Only classes and scenarios with one of these, separated by commas, in their names
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) classes: Vec<String>,
    /// Print the names of classes and scenarios
    #[arg(long)]
    pub(crate) list: bool,
    /// Where the points lie
    #[arg(long, value_enum, default_value_t = WorldChoice::Mapped)]
    pub(crate) world: WorldChoice,
    /// Load members in the order of their numbers
    #[arg(long)]
    pub(crate) in_order: bool,
    /// Rounds of a class
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Seconds of a round
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(crate) seconds: f64,
    /// The core that a started server is held to
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) server_core: usize,
    /// The core that the clients are held to
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) driver_core: usize,
    /// What the points are made with
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write everything as JSON, too
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct BenchDnsArguments {
    /// Only these, separated by commas: no-net, answers, blocklist, geo, signed, loops, turns,
    /// threads, reloads
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) parts: Vec<String>,
    /// Only question bytes to answer bytes, without sockets; the same as --parts no-net
    #[arg(long, conflicts_with = "parts")]
    pub(crate) no_net: bool,
    /// Only these zones, separated by commas: small (1,000 names), large (1 million)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) zones: Vec<String>,
    /// The city database of `geo`, such as `whered-bench data` makes; made anew without it
    #[arg(long, value_name = "FILE")]
    pub(crate) city: Option<PathBuf>,
    /// Distinct questions of each mix
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    pub(crate) queries: usize,
    /// Rounds of each measurement
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Seconds of a round
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(crate) seconds: f64,
    /// The core that servers are held to
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) server_core: usize,
    /// The core that the driver is held to
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) driver_core: usize,
    /// What the questions are drawn with
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write everything as JSON, too
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Measure nothing: send everything that comes to this address back, until killed
    #[arg(long, value_name = "ADDR")]
    pub(crate) echo: Option<SocketAddr>,
    /// How long the echo's answers are at least, in bytes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) echo_size: usize,
    /// Datagrams that the echo takes at a time
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub(crate) udp_batch: usize,
    /// With one system call, or with one for each: many, single
    #[arg(long, value_name = "NAME", default_value = "many")]
    pub(crate) udp_calls: String,
}

#[derive(Args)]
pub(crate) struct BenchFaultsArguments {
    /// Only these faults, separated by commas: kill, feeds, power, full, failing, stalled
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) kinds: Vec<String>,
    /// How long each kind goes on
    #[arg(long, value_name = "MINUTES", default_value_t = 1.0)]
    pub(crate) minutes: f64,
    /// How many faults of each kind are enough; 0: as many as there is time for
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) rounds: u64,
    /// What random choices are made with; another one each time without it
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Where servers may write
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Write what was survived as a page into this folder
    #[arg(long, value_name = "DIR", requires = "date")]
    pub(crate) record: Option<PathBuf>,
    /// The date in the page's name
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) date: Option<String>,
}

#[derive(Args)]
pub(crate) struct BenchSyncArguments {
    /// Which kind of set
    #[arg(long, value_enum, default_value_t = SetKind::Nft)]
    pub(crate) kind: SetKind,
    /// Members that are listed all the time
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = parse_members)]
    pub(crate) members: usize,
    /// Changes of the list a second
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) rate: usize,
    /// How long changes go on
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    pub(crate) seconds: f64,
    /// What members are drawn with
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SetKind {
    /// A set of nf_tables
    Nft,
    /// An ipset, asked by iptables
    Ipset,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorldChoice {
    /// In cities, towns, and thinly everywhere on land
    Mapped,
    /// In cities and towns
    Clustered,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Lines for people
    Table,
    /// One JSON object
    Json,
}

#[derive(Args)]
pub(crate) struct BenchDataArguments {
    /// Where city.mmdb and asn.mmdb are written; made if it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// The seed of everything that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many networks: as many as the real files, or a seventieth for tests
    #[arg(long, value_enum, default_value_t = DataScale::Full)]
    pub(crate) scale: DataScale,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataScale {
    /// 3.7 million networks in the city file, half a million in the ASN file
    Full,
    /// A seventieth of the networks in the shape of the full files
    Small,
}

fn parse_members(text: &str) -> Result<usize, String> {
    let members = text.parse().ok().filter(|members| (100..=10_000_000).contains(members));
    members.ok_or_else(|| "allowed: 100 to 10000000".to_owned())
}
