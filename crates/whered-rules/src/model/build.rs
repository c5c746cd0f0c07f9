//! Puts a ruleset together and refuses what could not be evaluated.
//!
//! For: the readers of all formats: declare chains, add rules, name chains before they are
//! declared; `build` checks what only the whole file can tell.
//! Not for: syntax.
//!
//! Invariants: see [`super`]; they hold for everything that `build` returns.
//! Concurrency: plain data. Cost: linear; the circle check visits each call once.

use std::collections::HashMap;
use std::sync::Arc;

use super::{
    Action, AddressItem, Chain, ChainId, Condition, Counters, DEPTH_LIMIT, Hook, Origin, Rule,
    RuleId, Ruleset, SetDefinition, Verdict,
};
use crate::error::{Problems, RulesError};
use crate::packet::Family;

/// Collects the parts of a ruleset.
///
/// ```
/// use whered_rules::{Action, RulesetBuilder, Verdict};
///
/// let mut builder = RulesetBuilder::new("made.rules");
/// let chain = builder.declare_chain("input", Some(Verdict::Drop), None, 1)?;
/// builder.add_rule(chain, 2, Vec::new(), Action::Accept, None, None);
/// assert_eq!(builder.build()?.rules().len(), 1);
/// # Ok::<(), whered_rules::RulesError>(())
/// ```
#[derive(Debug)]
pub struct RulesetBuilder {
    file: Arc<str>,
    name: String,
    family: Option<Family>,
    chains: Vec<Chain>,
    /// By name: the chain, and whether it was declared (or only mentioned so far).
    chain_ids: HashMap<String, ChainId>,
    declared: Vec<bool>,
    /// The declared chains in the order of their declarations.
    order: Vec<ChainId>,
    rules: Vec<Rule>,
    sets: Vec<SetDefinition>,
    entry: Option<String>,
    remarks: Vec<String>,
}

impl RulesetBuilder {
    /// Nothing yet, of a file of this name.
    pub fn new(file: &str) -> RulesetBuilder {
        RulesetBuilder {
            file: file.into(),
            name: String::new(),
            family: None,
            chains: Vec::new(),
            chain_ids: HashMap::new(),
            declared: Vec::new(),
            order: Vec::new(),
            rules: Vec::new(),
            sets: Vec::new(),
            entry: None,
            remarks: Vec::new(),
        }
    }

    /// Names the ruleset.
    pub fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// Limits the ruleset to one family.
    pub fn set_family(&mut self, family: Option<Family>) {
        self.family = family;
    }

    /// Chooses the chain that packets enter; checked by `build`.
    pub fn set_entry(&mut self, chain: &str) {
        self.entry = Some(chain.to_owned());
    }

    /// Says what the reader passed over.
    pub fn remark(&mut self, remark: String) {
        self.remarks.push(remark);
    }

    /// Says at which hook of the kernel packets enter a chain.
    pub fn set_hook(&mut self, chain: ChainId, hook: Hook) {
        self.chains[chain.index()].hook = Some(hook);
    }

    /// Says when packets of a hook enter a chain, lowest first.
    pub fn set_priority(&mut self, chain: ChainId, priority: i32) {
        self.chains[chain.index()].priority = Some(priority);
    }

    fn origin(&self, line: u32) -> Origin {
        Origin { file: Arc::clone(&self.file), line }
    }

    /// The chain of this name, which must be declared before `build`.
    pub fn chain_id(&mut self, name: &str, line: u32) -> ChainId {
        if let Some(&id) = self.chain_ids.get(name) {
            return id;
        }
        let id = ChainId(self.chains.len() as u32);
        let origin = self.origin(line);
        self.chains.push(Chain {
            name: name.to_owned(),
            policy: None,
            counters: None,
            hook: None,
            priority: None,
            origin,
            rules: Vec::new(),
        });
        self.declared.push(false);
        self.chain_ids.insert(name.to_owned(), id);
        id
    }

    /// Declares a chain, with a policy if packets may enter it from outside.
    ///
    /// # Errors
    ///
    /// When a chain of this name is declared already.
    pub fn declare_chain(
        &mut self,
        name: &str,
        policy: Option<Verdict>,
        counters: Option<Counters>,
        line: u32,
    ) -> Result<ChainId, RulesError> {
        let id = self.chain_id(name, line);
        if self.declared[id.index()] {
            let first = &self.chains[id.index()].origin;
            let message = format!("chain {name:?} is declared already, at {first}");
            return Err(RulesError::one(&self.file, line, 0, message));
        }
        self.declared[id.index()] = true;
        self.order.push(id);
        let origin = self.origin(line);
        let chain = &mut self.chains[id.index()];
        (chain.policy, chain.counters, chain.origin) = (policy, counters, origin);
        Ok(id)
    }

