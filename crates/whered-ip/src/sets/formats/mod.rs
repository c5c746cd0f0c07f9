//! The texts that sets of addresses come in.
//!
//! For: bytes in, entries out, each as it was written. Not for: files, networks, compressed bytes,
//! or merging.
//!
//! ```text
//! plain    192.0.2.0/24, 192.0.2.5-192.0.2.9, 192.0.2.1     one a line, # and ; begin comments:
//!                                                           FireHOL's .netset and .ipset
//! ipset    create s hash:net ...  /  add s 192.0.2.0/24 timeout 60 comment "x"   (ipset save)
//! nft      elements = { 192.0.2.0/24, 192.0.2.5-192.0.2.9 timeout 1h comment "x" }
//! nft-json {"nftables": [{"set": {"elem": ["192.0.2.1", {"prefix": {...}}, {"range": [...]}]}}]}
//! csv      network,geoname_id,...                            (every table: see there)
//! json     ["192.0.2.0/24", {"prefix": "192.0.2.1", "value": "x", "seconds": 60}], or by a path
//! ...      what providers, registries and other programs publish: FORMATS
//! ```
//!
//! `SetReading` says how a text is read; what it leaves open, `guess` finds out. A guess that is
//! doubtful is refused with the formats that it may be.
//! A text of several sets is refused unless one is named (`named`).
//! A text is read to its end or to its first mistake; what was given before the mistake is the
//! caller's to drop. Nothing is skipped silently but comments, blank lines and, in the formats that
//! describe sets, what does not belong to an element.
//!
//! Concurrency: plain functions. Cost: a plain list takes some 20 ns a line and allocates nothing.

mod access;
mod bgpdump;
mod blocks;
mod csv;
mod dshield;
mod error;
mod guess;
mod hosts;
mod ipset;
mod json;
mod lines;
mod named;
mod nft;
mod peers;
mod plain;
mod reading;
mod rir;
mod write;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::Block;
use blocks::{ADDRESS, block_at, block_of, list_block_at};
pub use csv::{BlockColumns, Column};
pub use error::SetTextError;
pub use json::{JsonPaths, Provider};
pub use reading::{SetOption, SetReading, read_set};
pub use write::SetWriter;

/// The block that a word of a list is.
pub(crate) fn list_block(word: &[u8]) -> Option<Block> {
    block_of(word, true).ok()
}

/// A format of set texts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SetFormat {
    /// One block a line, with comments.
    Plain,
    /// The output of `ipset save`.
    Ipset,
    /// Elements as `nft list set` writes them.
    Nft,
    /// Elements as `nft -j list set` writes them.
    NftJson,
    /// A table, such as MaxMind's CSV files of blocks; the first column after the network is the
    /// value.
    Csv,
    /// An array of texts or of objects, or any JSON with a path.
    Json,
    /// One JSON text a line.
    Ndjson,
    /// The JSON of a provider.
    Provider(Provider),
    /// DShield's block list.
    Dshield,
    /// PeerGuardian's lists, `NAME:FIRST-LAST`.
    P2p,
    /// eMule's `ipfilter.dat`.
    Dat,
    /// `delegated` files of the regional internet registries.
    Rir,
    /// Routes as `bgpdump -m` writes them.
    Bgpdump,
    /// Files of hosts, such as `/etc/hosts`.
    Hosts,
    /// `deny` and `allow` of nginx.
    Nginx,
    /// `Require ip`, `Deny from` and `Allow from` of Apache.
    Apache,
}

/// The names of the formats.
const FORMATS: [(&str, SetFormat); 24] = [
    ("plain", SetFormat::Plain),
    ("ipset", SetFormat::Ipset),
    ("nft", SetFormat::Nft),
    ("nft-json", SetFormat::NftJson),
    ("csv", SetFormat::Csv),
    ("json", SetFormat::Json),
    ("ndjson", SetFormat::Ndjson),
    ("aws", SetFormat::Provider(Provider::Aws)),
    ("gcp", SetFormat::Provider(Provider::Gcp)),
    ("azure", SetFormat::Provider(Provider::Azure)),
    ("cloudflare", SetFormat::Provider(Provider::Cloudflare)),
    ("github", SetFormat::Provider(Provider::Github)),
    ("fastly", SetFormat::Provider(Provider::Fastly)),
    ("oracle", SetFormat::Provider(Provider::Oracle)),
    ("spamhaus-drop", SetFormat::Provider(Provider::SpamhausDrop)),
    ("crowdsec", SetFormat::Provider(Provider::Crowdsec)),
    ("dshield", SetFormat::Dshield),
    ("p2p", SetFormat::P2p),
    ("dat", SetFormat::Dat),
    ("rir", SetFormat::Rir),
    ("bgpdump", SetFormat::Bgpdump),
    ("hosts", SetFormat::Hosts),
    ("nginx", SetFormat::Nginx),
    ("apache", SetFormat::Apache),
];

impl FromStr for SetFormat {
    type Err = String;

    /// Reads a format's name: `plain`, `ipset`, `nft`, `nft-json`, `csv`, `json`, `ndjson`, `aws`
    /// and so on.
    fn from_str(name: &str) -> Result<SetFormat, String> {
        let known = FORMATS.iter().find(|(known, _)| *known == name);
        known.map(|(_, format)| *format).ok_or_else(|| {
            format!("{name:?} is no format of sets: allowed is {}", SetFormat::list_of_names())
        })
    }
}

impl fmt::Display for SetFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl SetFormat {
    /// The format's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let known = FORMATS.iter().find(|(_, format)| *format == self);
        known.map_or("plain", |(name, _)| name)
    }

    /// The names of all formats.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FORMATS.iter().map(|(name, _)| *name)
    }

    /// The names of all formats, with commas between them.
    #[must_use]
    pub fn list_of_names() -> String {
        FORMATS.map(|(known, _)| known).join(", ")
    }

    /// Whether a text of this format is a list, not what a kernel has.
    fn is_list(self) -> bool {
        !matches!(self, SetFormat::Ipset | SetFormat::Nft | SetFormat::NftJson)
    }

    fn is_json(self) -> bool {
        matches!(self, SetFormat::Json | SetFormat::Ndjson | SetFormat::Provider(_))
    }
}

/// One entry of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetEntry<'a> {
    /// The block, as it was written.
    pub block: Block,
    /// Its value or comment, if it has one.
    pub value: Option<Cow<'a, [u8]>>,
    /// How long it lasts, if it ends.
    pub ttl_seconds: Option<u64>,
}

impl From<Block> for SetEntry<'_> {
    fn from(block: Block) -> Self {
        SetEntry { block, value: None, ttl_seconds: None }
    }
}

#[cfg(test)]
#[path = "formats_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "samples_tests.rs"]
mod samples_tests;
