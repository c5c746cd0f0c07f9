//! A spool: entries that wait to be worked on, in a journal of their own.
//!
//! ```text
//!   append ──> Journal (group commit) ──> segments ──> SpoolReader ──> the worker
//!                                            │  removed when all of one is done
//!   | done, segment removed | done | waiting ... | being written |
//!                             ^ the worker's position, which it keeps elsewhere, durably
//! ```
//!
//! For: taking entries in fast, handing them out again in order with bounded memory, and taking no
//! more than a limit. Not for: what entries mean, and the worker's position: it is durable where
//! the effects of the work are, and is told when the spool is opened.
//!
//! Invariants: sequences are consecutive from 1 for the life of a spool; an entry is handed out
//! only when it is on stable storage; nothing is removed before [`Spool::done`] was told of all of
//! its segment; what waits is never more than the limit and one entry. A sequence that was given
//! away is never given to another entry: where a crash (`reserved.rs`) or damage has taken entries
//! away, the next opening puts an entry of kind [`LOST_KIND`] in the place of each.
//!
//! At the same time: any number of threads append; readers are independent of them, and each
//! belongs to one thread. Cost: an append is the journal's and two short locks; reading is one read
//! of each byte, which is still in the system's memory when the worker keeps up.

mod reader;
pub(crate) mod reserved;

pub use reader::SpoolReader;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::StoreError;
use crate::journal::frame::Entry;
use crate::journal::load::list;
use crate::journal::thread_lock as lock;
use crate::journal::writer::LARGE_GROUP_BYTES;
use crate::journal::{Journal, JournalOptions, JournalStats, RecoveryReport, SyncPolicy, Wanted};
use crate::storage::Storage;

/// The kind of an entry without payload that stands for one that was lost after its number had been
/// given away.
pub const LOST_KIND: u16 = 0x7f00;

/// How a spool is to behave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolOptions {
    /// Of its journal. Small segments go earlier.
    pub journal: JournalOptions,
    /// How many bytes may wait.
    pub size_bytes_max: u64,
    /// How many bytes that no reader has seen go through the system's cache. With more before it an
    /// entry is written past it, in groups of 64 KiB and more that are each synced, and read into
    /// it when its turn comes: new pages of a cache cost the system more time than writing to a
    /// quick disk does.
    pub cached_bytes_max: u64,
}

/// Why an entry was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpoolRefusal {
    /// How many bytes wait already.
    Waiting {
        /// The bytes of the entries that wait.
        waiting_bytes: u64,
        /// The limit.
        allowed_bytes: u64,
    },
    /// The journal has refused it.
    Store(StoreError),
}

impl fmt::Display for SpoolRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpoolRefusal::Waiting { waiting_bytes, allowed_bytes } => {
                write!(f, "{waiting_bytes} bytes wait in the spool; allowed: {allowed_bytes}")
            }
            SpoolRefusal::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SpoolRefusal {}

impl From<StoreError> for SpoolRefusal {
    fn from(error: StoreError) -> SpoolRefusal {
        SpoolRefusal::Store(error)
    }
}

/// See the file's header.
///
/// ```
/// use std::sync::Arc;
/// use whered_store::{JournalOptions, SimulatedDisk, Spool, SpoolOptions, SpoolReader};
///
/// let disk = SimulatedDisk::new(1);
/// let options = SpoolOptions {
///     journal: JournalOptions::default(),
///     size_bytes_max: 1 << 20,
///     cached_bytes_max: 1 << 20,
/// };
/// let (spool, _) = Spool::open(Arc::new(disk), options, 0, &mut |_| Ok(()))?;
/// let sequence = spool.append(1, b"upload").expect("there is room");
/// spool.wait_durable(sequence)?;
/// let mut reader = SpoolReader::new(1);
/// let entry = reader.next(&spool)?.expect("it waits");
/// assert_eq!((entry.sequence, entry.payload), (1, &b"upload"[..]));
/// spool.done(sequence)?;
/// assert_eq!(spool.waiting(), (0, 0));
/// # Ok::<(), whered_store::StoreError>(())
/// ```
pub struct Spool {
    storage: Arc<dyn Storage>,
    journal: Journal,
    size_bytes_max: u64,
    cached_bytes_max: u64,
    sync: SyncPolicy,
    waiting: Mutex<WaitingBytes>,
    /// The last entry that a reader has handed out.
    read: AtomicU64,
    /// The last entry that was to be written past the cache.
    past_cache: AtomicU64,
}

/// The entries that wait.
#[derive(Default)]
struct WaitingBytes {
    /// Sequence, and the bytes of all entries up to its end, since the spool was opened.
    entries: VecDeque<(u64, u64)>,
    /// The bytes of all that wait no more, and of all.
    start_bytes: u64,
    end_bytes: u64,
    /// The last entry, and the last number that may be given away.
    last: u64,
    reserved: u64,
}

