//! What is kept of a feed: its position, what it remembers, its places and tables.
//!
//! ```text
//! header   batch | position in the spool | keys remembered | positions of sources | outcomes, the last 10,000
//! places   places.rs                       tables   all that the feed ever had, by number
//! ```
//! For: what the journal and snapshots tell, whether the configuration names the feed or not: a
//! feed or table that it does not name any more stays as it is, and goes on when it is named again.
//! Not for: the spool, batches that are made (`step.rs`).
//!
//! Invariants: an entry of the journal counts for the header when it is the next batch, for a row
//! when the row is older; so a snapshot may hold each of them at a moment of its own.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use whered_store::ColdReference;

use super::budget::Residency;
use super::entry::{Definition, Effects, Head, KeyOf, Outcome, take_effects, take_number};
use super::places::{PlaceRule, Places};
use super::source::FeedSource;
use super::storage::FeedStorage;
use crate::error::EngineError;
use crate::sync;
use crate::tables::Table;
use crate::tables::rows::Store;
use crate::tables::schema::Shape;
use crate::tables::wire;

/// How many outcomes of uploads are remembered.
const OUTCOMES_MAX: usize = 10_000;
/// Nobody else moves anything while the journal is replayed.
const REPLAY_PATIENCE: Duration = Duration::from_secs(60);
/// How many idempotency keys.
const KEYS_MAX: usize = 1 << 20;

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct Header {
    pub(crate) batch: u64,
    pub(crate) position: u64,
    /// Outcomes of the uploads up to the position.
    outcomes: VecDeque<Outcome>,
    keys: HashMap<Box<[u8]>, (u64, u64)>,
    /// Those keys in the order in which they came.
    keys_in_order: VecDeque<(u64, Box<[u8]>)>,
    pub(crate) sources: BTreeMap<String, Vec<u8>>,
}

impl Header {
    /// Takes what a batch says; one that is not the next one was taken already.
    pub(crate) fn take(&mut self, head: Head) -> Result<(), String> {
        if head.batch <= self.batch {
            return Ok(());
        }
        if head.batch != self.batch + 1 {
            return Err(format!("batch {} comes after batch {}", head.batch, self.batch));
        }
        if head.position != self.position + head.uploads.len() as u64 {
            return Err(format!(
                "batch {} goes from upload {} to {} with {}",
                head.batch,
                self.position,
                head.position,
                head.uploads.len()
            ));
        }
        self.batch = head.batch;
        self.set(head);
        Ok(())
    }

    fn set(&mut self, head: Head) {
        self.position = head.position;
        self.outcomes.extend(head.uploads);
        let too_many = self.outcomes.len().saturating_sub(OUTCOMES_MAX);
        self.outcomes.drain(..too_many);
        for (key, upload, received) in head.keys {
            self.keys_in_order.push_back((received, key.clone()));
            self.keys.insert(key, (upload, received));
        }
        self.sources.extend(head.sources);
    }

    /// The upload with this key, received after a moment.
    pub(crate) fn upload_of(&self, key: &[u8], after_millis: u64) -> Option<u64> {
        self.keys.get(key).filter(|(_, received)| *received >= after_millis).map(|(id, _)| *id)
    }

    /// Forgets keys from before a moment, and those that are too many.
    pub(crate) fn forget_keys(&mut self, before_millis: u64) {
        let is_over = |count: usize, (received, _): &(u64, Box<[u8]>)| {
            *received < before_millis || count > KEYS_MAX
        };
        while let Some(first) = self.keys_in_order.front() {
            if !is_over(self.keys_in_order.len(), first) {
                return;
            }
            if let Some((received, key)) = self.keys_in_order.pop_front()
                && self.keys.get(&key).is_some_and(|(_, latest)| *latest == received)
            {
                self.keys.remove(&key);
            }
        }
    }

    /// The outcome of an upload up to the position.
    pub(crate) fn outcome(&self, id: u64) -> Option<&Outcome> {
        let back = usize::try_from(self.position.checked_sub(id)?).ok()?;
        self.outcomes.get(self.outcomes.len().checked_sub(back + 1)?)
    }

    /// All of it, as if it were a batch's.
    pub(crate) fn to_head(&self) -> Head {
        let keys = self.keys_in_order.iter().filter_map(|(received, key)| {
            let (upload, latest) = self.keys.get(key)?;
            (latest == received).then(|| -> KeyOf { (key.clone(), *upload, *received) })
        });
        Head {
            batch: self.batch,
            position: self.position,
            uploads: self.outcomes.iter().cloned().collect(),
            keys: keys.collect(),
            sources: self.sources.clone().into_iter().collect(),
        }
    }

