//! NSD, Knot, gdnsd, BIND and PowerDNS beside whered: the same zones and questions, short rounds in
//! turn, every answer checked.
//!
//! Not for whered alone (`whered-bench dns`). The README says how to run it and what favours which
//! side.
//!
//! ```text
//! whered-versus-dns --whered target/release/whered [--zones small,large] [--queries N]
//!                   [--mixes hit,NXDOMAIN,referral,mix] [--parts answers,no-net,...]
//!                   [--rounds N] [--seconds S] [--only NAME,...] [--scratch DIR]
//!                   [--city FILE] [--record DIR --date YYYY-MM-DD]
//! ```
//!
//! `--parts answers` is the comparison with rivals, `--parts geo` that of answers by place, and
//! `--parts signed` both with signatures, beside NSD, Knot and PowerDNS; the other parts are those
//! of `whered-bench dns`. Runs of one date and machine add up to one record.

mod bars;
mod compare;
mod places;
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
