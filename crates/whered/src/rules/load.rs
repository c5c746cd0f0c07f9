//! A file of rules: its bytes, its format, its ruleset; and what the program cannot know about it.
//!
//! Not for: the formats themselves (`whered-rules`).
//!
//! Cost: a family that iptables' file does not state is found by reading it once or twice.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use whered_engine::FilePlaces;
use whered_engine::ip::HostBitsFinder;
use whered_rules::iptables::OtherTables;
use whered_rules::naive::Sets;
use whered_rules::{Format, Predicate, RulesError, Ruleset, Test, classbench, iptables, nft, text};

use super::flags::{ReadArguments, RulesFormat};
use crate::enrich::fields::names_and_paths;
use crate::outcome::{Failure, Outcome, complain};
use whered_connect::unpack::read_plain;

/// How a file is read.
#[derive(Clone, Copy)]
pub(super) struct Options<'a> {
    pub(super) format: Option<RulesFormat>,
    pub(super) chain: Option<&'a str>,
    pub(super) table: Option<&'a str>,
    pub(super) skip_tables: bool,
}

impl<'a> From<&'a ReadArguments> for Options<'a> {
    fn from(arguments: &'a ReadArguments) -> Options<'a> {
        Options {
            format: arguments.format,
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
    let bytes = read_plain(path).map_err(fail)?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count();
        let name = shown(path);
        Failure::Message(format!("{name}:{line}: found bytes that are no text: allowed is UTF-8"))
    })
}

/// Reads a ruleset, and tells what is doubtful about its prefixes.
pub(super) fn ruleset(path: &Path, options: Options<'_>) -> Result<Ruleset, Wrong> {
    let (ruleset, doubt) = ruleset_and_doubt(path, options)?;
    if let Some(doubt) = doubt {
        complain(&doubt);
    }
    Ok(ruleset)
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
    let ruleset = match options.format.unwrap_or_else(|| guess(rules)) {
        RulesFormat::Own => text::read(name, rules)?,
        RulesFormat::Classbench => classbench::read(name, rules, classbench::Flags::Read)?,
        RulesFormat::Nft => {
            let nft = nft::Options { table: options.table, chain: options.chain };
            return Ok(nft::read(name, rules, nft)?);
        }
        RulesFormat::Iptables => return Ok(read_iptables(name, rules, options)?),
    };
    if options.table.is_some() {
        let message =
            format!("{name}: --table is for iptables and nft; these rules have no tables");
        return Err(Failure::Message(message).into());
    }
    let Some(chain) = options.chain else { return Ok(ruleset) };
    let names: Vec<&str> =
        ruleset.base_chains().map(|id| ruleset.chain(id).name.as_str()).collect();
    let message = format!("{name}: found --chain {chain:?}: allowed is {}", names.join(", "));
    Ok(ruleset.entered_by(chain).ok_or(Failure::Message(message))?)
}

/// The format by the first line that is no remark.
fn guess(rules: &str) -> RulesFormat {
    match Format::of(rules) {
        Format::Iptables => RulesFormat::Iptables,
        Format::Nft => RulesFormat::Nft,
        Format::Classbench => RulesFormat::Classbench,
        Format::Own => RulesFormat::Own,
    }
}

/// The family is that of the tool that its remark names; without one, IPv6 if the file can be read
/// only so.
fn read_iptables(name: &str, rules: &str, options: Options<'_>) -> Result<Ruleset, RulesError> {
    let other_tables = if options.skip_tables { OtherTables::Skip } else { OtherTables::Refuse };
    let defaults = iptables::Options::default();
    let table = options.table.unwrap_or(defaults.table);
    let chosen = iptables::Options { table, chain: options.chain, other_tables, ..defaults };
    iptables::read_either(name, rules, chosen)
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

/// Tells which sets are taken as empty, since only a server knows what they hold.
pub(super) fn tell_live_sets(ruleset: &Ruleset) {
    let conditions = ruleset.rules().iter().flat_map(|rule| &rule.conditions);
    let asked: BTreeSet<&str> = conditions
        .filter_map(|condition| match &condition.test {
            Test::Set(_, name) => Some(name.as_str()),
            _ => None,
        })
        .collect();
    for name in asked {
        if ruleset.set_named(name).is_none_or(|set| set.elements.is_none()) {
            let file = &ruleset.chain(ruleset.entry()).origin.file;
            complain(&format!("{file}: set {name:?} is live; it is taken as empty"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_the_first_line_that_is_no_remark() {
        for (rules, format) in [
            ("# Generated by iptables-save\n*filter\n", RulesFormat::Iptables),
            ("\n  {\"nftables\": []}", RulesFormat::Nft),
            ("@1.2.3.4/32\t0.0.0.0/0", RulesFormat::Classbench),
            ("# mine\n\nchain input policy drop {\n}\n", RulesFormat::Own),
            ("", RulesFormat::Own),
        ] {
            assert_eq!(guess(rules), format, "{rules:?}");
        }
    }
}
