//! How rules and policies are named to people: chain and number in it, file and line.
//!
//! Not for: what they say (`whered_rules::text`).

use whered_rules::naive::{Outcome, Possible};
use whered_rules::unknown::Fields;
use whered_rules::{Condition, Packet, RuleId, Ruleset, Test};

/// Where the rules of a ruleset stand.
pub(super) struct Places<'a> {
    pub(super) ruleset: &'a Ruleset,
    /// For each rule its number in its chain, from 1, as `iptables -L --line-numbers` counts.
    numbers: Vec<u32>,
}

impl<'a> Places<'a> {
    pub(super) fn new(ruleset: &'a Ruleset) -> Places<'a> {
        let mut numbers = vec![0; ruleset.rules().len()];
        for chain in ruleset.chains() {
            for (id, number) in chain.rules.iter().zip(1..) {
                numbers[id.index()] = number;
            }
        }
        Places { ruleset, numbers }
    }

    /// The chain's name of a rule.
    pub(super) fn chain(&self, id: RuleId) -> &'a str {
        &self.ruleset.chain(self.ruleset.rule(id).chain).name
    }

    /// Its number in the chain.
    pub(super) fn number(&self, id: RuleId) -> u32 {
        self.numbers[id.index()]
    }

    /// `edge.rules:4`.
    pub(super) fn line(&self, id: RuleId) -> String {
        self.ruleset.rule(id).origin.to_string()
    }

    /// `edge.rules:4 (input 3)`.
    pub(super) fn rule(&self, id: RuleId) -> String {
        format!("{} ({} {})", self.line(id), self.chain(id), self.number(id))
    }

    /// The chain whose policy decides when no rule does.
    pub(super) fn entry(&self) -> &'a str {
        &self.ruleset.chain(self.ruleset.entry()).name
    }

    /// Whether the rules are about packets of the other family only.
    pub(super) fn is_foreign(&self, packet: &Packet<'_>) -> bool {
        self.ruleset.family().is_some_and(|family| family != packet.family())
    }

    /// The chain whose policy decides about a packet that no rule decides; none does about a
    /// packet of the other family.
    pub(super) fn policy_chain(&self, packet: &Packet<'_>) -> Option<&'a str> {
        (!self.is_foreign(packet)).then(|| self.entry())
    }

    /// The verdict and who gave it; of an open one, all that may come and what it depends on.
    pub(super) fn verdict_text(
        &self,
        packet: &Packet<'_>,
        unknown: Fields,
        outcome: &Outcome,
    ) -> String {
        if outcome.possible.is_empty() {
            return format!("{} {}", outcome.verdict, self.decider(packet, outcome.rule));
        }
        let part = |possible: &Possible| {
            let decided = format!("{} {}", possible.verdict, self.decider(packet, possible.rule));
            let depends: Vec<String> =
                possible.depends.iter().map(|id| self.questions(*id, unknown)).collect();
            match depends.is_empty() {
                true => format!("otherwise {decided}"),
                false => format!("{decided}, depends on {}", depends.join(" and ")),
            }
        };
        let parts: Vec<String> = outcome.possible.iter().map(part).collect();
        format!("{}: {}", outcome.verdict, parts.join("; "))
    }

    /// `the limit at edge.rules:63`.
    fn questions(&self, id: RuleId, unknown: Fields) -> String {
        let mut kinds: Vec<&str> = Vec::new();
        for condition in &self.ruleset.rule(id).conditions {
            let fields = Fields::of(&condition.test).of_both(unknown);
            let names = fields.iter().map(|field| -> &str { field.name() });
            for name in names.chain(question(condition)) {
                if !kinds.contains(&name) {
                    kinds.push(name);
                }
            }
        }
        format!("the {} at {}", kinds.join(" and the "), self.line(id))
    }

    /// Who decided: a rule, the policy, or nobody.
    pub(super) fn decider(&self, packet: &Packet<'_>, rule: Option<RuleId>) -> String {
        match rule {
            Some(id) => format!("by {}", self.rule(id)),
            None if self.is_foreign(packet) => "since the rules are of the other family".to_owned(),
            None => format!("by the policy of {}", self.entry()),
        }
    }
}

/// What a condition asks that a packet may not tell, in one word.
pub(super) fn question(condition: &Condition) -> Option<&str> {
    match &condition.test {
        Test::Uncertain(test) => Some(&test.kind),
        Test::Detail(test) => Some(test.detail.name()),
        Test::Mark { .. } => Some("mark"),
        _ => None,
    }
}
