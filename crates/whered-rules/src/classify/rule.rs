//! The input of the classifier: rules as conjunctions of ranges over fields, and packets.
//!
//! For: plain data that any rule format can be lowered to. Not for: chains, names, files and lines;
//! a rule is known by its place in the list. Negation, lists and masks are already ranges here.
//!
//! A packet is one cache line of 32-bit words, one word a field:
//!
//! ```text
//! word 0       1            2            3          4         5-14                15
//!      source  destination  source port  dest port  protocol  what else is asked  set bits
//! ```
//!
//! Words 5 to 14 are the caller's: states, interfaces, marks, places, answers. What rules ask for
//! should stand in the first eight: those are compared as they are. Of live sets, a ruleset may ask
//! for 32.
//!
//! Numbers that cost more to know than most packets' answers are worth are *lazy*: no words of the
//! packet, but asked for when all else of a rule holds.
//!
//! IPv6 addresses do not fit a word: [`Packet6`] carries them beside the packet, and the compiled
//! form puts the numbers of their intervals into words 0 and 1.
//!
//! Invariants of [`Rules`]: the ranges of a condition are sorted, disjoint and within the field;
//! a rule has at most one condition for a field; conditions are in the order of their fields.

use std::fmt;

/// The answer in batches for a packet that no terminal rule matches.
pub const NO_RULE: u32 = u32::MAX;
/// Words of a packet.
pub(crate) const WORDS: usize = 16;
/// The words that are the caller's.
pub const FREE_WORDS: std::ops::RangeInclusive<u8> = 5..=14;
/// The word of the set bits.
const SET_WORD: usize = 15;
/// How many live sets a ruleset may ask for.
pub const SETS: u8 = 32;
/// How many lazy fields a packet has.
pub const LAZY_FIELDS: usize = 4;

/// The subject of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// The source address.
    Source,
    /// The destination address.
    Destination,
    /// The source port, 0 to 65,535.
    SourcePort,
    /// The destination port, 0 to 65,535.
    DestinationPort,
    /// The protocol's number, 0 to 255.
    Protocol,
    /// The caller's number in word N of [`FREE_WORDS`]: any number of 32 bits.
    Word(u8),
    /// Whether the packet is in live set N: 0 or 1.
    Set(u8),
    /// Lazy field N of [`LAZY_FIELDS`], any 32 bits: it is requested only when a rule needs it.
    Lazy(u8),
}

impl Field {
    /// The greatest value of this field in this family.
    pub fn max(self, family: Family) -> u128 {
        match self {
            Field::Source | Field::Destination => match family {
                Family::V4 => u128::from(u32::MAX),
                Family::V6 => u128::MAX,
            },
            Field::SourcePort | Field::DestinationPort => 0xffff,
            Field::Protocol => 0xff,
            Field::Word(_) | Field::Lazy(_) => u128::from(u32::MAX),
            Field::Set(_) => 1,
        }
    }

    /// The word of a packet that has this field; a lazy one has none.
    pub(crate) fn word(self) -> Option<usize> {
        Some(match self {
            Field::Source => 0,
            Field::Destination => 1,
            Field::SourcePort => 2,
            Field::DestinationPort => 3,
            Field::Protocol => 4,
            Field::Word(word) => usize::from(word.clamp(*FREE_WORDS.start(), *FREE_WORDS.end())),
            Field::Set(_) => SET_WORD,
            Field::Lazy(_) => return None,
        })
    }
}

/// Which addresses a ruleset is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// One condition: the field's value lies in one of the ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Which field.
    pub field: Field,
    /// Inclusive ranges, sorted and disjoint.
    pub ranges: Vec<(u128, u128)>,
}

impl Condition {
    /// Whether a value satisfies this condition.
    pub(crate) fn holds(&self, value: u128) -> bool {
        self.ranges.iter().any(|range| range.0 <= value && value <= range.1)
    }
}

/// One rule: all conditions hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The conditions; a rule without any matches every packet.
    pub conditions: Vec<Condition>,
    /// Whether a match ends the search.
    pub terminal: bool,
    /// The decision of the rule, a number of the caller's.
    pub verdict: u32,
}

/// Why a list of rules was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The place of the rule in the list.
    pub rule: usize,
    /// The field whose condition is at fault.
    pub field: Field,
    kind: &'static str,
}

impl RuleError {
    /// A fault of the rule at a place.
    pub(crate) fn new(rule: usize, field: Field, kind: &'static str) -> RuleError {
        RuleError { rule, field, kind }
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}: {:?}: {}", self.rule, self.field, self.kind)
    }
}

impl std::error::Error for RuleError {}

/// An ordered list of rules of one family, checked.
#[derive(Clone, Debug)]
pub struct Rules {
    family: Family,
    rules: Vec<Rule>,
}

