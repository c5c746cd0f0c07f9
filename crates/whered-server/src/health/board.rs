//! What the last probes of each site have found, for people and Prometheus.
//!
//! Not for: the choice of sites, which goes by what the engine was told.
//! At the same time: one lock for all, held for a copy or a count.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use whered_engine::sync;

use whered_engine::Probed;

use super::probe::Failure;

/// What is known of one site's checks.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteReport {
    /// What all of them come to.
    pub(crate) probed: Probed,
    /// The checks as they are written, with what the last probe of each has found.
    pub(crate) checks: Vec<CheckReport>,
}

/// What is known of one check.
#[derive(Clone, Debug)]
pub(crate) struct CheckReport {
    /// What is asked.
    pub(crate) target: String,
    /// After hysteresis.
    pub(crate) probed: Probed,
    /// What the last probe has found; empty before the first.
    pub(crate) last: String,
    /// When that was, in milliseconds since 1970; 0: never.
    pub(crate) at_millis: u64,
    /// How long the last one took.
    pub(crate) took: Duration,
    /// How long all took.
    pub(crate) took_in_all: Duration,
    /// Good answers, wrong ones, and those that were too late.
    pub(crate) counts: [u64; 3],
}

/// The names of [`CheckReport::counts`].
pub(crate) const RESULTS: [&str; 3] = ["good", "failed", "timeout"];

impl CheckReport {
    pub(super) fn new(target: String) -> CheckReport {
        CheckReport {
            target,
            probed: Probed::Unknown,
            last: String::new(),
            at_millis: 0,
            took: Duration::ZERO,
            took_in_all: Duration::ZERO,
            counts: [0; 3],
        }
    }
}

/// Pool and site.
pub(super) type SiteKey = (Arc<str>, Arc<str>);

/// The reports of all sites with checks.
#[derive(Debug, Default)]
pub struct HealthBoard {
    sites: Mutex<BTreeMap<SiteKey, SiteReport>>,
}

impl HealthBoard {
    /// The report of one site, if it has checks.
    pub(crate) fn site(&self, pool: &str, site: &str) -> Option<SiteReport> {
        self.sites().get(&(pool.into(), site.into())).cloned()
    }

    /// All reports by pool and site.
    pub(crate) fn all(&self) -> BTreeMap<SiteKey, SiteReport> {
        self.sites().clone()
    }

    pub(super) fn put(&self, key: SiteKey, report: SiteReport) {
        self.sites().insert(key, report);
    }

    pub(super) fn remove(&self, key: &SiteKey) {
        self.sites().remove(key);
    }

    /// Notes what a probe has found; gives what the site's checks come to, if that is new.
    pub(super) fn note(
        &self,
        key: &SiteKey,
        check: usize,
        found: &Result<(), Failure>,
        probed: Probed,
        (at_millis, took): (u64, Duration),
    ) -> Option<Probed> {
        let mut sites = self.sites();
        let site = sites.get_mut(key)?;
        let report = site.checks.get_mut(check)?;
        let (result, last) = match found {
            Ok(()) => (0, "good"),
            Err(failure @ Failure::Wrong(_)) => (1, failure.reason()),
            Err(failure @ Failure::Overdue(_)) => (2, failure.reason()),
        };
        report.counts[result] += 1;
        last.clone_into(&mut report.last);
        (report.probed, report.at_millis, report.took) = (probed, at_millis, took);
        report.took_in_all += took;
        let all = together(site.checks.iter().map(|check| check.probed));
        (std::mem::replace(&mut site.probed, all) != all).then_some(all)
    }

    fn sites(&self) -> MutexGuard<'_, BTreeMap<SiteKey, SiteReport>> {
        sync::lock(&self.sites)
    }
}

/// One that is down takes the site down; all must be known to bring it up.
fn together(checks: impl Iterator<Item = Probed>) -> Probed {
    checks.fold(Probed::Up, |all, one| match (all, one) {
        (Probed::Down, _) | (_, Probed::Down) => Probed::Down,
        (Probed::Unknown, _) | (_, Probed::Unknown) => Probed::Unknown,
        _ => all,
    })
}
