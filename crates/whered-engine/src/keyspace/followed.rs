//! Which keys are followed from other servers, and where they lie.
//!
//! For: looking a client's key up in the database of the link that follows it, and refusing writes
//! to it. Not for: how a link learns of changes (the server), how far it is (`positions`).
//!
//! ```text
//! client's (number, key) ─ does a route name it? ─ no ──> the number itself
//!                               └ yes ─> the link of its slot's owner, else the first that has it
//!                                             └─> served_number(link)
//! ```
//!
//! A link's changes go to its served number. A full synchronization fills its load number, and both
//! are exchanged when it is complete: readers see all of it or nothing. What lies in a load number
//! is of no worth after a start.
//!
//! While a link's primary imports a slot, its keys are not there for clients (`imports`).
//!
//! Invariant: routes change while nobody else is inside the gate, so an operation sees one set of
//! them. Cost: without routes one relaxed load; with them a pattern match for each route of the
//! database, and with several links that have data a probe of each until one has the key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;

use super::positions::{Position, Positions};
use super::slots::{SlotOwners, key_slot};
use super::{DATABASE_COUNT, Keyspace, LINKS_MAX, number_byte, served_number};
use crate::error::WriteError;
use crate::glob;
use crate::journal::numbers::link_of;
use crate::journal::watch::WATCHED;

/// Keys of one database that are followed.
#[derive(Clone, Debug)]
pub struct Route {
    /// The clients' database.
    pub database: usize,
    /// Glob patterns as those of `KEYS`; a key that one of them matches is followed.
    pub patterns: Vec<Vec<u8>>,
    /// The links that may have the keys.
    pub links: Vec<usize>,
    /// Which link follows the owner of a key's slot, if the links are those of a cluster.
    pub slots: Option<Arc<SlotOwners>>,
}

/// Whose a key is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyRole {
    /// It belongs to clients, who may write to it.
    Own,
    /// It is followed from another server, and clients may read it.
    Followed,
    /// It is followed, and its link has no data yet.
    Awaited,
}

impl Route {
    fn names(&self, number: usize, key: &[u8]) -> bool {
        let matches = |pattern: &Vec<u8>| glob::matches(pattern, key);
        self.database == number && self.patterns.iter().any(matches)
    }

    /// The link of the key's slot, if it is one of the route's.
    fn owner(&self, key: &[u8]) -> Option<usize> {
        let link = self.slots.as_ref()?.link(key_slot(key))?;
        self.links.contains(&link).then_some(link)
    }

    /// The link that has the key, or is the one to have it.
    fn link_of(&self, key: &[u8], has: impl Fn(usize) -> bool) -> Option<usize> {
        let [first, others @ ..] = &self.links[..] else {
            return None;
        };
        if others.is_empty() {
            return Some(*first);
        }
        let owner = self.owner(key);
        let first = owner.unwrap_or(*first);
        // While a slot moves, its keys are with two owners.
        let may_have = |link: &usize| {
            let others = self.slots.as_ref().filter(|_| owner.is_some());
            others.is_none_or(|slots| slots.may_have_others(*link))
        };
        let in_order = std::iter::once(first).chain(self.links.iter().copied().filter(may_have));
        Some(in_order.into_iter().find(|link| has(*link)).unwrap_or(first))
    }
}

/// The routes, and how far the links are.
pub(super) struct FollowedKeys {
    has_routes: AtomicBool,
    routes: ArcSwap<Vec<Route>>,
    /// By link: whether its served number has what its primary has, or had.
    has_data: [AtomicBool; LINKS_MAX],
    pub(super) positions: Positions,
}

impl Default for FollowedKeys {
    fn default() -> FollowedKeys {
        FollowedKeys {
            has_routes: AtomicBool::new(false),
            routes: ArcSwap::default(),
            has_data: std::array::from_fn(|_| AtomicBool::new(false)),
            positions: Positions::default(),
        }
    }
}

