//! Spellings of options of the version before, which go on working for one version, with a remark.
//!
//! For: the whole program; every old spelling of an option is in one of the two lists here, and a
//! test runs each.
//! Not for: help, manual pages and completions, which know the new spellings alone.
//!
//! ```text
//! arguments ─> renamed() ─> clap ─> a command ─> output_of() where the last operand was the output
//!                  └───────── remark ──────────────────┘
//! ```
//!
//! An option's value never begins with the name of an option, so that words may be replaced before
//! anything else reads them. Words behind `--` stay as they are.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::outcome::{Failure, complain};

/// An option that has another name now.
struct RenamedOption {
    /// Its commands, without the program's name.
    commands: &'static [&'static str],
    old: &'static str,
    new: &'static str,
    /// It has its old meaning only together with this old option.
    only_with: Option<&'static str>,
}

const fn renamed_option(
    commands: &'static [&'static str],
    old: &'static str,
    new: &'static str,
) -> RenamedOption {
    RenamedOption { commands, old, new, only_with: None }
}

const RENAMED: [RenamedOption; 17] = [
    renamed_option(&["backup", "export", "steer explain", "sync"], "--from", "--server"),
    renamed_option(&["import points", "import redis"], "--to", "--server"),
    renamed_option(&["feeds", "ingest"], "--url", "--server"),
    renamed_option(&["import redis"], "--state", "--state-file"),
    renamed_option(&["export"], "--to", "--output"),
    renamed_option(&["enrich"], "--output-format", "--format"),
    renamed_option(
        &[
            "db build",
            "db merge",
            "import points",
            "rules check",
            "rules explain",
            "rules test",
            "sync",
        ],
        "--format",
        "--input-format",
    ),
    renamed_option(
        &["rules check", "rules convert", "rules explain", "rules test"],
        "--from",
        "--input-format",
    ),
    RenamedOption {
        commands: &["rules convert"],
        old: "--format",
        new: "--input-format",
        only_with: Some("--to"),
    },
    renamed_option(&["rules convert"], "--to", "--format"),
    renamed_option(&["rules explain"], "--src", "--source"),
    renamed_option(&["rules explain"], "--dst", "--destination"),
    renamed_option(&["rules explain"], "--proto", "--protocol"),
    renamed_option(&["rules explain"], "--sport", "--source-port"),
    renamed_option(&["rules explain"], "--dport", "--destination-port"),
    renamed_option(&["rules explain"], "--in", "--input-interface"),
    renamed_option(&["rules explain"], "--out", "--output-interface"),
];

/// Commands whose last operand was the output, which has an option now.
const OUTPUT_OPERANDS: [&str; 6] =
    ["db build", "db convert", "db edit", "db merge", "man", "zone convert-gdnsd"];

/// The arguments with new spellings in the place of old ones.
pub(crate) fn renamed(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    for (old, new) in replace(&mut arguments) {
        remark(old, new);
    }
    arguments
}

fn remark(old: &str, new: &str) {
    complain(&format!("remark: {old} is now {new}; the next version refuses the old spelling"));
}

/// A remark on the member of JSON that has another name now, beside which the old one stays.
pub(crate) fn remark_on_network(command: &str) {
    complain(&format!(
        "remark: 'network' in the JSON of `whered {command}` is now 'prefix'; the next version \
         writes 'prefix' alone"
    ));
}

/// Replaces old options; gives each once with its new name.
fn replace(arguments: &mut [OsString]) -> Vec<(&'static str, &'static str)> {
    let end = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
    let words = &mut arguments[..end];
    let command = |count: usize| {
        let names = words.iter().skip(1).take(count).map(|word| word.to_string_lossy());
        names.collect::<Vec<_>>().join(" ")
    };
    let commands = [command(1), command(2)];
    let is_of = |option: &RenamedOption| {
        let mut names = option.commands.iter();
        names.any(|name| commands.iter().any(|command| command == name))
    };
    let has = |name: &str| words.iter().any(|word| option_value(word, name).is_some());
    let options = RENAMED.iter().filter(|option| is_of(option) && option.only_with.is_none_or(has));
    let options: Vec<&RenamedOption> = options.collect();
    let mut replaced = Vec::new();
    for word in words {
        let found =
            options.iter().find_map(|option| Some((*option, option_value(word, option.old)?)));
        let Some((RenamedOption { old, new, .. }, rest)) = found else { continue };
        *word = OsString::from_vec([new.as_bytes(), rest].concat());
        if !replaced.contains(&(*old, *new)) {
            replaced.push((old, new));
        }
    }
    replaced
}

