//! A ruleset as it was written: chains of rules, each with its place in a file.
//!
//! For: everything that a format can say and we can express, kept as written, so that it can be
//! checked, explained and written out again.
//! Not for: fast matching (the normal form and the classifier are made from this).
//!
//! ```text
//! Ruleset
//!   chains [ input (policy drop): rules 0 1 4 ]  [ office: rules 2 3 ]
//!   rules  [ 0 ][ 1 ][ 2 ][ 3 ][ 4 ]     by RuleId, in the order of the file
//!            └ conditions (all must hold), one action, counters, file:line
//!   sets   [ blocked (live) ] [ office: 10.1.0.0/16 ... ]
//! ```
//!
//! Invariants, established by [`RulesetBuilder::build`] and never broken since nothing can be
//! changed: every jump goes to a declared chain that has no policy; chains never call each other
//! in a circle, and not more than [`DEPTH_LIMIT`] deep; the entry chain has a policy.
//!
//! Concurrency: plain immutable data. Cost: linear in the file.

mod action;
mod build;
mod condition;
mod detail;
mod edit;
mod place;

use std::fmt;
use std::sync::Arc;

pub use action::{Action, Changes, Verdict};
pub use build::RulesetBuilder;
pub use condition::{
    AddressItem, Condition, IcmpMatch, InterfacePattern, Side, Test, Uncertain, ranges_of_addresses,
};
pub use detail::{Detail, DetailTest};
pub use edit::{At, Draft, EditError, INSERTED, Spot, Undo};
pub use place::{Comparison, Point, Predicate, Subject};

pub use crate::hooks::Hook;
use crate::packet::Family;

/// How deep chains may call each other.
pub const DEPTH_LIMIT: usize = 64;

/// Where something was written.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Origin {
    /// The file's name, as it was given to the reader.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The number of a rule in its ruleset: its place in the order of the file, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RuleId(pub u32);

impl RuleId {
    /// As an index of [`Ruleset::rules`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a chain in its ruleset.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ChainId(pub u32);

impl ChainId {
    /// As an index of [`Ruleset::chains`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Packets and bytes that a rule or policy has counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Counters {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// One rule: when all conditions hold, the action is taken.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// The chain it stands in.
    pub chain: ChainId,
    /// Where it was written.
    pub origin: Origin,
    /// The conditions; without any, it always applies.
    pub conditions: Vec<Condition>,
    /// The effect.
    pub action: Action,
    /// Its counters when the file was written, where the format has them.
    pub counters: Option<Counters>,
    /// A word for people.
    pub comment: Option<String>,
    /// The number by which nft lists it.
    pub handle: Option<u64>,
}

/// An ordered list of rules that is entered from outside (with a policy) or by a jump.
#[derive(Clone, PartialEq, Debug)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// The verdict on packets that no rule decides; only chains that packets enter have one.
    pub policy: Option<Verdict>,
    /// The counters of the policy.
    pub counters: Option<Counters>,
    /// The kernel's hook at which packets enter it, where that is known.
    pub hook: Option<Hook>,
    /// Its place among the chains of that hook, lowest first, where that is known.
    pub priority: Option<i32>,
    /// Where it was declared.
    pub origin: Origin,
    /// Its rules in order.
    pub rules: Vec<RuleId>,
}

/// A set of addresses by name.
#[derive(Clone, PartialEq, Debug)]
pub struct SetDefinition {
    /// Its name.
    pub name: String,
    /// Its elements as written; `None` for a live set, whose members are asked for by name.
    pub elements: Option<Vec<AddressItem>>,
    /// Where it was declared.
    pub origin: Origin,
}

/// Chains, rules and sets of one file.
#[derive(Clone, PartialEq, Debug)]
pub struct Ruleset {
    pub(crate) name: String,
    pub(crate) family: Option<Family>,
    pub(crate) chains: Vec<Chain>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) sets: Vec<SetDefinition>,
    pub(crate) entry: ChainId,
    pub(crate) remarks: Vec<String>,
}

impl Ruleset {
    /// The ruleset's name; "" if the file gave none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The one family it is about; packets of the other one are left alone
    /// ([`Verdict::Continue`]). `None`: both.
    pub fn family(&self) -> Option<Family> {
        self.family
    }

    /// All chains in the order of the file.
    pub fn chains(&self) -> &[Chain] {
        &self.chains
    }

    /// One chain.
    ///
    /// # Panics
    ///
    /// When the id is another ruleset's.
    pub fn chain(&self, id: ChainId) -> &Chain {
        &self.chains[id.index()]
    }

    /// The chain of this name.
    pub fn chain_named(&self, name: &str) -> Option<ChainId> {
        let index = self.chains.iter().position(|chain| chain.name == name)?;
        Some(ChainId(index as u32))
    }

    /// All rules in the order of the file, by [`RuleId`].
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// One rule.
    ///
    /// # Panics
    ///
    /// When the id is another ruleset's.
    pub fn rule(&self, id: RuleId) -> &Rule {
        &self.rules[id.index()]
    }

    /// All declared sets in the order of the file.
    pub fn sets(&self) -> &[SetDefinition] {
        &self.sets
    }

    /// The declared set of this name.
    pub fn set_named(&self, name: &str) -> Option<&SetDefinition> {
        self.sets.iter().find(|set| set.name == name)
    }

    /// The chain that packets enter. By itself the only chain with a policy that has rules; where
    /// there are several, `input` (in any case) if there is one, else the first.
    pub fn entry(&self) -> ChainId {
        self.entry
    }

    /// What the reader passed over, a line each: it may change what the rules see.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The chains that packets could enter: those with a policy.
    pub fn base_chains(&self) -> impl Iterator<Item = ChainId> + '_ {
        let ids = (0..self.chains.len()).map(|index| ChainId(index as u32));
        ids.filter(|&id| self.chain(id).policy.is_some())
    }

    /// The ruleset, entered by another chain; `None` if that chain has no policy or does
    /// not exist.
    pub fn entered_by(mut self, name: &str) -> Option<Ruleset> {
        let id = self.chain_named(name)?;
        self.chain(id).policy.as_ref()?;
        self.entry = id;
        Some(self)
    }
}
