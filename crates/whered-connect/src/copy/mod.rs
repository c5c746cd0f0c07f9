//! Copies the GEO keys of a running Redis or Valkey into a running server.
//!
//! For: `whered import redis`. Not for: other kinds of keys, and not for following a source for
//! ever; this is one copy, taken while the source goes on serving.
//!
//! ```text
//! SCAN TYPE zset ─> list of keys ─> each key: ZSCAN page, ZADD page, ... PTTL, PEXPIRE
//!                                                  └─> state file: how far
//! at the end: ZCARD of every key on both sides; SCAN and TYPE count what was left
//! ```
//!
//! **Why ZSCAN.** Pages by rank move under changes: a member removed in front of the page makes
//! the next one begin too late. Pages by (score, member) miss a member that moves backwards over
//! the page's border, and moving is what points do. ZSCAN goes by the hash of the member, which
//! does not change when the member moves: Redis promises that every member that is there from the
//! first page to the last comes at least once. One that comes twice is written twice, which
//! changes nothing.
//!
//! Hence, of a source that changes meanwhile: no member is missed, a member that moved has a place
//! that it had during the copy, and one that was removed after its page stays. For an exact copy
//! the source's writers pause; the counts at the end show the difference that is left.
//!
//! Exactness: a score is the 52-bit cell, and it is the cell that is sent (`ZADD key 3479... m`).
//! To a server without ZADD the cell's centre goes by GEOADD, whose cell is that cell again; that
//! is checked for each one before it is sent.
//!
//! Cost: a page is one round trip to each side, both at the same time; memory is the list of keys
//! and two pages.

mod key;
mod others;
mod state;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use redis::Value;

use crate::error::ConnectError;
use crate::{Progress, Server};
use key::{KeyCopy, Pairs};
use state::State;

/// How many keys are asked about in one go.
const KEYS_AT_ONCE: usize = 500;

/// What is copied, and how.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// Only keys that match this glob, as SCAN's MATCH.
    pub pattern: Option<String>,
    /// Numbered databases, each copied to the same number; without any, from the number of the
    /// source's URL to the number of the target's.
    pub databases: Vec<i64>,
    /// Copy sorted sets whose scores are not all cells as well, as plain sorted sets.
    pub all_sorted_sets: bool,
    /// Delete a key of the target that has the name of one of the source, instead of leaving both.
    pub replace: bool,
    /// Where the position is written, so that a copy that was interrupted can go on.
    pub state_path: PathBuf,
    /// Go on where the state file says.
    pub resume: bool,
}

/// What became of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All members and the expiry are in the target.
    Copied,
    /// All members are; the target has no PEXPIRE for its expiry.
    WithoutExpiry,
    /// A score is not a cell: no GEO key. This score, of this member.
    NotCells {
        /// The score as the source wrote it.
        score: String,
        /// The member that has it.
        member: String,
    },
    /// The target had a key of that name before.
    Exists,
    /// It expired, was removed, or became another type while the copy ran.
    Gone,
    /// It became another type in the target while the copy ran: the target's own words.
    Refused(String),
}

/// One key of the source, at the end.
#[derive(Clone, Debug)]
pub struct KeyReport {
    /// The source's numbered database.
    pub database: i64,
    /// The key.
    pub key: Vec<u8>,
    /// What became of it.
    pub outcome: Outcome,
    /// Members in the source now.
    pub source_count: u64,
    /// Members in the target now.
    pub target_count: u64,
}

impl KeyReport {
    /// Whether the key was to be copied and is not there whole.
    pub fn is_mismatch(&self) -> bool {
        match self.outcome {
            Outcome::Copied | Outcome::Gone => self.source_count != self.target_count,
            Outcome::NotCells { .. } => false,
            Outcome::WithoutExpiry | Outcome::Exists | Outcome::Refused(_) => true,
        }
    }
}

/// A numbered database of the source and that of the target.
pub(crate) type Route = (i64, i64);

