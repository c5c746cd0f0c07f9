//! The flags of `whered rules` and `whered match`, defined once as all flags are.
//!
//! Not for doing anything. They stand apart from `cli` because that file has a reader's length.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use whered_rules::{Family, State, names};

use crate::cli::parse_address;

#[derive(Subcommand)]
pub(crate) enum RulesCommand {
    /// Say what is wrong, useless or doubtful in files of rules; exit code 1 if anything is
    /// useless or doubtful, 2 if anything is wrong
    Check(RulesCheckArguments),
    /// Ask rules about packets whose fate is written down; exit code 1 if any differs
    Test(RulesTestArguments),
    /// Say what becomes of one packet, and why no earlier rule decided
    Explain(RulesExplainArguments),
    /// Write rules in another format
    Convert(RulesConvertArguments),
}

/// How a file of rules is read.
#[derive(Args)]
pub(crate) struct ReadArguments {
    /// What the rules are written in; without it, their first line says so
    #[arg(long, value_enum, visible_alias = "from")]
    pub(crate) format: Option<RulesFormat>,
    /// The chain that packets enter; without it the file's own, input, or the first one
    #[arg(long, value_name = "NAME")]
    pub(crate) chain: Option<String>,
    /// The table that is read; without it filter of iptables, and the only one of nft
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// Leave the rules of iptables' other tables out, which may change what this one sees
    #[arg(long)]
    pub(crate) skip_tables: bool,
}

#[derive(Args)]
pub(crate) struct RulesCheckArguments {
    /// Files of rules; - for standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Database file that places in rules are found in (.mmdb or legacy GeoIP .dat); may be
    /// repeated
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(crate) db: Vec<String>,
    #[command(flatten)]
    pub(crate) read: ReadArguments,
}

#[derive(Args)]
pub(crate) struct RulesTestArguments {
    /// The rules
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// CSV whose header names the packet's fields and what is expected: verdict, line
    #[arg(value_name = "CASES")]
    pub(crate) cases: PathBuf,
    /// Database file that places in rules are found in (.mmdb or legacy GeoIP .dat); may be
    /// repeated
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(crate) db: Vec<String>,
    #[command(flatten)]
    pub(crate) read: ReadArguments,
}

#[derive(Args)]
pub(crate) struct RulesExplainArguments {
    /// The rules; - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Database file that places in rules are found in (.mmdb or legacy GeoIP .dat); may be
    /// repeated
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(crate) db: Vec<String>,
    #[command(flatten)]
    pub(crate) read: ReadArguments,
    /// Source address
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub(crate) src: IpAddr,
    /// Destination address
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub(crate) dst: IpAddr,
    /// Protocol, by name or number
    #[arg(long, value_name = "PROTOCOL", value_parser = parse_protocol)]
    pub(crate) proto: u8,
    /// Source port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) sport: u16,
    /// Destination port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) dport: u16,
    /// What connection tracking says: invalid, new, established, related or untracked
    #[arg(long, value_name = "STATE", default_value = "untracked", value_parser = parse_state)]
    pub(crate) state: State,
    /// Interface it comes in by
    #[arg(long = "in", value_name = "NAME", default_value = "")]
    pub(crate) input: String,
    /// Interface it leaves by
    #[arg(long = "out", value_name = "NAME", default_value = "")]
    pub(crate) output: String,
    /// DSCP, by class or number
    #[arg(long, value_name = "DSCP", default_value = "0", value_parser = parse_dscp)]
    pub(crate) dscp: u8,
    /// The mark that it carries
    #[arg(long, value_name = "MARK", default_value = "0", value_parser = parse_mark)]
    pub(crate) mark: u32,
    /// ICMP type and code, in numbers
    #[arg(long, value_name = "TYPE[/CODE]", default_value = "0", value_parser = parse_icmp)]
    pub(crate) icmp: (u8, u8),
    /// TCP flags that are set, separated by commas
    #[arg(long, value_name = "FLAG,FLAG", default_value = "", value_parser = parse_flags)]
    pub(crate) flags: u8,
}

#[derive(Args)]
pub(crate) struct RulesConvertArguments {
    /// The rules; - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) read: ReadArguments,
    /// What to write: whered's own format, for `iptables-restore` or `ip6tables-restore` and the
    /// sets beside it for `ipset restore`, or for `nft -f`
    #[arg(long, value_enum)]
    pub(crate) to: TargetFormat,
    /// Of which family iptables and ipset are written; without it the file's own
    #[arg(long, value_enum)]
    pub(crate) family: Option<FamilyChoice>,
}

#[derive(Args)]
pub(crate) struct MatchArguments {
    /// The rules
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: PathBuf,
    /// A capture (pcap, pcapng), Zeek's conn.log, or packets one a line: SRC DST PROTO [SPORT
    /// DPORT], of ICMP [TYPE/CODE]; or CSV whose header names the fields; each plain or packed by
    /// gzip or zstd; without it or with -, standard input
    #[arg(value_name = "FILE")]
    pub(crate) packets: Option<PathBuf>,
    /// Database file that places in rules are found in (.mmdb or legacy GeoIP .dat); may be
    /// repeated
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(crate) db: Vec<String>,
    /// What the rules are written in; without it, their first line says so
    #[arg(long, value_enum)]
    pub(crate) rules_format: Option<RulesFormat>,
    /// The chain that packets enter; without it the file's own, input, or the first one
    #[arg(long, value_name = "NAME")]
    pub(crate) chain: Option<String>,
    /// The table that is read; without it filter of iptables, and the only one of nft
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// Leave the rules of iptables' other tables out, which may change what this one sees
    #[arg(long)]
    pub(crate) skip_tables: bool,
    /// What connection tracking says of packets of a capture, which do not tell it
    #[arg(long, value_name = "STATE", default_value = "untracked", value_parser = parse_state)]
    pub(crate) state: State,
    /// How to print
    #[arg(long, value_enum, default_value_t = MatchFormat::Text)]
    pub(crate) format: MatchFormat,
    /// Print only how many packets and bytes each rule decided and noted
    #[arg(long)]
    pub(crate) summary: bool,
}

/// What rules are written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum RulesFormat {
    /// whered's own format
    Own,
    /// What `iptables-save` or `ip6tables-save` prints
    Iptables,
    /// What `nft -j list ruleset` prints
    Nft,
    /// ClassBench filters
    Classbench,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetFormat {
    Own,
    Iptables,
    Ipset,
    Nft,
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
    /// A line for people
    Text,
    /// Comma-separated values behind a line that names the columns
    Csv,
    /// One JSON object a line
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
