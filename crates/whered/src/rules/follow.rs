//! `whered sync --ruleset`: a table of the kernel's, kept in step with a ruleset of a server.
//!
//! For: loading the compiled rules, then the difference of each new version. Not for: compiling and
//! differences (`whered_rules::flat`), members of live sets (`whered-connect`).
//!
//! ```text
//! version of the ruleset ─new?─► rules ─► compile ─► the same sets, maps, chains?
//!                                                      │ yes: elements and rules that differ
//!                                                      └ no, at first, or after a fault: the whole
//! look at the table, twice a second ──► somebody else has changed it: told, and loaded anew
//! ```
//!
//! Invariants: one transaction a step, so that packets meet the old rules or the new ones; what the
//! kernel refuses leaves the old ones. The table has a chain that says whose it is: a table that
//! another program has made is not replaced unless that is asked for. Live sets are filled in the
//! transaction that makes them.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use whered_connect::sync::{
    Follower, MapChange, Member, RulesetSource, ServerSource, Source, TableWatch, Target,
    change_maps, now_millis,
};
use whered_rules::flat::{self, Options, Program, TableDifference, compile};
use whered_rules::normal::NoPlaces;
use whered_rules::{Ruleset, text};

use super::apply::{Table, family_word, parsed};
use super::live::run as system;
use super::load::live_sets;
use crate::outcome::{Failure, Outcome, complain};
use crate::sync::{BACK_OFF_MAX, CHECK_EVERY, LastReport, SyncArguments};

/// How often members of live sets are read.
const SETS_EVERY: Duration = Duration::from_secs(1);
/// How often the ruleset's version is asked for, if nothing else is said.
const VERSION_EVERY: Duration = Duration::from_millis(10);
/// The chain that says whose the table is.
const OWN_CHAIN: &str = "whered_synced";

/// Follows a ruleset until it is stopped, or loads it once.
pub(crate) fn run(arguments: &SyncArguments, ruleset: &str) -> Result<Outcome, Failure> {
    let mut source = RulesetSource::new(arguments.server.address()?, ruleset);
    if arguments.dry_run {
        let rules = source.read().map_err(Failure::new)?.unwrap_or_default();
        let (_, program) = compiled(ruleset, &rules, &arguments.name).map_err(Failure::Message)?;
        let mut out = io::stdout().lock();
        out.write_all(program.text.as_bytes())?;
        return Ok(out.flush().map(|()| Outcome::Found)?);
    }
    let watch = TableWatch::open("inet", &arguments.name).map_err(Failure::new)?;
    let job = Job {
        arguments,
        ruleset,
        source,
        watch,
        wanted: None,
        held: None,
        refused: None,
        sets: Vec::new(),
        is_touched: false,
        listed: None,
        report: LastReport::default(),
        checked: Instant::now(),
        compared: Instant::now(),
        sets_read: Instant::now(),
    };
    job.run()
}

/// A ruleset of the server as a program; why it cannot be one, in one line.
fn compiled(name: &str, rules: &str, table: &str) -> Result<(Ruleset, Program), String> {
    let first = |error: whered_rules::RulesError| {
        let mut problems = error.problems().iter();
        let line = problems.next().map(ToString::to_string).unwrap_or_default();
        match problems.count() {
            0 => line,
            more => format!("{line} (and {more} more)"),
        }
    };
    let ruleset = text::read(name, rules).map_err(first)?;
    let options = Options { table, counters: false };
    let program = compile(&ruleset, &NoPlaces, options).map_err(first)?;
    Ok((ruleset, program))
}

/// The program that the table shall have.
struct ServedProgram {
    family: &'static str,
    program: String,
    rules: usize,
    live: BTreeSet<String>,
}

/// A live set and its two sets of the kernel's.
struct LiveSet {
    name: String,
    source: ServerSource,
    members: Vec<Member>,
    followers: Vec<Follower>,
}

struct Job<'a> {
    arguments: &'a SyncArguments,
    ruleset: &'a str,
    source: RulesetSource,
    watch: TableWatch,
    wanted: Option<ServedProgram>,
    /// The text of the program that is loaded.
    held: Option<String>,
    /// Why the last version was not taken.
    refused: Option<String>,
    sets: Vec<LiveSet>,
    /// Somebody else was seen at the table.
    is_touched: bool,
    /// The table as it was listed some time after the last change of ours.
    listed: Option<Value>,
    report: LastReport,
    checked: Instant,
    compared: Instant,
    sets_read: Instant,
}

