//! A file of rules: its bytes, its format, its ruleset; and what the program cannot know about it.
//!
//! Not for: the formats themselves (`whered-rules`).
//!
//! Cost: a family that iptables' file does not state is found by reading it once or twice.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::path::Path;

use whered_engine::FilePlaces;
use whered_engine::ip::HostBitsFinder;
use whered_rules::iptables::OtherTables;
use whered_rules::naive::Sets;
use whered_rules::{Format, Predicate, ReadOptions, RulesError, Ruleset, Test};

use super::flags::ReadArguments;
use crate::enrich::fields::names_and_paths;
use crate::outcome::{Failure, Outcome, complain};
use crate::unpack::read_plain;

/// How a file is read.
#[derive(Clone, Copy)]
pub(super) struct Options<'a> {
    pub(super) format: Option<Format>,
    pub(super) chain: Option<&'a str>,
    pub(super) table: Option<&'a str>,
    pub(super) skip_tables: bool,
}

impl<'a> From<&'a ReadArguments> for Options<'a> {
    fn from(arguments: &'a ReadArguments) -> Options<'a> {
        Options {
            format: arguments.input_format,
            chain: arguments.chain.as_deref(),
            table: arguments.table.as_deref(),
            skip_tables: arguments.skip_tables,
        }
    }
}

/// What went wrong with a file: a failure of one line, or all problems of its text.
pub(super) enum Wrong {
    Failure(Failure),
    Problems(RulesError),
}

impl From<Failure> for Wrong {
    fn from(failure: Failure) -> Wrong {
        Wrong::Failure(failure)
    }
}

impl From<RulesError> for Wrong {
    fn from(error: RulesError) -> Wrong {
        Wrong::Problems(error)
    }
}

impl Wrong {
    /// Tells everything, a line each; then the command has failed.
    pub(super) fn tell(self) -> Result<Outcome, Failure> {
        match self {
            Wrong::Failure(failure) => Err(failure),
            Wrong::Problems(error) => {
                error.problems().iter().for_each(|problem| complain(&problem.to_string()));
                Ok(Outcome::Failed)
            }
        }
    }
}

