//! Named rulesets: from files or by command, compiled with the places of this generation's
//! databases, changed rule by rule while packets are matched.
//!
//! For: which rule a packet meets, by name of the ruleset. Not for: formats and the classifier
//! (`whered-rules`), captures.
//!
//! ```text
//! file or command ──> Ruleset ──(places of the databases)──> Edition ──(swapped by pointer)──> readers
//! packet ──> Edition, live prefix sets ──> Decision, counters
//! ```
//!
//! Invariants: a generation's rulesets are compiled with that generation's databases; live sets are
//! looked up for each packet, so that a change of a set decides at once. Readers never wait: they
//! take the edition that stands; who changes it holds `maintenance`.
//! Cost: compiling takes up to [`PLAN_TIME`] a ruleset; a match costs what `whered-rules` says, a
//! lookup in each live set that the ruleset asks for, and an addition for each counter.

pub(crate) mod command_rules;
pub(crate) mod counters;
mod files;
pub(crate) mod maintenance;
mod places;
pub(crate) mod references;
mod sources;

use std::cell::OnceCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use whered_rules::classify::plan::Budget;
use whered_rules::live::{Change, Decision, LiveRules};
use whered_rules::naive::{self, RuleAnswer, Sets};
use whered_rules::{
    Counters as Count, Family, Format, Packet, Predicate, ReadOptions, Rule, RulesError, Ruleset,
    Test, flat, text,
};

use crate::clock;
use crate::databases::{DatabaseStatus, FileState, NamedDatabase, ReloadMode};
use crate::error::EngineError;
use crate::prefix_sets::PrefixSets;
use crate::sync;
use counters::{Counters, POLICY, Totals, VERDICTS};
pub use files::FilePlaces;
use maintenance::Maintenance;
use places::DatabasePlaces;

pub use references::RuleReferences;
pub(crate) use sources::SourceInputs;

/// How long a good plan may take to be found before the ruleset serves.
const PLAN_TIME: Duration = Duration::from_millis(500);

/// What compiled rulesets may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RulesOptions {
    /// Bytes of one ruleset's compiled form for each family; building it may take twice as many for
    /// a while. Where no faster form fits, hash tables stand, whatever they take.
    pub memory_bytes: usize,
}

impl Default for RulesOptions {
    fn default() -> RulesOptions {
        RulesOptions { memory_bytes: 256 << 20 }
    }
}

/// A ruleset to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesetSource {
    /// The name that questions use.
    pub name: String,
    /// The file: whered's own format, `iptables-save`, `nft -j list ruleset` or ClassBench.
    pub path: PathBuf,
    /// Whether it follows its file.
    pub reload: ReloadMode,
}

impl RulesetSource {
    /// A ruleset that follows its file.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> RulesetSource {
        RulesetSource { name: name.into(), path: path.into(), reload: ReloadMode::Notify }
    }
}

/// The number of the next edition: microseconds since 1970, or one more than the last.
fn next_version() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
    let next = |last: u64| Some(now.max(last.saturating_add(1)));
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_default();
    now.max(last.saturating_add(1))
}

/// What a ruleset is compiled with.
#[derive(Clone)]
pub(crate) struct CompileContext<'a> {
    pub(crate) databases: &'a [Arc<NamedDatabase>],
    /// The one that predicates mean which name none.
    pub(crate) default: Option<usize>,
    pub(crate) options: RulesOptions,
}

/// A ruleset and the numbers of its rules, read and not compiled.
#[derive(Clone)]
pub(crate) struct NumberedRuleset {
    pub(crate) ruleset: Arc<Ruleset>,
    pub(crate) numbers: Vec<u32>,
}

impl NumberedRuleset {
    /// The rules numbered as they are written.
    pub(crate) fn as_written(ruleset: Arc<Ruleset>) -> NumberedRuleset {
        let numbers = (1..=ruleset.rules().len() as u32).collect();
        NumberedRuleset { ruleset, numbers }
    }
}

