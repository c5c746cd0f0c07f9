//! A ruleset that is being changed rule by rule.
//!
//! For: [`Draft`], the truth behind a ruleset whose rules come and go: where each rule stands, and
//! a number for life by which commands and journals name it. Not for: matching (`live`), text.
//!
//! ```text
//! chains  [ input: 1 2 17 3 ]  [ office: 4 5 ]      numbers in order
//! rules   1 ─> Rule   2 ─> Rule   3 ─> ...          the file's are 1, 2, 3; later ones go on counting
//! ```
//!
//! Invariants: a number stands in exactly one chain; it is never given twice.
//! Concurrency: plain data with one owner; rules are shared, so that a copy costs a pointer each.
//! Cost: a change costs a scan of its chain's numbers, the ruleset a copy of all rules.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{Chain, ChainId, Origin, Rule, RuleId, Ruleset, RulesetBuilder};
use crate::error::RulesError;

/// Rules that are put in by themselves stand in no file; this is in its place in their origin, and
/// the line is the rule's number.
pub const INSERTED: &str = "inserted";

/// Where a rule is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At<'a> {
    /// Before the rule of this number.
    Before(u32),
    /// After it.
    After(u32),
    /// At this position of a chain, counted from 1; without a name the one that packets enter.
    Position(Option<&'a str>, usize),
}

/// A place found: the chain, and the rule that the new one stands before, if it is not the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// In which chain.
    pub chain: ChainId,
    /// Before which rule, by number.
    pub next: Option<u32>,
}

/// Why a change is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditError {
    /// There is no rule of this number.
    NoRule(u32),
    /// There is no chain of this name.
    NoChain(String),
    /// The chain has fewer rules, this many.
    NoPosition(usize),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::NoRule(number) => write!(f, "no rule {number}"),
            EditError::NoChain(name) => write!(f, "no chain {name:?}"),
            EditError::NoPosition(count) => {
                write!(f, "no such position: allowed are 1 to {}", count + 1)
            }
        }
    }
}

impl std::error::Error for EditError {}

/// The undo of the last change.
#[derive(Clone, Debug)]
pub enum Undo {
    /// A rule was put in under this number.
    Insert(u32),
    /// A rule stood there.
    Delete(u32, Spot, Arc<Rule>),
    /// Another rule had the number.
    Replace(u32, Arc<Rule>),
}

/// A ruleset with a number for each rule.
///
/// # Examples
///
/// ```
/// use whered_rules::{At, Draft, text};
///
/// let ruleset = text::read("a.rules", "chain input policy drop {\n    src 10.0.0.0/8 accept\n}\n")?;
/// let mut draft = Draft::new(&ruleset);
/// let rule = text::read_rule("rule", "src 10.1.0.0/16 drop", &ruleset)?;
/// let spot = draft.find(At::Before(1)).expect("there is a rule 1");
/// assert_eq!(draft.insert(spot, rule), Ok(2));
/// let (changed, numbers) = draft.to_ruleset()?;
/// assert_eq!((changed.rules().len(), numbers), (2, vec![2, 1]));
/// # Ok::<(), whered_rules::RulesError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Draft {
    /// The ruleset without its rules.
    head: Arc<Ruleset>,
    chains: Vec<Vec<u32>>,
    rules: BTreeMap<u32, Arc<Rule>>,
    next_number: u32,
}

impl Draft {
    /// The rules of a ruleset, numbered from 1 in its order.
    pub fn new(ruleset: &Ruleset) -> Draft {
        let numbers: Vec<u32> = (1..=ruleset.rules().len() as u32).collect();
        Draft::numbered(ruleset, &numbers, numbers.len() as u32 + 1)
            .expect("they are different and low")
    }

    /// The rules with these numbers, and the number that the next rule gets; `None` where there are
    /// not as many, one is given twice, or one is 0 or not below the next one.
    pub fn numbered(ruleset: &Ruleset, numbers: &[u32], next_number: u32) -> Option<Draft> {
        let mut rules = BTreeMap::new();
        for (rule, &number) in ruleset.rules().iter().zip(numbers) {
            rules.insert(number, Arc::new(rule.clone()));
        }
        let fits = |number: &u32| (1..next_number).contains(number);
        let is_right = rules.len() == numbers.len()
            && numbers.len() == ruleset.rules().len()
            && numbers.iter().all(fits);
        if !is_right {
            return None;
        }
        let of_chain = |chain: &Chain| chain.rules.iter().map(|id| numbers[id.index()]).collect();
        let chains = ruleset.chains().iter().map(of_chain).collect();
        Some(Draft { head: Arc::new(without_rules(ruleset)), chains, rules, next_number })
    }