    /// The header that [`Header::to_head`] was made of.
    pub(crate) fn of_head(head: Head) -> Header {
        let mut header = Header { batch: head.batch, ..Header::default() };
        header.set(head);
        header
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let keys: usize = self.keys.keys().map(|key| 2 * key.len() + 120).sum();
        keys + self.outcomes.len() * size_of::<Outcome>()
    }
}

/// See the file's header.
pub(crate) struct FeedState {
    pub(crate) name: String,
    header: Mutex<Header>,
    places: Mutex<Places>,
    tables: RwLock<Vec<Arc<Table>>>,
    /// What all of it took after the last batch: asking must not wait for one.
    bytes: AtomicU64,
    /// Where places and tables are.
    pub(crate) storage: FeedStorage,
    /// Its number there.
    pub(crate) slot: usize,
    has_body: AtomicBool,
    is_damaged: AtomicBool,
    damage: Mutex<Damage>,
}

/// What is wrong with places and tables, if anything is.
#[derive(Default)]
struct Damage {
    /// One line.
    fault: Option<String>,
    /// The file that a snapshot names and that could not be opened.
    missing: Option<Missing>,
    /// Batches of the journal have not been applied to places and tables.
    has_skipped: bool,
    /// Places and tables have begun anew.
    is_reset: bool,
}

/// A cold file that could not be opened.
#[derive(Clone)]
pub(crate) struct Missing {
    pub(crate) reference: ColdReference,
    pub(crate) batch: u64,
    pub(crate) resident_bytes: u64,
}

/// Feeds by name, named by the configuration or not.
#[derive(Default)]
pub(crate) struct States {
    feeds: RwLock<BTreeMap<String, Arc<FeedState>>>,
    /// A feed whose places and tables cannot be read begins with none, in place of staying out of
    /// service: for a repair.
    repairs: bool,
    /// Which of them are in memory.
    pub(crate) residency: Residency,
}

/// Told of a point of a collection: its key, member, cell.
pub(crate) type EachPoint<'a> = &'a mut dyn FnMut(&[u8], &[u8], whered_geo::Cell);

impl States {
    /// None yet.
    pub(crate) fn new(residency: Residency, repairs: bool) -> States {
        States { feeds: RwLock::default(), repairs, residency }
    }

    /// Why no snapshot may be made, if none may: it would let batches go from the journal that are
    /// nowhere else.
    pub(crate) fn check_savable(&self) -> Result<(), EngineError> {
        let unsavable = |state: &Arc<FeedState>| sync::lock(&state.damage).has_skipped;
        let Some(state) = self.all().into_iter().find(unsavable) else { return Ok(()) };
        Err(EngineError::new(format!(
            "the feed '{}' is out of service, and batches of it are in the journal only: {}",
            state.name,
            state.damage().unwrap_or_default()
        )))
    }

    /// Feeds that a repair has let begin without places and rows, with their last batch.
    pub(crate) fn reset(&self) -> Vec<(String, u64)> {
        let states = self.all().into_iter().filter(|state| sync::lock(&state.damage).is_reset);
        states.map(|state| (state.name.clone(), state.header().batch)).collect()
    }

