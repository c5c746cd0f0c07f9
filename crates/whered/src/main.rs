//! The `whered` program: flags, files and messages to people.
//!
//! Not for: answering anything itself. Every command parses its arguments, asks a library, and
//! prints. One file a command; `cli` defines all commands and flags once.
//!
//! Exit codes: 0 found or done, 1 not found, 2 failed. A failure is one line on standard error;
//! a closed pipe on standard output is no failure.
#![forbid(unsafe_code)]

mod check;
mod cli;
mod db;
mod demo;
mod lookup;
mod outcome;
mod serve;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command, DbCommand};
use crate::outcome::{Failure, Outcome};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Lookup(arguments) => lookup::run(&arguments),
        Command::Check { file } => check::run(&file),
        Command::Db(DbCommand::Info { file }) => db::info(&file),
        Command::Db(DbCommand::Build(arguments)) => db::build(&arguments),
        Command::Db(DbCommand::Verify { file }) => db::verify(&file),
    };
    finish(outcome)
}

fn finish(outcome: Result<Outcome, Failure>) -> ExitCode {
    match outcome {
        Ok(Outcome::Found) => ExitCode::SUCCESS,
        Ok(Outcome::NotFound) => ExitCode::from(1),
        Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(Failure::Message(message)) => {
            outcome::complain(&message);
            ExitCode::from(2)
        }
    }
}