    /// Adds a rule at the end of a chain.
    pub fn add_rule(
        &mut self,
        chain: ChainId,
        line: u32,
        conditions: Vec<Condition>,
        action: Action,
        counters: Option<Counters>,
        comment: Option<String>,
    ) -> RuleId {
        let id = RuleId(self.rules.len() as u32);
        let origin = self.origin(line);
        let handle = None;
        self.rules.push(Rule { chain, origin, conditions, action, counters, comment, handle });
        self.chains[chain.index()].rules.push(id);
        id
    }

    /// Names the rule by the number that nft lists it by.
    pub fn set_handle(&mut self, rule: RuleId, handle: Option<u64>) {
        self.rules[rule.index()].handle = handle;
    }

    /// Moves the rule that was added last to this position of its chain.
    ///
    /// # Errors
    ///
    /// How many other rules the chain has, when those are fewer than the position.
    pub fn move_last_to(&mut self, chain: ChainId, position: usize) -> Result<(), usize> {
        let rules = &mut self.chains[chain.index()].rules;
        let count = rules.len().saturating_sub(1);
        if position > count {
            return Err(count);
        }
        rules[position..].rotate_right(1);
        Ok(())
    }

    /// Declares a set; without elements it is live.
    ///
    /// # Errors
    ///
    /// When a set of this name is declared already.
    pub fn declare_set(
        &mut self,
        name: &str,
        elements: Option<Vec<AddressItem>>,
        line: u32,
    ) -> Result<(), RulesError> {
        if let Some(first) = self.sets.iter().find(|set| set.name == name) {
            let message = format!("set {name:?} is declared already, at {}", first.origin);
            return Err(RulesError::one(&self.file, line, 0, message));
        }
        let origin = self.origin(line);
        self.sets.push(SetDefinition { name: name.to_owned(), elements, origin });
        Ok(())
    }

    /// The finished ruleset.
    ///
    /// # Errors
    ///
    /// When a chain is mentioned and not declared, one with a policy is jumped to, chains call
    /// each other in a circle or too deep, or there is no chain that packets could enter.
    pub fn build(mut self) -> Result<Ruleset, RulesError> {
        if self.order.len() == self.chains.len() {
            self.number_chains_as_declared();
        }
        let mut problems = Problems::new(&self.file);
        self.check_targets(&mut problems);
        if problems.is_empty() {
            self.check_depth(&mut problems);
        }
        let entry = self.find_entry(&mut problems);
        problems.finish()?;
        Ok(Ruleset {
            name: self.name,
            family: self.family,
            chains: self.chains,
            rules: self.rules,
            sets: self.sets,
            entry,
            remarks: self.remarks,
        })
    }

    /// Asks of a ruleset that was put together otherwise what only the whole shows.
    pub(super) fn check(ruleset: &Ruleset) -> Result<(), RulesError> {
        let file = &ruleset.chain(ruleset.entry()).origin.file;
        let mut problems = Problems::new(file);
        let builder = RulesetBuilder {
            file: Arc::clone(file),
            name: String::new(),
            family: None,
            chains: ruleset.chains.clone(),
            chain_ids: HashMap::new(),
            declared: vec![true; ruleset.chains.len()],
            order: Vec::new(),
            rules: ruleset.rules.clone(),
            sets: Vec::new(),
            entry: None,
            remarks: Vec::new(),
        };
        builder.check_targets(&mut problems);
        if problems.is_empty() {
            builder.check_depth(&mut problems);
        }
        problems.finish()
    }

    /// The chains of another ruleset, without their rules, for reading a rule by itself.
    pub(crate) fn with_chains_of(file: &str, ruleset: &Ruleset) -> RulesetBuilder {
        let mut builder = RulesetBuilder::new(file);
        for (chain, index) in ruleset.chains.iter().zip(0..) {
            builder.chain_ids.insert(chain.name.clone(), ChainId(index));
            builder.chains.push(Chain { rules: Vec::new(), ..chain.clone() });
            builder.declared.push(true);
        }
        builder
    }

    /// The one rule that was added, when the chains that it calls are there.
    pub(crate) fn into_rule(mut self) -> Result<Rule, RulesError> {
        let mut problems = Problems::new(&self.file);
        self.check_targets(&mut problems);
        problems.finish()?;
        Ok(self.rules.pop().expect("a rule was read"))
    }

    /// A chain that was mentioned before its declaration has too low a number until now.
    fn number_chains_as_declared(&mut self) {
        let mut new_ids = vec![ChainId(0); self.chains.len()];
        for (index, old) in self.order.iter().enumerate() {
            new_ids[old.index()] = ChainId(index as u32);
        }
        let mut chains: Vec<Option<Chain>> =
            std::mem::take(&mut self.chains).into_iter().map(Some).collect();
        self.chains = self.order.iter().filter_map(|old| chains[old.index()].take()).collect();
        for id in self.chain_ids.values_mut() {
            *id = new_ids[id.index()];
        }
        for rule in &mut self.rules {
            rule.chain = new_ids[rule.chain.index()];
            if let Action::Jump(target) | Action::Goto(target) = &mut rule.action {
                *target = new_ids[target.index()];
            }
        }
    }

