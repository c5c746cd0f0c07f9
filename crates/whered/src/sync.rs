//! `whered sync`: sets of the kernel's packet filter, kept in step with a prefix set.
//!
//! Not for: reading members and writing sets, which is `whered-connect`'s.
//!
//! ```text
//! read the source ──► step each set ──► wait for a notice or the interval ──► again
//!       └─ fault: told once, then again after a longer and longer wait
//! ```
//!
//! What was written stays when the program ends. Cost: see `docs/sync.md`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use whered_connect::ConnectError;
use whered_connect::sync::{
    self, FileSource, Follower, Member, ServerSource, Source, Step, Target, now_millis,
};
use whered_engine::ip::SetFormat;

use crate::outcome::{Failure, Outcome, complain};

/// The longest wait after a fault.
const BACK_OFF_MAX: Duration = Duration::from_secs(30);
/// How often a set is looked at that nobody should have replaced.
const CHECK_EVERY: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct SyncArguments {
    /// The prefix set of a running server
    #[arg(value_name = "SET", required_unless_present = "file")]
    pub(crate) set: Option<String>,
    /// The server: redis://[USER:PASSWORD@]HOST[:PORT] or unix:///PATH
    #[arg(long, value_name = "URL", default_value = "redis://127.0.0.1:6380")]
    pub(crate) from: String,
    /// A list in a file instead of a server's set; followed when it changes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["set", "from"])]
    pub(crate) file: Option<PathBuf>,
    /// What the list is: plain, ipset, nft, nft-json, csv or json; without it, its first word says
    #[arg(long, value_name = "FORMAT", requires = "file", value_parser = parse_format)]
    pub(crate) format: Option<SetFormat>,
    /// The kernel's set: nft:FAMILY/TABLE/SET or ipset:NAME, with :ipv6 behind it if one is to be
    /// made for IPv6; may be repeated; what else is in it goes
    #[arg(long, value_name = "TARGET", required = true)]
    pub(crate) to: Vec<Target>,
    /// Make sets that are not there
    #[arg(long)]
    pub(crate) create: bool,
    /// Write the sets once and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Print what would be written, as text for `nft -f` or `ipset restore`, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Seconds between two looks at the source
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub(crate) interval: Duration,
    /// Print every change
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

fn parse_format(text: &str) -> Result<SetFormat, String> {
    text.parse()
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=86_400.0).contains(seconds));
    let seconds = seconds.ok_or("allowed: seconds from 0.01 to 86400")?;
    Ok(Duration::from_secs_f64(seconds))
}

/// Runs until it is stopped, or once.
pub(crate) fn run(arguments: &SyncArguments) -> Result<Outcome, Failure> {
    let source: Box<dyn Source> = match (&arguments.file, &arguments.set) {
        (Some(path), _) => Box::new(FileSource::new(path, arguments.format)),
        (None, Some(set)) => Box::new(ServerSource::new(&arguments.from, set)),
        (None, None) => return Err(Failure::new("nothing to follow; allowed: SET or --file")),
    };
    let sinks = arguments.to.iter().map(|target| target.sink(arguments.create));
    let mut followers: Vec<Follower> = sinks.map(Follower::new).collect();
    if !arguments.dry_run {
        // What is not permitted or not possible is told at once, and nothing is tried again.
        for follower in &mut followers {
            follower.prepare().map_err(Failure::new)?;
        }
    }
    let job = Job { arguments, followers, members: None, told: None, checked: Instant::now() };
    job.run(source)
}

struct Job<'a> {
    arguments: &'a SyncArguments,
    followers: Vec<Follower>,
    members: Option<Vec<Member>>,
    /// The fault that was told last, while it lasts.
    told: Option<String>,
    checked: Instant,
}

impl Job<'_> {
    fn run(mut self, mut source: Box<dyn Source>) -> Result<Outcome, Failure> {
        let mut wait = self.arguments.interval;
        loop {
            match self.turn(&mut *source) {
                Ok(()) => {
                    if self.told.take().is_some() {
                        complain("in step again");
                    }
                    wait = self.arguments.interval;
                }
                Err(Trouble::Output(failure)) => return Err(failure),
                Err(Trouble::Fault(error)) if self.arguments.once => {
                    return Err(Failure::new(error));
                }
                Err(Trouble::Fault(error)) => {
                    let line = error.to_string();
                    if self.told.as_ref() != Some(&line) {
                        complain(&format!("{line}; the sets stay as they are, trying again"));
                        self.told = Some(line);
                    }
                    wait = (wait * 2).min(BACK_OFF_MAX.max(self.arguments.interval));
                }
            }
            if self.arguments.once {
                return Ok(Outcome::Found);
            }
            source.wait(wait);
        }
    }

    /// Reads the source and brings all sets in step. One that fails holds none of the others.
    fn turn(&mut self, source: &mut dyn Source) -> Result<(), Trouble> {
        let mut first_fault = None;
        let mut is_new = false;
        match source.read() {
            Ok(Some(members)) => {
                self.tell_left_out(&members);
                self.members = Some(members);
                is_new = true;
            }
            Ok(None) => {}
            // What is known goes on: members end, and sets that were thrown away come back.
            Err(error) => first_fault = Some(error),
        }
        let Some(members) = &self.members else {
            return first_fault.map_or(Ok(()), |error| Err(Trouble::Fault(error)));
        };
        let has_ends = members.iter().any(|member| member.until_millis.is_some());
        let is_due = self.checked.elapsed() >= CHECK_EVERY && !self.arguments.dry_run;
        if is_due {
            self.checked = Instant::now();
        }
        for follower in &mut self.followers {
            let is_intact = !is_due || follower.check()?;
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
    /// Something that may be better later.
    Fault(ConnectError),
    /// Our own output.
    Output(Failure),
}

impl From<ConnectError> for Trouble {
    fn from(error: ConnectError) -> Trouble {
        Trouble::Fault(error)
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
        Step::Replaced { pieces } => writeln!(out, "{name}: {pieces} elements in {seconds:.3} s")?,
        Step::Changed { added, removed } if arguments.verbose => {
            writeln!(out, "{name}: {added} added, {removed} removed in {seconds:.3} s")?;
        }
        _ => return Ok(()),
    }
    out.flush()?;
    Ok(())
}
