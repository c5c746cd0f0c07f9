//! Rivals beside whered: one run, the same addresses, short rounds in turn, equal checksums.
//!
//! Not for our engines alone (`whered-bench lookup`). The README says how to run it and what
//! favours which side.
//!
//! ```text
//! compare --db city.mmdb [--legacy GeoIP.dat] [--drop-in libmaxminddb.so.0] [--core N]
//!         [--addresses N] [--round N] [--seed N] [--only PART,PART]
//!         [--record DIR --date YYYY-MM-DD]
//! ```

mod bars;
mod compare;
mod crates;
mod geoip;
mod maxmind;
mod record;

use std::process::ExitCode;

fn main() -> ExitCode {
    match compare::run(&compare::Options::parse(std::env::args().skip(1))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("compare: {message}");
            ExitCode::from(2)
        }
    }
}
