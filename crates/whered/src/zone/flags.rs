//! The flags of `whered zone`, defined once as all flags are.
//!
//! Not for doing anything.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use whered_dns::Dnssec;

#[derive(Subcommand)]
pub(crate) enum ZoneCommand {
    /// Read master files as the server would; exit code 1 if anything is odd, 2 if anything is
    /// wrong
    Check(ZoneCheckArguments),
    /// Make a configuration and zones out of gdnsd's; nothing is written if anything in it has no
    /// counterpart
    ConvertGdnsd(ConvertGdnsdArguments),
}

#[derive(Args)]
pub(crate) struct ZoneCheckArguments {
    /// Master files; - for standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The zone's name; without it, the file's name without .zone or .db at its end
    #[arg(long, value_name = "NAME")]
    pub(crate) origin: Option<String>,
    /// What becomes of a signed zone, as `unsigned` of [[zone]] says it
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = UnsignedChoice::Refuse)]
    pub(crate) unsigned: UnsignedChoice,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum UnsignedChoice {
    /// It is wrong: it would be served without its signatures
    Refuse,
    /// Its DNSSEC records are left out
    Strip,
}

impl From<UnsignedChoice> for Dnssec {
    fn from(unsigned: UnsignedChoice) -> Dnssec {
        match unsigned {
            UnsignedChoice::Refuse => Dnssec::Refuse,
            UnsignedChoice::Strip => Dnssec::Strip,
        }
    }
}

#[derive(Args)]
pub(crate) struct ConvertGdnsdArguments {
    /// gdnsd's folder, such as /etc/gdnsd, or its configuration file
    #[arg(value_name = "CONFIG")]
    pub(crate) config: PathBuf,
    /// Where whered.toml and zones/ go; nothing there is replaced
    #[arg(value_name = "DIR")]
    pub(crate) out: PathBuf,
}
