//! The flags of `whered zone`, defined once as all flags are.
//!
//! Not for doing anything.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use whered_dns::Dnssec;

pub(crate) use super::key::KeyArguments;
use crate::server::RespServer;

#[derive(Subcommand)]
pub(crate) enum ZoneCommand {
    /// Check zone files as the server reads them
    ///
    /// Exit code 1 for remarks, 2 for errors.
    Check(ZoneCheckArguments),
    /// Convert a gdnsd configuration and its zones
    ///
    /// Nothing is written if any part has no counterpart: exit code 1.
    ConvertGdnsd(ConvertGdnsdArguments),
    /// Drop what updates (RFC 2136) have changed in a zone of a running server
    ///
    /// The zone is then as its file has it. Exit code 1 if no update has changed it.
    Discard(ZoneTransferArguments),
    /// Make, list and replace the keys that sign a zone
    ///
    /// 'rollover' makes a new key, and the server leads on from step to step. Once 'list' shows the
    /// step 'sign', give the parent zone the new DS that 'ds' prints. When all of its servers have
    /// it, run 'rollover' again with --ds-seen. Exit code 1 if 'list' or 'ds' finds no key.
    Key(KeyArguments),
    /// Ask the primaries of a secondary zone for a newer one
    Refresh(ZoneTransferArguments),
    /// Take a secondary zone whole from its primaries, whatever its serial
    Retransfer(ZoneTransferArguments),
}

#[derive(Args)]
pub(crate) struct ZoneTransferArguments {
    /// The zone's name
    #[arg(value_name = "ZONE")]
    pub(crate) zone: String,
    #[command(flatten)]
    pub(crate) server: RespServer,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ZoneCheckArguments {
    /// Zone files (RFC 1035); - for standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The zone's name; without it, the file's name without .zone or .db at its end
    #[arg(long, value_name = "NAME")]
    pub(crate) origin: Option<String>,
    /// How to treat a signed zone, like `unsigned` of [[zone]]
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = UnsignedChoice::Serve)]
    pub(crate) unsigned: UnsignedChoice,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum UnsignedChoice {
    /// Serve its signatures to who asks for them
    Serve,
    /// Report an error
    Refuse,
    /// Leave out its DNSSEC records
    Strip,
}

impl From<UnsignedChoice> for Dnssec {
    fn from(unsigned: UnsignedChoice) -> Dnssec {
        match unsigned {
            UnsignedChoice::Serve => Dnssec::Serve,
            UnsignedChoice::Refuse => Dnssec::Refuse,
            UnsignedChoice::Strip => Dnssec::Strip,
        }
    }
}

#[derive(Args)]
pub(crate) struct ConvertGdnsdArguments {
    /// gdnsd's folder, such as /etc/gdnsd, or its configuration file
    #[arg(required = true, num_args = 1..=2, value_name = "CONFIG")]
    pub(crate) paths: Vec<PathBuf>,
    /// Directory for whered.toml and zones/; a new or an empty one
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
