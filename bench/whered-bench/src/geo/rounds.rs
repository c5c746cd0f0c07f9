//! Servers side by side: short rounds of one class, each server in turn.
//!
//! For: what a command costs a server, and how long clients wait, with the rival's figures from the
//! same minute. Not for whole runs (`run.rs`).
//!
//! ```text
//! verify   every command once, on each server: replies read in full and compared
//! warm     a fifth of a round, not measured
//! rounds   0: A B   1: B A   2: A B ...      each: CPU before | run, drain | CPU after
//! ```
//!
//! Costs are processor time of the server's process (user and system, all of its threads), replies'
//! way through the kernel included, divided by the commands answered. The driver's is not in it:
//! it runs on another core.

use super::classes::{Class, Workload};
use super::driver::{Done, Driver, Group, Until};
use super::latency::Latencies;
use super::points::Points;
use super::script::{Likeness, Replies};
use super::server::Server;
use crate::measure::{median, quantile};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// What one server did in one class.
#[derive(Debug, Clone)]
pub struct Row {
    /// The class, or what of a scenario this is.
    pub class: String,
    /// The server.
    pub server: String,
    /// Nanoseconds of the server's processor time for a command, a value for each round; none where
    /// several kinds of commands ran at once.
    pub cpu_nanoseconds: Vec<f64>,
    /// Commands a second, a value for each round.
    pub per_second: Vec<f64>,
    /// From sending a batch to its last reply.
    pub latencies: Latencies,
    /// Commands answered.
    pub operations: u64,
    /// Elements of all replies to the script, and its commands, if they were read.
    pub elements: Option<(u64, usize)>,
    /// How alike this server's replies are to those of the first one.
    pub likeness: Option<Likeness>,
}

impl Row {
    /// An empty row.
    #[must_use]
    pub fn new(class: &str, server: &Server) -> Row {
        Row {
            class: class.to_owned(),
            server: server.name.clone(),
            cpu_nanoseconds: Vec::new(),
            per_second: Vec::new(),
            latencies: Latencies::default(),
            operations: 0,
            elements: None,
            likeness: None,
        }
    }

    /// Adds what a group did in a round.
    pub fn add(&mut self, done: &Done, cpu_nanoseconds: Option<u64>, elapsed: Duration) {
        let operations = done.operations.max(1) as f64;
        self.cpu_nanoseconds.extend(cpu_nanoseconds.map(|spent| spent as f64 / operations));
        self.per_second.push(done.operations as f64 / elapsed.as_secs_f64());
        self.latencies.merge(&done.latencies);
        self.operations += done.operations;
    }

    /// Elements of a reply on average.
    #[must_use]
    pub fn elements_per_reply(&self) -> Option<f64> {
        self.elements.map(|(elements, commands)| elements as f64 / commands.max(1) as f64)
    }

    /// As JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let cpu = &self.cpu_nanoseconds;
        json!({
            "class": self.class,
            "server": self.server,
            "operations": self.operations,
            "cpu_nanoseconds": number(median(cpu)),
            "cpu_nanoseconds_quartiles": [number(quantile(cpu, 0.25)), number(quantile(cpu, 0.75))],
            "rounds_cpu_nanoseconds": cpu,
            "per_second": number(median(&self.per_second)),
            "batch_p50_nanoseconds": number(self.latencies.quantile_nanoseconds(0.5)),
            "batch_p99_nanoseconds": number(self.latencies.quantile_nanoseconds(0.99)),
            "elements_per_reply": self.elements_per_reply(),
            "replies": self.likeness.map(Likeness::name),
        })
    }
}

/// JSON has no NaN.
fn number(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// How long rounds are and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// Rounds of each class.
    pub count: usize,
    /// How long new commands are sent in each.
    pub time: Duration,
}

/// Runs a class on all servers; a row for each.
///
/// # Errors
///
/// A server fails or answers otherwise than it did at first. That two servers answer differently is
/// no error here: the row says it.
pub fn interleaved(
    class: &Class,
    servers: &[&Server],
    (points, count): (&Points, u64),
    rounds: Rounds,
) -> Result<Vec<Row>, String> {
    let workload = class.workload(points, count);
    let named =
        |error: String, server: &Server| format!("{}, {}: {error}", class.name, server.name);
    let mut rows: Vec<Row> = servers.iter().map(|server| Row::new(class.name, server)).collect();
    let replies = verified(&workload, servers, &mut rows)
        .map_err(|error| format!("{}: {error}", class.name))?;
    let mut drivers = Vec::new();
    for (server, replies) in servers.iter().zip(&replies) {
        let (connections, pipeline) = (class.connections, class.pipeline);
        let group = Group { connections, pipeline, scripts: &workload.scripts, replies };
        let mut driver =
            Driver::connect(server.address, &[group]).map_err(|error| named(error, server))?;
        driver.run(Until::Time(rounds.time / 5)).map_err(|error| named(error, server))?;
        drivers.push(driver);
    }
    for round in 0..rounds.count {
        for turn in 0..servers.len() {
            let place = (round + turn) % servers.len();
            let (server, driver) = (servers[place], &mut drivers[place]);
            let (before, began) = (server.cpu_nanoseconds()?, Instant::now());
            let done =
                driver.run(Until::Time(rounds.time)).map_err(|error| named(error, server))?;
            let elapsed = began.elapsed();
            let spent = server.cpu_nanoseconds()? - before;
            done.iter().for_each(|done| rows[place].add(done, Some(spent), elapsed));
        }
    }
    if workload.is_round_trip {
        for (driver, server) in drivers.iter_mut().zip(servers) {
            driver.run(Until::ScriptEnd).map_err(|error| named(error, server))?;
        }
    }
    Ok(rows)
}

/// What each server answers to each script; the rows are told how alike the answers are.
fn verified(
    workload: &Workload,
    servers: &[&Server],
    rows: &mut [Row],
) -> Result<Vec<Vec<Replies>>, String> {
    if let Some(reply) = workload.constant {
        let constant = |count| Replies::constant(reply, count);
        let replies = workload.scripts.iter().map(|script| constant(script.len())).collect();
        return Ok(vec![replies; servers.len()]);
    }
    let mut all: Vec<Vec<Replies>> = Vec::new();
    for (server, row) in servers.iter().zip(rows) {
        let replies = ask_all(workload, server)?;
        let elements = replies.iter().map(|replies| replies.elements).sum();
        row.elements = Some((elements, replies.iter().map(|one| one.lengths.len()).sum()));
        if let Some(first) = all.first() {
            let pairs = first.iter().zip(&replies);
            row.likeness = pairs.map(|(one, other)| Likeness::of(one, other)).max();
        }
        all.push(replies);
    }
    Ok(all)
}

/// Reads all replies of a server in full, once.
///
/// # Errors
///
/// The server fails.
pub fn ask_all(workload: &Workload, server: &Server) -> Result<Vec<Replies>, String> {
    let mut wire = server.wire()?;
    workload.scripts.iter().map(|script| script.ask(&mut wire)).collect()
}