/// A file, read.
#[derive(Clone)]
pub(crate) struct ReadFile {
    pub(crate) source: RulesetSource,
    pub(crate) state: FileState,
    pub(crate) status: Arc<DatabaseStatus>,
    pub(crate) ruleset: Arc<Ruleset>,
}

/// Where a ruleset is from.
#[derive(Clone, Debug)]
pub struct RulesetFile {
    /// What the configuration says.
    pub source: RulesetSource,
    /// The file that was read.
    pub state: FileState,
    /// What became of its reloads.
    pub status: Arc<DatabaseStatus>,
}

/// A compiled ruleset and its name.
#[derive(Debug)]
pub struct NamedRuleset {
    /// The name that questions use.
    pub name: String,
    /// Its file; `None` for one that was set by command.
    pub file: Option<RulesetFile>,
    /// How long compiling took before it served.
    pub compile_time: Duration,
    edition: ArcSwap<Edition>,
    maintenance: Mutex<Maintenance>,
    options: RulesOptions,
}

/// A ruleset at one moment: take it once for a packet or a batch, and for what is told about it.
#[derive(Debug)]
pub struct Edition {
    live: LiveRules,
    counters: Arc<Counters>,
    databases: Vec<Arc<NamedDatabase>>,
    default: Option<usize>,
    version: u64,
}

impl NamedRuleset {
    pub(crate) fn compile_file(
        file: &ReadFile,
        context: &CompileContext<'_>,
    ) -> Result<NamedRuleset, EngineError> {
        let ReadFile { source, state, status, ruleset } = file.clone();
        let numbered = NumberedRuleset::as_written(ruleset);
        let name = source.name.clone();
        let mut named = NamedRuleset::compile(&name, numbered, context).map_err(|e| refused(&e))?;
        named.file = Some(RulesetFile { source, state, status });
        Ok(named)
    }

    /// Compiles a ruleset; what its rules have counted when they were written is where they start.
    pub(crate) fn compile(
        name: &str,
        numbered: NumberedRuleset,
        context: &CompileContext<'_>,
    ) -> Result<NamedRuleset, RulesError> {
        let start = Instant::now();
        let mut totals = Totals::default();
        let NumberedRuleset { ruleset, numbers } = &numbered;
        for (rule, &number) in ruleset.rules().iter().zip(numbers) {
            if let Some(count) = rule.counters {
                totals.start(number, count);
            }
        }
        if let Some(count) = ruleset.chain(ruleset.entry()).counters {
            totals.start(POLICY, count);
        }
        let edition = Edition::compile(numbered, context, PLAN_TIME)?;
        Ok(NamedRuleset {
            name: name.to_owned(),
            file: None,
            compile_time: start.elapsed(),
            edition: ArcSwap::from_pointee(edition),
            maintenance: Mutex::new(Maintenance::new(totals)),
            options: context.options,
        })
    }

    /// Compiles the ruleset again with the places of other databases; its counters start where they
    /// are.
    pub(crate) fn compile_again(
        &self,
        context: &CompileContext<'_>,
    ) -> Result<NamedRuleset, EngineError> {
        let start = Instant::now();
        let edition = self.edition.load_full();
        let (ruleset, numbers) = edition.live.to_ruleset();
        let numbered = NumberedRuleset { ruleset: Arc::new(ruleset), numbers };
        let next = Edition::compile(numbered, context, PLAN_TIME).map_err(|e| refused(&e))?;
        Ok(NamedRuleset {
            name: self.name.clone(),
            file: self.file.clone(),
            compile_time: start.elapsed(),
            edition: ArcSwap::from_pointee(next),
            // What was counted is taken over when it serves.
            maintenance: Mutex::new(Maintenance::new(Totals::default())),
            options: self.options,
        })
    }

    /// The conditions of its rules that no database can answer, such as a mistyped field, each with
    /// its place. Costs a walk over a database for each field that no record has.
    pub fn wrong_places(&self) -> Vec<String> {
        self.edition().wrong_places()
    }

    /// The prefix sets of the server that its rules name. Costs a copy of the ruleset.
    pub fn sets(&self) -> Vec<String> {
        references::sets_of(&self.edition().live.to_ruleset().0)
    }

