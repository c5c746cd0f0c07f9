//! Durable moves: whered's journal beside Redis's append-only file, on one file system, in one run.
//!
//! Not for what else the two can do (`src/geo`), nor for faults (`whered-bench faults`). The README
//! says how to run it and what favours which side.
//!
//! ```text
//! whered-versus-journal --whered target/release/whered [--redis-server FILE] [--points N]
//!                       [--rounds N] [--seconds S] [--scratch DIR]
//!                       [--record DIR --date YYYY-MM-DD]
//! ```

mod compare;
mod servers;
mod written;

use std::process::ExitCode;

fn main() -> ExitCode {
    let options = compare::Options::parse(std::env::args().skip(1));
    match options.and_then(|options| compare::run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("compare: {message}");
            ExitCode::from(2)
        }
    }
}
