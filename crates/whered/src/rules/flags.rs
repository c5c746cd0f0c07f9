//! The flags of `whered rules` and `whered match`, defined once as all flags are.
//!
//! Not for doing anything. They stand apart from `cli` because that file has a reader's length.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use whered_rules::{Detail, Family, Format, State, names};

use crate::cli::{Encoding, HeaderChoice, InputFormat, ListChoice, parse_address};

#[derive(Subcommand)]
pub(crate) enum RulesCommand {
    /// Report errors, unreachable rules and doubtful rules
    ///
    /// Exit code 1 for unreachable or doubtful rules, 2 for errors.
    Check(RulesCheckArguments),
    /// Test rules with packets and their expected verdicts
    ///
    /// Exit code 1 if a verdict differs.
    Test(RulesTestArguments),
    /// Explain the verdict for one packet
    Explain(RulesExplainArguments),
    /// Convert rules to another format
    Convert(RulesConvertArguments),
    /// Compile rules to an nftables program with few lookups per packet
    Compile(RulesCompileArguments),
    /// Compile rules and load them into the kernel, with a way back
    ///
    /// Exit code 1 if `--diff` finds a difference.
    Apply(RulesApplyArguments),
}

/// Rules of this host instead of a file.
#[derive(Args)]
pub(crate) struct LiveArguments {
    /// Read the rules that this host has loaded in nft, or in iptables with --input-format iptables
    #[arg(long)]
    pub(crate) live: bool,
}

#[derive(Args)]
pub(crate) struct RulesCompileArguments {
    /// The rules; - for standard input
    #[arg(value_name = "FILE", required_unless_present = "live", conflicts_with = "live")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) live: LiveArguments,
    /// Database file for countries and other places in rules (.mmdb or legacy GeoIP .dat);
    /// repeatable
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(crate) db: Vec<String>,
    #[command(flatten)]
    pub(crate) read: ReadArguments,
    /// Language of the program
    #[arg(long, value_enum, default_value_t = CompileTarget::Nft)]
    pub(crate) to: CompileTarget,
    /// Name of the table that the program makes, and replaces
    #[arg(long, value_name = "TABLE", default_value = "whered")]
    pub(crate) name: String,
    /// Keep packet and byte counters of each rule
    #[arg(long)]
    pub(crate) counters: bool,
    /// Print which rules went where and what a packet costs, instead of the program
    #[arg(long)]
    pub(crate) explain: bool,
    /// Print the plan as JSON: --explain
    #[arg(long)]
    pub(crate) json: bool,
    /// Output file; without it, standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Args)]
#[command(group = clap::ArgGroup::new("end").required(true).multiple(false)
    .args(["keep", "confirm_within", "probe", "confirm", "diff"]))]
pub(crate) struct RulesApplyArguments {
    /// The rules; - for standard input
    #[arg(value_name = "FILE", required_unless_present = "confirm", conflicts_with = "confirm")]
    pub(crate) file: Option<PathBuf>,
    /// Database file for countries and other places in rules (.mmdb or legacy GeoIP .dat);
    /// repeatable
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(crate) db: Vec<String>,
    #[command(flatten)]
    pub(crate) read: ReadArguments,
    /// Name of the table that the program makes, and replaces
    #[arg(long, value_name = "TABLE", default_value = "whered")]
    pub(crate) name: String,
    /// Keep packet and byte counters of each rule
    #[arg(long)]
    pub(crate) counters: bool,
    /// Load the old rules again after this time, unless --confirm comes before
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..86_400))]
    pub(crate) confirm_within: Option<u64>,
    /// Confirm if this shell command succeeds within 10 seconds; else load the old rules again
    #[arg(long, value_name = "COMMAND")]
    pub(crate) probe: Option<String>,
    /// Keep the rules without a confirmation
    #[arg(long)]
    pub(crate) keep: bool,
    /// Confirm the rules that were loaded
    #[arg(long)]
    pub(crate) confirm: bool,
    /// Print what would change, and load nothing
    #[arg(long)]
    pub(crate) diff: bool,
    /// Replace a table of this name that another program has loaded or changed
    #[arg(long)]
    pub(crate) replace: bool,
    /// Where to remember what was loaded
    #[arg(long, value_name = "DIR", default_value_os_t = super::apply::default_state_dir().to_owned())]
    pub(crate) state_dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What rules are compiled to.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompileTarget {
    /// Input for `nft -f`
    Nft,
}

