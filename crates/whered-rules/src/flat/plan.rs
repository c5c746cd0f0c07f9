//! What became of the rules: segments of each chain, with the lookups that a packet costs.
//!
//! For: `--explain`. Not for: text of nft.
//!
//! Invariants: segments are in the order in which a packet meets them; every rule is in one
//! segment, or hidden. Concurrency: plain data.

use std::fmt;

use crate::model::{Origin, RuleId, Ruleset};
use crate::text::rule_text;

/// The kind of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentKind {
    /// One lookup in a hash table of single values.
    Exact,
    /// One lookup in a tree of ranges of one field.
    Interval,
    /// One lookup of ranges of several fields.
    Concatenation,
    /// Rules, one after the other.
    Linear,
}

impl SegmentKind {
    fn text(self) -> &'static str {
        match self {
            SegmentKind::Exact => "exact values of",
            SegmentKind::Interval => "ranges of",
            SegmentKind::Concatenation => "ranges of",
            SegmentKind::Linear => "rule by rule",
        }
    }
}

/// A part of a chain.
#[derive(Clone, Debug)]
pub struct Segment {
    /// How its rules are decided.
    pub kind: SegmentKind,
    /// The key of the lookup, as nft writes it, with the conditions in front of it.
    pub key: String,
    /// Its rules.
    pub rules: Vec<RuleId>,
    /// How many elements the map has, or how many lines the rules are.
    pub elements: usize,
    /// Why the rules are not in a map.
    pub reason: &'static str,
    /// What it is expected to cost a packet that it does not decide.
    pub nanoseconds: f64,
}

/// The parts of one chain.
#[derive(Clone, Debug)]
pub struct ChainPlan {
    /// Its name.
    pub name: String,
    /// Where it was written.
    pub origin: Origin,
    /// Whether packets enter it from outside.
    pub is_base: bool,
    /// In the order in which a packet meets them.
    pub segments: Vec<Segment>,
    /// Rules that no packet can meet, since earlier ones decide all of theirs.
    pub hidden: Vec<RuleId>,
}

/// What became of a ruleset.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// By chain, in the order of the file.
    pub chains: Vec<ChainPlan>,
}

/// What a rule of nft that does not match costs, in nanoseconds, on a server of 2024.
const RULE_NANOSECONDS: f64 = 7.0;

impl ChainPlan {
    /// How many lookups in maps a packet makes that nothing decides before the end.
    pub fn lookups(&self) -> usize {
        self.segments.iter().filter(|segment| segment.kind != SegmentKind::Linear).count()
    }

    /// How many rules such a packet meets besides.
    pub fn linear_rules(&self) -> usize {
        let linear = self.segments.iter().filter(|segment| segment.kind == SegmentKind::Linear);
        linear.map(|segment| segment.elements).sum()
    }

    /// How many rules the chain has.
    pub fn rules(&self) -> usize {
        self.hidden.len() + self.segments.iter().map(|segment| segment.rules.len()).sum::<usize>()
    }

    /// What such a packet is expected to cost, in nanoseconds.
    pub fn nanoseconds(&self) -> f64 {
        self.segments.iter().map(|segment| segment.nanoseconds).sum()
    }

    /// What a packet costs rule by rule.
    pub fn linear_nanoseconds(&self) -> f64 {
        self.rules() as f64 * RULE_NANOSECONDS
    }
}

/// What rules cost that are met one after the other.
pub(super) fn linear_cost(rules: usize) -> f64 {
    rules as f64 * RULE_NANOSECONDS
}

/// What a lookup costs in a map of N elements, by the octets of its keys.
pub(super) fn lookup_cost(kind: SegmentKind, elements: usize, octets: usize) -> f64 {
    let elements = elements.max(1) as f64;
    match kind {
        SegmentKind::Exact => 35.0,
        SegmentKind::Interval => 25.0 + 8.0 * elements.log2(),
        // For each half octet of the key a list of bits is read, one bit an element.
        _ => 60.0 + octets as f64 * (1.0 + elements / 256.0),
    }
}

impl Plan {
    /// The plan with the rules' texts.
    pub fn shown<'p>(&'p self, ruleset: &'p Ruleset) -> impl fmt::Display + 'p {
        PlanText { plan: self, ruleset }
    }

    /// Chains that stay expensive: a line each, with the reason and the expected cost.
    pub fn warnings(&self) -> Vec<String> {
        let is_costly = |chain: &&ChainPlan| {
            chain.rules() > 64 && chain.nanoseconds() * WORTH > chain.linear_nanoseconds()
        };
        let costly = self.chains.iter().filter(is_costly).map(|chain| {
            let linear = chain.segments.iter().filter(|one| one.kind == SegmentKind::Linear);
            let reason = linear.max_by_key(|one| one.elements).map_or("", |one| one.reason);
            let because = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
            format!(
                "{}: chain {} stays expensive: {} and {}{because}, about {} a packet instead of {}",
                chain.origin,
                chain.name,
                Count(chain.lookups(), "lookup"),
                Count(chain.linear_rules(), "rule"),
                Time(chain.nanoseconds()),
                Time(chain.linear_nanoseconds()),
            )
        });
        costly.collect()
    }
}

/// From which gain on a compiled chain is worth it.
const WORTH: f64 = 5.0;

struct PlanText<'p> {
    plan: &'p Plan,
    ruleset: &'p Ruleset,
}

/// How many rules of a segment are printed.
const SHOWN_RULES: usize = 3;

impl fmt::Display for PlanText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chain in &self.plan.chains {
            writeln!(
                f,
                "chain {} ({}): {} become {} and {}, about {} a packet instead of {}",
                chain.name,
                chain.origin,
                Count(chain.rules(), "rule"),
                Count(chain.lookups(), "lookup"),
                Count(chain.linear_rules(), "rule"),
                Time(chain.nanoseconds()),
                Time(chain.linear_nanoseconds()),
            )?;
            for segment in &chain.segments {
                self.segment(segment, f)?;
            }
            if !chain.hidden.is_empty() {
                let count = Count(chain.hidden.len(), "rule");
                writeln!(f, "  left out, since earlier rules decide: {count}")?;
                self.rules(&chain.hidden, f)?;
            }
        }
        Ok(())
    }
}

impl PlanText<'_> {
    fn segment(&self, segment: &Segment, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Segment { kind, key, rules, elements, reason, nanoseconds } = segment;
        match kind {
            SegmentKind::Linear => {
                writeln!(f, "  {}: {}: {reason}", kind.text(), Count(rules.len(), "rule"))?;
            }
            _ => writeln!(
                f,
                "  {} {key}: {} in {}, about {}",
                kind.text(),
                Count(rules.len(), "rule"),
                Count(*elements, "element"),
                Time(*nanoseconds)
            )?,
        }
        self.rules(rules, f)
    }

    fn rules(&self, rules: &[RuleId], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &id in rules.iter().take(SHOWN_RULES) {
            let rule = self.ruleset.rule(id);
            writeln!(f, "    {}: {}", rule.origin, rule_text(self.ruleset, rule))?;
        }
        match rules.len().saturating_sub(SHOWN_RULES) {
            0 => Ok(()),
            more => writeln!(f, "    and {more} more"),
        }
    }
}

/// A number of things.
struct Count(usize, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} {}{plural}", self.0, self.1)
    }
}

/// Nanoseconds for people.
struct Time(f64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1000.0 {
            write!(f, "{:.0} ns", self.0)
        } else {
            write!(f, "{:.1} µs", self.0 / 1000.0)
        }
    }
}