/// What follows the name of an option in a word: nothing, or `=` and the value.
fn option_value<'a>(word: &'a OsStr, name: &str) -> Option<&'a [u8]> {
    let rest = word.as_bytes().strip_prefix(name.as_bytes())?;
    (rest.is_empty() || rest[0] == b'=').then_some(rest)
}

/// The output of a command: that of `--output`, or the last of its operands, which an earlier
/// version wanted there.
pub(crate) fn output_of(
    command: &str,
    output: Option<&PathBuf>,
    operands: &mut Vec<PathBuf>,
) -> Result<PathBuf, Failure> {
    if let Some(output) = output {
        return Ok(output.clone());
    }
    assert!(OUTPUT_OPERANDS.contains(&command), "{command} is in the list");
    match operands.pop() {
        Some(last) if !operands.is_empty() || command == "man" => {
            remark(&format!("the last operand of `whered {command}`"), "--output");
            Ok(last)
        }
        _ => Err(Failure::new("no output; allowed: --output PATH")),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    /// A command of the definition, by its names.
    fn command_of(names: &str) -> clap::Command {
        names.split(' ').fold(Cli::command(), |command, name| {
            command.find_subcommand(name).unwrap_or_else(|| panic!("{names}")).clone()
        })
    }

    #[test]
    fn every_old_spelling_becomes_one_that_the_definition_has_and_is_remarked_on() {
        for RenamedOption { commands, old, new, only_with } in &RENAMED {
            for command in *commands {
                for is_joined in [false, true] {
                    let sign = if is_joined { "=" } else { " " };
                    let with = only_with.map_or(String::new(), |with| format!(" {with}{sign}nft"));
                    let mut given = words(&format!("whered {command} {old}{sign}value{with}"));
                    let remarks = replace(&mut given);
                    assert!(remarks.contains(&(*old, *new)), "{command} {old}");
                    let wanted = words(&format!("whered {command} {new}{sign}value"));
                    assert_eq!(given[..wanted.len()], wanted, "{command}");
                }
                let definition = command_of(command);
                let mut longs = definition.get_arguments().filter_map(|it| it.get_long());
                assert!(longs.any(|long| format!("--{long}") == *new), "{command} has no {new}");
                let mut longs = definition.get_arguments().filter_map(|it| it.get_long());
                let is_free = longs.all(|long| format!("--{long}") != *old);
                assert!(is_free || only_with.is_some(), "{command} has {old} as a new option");
            }
        }
        for command in OUTPUT_OPERANDS {
            let definition = command_of(command);
            let output = definition.get_arguments().find(|it| it.get_long() == Some("output"));
            assert!(output.is_some_and(|it| it.get_short() == Some('o')), "{command}");
        }
    }

    #[test]
    fn other_words_stay_as_they_are() {
        for line in [
            "whered sync blocked --server unix:///s --to nft:inet/filter/blocked",
            "whered rules convert edge.rules --format nft --input-format iptables",
            "whered match --rules edge.rules --format json",
            "whered ingest feed -- --url",
            "whered --from",
            "whered",
        ] {
            let mut given = words(line);
            assert_eq!(replace(&mut given), [], "{line}");
            assert_eq!(given, words(line));
        }
    }

    #[test]
    fn converting_rules_by_the_old_options_means_what_it_meant() {
        let mut given = words("whered rules convert a.rules --format=iptables --to nft");
        assert_eq!(replace(&mut given).len(), 2);
        assert_eq!(
            given,
            words("whered rules convert a.rules --input-format=iptables --format nft")
        );
        assert!(Cli::try_parse_from(given).is_ok());
    }
}
