//! The `whered` program: flags, files and messages to people.
//!
//! Not for: answering anything itself. Every command parses its arguments, asks a library, and
//! prints. One file a command; `cli` defines all commands and flags once.
//!
//! Exit codes: 0 found or done, 1 not found, 2 failed (`exit_codes.rs`). A failure is one line on
//! standard error; a closed pipe on standard output is no failure.
#![forbid(unsafe_code)]

mod addresses;
mod check;
mod cli;
mod control;
mod data;
mod db;
mod demo;
mod enrich;
mod exit_codes;
#[cfg(feature = "export")]
mod export;
mod formats;
mod import;
mod ingest;
mod interrupt;
mod links;
mod logging;
mod lookup;
mod manual;
mod new_file;
mod old_spellings;
mod outcome;
mod reload_note;
mod restart;
mod rules;
mod serve;
mod server;
mod service_manager;
mod steer;
mod sync;
mod terminal;
mod zone;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use whered_connect::unpack;

use crate::cli::{Cli, Command, DbCommand, ImportCommand, RulesCommand, SteerCommand, ZoneCommand};
use crate::outcome::{Failure, Outcome};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The answer to `whered bench` for one version.
const BENCH_MOVED: &str = "`whered bench` is now the program `whered-bench`; in the repository: \
                           cargo run --release --package whered-bench -- COMMAND";

fn main() -> ExitCode {
    whered_server::use_own_name_services();
    let cli = match Cli::try_parse_from(old_spellings::renamed(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let outcome = match cli.command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Lookup(arguments) => lookup::run(&arguments),
        Command::Enrich(arguments) => enrich::run(&arguments),
        #[cfg(feature = "export")]
        Command::Export(arguments) => export::run(&arguments),
        Command::Formats(arguments) => formats::run(&arguments),
        Command::Ingest(arguments) => ingest::run(&arguments),
        Command::Feeds(arguments) => ingest::list(&arguments),
        Command::Rules(RulesCommand::Check(arguments)) => rules::check(&arguments),
        Command::Rules(RulesCommand::Test(arguments)) => rules::test(&arguments),
        Command::Rules(RulesCommand::Explain(arguments)) => rules::explain(&arguments),
        Command::Rules(RulesCommand::Convert(arguments)) => rules::convert(&arguments),
        Command::Rules(RulesCommand::Compile(arguments)) => rules::compile(&arguments),
        Command::Rules(RulesCommand::Apply(arguments)) => rules::apply(&arguments),
        Command::Status(arguments) => control::status(&arguments),
        Command::Reload(arguments) => control::reload(&arguments),
        Command::Stop(arguments) => control::stop(&arguments),
        Command::Steer(SteerCommand::Explain(arguments)) => steer::explain(&arguments),
        Command::Zone(ZoneCommand::Check(arguments)) => zone::check(&arguments),
        Command::Zone(ZoneCommand::Key(command)) => zone::key(&command),
        Command::Zone(ZoneCommand::ConvertGdnsd(arguments)) => zone::convert_gdnsd(&arguments),
        Command::Zone(ZoneCommand::Discard(arguments)) => zone::discard(&arguments),
        Command::Zone(ZoneCommand::Refresh(arguments)) => zone::refresh(&arguments),
        Command::Zone(ZoneCommand::Retransfer(arguments)) => zone::retransfer(&arguments),
        Command::Match(arguments) => rules::find(&arguments),
        Command::Sync(arguments) => sync::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Backup(arguments) => data::backup(&arguments),
        Command::Restore { backup, data_dir, json } => data::restore(&backup, &data_dir, json),
        Command::Repair { data_dir, json } => data::repair(&data_dir, json),
        Command::Import(ImportCommand::Redis(arguments)) => import::redis(&arguments),
        Command::Import(ImportCommand::Rdb(arguments)) => import::dump::rdb(&arguments),
        Command::Import(ImportCommand::Points(arguments)) => import::points(&arguments),
        Command::Db(DbCommand::Info(arguments)) => db::info(&arguments),
        Command::Db(DbCommand::Build(arguments)) => db::build(&arguments),
        Command::Db(DbCommand::Convert(arguments)) => db::convert(&arguments),
        Command::Db(DbCommand::Dump(arguments)) => db::dump(&arguments),
        Command::Db(DbCommand::Diff(arguments)) => db::diff(&arguments),
        Command::Db(DbCommand::Edit(arguments)) => db::edit(&arguments),
        Command::Db(DbCommand::Fields(arguments)) => db::fields(&arguments),
        Command::Db(DbCommand::Index(arguments)) => db::index(&arguments),
        Command::Db(DbCommand::Merge(arguments)) => db::merge(&arguments),
        Command::Db(DbCommand::Verify(arguments)) => db::verify(&arguments),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man(arguments) => manual::pages(&arguments),
        Command::Bench { .. } => Err(Failure::Message(BENCH_MOVED.to_owned())),
    };
    finish(outcome)
}

fn finish(outcome: Result<Outcome, Failure>) -> ExitCode {
    match outcome {
        Ok(Outcome::Found) => ExitCode::SUCCESS,
        Ok(Outcome::NotFound) => ExitCode::from(1),
        Ok(Outcome::Failed) => ExitCode::from(2),
        Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(Failure::Message(message)) => {
            outcome::complain(&message);
            ExitCode::from(2)
        }
    }
}

/// Prints the help or version that was asked for; wrong arguments are one line like every failure.
fn refuse(error: &clap::Error) -> ExitCode {
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help || !error.use_stderr() {
        // Nobody is left to tell when that fails.
        let _ = error.print();
        return ExitCode::from(if is_help { 2 } else { 0 });
    }
    outcome::complain(&one_line(&error.to_string()));
    ExitCode::from(2)
}

/// The first paragraphs of the parser's message without its usage and its advice.
fn one_line(message: &str) -> String {
    let ends = ["\n\nUsage:", "\n\nFor more information"].map(|end| message.find(end));
    let end = ends.into_iter().flatten().min().unwrap_or(message.len());
    let text = message[..end].replace("\n\n", "; ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{}; see --help", text.strip_prefix("error: ").unwrap_or(&text))
}

#[cfg(test)]
mod conventions_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_arguments_are_one_line_with_what_is_allowed() {
        let line = |arguments: &[&str]| {
            let error = Cli::try_parse_from(arguments).map(|_| ()).unwrap_err();
            one_line(&error.to_string())
        };
        assert_eq!(
            line(&["whered", "sreve"]),
            "unrecognized subcommand 'sreve'; tip: some similar subcommands exist: 'restore', 'steer', 'serve'; see --help"
        );
        assert_eq!(
            line(&["whered", "lookup", "--format", "xml"]),
            "invalid value 'xml' for '--format <FORMAT>' [possible values: json, text, csv]; see --help"
        );
        assert_eq!(
            line(&["whered", "check"]),
            "the following required arguments were not provided: <FILE>; see --help"
        );
        assert_eq!(
            line(&["whered", "serve", "--resp", "6380"]),
            "invalid value '6380' for '--resp <ADDR>': allowed: an address with a port such as 127.0.0.1:6380 or [::1]:6380; see --help"
        );
    }
}
