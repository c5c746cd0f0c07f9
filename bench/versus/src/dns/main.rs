//! NSD, Knot, gdnsd, BIND and PowerDNS beside whered: the same zones and questions, short rounds in
//! turn, every answer checked.
//!
//! Not for whered alone (`whered bench dns`). The README says how to run it and what favours which
//! side.
//!
//! ```text
//! whered-versus-dns --whered target/release/whered [--zones small,large] [--queries N]
//!                   [--rounds N] [--seconds S] [--only NAME,...] [--scratch DIR]
//!                   [--record DIR --date YYYY-MM-DD]
//! ```

mod bars;
mod compare;
mod servers;

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