    /// The feed with this name, which is made if there is none.
    pub(crate) fn make(&self, name: &str) -> Arc<FeedState> {
        let mut feeds = sync::write(&self.feeds);
        let slot = feeds.len();
        let make = || {
            let state = Arc::new(FeedState {
                name: name.to_owned(),
                header: Mutex::default(),
                places: Mutex::new(Places::new(PlaceRule::None)),
                tables: RwLock::default(),
                bytes: AtomicU64::new(0),
                storage: FeedStorage::default(),
                slot,
                has_body: AtomicBool::new(false),
                is_damaged: AtomicBool::new(false),
                damage: Mutex::default(),
            });
            self.residency.add(&state);
            state
        };
        Arc::clone(feeds.entry(name.to_owned()).or_insert_with(make))
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<FeedState>> {
        sync::read(&self.feeds).get(name).map(Arc::clone)
    }

    /// All feeds.
    pub(crate) fn all(&self) -> Vec<Arc<FeedState>> {
        sync::read(&self.feeds).values().cloned().collect()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.all().iter().map(|state| state.bytes.load(Ordering::Relaxed)).sum()
    }

    /// Has in memory what the configuration wants there from the start on; from now on turns count.
    pub(super) fn finish_start(&self, sources: &[FeedSource]) -> Result<(), EngineError> {
        for state in self.all() {
            let source = sources.iter().find(|source| source.name == state.name);
            let waits = source.is_none_or(|source| !source.limits.idle.is_zero());
            let is_lasting = source.is_some_and(|source| source.limits.resident);
            let enters = is_lasting || !self.residency.has_budget() && !waits;
            if enters
                && !state.is_damaged()
                && let Err(error) = self.residency.enter(&state, REPLAY_PATIENCE)
            {
                state.set_damage(&error);
            }
            self.residency.finish(state.slot);
        }
        self.residency.serve();
        self.residency.sweep()?;
        Ok(())
    }

    /// Replays a definition.
    pub(crate) fn define(&self, payload: &[u8]) -> Result<(), String> {
        let definition = Definition::decode(payload)?;
        self.make(&definition.feed).define(&definition)
    }

    /// Replays a batch; points go to `each`, and what is left is an operation on a prefix set.
    pub(crate) fn replay<'a>(
        &self,
        payload: &'a [u8],
        each: EachPoint<'_>,
    ) -> Result<&'a [u8], String> {
        let mut input = payload;
        let feed = super::entry::take_feed(&mut input)?;
        let state = self.get(feed).ok_or_else(|| format!("feed '{feed}' was never defined"))?;
        let wrong = |fault| format!("feed '{feed}': {fault}");
        let head = take_number(&mut input).and_then(|batch| Head::take(batch, &mut input));
        let head = head.map_err(wrong)?;
        let batch = head.batch;
        state.header().take(head).map_err(wrong)?;
        let effects = take_effects(&mut input).map_err(wrong)?;
        if state.storage.is_cold() && !state.needs(batch, &effects, input) {
            return Ok(&[]);
        }
        if let Some(fault) = state.damage() {
            return Ok(self.damaged(&state, &fault));
        }
        // One thread replays: it waits for nobody.
        let entered = self.residency.enter(&state, REPLAY_PATIENCE);
        let entered = entered.and_then(|pin| pin.ok_or("it does not come into memory".to_owned()));
        let pin = match entered {
            Ok(pin) => pin,
            Err(error) => return Ok(self.damaged(&state, &error)),
        };
        if let Err(fault) = state.replay_effects(batch, &effects, &mut input, each) {
            let fault = format!("{fault}; 'whered repair' lets the feed begin without rows");
            return Ok(self.damaged(&state, &fault));
        }
        state.note_memory(&state.places());
        pin.finish();
        match (effects.has_operation, input.len()) {
            (false, 1..) => Err(wrong(format!("{} bytes too many", input.len()))),
            _ => Ok(input),
        }
    }
}

impl States {
    /// A batch cannot be applied to a feed's places and tables: the feed goes out of service, or,
    /// in a repair, begins anew.
    fn damaged(&self, state: &FeedState, fault: &str) -> &'static [u8] {
        state.set_damage(fault);
        if self.repairs {
            state.reset_body();
        }
        state.skip_batch()
    }
}