/// A key of the source and how many members it had when it was listed.
struct KeyListing {
    route: Route,
    key: Vec<u8>,
    count: u64,
}

/// The result of a copy.
#[derive(Clone, Debug)]
pub struct CopySummary {
    /// Every sorted set of the source.
    pub keys: Vec<KeyReport>,
    /// How many keys of each other type were left; none if the source does not tell.
    pub others: Option<BTreeMap<String, u64>>,
}

impl CopySummary {
    /// Whether everything that was to be copied is in the target whole, its expiry too.
    pub fn is_whole(&self) -> bool {
        !self.keys.iter().any(KeyReport::is_mismatch)
    }
}

/// Copies, and compares counts at the end. What is left out has its own [`Outcome`].
///
/// # Errors
///
/// A connection that breaks, a state file that cannot be written or is of another copy. What was
/// copied until then stays, and `resume` goes on from there.
pub fn copy(
    source: &mut Server,
    target: &mut Server,
    options: &CopyOptions,
    watch: &mut dyn FnMut(Progress),
) -> Result<CopySummary, ConnectError> {
    let routes = routes(source, target, &options.databases);
    let run = run_id(source);
    refuse_same(source, target, &run, &routes)?;
    let known = target.knows(&["zadd", "pexpire"])?;
    let (has_zadd, has_pexpire) = (known.first() == Some(&true), known.get(1) == Some(&true));
    if options.all_sorted_sets && !has_zadd {
        let name = target.name();
        return Err(ConnectError::new(format!(
            "{name}: has no ZADD, so it takes GEO keys only; allowed: without --all-zsets"
        )));
    }
    let mut state = State::open(options, source.name(), target.name(), &routes)?;
    if !state.continues_run(&run) {
        // A cursor means something to the process that gave it, and to no other one.
        state.forget_cursor()?;
    }
    let listed = list(source, &routes, options.pattern.as_deref())?;
    let mut progress = Progress {
        done: 0,
        total: Some(listed.iter().map(|listed| listed.count).sum()),
        records: 0,
    };
    let pairs = if has_zadd { Pairs::Scores } else { Pairs::Places };
    let mut outcomes = Vec::with_capacity(listed.len());
    for KeyListing { route, key, .. } in &listed {
        let outcome = match state.done(*route, key) {
            Some(done) => {
                progress.done += done.members;
                done.outcome()
            }
            None => {
                let job = KeyCopy { route: *route, key, pairs, has_pexpire, options };
                job.run(source, target, &mut state, &mut |members| {
                    progress.done += members;
                    watch(progress);
                })?
            }
        };
        progress.records += 1;
        watch(progress);
        outcomes.push(outcome);
    }
    let keys = compare(source, target, listed, outcomes)?;
    state.finish()?;
    let others = others::count(source, &routes, options.pattern.as_deref(), &keys)?;
    Ok(CopySummary { keys, others })
}

fn routes(source: &Server, target: &Server, databases: &[i64]) -> Vec<Route> {
    if databases.is_empty() {
        return vec![(source.number(), target.number())];
    }
    let mut routes: Vec<Route> = databases.iter().map(|&number| (number, number)).collect();
    routes.sort_unstable();
    routes.dedup();
    routes
}

/// A copy onto itself would delete with `replace` what it is about to read.
fn refuse_same(
    source: &mut Server,
    target: &mut Server,
    run: &str,
    routes: &[Route],
) -> Result<(), ConnectError> {
    let is_same = source.name() == target.name() || (!run.is_empty() && run_id(target) == run);
    match routes.iter().find(|(from, to)| is_same && from == to) {
        Some((number, _)) => {
            let name = target.name();
            Err(ConnectError::new(format!(
                "{name}: database {number} is source and target; allowed: two servers, or two databases"
            )))
        }
        None => Ok(()),
    }
}

/// What tells this run of the source's process from its next one; empty if it does not say.
fn run_id(source: &mut Server) -> String {
    let info: Result<String, _> = source.query(redis::cmd("INFO").arg("server"));
    let info = info.unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("run_id:"));
    line.unwrap_or_default().trim().to_owned()
}

