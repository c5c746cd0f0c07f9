//! The hot operations whose instruction counts are recorded: one binary, fixed inputs, checked
//! answers.
//!
//! Not for: time. Counts do not depend on what else the machine does, so they can be held to a
//! few percent; `cargo xtask instructions` runs each operation under callgrind and compares.
//!
//! ```text
//! instructions list        one operation name a line
//! instructions run NAME    NAME checksum N operations M
//! ```
//! Preparation is outside of `measured_region`, which is what callgrind collects in.
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

mod geo;
mod ip;
mod mmdb;
mod serve;

use std::hint::black_box;
use std::process::ExitCode;

/// A prepared operation: how many times it runs, and the run, which gives a checksum.
pub(crate) struct Prepared {
    pub(crate) operations: u64,
    pub(crate) run: Box<dyn FnMut() -> u64>,
}

/// Makes an operation ready to run.
type Prepare = fn() -> Prepared;

/// Every operation: `operation/data-shape/engine`, and how to prepare it.
const OPERATIONS: &[(&str, Prepare)] = &[
    ("parse-prefix/mixed/whered", ip::parse),
    ("compiled-lookup4/50k-networks/whered", ip::compiled_lookup4),
    ("compiled-lookup4-batch/50k-networks/whered", ip::compiled_lookup4_batch),
    ("compiled-lookup6/50k-networks/whered", ip::compiled_lookup6),
    ("compiled-lookup6/500-providers/whered", ip::compiled_lookup6_divided),
    ("lookup4/50k-networks/whered", mmdb::lookup4),
    ("field4/50k-networks/whered", mmdb::field4),
    ("cell-of-place/uniform/whered", geo::cell_of_place),
    ("distance/uniform/whered", geo::distance),
    ("member-cell/100k-points/whered", geo::member_cell),
    ("move/100k-points/whered", geo::move_point),
    ("nearest10/100k-points/whered", geo::nearest),
    ("radius-unsorted/100k-points/whered", geo::radius),
    ("dns-positive/10k-names/whered", serve::dns_positive),
    ("dns-nxdomain/10k-names/whered", serve::dns_nxdomain),
    ("dns-pool-ecs/50k-networks/whered", serve::dns_pool),
    ("add-points/memory-only/whered", serve::add_points),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => {
            OPERATIONS.iter().for_each(|(name, _)| println!("{name}"));
            ExitCode::SUCCESS
        }
        ["run", name] => run(name),
        _ => {
            println!("usage: instructions list | instructions run NAME");
            ExitCode::from(2)
        }
    }
}

fn run(name: &str) -> ExitCode {
    let Some((_, prepare)) = OPERATIONS.iter().find(|(known, _)| *known == name) else {
        println!("no operation '{name}'; see: instructions list");
        return ExitCode::from(2);
    };
    let mut prepared = prepare();
    let checksum = measured_region(&mut prepared);
    println!("{name} checksum {checksum} operations {}", prepared.operations);
    ExitCode::SUCCESS
}

/// What callgrind collects in: its name is part of the contract with `cargo xtask instructions`.
#[inline(never)]
fn measured_region(prepared: &mut Prepared) -> u64 {
    black_box((prepared.run)())
}