    /// The ruleset as it is now.
    pub fn edition(&self) -> Arc<Edition> {
        self.edition.load_full()
    }

    /// Whether this is the ruleset as it is now.
    #[inline]
    pub(crate) fn is_at(&self, edition: &Arc<Edition>) -> bool {
        Arc::ptr_eq(&self.edition.load(), edition)
    }

    /// Which rule a packet meets; counts it, with this many bytes.
    pub fn find(&self, packet: &Packet<'_>, bytes: u64, sets: &PrefixSets) -> Decision {
        self.edition.load().find(packet, bytes, sets)
    }

    /// Whether it asks for places, which a reload of a database changes.
    pub(crate) fn has_places(&self) -> bool {
        // A place that no compiled rule asks for is never in a rule put in since.
        has_places(self.edition.load().live.compiled_ruleset())
    }

    /// What each rule has counted, by its number in the order of the chains, and the policy of the
    /// chain that packets enter; with `reset` it is told and then forgotten.
    pub fn counts(&self, reset: bool) -> (Vec<(u32, Count)>, Count) {
        let mut maintenance = self.maintenance();
        let edition = self.edition.load_full();
        let tallies: HashMap<u32, u32> = edition.live.tally_of_rules().collect();
        maintenance.totals.settle(&|number| tallies.contains_key(&number));
        let (_, numbers) = edition.live.to_ruleset();
        let mut take = |number: u32, tally: u32| {
            let count = maintenance.totals.of(&edition.counters, number, tally);
            if reset {
                maintenance.totals.forget(number, count);
            }
            count
        };
        let policy = take(POLICY, 0);
        let told = numbers.iter().map(|number| (*number, take(*number, tallies[number])));
        (told.collect(), policy)
    }

    /// How many packets had each verdict; never reset.
    pub fn verdicts(&self) -> [(&'static str, Count); VERDICTS.len()] {
        let maintenance = self.maintenance();
        let counts = maintenance.totals.by_verdict(&self.edition.load().counters);
        std::array::from_fn(|verdict| (VERDICTS[verdict], counts[verdict]))
    }

    /// What is done about it in the background.
    pub fn background(&self) -> Background {
        self.maintenance().background()
    }

    /// Whether this is the same file in the same state, compiled with what is there now.
    pub(crate) fn is_of(&self, read: &ReadFile, context: &CompileContext<'_>) -> bool {
        let same = |file: &RulesetFile| file.source == read.source && file.state == read.state;
        self.file.as_ref().is_some_and(same) && self.is_fit_for(context)
    }

    /// Whether nothing would be compiled otherwise.
    pub(crate) fn is_fit_for(&self, context: &CompileContext<'_>) -> bool {
        !self.has_places() && self.options == context.options
    }

    /// Whether this is another compilation of the same rules.
    pub(crate) fn continues(&self, old: &Arc<NamedRuleset>) -> bool {
        let same_file = match (&self.file, &old.file) {
            (None, None) => true,
            (Some(new), Some(old)) => new.source.path == old.source.path,
            _ => false,
        };
        let is_other = !std::ptr::eq(self, Arc::as_ptr(old));
        is_other && same_file && self.edition().to_ruleset() == old.edition().to_ruleset()
    }

    /// What it is compiled with.
    pub fn options(&self) -> RulesOptions {
        self.options
    }

    fn maintenance(&self) -> MutexGuard<'_, Maintenance> {
        sync::lock(&self.maintenance)
    }
}

/// What the background has done for a ruleset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Background {
    /// How often changes were compiled into the rest.
    pub folds: u64,
    /// Whether that is being done.
    pub is_folding: bool,
    /// How long a better form was looked for since the last compilation.
    pub planned: Duration,
    /// How often one was found.
    pub improvements: u64,
}

