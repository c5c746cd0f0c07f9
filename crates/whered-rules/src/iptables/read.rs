//! Reads tables, chains and policies; `rule` beside this file reads the rules.
//!
//! For: everything of the file's lines but what follows `-A CHAIN`; which of them are read.
//!
//! ```text
//! lines ─► tables ─► the chosen one ─► chains that the asked chain reaches ─► rules
//!                 └► others: may they drop packets that come to the asked chain?
//! ```
//!
//! Invariants: only the chosen table becomes rules, and of it only what the chosen chain reaches,
//! if there is one. Another table that may decide about the same packets is a problem or a remark,
//! as the caller says; one that may not is passed over with a remark. Another chain of the
//! table that the same packets meet is a problem unless the caller chose one. Concurrency: pure.
//! Cost: linear.

use std::sync::Arc;

use super::rule::{self, Context};
use super::scan::{self, Effects, Line};
use super::targets::PASSING;
use crate::error::{Problems, RulesError};
use crate::hooks;
use crate::model::{Counters, Hook, Ruleset, RulesetBuilder, Verdict};
use crate::packet::Family;
use crate::text::read_counters;

/// The treatment of tables other than the one that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OtherTables {
    /// Rules and policies that may drop packets of the asked chain are a problem.
    #[default]
    Refuse,
    /// Such rules and policies are a remark.
    Remark,
    /// They are left out.
    Skip,
}

/// How a file is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options<'a> {
    /// `iptables-save` or `ip6tables-save`.
    pub family: Family,
    /// Which table, usually `filter`; with a family before it, `ip6 filter`, only of that.
    pub table: &'a str,
    /// The chain that packets enter, of which only what it reaches is read; `None`: all is read,
    /// and packets enter [`Ruleset::entry`].
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

/// Reads one table of the output of `iptables-save` or `ip6tables-save`, or of a file that somebody
/// wrote for `iptables-restore`.
///
/// # Errors
///
/// All problems of the text (up to a hundred), among them every match and target that cannot be
/// expressed.
pub fn read(file: &str, text: &str, options: Options<'_>) -> Result<Ruleset, RulesError> {
    let (family, table) = family_and_table(options.table);
    let options = Options { family: family.unwrap_or(options.family), table, ..options };
    let mut problems = Problems::new(&Arc::from(file));
    let tables = tables(text, options, &mut problems);
    let mut builder = RulesetBuilder::new(file);
    builder.set_name(options.table);
    builder.set_family(Some(options.family));
    if let Some(chain) = options.chain {
        builder.set_entry(chain);
    }
    let Some(chosen) = tables.iter().find(|table| table.name == options.table) else {
        if problems.is_empty() {
            let message =
                format!("found no table {:?}: allowed is a file that has one", options.table);
            problems.push(1, 0, message);
        }
        return Err(problems.finish().expect_err("a problem was noted"));
    };
    read_table(chosen, options, &mut builder, &mut problems);
    if problems.is_empty() {
        let mut ruleset = builder.build()?;
        set_priorities(&mut ruleset, options.table);
        let entry = ruleset.chain(ruleset.entry()).name.clone();
        if options.chain.is_none() {
            other_chains(&ruleset, &mut problems);
            ruleset.remarks.extend(hooks::remark_on_entry(file, &ruleset));
        }
        if options.other_tables != OtherTables::Skip {
            for other in tables.iter().filter(|table| table.name != options.table) {
                let remark = pass_over(other, &entry, options, &mut problems);
                ruleset.remarks.extend(remark.map(|remark| format!("{file}: {remark}")));
            }
        }
        problems.finish()?;
        return Ok(ruleset);
    }
    Err(problems.finish().expect_err("problems were noted"))
}

