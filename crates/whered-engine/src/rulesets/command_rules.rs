//! Rulesets that commands have made: what the journal and snapshots keep of them.
//!
//! For: the truth behind them ([`Draft`]), changed by operations in the journal's order. Not for:
//! compiling and matching.
//!
//! Invariants: replaying the same operations gives the same rules with the same numbers, also when
//! the first of them are in what it begins with: a snapshot is taken while operations go on, and
//! those since its start are replayed over it. A rule put in under a number that was given is one
//! of the past, and so is one taken out that is not there; changes of a ruleset that was set anew
//! or removed later may not fit what is there, and are of no effect in the end.
//! Cost: setting one reads its text; a change of one rule costs a scan of its chain, and after a
//! copy of all of this (for a snapshot) once a copy of the ruleset's list.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use whered_rules::{Draft, Format, ReadOptions, RulesError, Ruleset, text};

use crate::journal::operation::Operation;

/// What problems of a single rule's text carry in a file's place.
const RULE: &str = "rule";

/// All rulesets made by command, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandRules {
    by_name: BTreeMap<String, Arc<Draft>>,
}

impl CommandRules {
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Draft>> {
        self.by_name.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Arc<Draft>)> {
        self.by_name.iter().map(|(name, draft)| (name.as_str(), draft))
    }

    pub(crate) fn put(&mut self, name: &str, draft: Arc<Draft>) {
        self.by_name.insert(name.to_owned(), draft);
    }

    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.by_name.remove(name).is_some()
    }

    /// Records an operation; gives `false` when it is none about rules.
    ///
    /// # Errors
    /// A whole ruleset cannot be read: one line with its name.
    pub(crate) fn record(&mut self, operation: &Operation<'_>) -> Result<bool, String> {
        match operation {
            Operation::SetRules { ruleset, format, text, numbers } => {
                let wrong = |error: &dyn std::fmt::Display| format!("ruleset '{ruleset}': {error}");
                let read = format
                    .read(ruleset, text, ReadOptions::default())
                    .map_err(|error| wrong(&error))?;
                let draft = match numbers {
                    None => Draft::new(&read),
                    Some((numbers, next)) => Draft::numbered(&read, numbers, *next)
                        .ok_or_else(|| wrong(&"its numbers do not fit its rules"))?,
                };
                self.put(ruleset, Arc::new(draft));
            }
            Operation::UnsetRules { ruleset } => {
                self.remove(ruleset);
            }
            Operation::InsertRule { ruleset, number, spot, text } => {
                if let Some(draft) = self.draft(ruleset)
                    && draft.next_number() == *number
                    && let Ok(rule) = read_rule(text, draft.head())
                {
                    // What does not fit is replaced by a later operation: see above.
                    let _ = draft.insert(*spot, rule);
                }
            }
            Operation::DeleteRule { ruleset, number } => {
                if let Some(draft) = self.draft(ruleset) {
                    // One that is gone was taken out before the snapshot was.
                    let _ = draft.delete(*number);
                }
            }
            Operation::ReplaceRule { ruleset, number, text } => {
                if let Some(draft) = self.draft(ruleset)
                    && let Ok(rule) = read_rule(text, draft.head())
                {
                    // Likewise.
                    let _ = draft.replace(*number, rule);
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The draft of a ruleset, to be changed.
    pub(crate) fn draft(&mut self, name: &str) -> Option<&mut Draft> {
        self.by_name.get_mut(name).map(Arc::make_mut)
    }

    /// Operations that record all of this again.
    pub(crate) fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        self.by_name.iter().map(|(name, draft)| {
            let (ruleset, numbers) = draft.to_ruleset().expect("it was compiled");
            Operation::SetRules {
                ruleset: name,
                format: Format::Own,
                text: Cow::Owned(text::write(&ruleset)),
                numbers: Some((numbers.into(), draft.next_number())),
            }
        })
    }
}

/// Reads one rule in the own format.
pub(crate) fn read_rule(rule: &str, of: &Ruleset) -> Result<whered_rules::Rule, RulesError> {
    text::read_rule(RULE, rule, of)
}

#[cfg(test)]
mod tests {
    use whered_rules::At;

    use super::*;

    /// An operation as the journal has it.
    type Entry = (u16, Vec<u8>);

    fn apply(kept: &mut CommandRules, entries: &[Entry]) {
        for (kind, payload) in entries {
            let operation = Operation::decode(*kind, payload).expect("just written");
            assert_eq!(kept.record(&operation), Ok(true));
        }
    }

    fn shown(kept: &CommandRules) -> Vec<(String, u32, String)> {
        let one = |(name, draft): (&str, &Arc<Draft>)| {
            let (ruleset, numbers) = draft.to_ruleset().expect("no chain calls another");
            let text = format!("{numbers:?}\n{}", text::write(&ruleset));
            (name.to_owned(), draft.next_number(), text)
        };
        kept.iter().map(one).collect()
    }

    /// One operation that fits what is there, as commands would make it.
    fn operation(kept: &mut CommandRules, below: &mut impl FnMut(u64) -> u64) -> Option<Entry> {
        let name = ["a", "b"][below(2) as usize];
        let rule = format!("src 10.0.0.{} {}", below(99), ["drop", "log"][below(2) as usize]);
        let rules = format!("chain input policy drop {{\n{rule}\n{rule}\n}}\n");
        let draft = kept.get(name).map(|draft| Draft::clone(draft));
        let any = |draft: &Draft, below: &mut dyn FnMut(u64) -> u64| {
            let number = below(u64::from(draft.next_number())) as u32;
            draft.rule(number).map(|_| number)
        };
        let operation = match (below(20), &draft) {
            (0, Some(_)) => Operation::UnsetRules { ruleset: name },
            (1, _) | (_, None) => Operation::SetRules {
                ruleset: name,
                format: Format::Own,
                text: rules.as_str().into(),
                numbers: None,
            },
            (2..7, Some(draft)) => {
                Operation::DeleteRule { ruleset: name, number: any(draft, below)? }
            }
            (7..10, Some(draft)) => {
                let number = any(draft, below)?;
                Operation::ReplaceRule { ruleset: name, number, text: &rule }
            }
            (_, Some(draft)) => {
                let at = any(draft, below).map_or(At::Position(None, 1), At::After);
                let spot = draft.find(at).expect("it is there");
                Operation::InsertRule {
                    ruleset: name,
                    number: draft.next_number(),
                    spot,
                    text: &rule,
                }
            }
        };
        let entry = (operation.kind(), operation.encode());
        apply(kept, std::slice::from_ref(&entry));
        Some(entry)
    }

    #[test]
    fn operations_replayed_over_what_has_them_already_end_the_same() {
        let mut state = 3_u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        for _ in 0..300 {
            let (mut kept, mut entries, mut states) = (CommandRules::default(), vec![], vec![]);
            for _ in 0..30 {
                states.push(kept.clone());
                match operation(&mut kept, &mut below) {
                    Some(entry) => entries.push(entry),
                    None => drop(states.pop()),
                }
            }
            // A snapshot that began after `first` entries and took the rules after `later` ones.
            let first = below(entries.len() as u64) as usize;
            let later = first + below((entries.len() - first) as u64) as usize;
            let mut restarted = CommandRules::default();
            for operation in states[later].operations() {
                apply(&mut restarted, &[(operation.kind(), operation.encode())]);
            }
            assert_eq!(shown(&restarted), shown(&states[later]));
            apply(&mut restarted, &entries[first..]);
            assert_eq!(shown(&restarted), shown(&kept), "from {first}, taken at {later}");
        }
    }
}
