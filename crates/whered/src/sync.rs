//! `whered sync`: sets of the kernel's packet filter, kept in step with a prefix set.
//!
//! Not for: reading members and writing sets, which is `whered-connect`'s; rulesets
//! (`rules/follow`).
//!
//! ```text
//! read the source ──► step each set ──► wait for a notice or the interval ──► again
//!       └─ fault: told once, then again after a longer and longer wait
//! look at the sets, twice a second ──► somebody else has changed one: told, and written anew
//! ```
//!
//! What was written stays when the program ends. Cost: see `docs/guide/sync.md`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use whered_connect::ConnectError;
use whered_connect::sync::{
    self, FileSource, Follower, Member, ServerSource, Source, Step, Target, now_millis,
};
use whered_engine::ip::{SetOption, SetReading, ShrinkLimit};

use crate::outcome::{Failure, Outcome, complain};
use crate::server::RespServer;

/// The longest wait after a fault.
pub(crate) const BACK_OFF_MAX: Duration = Duration::from_secs(30);
/// How often a set is looked at that nobody else should change.
pub(crate) const CHECK_EVERY: Duration = Duration::from_millis(500);
/// The time between two reads of a source of members, if nothing else is said.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often changes of one set by others are reported.
const REPORT_EVERY: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(crate) struct SyncArguments {
    /// The prefix set of a running server
    #[arg(value_name = "SET", required_unless_present_any = ["file", "ruleset"])]
    pub(crate) set: Option<String>,
    /// Ruleset of a running server, kept in step as a table of nftables, instead of a set
    #[arg(
        long,
        value_name = "RULESET",
        conflicts_with_all = ["set", "file", "to", "create", "allow_empty", "max_shrink"]
    )]
    pub(crate) ruleset: Option<String>,
    /// Name of the table that the ruleset becomes
    #[arg(long, value_name = "TABLE", default_value = "whered", requires = "ruleset")]
    pub(crate) name: String,
    /// Replace a table of this name that another program has loaded
    #[arg(long, requires = "ruleset")]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) server: RespServer,
    /// File with a list instead of a server's set, plain or packed; re-read when it changes
    ///
    /// A dump of several sets needs a SET.
    #[arg(long, value_name = "FILE[:SET]", conflicts_with_all = ["set", "server", "password_file"])]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadingArguments,
    /// Kernel set: nft:FAMILY/TABLE/SET[:ipv6] or ipset:NAME[:ipv6]; repeatable
    ///
    /// :ipv6 creates one for IPv6. Other elements of the set are removed.
    #[arg(long, value_name = "TARGET", required_unless_present = "ruleset")]
    pub(crate) to: Vec<Target>,
    /// Create missing sets
    #[arg(long)]
    pub(crate) create: bool,
    /// Write the sets once and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Print the changes once as input for `nft -f` or `ipset restore`, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Seconds between two reads of the source; without it, 1, and 0.01 for a ruleset's version
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval)]
    pub(crate) interval: Option<Duration>,
    /// Most seconds between two full comparisons of a kernel set with its source
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_interval)]
    pub(crate) compare_interval: Duration,
    /// Accept an empty list
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Refuse a list that lost this share of the members or more
    ///
    /// 100 accepts any but an empty one. Default: 50 for --file, 100 for a server's set.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) max_shrink: Option<u8>,
    /// Print JSON, an object for each change of a set
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) json: bool,
    /// Print every change
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

impl SyncArguments {
    fn interval(&self) -> Duration {
        self.interval.unwrap_or(INTERVAL)
    }

    /// A rehearsal changes nothing, so that a second one would say the same.
    fn is_once(&self) -> bool {
        self.once || self.dry_run
    }
}

/// How the list of `--file` is read.
#[derive(Args)]
pub(crate) struct ReadingArguments {
    /// Format of the list, such as plain, ipset, nft-json, csv, aws or crowdsec; without it, the
    /// list itself says so
    #[arg(long, value_name = "FORMAT", requires = "file")]
    input_format: Option<String>,
    /// Where JSON has the prefixes, such as prefixes[].ip_prefix; several with commas
    #[arg(long, value_name = "PATH", requires = "file")]
    path: Option<String>,
    /// Column of a table with the prefixes, by name or number; two with a comma are the ends of
    /// ranges
    #[arg(long, value_name = "NAME|NUMBER", requires = "file")]
    column: Option<String>,
    /// What stands between the fields of a table: , ; | or tab
    #[arg(long, value_name = "CHARACTER", requires = "file")]
    delimiter: Option<String>,
}

impl ReadingArguments {
    fn reading(&self) -> Result<SetReading, Failure> {
        let options = [
            (&self.input_format, SetOption::Format),
            (&self.path, SetOption::Path),
            (&self.column, SetOption::Column),
            (&self.delimiter, SetOption::Delimiter),
        ];
        let mut reading = SetReading::default();
        for (text, option) in options {
            if let Some(text) = text {
                reading.set_option(option, text).map_err(Failure::new)?;
            }
        }
        reading.check().map_err(Failure::new)?;
        Ok(reading)
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=86_400.0).contains(seconds));
    let seconds = seconds.ok_or("allowed: seconds from 0.01 to 86400")?;
    Ok(Duration::from_secs_f64(seconds))
}

