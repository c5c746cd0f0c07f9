//! Reads tables, chains and policies; `rule` beside this file reads the rules.
//!
//! For: everything of the file's lines but what follows `-A CHAIN`.
//!
//! Invariants: only the chosen table becomes rules; another one with rules or a policy that drops
//! is a problem unless the caller said to skip it, and so is another chain of the table that the
//! same packets meet, unless the caller chose one. Concurrency: pure. Cost: linear.

use std::collections::HashSet;
use std::sync::Arc;

use super::rule;
use crate::error::{Problems, RulesError};
use crate::hooks;
use crate::model::{Ruleset, RulesetBuilder, Verdict};
use crate::packet::Family;
use crate::text::read_counters;

/// The treatment of tables other than the one that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtherTables {
    /// Rules and dropping policies in them are a problem: they may change what the table that is
    /// read gets to see.
    Refuse,
    /// They are left out.
    Skip,
}

/// How a file is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options<'a> {
    /// `iptables-save` or `ip6tables-save`.
    pub family: Family,
    /// Which table, usually `filter`.
    pub table: &'a str,
    /// The chain that packets enter; `None`: see [`Ruleset::entry`].
    pub chain: Option<&'a str>,
    /// The treatment of other tables.
    pub other_tables: OtherTables,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            family: Family::Ipv4,
            table: "filter",
            chain: None,
            other_tables: OtherTables::Refuse,
        }
    }
}

/// Reads one table of the output of `iptables-save` or `ip6tables-save`.
///
/// # Errors
///
/// All problems of the text (up to a hundred), among them every match and target that cannot be
/// expressed.
pub fn read(file: &str, text: &str, options: Options<'_>) -> Result<Ruleset, RulesError> {
    let mut reader = Reader {
        options,
        problems: Problems::new(&Arc::from(file)),
        builder: RulesetBuilder::new(file),
        chains: HashSet::new(),
        table: None,
        found: false,
        refused: HashSet::new(),
    };
    reader.builder.set_name(options.table);
    reader.builder.set_family(Some(options.family));
    if let Some(chain) = options.chain {
        reader.builder.set_entry(chain);
    }
    for (line, number) in text.lines().zip(1..) {
        reader.line(line, number);
    }
    if !reader.found && reader.problems.is_empty() {
        let message = format!("found no table {:?}: allowed is a file that has one", options.table);
        reader.problems.push(1, 0, message);
    }
    reader.problems.finish()?;
    let ruleset = reader.builder.build()?;
    if options.chain.is_none() {
        let mut problems = Problems::new(&Arc::from(file));
        other_chains(&ruleset, &mut problems);
        problems.finish()?;
    }
    Ok(ruleset)
}

/// The family of a file, as the comment of the program that wrote it says.
pub fn family_of(text: &str) -> Option<Family> {
    let mut remarks = text.lines().filter(|line| line.starts_with('#'));
    let remark = remarks.find(|line| line.contains("tables-save"))?;
    Some(if remark.contains("ip6tables-save") { Family::Ipv6 } else { Family::Ipv4 })
}

/// Reads a table of the family that the text's remark tells; without a remark, of IPv4 if it can be
/// read so, else of IPv6.
///
/// # Errors
///
/// As [`read`].
pub fn read_either(file: &str, text: &str, options: Options<'_>) -> Result<Ruleset, RulesError> {
    let of = |family| read(file, text, Options { family, ..options });
    match family_of(text) {
        Some(family) => of(family),
        // The errors of the usual family are the ones to tell.
        None => of(Family::Ipv4).or_else(|error| of(Family::Ipv6).map_err(|_| error)),
    }
}

/// Notes the chains that packets of the entry meet too, such as PREROUTING before INPUT in
/// `mangle`.
fn other_chains(ruleset: &Ruleset, problems: &mut Problems) {
    let entry = &ruleset.chain(ruleset.entry()).name;
    for chain in ruleset.base_chains().map(|id| ruleset.chain(id)) {
        let is_harmless = chain.rules.is_empty() && chain.policy == Some(Verdict::Accept);
        if chain.name != *entry && !is_harmless && hooks::meet(entry, &chain.name) {
            let message = format!(
                "found chain {:?}, which packets of {entry:?} meet too: allowed is one such chain, or \
                 the name of the one to read (--chain)",
                chain.name
            );
            problems.push(chain.origin.line, 0, message);
        }
    }
}

struct Reader<'o> {
    options: Options<'o>,
    problems: Problems,
    builder: RulesetBuilder,
    chains: HashSet<String>,
    /// The table that lines belong to.
    table: Option<String>,
    /// Whether the chosen table was found.
    found: bool,
    /// Other tables of which a problem was noted.
    refused: HashSet<String>,
}

impl Reader<'_> {
    fn line(&mut self, line: &str, number: u32) {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            return;
        }
        if let Some(table) = line.strip_prefix('*') {
            self.table = Some(table.to_owned());
            self.found |= table == self.options.table;
            return;
        }
        if line == "COMMIT" {
            self.table = None;
            return;
        }
        let Some(table) = self.table.clone() else {
            let allowed = "a table, as *filter, before anything else";
            return self.problems.found(number, 1, line, allowed);
        };
        let chosen = table == self.options.table;
        let chain = line.strip_prefix(':');
        // A chain of another table that lets all pass says nothing of the packets.
        let policy = chain.map(|chain| chain.split_whitespace().nth(1));
        let is_harmless = policy.is_some_and(|policy| policy != Some("DROP"));
        let is_refused = self.options.other_tables == OtherTables::Refuse && !is_harmless;
        if let (Some(chain), true) = (chain, chosen) {
            self.chain(chain, number);
        } else if chosen {
            self.rule(line, number);
        } else if is_refused && self.refused.insert(table) {
            let what = if chain.is_some() { "a policy" } else { "a rule" };
            let message = format!(
                "found {what} of another table than {:?}, which may change what that one sees: \
                 allowed are other tables only if they are to be skipped",
                self.options.table
            );
            self.problems.push(number, 1, message);
        }
    }

    /// `INPUT DROP [0:0]`.
    fn chain(&mut self, line: &str, number: u32) {
        let mut words = line.split_whitespace();
        let (Some(name), Some(policy)) = (words.next(), words.next()) else {
            let allowed = "a chain, a policy and counters, as :INPUT DROP [0:0]";
            return self.problems.found(number, 2, line, allowed);
        };
        let column = 2 + line.find(policy).unwrap_or(0) as u32;
        let policy = match policy {
            "ACCEPT" => Some(Verdict::Accept),
            "DROP" => Some(Verdict::Drop),
            "-" => None,
            other => return self.problems.found(number, column, other, "ACCEPT, DROP or -"),
        };
        let counters = match words.next().map(|text| (text, read_counters(text))) {
            None => None,
            Some((_, Some(counters))) => policy.is_some().then_some(counters),
            Some((text, None)) => {
                let column = 2 + line.find(text).unwrap_or(0) as u32;
                return self.problems.found(number, column, text, "counters as [packets:bytes]");
            }
        };
        self.chains.insert(name.to_owned());
        if let Err(error) = self.builder.declare_chain(name, policy, counters, number) {
            self.problems.extend(error);
        }
    }

    fn rule(&mut self, line: &str, number: u32) {
        let known = |name: &str| self.chains.contains(name);
        match rule::read(line, self.options.family, &known, &mut self.builder, number) {
            Ok(()) => {}
            Err((column, message)) => self.problems.push(number, column, message),
        }
    }
}