/// Options for reading a rules file.
#[derive(Args)]
pub(crate) struct ReadArguments {
    /// Format of the rules; without it, detected from the first line
    #[arg(long, value_name = "FORMAT", value_parser = format_parser(Format::readable()))]
    pub(crate) input_format: Option<Format>,
    /// Chain that packets enter, and all that is read of iptables and nft; without it, the file's
    /// own, input, or the first one
    #[arg(long, value_name = "NAME")]
    pub(crate) chain: Option<String>,
    /// Table to read, such as filter or 'ip6 filter'; without it, the one that filters
    ///
    /// That is filter for iptables, and for nft the only table, or the only one that filters.
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// Ignore the rules of other iptables tables, although they may change packets
    #[arg(long)]
    pub(crate) skip_tables: bool,
}

#[derive(Args)]
pub(crate) struct RulesCheckArguments {
    /// Rules files; - for standard input
    #[arg(value_name = "FILE", required_unless_present = "live", conflicts_with = "live")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) live: LiveArguments,
    /// Database file for countries and other places in rules (.mmdb or legacy GeoIP .dat);
    /// repeatable
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(crate) db: Vec<String>,
    #[command(flatten)]
    pub(crate) read: ReadArguments,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RulesTestArguments {
    /// The rules
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// CSV with a header: the packet's fields and the expected verdict, line
    #[arg(value_name = "CASES")]
    pub(crate) cases: PathBuf,
    /// Database file for countries and other places in rules (.mmdb or legacy GeoIP .dat);
    /// repeatable
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(crate) db: Vec<String>,
    #[command(flatten)]
    pub(crate) read: ReadArguments,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RulesExplainArguments {
    /// The rules; - for standard input
    #[arg(value_name = "FILE", required_unless_present = "live", conflicts_with = "live")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) live: LiveArguments,
    /// Database file for countries and other places in rules (.mmdb or legacy GeoIP .dat);
    /// repeatable
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(crate) db: Vec<String>,
    #[command(flatten)]
    pub(crate) read: ReadArguments,
    /// Source address
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub(crate) source: IpAddr,
    /// Destination address
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub(crate) destination: IpAddr,
    /// Protocol, by name or number
    #[arg(long, value_name = "PROTOCOL", value_parser = parse_protocol)]
    pub(crate) protocol: u8,
    /// Source port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) source_port: u16,
    /// Destination port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) destination_port: u16,
    /// Connection state: invalid, new, established, related or untracked
    #[arg(long, value_name = "STATE", default_value = "untracked", value_parser = parse_state)]
    pub(crate) state: State,
    /// Input interface
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) input_interface: String,
    /// Output interface
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) output_interface: String,
    /// DSCP, by class or number
    #[arg(long, value_name = "DSCP", default_value = "0", value_parser = parse_dscp)]
    pub(crate) dscp: u8,
    /// Packet mark
    #[arg(long, value_name = "MARK", default_value = "0", value_parser = parse_mark)]
    pub(crate) mark: u32,
    /// ICMP type and code, in numbers
    #[arg(long, value_name = "TYPE[/CODE]", default_value = "0", value_parser = parse_icmp)]
    pub(crate) icmp: (u8, u8),
    /// Set TCP flags, separated by commas
    #[arg(long, value_name = "FLAG,FLAG", default_value = "", value_parser = parse_flags)]
    pub(crate) flags: u8,
    /// Another property of the packet, such as ttl=64 or destination-type=local; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_detail)]
    pub(crate) with: Vec<(Detail, u64)>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RulesConvertArguments {
    /// The rules; - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) read: ReadArguments,
    /// Output format
    ///
    /// own is whered's, iptables is input for `iptables-restore` or `ip6tables-restore`, ipset has
    /// the sets for `ipset restore`, nft is input for `nft -f`.
    #[arg(long, value_parser = format_parser(Format::writable()))]
    pub(crate) format: Format,
    /// Output file; without it, standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Address family of iptables and ipset output; without it, the file's own
    #[arg(long, value_enum)]
    pub(crate) family: Option<FamilyChoice>,
}

#[derive(Args)]
pub(crate) struct MatchArguments {
    /// The rules
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: PathBuf,
    /// Packets: a capture, a log, CSV, or lines of SRC DST PROTO [SPORT DPORT]; without it,
    /// standard input
    ///
    /// A capture is pcap, pcapng or a conn.log of Zeek. CSV has a header. Lines of ICMP end with
    /// [TYPE/CODE]. A log is one that `whered enrich` reads. Files may be compressed with gzip,
    /// zstd, xz, bzip2 or LZ4.
    #[arg(value_name = "FILE")]
    pub(crate) packets: Option<PathBuf>,
    /// Database file for countries and other places in rules (.mmdb or legacy GeoIP .dat);
    /// repeatable
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(crate) db: Vec<String>,
    /// Format of the rules; without it, detected from the first line
    #[arg(long, value_parser = format_parser(Format::readable()))]
    pub(crate) rules_format: Option<Format>,
    /// Chain that packets enter, and all that is read of iptables and nft; without it, the file's
    /// own, input, or the first one
    #[arg(long, value_name = "NAME")]
    pub(crate) chain: Option<String>,
    /// Table to read, such as filter or 'ip6 filter'; without it, the one that filters
    ///
    /// That is filter for iptables, and for nft the only table, or the only one that filters.
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// Ignore the rules of other iptables tables, although they may change packets
    #[arg(long)]
    pub(crate) skip_tables: bool,
    /// Format of a log; without it, detected from the first lines
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) input_format: Option<InputFormat>,
    /// Format string of nginx ($remote_addr ...) or Apache (%h ...) that the log was written with
    #[arg(long, value_name = "FORMAT", conflicts_with = "input_format")]
    pub(crate) pattern: Option<String>,
    /// Lines of any text: the source is the first public address in each
    #[arg(long, conflicts_with_all = ["input_format", "pattern", "column"])]
    pub(crate) anywhere: bool,
    /// Column or member of a log with the source address, by name or by number from 1
    #[arg(long, value_name = "NAME|NUMBER")]
    pub(crate) column: Option<String>,
    /// Which address of a list to use, such as that of X-Forwarded-For
    #[arg(long, value_enum, default_value_t = ListChoice::First)]
    pub(crate) list: ListChoice,
    /// Whether CSV or TSV that --input-format names has a header
    #[arg(long, value_enum, default_value_t = HeaderChoice::Auto)]
    pub(crate) header: HeaderChoice,
    /// Encoding of a log; without it, UTF-8, or UTF-16 with a byte order mark
    #[arg(long, value_enum)]
    pub(crate) encoding: Option<Encoding>,
    /// Connection state of the packets of a capture (default: untracked) or a log (default:
    /// unknown)
    #[arg(long, value_name = "STATE", value_parser = parse_state)]
    pub(crate) state: Option<State>,
    /// Property assumed for packets that do not have it themselves, such as ttl=64 or
    /// connection-status=0; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_detail)]
    pub(crate) with: Vec<(Detail, u64)>,
    /// Output format
    #[arg(long, value_enum, default_value_t = MatchFormat::Text)]
    pub(crate) format: MatchFormat,
    /// Print JSON: --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Print only packet and byte counts per rule
    #[arg(long)]
    pub(crate) summary: bool,
}

