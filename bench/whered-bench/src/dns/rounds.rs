//! Servers that are driven in turn with the same questions, and what each took of its core.
//!
//! For: our own servers and rivals alike. One of them may be the echo, which is the floor.
//! Not for: starting them (`target.rs`), tables (`report.rs`).
//!
//! The figure is the processor time of the server for one answered question; the rate is stated
//! beside it, since it is only as good as the driver's core is free.

use std::io;
use std::time::Duration;

use super::driver::Driver;
use super::target::Target;
use super::world::Queries;
use crate::measure::{median, median_of_ratios};

/// Sockets of the driver: with 32 questions each, more than any server takes at once.
const LANES: usize = 16;

/// Before the first round every server answers for so long.
const WARM_UP: Duration = Duration::from_millis(300);

/// With clients' networks: a pool keeps what it has found out about each /16
/// (`docs/design/steering.md`), and the first questions there pay for the others. After some two
/// million of them nothing is new.
const WARM_UP_SUBNETS: Duration = Duration::from_secs(8);

/// What one server did in all rounds.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The server's name.
    pub name: String,
    /// Nanoseconds of processor time a question, of each round.
    pub cpu: Vec<f64>,
    /// Answers a second, of each round.
    pub per_second: Vec<f64>,
    /// The mean size of an answer.
    pub reply_bytes: f64,
    /// Questions without an answer.
    pub lost: u64,
    /// Answers that were not right.
    pub wrong: u64,
}

impl Figures {
    /// The median processor time.
    #[must_use]
    pub fn cpu_nanoseconds(&self) -> f64 {
        median(&self.cpu)
    }

    /// The median rate.
    #[must_use]
    pub fn rate(&self) -> f64 {
        median(&self.per_second)
    }

    /// How much more processor time than another one, the median over rounds.
    #[must_use]
    pub fn above(&self, other: &Figures) -> f64 {
        let differences: Vec<f64> =
            self.cpu.iter().zip(&other.cpu).map(|(own, other)| own - other).collect();
        median(&differences)
    }

    /// How many times as much processor time the other one takes, the median over rounds.
    #[must_use]
    pub fn cpu_ratio(&self, other: &Figures) -> f64 {
        median_of_ratios(&self.cpu, &other.cpu)
    }

    /// How many times as many answers a second as the other one, the median over rounds.
    #[must_use]
    pub fn rate_ratio(&self, other: &Figures) -> f64 {
        median_of_ratios(&other.per_second, &self.per_second)
    }
}

/// Drives every server in turn, round after round.
///
/// # Errors
///
/// A server ends, or gives a wrong answer.
pub fn run(
    targets: &[&Target],
    queries: &Queries,
    rounds: usize,
    time: Duration,
) -> Result<Vec<Figures>, String> {
    let fault = |target: &Target, error: io::Error| format!("{}: {error}", target.name);
    let mut lines = Vec::with_capacity(targets.len());
    for target in targets {
        let driver = Driver::new(queries, target.address, LANES, target.is_mirror);
        let mut driver = driver.map_err(|error| fault(target, error))?;
        let is_long = queries.has_subnets() && !target.is_mirror;
        let warm_up = if is_long { WARM_UP_SUBNETS } else { WARM_UP };
        driver.closed_loop(warm_up, || Ok(())).map_err(|error| fault(target, error))?;
        let figures = Figures {
            name: target.name.clone(),
            cpu: Vec::new(),
            per_second: Vec::new(),
            reply_bytes: 0.0,
            lost: 0,
            wrong: 0,
        };
        lines.push((*target, driver, figures));
    }
    for _ in 0..rounds {
        for (target, driver, figures) in &mut lines {
            let before = target.cpu_nanoseconds()?;
            let tally = driver.closed_loop(time, || Ok(()));
            let tally = tally.map_err(|error| fault(target, error))?;
            let used = target.cpu_nanoseconds()? - before;
            if tally.wrong > 0 || tally.answered == 0 {
                let (name, wrong, right) = (&target.name, tally.wrong, tally.answered);
                return Err(format!("{name}: {wrong} wrong answers beside {right} right ones"));
            }
            figures.cpu.push(used as f64 / tally.answered as f64);
            figures.per_second.push(tally.answered as f64 / tally.seconds);
            figures.reply_bytes = tally.reply_bytes as f64 / tally.answered as f64;
            figures.lost += tally.lost;
        }
    }
    Ok(lines.into_iter().map(|(_, _, figures)| figures).collect())
}

/// The mean size of a server's answers.
///
/// # Errors
///
/// It ends, or answers nothing.
pub fn reply_size(target: &Target, queries: &Queries) -> Result<usize, String> {
    let time = Duration::from_millis(200);
    let driver = Driver::new(queries, target.address, LANES, target.is_mirror);
    let tally = driver.and_then(|mut driver| driver.closed_loop(time, || Ok(())));
    let tally = tally.map_err(|error| format!("{}: {error}", target.name))?;
    match tally.answered {
        0 => Err(format!("{}: no right answer, {} wrong ones", target.name, tally.wrong)),
        answered => Ok((tally.reply_bytes / answered) as usize),
    }
}
