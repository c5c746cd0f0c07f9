//! The conventions of the command line, checked over every command of its definition.

use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::cli::Cli;
use crate::exit_codes;

/// Options that share their name with those of other commands and mean something else.
const ANOTHER_MEANING: [(&str, &str); 6] = [
    // A numbered database of Redis.
    ("import rdb", "db"),
    ("import redis", "db"),
    // A header of HTTP.
    ("ingest", "header"),
    // A folder.
    ("man", "output"),
    ("zone convert-gdnsd", "output"),
    // A language.
    ("rules compile", "to"),
];

const PAGE: &str = include_str!("../../../docs/reference/command-line.md");

/// Every command that does something and is shown, with its names.
fn commands() -> Vec<(String, Command)> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut waiting = vec![(String::new(), root)];
    let mut found = Vec::new();
    while let Some((names, command)) = waiting.pop() {
        let below: Vec<_> = command.get_subcommands().filter(|it| !it.is_hide_set()).collect();
        for below in &below {
            let names = format!("{names} {}", below.get_name()).trim_start().to_owned();
            waiting.push((names, (*below).clone()));
        }
        if below.is_empty() {
            found.push((names, command));
        }
    }
    assert!(found.len() > 25, "{}", found.len());
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| !argument.is_hide_set())
}

fn option<'a>(command: &'a Command, long: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|argument| argument.get_long() == Some(long))
}

#[test]
fn every_help_text_is_one_line_that_begins_with_a_capital_and_has_no_full_stop_at_its_end() {
    let mut wrong = Vec::new();
    for (names, command) in commands() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let options = shown(&command).map(|argument| {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            (argument.get_id().to_string(), help)
        });
        for (of, text) in options.chain([("itself".to_owned(), about)]) {
            let is_line = !text.is_empty() && !text.contains('\n') && text.chars().count() <= 120;
            let begins = text.starts_with("gdnsd")
                || text.chars().next().is_some_and(|first| !first.is_lowercase());
            if !is_line || !begins || text.ends_with('.') {
                wrong.push(format!("{names} {of} ({}): {text}", text.chars().count()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn options_of_one_name_have_one_value_name_and_values_have_names_in_capitals() {
    let mut wrong = Vec::new();
    let mut known: Vec<(String, Vec<String>, String)> = Vec::new();
    for (names, command) in commands() {
        for argument in shown(&command) {
            let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
            let Some(values) = argument.get_value_names().filter(|_| takes_value) else { continue };
            // A name in front may be optional.
            let bare = |value: &clap::builder::Str| match value.split_once(']') {
                Some((_, value)) if value.chars().all(char::is_alphabetic) => value.to_owned(),
                _ => value.to_string(),
            };
            let values: Vec<String> = values.iter().map(bare).collect();
            for value in &values {
                let is_right = value.chars().all(|letter| !letter.is_lowercase());
                assert!(is_right, "{names}: {value}");
            }
            let Some(long) = argument.get_long() else { continue };
            if ANOTHER_MEANING.contains(&(&names, long)) {
                continue;
            }
            // A value that is one of few words is named after its option; so are both forms here.
            match known.iter().find(|(of, ..)| of == long) {
                Some((_, of, first)) if *of != values => {
                    wrong.push(format!("--{long} {values:?} of {names}, {of:?} of {first}"));
                }
                Some(_) => {}
                None => known.push((long.to_owned(), values, names.clone())),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(known.len() > 60);
}

#[test]
fn what_a_command_writes_is_named_by_output_and_its_server_by_server() {
    let mut outputs = 0;
    for (names, command) in commands() {
        for argument in command.get_arguments() {
            let long = argument.get_long().unwrap_or_default();
            let is_output = long == "output";
            assert_eq!(argument.get_short() == Some('o'), is_output, "{names} --{long}");
            outputs += usize::from(is_output);
            for old in ["out", "from", "url", "output-file", "output-format", "server-url", "host"]
            {
                assert_ne!(long, old, "{names}");
            }
        }
        if let Some(server) = option(&command, "server") {
            assert_eq!(server.get_value_names().map(|names| names[0].as_str()), Some("URL"));
            assert!(option(&command, "password-file").is_some(), "{names}");
        }
        for asked in [
            "backup",
            "export",
            "feeds",
            "import points",
            "import rdb",
            "import redis",
            "ingest",
            "sync",
        ] {
            assert!(names != asked || option(&command, "server").is_some(), "{names}");
        }
    }
    assert!(outputs >= 9, "{outputs}");
}

#[test]
fn every_command_that_prints_text_prints_json_when_asked() {
    // What these print is in another language: rules, rows, records, a script, or nothing.
    let others =
        ["completions", "db dump", "enrich", "export", "lookup", "man", "rules convert", "serve"];
    for (names, command) in commands() {
        let has_json = option(&command, "json").is_some();
        assert_eq!(has_json, !others.contains(&names.as_str()), "{names}");
        let is_switch = option(&command, "json").is_none_or(|json| {
            matches!(json.get_action(), ArgAction::SetTrue) && json.get_short().is_none()
        });
        assert!(is_switch, "{names}");
    }
}

#[test]
fn the_page_of_the_command_line_lists_every_exit_code_of_every_command() {
    let commands = commands();
    for (name, when) in exit_codes::ONE {
        assert!(commands.iter().any(|(names, _)| names == name), "there is no {name}");
        assert!(PAGE.contains(&format!("| `{name}` | {when} |\n")), "{name}");
    }
    let (_, table) = PAGE.split_once("| command | exit code 1 |").expect("the table is there");
    let (table, _) = table.split_once("\n\n").expect("it ends");
    assert_eq!(table.lines().count() - 2, exit_codes::ONE.len());
}
