//! The program `whered-bench`: benchmark data, measurements, and faults.
//!
//! Not for: what is made and how it is measured (the library of this package). Servers are the
//! program `whered`, which lies beside this one unless `--whered` names it.
//!
//! Exit codes: 0 done, 1 a bar was missed, 2 failed. A failure is one line on standard error.
#![forbid(unsafe_code)]

mod command;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::command::flags::Cli;
use crate::command::{Failure, Outcome, complain};

// The allocator of `whered`, so that measurements inside this process are the program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    match command::run(cli) {
        Ok(Outcome::Found) | Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Ok(Outcome::NotFound) => ExitCode::from(1),
        Ok(Outcome::Failed) => ExitCode::from(2),
        Err(Failure::Message(message)) => {
            complain(&message);
            ExitCode::from(2)
        }
    }
}

/// Prints the requested help or version; wrong arguments are one line like every failure.
fn refuse(error: &clap::Error) -> ExitCode {
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help || !error.use_stderr() {
        // A closed standard output has no reader to tell.
        let _ = error.print();
        return ExitCode::from(if is_help { 2 } else { 0 });
    }
    let text = error.to_string();
    let text = text.split("\n\nUsage:").next().unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    complain(&format!("{}; see --help", line.strip_prefix("error: ").unwrap_or(&line)));
    ExitCode::from(2)
}
