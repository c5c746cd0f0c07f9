//! Whether a site may be chosen: what its probes say, and what a person has said against them.
//!
//! Not for: asking sites (the server's probes do, and tell here).
//!
//! ```text
//! probes ──set_probe_results──> probed: unchecked, unknown, up, down ─┐
//! SITE.DOWN, .UP, .AUTO ──────> manual: auto, down, up ───────────────┴─> healthy
//! ```
//! The override is in the journal and survives a restart; what probes have found does not, since
//! it is out of date by then. Nothing known yet counts as up.
//!
//! Cost of telling many results: the sites of the pools that change, once each; a generation is
//! made that shares all else, and a pool's steering is kept where the choice stays as it is.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::engine::Engine;
use crate::error::WriteError;
use crate::log::Written;
use crate::operation::Operation;

/// What the probes of a site say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Probed {
    /// The site has no checks.
    #[default]
    Unchecked,
    /// No check has ended yet.
    Unknown,
    /// It answers as it should.
    Up,
    /// It does not.
    Down,
}

impl Probed {
    /// The word for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Probed::Unchecked => "unchecked",
            Probed::Unknown => "unknown",
            Probed::Up => "up",
            Probed::Down => "down",
        }
    }
}

/// What a person has said about a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HealthOverride {
    /// Nothing: probes decide.
    #[default]
    Auto,
    /// Down whatever probes say.
    Down,
    /// Up whatever probes say.
    Up,
}

impl HealthOverride {
    /// The word for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            HealthOverride::Auto => "auto",
            HealthOverride::Down => "down",
            HealthOverride::Up => "up",
        }
    }

    /// What the journal has. Its first two are those of a time without probes.
    pub(crate) fn code(self) -> u8 {
        match self {
            HealthOverride::Down => 0,
            HealthOverride::Up => 1,
            HealthOverride::Auto => 2,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<HealthOverride> {
        let all = [HealthOverride::Down, HealthOverride::Up, HealthOverride::Auto];
        all.get(usize::from(code)).copied()
    }
}

/// Why a site may be chosen or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SiteHealth {
    /// What its probes say.
    pub probed: Probed,
    /// What a person has said.
    pub manual: HealthOverride,
}

impl SiteHealth {
    /// Whether the site may be chosen.
    pub fn is_up(self) -> bool {
        match self.manual {
            HealthOverride::Auto => self.probed != Probed::Down,
            HealthOverride::Down => false,
            HealthOverride::Up => true,
        }
    }
}

/// What is known of one site now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeResult<'a> {
    /// The pool's name.
    pub pool: &'a str,
    /// The site's name.
    pub site: &'a str,
    /// What its probes say.
    pub probed: Probed,
}

impl Engine {
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
        let written = self.change_site(pool, &Operation::OverrideSite { pool, site, to })?;
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
