//! `whered sync` on the live kernel: a large set written, changed a thousand times a second, and
//! written again, while packets to listed members try to slip through.
//!
//! For: `whered-bench sync`, whose short form is a test. Not for: sets themselves
//! (`whered-connect`).
//!
//! ```text
//! list.rs ── rename ──► list ──► whered sync ──► kernel's set
//!                                                   ▲ asked by a rule
//! probes.rs ── UDP ──► output hook: in the set? drop : accept (counted: slipped)
//! ```
//!
//! It must run in a network namespace of its own, which it fills: [`is_private`] says whether it
//! does. Invariants: members that are listed all the time are what probes go to; some of them lie
//! in larger members that come and go, so that the kernel's elements around them change. At once:
//! the program under test, a thread of probes, a thread that reads the program's lines.

mod list;
mod probes;
mod system;

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::measure::{median, process_cpu_nanoseconds, quantile};
use list::List;
use probes::{Door, Probes};
pub use system::{Kind, is_private};

/// How often the list changes.
const PERIOD: Duration = Duration::from_millis(200);
/// How long anything may take before the run is given up.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program whose `sync` is run.
    pub binary: PathBuf,
    /// A folder of its own for the list.
    pub scratch: PathBuf,
    /// Which kind of set.
    pub kind: Kind,
    /// Members that are listed all the time.
    pub members: usize,
    /// Changes a second.
    pub rate: usize,
    /// How long changes go on.
    pub seconds: f64,
    /// What members are drawn with.
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Report {
    /// The kind of set.
    pub kind: Kind,
    /// Members that were listed all the time.
    pub members: usize,
    /// From the start of the program until everything was in the kernel.
    pub load_seconds: f64,
    /// What of that the kernel's set took.
    pub write_seconds: f64,
    /// Changes of the list, and how long they went on.
    pub changes: usize,
    /// The time in which these were made.
    pub change_seconds: f64,
    /// From each new list until the kernel answered after it: median, 99 of 100, longest.
    pub lag_seconds: [f64; 3],
    /// Processor time of the program for one second of changes, without the kernel's for packets.
    pub cpu_share: f64,
    /// Writing everything again over what is there, probes going on.
    pub again_seconds: f64,
    /// Probes to members that were listed all the time.
    pub probes: u64,
    /// Those that were let through, by the socket and by the kernel's rule.
    pub slipped: [u64; 2],
}

impl Report {
    /// Whether nothing slipped through.
    #[must_use]
    pub fn is_tight(&self) -> bool {
        self.slipped == [0, 0] && self.probes > 0
    }

    /// A line of the table under [`HEADER`].
    #[must_use]
    pub fn to_row(&self) -> String {
        let [median, high, longest] = self.lag_seconds.map(|seconds| seconds * 1000.0);
        let mut row = String::new();
        // A text in memory takes whatever is written.
        let _ = write!(
            row,
            "| {} | {} | {:.2} | {:.2} | {:.2} | {:.0} | {median:.0} / {high:.0} / {longest:.0} | {:.2} | {} | {} |",
            self.kind.name(),
            self.members,
            self.load_seconds,
            self.write_seconds,
            self.again_seconds,
            self.changes as f64 / self.change_seconds,
            self.cpu_share,
            self.probes,
            self.slipped[0].max(self.slipped[1]),
        );
        row
    }
}

/// The head of the table.
pub const HEADER: &str = "\
| set | members | start to loaded, s | of that the set, s | again over it, s | changes/s | lag median / p99 / longest, ms | cores used | probes | slipped |
| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: |";