impl FeedState {
    /// Why places and tables cannot be read, if they cannot.
    pub(crate) fn damage(&self) -> Option<String> {
        if self.is_damaged() { sync::lock(&self.damage).fault.clone() } else { None }
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Acquire)
    }

    /// Places and tables cannot be read: nothing is applied to them, and nobody is told that there
    /// are no rows.
    pub(crate) fn set_damage(&self, fault: &str) {
        sync::lock(&self.damage).fault.get_or_insert_with(|| fault.to_owned());
        self.tables().iter().for_each(|table| table.set_fault(fault));
        self.is_damaged.store(true, Ordering::Release);
    }

    /// As [`FeedState::set_damage`], of a file that a snapshot names.
    pub(crate) fn set_missing(&self, fault: &str, missing: Missing) {
        self.set_damage(fault);
        sync::lock(&self.damage).missing = Some(missing);
    }

    /// The file that a snapshot is to name again.
    pub(crate) fn missing(&self) -> Option<Missing> {
        if self.is_damaged() { sync::lock(&self.damage).missing.clone() } else { None }
    }

    /// Notes that a batch of the journal was not applied; its operation, which is none, is left.
    fn skip_batch(&self) -> &'static [u8] {
        let mut damage = sync::lock(&self.damage);
        damage.has_skipped = !damage.is_reset;
        &[]
    }

    /// Begins anew without places and rows.
    fn reset_body(&self) {
        let mut places = self.places();
        *places = Places::new(places.rule());
        for table in self.tables() {
            let shape = table.shared().shape().clone();
            *table.exclusive() = Store::new(shape);
        }
        self.storage.forget_file();
        let mut damage = sync::lock(&self.damage);
        (damage.missing, damage.is_reset) = (None, true);
    }

    /// Whether what is in a file lacks a batch, or must be here for the collection's points.
    fn needs(&self, batch: u64, effects: &Effects<'_>, changes: &[u8]) -> bool {
        let is_older = self.storage.file().is_none_or(|file| file.batch < batch);
        let has_changes = effects.has_places || changes.first().is_some_and(|tables| *tables > 0);
        effects.has_operation || has_changes && (is_older || effects.collection.is_some())
    }

    /// Whether it has anything that can be evicted.
    pub(crate) fn has_body(&self) -> bool {
        self.has_body.load(Ordering::Relaxed)
    }

    /// What all of it takes in memory, as it was last noted.
    pub(crate) fn noted_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn header(&self) -> MutexGuard<'_, Header> {
        sync::lock(&self.header)
    }

    pub(crate) fn places(&self) -> MutexGuard<'_, Places> {
        sync::lock(&self.places)
    }

    pub(crate) fn tables(&self) -> Vec<Arc<Table>> {
        sync::read(&self.tables).clone()
    }

    /// Makes what the definition has and is not there yet.
    pub(crate) fn define(&self, definition: &Definition) -> Result<(), String> {
        let mut places = self.places();
        if places.rule().number() != definition.places {
            if places.len() > 0 || self.storage.is_cold() || self.is_damaged() {
                return Err(format!("feed '{}' has places of another rule", self.name));
            }
            let rules = [PlaceRule::None, PlaceRule::Latest, PlaceRule::Merged(1.0)];
            *places = Places::new(rules[usize::from(definition.places)]);
        }
        let mut tables = sync::write(&self.tables);
        for shape in &definition.tables {
            match tables.iter().find(|table| table.name() == shape.name) {
                Some(known) => check_same(&self.name, known.shared().shape(), shape)?,
                None => {
                    let table = Table::new(&self.name, Store::new(shape.clone()));
                    if let Some(fault) = self.damage() {
                        table.set_fault(&fault);
                    }
                    tables.push(Arc::new(table));
                    self.storage.note_change();
                }
            }
        }
        let has_body = definition.places != PlaceRule::None.number() || !tables.is_empty();
        self.has_body.store(has_body, Ordering::Relaxed);
        Ok(())
    }

    /// All that is defined.
    pub(crate) fn definition(&self) -> Definition {
        let tables = self.tables();
        Definition {
            feed: self.name.clone(),
            places: self.places().rule().number(),
            tables: tables.iter().map(|table| table.shared().shape().clone()).collect(),
        }
    }

    fn replay_effects(
        &self,
        batch: u64,
        effects: &Effects<'_>,
        input: &mut &[u8],
        each: EachPoint<'_>,
    ) -> Result<(), String> {
        if effects.has_places {
            self.storage.note_change();
            let mut name = Vec::new();
            self.places().apply_changes(batch, input, &mut |places, row| {
                if let Some(collection) = effects.collection {
                    let cell = places.point(row, &mut name);
                    each(collection.as_bytes(), &name, cell);
                }
            })?;
        }
        self.apply_tables(&self.tables(), batch, input)
    }

    /// Applies the changes of a batch to tables, each in one moment, and takes them off the input.
    pub(crate) fn apply_tables(
        &self,
        tables: &[Arc<Table>],
        batch: u64,
        input: &mut &[u8],
    ) -> Result<(), String> {
        for _ in 0..take_number(input)? {
            self.storage.note_change();
            let number = usize::try_from(take_number(input)?).unwrap_or(usize::MAX);
            let table = tables.get(number);
            let table = table.ok_or_else(|| format!("there is no table {number}"))?;
            wire::apply_changes(&mut table.exclusive(), batch, input)?;
        }
        Ok(())
    }

    /// Looks what all of it takes.
    pub(crate) fn note_memory(&self, places: &Places) {
        let tables: usize = self.tables().iter().map(|table| table.memory_bytes()).sum();
        let bytes = tables + places.memory_bytes() + self.header().memory_bytes();
        self.bytes.store(bytes as u64, Ordering::Relaxed);
    }
}

fn check_same(feed: &str, known: &Shape, wanted: &Shape) -> Result<(), String> {
    if known == wanted {
        return Ok(());
    }
    let columns = |shape: &Shape| {
        let key: Vec<&str> = shape.key.iter().map(|column| column.name.as_str()).collect();
        let columns: Vec<String> = shape
            .columns
            .iter()
            .map(|column| {
                format!("{} = {} ({})", column.name, column.rule_text, column.kind.name())
            })
            .collect();
        format!("of {}, key {}; {}", shape.of.name(), key.join(", "), columns.join(", "))
    };
    Err(format!(
        "table '{}' of feed '{feed}' has rows {}; the configuration says {}: a table with other \
         columns needs another name",
        known.name,
        columns(known),
        columns(wanted)
    ))
}