/// `ip6 filter`: the family and the table.
fn family_and_table(table: &str) -> (Option<Family>, &str) {
    match table.trim().split_once(' ') {
        Some(("ip" | "ipv4" | "inet", name)) => (Some(Family::Ipv4), name.trim()),
        Some(("ip6" | "ipv6" | "inet6", name)) => (Some(Family::Ipv6), name.trim()),
        _ => (None, table),
    }
}

/// The family of a file, as the comment of the program that wrote it says.
pub fn family_of(text: &str) -> Option<Family> {
    text.lines().find_map(family_of_line)
}

fn family_of_line(line: &str) -> Option<Family> {
    let is_remark = line.starts_with('#') && line.contains("tables-save");
    let is_6 = line.contains("ip6tables-save");
    is_remark.then_some(if is_6 { Family::Ipv6 } else { Family::Ipv4 })
}

/// Reads a table of the family that is named with it or that the text's remark tells; without a
/// remark, of IPv4 if it can be read so, else of IPv6.
///
/// # Errors
///
/// As [`read`].
pub fn read_either(file: &str, text: &str, options: Options<'_>) -> Result<Ruleset, RulesError> {
    let of = |family| read(file, text, Options { family, ..options });
    match family_and_table(options.table).0.or_else(|| family_of(text)) {
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

/// A chain as its line declares it.
struct ChainLine<'t> {
    number: u32,
    /// What follows the colon; "" for a chain of the kernel that has no line.
    text: &'t str,
    name: String,
}

/// A table of the family that is read, its parts in the order of the file.
struct Table<'t> {
    name: &'t str,
    chains: Vec<ChainLine<'t>>,
    lines: Vec<Line<'t>>,
}

/// The chains that the kernel has in a table.
fn chains_of_kernel(table: &str) -> &'static [&'static str] {
    match table {
        "nat" => &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
        "mangle" => &["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"],
        "raw" => &["PREROUTING", "OUTPUT"],
        _ => &["INPUT", "FORWARD", "OUTPUT"],
    }
}

/// The tables of the chosen family; several parts of one table are one.
fn tables<'t>(text: &'t str, options: Options<'_>, problems: &mut Problems) -> Vec<Table<'t>> {
    let mut tables: Vec<Table<'t>> = Vec::new();
    let mut open: Option<usize> = None;
    let (mut family, mut is_skipped) = (None, false);
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            family = family_of_line(line).or(family);
            continue;
        }
        if let Some(name) = line.strip_prefix('*') {
            let name = name.trim();
            is_skipped = family.is_some_and(|family| family != options.family);
            if is_skipped {
                continue;
            }
            let known = tables.iter().position(|table| table.name == name);
            open = Some(known.unwrap_or(tables.len()));
            if known.is_none() {
                tables.push(Table { name, chains: Vec::new(), lines: Vec::new() });
            }
            continue;
        }
        if line == "COMMIT" {
            (open, is_skipped) = (None, false);
            continue;
        }
        if is_skipped {
            continue;
        }
        let Some(table) = open.and_then(|at| tables.get_mut(at)) else {
            let allowed = "a table, as *filter, before anything else";
            problems.found(number, 1, line, allowed);
            continue;
        };
        match line.split_once(char::is_whitespace) {
            _ if line.starts_with(':') => {
                let text = &line[1..];
                let name = text.split_whitespace().next().unwrap_or_default().to_owned();
                table.chains.push(ChainLine { number, text, name });
            }
            Some(("-N" | "--new-chain", name)) => {
                let name = name.trim();
                table.chains.push(ChainLine { number, text: name, name: name.to_owned() });
            }
            Some(("-F" | "--flush" | "-Z" | "--zero", _)) => {}
            None if matches!(line, "-F" | "-Z" | "-X") => {}
            Some(("-P" | "--policy", text)) => {
                let name = text.split_whitespace().next().unwrap_or_default().to_owned();
                table.chains.push(ChainLine { number, text: text.trim(), name });
            }
            _ => table.lines.push(scan::line(number, line)),
        }
    }
    for table in &mut tables {
        for &name in chains_of_kernel(table.name) {
            let is_used = table.lines.iter().find(|line| line.chain == name);
            let is_known = table.chains.iter().any(|chain| chain.name == name);
            if let (Some(line), false) = (is_used, is_known) {
                let (number, name) = (line.number, name.to_owned());
                table.chains.push(ChainLine { number, text: "", name });
            }
        }
    }
    tables
}

