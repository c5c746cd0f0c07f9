//! What the configuration says about transfers: keys, primaries, who may have a zone.
//!
//! Not for: reading the file (`config`).

use std::net::{IpAddr, SocketAddr};

use whered_dns::Name;
use whered_dns::transfer::TsigKey;
use whered_engine::CatalogMembership;
use whered_engine::ip::Prefix;

use super::policies::UpdatePolicy;

/// The most bytes of records that a transfer may bring, unless a zone says otherwise.
pub(crate) const TRANSFER_SIZE_MAX: usize = 1 << 30;

/// How many zones a catalog may have, unless it says otherwise.
pub(crate) const MEMBERS_MAX: usize = 100_000;

/// Keys, zones and catalogs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferOptions {
    /// `[[tsig_key]]`.
    pub keys: Vec<TsigKey>,
    /// `[[zone]]` of which something is transferred, and the zones of `[[catalog]]`.
    pub zones: Vec<ZoneTransfers>,
    /// `[[catalog]]`.
    pub catalogs: Vec<CatalogOptions>,
}

/// A catalog zone (RFC 9432).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogOptions {
    /// Its name as the configuration has it.
    pub name: String,
    /// Its name as it is compared.
    pub origin: Name,
    /// Where its members come from.
    pub content: CatalogContent,
}

/// Where the members of a catalog come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogContent {
    /// From other servers; they are served here.
    Followed(FollowedCatalog),
    /// They are zones of the configuration, each with its group.
    Made(Vec<(Name, Option<String>)>),
}

/// A catalog that other servers give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedCatalog {
    /// How many members it may have.
    pub members_max: usize,
    /// What holds for members.
    pub members: MemberSettings,
    /// What holds for members of a group, in its place.
    pub groups: Vec<(String, MemberSettings)>,
}

/// What members of a catalog have to do with other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSettings {
    /// Where they come from.
    pub primaries: Vec<Remote>,
    /// Who may have them.
    pub allow: Vec<Recipient>,
    /// Who is told when one changes.
    pub notify: Vec<Remote>,
    /// The most bytes of records that a transfer may bring.
    pub size_max_bytes: usize,
}

/// What a zone has to do with other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneTransfers {
    /// Its name as the configuration has it.
    pub name: String,
    /// Its name as it is compared.
    pub origin: Name,
    /// Where it comes from; none: from its file.
    pub primaries: Vec<Remote>,
    /// Who may have it.
    pub allow: Vec<Recipient>,
    /// Who is told when it changes.
    pub notify: Vec<Remote>,
    /// The most bytes of records that a transfer may bring.
    pub size_max_bytes: usize,
    /// What others get in the place of pools' answers.
    pub pools: PoolsInTransfer,
    /// Who may change it by UPDATE.
    pub updates: Vec<UpdatePolicy>,
    /// Of a catalog that is followed, how many members it may have.
    pub members_max: Option<usize>,
    /// The catalog that it is a member of.
    pub member: Option<CatalogMembership>,
}

impl ZoneTransfers {
    /// Whether others may have the zone or are told of it.
    pub(crate) fn is_given(&self) -> bool {
        !self.allow.is_empty() || !self.notify.is_empty()
    }

    /// Whether somebody may have it.
    pub(crate) fn allows(&self, source: IpAddr, key: Option<&Name>) -> bool {
        self.allow.iter().any(|allowed| match allowed {
            Recipient::Prefix(prefix) => prefix.contains(source.to_canonical()),
            Recipient::Key(name) => key == Some(name),
        })
    }

    /// Whether somebody may say that it has changed.
    pub(crate) fn may_notify(&self, source: IpAddr, key: Option<&Name>) -> bool {
        self.primaries.iter().any(|primary| {
            primary.address.ip().to_canonical() == source.to_canonical()
                || (key.is_some() && primary.key.as_ref().map(TsigKey::name) == key)
        })
    }
}

/// Another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Where it listens.
    pub address: SocketAddr,
    /// What messages to it are signed with.
    pub key: Option<TsigKey>,
}

/// Who may have a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// Anybody with such an address.
    Prefix(Prefix),
    /// Anybody with the key of this name.
    Key(Name),
}

/// What others get in the place of pools' answers, which differ by client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PoolsInTransfer {
    /// A zone with pools is not given.
    #[default]
    Refuse,
    /// The answers of all sites together.
    All,
    /// The answer of the site of this name, which each pool of the zone must have.
    Site(String),
}
