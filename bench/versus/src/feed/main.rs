//! MariaDB, PostgreSQL, SQLite and Redis beside whered: the same crowd's sightings consolidated
//! into the same tables, short rounds in turn, every table compared at the end.
//!
//! Not for whered alone (`whered-bench feed`). The README says how to run it and what favours whom.
//!
//! ```text
//! whered-versus-feed --whered target/release/whered [--groups mariadb-disk,mariadb-ram,...]
//!                    [--workloads plain,three] [--rounds N] [--seconds S] [--uploads N]
//!                    [--batch N] [--age-seconds N] [--disk DIR] [--ram DIR]
//!                    [--record DIR --date YYYY-MM-DD]
//! ```
//!
//! Runs of one date and machine add up to one record, with those of `whered-bench feed`.

mod compare;
mod contestant;
mod mariadb;
mod options;
mod ours;
mod postgres;
mod redis;
mod seed;
mod servers;
mod sink;
mod sqlite;
mod staged;
mod tables;

use std::process::ExitCode;

fn main() -> ExitCode {
    let options = options::Options::parse(std::env::args().skip(1));
    match options.and_then(|options| compare::run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("compare: {message}");
            ExitCode::from(2)
        }
    }
}