/// Runs everything.
///
/// # Errors
///
/// What could not be set up, or took too long, in one line.
pub fn run(options: &Options) -> Result<Report, String> {
    system::prepare(options.kind)?;
    let fail = |error: std::io::Error| format!("{}: {error}", options.scratch.display());
    fs::create_dir_all(&options.scratch).map_err(fail)?;
    let path = options.scratch.join("list");
    let mut list = List::new(options.members, options.rate, options.seed);
    list.write(&path).map_err(fail)?;

    let start = Instant::now();
    let mut follower = Running::start(options)?;
    let write_seconds = follower.loaded()?;
    let load_seconds = start.elapsed().as_secs_f64();

    let probes = Probes::start(list.stable().to_vec())?;
    let cpu_before = follower.cpu_seconds();
    let start = Instant::now();
    let lags = churn(options, &mut list, &path, &probes)?;
    let change_seconds = start.elapsed().as_secs_f64();
    let cpu_share = (follower.cpu_seconds() - cpu_before) / change_seconds;
    let changes = list.changes();

    // Everything again over what is there: what a restart does.
    follower.stop();
    let start = Instant::now();
    let mut follower = Running::start(options)?;
    follower.loaded()?;
    let again_seconds = start.elapsed().as_secs_f64();
    follower.stop();
    let (probes, slipped) = probes.stop()?;
    Ok(Report {
        kind: options.kind,
        members: options.members,
        load_seconds,
        write_seconds,
        changes,
        change_seconds,
        lag_seconds: [median(&lags), quantile(&lags, 0.99), quantile(&lags, 1.0)],
        cpu_share,
        again_seconds,
        probes,
        slipped: [slipped, system::slipped(options.kind)?],
    })
}

/// Changes the list in time with the clock, and waits for the kernel to follow each time.
fn churn(
    options: &Options,
    list: &mut List,
    path: &std::path::Path,
    probes: &Probes,
) -> Result<Vec<f64>, String> {
    let periods = (options.seconds / PERIOD.as_secs_f64()).ceil() as usize;
    let each = (options.rate as f64 * PERIOD.as_secs_f64()) as usize;
    let mut door = Door::open()?;
    let start = Instant::now();
    let mut waiting: Vec<(Instant, Ipv4Addr, bool)> = Vec::new();
    let mut lags = Vec::new();
    let mut step = |waiting: &mut Vec<(Instant, Ipv4Addr, bool)>| -> Result<(), String> {
        let mut still = Vec::new();
        for (since, address, shall_be_in) in waiting.drain(..) {
            if door.is_shut(address)? == shall_be_in {
                lags.push(since.elapsed().as_secs_f64());
            } else if since.elapsed() > PATIENCE {
                return Err(format!("{address}: not followed in {PATIENCE:?}"));
            } else {
                still.push((since, address, shall_be_in));
            }
        }
        *waiting = still;
        Ok(())
    };
    for period in 0..periods {
        let (added, removed) = list.change(each);
        list.write(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let now = Instant::now();
        // What a later list takes back is not waited for.
        waiting.retain(|(_, address, _)| !list.has_turned(*address));
        waiting.extend(added.map(|address| (now, address, true)));
        waiting.extend(removed.map(|address| (now, address, false)));
        let next = start + PERIOD * (period as u32 + 1);
        while Instant::now() < next {
            step(&mut waiting)?;
            thread::park_timeout(Duration::from_millis(1));
        }
        probes.check()?;
    }
    while !waiting.is_empty() {
        step(&mut waiting)?;
        thread::park_timeout(Duration::from_millis(1));
    }
    Ok(lags)
}

/// The program under test.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(options: &Options) -> Result<Running, String> {
        let mut child = Command::new(&options.binary)
            .args(["sync", "--interval", "0.1", "--to", options.kind.target(), "--file"])
            .arg(options.scratch.join("list"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", options.binary.display()))?;
        let output = child.stdout.take().ok_or("the program has no output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let reader = std::io::BufRead::lines(std::io::BufReader::new(output));
            for line in reader.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Running { child, lines })
    }

    /// Waits for everything to be written; the seconds that the set took.
    fn loaded(&mut self) -> Result<f64, String> {
        let line = self.lines.recv_timeout(PATIENCE);
        let line = line.map_err(|_| "whered sync ended, or did not write the set".to_owned())?;
        let seconds = line.rsplit_once(" in ").and_then(|(_, time)| time.strip_suffix(" s"));
        let seconds = seconds.and_then(|seconds| seconds.parse().ok());
        seconds.ok_or_else(|| format!("whered sync wrote '{line}'"))
    }

    fn cpu_seconds(&self) -> f64 {
        process_cpu_nanoseconds(self.child.id()).unwrap_or(0) as f64 / 1e9
    }

    fn stop(&mut self) {
        // It may have ended by itself; then its lines have said so.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}