impl Edition {
    fn compile(
        numbered: NumberedRuleset,
        context: &CompileContext<'_>,
        time: Duration,
    ) -> Result<Edition, RulesError> {
        let start = Instant::now();
        let budget = Budget { time, bytes: context.options.memory_bytes };
        let CompileContext { databases, default, .. } = context.clone();
        let places = DatabasePlaces { databases, default };
        let NumberedRuleset { ruleset, numbers } = numbered;
        let live = LiveRules::build(&ruleset, numbers, &places, budget, &|| start.elapsed())?;
        let counters = Arc::new(Counters::new(live.len()));
        counters.note(0, ruleset.chain(ruleset.entry()).policy.as_ref());
        for (rule, tally) in ruleset.rules().iter().zip(1..) {
            counters.note(tally, rule.action.verdict().as_ref());
        }
        // Databases are held for rules that ask for places, and for no others.
        let databases = if has_places(&ruleset) { databases.to_vec() } else { Vec::new() };
        Ok(Edition { live, counters, databases, default, version: next_version() })
    }

    /// This edition with other rules over the same compilation.
    fn with(&self, live: LiveRules) -> Edition {
        let (counters, databases) = (Arc::clone(&self.counters), self.databases.clone());
        Edition { live, counters, databases, default: self.default, version: next_version() }
    }

    /// This with a change, unless all has to be compiled anew.
    fn changed(&self, change: &Change) -> Option<Edition> {
        let live = self.live.changed(change)?;
        let fits = self.counters.has_room_for(live.tallies());
        if !fits || live.changes() > maintenance::CHANGES_MAX {
            return None;
        }
        if let Change::Insert { rule, .. } | Change::Replace { rule, .. } = change {
            self.counters.note(live.tallies() - 1, rule.action.verdict().as_ref());
        }
        Some(self.with(live))
    }

    /// Which rule a packet meets; counts it, with this many bytes.
    #[inline]
    pub fn find(&self, packet: &Packet<'_>, bytes: u64, sets: &PrefixSets) -> Decision {
        let lane = self.counters.shard();
        if packet.is_later_fragment() {
            return self.live.walk(packet, &self.sets(sets), |tally| lane.add(tally, bytes));
        }
        self.live.find(packet, &self.sets(sets), |tally| lane.add(tally, bytes))
    }

