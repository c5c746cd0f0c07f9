//! Rulesets set and changed by command.
//!
//! For: the order of the steps: what is read is checked and compiled before anything is kept, and
//! the journal has the operation before anybody else can make the next. Not for: text formats,
//! editions.
//!
//! ```text
//! set     read ─> compile ─> lock ─> journal ─> next generation
//! change  lock ─> read ─> draft ─> edition ─> journal          (or the draft as it was)
//! ```
//!
//! A ruleset of the configuration is its file's: commands do not change it, and one set by command
//! under a name that the configuration takes later rests until the name is free again.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use whered_rules::live::Change;
use whered_rules::{At, ChainId, Draft, EditError, Format, ReadOptions, RulesError, Spot, Undo};

use super::{Control, Engine};
use crate::error::WriteError;
use crate::generation::Generation;
use crate::journal::log::Written;
use crate::journal::operation::Operation;
use crate::rulesets::{
    NamedRuleset, NumberedRuleset, RuleReferences, command_rules, maintenance, references,
};

/// What setting a ruleset did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetRules {
    /// How many rules it has.
    pub rules: usize,
    /// Whether the name was free.
    pub is_new: bool,
}

#[allow(clippy::needless_pass_by_value, reason = "map_err gives the error away")]
fn refused(error: impl ToString) -> WriteError {
    WriteError::Refused(error.to_string())
}

fn missing(name: &str) -> WriteError {
    WriteError::NoSuch { what: "ruleset", name: name.to_owned() }
}

impl Engine {
    /// Puts a ruleset in the place of whatever a command had set under the name; without a format
    /// its first line tells it. All of it is checked and compiled before the old one goes.
    ///
    /// # Errors
    /// `Refused`: the text is wrong (line and column), or the name is the configuration's. As for
    /// other writes besides.
    pub fn set_rules(
        &self,
        name: &str,
        format: Option<Format>,
        rules: &str,
    ) -> Result<Written<SetRules>, WriteError> {
        if name.is_empty() {
            return Err(refused("a ruleset needs a name"));
        }
        check_is_free(&self.control(), name)?;
        let format = format.unwrap_or_else(|| Format::detect(rules));
        let read = format.read(name, rules, ReadOptions::default()).map_err(refused)?;
        let operation = Operation::SetRules {
            ruleset: name,
            format,
            text: Cow::Borrowed(rules),
            numbers: None,
        };
        let draft = Arc::new(Draft::new(&read));
        let numbered = NumberedRuleset::as_written(Arc::new(read));
        let generation = self.generation();
        let options = self.control().rules_options();
        let compile = |generation: &Generation| {
            let context = generation.compile_context(options);
            NamedRuleset::compile(name, numbered.clone(), &context).map_err(refused)
        };
        let mut named = compile(&generation)?;
        // Compiling takes long: a transaction need not wait for it.
        let (_guard, room) = self.log.enter(operation.size_bytes())?;
        let mut control = self.control();
        check_is_free(&control, name)?;
        let current = self.generation();
        if named.has_places() && !Arc::ptr_eq(&current, &generation) {
            named = compile(&current)?;
        }
        let done =
            SetRules { rules: draft.len(), is_new: control.changes.rules.get(name).is_none() };
        control.changes.rules.put(name, draft);
        self.serve(current.with_ruleset(name, Some(Arc::new(named))));
        Ok(Written { value: done, ticket: room.append(&operation) })
    }

    /// Removes a ruleset that a command has set.
    ///
    /// # Errors
    /// `NoSuch`; `Refused` for one of the configuration. As for other writes besides.
    pub fn unset_rules(&self, name: &str) -> Result<Written<()>, WriteError> {
        let operation = Operation::UnsetRules { ruleset: name };
        let (_guard, room) = self.log.enter(operation.size_bytes())?;
        let mut control = self.control();
        let is_kept = control.changes.rules.remove(name);
        if !is_kept {
            check_is_free(&control, name)?;
            return Err(missing(name));
        }
        // One that rests below the configuration's goes without being seen.
        if !control.has_ruleset(name) {
            self.serve(self.generation().with_ruleset(name, None));
        }
        Ok(Written { value: (), ticket: room.append(&operation) })
    }

    /// Puts a rule into a ruleset and gives its number.
    ///
    /// # Errors
    /// As [`Engine::unset_rules`], and `Refused` for a rule or a place that is wrong.
    pub fn insert_rule(
        &self,
        name: &str,
        at: At<'_>,
        rule: &str,
    ) -> Result<Written<u32>, WriteError> {
        let nowhere = Spot { chain: ChainId(0), next: None };
        let size = Operation::InsertRule { ruleset: name, number: 0, spot: nowhere, text: rule };
        self.change_rules(name, size.size_bytes(), |draft| {
            let read = command_rules::read_rule(rule, draft.head()).map_err(refused)?;
            let spot = draft.find(at).map_err(refused)?;
            let number = draft.insert(spot, read).map_err(refused)?;
            let operation = Operation::InsertRule { ruleset: name, number, spot, text: rule };
            let rule = Arc::clone(draft.rule(number).ok_or_else(|| no_rule(number))?);
            let change = Change::Insert { number, spot, rule };
            Ok(Edit { value: number, change, undo: Undo::Insert(number), operation })
        })
    }

