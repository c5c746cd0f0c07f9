//! Named rulesets: read from files, compiled with the places of this generation's databases.
//!
//! For: which rule a packet meets, by name of the ruleset. Not for: formats and the classifier
//! (`whered-rules`), captures.
//!
//! ```text
//! file ──> Ruleset ──(places of the databases)──> Matcher        one generation
//! packet ──> Matcher, live prefix sets ──> Outcome
//! ```
//!
//! Invariants: a generation's rulesets are compiled with that generation's databases; live sets
//! are looked up for each packet, so that a change of a set decides at once.
//! Cost: compiling takes up to [`PLAN_TIME`] a ruleset; a match costs what `whered-rules` says and
//! a lookup in each live set that the ruleset asks for.

mod files;
mod places;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use whered_rules::classify::plan::Budget;
use whered_rules::compile::Matcher;
use whered_rules::naive::{self, Outcome, Sets};
use whered_rules::{Format, Packet, Predicate, RuleId, RulesError, Ruleset, Test};
use whered_rules::{classbench, iptables, nft, text};

use crate::clock;
use crate::databases::NamedDatabase;
use crate::error::EngineError;
use crate::prefix_sets::PrefixSets;
pub use files::FilePlaces;
use places::DatabasePlaces;

/// How long a good plan may take to be found.
const PLAN_TIME: Duration = Duration::from_millis(500);
/// What all compiled forms of a ruleset may take.
const PLAN_BYTES: usize = 512 << 20;

/// A ruleset to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesetSource {
    /// The name that questions use.
    pub name: String,
    /// The file: whered's own format, `iptables-save`, `nft -j list ruleset` or ClassBench.
    pub path: PathBuf,
}

/// A compiled ruleset and its name.
#[derive(Debug)]
pub struct NamedRuleset {
    /// The name that questions use.
    pub name: String,
    /// What it was loaded from.
    pub source: RulesetSource,
    /// The rules as they were written.
    pub ruleset: Arc<Ruleset>,
    /// How long compiling took.
    pub compile_time: Duration,
    matcher: Matcher,
    databases: Vec<Arc<NamedDatabase>>,
    default: Option<usize>,
}

impl NamedRuleset {
    pub(crate) fn compile(
        source: &RulesetSource,
        ruleset: &Arc<Ruleset>,
        databases: &[Arc<NamedDatabase>],
        default: Option<usize>,
    ) -> Result<NamedRuleset, EngineError> {
        let start = Instant::now();
        let budget = Budget { time: PLAN_TIME, bytes: PLAN_BYTES };
        let places = DatabasePlaces { databases, default };
        let matcher = Matcher::build(ruleset, &places, budget, &|| start.elapsed());
        Ok(NamedRuleset {
            name: source.name.clone(),
            source: source.clone(),
            ruleset: Arc::clone(ruleset),
            compile_time: start.elapsed(),
            matcher: matcher.map_err(|error| refused(&error))?,
            databases: databases.to_vec(),
            default,
        })
    }

    /// The same ruleset with the places of other databases.
    pub(crate) fn compile_again(
        &self,
        databases: &[Arc<NamedDatabase>],
        default: Option<usize>,
    ) -> Result<NamedRuleset, EngineError> {
        NamedRuleset::compile(&self.source, &self.ruleset, databases, default)
    }

    /// Which rule a packet meets.
    pub fn find(&self, packet: &Packet<'_>, sets: &PrefixSets) -> Outcome {
        self.matcher.find(packet, &self.live(sets))
    }

    /// Which rules packets meet, in order.
    pub fn find_batch(&self, packets: &[Packet<'_>], sets: &PrefixSets) -> Vec<Outcome> {
        self.matcher.find_batch(packets, &self.live(sets))
    }

    /// Why a packet meets the rule that decides: what became of it, and each rule that was asked
    /// before, in the order of the asking, with the first condition that does not hold.
    pub fn explain(&self, packet: &Packet<'_>, sets: &PrefixSets) -> String {
        let ruleset = &self.ruleset;
        let line = |rule: RuleId| {
            let origin = &ruleset.rule(rule).origin;
            format!("{}:{}", origin.file, origin.line)
        };
        let mut asked = Vec::new();
        let fate = naive::walk(ruleset, packet, &self.live(sets), &mut |rule, unmet| {
            asked.push((rule, unmet));
        });
        let mut text = match fate.rule {
            Some(rule) => format!("{} by {}", fate.verdict, line(rule)),
            None => format!("{} by the policy", fate.verdict),
        };
        for (rule, unmet) in asked {
            let told = match unmet.and_then(|index| ruleset.rule(rule).conditions.get(index)) {
                Some(condition) => format!("not {}", text::condition_text(condition)),
                None if Some(rule) == fate.rule => continue,
                None => "met on the way".to_owned(),
            };
            text.push_str(&format!("\n{}: {told}", line(rule)));
        }
        text
    }

    /// Whether it asks for places, which a reload of a database changes.
    pub(crate) fn has_places(&self) -> bool {
        let conditions = self.ruleset.rules().iter().flat_map(|rule| &rule.conditions);
        conditions.into_iter().any(|condition| matches!(condition.test, Test::Place(_)))
    }

    fn live<'a>(&'a self, sets: &'a PrefixSets) -> LiveSets<'a> {
        let places = DatabasePlaces { databases: &self.databases, default: self.default };
        LiveSets { sets, places, now_millis: clock::now_millis() }
    }

    /// How it is compiled.
    pub fn matcher(&self) -> &Matcher {
        &self.matcher
    }
}

/// Reads a ruleset in the format that its first word is of.
pub(crate) fn read(source: &RulesetSource, bytes: &[u8]) -> Result<Ruleset, EngineError> {
    let file = source.path.display().to_string();
    let Ok(rules) = std::str::from_utf8(bytes) else {
        return Err(EngineError::new(format!("{file}: it is no text in UTF-8")));
    };
    let read = match Format::of(rules) {
        Format::Iptables => iptables::read(&file, rules, iptables::Options::default()),
        Format::Nft => nft::read(&file, rules, nft::Options::default()),
        Format::Classbench => classbench::read(&file, rules, classbench::Flags::Read),
        Format::Own => text::read(&file, rules),
    };
    read.map_err(|error| refused(&error))
}

/// The first problem stands for all of them: an error is one line.
fn refused(error: &RulesError) -> EngineError {
    match error.problems() {
        [first] => EngineError::new(first.to_string()),
        [first, rest @ ..] => EngineError::new(format!("{first} (and {} more)", rest.len())),
        [] => EngineError::new("the ruleset is refused"),
    }
}

/// The prefix sets of one moment.
struct LiveSets<'a> {
    sets: &'a PrefixSets,
    places: DatabasePlaces<'a>,
    now_millis: u64,
}

impl Sets for LiveSets<'_> {
    fn contains(&self, set: &str, address: IpAddr) -> bool {
        let found =
            |set: &whered_ip::PrefixSet| set.longest_match(address, self.now_millis).is_some();
        self.sets.read(set, found).unwrap_or(false)
    }

    fn is_at(&self, predicate: &Predicate, address: IpAddr) -> bool {
        self.places.is_at(predicate, address)
    }
}