/// Reads the chains and rules of the chosen table that the asked chain reaches.
fn read_table(
    table: &Table<'_>,
    options: Options<'_>,
    builder: &mut RulesetBuilder,
    problems: &mut Problems,
) {
    let is_declared = |name: &str| table.chains.iter().any(|chain| chain.name == name);
    if options.chain.is_some_and(|chain| !is_declared(chain)) {
        // The error names the chains that there are.
        for chain in &table.chains {
            read_chain(chain, table.name, builder, problems);
        }
        return;
    }
    let reached = options.chain.map(|chain| scan::reached(&table.lines, [chain.to_owned()]));
    let is_read = |name: &str| reached.as_ref().is_none_or(|reached| reached.contains(name));
    for chain in table.chains.iter().filter(|chain| is_read(&chain.name)) {
        read_chain(chain, table.name, builder, problems);
    }
    // A line whose chain cannot be told is wrong wherever it belongs.
    let is_asked = |line: &&Line<'_>| line.chain.is_empty() || is_read(&line.chain);
    let effects = Effects::of(table.lines.iter().filter(is_asked));
    let context = Context { family: options.family, is_chain: &is_declared, effects: &effects };
    for line in table.lines.iter().filter(is_asked) {
        if let Err(wrong) = rule::read(line.text, context, builder, line.number) {
            match wrong.unsupported {
                None => problems.push(line.number, wrong.column, wrong.message),
                Some(what) => {
                    problems.push_repeated(line.number, wrong.column, wrong.message, what);
                }
            }
        }
    }
}

/// `INPUT DROP [0:0]`, a name alone, or nothing for a chain of the kernel.
fn read_chain(
    chain: &ChainLine<'_>,
    table: &str,
    builder: &mut RulesetBuilder,
    problems: &mut Problems,
) {
    let ChainLine { number, text, name } = chain;
    let is_of_kernel = chains_of_kernel(table).contains(&name.as_str());
    let column = |part: &str| 2 + text.find(part).unwrap_or(0) as u32;
    let mut words = text.split_whitespace().skip(1);
    let policy = match words.next() {
        Some("ACCEPT") => Some(Verdict::Accept),
        Some("DROP") => Some(Verdict::Drop),
        // Without a policy of its own, as kube-proxy writes it, it keeps the kernel's.
        Some("-") if is_of_kernel => Some(Verdict::Accept),
        Some("-") => None,
        None if is_of_kernel => Some(Verdict::Accept),
        None if !name.is_empty() => None,
        None => {
            let allowed = "a chain, a policy and counters, as :INPUT DROP [0:0]";
            return problems.found(*number, 2, text, allowed);
        }
        Some(other) => {
            return problems.found(*number, column(other), other, "ACCEPT, DROP or -");
        }
    };
    let counters: Option<Counters> = match words.next().map(|text| (text, read_counters(text))) {
        None => None,
        Some((_, Some(counters))) => policy.is_some().then_some(counters),
        Some((text, None)) => {
            let allowed = "counters as [packets:bytes]";
            return problems.found(*number, column(text), text, allowed);
        }
    };
    let is_base = policy.is_some();
    match builder.declare_chain(name, policy, counters, *number) {
        Ok(id) => {
            if let Some(hook) = Hook::named(name).filter(|_| is_base) {
                builder.set_hook(id, hook);
            }
        }
        Err(error) => problems.extend(error),
    }
}

