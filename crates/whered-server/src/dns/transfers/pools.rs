//! A zone as others get it: with records in the place of pools, whose answers differ by client.
//!
//! Not for: who may have it. Cost: a zone without pools is given as it is; another is built anew
//! when it or one of its pools changes, on a thread of its own.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use whered_dns::{Dnssec, Name, RecordType, Zone, ZoneRecord};
use whered_engine::{Generation, Pool, Site};

use super::options::PoolsInTransfer;
use super::times::now_seconds;

/// What a zone was made of, and what it was made; the default is of nothing.
#[derive(Clone, Default)]
pub(super) struct GivenCopy(Option<Arc<MadeCopy>>);

struct MadeCopy {
    zone: Arc<Zone>,
    pools: Vec<Arc<Pool>>,
    mode: PoolsInTransfer,
    made: Result<Arc<Zone>, String>,
}

impl GivenCopy {
    /// Makes the zone with records in the place of its pools.
    pub(super) fn make(
        zone: &Arc<Zone>,
        pools: Vec<Arc<Pool>>,
        mode: &PoolsInTransfer,
    ) -> GivenCopy {
        let made = with_records(zone, &pools, mode).map(Arc::new);
        let (zone, mode) = (Arc::clone(zone), mode.clone());
        GivenCopy(Some(Arc::new(MadeCopy { zone, pools, mode, made })))
    }

    /// Whether it was made of these.
    pub(super) fn is_of(
        &self,
        zone: &Arc<Zone>,
        pools: &[Arc<Pool>],
        mode: &PoolsInTransfer,
    ) -> bool {
        self.0.as_ref().is_some_and(|own| {
            // Health makes new pools whose records are as they were.
            let same = |(one, other): (&Arc<Pool>, &Arc<Pool>)| is_same_pool(one, other);
            Arc::ptr_eq(&own.zone, zone)
                && own.mode == *mode
                && own.pools.len() == pools.len()
                && own.pools.iter().zip(pools).all(same)
        })
    }

    /// Whether it was made in this way.
    pub(super) fn is_for(&self, mode: &PoolsInTransfer) -> bool {
        self.0.as_ref().is_some_and(|own| own.mode == *mode)
    }

    /// The zone that was made.
    ///
    /// # Errors
    /// One line: why it is not given.
    pub(super) fn zone(&self) -> Result<Arc<Zone>, String> {
        let own = self.0.as_ref().ok_or("it has not been made yet")?;
        own.made.clone()
    }
}

fn is_same_pool(one: &Pool, other: &Pool) -> bool {
    let content = |pool: &Pool| {
        let of_site = |site: &Site| {
            (
                site.name.clone(),
                site.addresses.clone(),
                site.details.alias.clone(),
                site.details.records.clone(),
            )
        };
        let sites: Vec<_> = pool.sites.iter().map(of_site).collect();
        (pool.owners.clone(), pool.ttl_seconds, sites)
    };
    content(one) == content(other)
}

/// The pools whose owners are names of this zone, and not of one below it.
pub(super) fn pools_in(generation: &Generation, origin: &Name) -> Vec<Arc<Pool>> {
    let is_here =
        |pool: &&Arc<Pool>| pool.owners.iter().any(|owner| is_owner(generation, origin, owner));
    generation.pools().iter().filter(is_here).cloned().collect()
}

/// The zones in which pools answer.
pub(super) fn zones_with_pools(generation: &Generation) -> HashSet<Name> {
    let owners = generation.pools().iter().flat_map(|pool| &pool.owners);
    owners.filter_map(|owner| zone_of(generation, owner)).collect()
}

fn is_owner(generation: &Generation, origin: &Name, owner: &str) -> bool {
    zone_of(generation, owner).is_some_and(|zone| zone == *origin)
}

/// The zone that has a name.
fn zone_of(generation: &Generation, owner: &str) -> Option<Name> {
    let above = std::iter::successors(owner.parse::<Name>().ok(), Name::parent);
    above.into_iter().find(|name| generation.zones().zone(name).is_some())
}

/// Makes the zone.
fn with_records(zone: &Zone, pools: &[Arc<Pool>], mode: &PoolsInTransfer) -> Result<Zone, String> {
    if *mode == PoolsInTransfer::Refuse {
        let name = &pools.first().map_or("", |pool| &pool.name);
        return Err(format!(
            "it has the pool '{name}', whose answers differ by client; transfer = \"all\" or \
             \"site NAME\" in its [[zone]] says what others get"
        ));
    }
    if zone.first_expiry_seconds(now_seconds()).is_some() {
        return Err(
            "it is signed and has pools, whose records others would get unsigned".to_owned()
        );
    }
    let mut added: Vec<ZoneRecord> = Vec::new();
    for pool in pools {
        let sites = match mode {
            PoolsInTransfer::Site(name) => {
                let site = pool.sites.iter().find(|site| site.name == *name);
                let missing = || format!("its pool '{}' has no site '{name}'", pool.name);
                vec![site.ok_or_else(missing)?]
            }
            _ => pool.sites.iter().collect(),
        };
        for owner in &pool.owners {
            let owner: Name = owner.parse().map_err(|error| format!("{owner}: {error}"))?;
            if owner.is_within(zone.origin()) {
                add_sites(&mut added, &owner, pool, &sites)?;
            }
        }
    }
    let owners: HashSet<&Name> = added.iter().map(|record| &record.owner).collect();
    let is_hidden = |record: &ZoneRecord| {
        matches!(record.record_type, RecordType::A | RecordType::AAAA)
            && owners.contains(&record.owner)
    };
    let own = zone.records().filter(|record| !is_hidden(record));
    let records: Vec<ZoneRecord> = own.chain(added.iter().cloned()).collect();
    let source = "a transfer with pools";
    Zone::from_records(zone.origin(), source, Dnssec::Serve, records)
        .map_err(|error| error.to_string())
}

/// Adds what sites answer together.
fn add_sites(
    added: &mut Vec<ZoneRecord>,
    owner: &Name,
    pool: &Pool,
    sites: &[&Site],
) -> Result<(), String> {
    for site in sites {
        let mut put = |record_type: RecordType, data: &[u8]| {
            let ttl_seconds = pool.ttl_seconds;
            let data = data.into();
            let record = ZoneRecord { owner: owner.clone(), record_type, ttl_seconds, data };
            if !added.contains(&record) {
                added.push(record);
            }
        };
        for address in &site.addresses {
            match address {
                IpAddr::V4(address) => put(RecordType::A, &address.octets()),
                IpAddr::V6(address) => put(RecordType::AAAA, &address.octets()),
            }
        }
        for (record_type, data) in &site.details.records {
            put(*record_type, data);
        }
        if let Some(alias) = &site.details.alias {
            if sites.len() > 1 {
                let name = &pool.name;
                return Err(format!(
                    "its pool '{name}' has aliases, of which a name can have one; \
                     transfer = \"site NAME\" chooses"
                ));
            }
            put(RecordType::CNAME, alias.as_wire());
        }
    }
    Ok(())
}