/// Runs until it is stopped, or once.
pub(crate) fn run(arguments: &SyncArguments) -> Result<Outcome, Failure> {
    if let Some(ruleset) = &arguments.ruleset {
        return crate::rules::follow(arguments, ruleset);
    }
    let source: Box<dyn Source> = match (&arguments.file, &arguments.set) {
        (Some(path), _) => Box::new(FileSource::new(path, arguments.reading.reading()?)),
        (None, Some(set)) => Box::new(ServerSource::new(arguments.server.address()?, set)),
        (None, None) => return Err(Failure::new("nothing to follow; allowed: SET or --file")),
    };
    let sinks = arguments.to.iter().map(|target| target.sink(arguments.create));
    let following = |sink| Follower::new(sink).comparing_every(arguments.compare_interval);
    let mut followers: Vec<Follower> = sinks.map(following).collect();
    if !arguments.dry_run {
        // What is not permitted or not possible is told at once, and nothing is tried again.
        for follower in &mut followers {
            follower.prepare().map_err(Failure::new)?;
        }
    }
    let reported = vec![LastReport::default(); followers.len()];
    let (members, refused, told, checked) = (None, None, None, Instant::now());
    Job { arguments, followers, reported, members, refused, told, checked }.run(source)
}

struct Job<'a> {
    arguments: &'a SyncArguments,
    followers: Vec<Follower>,
    /// What was told of changes by others, for each follower.
    reported: Vec<LastReport>,
    members: Option<Vec<Member>>,
    /// Why the last list was not taken, while there is no other.
    refused: Option<String>,
    /// The fault that was told last, while it lasts.
    told: Option<String>,
    checked: Instant,
}

/// When a change by others was told, and how many were not told since.
#[derive(Clone, Default)]
pub(crate) struct LastReport {
    at: Option<Instant>,
    untold: usize,
}

impl LastReport {
    /// Reports a change, but not more often than once a minute.
    pub(crate) fn report(&mut self, line: &str) {
        if self.at.is_some_and(|at| at.elapsed() < REPORT_EVERY) {
            self.untold += 1;
            return;
        }
        let more = match std::mem::take(&mut self.untold) {
            0 => String::new(),
            count => format!(" ({count} more times since the last report)"),
        };
        complain(&format!("{line}; written anew{more}"));
        self.at = Some(Instant::now());
    }
}