    /// The chains, sets and names, without rules.
    pub fn head(&self) -> &Arc<Ruleset> {
        &self.head
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The number that the next rule gets.
    pub fn next_number(&self) -> u32 {
        self.next_number
    }

    /// The rule of a number.
    pub fn rule(&self, number: u32) -> Option<&Arc<Rule>> {
        self.rules.get(&number)
    }

    /// Where a rule would stand.
    ///
    /// # Errors
    ///
    /// There is no such rule, chain or position.
    pub fn find(&self, at: At<'_>) -> Result<Spot, EditError> {
        let (chain, index) = match at {
            At::Before(number) => self.place_of(number)?,
            At::After(number) => {
                let (chain, index) = self.place_of(number)?;
                (chain, index + 1)
            }
            At::Position(name, position) => {
                let chain = match name {
                    None => self.head.entry(),
                    Some(name) => {
                        let found = self.head.chain_named(name);
                        found.ok_or_else(|| EditError::NoChain(name.to_owned()))?
                    }
                };
                let count = self.chains[chain.index()].len();
                if !(1..=count + 1).contains(&position) {
                    return Err(EditError::NoPosition(count));
                }
                (chain, position - 1)
            }
        };
        Ok(Spot { chain, next: self.chains[chain.index()].get(index).copied() })
    }

    /// Puts a rule in and gives its number, which becomes the line of its origin.
    ///
    /// # Errors
    ///
    /// The spot's chain or rule is not there (any more).
    pub fn insert(&mut self, spot: Spot, rule: Rule) -> Result<u32, EditError> {
        let number = self.next_number;
        let chain = self.chains.get(spot.chain.index());
        let chain = chain.ok_or_else(|| EditError::NoChain(String::new()))?;
        let index = match spot.next {
            None => chain.len(),
            Some(next) => {
                let found = chain.iter().position(|one| *one == next);
                found.ok_or(EditError::NoRule(next))?
            }
        };
        self.chains[spot.chain.index()].insert(index, number);
        self.put(number, spot.chain, rule);
        self.next_number += 1;
        Ok(number)
    }

    /// Takes a rule out and gives it with the spot where it stood.
    ///
    /// # Errors
    ///
    /// There is no such rule.
    pub fn delete(&mut self, number: u32) -> Result<(Spot, Arc<Rule>), EditError> {
        let (chain, index) = self.place_of(number)?;
        let list = &mut self.chains[chain.index()];
        list.remove(index);
        let spot = Spot { chain, next: list.get(index).copied() };
        let rule = self.rules.remove(&number).ok_or(EditError::NoRule(number))?;
        Ok((spot, rule))
    }

    /// Puts another rule in a rule's place, under its number.
    ///
    /// # Errors
    ///
    /// There is no such rule.
    pub fn replace(&mut self, number: u32, rule: Rule) -> Result<Spot, EditError> {
        let (chain, index) = self.place_of(number)?;
        self.put(number, chain, rule);
        Ok(Spot { chain, next: self.chains[chain.index()].get(index + 1).copied() })
    }

    /// Takes the last change back; others would leave another order of rules.
    pub fn undo(&mut self, last: Undo) {
        match last {
            Undo::Insert(number) => {
                if self.delete(number).is_ok() {
                    self.next_number = number;
                }
            }
            Undo::Delete(number, spot, rule) => {
                let list = &mut self.chains[spot.chain.index()];
                let found = spot.next.and_then(|next| list.iter().position(|one| *one == next));
                let index = found.unwrap_or(list.len());
                list.insert(index, number);
                self.rules.insert(number, rule);
            }
            Undo::Replace(number, rule) => {
                self.rules.insert(number, rule);
            }
        }
    }

    fn put(&mut self, number: u32, chain: ChainId, rule: Rule) {
        let origin = Origin { file: INSERTED.into(), line: number };
        self.rules.insert(number, Arc::new(Rule { chain, origin, ..rule }));
    }

    /// The whole ruleset, chain by chain, and the numbers of its rules by their ids.
    ///
    /// # Errors
    ///
    /// Checks the whole: chains that call each other in a circle, or too deep.
    pub fn to_ruleset(&self) -> Result<(Ruleset, Vec<u32>), RulesError> {
        let rule = |number| (*self.rules[&number]).clone();
        let (ruleset, numbers) = self.head.with_rules(&self.chains, rule);
        RulesetBuilder::check(&ruleset)?;
        Ok((ruleset, numbers))
    }

    fn place_of(&self, number: u32) -> Result<(ChainId, usize), EditError> {
        let rule = self.rules.get(&number).ok_or(EditError::NoRule(number))?;
        let list = &self.chains[rule.chain.index()];
        let index = list.iter().position(|one| *one == number).ok_or(EditError::NoRule(number))?;
        Ok((rule.chain, index))
    }
}

impl Ruleset {
    /// The chains and sets with other rules, chain by chain, and the numbers by rule id.
    pub(crate) fn with_rules(
        &self,
        chains: &[Vec<u32>],
        rule: impl Fn(u32) -> Rule,
    ) -> (Ruleset, Vec<u32>) {
        let mut ruleset = without_rules(self);
        let numbers = chains.concat();
        let mut ids = (0..).map(RuleId);
        for (chain, list) in ruleset.chains.iter_mut().zip(chains) {
            chain.rules = ids.by_ref().take(list.len()).collect();
        }
        ruleset.rules = numbers.iter().map(|number| rule(*number)).collect();
        (ruleset, numbers)
    }
}

fn without_rules(ruleset: &Ruleset) -> Ruleset {
    let bare = |chain: &Chain| Chain { rules: Vec::new(), ..chain.clone() };
    Ruleset {
        name: ruleset.name.clone(),
        family: ruleset.family,
        chains: ruleset.chains.iter().map(bare).collect(),
        rules: Vec::new(),
        sets: ruleset.sets.clone(),
        entry: ruleset.entry,
        remarks: ruleset.remarks.clone(),
    }
}
