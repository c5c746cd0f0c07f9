//! Changes of sites by commands.
//!
//! For: adding, moving and removing sites of pools. Not for: what a change means (`site_changes`), nor
//! the health of sites (`site_health`).
//!
//! At the same time: changes exclude each other and reloads by `control`; readers never wait.

use std::borrow::Cow;

use whered_geo::Place;

use super::Engine;
use crate::error::WriteError;
use crate::generation::Generation;
use crate::log::Written;
use crate::operation::Operation;
use crate::pool::Site;

impl Engine {
    /// Adds a site to a pool, or replaces one; gives whether it is new.
    ///
    /// # Errors
    /// [`WriteError`]: no such pool, no address, or the journal refuses.
    pub fn put_site(&self, pool: &str, site: Site) -> Result<Written<bool>, WriteError> {
        let operation = Operation::PutSite { pool, site: Cow::Owned(site) };
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
        let (_passage, room) = self.log.enter(operation.size_bytes())?;
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
}
