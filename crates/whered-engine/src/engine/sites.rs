//! Changes of sites by commands.
//!
//! For: adding, moving and removing sites of pools, and their health. Not for: what a change means
//! (`steering/site_changes.rs`), nor what health is (`steering/site_health.rs`).
//!
//! At the same time: changes exclude each other and reloads by `control`; readers never wait.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use whered_geo::Place;

use super::Engine;
use crate::error::WriteError;
use crate::generation::Generation;
use crate::journal::log::Written;
use crate::journal::operation::Operation;
use crate::steering::pool::Site;
use crate::steering::site_health::{HealthOverride, ProbeResult, Probed};

impl Engine {
    /// Adds a site to a pool, or replaces one; gives whether it is new. Its details are those of
    /// the configuration, or none.
    ///
    /// # Errors
    /// [`WriteError`]: no such pool, no address, or the journal refuses.
    pub fn put_site(&self, pool: &str, site: Site) -> Result<Written<bool>, WriteError> {
        let Site { name, place, healthy, addresses, .. } = site;
        let addresses = addresses.into();
        let operation = Operation::PutSite { pool, site: &name, place, healthy, addresses };
        let Written { value: more_sites, ticket } = self.change_site(pool, &operation)?;
        Ok(Written { value: more_sites > 0, ticket })
    }

    /// Moves a site.
    ///
    /// # Errors
    /// As [`Engine::put_site`], and `NoSuch` for an unknown site.
    pub fn move_site(
        &self,
        pool: &str,
        site: &str,
        place: Place,
    ) -> Result<Written<()>, WriteError> {
        let written = self.change_site(pool, &Operation::MoveSite { pool, site, place })?;
        Ok(Written { value: (), ticket: written.ticket })
    }

    /// Removes a site that a command has added.
    ///
    /// # Errors
    /// As [`Engine::move_site`], and `Refused` for a site of the configuration.
    pub fn remove_site(&self, pool: &str, site: &str) -> Result<Written<()>, WriteError> {
        let written = self.change_site(pool, &Operation::RemoveSite { pool, site })?;
        Ok(Written { value: (), ticket: written.ticket })
    }

    /// Changes one site and gives how many sites more the pool has now.
    pub(crate) fn change_site(
        &self,
        pool: &str,
        operation: &Operation<'_>,
    ) -> Result<Written<isize>, WriteError> {
        let (_guard, room) = self.log.enter(operation.size_bytes())?;
        let mut control = self.control();
        control.changes.sites.check(operation, &control.setup.pools)?;
        let mut changes = control.changes.sites.clone();
        changes.record(operation);
        let current = self.generation();
        let index = current.pool_index(pool).expect("check() has found the pool in the setup");
        let next = current
            .with_changed_pool(index, changes.apply(&control.setup.pools[index]))
            .map_err(|error| WriteError::Refused(error.to_string()))?;
        let count = |generation: &Generation| generation.pools()[index].sites.len() as isize;
        let more_sites = count(&next) - count(&current);
        control.changes.sites = changes;
        self.serve(next);
        Ok(Written { value: more_sites, ticket: room.append(operation) })
    }

    /// Takes a site down or up by hand, or leaves it to its probes again.
    ///
    /// # Errors
    /// As [`Engine::move_site`].
    pub fn override_site(
        &self,
        pool: &str,
        site: &str,
        to: HealthOverride,
    ) -> Result<Written<()>, WriteError> {
        let written =
            self.change_site(pool, &Operation::OverrideSite { pool, site, code: to.code() })?;
        Ok(Written { value: (), ticket: written.ticket })
    }

    /// Takes what probes have found of many sites, and serves it at once. Gives how many sites
    /// may be chosen now and could not before, or the other way round. One of a pool or site that
    /// is not there (any more) is left out. Nothing of this is kept over a restart.
    pub fn set_probe_results(&self, results: &[ProbeResult<'_>]) -> usize {
        let mut control = self.control();
        let current = self.generation();
        let mut changed = BTreeSet::new();
        let mut names: BTreeMap<usize, HashSet<&str>> = BTreeMap::new();
        for result in results {
            let index = current.pool_index(result.pool);
            let is_there = index.is_some_and(|index| {
                let of_pool = || current.pools()[index].sites.iter();
                let names = names.entry(index);
                let names = names.or_insert_with(|| of_pool().map(|site| &*site.name).collect());
                names.contains(result.site)
            });
            // A result is forgotten also when its site is gone.
            if !is_there && result.probed != Probed::Unchecked {
                continue;
            }
            let is_new = control.changes.sites.note_probe(result.pool, result.site, result.probed);
            changed.extend(index.filter(|_| is_new));
        }
        if changed.is_empty() {
            return 0;
        }
        let mut turned = 0;
        let apply = |index: usize| {
            let pool = control.changes.sites.apply(&control.setup.pools[index]);
            let before = current.pools()[index].sites.iter();
            turned +=
                before.zip(&pool.sites).filter(|(old, new)| old.healthy != new.healthy).count();
            (index, pool)
        };
        let pools = changed.into_iter().map(apply).collect();
        self.serve(current.with_site_health(pools));
        turned
    }
}
