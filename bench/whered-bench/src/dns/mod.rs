//! DNS over UDP: what a server takes of its core for one question, beside an echo with the same
//! system calls.
//!
//! ```text
//! world ──► zone files, questions ──► driver (one core) ──► target (another core)
//!                                        │                     │ processor time
//!                                        └──► rounds ◄─────────┘ ──► parts ──► report
//! ```
//!
//! Every answer is checked. Servers are driven in turn, round after round, so that what disturbs
//! the machine disturbs all of them.

mod driver;
pub mod echo;
pub mod geo;
mod parts;
mod probe;
mod report;
pub mod rounds;
mod signed;
mod target;
mod world;

pub use driver::{BURST, Driver, Tally};
pub use parts::{UNSIGNED, section_of_mix};
pub use report::Report;
pub use signed::check_signed;
pub use target::{Ours, Target, calls_name, free_address, zone_file};
pub use world::{Expected, Mix, Queries, Shape, zone_text};

use std::path::PathBuf;
use std::time::Duration;

use crate::measure::pin_to_core;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Question bytes to answer bytes alone.
    NoNet,
    /// Every zone and mix beside the echo.
    Answers,
    /// A prefix set as a DNSBL zone beside the echo.
    Blocklist,
    /// Pools over a city database, asked with a million client networks, beside the echo.
    Geo,
    /// Signed zones with DO, beside the echo and the zones without signatures.
    Signed,
    /// One receive an event, several, and many with one call.
    Loops,
    /// The delay on a second socket.
    Turns,
    /// Two threads beside one.
    Threads,
    /// What is lost while zones are read anew.
    Reloads,
}

impl Part {
    /// All, in their order.
    pub const ALL: [Part; 9] = [
        Part::NoNet,
        Part::Answers,
        Part::Blocklist,
        Part::Geo,
        Part::Signed,
        Part::Loops,
        Part::Turns,
        Part::Threads,
        Part::Reloads,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Part::NoNet => "no-net",
            Part::Answers => "answers",
            Part::Blocklist => "blocklist",
            Part::Geo => "geo",
            Part::Signed => "signed",
            Part::Loops => "loops",
            Part::Turns => "turns",
            Part::Threads => "threads",
            Part::Reloads => "reloads",
        }
    }

    /// The part of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Part> {
        Part::ALL.into_iter().find(|part| part.name() == name)
    }
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program `whered`, which has the server.
    pub binary: PathBuf,
    /// The program `whered-bench`, which has the echo (`dns --echo`).
    pub bench_binary: PathBuf,
    /// Where zones and configurations are written.
    pub scratch: PathBuf,
    /// What to measure.
    pub parts: Vec<Part>,
    /// Which zones.
    pub shapes: Vec<Shape>,
    /// A city database that was made already.
    pub city: Option<PathBuf>,
    /// Which questions.
    pub mixes: Vec<Mix>,
    /// How many distinct questions of each mix.
    pub queries: usize,
    /// Rounds of each measurement.
    pub rounds: usize,
    /// The time of one round.
    pub time: Duration,
    /// The core of servers.
    pub server_core: usize,
    /// The core of the driver.
    pub driver_core: usize,
    /// What random choices are made with.
    pub seed: u64,
}

/// Measures everything that was asked for.
///
/// # Errors
///
/// A server cannot be started, ends, or answers wrongly.
pub fn run(options: &Options, progress: &dyn Fn(&str)) -> Result<Report, String> {
    pin_to_core(options.driver_core)
        .map_err(|error| format!("core {}: {error}", options.driver_core))?;
    let mut report = Report::new(options);
    for &part in &options.parts {
        progress(part.name());
        let sections = match part {
            Part::NoNet => parts::no_net(options),
            Part::Answers => parts::answers(options),
            Part::Blocklist => parts::blocklist(options),
            Part::Geo => parts::geo(options),
            Part::Signed => parts::signed(options),
            Part::Loops => parts::loops(options),
            Part::Turns => parts::turns(options),
            Part::Threads => parts::threads(options),
            Part::Reloads => parts::reloads(options),
        }?;
        report.sections.extend(sections);
    }
    Ok(report)
}
