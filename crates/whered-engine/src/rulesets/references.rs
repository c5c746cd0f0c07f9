//! What the text of rules names beside itself: live prefix sets and databases.
//!
//! For: permissions of the user who writes rules. Not for: resolving these names (`places`,
//! `sources`).

use whered_rules::{Condition, Format, Predicate, ReadOptions, RulesError, Ruleset, Subject, Test};

use super::command_rules;

/// The names in a text of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleReferences {
    /// Prefix sets of the server.
    pub sets: Vec<String>,
    /// Databases; `None`: whichever the server takes for the field.
    pub databases: Vec<Option<String>>,
}

impl RuleReferences {
    fn add(&mut self, condition: &Condition, ruleset: &Ruleset) {
        match &condition.test {
            // A set with elements is the ruleset's own.
            Test::Set(_, name)
                if ruleset.set_named(name).is_none_or(|set| set.elements.is_none()) =>
            {
                self.sets.push(name.clone());
            }
            Test::Place(Predicate { subject: Subject::Field { path, .. }, .. }) => {
                self.databases.push(path.split_once(':').map(|(database, _)| database.to_owned()));
            }
            Test::Place(_) => self.databases.push(None),
            _ => {}
        }
    }
}

/// The prefix sets of the server that a ruleset names, each once.
pub(super) fn sets_of(ruleset: &Ruleset) -> Vec<String> {
    let mut references = RuleReferences::default();
    let conditions = ruleset.rules().iter().flat_map(|rule| &rule.conditions);
    conditions.for_each(|condition| references.add(condition, ruleset));
    references.sets.sort_unstable();
    references.sets.dedup();
    references.sets
}

/// What a whole ruleset names.
///
/// # Errors
/// The text is wrong.
pub(crate) fn of_rules(format: Option<Format>, rules: &str) -> Result<RuleReferences, RulesError> {
    let format = format.unwrap_or_else(|| Format::detect(rules));
    let ruleset = format.read("rules", rules, ReadOptions::default())?;
    let mut references = RuleReferences::default();
    let conditions = ruleset.rules().iter().flat_map(|rule| &rule.conditions);
    conditions.for_each(|condition| references.add(condition, &ruleset));
    Ok(references)
}

/// What one rule names that is written into a ruleset with this head.
///
/// # Errors
/// The text is wrong.
pub(crate) fn of_rule(head: &Ruleset, rule: &str) -> Result<RuleReferences, RulesError> {
    let read = command_rules::read_rule(rule, head)?;
    let mut references = RuleReferences::default();
    read.conditions.iter().for_each(|condition| references.add(condition, head));
    Ok(references)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, EngineOptions};

    #[test]
    fn live_sets_and_databases_are_named_and_own_sets_are_not() {
        let (engine, _) = Engine::open(EngineOptions::default()).expect("it opens");
        let text = "set own { 10.0.0.0/8 }\nchain input policy drop {\n  src @own accept\n  \
                    src @blocked drop\n  src.city:country in {DE} drop\n}\n";
        let found = engine.references_of_rules(Some(Format::Own), text);
        let found = found.map_err(|error| error.to_string());
        let sets = vec!["blocked".to_owned()];
        assert_eq!(found, Ok(RuleReferences { sets, databases: vec![Some("city".to_owned())] }));
        assert!(engine.references_of_rule("nosuch", "drop").is_err());
        engine.set_rules("edge", None, "chain input policy drop {\n}\n").expect("rules");
        let found = engine.references_of_rule("edge", "src @x dst @y drop");
        assert_eq!(found.expect("a rule").sets, ["x", "y"]);
    }
}
