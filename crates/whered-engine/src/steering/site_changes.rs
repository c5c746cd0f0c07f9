//! What commands have changed about sites, laid over the configured pools.
//!
//! ```text
//! configuration: [pool] ──┐
//!                         ├──> Pool { sites in configuration order, then added ones by name }
//! SiteChanges: (pool, site) -> { put, place, override } ─┘
//! ```
//! Changes are kept in the journal and applied whenever a generation is built, so that they
//! survive a reload and a restart. One for a site that the configuration has dropped rests.
//! What probes have found is laid over them too, and is not kept: a start knows nothing of it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use whered_geo::Place;

use crate::error::WriteError;
use crate::journal::operation::Operation;
use crate::steering::pool::{ADDRESSES_PER_SITE_MAX, Pool, PoolSource, SITES_PER_POOL_MAX, Site};
use crate::steering::site_health::{HealthOverride, Probed};

/// What commands have changed, by pool and site.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteChanges {
    by_site: BTreeMap<(String, String), SiteChange>,
    /// By pool and site; sites without checks have none.
    probed: BTreeMap<String, BTreeMap<String, Probed>>,
}

#[derive(Clone, Debug, Default)]
struct SiteChange {
    /// The whole site, when it was put by command.
    put: Option<Site>,
    place: Option<Place>,
    manual: HealthOverride,
}

impl SiteChanges {
    /// The pool with every change applied.
    pub(crate) fn apply(&self, source: &PoolSource) -> Pool {
        let mut pool = source.clone();
        let first = (source.name.clone(), String::new());
        let changes = self.by_site.range(first..).take_while(|((pool, _), _)| *pool == source.name);
        for ((_, site_name), change) in changes {
            let known = pool.sites.iter().position(|site| site.name == *site_name);
            let index = match (known, &change.put) {
                (Some(index), Some(put)) => {
                    let details = pool.sites[index].details.clone();
                    pool.sites[index] = Site { details, ..put.clone() };
                    index
                }
                (Some(index), None) => index,
                (None, Some(put)) => {
                    pool.sites.push(put.clone());
                    pool.sites.len() - 1
                }
                // The configuration has dropped the site since: its changes rest.
                (None, None) => continue,
            };
            let site = &mut pool.sites[index];
            site.place = change.place.or(site.place);
            site.health.manual = change.manual;
        }
        let probed = self.probed.get(&source.name);
        for site in &mut pool.sites {
            let probed = probed.and_then(|probed| probed.get(&site.name));
            site.health.probed = probed.copied().unwrap_or_default();
            site.healthy = site.health.is_up();
        }
        pool
    }

    /// Records an operation; gives `false` when it is none about sites.
    pub(crate) fn record(&mut self, operation: &Operation<'_>) -> bool {
        match operation {
            Operation::PutSite { pool, site, place, healthy, addresses } => {
                // The override alone says whether it is healthy.
                let manual = if *healthy { HealthOverride::Auto } else { HealthOverride::Down };
                let put = Some(Site::new(*site, *place, addresses.to_vec()));
                *self.entry(pool, site) = SiteChange { put, place: None, manual };
            }
            Operation::MoveSite { pool, site, place } => {
                self.entry(pool, site).place = Some(*place);
            }
            Operation::OverrideSite { pool, site, code } => {
                self.entry(pool, site).manual = HealthOverride::from_code(*code);
            }
            Operation::RemoveSite { pool, site } => {
                self.by_site.remove(&((*pool).to_owned(), (*site).to_owned()));
            }
            _ => return false,
        }
        true
    }

    /// Operations that record all of this again.
    pub(crate) fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        self.by_site.iter().flat_map(|((pool, site), change)| {
            let put = change.put.as_ref().map(|put| Operation::PutSite {
                pool,
                site,
                place: put.place,
                healthy: put.healthy,
                addresses: put.addresses.as_slice().into(),
            });
            let moved = change.place.map(|place| Operation::MoveSite { pool, site, place });
            let (code, is_manual) = (change.manual.code(), change.manual != HealthOverride::Auto);
            let manual = is_manual.then_some(Operation::OverrideSite { pool, site, code });
            put.into_iter().chain(moved).chain(manual)
        })
    }

    /// Notes what probes say of a site; gives whether that is new.
    pub(crate) fn note_probe(&mut self, pool: &str, site: &str, probed: Probed) -> bool {
        let of_pool = self.probed.get_mut(pool);
        if probed == Probed::Unchecked {
            return of_pool.is_some_and(|of_pool| of_pool.remove(site).is_some());
        }
        let of_pool = match of_pool {
            Some(of_pool) => of_pool,
            None => self.probed.entry(pool.to_owned()).or_default(),
        };
        of_pool.insert(site.to_owned(), probed) != Some(probed)
    }

    fn entry(&mut self, pool: &str, site: &str) -> &mut SiteChange {
        self.by_site.entry((pool.to_owned(), site.to_owned())).or_default()
    }

    /// Whether an operation may be recorded, given the configured pools.
    ///
    /// # Errors
    /// `NoSuch` for an unknown pool or site; `Refused` for one site too many, for addresses that
    /// are none, too many or repeated, and for removing a site that the configuration defines.
    pub(crate) fn check(
        &self,
        operation: &Operation<'_>,
        pools: &[PoolSource],
    ) -> Result<(), WriteError> {
        let (pool_name, site_name) = match operation {
            Operation::PutSite { pool, site, .. }
            | Operation::MoveSite { pool, site, .. }
            | Operation::OverrideSite { pool, site, .. }
            | Operation::RemoveSite { pool, site } => (*pool, *site),
            _ => return Ok(()),
        };
        let missing = |what, name: &str| WriteError::NoSuch { what, name: name.to_owned() };
        let source = pools.iter().find(|pool| pool.name == pool_name);
        let source = source.ok_or_else(|| missing("pool", pool_name))?;
        let configured = source.sites.iter().any(|site| site.name == site_name);
        let put = self.by_site.get(&(pool_name.to_owned(), site_name.to_owned()));
        let put = put.is_some_and(|change| change.put.is_some());
        match operation {
            Operation::PutSite { site, addresses, .. } => {
                check_addresses(site, addresses)?;
                let is_new = !configured && !put;
                if is_new && self.apply(source).sites.len() >= SITES_PER_POOL_MAX {
                    return Err(WriteError::Refused(format!(
                        "pool '{pool_name}' is full; allowed: {SITES_PER_POOL_MAX} sites"
                    )));
                }
                Ok(())
            }
            _ if !configured && !put => Err(missing("site", site_name)),
            Operation::RemoveSite { .. } if !put => Err(WriteError::Refused(format!(
                "site '{site_name}' is defined by the configuration; take it down instead, or remove it there"
            ))),
            _ => Ok(()),
        }
    }
}

fn check_addresses(name: &str, addresses: &[IpAddr]) -> Result<(), WriteError> {
    let count = addresses.len();
    if count == 0 {
        return Err(WriteError::Refused(format!("site '{name}' needs at least one address")));
    }
    if count > ADDRESSES_PER_SITE_MAX {
        return Err(WriteError::Refused(format!(
            "site '{name}' has {count} addresses; allowed: {ADDRESSES_PER_SITE_MAX}"
        )));
    }
    let earlier = |at: usize| &addresses[..at];
    match addresses.iter().enumerate().find(|(at, address)| earlier(*at).contains(address)) {
        Some((_, address)) => Err(WriteError::Refused(format!(
            "site '{name}' has the address {address} twice; allowed: every address once"
        ))),
        None => Ok(()),
    }
}
