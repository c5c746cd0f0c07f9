//! Feeds at the start: what the configuration names meets what was kept.
//!
//! ```text
//! snapshot, journal ─> States ─┐
//! configuration ───────────────┼─> definitions that are new ─> journal
//! spools, after each position ─┘─> keys and sources that wait
//! ```
//! For: the order of it. Not for: reading the journal (`durability`). A feed whose table has other
//! columns than were kept is refused, because its rows would mean something else.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};

use whered_store::{JournalOptions, Spool, SpoolOptions, Storage, StoreError};

use super::consolidate::Target;
use super::entry::{DEFINE_KIND, Definition};
use super::places::PlaceRule;
use super::push::Pushes;
use super::quarantine::Quarantine;
use super::read::BatchReader;
use super::spooled::Backlog;
use super::state::{FeedState, States};
use super::step::Worker;
use super::{Counters, Feed, FeedSource, Feeds, MemoryLimit};
use crate::error::EngineError;
use crate::journal::log::Log;
use crate::sync::{Notify, lock};
use crate::tables::Table;
use crate::tables::schema::Plan;

/// What a feed reads within some tenths of a second goes through the system's cache.
const SPOOL_CACHED_BYTES: u64 = 32 << 20;

/// The size of a spool's segments: what is applied goes in pieces of this size.
const SEGMENT_BYTES: u64 = 16 << 20;

/// Gives the files of a spool, by the feed's name.
pub(crate) type SpoolFiles<'a> = dyn Fn(&str) -> Result<Arc<dyn Storage>, StoreError> + 'a;

/// Where spools and quarantine files lie.
pub(crate) struct Places<'a> {
    pub(crate) spool: &'a SpoolFiles<'a>,
    /// `None`: no quarantine files.
    pub(crate) quarantine: Option<&'a Path>,
    pub(crate) journal: JournalOptions,
}

impl Feeds {
    /// Opens what the configuration names; without places in memory only.
    ///
    /// # Errors
    /// One line: a feed is wrong, does not fit what was kept, or its spool cannot be opened.
    pub(crate) fn open(
        sources: &[FeedSource],
        states: &Arc<States>,
        log: &Arc<Log>,
        places: Option<&Places<'_>>,
    ) -> Result<Feeds, EngineError> {
        let memory: Arc<MemoryLimit> = Arc::default();
        let mut feeds = Vec::new();
        let mut names = HashSet::new();
        for (number, source) in sources.iter().enumerate() {
            let plans = source.plans().map_err(EngineError::new)?;
            let tables = plans.iter().map(|plan| format!("table '{}'", plan.shape.name));
            for name in tables.chain([format!("feed '{}'", source.name)]) {
                if !names.insert(name.clone()) {
                    return Err(EngineError::new(format!("there are two of the name {name}")));
                }
            }
            let state = states.make(&source.name);
            define(source, &plans, &state, log)?;
            let parts = Parts { states, state: Arc::clone(&state), log, memory: &memory };
            let feed = Arc::new(open_feed(source, number, plans, &parts, places)?);
            state.storage.set_feed(&feed);
            feeds.push(feed);
        }
        states.all().iter().for_each(|state| state.note_memory(&state.places()));
        states.finish_start(sources)?;
        Ok(Feeds { feeds, states: Arc::clone(states), memory })
    }
}

/// What a feed shares with others.
struct Parts<'a> {
    states: &'a Arc<States>,
    state: Arc<FeedState>,
    log: &'a Arc<Log>,
    memory: &'a Arc<MemoryLimit>,
}

fn rule_of(source: &FeedSource) -> PlaceRule {
    match source.merge_within_meters {
        Some(meters) => PlaceRule::Merged(meters),
        None if source.wants_places() => PlaceRule::Latest,
        None => PlaceRule::None,
    }
}

