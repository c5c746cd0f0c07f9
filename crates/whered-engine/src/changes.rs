//! What commands have changed about things that generations are built from.
//!
//! For: keeping it through restarts: operations are recorded here when they are made or replayed, and
//! written out again for snapshots. Not for: applying it (`site_changes`, `rulesets`).
//! Cost: a copy costs a pointer for each ruleset.

use crate::operation::Operation;
use crate::rulesets::kept::KeptRules;
use crate::site_changes::SiteChanges;

/// Changes of sites, and rulesets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) sites: SiteChanges,
    pub(crate) rules: KeptRules,
}

impl Changes {
    /// Records an operation; gives `false` when it is about neither.
    ///
    /// # Errors
    /// A change of a ruleset that cannot be made: one line.
    pub(crate) fn record(&mut self, operation: &Operation<'_>) -> Result<bool, String> {
        Ok(self.sites.record(operation) || self.rules.record(operation)?)
    }

    /// Operations that record all of this again.
    pub(crate) fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        self.sites.operations().chain(self.rules.operations())
    }
}
