//! Rules compiled for the kernel: an nftables program with few lookups a packet.
//!
//! For: [`compile`], which turns a ruleset into text for `nft -f` that decides every packet as the
//! rules do, and into a [`Plan`] that says which rules went where. Not for: loading it, files,
//! other formats (`nft::write` writes rule by rule).
//!
//! ```text
//! chain input                              chain input
//!   state {established related} accept       ct state established,related accept
//!   src 10.0.0.0/24 accept                   ip saddr vmap @whered_1_v4      (all of them)
//!   ... 16,384 of them              ─►
//!   dst 10.9.0.1 proto tcp dport 22 accept   ip daddr . meta l4proto . th dport vmap @whered_2_v4
//!   log "x: "                                log prefix "x: "
//! ```
//!
//! Chains stay as they are. Within a chain, runs of rules that do nothing but decide become
//! verdict maps, tried in turn (`layers`); a map is of single values (a hash table), of ranges of
//! one field (a tree), or of ranges of several fields. All else stays a rule.
//!
//! Invariants: the program decides as the ruleset does, packets included whose ports cannot be
//! read. What nft cannot say is a problem that names its rule, and then there is no program.
//! Concurrency: pure. Cost: linear in the pairs of rules that may overlap.

mod candidate;
mod difference;
mod elements;
mod emit;
#[cfg(test)]
mod flat_tests;
mod later;
mod layers;
mod overlaps;
mod plan;
mod sets;

pub use difference::{ChainChange, ElementChange, TableDifference, difference};
pub use plan::{ChainPlan, Plan, Segment, SegmentKind};

use crate::error::RulesError;
use crate::model::Ruleset;
use crate::nft::identifier;
use crate::normal::Places;

/// How a ruleset is compiled.
#[derive(Clone, Copy, Debug)]
pub struct Options<'o> {
    /// The name of the table that is written.
    pub table: &'o str,
    /// Whether every rule keeps counters of its own.
    pub counters: bool,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { table: "whered", counters: false }
    }
}

/// A compiled ruleset.
#[derive(Clone, Debug)]
pub struct Program {
    /// Text for `nft -f`. It replaces the table of its name in one transaction.
    pub text: String,
    /// What became of the rules.
    pub plan: Plan,
}

/// A ruleset with sets of addresses in the place of its places, such as the networks of a country.
///
/// # Errors
///
/// Places that cannot be resolved, by the line of their rule.
pub fn with_locations_as_sets(
    ruleset: &Ruleset,
    places: &dyn Places,
) -> Result<Ruleset, RulesError> {
    sets::with_locations_as_sets(ruleset, places)
}

/// Compiles a ruleset to an nftables program.
///
/// ```
/// use whered_rules::{flat, normal::NoPlaces, text};
///
/// let rules: String = (1..9).map(|n| format!("  src 10.0.{n}.0/24 accept\n")).collect();
/// let rules = format!("chain input policy drop {{\n{rules}}}\n");
/// let ruleset = text::read("edge.rules", &rules)?;
/// let program = flat::compile(&ruleset, &NoPlaces, flat::Options::default())?;
/// assert!(program.text.contains("ip saddr vmap @whered_1_v4"));
/// # Ok::<(), whered_rules::RulesError>(())
/// ```
///
/// # Errors
///
/// Every rule, chain and set that nft cannot express, by its line, and places that cannot be
/// resolved.
pub fn compile(
    ruleset: &Ruleset,
    places: &dyn Places,
    options: Options<'_>,
) -> Result<Program, RulesError> {
    let origin = &ruleset.chain(ruleset.entry()).origin;
    if let Err(message) = identifier(options.table) {
        return Err(RulesError::one(&origin.file, origin.line, 0, message));
    }
    let prepared = sets::prepared(ruleset, places, options.counters)?;
    emit::program(&prepared, ruleset, options)
}
