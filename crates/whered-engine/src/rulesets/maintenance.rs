//! What becomes of a ruleset between its compilations: changes, folding, planning.
//!
//! For: the order in which editions follow each other. Not for: threads (the server has one that
//! calls `Engine::maintain_rules` at the lowest priority), nor for what a change is
//! (`engine/rules.rs`).
//!
//! ```text
//! change ──> edition over the same compilation ──> stored            microseconds
//! 32 changes, or none for two seconds ──> fold: compile all, put in what came meanwhile ──> stored
//! nothing changes ──> plan: look for a faster form, a second at a time, 15 seconds in all
//! ```
//!
//! Invariants: an edition is stored while `maintenance` is held, so that none is lost; compiling is
//! done without it, and what changed meanwhile is put in again; a ruleset that was compiled
//! otherwise meanwhile keeps that.
//! Cost: two compilations' memory while folding.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use whered_rules::RulesError;
use whered_rules::live::Change;

use super::counters::Totals;
use super::{Background, CompileContext, Edition, NamedRuleset, NumberedRuleset, PLAN_TIME};

/// From this many changes on they are compiled into the rest.
const COMPACT_AT: usize = 32;
/// With more, a change is answered when all is compiled anew: lookups would be too slow.
pub(super) const CHANGES_MAX: usize = 512;
/// Fewer changes are folded, and better forms looked for, when nothing has changed for so long.
const QUIET: Duration = Duration::from_secs(2);
/// How long a good plan is looked for when somebody waits for a change.
const CHANGE_PLAN_TIME: Duration = Duration::from_millis(100);
/// How long a better form is looked for at once, and in all.
const PLAN_STEP: Duration = Duration::from_secs(1);
const PLAN_ALL: Duration = Duration::from_secs(15);

/// What changes together with a ruleset's edition.
#[derive(Debug)]
pub(super) struct Maintenance {
    pub(super) totals: Totals,
    /// What was changed since folding began; `None` when it is not under way.
    since: Option<Vec<Change>>,
    /// One more at each compilation.
    compilation: u64,
    changed_at: Option<Instant>,
    is_planned: bool,
    background: Background,
}

impl Maintenance {
    pub(super) fn new(totals: Totals) -> Maintenance {
        Maintenance {
            totals,
            since: None,
            compilation: 0,
            changed_at: None,
            is_planned: false,
            background: Background::default(),
        }
    }

    pub(super) fn background(&self) -> Background {
        Background { is_folding: self.since.is_some(), ..self.background }
    }

    /// Another compilation takes an edition's place.
    fn compiled(&mut self, old: &Edition) {
        let tallies: HashMap<u32, u32> = old.tallies();
        self.totals.settle(&|number| tallies.contains_key(&number));
        self.totals.retire(Arc::clone(&old.counters), tallies);
        self.compilation += 1;
        self.is_planned = false;
        self.background.planned = Duration::ZERO;
    }
}

impl Edition {
    /// Tallies by number, the policy's with them.
    fn tallies(&self) -> HashMap<u32, u32> {
        self.live.tally_of_rules().chain([(super::POLICY, 0)]).collect()
    }
}

impl NamedRuleset {
    /// Makes a change that the draft has already; `numbered` gives the draft's rules where all has
    /// to be compiled anew. Gives how many changes wait for being folded.
    ///
    /// # Errors
    /// Only the whole shows that it cannot be; nothing is changed then.
    pub(crate) fn apply(
        &self,
        change: &Change,
        context: &CompileContext<'_>,
        numbered: impl FnOnce() -> Result<NumberedRuleset, RulesError>,
    ) -> Result<usize, RulesError> {
        let mut maintenance = self.maintenance();
        let edition = self.edition.load_full();
        let next = match edition.changed(change) {
            Some(next) => {
                if let Some(since) = &mut maintenance.since {
                    since.push(change.clone());
                }
                next
            }
            None => {
                let next = Edition::compile(numbered()?, context, CHANGE_PLAN_TIME)?;
                maintenance.compiled(&edition);
                next
            }
        };
        if let Change::Replace { number, .. } = change {
            maintenance.totals.begin(*number);
        }
        maintenance.changed_at = Some(Instant::now());
        let waiting = next.live.changes();
        self.edition.store(Arc::new(next));
        Ok(waiting)
    }