    /// Takes a rule out of a ruleset.
    ///
    /// # Errors
    /// As [`Engine::insert_rule`].
    pub fn delete_rule(&self, name: &str, number: u32) -> Result<Written<()>, WriteError> {
        let operation = Operation::DeleteRule { ruleset: name, number };
        self.change_rules(name, operation.size_bytes(), |draft| {
            let (spot, rule) = draft.delete(number).map_err(refused)?;
            let undo = Undo::Delete(number, spot, rule);
            Ok(Edit { value: (), change: Change::Delete { number }, undo, operation })
        })
    }

    /// Puts another rule in a rule's place, under its number; it begins to count anew.
    ///
    /// # Errors
    /// As [`Engine::insert_rule`].
    pub fn replace_rule(
        &self,
        name: &str,
        number: u32,
        rule: &str,
    ) -> Result<Written<()>, WriteError> {
        let operation = Operation::ReplaceRule { ruleset: name, number, text: rule };
        self.change_rules(name, operation.size_bytes(), |draft| {
            let read = command_rules::read_rule(rule, draft.head()).map_err(refused)?;
            let old = Arc::clone(draft.rule(number).ok_or_else(|| no_rule(number))?);
            draft.replace(number, read).map_err(refused)?;
            let rule = Arc::clone(draft.rule(number).ok_or_else(|| no_rule(number))?);
            let change = Change::Replace { number, rule };
            Ok(Edit { value: (), change, undo: Undo::Replace(number, old), operation })
        })
    }

    /// Makes one change: of the draft first, then of the edition, then in the journal.
    fn change_rules<'a, T>(
        &self,
        name: &'a str,
        size_bytes: usize,
        edit: impl FnOnce(&mut Draft) -> Result<Edit<'a, T>, WriteError>,
    ) -> Result<Written<T>, WriteError> {
        let (_guard, room) = self.log.enter(size_bytes)?;
        let mut control = self.control();
        check_is_free(&control, name)?;
        let options = control.rules_options();
        let draft = control.changes.rules.draft(name).ok_or_else(|| missing(name))?;
        let generation = self.generation();
        let Some(named) = generation.ruleset(name) else {
            let reason = generation.resting(name).unwrap_or("it is not compiled");
            return Err(refused(format!("ruleset '{name}' rests: {reason}")));
        };
        let Edit { value, change, undo, operation } = edit(draft)?;
        let numbered = || -> Result<NumberedRuleset, RulesError> {
            let (ruleset, numbers) = draft.to_ruleset()?;
            Ok(NumberedRuleset { ruleset: Arc::new(ruleset), numbers })
        };
        match named.apply(&change, &generation.compile_context(options), numbered) {
            Ok(waiting) => {
                if maintenance::is_compaction_due_at(waiting) {
                    self.rules_wake.notify();
                }
                Ok(Written { value, ticket: room.append(&operation) })
            }
            Err(error) => {
                draft.undo(undo);
                Err(refused(error))
            }
        }
    }

    /// What a whole ruleset names, as [`Engine::set_rules`] would read it.
    ///
    /// # Errors
    /// The text is wrong.
    pub fn references_of_rules(
        &self,
        format: Option<Format>,
        rules: &str,
    ) -> Result<RuleReferences, WriteError> {
        references::of_rules(format, rules).map_err(refused)
    }

    /// What one rule names that is written into a ruleset.
    ///
    /// # Errors
    /// There is no such ruleset, or the text is wrong.
    pub fn references_of_rule(
        &self,
        ruleset: &str,
        rule: &str,
    ) -> Result<RuleReferences, WriteError> {
        let mut control = self.control();
        let draft = control.changes.rules.draft(ruleset).ok_or_else(|| missing(ruleset))?;
        references::of_rule(draft.head(), rule).map_err(refused)
    }

    /// Does one piece of what rulesets need in the background: compiles changes into the rest, or
    /// looks for a faster form, about a second each. Gives whether there was anything to do. Meant
    /// for one thread of the lowest priority.
    pub fn maintain_rules(&self) -> bool {
        maintenance::maintain(self.generation().rulesets())
    }

    /// Waits until changes have to be folded, or the time is over.
    pub fn wait_for_rules(&self, timeout: Duration) {
        self.rules_wake.wait(timeout);
    }

    /// Ends a wait.
    pub fn wake_rules(&self) {
        self.rules_wake.notify();
    }
}

/// A change that was made in the draft.
struct Edit<'a, T> {
    value: T,
    change: Change,
    undo: Undo,
    operation: Operation<'a>,
}

fn no_rule(number: u32) -> WriteError {
    refused(EditError::NoRule(number))
}

/// The name is not the configuration's.
fn check_is_free(control: &Control, name: &str) -> Result<(), WriteError> {
    if control.has_ruleset(name) {
        return Err(refused(format!(
            "ruleset '{name}' is defined by the configuration; change its file, or set another name"
        )));
    }
    Ok(())
}
