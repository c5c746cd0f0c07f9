//! `whered man` and `whered completions`: manual pages and completions of shells, generated from
//! the definition of the command line (`cli.rs`).
//!
//! Not for: help on the terminal, which clap prints from the same definition.

use std::fs;
use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::{Cli, DATE, ManArguments};
use crate::exit_codes;
use crate::old_spellings::output_of;
use crate::outcome::{Failure, Outcome};

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "whered", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Outcome::Found)
}

/// Writes one page for each command into the directory, which is made if it is absent.
pub(crate) fn pages(arguments: &ManArguments) -> Result<Outcome, Failure> {
    let directory = &output_of("man", arguments.output.as_ref(), &mut arguments.old.clone())?;
    fs::create_dir_all(directory).map_err(|error| Failure::file(directory, error))?;
    for (name, page) in all_pages() {
        let path = directory.join(name);
        fs::write(&path, page).map_err(|error| Failure::file(&path, error))?;
    }
    Ok(Outcome::Found)
}

/// File name and text of every page.
fn all_pages() -> Vec<(String, Vec<u8>)> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let version = root.get_version().unwrap_or_default().to_owned();
    let mut pages = Vec::new();
    let mut waiting = vec![(root, None)];
    while let Some((command, parent)) = waiting.pop() {
        let name = name(&command).to_owned();
        pages.push((format!("{name}.1"), page(&command, parent.as_deref(), &version)));
        let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
        waiting.extend(shown.cloned().map(|below| (below, Some(name.clone()))));
    }
    pages
}

/// The name of a command's page: `whered-db-build`.
fn name(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &clap::Command, parent: Option<&str>, version: &str) -> Vec<u8> {
    // Other commands have no version of their own; the page names the program's at its foot.
    let man =
        Man::new(command.clone()).date(DATE).source(format!("whered {version}")).manual("whered");
    let mut page = Vec::new();
    man.render(&mut page).expect("memory takes all that is written");
    page.extend_from_slice(exit_status(command).as_bytes());
    if let Some(parent) = parent {
        let parent = parent.replace('-', "\\-");
        page.extend_from_slice(format!(".SH SEE ALSO\n.BR {parent} (1)\n").as_bytes());
    }
    page
}

/// The exit codes: those of the whole program, with the command's own meaning of 1.
fn exit_status(command: &clap::Command) -> String {
    let own = exit_codes::one(&name(command).replacen("whered-", "", 1).replacen('-', " ", 1));
    let mut section = ".SH EXIT STATUS\n".to_owned();
    for (code, meaning) in exit_codes::CODES {
        let text = match (code, own, command.has_subcommands()) {
            (1, Some(own), _) => format!("{}{}.", own[..1].to_uppercase(), &own[1..]),
            (1, None, false) => continue,
            _ => meaning.to_owned(),
        };
        section.push_str(&format!(".TP\n{code}\n{text}\n"));
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command that is shown, with the name of its page.
    fn shown_commands() -> Vec<clap::Command> {
        let mut root = Cli::command().disable_help_subcommand(true);
        root.build();
        let mut shown = vec![root];
        let mut next = 0;
        while let Some(command) = shown.get(next) {
            let below: Vec<_> =
                command.get_subcommands().filter(|below| !below.is_hide_set()).cloned().collect();
            shown.extend(below);
            next += 1;
        }
        shown
    }

    #[test]
    fn every_option_of_every_command_is_in_its_man_page() {
        let pages = all_pages();
        let commands = shown_commands();
        assert_eq!(pages.len(), commands.len());
        for command in commands {
            let name = format!("{}.1", name(&command));
            let (_, page) = pages.iter().find(|(of, _)| *of == name).expect(&name);
            let page = String::from_utf8_lossy(page);
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let texts = match (argument.get_long(), argument.get_value_names()) {
                    (Some(long), _) => vec![format!("\\fB\\-\\-{}\\fR", long.replace('-', "\\-"))],
                    (None, Some(names)) => {
                        names.iter().map(|name| format!("\\fI{name}\\fR")).collect()
                    }
                    (None, None) => vec![argument.get_id().to_string()],
                };
                for text in texts {
                    let described = page
                        .split(".SH OPTIONS")
                        .nth(1)
                        .is_some_and(|options| options.contains(&text));
                    assert!(described, "{name} lacks {text}");
                }
            }
        }
    }
}