impl Job<'_> {
    fn run(mut self, mut source: Box<dyn Source>) -> Result<Outcome, Failure> {
        let mut wait = self.arguments.interval();
        let mut next_reading = Instant::now();
        loop {
            let is_reading = Instant::now() >= next_reading;
            match self.turn(is_reading.then_some(&mut *source)) {
                Ok(()) => {
                    if self.told.take().is_some() {
                        complain("in step again");
                    }
                    wait = self.arguments.interval();
                }
                Err(Trouble::Output(failure)) => return Err(failure),
                Err(Trouble::Fault(line)) if self.arguments.is_once() => {
                    return Err(Failure::Message(line));
                }
                Err(Trouble::Fault(line)) => {
                    if self.told.as_ref() != Some(&line) {
                        complain(&format!("{line}; the sets stay as they are, trying again"));
                        self.told = Some(line);
                    }
                    if is_reading {
                        wait = (wait * 2).min(BACK_OFF_MAX.max(self.arguments.interval()));
                    }
                }
            }
            if self.arguments.is_once() {
                return Ok(Outcome::Found);
            }
            if is_reading {
                next_reading = Instant::now() + wait;
            }
            // The sets are looked at meanwhile, however long the source is left alone.
            let left = next_reading.saturating_duration_since(Instant::now());
            if source.wait(left.min(CHECK_EVERY)) {
                next_reading = Instant::now();
            }
        }
    }

    /// Reads the source and brings all sets in step. One that fails holds none of the others.
    fn turn(&mut self, mut source: Option<&mut dyn Source>) -> Result<(), Trouble> {
        let mut first_fault = None;
        let mut is_new = false;
        let read = source.as_mut().map_or(Ok(None), |source| source.read());
        if let Some(remark) = source.and_then(Source::remark) {
            complain(&remark);
        }
        match read {
            Ok(Some(members)) => {
                self.refused = self.refusal(&members);
                if self.refused.is_none() {
                    self.tell_left_out(&members);
                    self.members = Some(members);
                    is_new = true;
                }
            }
            Ok(None) => {}
            // What is known goes on: members end, and sets that were thrown away come back.
            Err(error) => first_fault = Some(error.to_string()),
        }
        first_fault = first_fault.or_else(|| self.refused.clone());
        let Some(members) = &self.members else {
            return first_fault.map_or(Ok(()), |error| Err(Trouble::Fault(error)));
        };
        let has_ends = members.iter().any(|member| member.until_millis.is_some());
        let is_due = self.checked.elapsed() >= CHECK_EVERY && !self.arguments.dry_run;
        if is_due {
            self.checked = Instant::now();
        }
        for (follower, reported) in self.followers.iter_mut().zip(&mut self.reported) {
            let mut is_intact = true;
            if is_due {
                match follower.check(now_millis()) {
                    Ok(None) => {}
                    Ok(Some(drift)) => {
                        reported.report(&format!("{}: {drift}", follower.sink().name()));
                        is_intact = false;
                    }
                    Err(error) => first_fault = first_fault.or(Some(error.to_string())),
                }
            }
            if !(is_new || has_ends || !is_intact || self.told.is_some()) {
                continue;
            }
            match step(follower, members, self.arguments) {
                Err(Trouble::Fault(error)) => first_fault = first_fault.or(Some(error)),
                other => other?,
            }
        }
        first_fault.map_or(Ok(()), |error| Err(Trouble::Fault(error)))
    }

    /// Why a list is not taken: it is empty, or has lost too much of what was there before.
    fn refusal(&self, members: &[Member]) -> Option<String> {
        let is_file = self.arguments.file.is_some();
        let percent = self.arguments.max_shrink.unwrap_or(if is_file { 50 } else { 100 });
        // A server's set loses its members one by one, by commands and by their ends.
        let allows_empty = self.arguments.allow_empty || !is_file;
        let limit = ShrinkLimit { allows_empty, percent };
        let counts = match &self.members {
            Some(held) => (members.len(), held.len()),
            None => self.counts_at_start(members, limit),
        };
        let name = match (&self.arguments.file, &self.arguments.set) {
            (Some(path), _) => path.display().to_string(),
            (None, set) => set.clone().unwrap_or_default(),
        };
        let refused = limit.check(counts.1, counts.0).err()?;
        Some(format!("{name}: {refused}; allowed: --allow-empty, --max-shrink PERCENT"))
    }

    /// How many elements the first list gives all sets, and how many an earlier run left there.
    fn counts_at_start(&self, members: &[Member], limit: ShrinkLimit) -> (usize, usize) {
        if self.arguments.dry_run || members.is_empty() || limit.percent >= 100 {
            return (members.len(), 0);
        }
        let counts = self.followers.iter();
        let counts = counts.filter_map(|it| it.would_replace(members, now_millis()));
        counts
            .reduce(|all, one| (all.0 + one.0, all.1 + one.1))
            .filter(|(wanted, _)| *wanted > 0)
            .unwrap_or((members.len(), 0))
    }

    /// Members of a family that none of the sets has.
    fn tell_left_out(&self, members: &[Member]) {
        let families: Vec<_> = self.followers.iter().map(|it| it.sink().family()).collect();
        for (family, name) in [(sync::Family::Ipv4, "IPv4"), (sync::Family::Ipv6, "IPv6")] {
            let is_one = |member: &&Member| member.block.is_ipv4() == (name == "IPv4");
            let count = members.iter().filter(is_one).count();
            if count > 0 && !families.contains(&family) && self.members.is_none() {
                complain(&format!("{count} {name} members have no set; allowed: another --to"));
            }
        }
    }
}

/// What stops a turn.
enum Trouble {
    /// Something that may be better later, in one line.
    Fault(String),
    /// Our own output.
    Output(Failure),
}

impl From<ConnectError> for Trouble {
    fn from(error: ConnectError) -> Trouble {
        Trouble::Fault(error.to_string())
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Output(Failure::from(error))
    }
}

fn step(
    follower: &mut Follower,
    members: &[Member],
    arguments: &SyncArguments,
) -> Result<(), Trouble> {
    let mut out = io::stdout().lock();
    if arguments.dry_run {
        let mut text = Vec::new();
        follower.rehearse(members, now_millis(), &mut text)?;
        out.write_all(&text)?;
        out.flush()?;
        return Ok(());
    }
    let start = Instant::now();
    let done = follower.step(members, now_millis())?;
    let seconds = start.elapsed().as_secs_f64();
    let name = follower.sink().name();
    match done {
        Step::Replaced { pieces } if arguments.json => {
            writeln!(out, "{}", json!({ "target": name, "elements": pieces, "seconds": seconds }))?;
        }
        Step::Changed { added, removed } if arguments.json && arguments.verbose => {
            let change =
                json!({ "target": name, "added": added, "removed": removed, "seconds": seconds });
            writeln!(out, "{change}")?;
        }
        Step::Replaced { pieces } => writeln!(out, "{name}: {pieces} elements in {seconds:.3} s")?,
        Step::Changed { added, removed } if arguments.verbose => {
            writeln!(out, "{name}: {added} added, {removed} removed in {seconds:.3} s")?;
        }
        _ => return Ok(()),
    }
    out.flush()?;
    Ok(())
}
