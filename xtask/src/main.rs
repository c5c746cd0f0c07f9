//! The project's chores, run as `cargo xtask NAME`.
//!
//! For: checks and harnesses that need to know this repository and are too long for a Makefile.
//! Not for: anything that a user of whered runs, and nothing that another crate could depend on.
//!
//! - `tidy` holds the tree against the rules that the compiler cannot know ([`tidy`]), and `words`
//!   counts the private words among them;
//! - `layers` prints what its rule on arrows inside crates measures ([`tidy::layers`]);
//! - `readme` runs the marked examples of README.md and docs/ ([`examples`]);
//! - `instructions` counts instructions per operation under callgrind ([`instructions`]).
//!
//! Exit code: 0 nothing found, 1 something found, 2 the chore itself could not run.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a chore's whole result is what it prints"
)]

mod examples;
mod failure;
mod finding;
mod instructions;
mod performance;
mod repository;
mod scratch;
mod tidy;

use std::process::ExitCode;

use failure::ChoreError;
use finding::Finding;
use repository::Repository;

const USAGE: &str = "\
usage: cargo xtask CHORE

  tidy                    hold the tree against the project's rules
  tidy --update-words     record how many private words there are, when there are not more
  words                   print how many private words and long sentences each area has
  words PATH              list them for the files below PATH
  layers                  print the arrows and circles inside the crates of layers.toml
  readme [DOCUMENT...]    run the marked examples of README.md and docs/, or of these documents
  performance             write docs/performance.md and README's ratios from bench/results/
  instructions [--tolerance PERCENT]
                          count instructions per operation, compare with bench/results/; a count may
                          be PERCENT above the record, 5 without it
  instructions --record   count them and rewrite the record";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if matches!(words.as_slice(), ["help" | "--help" | "-h"]) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match run(&words) {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in &findings {
                println!("{finding}");
            }
            println!("{} found", findings.len());
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the chore that the words name and returns what it found.
fn run(words: &[&str]) -> Result<Vec<Finding>, ChoreError> {
    match words {
        ["tidy"] => tidy::run(&Repository::open()?),
        ["tidy", "--update-words"] => tidy::words::update(&Repository::open()?),
        ["words"] => tidy::words::print(&Repository::open()?, ""),
        ["words", path] => tidy::words::print(&Repository::open()?, path),
        ["layers"] => tidy::layers::print(&Repository::open()?),
        ["readme", documents @ ..] => examples::run(&Repository::open()?, documents),
        ["performance"] => performance::write(&Repository::open()?),
        ["instructions"] => {
            instructions::check(&Repository::open()?, instructions::TOLERANCE_PERCENT)
        }
        ["instructions", "--tolerance", percent] => {
            let percent = instructions::read_tolerance(percent)?;
            instructions::check(&Repository::open()?, percent)
        }
        ["instructions", "--record"] => {
            instructions::record(&Repository::open()?).map(|()| Vec::new())
        }
        _ => Err(ChoreError::new(USAGE)),
    }
}
