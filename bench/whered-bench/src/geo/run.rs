//! A whole run: options, servers, classes, scenarios.
//!
//! For: `whered-bench geo`, which measures one server, and `bench/versus`, which gives two. Not for
//! how one class is measured (`rounds.rs`).

use super::classes::CLASSES;
use super::load::{KEY, Loaded, load};
use super::points::{Census, Order, Points, World};
use super::report::{LoadNote, Report, ServerNote, load_line, row_line};
use super::rounds::{Rounds, Row, interleaved};
use super::scenarios;
use super::server::{Server, start_whered};
use crate::measure::{Machine, pin_to_core};
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// How many points.
    pub points: u64,
    /// What they are made with.
    pub seed: u64,
    /// Which world they lie in.
    pub world: World,
    /// Loads members in the order of their numbers.
    pub is_in_order: bool,
    /// Parts of the names of classes and scenarios; none: all.
    pub classes: Vec<String>,
    /// Rounds of a class.
    pub rounds: usize,
    /// Seconds of a round.
    pub seconds: f64,
    /// The core of a server's one thread.
    pub server_core: usize,
    /// The core of the driver.
    pub driver_core: usize,
    /// A server that runs already, with its process.
    pub server: Option<(SocketAddr, u32)>,
    /// The program that is started otherwise.
    pub binary: PathBuf,
    /// Where started servers may write.
    pub scratch: PathBuf,
}

/// How a server is to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// How many threads answer; rivals that have one do not care.
    pub threads: usize,
    /// The cores that it may use.
    pub cores: Vec<usize>,
    /// Whether a journal is kept and synced every second.
    pub is_journaled: bool,
}

/// Starts an empty server.
pub type Starter<'a> = dyn Fn(&Setup) -> Result<Server, String> + 'a;

/// A run on its way.
pub struct Bench<'a> {
    /// What is asked for.
    pub options: &'a Options,
    /// The points.
    pub points: Points,
    /// What was found so far.
    pub report: Report,
    /// Told each line as soon as it is known.
    pub progress: &'a dyn Fn(&str),
}

/// Measures one server: the one that is named, or a `whered` started for it.
///
/// # Errors
///
/// A server fails; one line.
pub fn run(options: &Options, progress: &dyn Fn(&str)) -> Result<Report, String> {
    let mut bench = Bench::new(options, progress)?;
    if let Some((address, pid)) = options.server {
        let server = Server::running("server", address, pid);
        bench.fill(&server)?;
        bench.measure(&[&server])?;
        scenarios::on_running(&mut bench, &[&server])?;
        return Ok(bench.report);
    }
    let start = |setup: &Setup| whered(options, setup);
    let server = start(&bench.setup())?;
    bench.fill(&server)?;
    bench.measure(&[&server])?;
    scenarios::on_running(&mut bench, &[&server])?;
    drop(server);
    scenarios::on_fresh(&mut bench, &[&start])?;
    Ok(bench.report)
}

/// Starts this benchmark's own kind of server.
///
/// # Errors
///
/// It does not start.
pub fn whered(options: &Options, setup: &Setup) -> Result<Server, String> {
    let journal = setup.is_journaled.then_some("everysec");
    let folder = options.scratch.join(format!("whered-{}-{}", setup.threads, setup.is_journaled));
    start_whered(&options.binary, &folder, setup.threads, &setup.cores, journal)
}