impl Job<'_> {
    fn run(mut self) -> Result<Outcome, Failure> {
        let every = self.arguments.interval.unwrap_or(VERSION_EVERY);
        let (mut wait, mut told) = (every, None);
        let mut is_first = true;
        let mut next_reading = Instant::now();
        loop {
            let is_reading = Instant::now() >= next_reading;
            match self.one_pass(is_reading, is_first) {
                // Between two looks at the server nothing was tried.
                Ok(()) if !is_reading => {}
                Ok(()) => {
                    if told.take().is_some() {
                        complain("in step again");
                    }
                    (wait, is_first) = (every, false);
                }
                Err(Trouble::End(failure)) => return Err(failure),
                Err(Trouble::Fault(line)) if self.arguments.once => {
                    return Err(Failure::Message(line));
                }
                Err(Trouble::Fault(line)) => {
                    if told.as_ref() != Some(&line) {
                        complain(&format!("{line}; the rules stay as they are, trying again"));
                        told = Some(line);
                    }
                    // A refused version needs another one, which is not waited for longer.
                    if is_reading && self.refused.is_none() {
                        wait = (wait * 2).max(CHECK_EVERY).min(BACK_OFF_MAX.max(every));
                    }
                }
            }
            if self.arguments.once {
                return Ok(Outcome::Found);
            }
            if is_reading {
                next_reading = Instant::now() + wait;
            }
            // The table is looked at meanwhile.
            let left = next_reading.saturating_duration_since(Instant::now());
            std::thread::park_timeout(left.min(CHECK_EVERY));
        }
    }

    /// Brings the table in step.
    fn one_pass(&mut self, is_reading: bool, is_first: bool) -> Result<(), Trouble> {
        // What is known goes on while the server cannot be asked.
        let read = if is_reading { self.read() } else { Ok(()) };
        let mut is_drifted = false;
        if self.checked.elapsed() >= CHECK_EVERY {
            self.checked = Instant::now();
            is_drifted = self.check()?;
        }
        if let Some(wanted) = &self.wanted
            && (is_reading || is_drifted)
            && self.held.as_ref() != Some(&wanted.program)
        {
            self.step(is_first)?;
        }
        self.follow_sets()?;
        read?;
        match &self.refused {
            Some(line) => Err(Trouble::Fault(line.clone())),
            None => Ok(()),
        }
    }

    /// Takes a new version over, if there is one that nft can say.
    fn read(&mut self) -> Result<(), Trouble> {
        let Some(rules) = self.source.read()? else { return Ok(()) };
        match compiled(self.ruleset, &rules, &self.arguments.name) {
            Ok((ruleset, program)) => {
                let live: BTreeSet<String> =
                    live_sets(&ruleset).into_iter().map(str::to_owned).collect();
                self.refused = None;
                self.wanted = Some(ServedProgram {
                    family: family_word(&ruleset),
                    program: program.text,
                    rules: ruleset.rules().len(),
                    live,
                });
            }
            Err(line) => self.refused = Some(line),
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let family = self.wanted.as_ref().map_or("inet", |wanted| wanted.family);
        Table { family, name: self.arguments.name.clone() }
    }

    fn name(&self) -> String {
        format!("nft {}", self.table().reference())
    }

    /// Whether the table is not what was loaded any more; then it is to be loaded anew.
    fn check(&mut self) -> Result<bool, Trouble> {
        if self.held.is_none() {
            return Ok(false);
        }
        let mut drift = None;
        let was_touched = std::mem::take(&mut self.is_touched);
        if self.watch.was_touched()? || was_touched {
            drift = Some("somebody else has changed or replaced it");
        } else if self.compared.elapsed() >= self.arguments.compare_interval {
            self.compared = Instant::now();
            let now = self.table().listed(&self.live_names())?;
            match &self.listed {
                Some(before) if *before != now => {
                    drift = Some("somebody else has changed or replaced it");
                }
                _ => self.listed = Some(now),
            }
        }
        if let Some(drift) = drift {
            let line = format!("{}: {drift}", self.name());
            self.report.report(&line);
            self.held = None;
        }
        Ok(drift.is_some())
    }

    fn live_names(&self) -> Vec<String> {
        self.wanted.iter().flat_map(|wanted| wanted.live.iter().cloned()).collect()
    }

    /// Loads the difference, or the whole.
    fn step(&mut self, is_first: bool) -> Result<(), Trouble> {
        let start = Instant::now();
        let Some(wanted) = &self.wanted else { return Ok(()) };
        let (program, rules) = (wanted.program.clone(), wanted.rules);
        if let Some(held) = self.held.take()
            && let Some(difference) = flat::difference(&held, &program)
            && let Some(change) =
                difference.text(&self.table().full_name(), |chain| self.handles(chain))?
        {
            if !change.is_empty() {
                self.change(&difference, &change)?;
                self.say_change(difference.counts(), start)?;
            }
            self.held = Some(program);
            return Ok(());
        }
        self.load(&program, is_first)?;
        self.held = Some(program);
        self.say_load(rules, start)
    }

    /// Makes a change: of elements alone over netlink, since nft would read all others first.
    fn change(&mut self, difference: &TableDifference, text: &str) -> Result<(), Trouble> {
        let maps = difference.elements.iter().map(|one| MapChange {
            name: &one.name,
            kind: &one.kind,
            has_ranges: one.has_ranges,
            removed: &one.removed,
            added: &one.added,
        });
        let maps: Vec<MapChange<'_>> = maps.collect();
        let Table { family, name } = self.table();
        let is_done = difference.chains.is_empty()
            && self.transaction(false, || change_maps(family, &name, &maps))?.is_ok();
        // What is refused there has its reason told by nft.
        if is_done { Ok(()) } else { self.commit(text, false) }
    }

    /// The handles of a chain's rules.
    fn handles(&self, chain: &str) -> Result<Vec<u64>, Trouble> {
        let words = self.table().full_name();
        let listed = parsed(&system(&format!("nft -j list chain {words} {chain}"), "")?)?;
        let items = listed["nftables"].as_array().map_or(&[][..], Vec::as_slice);
        Ok(items.iter().filter_map(|item| item["rule"]["handle"].as_u64()).collect())
    }

    /// Loads the whole in one transaction, with the members of live sets.
    fn load(&mut self, program: &str, is_first: bool) -> Result<(), Trouble> {
        let table = self.table();
        let mut text = String::new();
        for family in table.families()? {
            let found = Table { family: word_of(&family), name: table.name.clone() };
            let is_ours = system(&format!("nft list chain {} {OWN_CHAIN}", found.full_name()), "");
            if is_ours.is_err() && !self.arguments.replace {
                let message = format!(
                    "found {}, which another program has loaded: allowed is another --name, or \
                     --replace",
                    found.reference()
                );
                return Err(match is_first {
                    true => Trouble::End(Failure::Message(message)),
                    false => Trouble::Fault(message),
                });
            }
            if found.family != table.family {
                text += &format!("delete {}\n", found.reference());
            }
        }
        text += program.strip_suffix("}\n").unwrap_or(program);
        text += &format!("\tchain {OWN_CHAIN} {{\n\t}}\n}}\n");
        self.open_sets(&table)?;
        let mut members = Vec::new();
        for set in &mut self.sets {
            for follower in &mut set.followers {
                follower.rehearse(&set.members, now_millis(), &mut members)?;
            }
        }
        let members = String::from_utf8_lossy(&members);
        // The sets are new.
        let lines = members.lines().filter(|line| !line.starts_with("flush set "));
        lines.for_each(|line| text.extend([line, "\n"]));
        self.commit(&text, true)?;
        for follower in self.sets.iter_mut().flat_map(|set| &mut set.followers) {
            follower.prepare()?;
        }
        Ok(())
    }

    /// Reads the members of all live sets.
    fn open_sets(&mut self, table: &Table) -> Result<(), Trouble> {
        let Some(wanted) = &self.wanted else { return Ok(()) };
        let mut sets = Vec::new();
        let mut others = Vec::new();
        for name in &wanted.live {
            let address = self.arguments.server.address().map_err(Trouble::End)?;
            let mut source = ServerSource::new(address, name);
            let members = members_of(&mut source)?.unwrap_or_default();
            let kernel_sets = match table.family {
                "inet" => vec![format!("{name}_v4"), format!("{name}_v6:ipv6")],
                "ip6" => vec![format!("{name}:ipv6")],
                _ => vec![name.clone()],
            };
            let mut followers = Vec::new();
            for set in &kernel_sets {
                let target: Target =
                    format!("nft:{}/{}/{set}", table.family, table.name)
                        .parse()
                        .map_err(|what| Trouble::Fault(format!("set {name:?}: {what}")))?;
                let every = self.arguments.compare_interval;
                followers.push(Follower::new(target.sink(false)).comparing_every(every));
                others.push(set.trim_end_matches(":ipv6").to_owned());
            }
            sets.push(LiveSet { name: name.clone(), source, members, followers });
        }
        self.watch.look_at(table.family, others);
        self.sets = sets;
        self.sets_read = Instant::now();
        Ok(())
    }

    /// Brings live sets in step; their members end by themselves.
    fn follow_sets(&mut self) -> Result<(), Trouble> {
        if self.sets_read.elapsed() < SETS_EVERY || self.held.is_none() {
            return Ok(());
        }
        self.sets_read = Instant::now();
        for set in &mut self.sets {
            let new = members_of(&mut set.source)
                .map_err(|error| Trouble::Fault(format!("set {}: {error}", set.name)))?;
            let is_new = new.is_some();
            set.members = new.unwrap_or_else(|| std::mem::take(&mut set.members));
            for follower in &mut set.followers {
                let drift = follower.check(now_millis())?;
                if let Some(drift) = &drift {
                    self.report.report(&format!("{}: {drift}", follower.sink().name()));
                }
                if is_new || drift.is_some() {
                    follower.step(&set.members, now_millis())?;
                }
            }
        }
        Ok(())
    }

    /// Has nft run one transaction.
    fn commit(&mut self, text: &str, is_whole: bool) -> Result<(), Trouble> {
        let done = self.transaction(is_whole, || system("nft -f -", text))?;
        if done.is_err() {
            // Whatever is there, the next step loads the whole.
            self.held = None;
        }
        Ok(done.map(drop)?)
    }

    /// Runs one transaction. What is announced of it is ours, if there was no other one at the same
    /// time.
    fn transaction<T, E>(
        &mut self,
        is_whole: bool,
        run: impl FnOnce() -> Result<T, E>,
    ) -> Result<Result<T, E>, Trouble> {
        let was_touched = self.watch.was_touched()? || self.is_touched;
        self.is_touched = was_touched && !is_whole;
        let before = self.watch.generation()?;
        let done = run();
        let after = self.watch.generation()?;
        let writers = self.watch.writers()?;
        self.listed = None;
        self.compared = Instant::now();
        let own = usize::from(done.is_ok());
        let is_alone = after == before.wrapping_add(own as u32);
        self.is_touched |= !is_alone && writers.is_none_or(|writers| writers > own);
        Ok(done)
    }

    fn say_load(&self, rules: usize, start: Instant) -> Result<(), Trouble> {
        let (name, seconds) = (self.name(), start.elapsed().as_secs_f64());
        let object = json!({ "target": name, "rules": rules, "seconds": seconds });
        self.say(&object, &format!("{name}: {rules} rules in {seconds:.3} s"))
    }

    fn say_change(&self, counts: (usize, usize), start: Instant) -> Result<(), Trouble> {
        if !self.arguments.verbose {
            return Ok(());
        }
        let ((added, removed), seconds) = (counts, start.elapsed().as_secs_f64());
        let name = self.name();
        let object =
            json!({ "target": name, "added": added, "removed": removed, "seconds": seconds });
        self.say(&object, &format!("{name}: {added} added, {removed} removed in {seconds:.3} s"))
    }

    fn say(&self, object: &Value, line: &str) -> Result<(), Trouble> {
        crate::outcome::say(self.arguments.json, object, line).map_err(Trouble::End)
    }
}

/// The members of a set of the server; nothing if they are those of the last reading. A set that
/// nobody has made yet has none.
fn members_of(source: &mut ServerSource) -> Result<Option<Vec<Member>>, String> {
    match source.read() {
        Ok(members) => Ok(members),
        Err(error) if error.to_string().contains("no such") => Ok(Some(Vec::new())),
        Err(error) => Err(error.to_string()),
    }
}

/// A family of tables, of those that rules are compiled to.
fn word_of(family: &str) -> &'static str {
    ["ip", "ip6", "arp", "bridge", "netdev"]
        .into_iter()
        .find(|word| *word == family)
        .unwrap_or("inet")
}

/// The reason why a pass stops.
enum Trouble {
    /// Something that may be better later, in one line.
    Fault(String),
    /// Something that will not.
    End(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        match failure {
            Failure::Message(line) => Trouble::Fault(line),
            other => Trouble::End(other),
        }
    }
}

impl From<String> for Trouble {
    fn from(line: String) -> Trouble {
        Trouble::Fault(line)
    }
}

impl From<whered_connect::ConnectError> for Trouble {
    fn from(error: whered_connect::ConnectError) -> Trouble {
        Trouble::Fault(error.to_string())
    }
}