impl FollowedKeys {
    /// The routes, if there are any that this number may be of. The caller has passed the gate.
    #[inline]
    fn routes(&self, number: usize) -> Option<arc_swap::Guard<Arc<Vec<Route>>>> {
        let has_routes = number < DATABASE_COUNT && self.has_routes.load(Ordering::Relaxed);
        has_routes.then(|| self.routes.load())
    }

    /// Where a key lies that a client asks for; `has` says whether a number has it. `None` when it
    /// lies nowhere, because no link follows it yet.
    #[inline]
    pub(super) fn number_of(
        &self,
        number: usize,
        key: &[u8],
        has: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let Some(routes) = self.routes(number) else {
            return Some(number);
        };
        match routes.iter().find(|route| route.names(number, key)) {
            None => Some(number),
            Some(route) => route.link_of(key, |link| has(served_number(link))).map(served_number),
        }
    }

    /// The numbers in which a database's keys may lie, ascending.
    pub(super) fn numbers_of(&self, number: usize) -> Vec<usize> {
        let mut numbers = vec![number];
        if let Some(routes) = self.routes(number) {
            let routes = routes.iter().filter(|route| route.database == number);
            numbers.extend(routes.flat_map(|route| &route.links).map(|link| served_number(*link)));
            numbers.sort_unstable();
            numbers.dedup();
        }
        numbers
    }

    pub(super) fn set_has_data(&self, link: usize, has_data: bool) {
        self.has_data[link].store(has_data, Ordering::Relaxed);
    }

    fn has_data(&self, link: usize) -> bool {
        self.has_data[link].load(Ordering::Relaxed)
    }

    /// Whether all links of a route have data.
    fn is_complete(&self, route: &Route) -> bool {
        !route.links.is_empty() && route.links.iter().all(|link| self.has_data(*link))
    }
}

impl Keyspace {
    /// Puts routes in the place of those that there are. Where several name a key, the first
    /// counts. Own keys that a route names are hidden: see [`Keyspace::hidden_key`].
    ///
    /// # Panics
    /// When a link is not below [`LINKS_MAX`], or a database not below [`DATABASE_COUNT`].
    pub fn set_routes(&self, routes: Vec<Route>) {
        for Route { database, links, .. } in &routes {
            assert!(*database < DATABASE_COUNT, "clients have databases 0 to 15");
            assert!(links.iter().all(|link| *link < LINKS_MAX), "links are 0 to 63");
        }
        let _alone = self.log.gate().exclusive();
        self.put_routes(routes);
    }

    /// As [`Keyspace::set_routes`], for a caller that is alone inside the gate.
    pub(super) fn put_routes(&self, routes: Vec<Route>) {
        let links =
            routes.iter().filter(|route| route.database == WATCHED).flat_map(|it| &it.links);
        let shown = links.map(|link| number_byte(served_number(*link)));
        self.log.watch().show(shown);
        for number in (0..LINKS_MAX).map(served_number) {
            let is_importing = !self.shared(number).imports().is_empty();
            self.log.watch().set_importing(number_byte(number), is_importing);
        }
        self.followed.has_routes.store(!routes.is_empty(), Ordering::Relaxed);
        self.followed.routes.store(Arc::new(routes));
    }

    /// The routes.
    pub fn routes(&self) -> Arc<Vec<Route>> {
        self.followed.routes.load_full()
    }

    /// An own key that a route names, and its database. O(own keys).
    pub fn hidden_key(&self) -> Option<(usize, Vec<u8>)> {
        let _guard = self.log.gate().shared();
        let hidden = |number: usize| {
            let routes = self.followed.routes(number)?;
            let keys = self.shared(number);
            let is_named = |key: &[u8]| routes.iter().any(|route| route.names(number, key));
            let key = keys.entries.keys().find(|key| is_named(key))?;
            Some((number, key.to_vec()))
        };
        (0..DATABASE_COUNT).find_map(hidden)
    }