/// Adds to the state what it does not have, and has the journal know.
fn define(
    source: &FeedSource,
    plans: &[Plan],
    state: &FeedState,
    log: &Log,
) -> Result<(), EngineError> {
    let rule = rule_of(source);
    let wanted = Definition {
        feed: source.name.clone(),
        places: rule.number(),
        tables: plans.iter().map(|plan| plan.shape.clone()).collect(),
    };
    let before = state.definition();
    state.define(&wanted).map_err(|fault| {
        let hint = "; a feed with another rule for places needs another name";
        let is_places = fault.ends_with("of another rule");
        EngineError::new(if is_places { format!("{fault}{hint}") } else { fault })
    })?;
    let after = state.definition();
    if before != after || state.header().batch == 0 {
        let payload = after.encode();
        let room =
            log.reserve(payload.len()).map_err(|error| EngineError::new(error.to_string()))?;
        room.append_encoded(DEFINE_KIND, &payload);
    }
    state.places().set_rule(rule);
    Ok(())
}

fn open_feed(
    source: &FeedSource,
    number: usize,
    plans: Vec<Plan>,
    parts: &Parts<'_>,
    places: Option<&Places<'_>>,
) -> Result<Feed, EngineError> {
    let state = Arc::clone(&parts.state);
    let (position, batch) = {
        let header = state.header();
        (header.position, header.batch)
    };
    let mut pushes = Pushes::new(position);
    let wake: Arc<Notify> = Arc::default();
    let (waiting, spool_fault) = match places {
        None => (Backlog::in_memory(position, source.limits.spool_size_bytes_max), None),
        Some(places) => match open_spool(source, position, &mut pushes, &wake, places) {
            Ok(waiting) => (waiting, None),
            // The others do not suffer for it: what it has in memory can be asked for all the same.
            Err(error) => (Backlog::Closed(position), Some(error.to_string())),
        },
    };
    let quarantine = Quarantine::new(places.and_then(|places| places.quarantine), &source.name);
    let counters = Counters::default();
    if let Err(error) = quarantine.cut_after(position) {
        // It is for people, and holds nothing up.
        let fault = format!("the quarantine file of feed '{}': {error}", source.name);
        *lock(&counters.last_error) = Some(fault);
    }
    let rule = rule_of(source);
    let has_places = rule != PlaceRule::None;
    let is_merged = matches!(rule, PlaceRule::Merged(_));
    let all = state.tables();
    let mut tables: Vec<Arc<Table>> = Vec::new();
    let mut targets = Vec::new();
    for plan in plans {
        let number = all.iter().position(|table| table.name() == plan.shape.name);
        let number = number.expect("it was just defined");
        tables.push(Arc::clone(&all[number]));
        targets.push(Target::new(plan, number, has_places, is_merged));
    }
    let reading = BatchReader::new(waiting.reader(position), position, quarantine.is_kept());
    let quarantine_files = quarantine.files();
    let worker = Worker::new(reading, quarantine, targets);
    Ok(Feed {
        source: source.clone(),
        number,
        tables,
        state,
        states: Arc::clone(parts.states),
        log: Arc::clone(parts.log),
        waiting,
        spool_fault,
        pushes: Mutex::new(pushes),
        worker: Mutex::new(worker),
        quarantine: quarantine_files,
        worker_bytes: AtomicU64::new(0),
        holds: AtomicUsize::new(0),
        removing: Mutex::default(),
        wake,
        has_processors: std::thread::available_parallelism().is_ok_and(|count| count.get() > 1),
        counters,
        undurable: Mutex::default(),
        durable_batch: AtomicU64::new(batch),
        links: Mutex::default(),
        memory: Arc::clone(parts.memory),
    })
}

fn open_spool(
    source: &FeedSource,
    position: u64,
    pushes: &mut Pushes,
    wake: &Arc<Notify>,
    places: &Places<'_>,
) -> Result<Backlog, EngineError> {
    let storage = (places.spool)(&source.name)?;
    let files = Arc::clone(&storage);
    let segment_size_bytes = places.journal.segment_size_bytes.min(SEGMENT_BYTES);
    let journal = JournalOptions { segment_size_bytes, ..places.journal.clone() };
    let size_bytes_max = source.limits.spool_size_bytes_max;
    let options = SpoolOptions { journal, size_bytes_max, cached_bytes_max: SPOOL_CACHED_BYTES };
    let (spool, _) = Spool::open(storage, options, position, &mut |entry| pushes.note(&entry))?;
    let wake = Arc::clone(wake);
    spool.on_progress(Box::new(move || wake.notify()));
    Ok(Backlog::Disk(Box::new(spool), files))
}
