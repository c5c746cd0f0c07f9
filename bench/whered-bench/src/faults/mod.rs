//! Faults on the real system: a running server, real clients, a real disk, and something that
//! fails.
//!
//! For: `whered-bench faults` and `make faults`. The one claim: every acknowledged write is there
//! exactly once, and nothing that was not acknowledged is half there. Not for the simulated disk,
//! which `whered-store`'s tests have, and which meets far more crash points a second.
//!
//! ```text
//! lanes ── units of writes ──> server ──> journal ──> disk
//!   │ model of each lane          ✗ kill -9, power cut, full disk, failing or stalled fdatasync
//!   ╰── compares what is there afterwards with what may be there (`lane.rs`)
//! ```
//!
//! | file | thing |
//! | --- | --- |
//! | `model.rs` | what a lane writes, and what is kept of it |
//! | `lane.rs`, `load.rs` | sending, taking down replies, judging |
//! | `state.rs`, `value.rs` | asking a server what it has |
//! | `victim.rs` | the server |
//! | `disk.rs` | file systems that may be harmed |
//! | `kill.rs`, `power.rs`, `full.rs`, `failing.rs`, `stalled.rs` | a fault each |
//! | `feeds/` | kills while uploads come in and rows go out |
//!
//! Random choices come from a seed, which every violation names; the moments at which threads and
//! disks meet do not, so that a seed makes a violation likely again, not certain.

mod disk;
mod failing;
mod feeds;
mod full;
mod kill;
mod lane;
mod load;
mod model;
mod power;
mod stalled;
mod state;
mod value;
mod victim;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value as Json;

use crate::Random;
use crate::measure::{Bar, Measure, measures_to_json};
pub use disk::LoopDisk;
use victim::Setup;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `kill -9`.
    Kill,
    /// `kill -9` under uploads, with streams and sinks.
    Feeds,
    /// A power cut.
    Power,
    /// No space.
    Full,
    /// EIO.
    Failing,
    /// A slow fdatasync.
    Stalled,
}

impl Kind {
    /// All of them, in the order in which they are run.
    pub const ALL: [Kind; 6] =
        [Kind::Kill, Kind::Feeds, Kind::Power, Kind::Full, Kind::Failing, Kind::Stalled];

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Kill => "kill",
            Kind::Feeds => "feeds",
            Kind::Power => "power",
            Kind::Full => "full",
            Kind::Failing => "failing",
            Kind::Stalled => "stalled",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program that is started.
    pub binary: PathBuf,
    /// Where it may write; removed afterwards, unless something is wrong.
    pub scratch: PathBuf,
    /// What random choices are made with.
    pub seed: u64,
    /// Which faults.
    pub kinds: Vec<Kind>,
    /// How long each kind goes on.
    pub time: Duration,
    /// The faults of each kind after which it is enough; 0 for no end but the time's.
    pub rounds: u64,
}

/// What one kind of fault has come to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The kind's name.
    pub kind: &'static str,
    /// Faults survived: after each everything that was acknowledged was there.
    pub faults: u64,
    /// Starts that were ended before they were ready.
    pub early_kills: u64,
    /// Snapshots that were asked for and begun.
    pub snapshots: u64,
    /// Units (commands, transactions or uploads) acknowledged.
    pub acknowledged: u64,
    /// Units answered by an error that says that they may be lost.
    pub lost: u64,
    /// Units refused.
    pub refused: u64,
    /// What was measured on the way.
    pub notes: Vec<String>,
    /// Why it was not run.
    pub skipped: Option<String>,
}

impl Tally {
    fn take(&mut self, load: &mut load::Load) {
        self.acknowledged += std::mem::take(&mut load.acknowledged);
        self.lost += std::mem::take(&mut load.lost);
        self.refused += std::mem::take(&mut load.refused);
    }

    /// One line.
    #[must_use]
    pub fn to_line(&self) -> String {
        if let Some(reason) = &self.skipped {
            return format!("{}: skipped: {reason}", self.kind);
        }
        format!(
            "{}: survived {} faults ({} units acknowledged, {} told that they may be lost, {} \
             refused; {} starts killed, {} snapshots)",
            self.kind,
            self.faults,
            self.acknowledged,
            self.lost,
            self.refused,
            self.early_kills,
            self.snapshots
        )
    }
}