    /// How far the link is that follows a client's key; `None` for own keys, and while there are no
    /// data.
    pub fn position_of(&self, number: usize, key: &[u8]) -> Option<Position> {
        let guard = self.log.gate().shared();
        let link = link_of(number_byte(self.number_of(number, key)?))?;
        drop(guard);
        self.positions().into_iter().find(|position| position.link == link)
    }

    /// Whose a key is. Without routes one relaxed load.
    pub fn role_of(&self, number: usize, key: &[u8]) -> KeyRole {
        let _guard = self.log.gate().shared();
        let Some(routes) = self.followed.routes(number) else {
            return KeyRole::Own;
        };
        let Some(route) = routes.iter().find(|route| route.names(number, key)) else {
            return KeyRole::Own;
        };
        let has_key = |link: &usize| self.shared(served_number(*link)).shows(key);
        let is_known = match route.owner(key) {
            Some(owner) => self.followed.has_data(owner),
            None => self.followed.is_complete(route),
        };
        match is_known || route.links.iter().any(has_key) {
            true => KeyRole::Followed,
            false => KeyRole::Awaited,
        }
    }

    /// Whether there are any routes. One relaxed load.
    #[inline]
    pub fn has_routes(&self) -> bool {
        self.followed.has_routes.load(Ordering::Relaxed)
    }

    /// Whether keys of a database are followed by a link that has no data yet: then nobody knows
    /// which keys there are.
    pub fn is_awaited(&self, number: usize) -> bool {
        let _guard = self.log.gate().shared();
        let is_awaited =
            |route: &Route| route.database == number && !self.followed.is_complete(route);
        self.followed.routes(number).is_some_and(|routes| routes.iter().any(is_awaited))
    }

    /// The slot of a followed key and where clients find its owner, if it is a cluster's.
    pub fn slot_owner(&self, number: usize, key: &[u8]) -> Option<(u16, String)> {
        let _guard = self.log.gate().shared();
        let routes = self.followed.routes(number)?;
        let route = routes.iter().find(|route| route.names(number, key))?;
        let slot = key_slot(key);
        Some((slot, route.slots.as_ref()?.address(slot)?))
    }

    /// The clients' database in which the keys of a number are shown: itself, or for a link's that
    /// of a route.
    pub fn shown_in(&self, number: usize) -> Option<usize> {
        if number < DATABASE_COUNT {
            return Some(number);
        }
        let routes = self.routes();
        let has = |route: &&Route| route.links.iter().any(|link| served_number(*link) == number);
        routes.iter().find(has).map(|route| route.database)
    }

    /// Where a key lies that a client asks for. The caller has passed the gate, and holds no map.
    #[inline]
    pub(super) fn number_of(&self, number: usize, key: &[u8]) -> Option<usize> {
        let has = |number: usize| self.shared(number).shows(key);
        self.followed.number_of(number, key, has)
    }

    /// Refuses a client's write to a followed key. The caller has passed the gate.
    #[inline]
    pub(super) fn check_own(&self, number: usize, key: &[u8]) -> Result<(), WriteError> {
        match self.followed.routes(number) {
            Some(routes) if routes.iter().any(|route| route.names(number, key)) => {
                Err(WriteError::Followed)
            }
            _ => Ok(()),
        }
    }

    /// Refuses a client's write to a whole database of which keys are followed, or to all. The
    /// caller has passed the gate.
    pub(super) fn check_own_database(&self, number: Option<usize>) -> Result<(), WriteError> {
        if self.is_followed_database(number) { Err(WriteError::Followed) } else { Ok(()) }
    }

    fn is_followed_database(&self, number: Option<usize>) -> bool {
        let of = |route: &Route| number.is_none_or(|number| route.database == number);
        let routes = self.followed.routes(number.unwrap_or(0));
        routes.is_some_and(|routes| routes.iter().any(of))
    }
}

#[cfg(test)]
#[path = "followed_tests.rs"]
mod tests;
