//! Pools and their sites: what the configuration describes and a generation serves.
//!
//! Not for: what commands change about them (`site_changes`), how one is chosen (`steering`).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use whered_dns::{Name, RecordType, Reflect};
use whered_geo::Place;
use whered_ip::Prefix;

use crate::steering::site_health::SiteHealth;

/// The most sites of one pool.
pub const SITES_PER_POOL_MAX: usize = 4096;

/// The most addresses of one site: more do not fit a DNS message that anybody takes.
pub const ADDRESSES_PER_SITE_MAX: usize = 64;

/// One place that answers are chosen from.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// The name, unique within its pool.
    pub name: String,
    /// Where it is; a site without a place is never the nearest while another has one.
    pub place: Option<Place>,
    /// What DNS answers for A and AAAA when it is chosen.
    pub addresses: Vec<IpAddr>,
    /// Whether it may be chosen: what `health` comes to.
    pub healthy: bool,
    /// Why it may be chosen or not.
    pub health: SiteHealth,
    /// What the configuration says beyond that.
    pub details: SiteDetails,
}

impl Site {
    /// A site of the plainest kind, in no group.
    pub fn new(name: impl Into<String>, place: Option<Place>, addresses: Vec<IpAddr>) -> Site {
        let details = SiteDetails::default();
        let health = SiteHealth::default();
        Site { name: name.into(), place, addresses, healthy: true, health, details }
    }

    /// Whether it may be chosen by a policy that asks for health.
    pub fn is_up(&self) -> bool {
        self.healthy
    }

    /// The group that it belongs to: its own name where none is given.
    pub fn group(&self) -> &str {
        self.details.group.as_deref().unwrap_or(&self.name)
    }
}

/// What only the configuration says about a site.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteDetails {
    /// The group that maps, rules and overrides may name in the place of its sites.
    pub group: Option<String>,
    /// How often it is chosen by the step `weighted`, relative to others.
    pub weight: u32,
    /// The largest share of answers that `weighted` gives it, above 0 and up to 1.
    pub capacity: Option<f64>,
    /// What it is an alias of, in the place of addresses.
    pub alias: Option<Name>,
    /// Records of other types that are answered when it is chosen: HTTPS, SVCB, TXT.
    pub records: Vec<(RecordType, Vec<u8>)>,
    /// The client's own address is answered.
    pub reflect: Option<Reflect>,
}

impl Default for SiteDetails {
    fn default() -> SiteDetails {
        let records = Vec::new();
        SiteDetails { group: None, weight: 1, capacity: None, alias: None, records, reflect: None }
    }
}

/// One step of a pool's policy.
#[derive(Clone, PartialEq, Debug)]
pub enum PolicyStep {
    /// A ruleset is asked; its verdict `site NAME` ends the choice, `drop` the query.
    Rules(String),
    /// The sites that a map lists for the client's country, continent or network remain.
    Map(Arc<MapSource>),
    /// Sites that are down are left out.
    Healthy,
    /// The sites at the smallest great-circle distances remain.
    Nearest,
    /// The first group of which this share is up remains.
    Failover {
        /// The share of the group's addresses, above 0 and up to 1.
        threshold: f64,
    },
    /// Sites are taken at random by their weights.
    Weighted {
        /// A client's network keeps its site while that is there; else each query is a new draw.
        is_sticky: bool,
    },
}

/// Which sites serve which places, in the order of preference.
///
/// The list of the smallest part that has one counts: a network, then a number of an autonomous
/// system, then a subdivision, a country, a continent, and the default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MapSource {
    /// The name by which policies call it; empty for a pool's own.
    pub name: String,
    /// The database of countries and continents; the one of clients' places when not named.
    pub database: Option<String>,
    /// The database of numbers of autonomous systems; the first that has them when not named.
    pub asn_database: Option<String>,
    /// For clients that no other list is for.
    pub default: Option<Vec<String>>,
    /// By `continent.code`.
    pub continents: BTreeMap<String, Vec<String>>,
    /// By `country.iso_code`.
    pub countries: BTreeMap<String, Vec<String>>,
    /// By `country.iso_code` and `subdivisions.0.iso_code`, such as `US-CA`.
    pub subdivisions: BTreeMap<String, Vec<String>>,
    /// By `autonomous_system_number`.
    pub asns: BTreeMap<u32, Vec<String>>,
    /// By the smallest network around the client.
    pub networks: Vec<(Prefix, Vec<String>)>,
}

impl MapSource {
    /// Every list with what it is for.
    pub fn lists(&self) -> impl Iterator<Item = (String, &Vec<String>)> {
        let named = |what: &'static str, lists: &'_ BTreeMap<String, Vec<String>>| {
            lists.keys().map(move |key| format!("{what} {key}")).collect::<Vec<_>>()
        };
        let texts = [
            ("subdivision", &self.subdivisions),
            ("country", &self.countries),
            ("continent", &self.continents),
        ];
        let texts = texts
            .into_iter()
            .flat_map(move |(what, lists)| named(what, lists).into_iter().zip(lists.values()));
        let networks = self.networks.iter().map(|(prefix, list)| (prefix.to_string(), list));
        let asns = self.asns.iter().map(|(number, list)| (format!("AS{number}"), list));
        let default = self.default.iter().map(|list| ("the default".to_owned(), list));
        networks.chain(asns).chain(texts).chain(default)
    }
}

/// What a pool answers when every site is down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenAllDown {
    /// As if all were up.
    All,
    /// No address at all.
    None,
}

/// Where a pool's sites are at every moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SitesFrom {
    /// The key of the collection, in the numbered database 0; its members are names of sites.
    pub collection: String,
    /// How old what is known of it may become.
    pub refresh: Duration,
}

/// A pool as the configuration describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSource {
    /// The name.
    pub name: String,
    /// The domain names that are answered from it.
    pub owners: Vec<String>,
    /// How a site is chosen, in order.
    pub policy: Vec<PolicyStep>,
    /// A prefix set whose values are names of sites or groups; it goes before the policy.
    pub overrides: Option<String>,
    /// A collection that says where sites are.
    pub sites_from: Option<SitesFrom>,
    /// How many sites are answered together, 1 to [`whered_dns::ANSWERS_MAX`].
    pub answers: usize,
    /// The TTL of its answers.
    pub ttl_seconds: u32,
    /// What happens when every site is down.
    pub when_all_down: WhenAllDown,
    /// The sites, in the order that breaks ties.
    pub sites: Vec<Site>,
}

impl PoolSource {
    /// A pool of the default policy: the nearest of the healthy sites.
    pub fn new(name: impl Into<String>, owners: Vec<String>, sites: Vec<Site>) -> PoolSource {
        PoolSource {
            name: name.into(),
            owners,
            policy: vec![PolicyStep::Healthy, PolicyStep::Nearest],
            overrides: None,
            sites_from: None,
            answers: 1,
            ttl_seconds: 30,
            when_all_down: WhenAllDown::All,
            sites,
        }
    }

    /// Whether a name is that of a site or a group.
    pub fn has_site_or_group(&self, name: &str) -> bool {
        self.sites.iter().any(|site| site.name == name || site.group() == name)
    }
}

/// A pool as one generation serves it: the configuration with all changes applied.
pub type Pool = PoolSource;