/// Accepts the names of these formats.
fn format_parser(formats: impl Iterator<Item = Format>) -> impl TypedValueParser<Value = Format> {
    let named = formats.map(|format| PossibleValue::new(format.name()).help(format.help()));
    let parser = PossibleValuesParser::new(named.collect::<Vec<_>>());
    parser.try_map(|name| Format::named(&name).ok_or("no such format"))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FamilyChoice {
    Ipv4,
    Ipv6,
}

impl From<FamilyChoice> for Family {
    fn from(choice: FamilyChoice) -> Family {
        match choice {
            FamilyChoice::Ipv4 => Family::Ipv4,
            FamilyChoice::Ipv6 => Family::Ipv6,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MatchFormat {
    /// Readable lines
    Text,
    /// Comma-separated values with a header
    Csv,
    /// One JSON object per line
    Json,
}

fn parse_protocol(text: &str) -> Result<u8, String> {
    names::protocol_number(text)
        .ok_or_else(|| "allowed: a protocol's name or number, such as tcp or 6".to_owned())
}

fn parse_state(text: &str) -> Result<State, String> {
    let allowed = "allowed: invalid, new, established, related, untracked";
    State::from_name(text).ok_or_else(|| allowed.to_owned())
}

fn parse_dscp(text: &str) -> Result<u8, String> {
    names::dscp_number(text).ok_or_else(|| "allowed: a class such as ef, or 0 to 63".to_owned())
}

fn parse_mark(text: &str) -> Result<u32, String> {
    names::parse_number(text).ok_or_else(|| "allowed: a number such as 1 or 0x10".to_owned())
}

fn parse_icmp(text: &str) -> Result<(u8, u8), String> {
    let (kind, code) = text.split_once('/').unwrap_or((text, "0"));
    kind.parse()
        .ok()
        .zip(code.parse().ok())
        .ok_or_else(|| "allowed: a type, or type and code, such as 8 or 3/1".to_owned())
}

fn parse_flags(text: &str) -> Result<u8, String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(names::tcp_flag).try_fold(0, |flags, flag| Some(flags | flag?)).ok_or_else(|| {
        "allowed: fin, syn, rst, psh, ack, urg, ece, cwr, with commas between them".to_owned()
    })
}

fn parse_detail(text: &str) -> Result<(Detail, u64), String> {
    let parsed = Detail::of_pair(text);
    parsed.ok_or_else(|| "allowed: a name and its value, such as ttl=64".to_owned())
}
