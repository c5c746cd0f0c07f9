//! Pools and their sites: what the configuration describes and a generation serves.
//!
//! Not for: what commands change about them (`site_changes`), how one is chosen (`steering`).

use std::net::IpAddr;

use whered_geo::Place;

use crate::site_health::SiteHealth;

/// The most sites of one pool. Steering's memo tells up to 65,534 apart.
pub const SITES_PER_POOL_MAX: usize = 4096;

/// The most addresses of one site: more do not fit a DNS message that anybody takes.
pub const ADDRESSES_PER_SITE_MAX: usize = 64;

/// One place that answers are chosen from.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// The name, unique within its pool.
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// What DNS answers when it is chosen; at least one.
    pub addresses: Vec<IpAddr>,
    /// Whether it may be chosen: what `health` comes to.
    pub healthy: bool,
    /// Why it may be chosen or not.
    pub health: SiteHealth,
}

/// One step of a pool's policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicyStep {
    /// Sites that are down are left out.
    Healthy,
    /// The site at the smallest great-circle distance wins.
    Nearest,
}

/// What a pool answers when every site is down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenAllDown {
    /// As if all were up.
    All,
    /// No address at all.
    None,
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
    /// The TTL of its answers.
    pub ttl_seconds: u32,
    /// What happens when every site is down.
    pub when_all_down: WhenAllDown,
    /// The sites, in the order that breaks ties.
    pub sites: Vec<Site>,
}

/// A pool as one generation serves it: the configuration with all changes applied.
pub type Pool = PoolSource;