impl Rules {
    /// Checks the rules and puts their conditions into order. Several conditions on one field
    /// become their intersection.
    ///
    /// # Errors
    ///
    /// Ranges that are unsorted, touch each other's values, end before they start or leave the
    /// field, and numbers of sets and words that a packet does not have.
    pub fn new(family: Family, mut rules: Vec<Rule>) -> Result<Rules, RuleError> {
        for (place, rule) in rules.iter_mut().enumerate() {
            normalise(rule, family).map_err(|(field, kind)| RuleError {
                rule: place,
                field,
                kind,
            })?;
        }
        Ok(Rules { family, rules })
    }

    /// Rules that were checked one by one.
    pub(crate) fn checked(family: Family, rules: Vec<Rule>) -> Rules {
        Rules { family, rules }
    }

    /// The family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The rules in their order.
    pub fn list(&self) -> &[Rule] {
        &self.rules
    }
}

/// Checks one rule, sorts its conditions and intersects those that share a field.
pub(crate) fn normalise(rule: &mut Rule, family: Family) -> Result<(), (Field, &'static str)> {
    for condition in &rule.conditions {
        check(condition, family).map_err(|kind| (condition.field, kind))?;
    }
    rule.conditions.sort_by_key(|condition| condition.field);
    rule.conditions.dedup_by(|later, kept| {
        let same = later.field == kept.field;
        if same {
            kept.ranges = intersection(&kept.ranges, &later.ranges);
        }
        same
    });
    Ok(())
}

/// The fault of a condition, if it has one.
fn check(condition: &Condition, family: Family) -> Result<(), &'static str> {
    match condition.field {
        Field::Set(set) if set >= SETS => return Err("allowed are the sets 0 to 31"),
        Field::Word(word) if !FREE_WORDS.contains(&word) => {
            return Err("allowed are the words 5 to 14");
        }
        Field::Lazy(lazy) if usize::from(lazy) >= LAZY_FIELDS => {
            return Err("allowed are the lazy fields 0 to 3");
        }
        _ => {}
    }
    let max = condition.field.max(family);
    let mut before: Option<u128> = None;
    for &(low, high) in &condition.ranges {
        if low > high {
            return Err("a range ends before it starts");
        }
        if high > max {
            return Err("a range leaves the field");
        }
        if before.is_some_and(|before| low <= before) {
            return Err("ranges are not sorted and disjoint");
        }
        before = Some(high);
    }
    Ok(())
}

/// The values that both lists of sorted ranges hold.
fn intersection(left: &[(u128, u128)], right: &[(u128, u128)]) -> Vec<(u128, u128)> {
    let mut both = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < left.len() && j < right.len() {
        let low = left[i].0.max(right[j].0);
        let high = left[i].1.min(right[j].1);
        if low <= high {
            both.push((low, high));
        }
        if left[i].1 < right[j].1 { i += 1 } else { j += 1 }
    }
    both
}

/// A packet's fields. Fields that no rule asks for may stay zero.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    pub(crate) words: [u32; WORDS],
}

impl Packet {
    /// A packet between two IPv4 addresses; every other field is zero.
    pub fn new(source: u32, destination: u32) -> Packet {
        let mut words = [0; WORDS];
        words[0] = source;
        words[1] = destination;
        Packet { words }
    }

    /// Sets a field. A value past the field's end becomes the field's greatest value; a lazy field
    /// is nothing that a packet keeps.
    #[inline]
    pub fn set(&mut self, field: Field, value: u32) {
        let value = u32::try_from(field.max(Family::V4)).map_or(value, |max| value.min(max));
        let Some(word) = field.word() else { return };
        let word = &mut self.words[word];
        *word = match field {
            Field::Set(set) => {
                let set = set.min(SETS - 1);
                *word & !(1 << set) | value << set
            }
            _ => value,
        };
    }

    /// Sets all membership bits at once, bit N for set N.
    pub fn set_members(&mut self, bits: u32) {
        self.words[SET_WORD] = bits;
    }

    /// The value of a field; 0 for a lazy field.
    pub fn get(&self, field: Field) -> u32 {
        let word = field.word().map_or(0, |word| self.words[word]);
        match field {
            Field::Set(set) => word >> (set % 32) & 1,
            _ => word,
        }
    }
}

/// A packet between two IPv6 addresses.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet6 {
    /// The fields other than the addresses.
    pub fields: Packet,
    /// The source address.
    pub source: u128,
    /// The destination address.
    pub destination: u128,
}

impl Packet6 {
    /// A packet between two addresses; every other field is zero.
    pub fn new(source: u128, destination: u128) -> Packet6 {
        Packet6 { fields: Packet::new(0, 0), source, destination }
    }
}

/// What a field's value is asked of, in either family.
pub(crate) trait Values {
    /// The value of a field.
    fn value(&self, field: Field) -> u128;
}

impl Values for Packet {
    fn value(&self, field: Field) -> u128 {
        u128::from(self.get(field))
    }
}

impl Values for Packet6 {
    fn value(&self, field: Field) -> u128 {
        match field {
            Field::Source => self.source,
            Field::Destination => self.destination,
            _ => u128::from(self.fields.get(field)),
        }
    }
}