/// The order in which a packet of a hook meets the tables.
fn set_priorities(ruleset: &mut Ruleset, table: &str) {
    let priority = match table {
        "raw" => -300,
        "mangle" => -150,
        "nat" => -100,
        "security" => 50,
        _ => 0,
    };
    for chain in ruleset.chains.iter_mut().filter(|chain| chain.hook.is_some()) {
        chain.priority = Some(priority);
    }
}

/// What a table does to packets of a chain of another one: nothing, what a remark says, or a
/// problem, since it may drop them.
fn pass_over(
    table: &Table<'_>,
    entry: &str,
    options: Options<'_>,
    problems: &mut Problems,
) -> Option<String> {
    let chosen = options.table;
    let is_met = |chain: &&ChainLine<'_>| {
        chains_of_kernel(table.name).contains(&chain.name.as_str())
            && hooks::meet(entry, &chain.name)
    };
    let met = || table.chains.iter().filter(is_met);
    let reached = scan::reached(&table.lines, met().map(|chain| chain.name.clone()));
    let mut drops = None;
    let mut dropping = |what: &str, number: u32| {
        if options.other_tables == OtherTables::Remark {
            let text = format!("{what} of it at line {number} may drop packets of {entry:?}");
            drops.get_or_insert(text);
            return true;
        }
        let message = format!(
            "found {what} of another table than {chosen:?}, which may drop what packets of {entry:?} \
             are: allowed are other tables only if they are to be skipped (--skip-tables)"
        );
        problems.push(number, 1, message);
        false
    };
    if let Some(chain) = met().find(|chain| chain.text.split_whitespace().nth(1) == Some("DROP"))
        && !dropping("a policy", chain.number)
    {
        return None;
    }
    // What happens behind the asked chain does not change what it sees.
    let before = met().filter(|chain| chain.name != "POSTROUTING" || entry == "POSTROUTING");
    let before = scan::reached(&table.lines, before.map(|chain| chain.name.clone()));
    let (mut destinations, mut others) = (Vec::new(), Vec::new());
    for line in table.lines.iter().filter(|line| reached.contains(&line.chain)) {
        let Some(target) = line.target.as_deref() else { continue };
        match target {
            "ACCEPT" | "RETURN" | "LOG" => {}
            "DNAT" | "REDIRECT" | "NETMAP" | "MARK" | "CONNMARK" | "DSCP" | "TOS" | "TTL"
            | "HL" | "CT" | "NOTRACK"
                if before.contains(&line.chain) =>
            {
                let is_nat = matches!(target, "DNAT" | "REDIRECT" | "NETMAP");
                let list = if is_nat { &mut destinations } else { &mut others };
                list.push((line.number, target));
            }
            "DNAT" | "REDIRECT" | "NETMAP" | "SNAT" | "MASQUERADE" | "MARK" => {}
            _ if PASSING.contains(&target) => {}
            _ if table.chains.iter().any(|chain| chain.name == target) => {}
            _ if dropping("a rule", line.number) => {}
            _ => return None,
        }
    }
    let and = if drops.is_some() { "and" } else { "but" };
    let has_drops = drops.is_some();
    let drops = drops.unwrap_or_else(|| "it drops nothing".to_owned());
    let mut remark = format!("table {:?} is passed over: {drops}", table.name);
    match (destinations.as_slice(), others.as_slice()) {
        ([], []) if !has_drops => return None,
        ([], []) => {}
        ([], others) => remark += &format!(", {and} changes packets ({})", shown(others)),
        (changed, _) => {
            remark += &format!(
                ", {and} changes destinations before these rules see them ({}): give packets the \
                 translated ones",
                shown(changed)
            );
        }
    }
    Some(remark)
}

/// The first of some targets with their lines.
fn shown(list: &[(u32, &str)]) -> String {
    let first: Vec<String> =
        list.iter().take(3).map(|(line, target)| format!("{target} at line {line}")).collect();
    let more = list.len().saturating_sub(3);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", first.join(", "))
}