impl WaitingBytes {
    fn push(&mut self, sequence: u64, bytes: usize) {
        self.last = sequence;
        self.end_bytes += bytes as u64;
        self.entries.push_back((sequence, self.end_bytes));
    }

    fn forget(&mut self, sequence: u64) {
        while let Some((_, end)) = self.entries.pop_front_if(|(first, _)| *first <= sequence) {
            self.start_bytes = end;
        }
    }

    fn bytes(&self) -> u64 {
        self.end_bytes - self.start_bytes
    }

    /// The bytes of the entries behind this one.
    fn bytes_behind(&self, sequence: u64) -> u64 {
        let first = self.entries.front().map_or(0, |(first, _)| *first);
        let passed = (sequence + 1).saturating_sub(first) as usize;
        let last_passed = passed.min(self.entries.len()).checked_sub(1);
        self.end_bytes - last_passed.map_or(self.start_bytes, |last| self.entries[last].1)
    }
}

impl Spool {
    /// Opens a spool whose entries up to `done` are done with, and hands the others to `each`.
    ///
    /// # Errors
    ///
    /// As [`Journal::open`]; entries that were done with must have been durable, so that a spool
    /// that ends before `done` is damaged, and so is one that begins behind it.
    pub fn open(
        storage: Arc<dyn Storage>,
        options: SpoolOptions,
        done: u64,
        each: &mut dyn FnMut(Entry<'_>) -> Result<(), String>,
    ) -> Result<(Spool, RecoveryReport), StoreError> {
        let SpoolOptions { journal, size_bytes_max, cached_bytes_max } = options;
        let sync = journal.sync;
        let reserved = reserved::read(&*storage)?;
        let mut waiting = WaitingBytes { reserved, ..WaitingBytes::default() };
        let mut take = |entry: Entry<'_>| {
            waiting.push(entry.sequence, entry.payload.len());
            each(entry)
        };
        let wanted = Wanted { after: done, through: done };
        let (journal, report) = Journal::open(Arc::clone(&storage), journal, wanted, &mut take)?;
        waiting.last = report.last_sequence;
        fill_gap(&journal, &mut waiting, each)?;
        let (waiting, read) = (Mutex::new(waiting), AtomicU64::new(done));
        let past_cache = AtomicU64::new(0);
        let spool = Spool {
            storage,
            journal,
            size_bytes_max,
            cached_bytes_max,
            sync,
            waiting,
            read,
            past_cache,
        };
        Ok((spool, report))
    }

    /// Whether an entry may be acknowledged only when it is on stable storage.
    #[must_use]
    pub fn syncs_first(&self) -> bool {
        self.sync == SyncPolicy::Always
    }

    /// Whether a storage has a spool.
    ///
    /// # Errors
    ///
    /// Whatever the system reports.
    pub fn exists(storage: &dyn Storage) -> Result<bool, StoreError> {
        Ok(!list(storage)?.0.is_empty())
    }

    /// Appends an entry; returns its sequence. It may be acknowledged when that is durable. Waits
    /// for room in memory, never for a sync of its own.
    ///
    /// # Errors
    ///
    /// Too much waits already, the disk is full, the journal has failed, or the entry is too large.
    pub fn append(&self, kind: u16, payload: &[u8]) -> Result<u64, SpoolRefusal> {
        let appended = self.append_unless(kind, &[payload], || None::<()>, |_| ())?;
        Ok(appended.unwrap_or(0))
    }

    /// As [`Spool::append`], of a payload in pieces, unless `known` gives something in its place.
    /// Then `note` is called with the sequence. Both are called with nobody else's between them,
    /// and before any later entry gets its sequence; they must not ask the spool for anything.
    ///
    /// # Errors
    ///
    /// As [`Spool::append`].
    pub fn append_unless<R>(
        &self,
        kind: u16,
        payload: &[&[u8]],
        known: impl FnOnce() -> Option<R>,
        note: impl FnOnce(u64),
    ) -> Result<Result<u64, R>, SpoolRefusal> {
        let payload_bytes = payload.iter().map(|piece| piece.len()).sum();
        let reservation = self.journal.reserve(payload_bytes)?;
        let mut waiting = lock(&self.waiting);
        if let Some(known) = known() {
            return Ok(Err(known));
        }
        self.check_room(&waiting, payload_bytes)?;
        if !self.syncs_first() && waiting.last >= waiting.reserved {
            let reserved = waiting.last + reserved::STEP;
            reserved::write(&*self.storage, reserved)?;
            waiting.reserved = reserved;
        }
        let unread_bytes = waiting.bytes_behind(self.read.load(Ordering::Relaxed));
        let goes_past_cache = unread_bytes > self.cached_bytes_max;
        let from_bytes = LARGE_GROUP_BYTES.min(self.cached_bytes_max as usize);
        self.journal.set_past_cache(goes_past_cache.then_some(from_bytes));
        let sequence = self.journal.append_pieces(reservation, kind, payload);
        if goes_past_cache {
            self.past_cache.store(sequence, Ordering::Relaxed);
        }
        waiting.push(sequence, payload_bytes);
        note(sequence);
        Ok(Ok(sequence))
    }