    /// Goes on counting where another compilation of the same rules has stopped.
    pub(crate) fn inherit(&self, old: &NamedRuleset) {
        let mut before = old.maintenance();
        let edition = old.edition.load_full();
        let mut totals = std::mem::take(&mut before.totals);
        totals.retire(Arc::clone(&edition.counters), edition.tallies());
        // A thread that compacts the old one must not go on with it.
        before.compilation += 1;
        drop(before);
        self.maintenance().totals = totals;
    }

    fn is_compaction_due(&self) -> bool {
        let maintenance = self.maintenance();
        let waiting = self.edition.load().live.changes();
        let is_quiet = maintenance.changed_at.is_none_or(|at| at.elapsed() >= QUIET);
        maintenance.since.is_none() && (waiting >= COMPACT_AT || (waiting > 0 && is_quiet))
    }

    fn is_plan_due(&self) -> bool {
        let maintenance = self.maintenance();
        let is_quiet = maintenance.changed_at.is_none_or(|at| at.elapsed() >= QUIET);
        is_quiet && !maintenance.is_planned && self.edition.load().live.changes() == 0
    }

    /// Compiles what was changed into the rest.
    fn compact(&self) {
        let (edition, compilation) = {
            let mut maintenance = self.maintenance();
            maintenance.since = Some(Vec::new());
            (self.edition.load_full(), maintenance.compilation)
        };
        let (ruleset, numbers) = edition.live.to_ruleset();
        let numbered = NumberedRuleset { ruleset: Arc::new(ruleset), numbers };
        let compiled = Edition::compile(numbered, &edition.context(self.options), PLAN_TIME);
        let mut maintenance = self.maintenance();
        let since = maintenance.since.take().unwrap_or_default();
        let next = compiled.ok().filter(|_| maintenance.compilation == compilation);
        let again = |next: Edition, change: &Change| next.changed(change);
        // What cannot be put in again will be folded with the rest the next time.
        let Some(next) = next.and_then(|next| since.iter().try_fold(next, again)) else {
            return;
        };
        let current = self.edition.load_full();
        maintenance.compiled(&current);
        maintenance.background.folds += 1;
        self.edition.store(Arc::new(next));
    }

    /// Looks for a faster form for a while.
    fn plan(&self) {
        let (edition, compilation) = {
            let maintenance = self.maintenance();
            (self.edition.load_full(), maintenance.compilation)
        };
        let mut matcher = edition.live.matcher().clone();
        let start = Instant::now();
        let found = matcher.plan_more(PLAN_STEP, &|| start.elapsed());
        let mut maintenance = self.maintenance();
        maintenance.background.planned += start.elapsed();
        if maintenance.compilation != compilation {
            return;
        }
        maintenance.background.improvements += u64::from(found);
        maintenance.is_planned = matcher.is_planned() || maintenance.background.planned >= PLAN_ALL;
        let current = self.edition.load_full();
        self.edition.store(Arc::new(current.with(current.live.with_plan(matcher))));
    }
}

/// Does one piece of what rulesets need in the background; gives whether there was anything to do.
pub(crate) fn maintain(rulesets: &[Arc<NamedRuleset>]) -> bool {
    if let Some(named) = rulesets.iter().find(|named| named.is_compaction_due()) {
        named.compact();
        return true;
    }
    match rulesets.iter().find(|named| named.is_plan_due()) {
        Some(named) => named.plan(),
        None => return false,
    }
    true
}

/// Whether this many changes are folded without waiting for a quiet moment.
pub(crate) fn is_compaction_due_at(changes: usize) -> bool {
    changes >= COMPACT_AT
}