impl<'a> Bench<'a> {
    /// Holds this thread to the driver's core and counts the points.
    ///
    /// # Errors
    ///
    /// Options that cannot be, or a core that is not there.
    pub fn new(options: &'a Options, progress: &'a dyn Fn(&str)) -> Result<Bench<'a>, String> {
        let Options { points: count, rounds, seconds, .. } = *options;
        // Members of a tiny collection would be moved by several connections at once.
        if !(1000..=1 << 40).contains(&count) || rounds == 0 || !(0.01..=3600.0).contains(&seconds)
        {
            return Err(
                "allowed: 1000 points and more, 1 round and more, 0.01 to 3600 seconds".to_owned()
            );
        }
        let known = |name: &String| {
            let classes = CLASSES.iter().map(|class| class.name);
            let all = classes.chain(scenarios::SCENARIOS.iter().map(|(name, _)| *name));
            all.into_iter().any(|known| known.contains(name.as_str()))
        };
        if let Some(unknown) = options.classes.iter().find(|name| !known(name)) {
            return Err(format!("no class or scenario has '{unknown}' in its name"));
        }
        let points = Points::new(options.seed, options.world);
        let census = Census::take(&points, count, 2);
        progress(&census.to_string());
        pin_to_core(options.driver_core)
            .map_err(|error| format!("core {}: {error}", options.driver_core))?;
        let report = Report {
            machine: Machine::this(),
            settings: vec![
                ("points", json!(count)),
                ("world", json!(options.world.name())),
                ("seed", json!(options.seed)),
                (
                    "order of loading",
                    json!(if options.is_in_order { "by number" } else { "shuffled" }),
                ),
                ("rounds", json!(rounds)),
                ("seconds of a round", json!(seconds)),
                ("server's core", json!(options.server_core)),
                ("driver's core", json!(options.driver_core)),
            ],
            census,
            servers: Vec::new(),
            loads: Vec::new(),
            rows: Vec::new(),
        };
        Ok(Bench { options, points, report, progress })
    }

    /// A server with one thread on its core, without a journal.
    #[must_use]
    pub fn setup(&self) -> Setup {
        Setup { threads: 1, cores: vec![self.options.server_core], is_journaled: false }
    }

    /// The order in which members are loaded.
    #[must_use]
    pub fn order(&self, count: u64) -> Order {
        match self.options.is_in_order {
            true => Order::straight(count),
            false => Order::shuffled(count, self.options.seed),
        }
    }

    /// Whether a class or scenario is to be measured.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        let wanted = &self.options.classes;
        wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()))
    }

    /// Rounds as the options say.
    #[must_use]
    pub fn rounds(&self) -> Rounds {
        let time = Duration::from_secs_f64(self.options.seconds);
        Rounds { count: self.options.rounds, time }
    }

    /// Loads the points, unless the server has them.
    ///
    /// # Errors
    ///
    /// The server fails or has other points.
    pub fn fill(&mut self, server: &Server) -> Result<(), String> {
        let note = ServerNote { name: server.name.clone(), settings: server.settings.clone() };
        self.report.servers.push(note);
        match members(server)? {
            0 => self.load("load", server, self.options.points),
            found if found == self.options.points => {
                let resident_bytes = server.resident_bytes()?;
                let loaded = Loaded {
                    points: found,
                    seconds: f64::NAN,
                    cpu_nanoseconds_per_point: f64::NAN,
                    resident_bytes_before: 0,
                    resident_bytes,
                };
                self.note_load("had the points", server, loaded, "");
                Ok(())
            }
            found => Err(format!(
                "{} has {found} members in 'points'; allowed: none or all {}",
                server.name, self.options.points
            )),
        }
    }

    /// Loads `count` points and notes what that cost.
    ///
    /// # Errors
    ///
    /// The server fails.
    pub fn load(&mut self, what: &str, server: &Server, count: u64) -> Result<(), String> {
        let loaded = load(server, &self.points, &self.order(count))?;
        self.note_load(what, server, loaded, "");
        Ok(())
    }

    /// Notes what something done to all points cost.
    pub fn note_load(&mut self, what: &str, server: &Server, loaded: Loaded, remark: &str) {
        let (what, server) = (what.to_owned(), server.name.clone());
        let note = LoadNote { what, server, loaded, remark: remark.to_owned() };
        (self.progress)(&load_line(&note));
        self.report.loads.push(note);
    }

    /// Adds a result.
    pub fn note(&mut self, row: Row) {
        (self.progress)(&row_line(&row));
        self.report.rows.push(row);
    }

    /// Measures all wanted classes on servers that have all points.
    ///
    /// # Errors
    ///
    /// A server fails.
    pub fn measure(&mut self, servers: &[&Server]) -> Result<(), String> {
        for class in &CLASSES {
            if !self.wants(class.name) {
                continue;
            }
            let data = (&self.points, self.options.points);
            for row in interleaved(class, servers, data, self.rounds())? {
                self.note(row);
            }
        }
        Ok(())
    }
}

/// How many members the collection has.
fn members(server: &Server) -> Result<u64, String> {
    let reply = server.wire()?.ask(&[b"ZCARD", KEY])?;
    let text = String::from_utf8_lossy(&reply);
    let number = text.trim_end().strip_prefix(':').and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("{}: ZCARD says {text:?}", server.name))
}
