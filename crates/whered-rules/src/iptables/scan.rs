//! What a line of rules is about, before it is read: its chain, where it may jump, what it changes.
//!
//! For: reading only what the asked chain reaches, and what rules of other tables may do. Not for:
//! matches; a line that is wrong is found when it is read.
//!
//! Concurrency: pure. Cost: linear.

use std::collections::{HashMap, HashSet};

use super::rule::split;

/// A rule's line.
pub(super) struct Line<'t> {
    pub(super) number: u32,
    pub(super) text: &'t str,
    /// The chain it stands in; "" where that cannot be told.
    pub(super) chain: String,
    /// Its target: a chain or what the kernel does.
    pub(super) target: Option<String>,
    /// Set, source and other words behind the target.
    options: Vec<String>,
}

/// Reads chain and target of a line.
pub(super) fn line(number: u32, text: &str) -> Line<'_> {
    let words = split(text).unwrap_or_default();
    let after = |names: &[&str]| {
        let at = words.iter().position(|word| names.contains(&word.text.as_str()))?;
        words.get(at + 1).map(|word| (at + 1, word.text.clone()))
    };
    let chain = after(&["-A", "--append", "-I", "--insert"]).map(|(_, name)| name);
    let target = after(&["-j", "--jump", "-g", "--goto"]);
    let options = target.iter().flat_map(|(at, _)| words[at + 1..].iter());
    let options = options.map(|word| word.text.clone()).collect();
    let target = target.map(|(_, name)| name);
    Line { number, text, chain: chain.unwrap_or_default(), target, options }
}

/// The chains that rules lead to from these, themselves included.
pub(super) fn reached(
    lines: &[Line<'_>],
    from: impl IntoIterator<Item = String>,
) -> HashSet<String> {
    let mut targets: HashMap<&str, Vec<&str>> = HashMap::new();
    for line in lines {
        targets.entry(&line.chain).or_default().extend(line.target.as_deref());
    }
    let mut open: Vec<String> = from.into_iter().collect();
    let mut reached = HashSet::new();
    while let Some(chain) = open.pop() {
        let next = targets.get(chain.as_str()).into_iter().flatten();
        if !reached.contains(&chain) {
            open.extend(next.map(|&target| target.to_owned()));
            reached.insert(chain);
        }
    }
    reached
}

/// What rules change that later rules may test.
#[derive(Clone, Debug, Default)]
pub(super) struct Effects {
    pub(super) connection_mark: bool,
    pub(super) dscp: bool,
    pub(super) ttl: bool,
    /// The sets that rules put addresses into or take them out of.
    pub(super) sets: HashSet<String>,
}

impl Effects {
    /// Of the rules in these lines.
    pub(super) fn of<'l, 't: 'l>(lines: impl Iterator<Item = &'l Line<'t>>) -> Effects {
        let mut effects = Effects::default();
        for line in lines {
            let has = |option: &str| line.options.iter().any(|word| word == option);
            match line.target.as_deref() {
                Some("CONNMARK") if !has("--restore-mark") => effects.connection_mark = true,
                Some("DSCP" | "TOS") => effects.dscp = true,
                Some("TTL" | "HL") => effects.ttl = true,
                Some("SET") => effects.sets.extend(line.options.iter().cloned()),
                _ => {}
            }
        }
        effects
    }
}