    fn check_targets(&self, problems: &mut Problems) {
        for rule in &self.rules {
            let (Action::Jump(target) | Action::Goto(target)) = rule.action else { continue };
            let chain = &self.chains[target.index()];
            let line = rule.origin.line;
            if !self.declared[target.index()] {
                let known: Vec<&str> = self.callable().take(12).collect();
                let allowed = match known.as_slice() {
                    [] => "a chain, and none without a policy is declared".to_owned(),
                    names => format!("a declared chain ({})", names.join(", ")),
                };
                problems.found(line, 0, &chain.name, &allowed);
            } else if chain.policy.is_some() {
                let message = format!(
                    "found a jump to {:?}, which has a policy: allowed is a chain without one",
                    chain.name
                );
                problems.push(line, 0, message);
            }
        }
        for (chain, _) in self.chains.iter().zip(&self.declared).filter(|(_, known)| !**known) {
            if !chain.rules.is_empty() {
                let message = format!("chain {:?} has rules and is not declared", chain.name);
                problems.push(chain.origin.line, 0, message);
            }
        }
    }

    /// The names of chains that may be jumped to.
    fn callable(&self) -> impl Iterator<Item = &str> {
        let chains = self.chains.iter().zip(&self.declared);
        chains.filter(|(chain, known)| **known && chain.policy.is_none()).map(|(c, _)| &*c.name)
    }

    /// Computes how deep each chain calls, without recursion; a chain that is reached again while
    /// it is still open calls itself.
    fn check_depth(&self, problems: &mut Problems) {
        const UNSEEN: usize = usize::MAX;
        const OPEN: usize = usize::MAX - 1;
        let mut depths = vec![UNSEEN; self.chains.len()];
        for start in 0..self.chains.len() {
            let mut stack = vec![(start, 0usize, 1usize)];
            while let Some((chain, position, depth)) = stack.pop() {
                if position == 0 {
                    if depths[chain] < OPEN {
                        continue;
                    }
                    depths[chain] = OPEN;
                }
                let Some(&rule_id) = self.chains[chain].rules.get(position) else {
                    depths[chain] = depth;
                    if depth > DEPTH_LIMIT {
                        let Chain { name, origin, .. } = &self.chains[chain];
                        let message = format!(
                            "chain {name:?} calls chains {depth} deep: allowed is {DEPTH_LIMIT}"
                        );
                        problems.push(origin.line, 0, message);
                        return;
                    }
                    if let Some((_, _, caller_depth)) = stack.last_mut() {
                        *caller_depth = (*caller_depth).max(depth + 1);
                    }
                    continue;
                };
                let rule = &self.rules[rule_id.index()];
                let mut depth = depth;
                let mut callee = None;
                if let Action::Jump(target) | Action::Goto(target) = rule.action {
                    match depths[target.index()] {
                        UNSEEN => callee = Some(target.index()),
                        OPEN => {
                            let name = &self.chains[target.index()].name;
                            let message = format!("this jump to {name:?} closes a circle");
                            problems.push(rule.origin.line, 0, message);
                        }
                        known => depth = depth.max(known + 1),
                    }
                }
                stack.push((chain, position + 1, depth));
                if let Some(callee) = callee {
                    stack.push((callee, 0, 1));
                }
            }
        }
    }

    fn find_entry(&self, problems: &mut Problems) -> ChainId {
        let bases = || self.chains.iter().filter(|chain| chain.policy.is_some());
        let id_of = |chain: &Chain| self.chain_ids[&chain.name];
        if let Some(name) = &self.entry {
            if let Some(chain) = bases().find(|chain| chain.name == *name) {
                return id_of(chain);
            }
            let names: Vec<&str> = bases().map(|chain| &*chain.name).collect();
            let allowed = format!("a chain with a policy ({})", names.join(", "));
            problems.found(1, 0, name, &allowed);
            return ChainId(0);
        }
        let with_rules: Vec<&Chain> = bases().filter(|chain| !chain.rules.is_empty()).collect();
        if let [only] = with_rules.as_slice() {
            return id_of(only);
        }
        let input = bases().find(|chain| chain.name.eq_ignore_ascii_case("input"));
        match input.or_else(|| bases().next()) {
            Some(chain) => id_of(chain),
            None => {
                let message = "there is no chain with a policy, so packets could enter none";
                problems.push(1, 0, message.to_owned());
                ChainId(0)
            }
        }
    }
}
