//! Redis beside whered: one run, the same points and commands, short rounds in turn, equal replies.
//!
//! Not for whered alone (`whered-bench geo`). The README says how to run it and what favours which
//! side.
//!
//! ```text
//! whered-versus-geo --whered target/release/whered [--redis-server FILE] [--redis-dump FILE]
//!                   [--points N] [--seed N] [--rounds N] [--seconds S] [--classes NAME,...]
//!                   [--scratch DIR] [--record DIR --date YYYY-MM-DD]
//! ```

mod bars;
mod compare;
mod record;
mod redis;

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