    /// An empty spool takes an entry of any size.
    fn check_room(&self, waiting: &WaitingBytes, payload_bytes: usize) -> Result<(), SpoolRefusal> {
        let (waiting_bytes, allowed_bytes) = (waiting.bytes(), self.size_bytes_max);
        if waiting_bytes > 0 && waiting_bytes + payload_bytes as u64 > allowed_bytes {
            return Err(SpoolRefusal::Waiting { waiting_bytes, allowed_bytes });
        }
        Ok(())
    }

    /// How many entries wait, and their bytes.
    #[must_use]
    pub fn waiting(&self) -> (u64, u64) {
        let waiting = lock(&self.waiting);
        (waiting.entries.len() as u64, waiting.bytes())
    }

    /// Tells that entries up to `sequence` wait no more: they count no more against the limit.
    pub fn settle(&self, sequence: u64) {
        lock(&self.waiting).forget(sequence);
    }

    /// Whether [`Spool::done`] would remove a segment.
    #[must_use]
    pub fn is_removable(&self, sequence: u64) -> bool {
        self.journal.is_removable(sequence)
    }

    /// Tells that all entries up to `sequence` are done with, durably: they wait no more, and
    /// segments that have no others are removed. Gives how many those were.
    ///
    /// # Errors
    ///
    /// Whatever the system reports of a removal; a later call goes on where this one ended.
    pub fn done(&self, sequence: u64) -> Result<usize, StoreError> {
        lock(&self.waiting).forget(sequence);
        self.journal.remove_before(sequence)
    }

    /// See [`Journal::durable_sequence`].
    #[must_use]
    pub fn durable_sequence(&self) -> u64 {
        self.journal.durable_sequence()
    }

    /// The highest sequence that is on stable storage, whatever the policy: one atomic load.
    #[must_use]
    pub fn synced_sequence(&self) -> u64 {
        self.journal.synced_sequence()
    }

    /// See [`Journal::wait_durable`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn wait_durable(&self, sequence: u64) -> Result<(), StoreError> {
        self.journal.wait_durable(sequence)
    }

    /// See [`Journal::sync`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn sync(&self) -> Result<u64, StoreError> {
        self.journal.sync()
    }

    /// See [`Journal::on_progress`].
    pub fn on_progress(&self, wake: Box<dyn Fn() + Send + Sync>) {
        self.journal.on_progress(wake);
    }

    /// See [`Journal::poisoned`].
    #[must_use]
    pub fn poisoned(&self) -> Option<String> {
        self.journal.poisoned()
    }

    /// See [`Journal::full`].
    #[must_use]
    pub fn full(&self) -> Option<String> {
        self.journal.full()
    }

    /// See [`Journal::stats`].
    #[must_use]
    pub fn stats(&self) -> JournalStats {
        self.journal.stats()
    }

    /// See [`Journal::roll`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn roll(&self) -> Result<u64, StoreError> {
        self.journal.roll()
    }

    /// See [`Journal::close`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn close(&self) -> Result<(), StoreError> {
        self.journal.close()?;
        // Everything that may be acknowledged is on the disk: no number is passed over.
        let mut waiting = lock(&self.waiting);
        let last = self.journal.synced_sequence();
        if waiting.reserved > last {
            reserved::write(&*self.storage, last)?;
            waiting.reserved = last;
        }
        Ok(())
    }
}

/// Appends an entry of [`LOST_KIND`] for each number that may have been given away and has none.
fn fill_gap(
    journal: &Journal,
    waiting: &mut WaitingBytes,
    each: &mut dyn FnMut(Entry<'_>) -> Result<(), String>,
) -> Result<(), StoreError> {
    if waiting.last >= waiting.reserved {
        return Ok(());
    }
    while waiting.last < waiting.reserved {
        let sequence = journal.append(journal.reserve(0)?, LOST_KIND, &[]);
        waiting.push(sequence, 0);
        let lost = Entry { sequence, kind: LOST_KIND, payload: &[] };
        each(lost).map_err(|reason| StoreError::refused("the spool", 0, &reason))?;
    }
    journal.sync()?;
    Ok(())
}