/// All sorted sets of these databases, each once, with their sizes.
fn list(
    source: &mut Server,
    routes: &[Route],
    pattern: Option<&str>,
) -> Result<Vec<KeyListing>, ConnectError> {
    let mut listed = Vec::new();
    for &route in routes {
        source.select(route.0)?;
        let mut keys: Vec<Vec<u8>> = Vec::new();
        scan(source, Some("zset"), pattern, &mut |_, page| {
            keys.extend(page);
            Ok(())
        })?;
        // SCAN may give a key twice.
        keys.sort_unstable();
        keys.dedup();
        let counts = counts(source, route.0, keys.iter().map(Vec::as_slice))?;
        let with_counts = keys.into_iter().zip(counts);
        listed.extend(with_counts.map(|(key, count)| KeyListing { route, key, count }));
    }
    Ok(listed)
}

/// A function that takes one page of keys.
type TakePage<'a> = dyn FnMut(&mut Server, Vec<Vec<u8>>) -> Result<(), ConnectError> + 'a;

/// Gives the pages of all keys of the selected database, or of those of one type.
fn scan(
    source: &mut Server,
    of_type: Option<&str>,
    pattern: Option<&str>,
    take: &mut TakePage<'_>,
) -> Result<(), ConnectError> {
    let mut cursor = b"0".to_vec();
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor).arg("COUNT").arg(1000);
        if let Some(of_type) = of_type {
            scan.arg("TYPE").arg(of_type);
        }
        if let Some(pattern) = pattern {
            scan.arg("MATCH").arg(pattern);
        }
        let (next, page): (Vec<u8>, Vec<Vec<u8>>) = source.query(&scan)?;
        take(source, page)?;
        if next == b"0" {
            return Ok(());
        }
        cursor = next;
    }
}

/// The number of members of each key; nothing for one that is gone or of another type.
fn counts<'a>(
    server: &mut Server,
    number: i64,
    keys: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<u64>, ConnectError> {
    server.select(number)?;
    let keys: Vec<&[u8]> = keys.collect();
    let mut counts = Vec::with_capacity(keys.len());
    for keys in keys.chunks(KEYS_AT_ONCE) {
        let mut packed = Vec::new();
        for key in keys {
            redis::cmd("ZCARD").arg(*key).write_packed_command(&mut packed);
        }
        server.send(&packed)?;
        for _ in keys {
            counts.push(match server.receive() {
                Ok(Value::Int(count)) => u64::try_from(count).unwrap_or_default(),
                Ok(_) => 0,
                Err(error) if error.is_refusal() => 0,
                Err(error) => return Err(error),
            });
        }
    }
    Ok(counts)
}

/// Asks both sides for the size of every key.
fn compare(
    source: &mut Server,
    target: &mut Server,
    listed: Vec<KeyListing>,
    outcomes: Vec<Outcome>,
) -> Result<Vec<KeyReport>, ConnectError> {
    let mut by_route: HashMap<Route, Vec<usize>> = HashMap::new();
    for (place, listed) in listed.iter().enumerate() {
        by_route.entry(listed.route).or_default().push(place);
    }
    let mut found = vec![(0, 0); listed.len()];
    for ((from, to), places) in by_route {
        let keys = || places.iter().map(|&place| listed[place].key.as_slice());
        let source_counts = counts(source, from, keys())?;
        let target_counts = counts(target, to, keys())?;
        for (&place, both) in places.iter().zip(source_counts.into_iter().zip(target_counts)) {
            found[place] = both;
        }
    }
    let rows = listed.into_iter().zip(outcomes).zip(found);
    Ok(rows
        .map(|((listed, outcome), (source_count, target_count))| KeyReport {
            database: listed.route.0,
            key: listed.key,
            outcome,
            source_count,
            target_count,
        })
        .collect())
}