/// What a kind of fault works with.
struct Ground<'a> {
    options: &'a Options,
    kind: Kind,
    began: Instant,
}

impl Ground<'_> {
    fn is_over(&self, tally: &Tally) -> bool {
        let Options { rounds, time, .. } = *self.options;
        (rounds > 0 && tally.faults >= rounds) || self.began.elapsed() >= time
    }

    fn random(&self, number: u64) -> Random {
        Random::of(self.options.seed, self.kind as u64, number)
    }

    fn setup(&self, name: &str, lanes: usize) -> Result<Setup, String> {
        let folder = self.options.scratch.join(name);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let data = folder.join("data");
        Ok(Setup {
            binary: self.options.binary.clone(),
            folder,
            data,
            sync: "always",
            segment_size_bytes: 1 << 20,
            lanes,
            under: Vec::new(),
            more: String::new(),
        })
    }

    /// Notes why a kind of fault cannot be tried here; where `WHERED_REQUIRE` names what it wants,
    /// that is an error.
    fn skip(&self, tally: &mut Tally, wants: &str, reason: String) -> Result<(), String> {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        if tally.faults > 0 || required.split(',').any(|name| name == wants) {
            return Err(reason);
        }
        tally.skipped = Some(reason);
        Ok(())
    }

    fn clear(&self, setup: &Setup) {
        // It is in a folder that is removed as a whole later.
        let _ = fs::remove_dir_all(&setup.folder);
    }
}

/// Runs the faults, one kind after the other; `progress` is told what each came to.
///
/// # Errors
///
/// A violation, or that something could not be done: one line with the seed. The folder stays.
pub fn run(options: &Options, progress: &dyn Fn(&str)) -> Result<Vec<Tally>, String> {
    let mut tallies = Vec::new();
    for &kind in &options.kinds {
        let mut tally = Tally { kind: kind.name(), ..Tally::default() };
        let ground = Ground { options, kind, began: Instant::now() };
        let result = match kind {
            Kind::Kill => kill::run(&ground, &mut tally),
            Kind::Feeds => feeds::run(&ground, &mut tally),
            Kind::Power => power::run(&ground, &mut tally),
            Kind::Full => full::run(&ground, &mut tally),
            Kind::Failing => failing::run(&ground, &mut tally),
            Kind::Stalled => stalled::run(&ground, &mut tally),
        };
        result.map_err(|what| {
            format!(
                "{} (seed {}, after {} faults): {what}; what was left is in {}",
                kind.name(),
                options.seed,
                tally.faults,
                options.scratch.display()
            )
        })?;
        progress(&tally.to_line());
        tallies.push(tally);
    }
    // What is left there is nobody's data.
    let _ = fs::remove_dir_all(&options.scratch);
    Ok(tallies)
}

/// What was survived, as a result: [`crate::measure::measures_to_json`].
#[must_use]
pub fn to_json(options: &Options, tallies: &[Tally], date: &str) -> Json {
    let kinds: Vec<&str> = options.kinds.iter().map(|kind| kind.name()).collect();
    let minutes = options.time.as_secs_f64() / 60.0;
    let workload = format!(
        "whered-bench faults --kinds {} --minutes {minutes:.1} --seed {}",
        kinds.join(","),
        options.seed
    );
    // A violation ends the run with an error before anything is written.
    let lost = Measure::new("acknowledged writes lost, doubled or half there", 0.0, "writes");
    let mut measures = vec![lost.held_against(Bar::AtMost(0.0))];
    for tally in tallies.iter().filter(|tally| tally.skipped.is_none()) {
        let mut add = |what: &str, count: u64, unit| {
            measures.push(Measure::new(format!("{}: {what}", tally.kind), count as f64, unit));
        };
        add("faults survived", tally.faults, "faults");
        add("writes acknowledged", tally.acknowledged, "writes");
        add("writes reported as possibly lost", tally.lost, "writes");
        add("writes refused", tally.refused, "writes");
        add("starts killed", tally.early_kills, "starts");
        add("snapshots", tally.snapshots, "snapshots");
    }
    measures_to_json("faults", date, &workload, &measures)
}

/// Waits for no event: faults are to come at moments that nothing announces.
#[expect(clippy::disallowed_methods, reason = "there is nothing to wait for but the time itself")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

fn now_milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