    /// Which rules packets meet, in order; counted, each with its bytes.
    ///
    /// # Panics
    /// When there are fewer bytes than packets.
    pub fn find_batch(
        &self,
        packets: &[Packet<'_>],
        bytes: &[u64],
        sets: &PrefixSets,
    ) -> Vec<Decision> {
        assert!(bytes.len() >= packets.len(), "the length of each packet");
        let lane = self.counters.shard();
        let count = |place: usize, tally| lane.add(tally, bytes[place]);
        if packets.iter().any(Packet::is_later_fragment) {
            let of_each = packets.iter().zip(bytes);
            return of_each.map(|(packet, bytes)| self.find(packet, *bytes, sets)).collect();
        }
        self.live.find_batch(packets, &self.sets(sets), count)
    }

    /// The rule of a number.
    pub fn rule(&self, number: u32) -> Option<&Rule> {
        self.live.rule(number)
    }

    /// How many rules there are.
    pub fn rules(&self) -> usize {
        self.live.len()
    }

    /// The rules as they are, and their numbers by their ids. Costs a copy.
    pub fn to_ruleset(&self) -> (Ruleset, Vec<u32>) {
        self.live.to_ruleset()
    }

    /// The rules as they are, with sets of addresses in the place of places.
    ///
    /// # Errors
    /// A place that the databases do not tell, by the line of its rule.
    pub fn with_locations_as_sets(&self) -> Result<Ruleset, RulesError> {
        let places = DatabasePlaces { databases: &self.databases, default: self.default };
        flat::with_locations_as_sets(&self.to_ruleset().0, &places)
    }

    /// A number that no other edition has, of no ruleset, and none of an earlier process.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The chains and sets, and the rules that were compiled; not those put in and taken out since.
    pub fn compiled_ruleset(&self) -> &Ruleset {
        self.live.compiled_ruleset()
    }

    /// Changes that are not yet compiled into the rest.
    pub fn changes(&self) -> usize {
        self.live.changes()
    }

    /// What compiled forms and counters take.
    pub fn memory_bytes(&self) -> usize {
        self.live.memory_bytes() + self.counters.memory_bytes()
    }

    /// The plan of a family in words: which form, why, bytes, nanoseconds.
    pub fn plan(&self, family: Family) -> String {
        self.live.matcher().info(family).to_string()
    }

    /// Whether the slowest form stands for a family because no faster one fits into the budget.
    pub fn is_short_of_memory(&self, family: Family) -> bool {
        self.live.matcher().is_short_of_memory(family)
    }

    /// Why a packet meets the rule that decides: what became of it, and each rule that was asked
    /// before, in the order of the asking, with the first condition that does not hold. Not
    /// counted.
    pub fn explain(&self, packet: &Packet<'_>, sets: &PrefixSets) -> String {
        let (ruleset, _) = self.live.to_ruleset();
        let line = |rule: whered_rules::RuleId| ruleset.rule(rule).origin.to_string();
        let mut asked = Vec::new();
        let fate = naive::walk(&ruleset, packet, &self.sets(sets), &mut |rule, how| {
            asked.push((rule, how));
        });
        let decided_by = fate.rule.filter(|_| fate.possible.is_empty());
        let mut told = match fate.rule {
            Some(rule) => format!("{} by {}", fate.verdict, line(rule)),
            None => format!("{} by the policy", fate.verdict),
        };
        for (rule, how) in asked {
            let shown = |index: usize| text::condition_text(&ruleset.rule(rule).conditions[index]);
            let reason = match how {
                RuleAnswer::Unmet(index) => format!("not {}", shown(index)),
                RuleAnswer::Open(index) => format!("maybe {}", shown(index)),
                RuleAnswer::Met if Some(rule) == decided_by => continue,
                RuleAnswer::Met => "met on the way".to_owned(),
            };
            told.push_str(&format!("\n{}: {reason}", line(rule)));
        }
        told
    }

    fn context(&self, options: RulesOptions) -> CompileContext<'_> {
        CompileContext { databases: &self.databases, default: self.default, options }
    }

    fn sets<'a>(&'a self, sets: &'a PrefixSets) -> LiveSets<'a> {
        let places = DatabasePlaces { databases: &self.databases, default: self.default };
        LiveSets { sets, places, now_millis: OnceCell::new() }
    }
}

/// Reads a ruleset in the format that its first word is of.
pub(crate) fn read(source: &RulesetSource, bytes: &[u8]) -> Result<Ruleset, EngineError> {
    let file = source.path.display().to_string();
    let Ok(rules) = std::str::from_utf8(bytes) else {
        return Err(EngineError::new(format!("{file}: it is no text in UTF-8")));
    };
    let format = Format::detect(rules);
    format.read(&file, rules, ReadOptions::default()).map_err(|error| refused(&error))
}

/// The first problem stands for all of them: an error is one line.
fn refused(error: &RulesError) -> EngineError {
    EngineError::new(error.to_string())
}

fn has_places(ruleset: &Ruleset) -> bool {
    let mut conditions = ruleset.rules().iter().flat_map(|rule| &rule.conditions);
    conditions.any(|condition| matches!(condition.test, Test::Place(_)))
}

/// The prefix sets of one moment.
struct LiveSets<'a> {
    sets: &'a PrefixSets,
    places: DatabasePlaces<'a>,
    /// RuleAnswer for once, by the first set that is.
    now_millis: OnceCell<u64>,
}

impl Sets for LiveSets<'_> {
    fn contains(&self, set: &str, address: IpAddr) -> bool {
        let now_millis = *self.now_millis.get_or_init(clock::now_millis);
        let found = |set: &whered_ip::LayeredSet| set.contains(address, now_millis);
        self.sets.read(set, found).unwrap_or(false)
    }

    fn is_at(&self, predicate: &Predicate, address: IpAddr) -> bool {
        self.places.is_at(predicate, address)
    }
}