/// The name of a file in messages.
pub(super) fn shown(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// The text of a file, or of standard input for `-`.
pub(super) fn text_of(path: &Path) -> Result<String, Failure> {
    let fail = |error: io::Error| Failure::Message(format!("{}: {error}", shown(path)));
    let mut bytes = read_plain(path).map_err(fail)?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    String::from_utf8(bytes).or_else(|error| {
        let bytes = error.as_bytes();
        // Older files have comments in other encodings, which nothing looks at.
        let is_comment = |line: &[u8]| line.trim_ascii_start().starts_with(b"#");
        let mut lines = bytes.split(|&byte| byte == b'\n').zip(1..);
        let wrong = lines.find(|(line, _)| !is_comment(line) && str::from_utf8(line).is_err());
        let Some((_, line)) = wrong else { return Ok(String::from_utf8_lossy(bytes).into_owned()) };
        let name = shown(path);
        let message = format!("{name}:{line}: found bytes that are no text: allowed is UTF-8");
        Err(Failure::Message(message))
    })
}

/// What some editors write before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads the rules of a file, or without one those that this host has loaded.
pub(super) fn file_or_live(path: Option<&Path>, options: Options<'_>) -> Result<Ruleset, Wrong> {
    match path {
        Some(path) => ruleset(path, options),
        None => {
            let ruleset = live(options)?;
            tell_open(&ruleset);
            Ok(ruleset)
        }
    }
}

/// Reads the rules that this host has loaded.
pub(super) fn live(options: Options<'_>) -> Result<Ruleset, Wrong> {
    let format = options.format.unwrap_or(Format::Nft);
    let (name, rules) = super::live::listing(format)?;
    of_text(name, &rules, Options { format: Some(format), ..options })
}

/// Reads a ruleset, and tells what is doubtful about its prefixes.
pub(super) fn ruleset(path: &Path, options: Options<'_>) -> Result<Ruleset, Wrong> {
    let (ruleset, doubt) = ruleset_and_doubt(path, options)?;
    if let Some(doubt) = doubt {
        complain(&doubt);
    }
    tell_open(&ruleset);
    Ok(ruleset)
}

/// Tells what was passed over, and what rules ask that no packet tells.
pub(super) fn tell_open(ruleset: &Ruleset) {
    ruleset.remarks().iter().for_each(|remark| complain(remark));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for rule in ruleset.rules() {
        let kinds: BTreeSet<&str> = rule
            .conditions
            .iter()
            .filter_map(|condition| match &condition.test {
                Test::Uncertain(test) => Some(&*test.kind),
                _ => None,
            })
            .collect();
        kinds.into_iter().for_each(|kind| *counts.entry(kind).or_default() += 1);
    }
    if counts.is_empty() {
        return;
    }
    let shown = |(kind, count): (&&str, &usize)| match count {
        1 => format!("1 rule uses {kind}"),
        count => format!("{count} rules use {kind}"),
    };
    let shown: Vec<String> = counts.iter().map(shown).collect();
    let file = &ruleset.chain(ruleset.entry()).origin.file;
    let shown = shown.join(", ");
    complain(&format!(
        "{file}: {shown}: no packet tells the answer, so such a verdict may be maybe"
    ));
}

/// Reads a ruleset. Its text may have prefixes with bits behind their length, which no rule looks
/// at.
pub(super) fn ruleset_and_doubt(
    path: &Path,
    options: Options<'_>,
) -> Result<(Ruleset, Option<String>), Wrong> {
    let rules = text_of(path)?;
    let name = shown(path);
    let ruleset = of_text(&name, &rules, options)?;
    let remark = HostBitsFinder::of(rules.as_bytes()).remark();
    Ok((ruleset, remark.map(|remark| format!("{name}: {remark}"))))
}

fn of_text(name: &str, rules: &str, options: Options<'_>) -> Result<Ruleset, Wrong> {
    let format = options.format.unwrap_or_else(|| Format::detect(rules));
    let Options { table, chain, skip_tables, .. } = options;
    if options.format.is_none() {
        refuse_commands(name, rules)?;
    }
    let other_tables = if skip_tables { OtherTables::Skip } else { OtherTables::Remark };
    let ruleset = format.read(name, rules, ReadOptions { table, chain, other_tables })?;
    if format.has_tables() {
        return Ok(ruleset);
    }
    if table.is_some() {
        let message =
            format!("{name}: --table is for iptables and nft; these rules have no tables");
        return Err(Failure::Message(message).into());
    }
    let Some(chain) = chain else { return Ok(ruleset) };
    let names: Vec<&str> =
        ruleset.base_chains().map(|id| ruleset.chain(id).name.as_str()).collect();
    let message = format!("{name}: found --chain {chain:?}: allowed is {}", names.join(", "));
    Ok(ruleset.entered_by(chain).ok_or(Failure::Message(message))?)
}

/// Refuses what programs read and do not write: scripts, and the text language of nft.
fn refuse_commands(name: &str, rules: &str) -> Result<(), Failure> {
    let is_comment = |line: &str| line.is_empty() || line.starts_with('#');
    let mut lines = rules.lines().map(str::trim).zip(1..);
    let Some((line, number)) = lines.find(|(line, _)| !is_comment(line)) else { return Ok(()) };
    let mut words = line.split_whitespace().filter(|word| *word != "sudo");
    let first = words.next().unwrap_or_default();
    let (found, allowed) = match first.rsplit('/').next().unwrap_or_default() {
        "iptables" | "ip6tables" => ("commands of iptables", "the output of iptables-save"),
        "table" | "flush" | "add" | "delete" | "destroy" | "define" | "include" => {
            ("the text language of nft", "the output of nft -j list ruleset")
        }
        _ => return Ok(()),
    };
    Err(Failure::Message(format!("{name}:{number}: found {found}: allowed is {allowed}")))
}

/// Opens the databases of `--db`.
pub(super) fn places(arguments: &[String]) -> Result<FilePlaces, Failure> {
    FilePlaces::open(names_and_paths(arguments)?).map_err(Failure::new)
}

/// Refuses rules that ask where an address is and cannot be answered: every one of them has its
/// line.
pub(super) fn refuse_places(ruleset: &Ruleset, places: &FilePlaces) -> Result<(), Outcome> {
    let mut refused = false;
    for rule in ruleset.rules() {
        for condition in &rule.conditions {
            let Test::Place(predicate) = &condition.test else { continue };
            let what = match places.check(predicate) {
                _ if places.is_empty() => format!(
                    "found \"{predicate}\": there is no database to find places in: allowed is \
                     --db [NAME=]FILE"
                ),
                Ok(()) => continue,
                Err(what) => what,
            };
            complain(&format!("{}: {what}", rule.origin));
            refused = true;
        }
    }
    if refused { Err(Outcome::Failed) } else { Ok(()) }
}

/// What rules may ask that are matched without a server: places of files, and no live sets.
pub(super) struct FileSets<'a>(pub(super) &'a FilePlaces);

impl Sets for FileSets<'_> {
    fn contains(&self, _set: &str, _address: IpAddr) -> bool {
        false
    }

    fn is_at(&self, predicate: &Predicate, address: IpAddr) -> bool {
        self.0.is_at(predicate, address)
    }
}

/// The sets whose members only a server knows.
pub(super) fn live_sets(ruleset: &Ruleset) -> BTreeSet<&str> {
    let conditions = ruleset.rules().iter().flat_map(|rule| &rule.conditions);
    let asked = conditions.filter_map(|condition| match &condition.test {
        Test::Set(_, name) => Some(name.as_str()),
        _ => None,
    });
    let is_live = |name: &&str| ruleset.set_named(name).is_none_or(|set| set.elements.is_none());
    asked.filter(is_live).collect()
}

/// Tells which sets are taken as empty, since only a server knows what they hold.
pub(super) fn tell_live_sets(ruleset: &Ruleset) {
    for name in live_sets(ruleset) {
        let file = &ruleset.chain(ruleset.entry()).origin.file;
        complain(&format!("{file}: set {name:?} is live; it is taken as empty"));
    }
}

/// Whether any rule asks for a detail of packets.
pub(super) fn needs_details(ruleset: &Ruleset) -> bool {
    let mut conditions = ruleset.rules().iter().flat_map(|rule| &rule.conditions);
    conditions.any(|condition| matches!(condition.test, Test::Detail(_)))
}
