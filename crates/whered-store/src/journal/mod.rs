//! The journal: entries from many threads, written in groups by one thread.
//!
//! For: making numbered entries durable and getting them back. Not for: their meaning; snapshots;
//! knowing which entries nobody needs any more ([`Journal::remove_before`] is told).
//!
//! ```text
//!   worker: reserve ──> (engine applies) ──> append ──> go on; the reply is held back
//!                                              │ one copy under a short mutex
//!   Intake:                [ group being filled ]
//!                                              │ taken as a whole
//!   journal thread:        checksums, one write, one fdatasync ──> durable_sequence ──> wakers
//! ```
//!
//! | file | thing |
//! | --- | --- |
//! | `frame.rs` | bytes of a frame and of the mark before each group |
//! | `segment.rs` | name and header of a segment |
//! | `segments.rs` | which segments there are; removing old ones |
//! | `spare.rs` | preallocated space |
//! | `reuse.rs` | space of removed segments |
//! | `group.rs` | a group's bytes in memory |
//! | `full.rs` | a disk without room |
//! | `intake.rs` | memory side: reservations and groups |
//! | `writer.rs` | disk side: positions, syncs, change of segment |
//! | `load.rs` | finding segments and reading them |
//! | `recovery.rs` | what a new process finds; the rule for torn tails and damage |
//! | `examine.rs` | what a repair sees |
//! | `core.rs` | opening; the journal without a thread |
//! | `thread.rs` | the journal thread and what it shares with the callers |
//!
//! Invariants: sequences of a data directory start at 1 and are consecutive; an entry's space is
//! allocated before its append; nothing is written after an error. Concurrency: every method may be
//! called from every thread. Cost: `reserve` and `append` take one short mutex each, `append` one
//! copy of the payload; `durable_sequence` is one atomic load.

mod core;
pub(crate) mod examine;
pub(crate) mod frame;
mod full;
mod group;
mod intake;
pub(crate) mod load;
mod options;
pub(crate) mod recovery;
mod reuse;
pub(crate) mod segment;
mod segments;
pub(crate) mod spare;
mod thread;
pub(crate) mod writer;

pub use self::core::JournalCore;
pub use frame::{Entry, KIND_MAX, PAYLOAD_SIZE_BYTES_MAX};
pub use options::{JournalOptions, JournalStats, SyncPolicy};
pub use recovery::{RecoveryReport, TornTail, Wanted};
pub use segment::{SEGMENT_SIZE_BYTES_MAX, SEGMENT_SIZE_BYTES_MIN};

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use self::core::{Parts, charge};
use self::frame::Payload;
use crate::error::StoreError;
use crate::storage::Storage;
use crate::sys::use_short_time_slices;
pub(crate) use thread::lock as thread_lock;
use thread::{Shared, lock};

/// A journal that is open for writing; used from many threads behind a reference or an `Arc`.
///
/// See the crate's example. Dropping it closes it; [`Journal::close`] also tells of errors.
pub struct Journal {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Allocated space for what will be appended; dropping it gives the space back.
#[must_use = "a reservation that is dropped at once reserves nothing"]
pub struct Reservation<'a> {
    shared: &'a Shared,
    /// Zero when it was used.
    charge_bytes: u64,
}

impl Journal {
    /// Opens the journal, hands every wanted entry to `replay` in order, and starts the journal
    /// thread.
    ///
    /// When this returns an error, nothing was written (unless the error is one of writing itself).
    ///
    /// # Errors
    ///
    /// Damage, with file and byte ([`StoreError::is_damaged`]), which includes wanted entries that
    /// are missing; a file that is not ours or is from a newer version; an error text of `replay`;
    /// no space for a first segment; whatever the system reports.
    pub fn open(
        storage: Arc<dyn Storage>,
        options: JournalOptions,
        wanted: Wanted,
        replay: &mut dyn FnMut(Entry<'_>) -> Result<(), String>,
    ) -> Result<(Journal, RecoveryReport), StoreError> {
        let (parts, report) = Parts::open(storage, &options, wanted, replay)?;
        let Parts { intake, writer, spares, segments } = parts;
        let shared = Arc::new(Shared::new(options, intake, spares, segments));
        let for_thread = Arc::clone(&shared);
        let handle = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || {
                // With turns of the usual length it works as well, and acknowledgements wait
                // longer.
                let _ = use_short_time_slices();
                thread::run(&for_thread, writer);
            })
            .map_err(|error| StoreError::io("cannot start the journal thread", &error))?;
        Ok((Journal { shared, thread: Mutex::new(Some(handle)) }, report))
    }

    /// Reads what [`Journal::open`] reads, and changes nothing: what this refuses, that does.
    ///
    /// # Errors
    ///
    /// As [`Journal::open`], but for those of writing.
    pub fn examine(
        storage: &dyn Storage,
        wanted: Wanted,
        replay: &mut dyn FnMut(Entry<'_>) -> Result<(), String>,
    ) -> Result<(), StoreError> {
        load::refuse_incomplete(storage)?;
        recovery::recover(storage, wanted, replay).map(drop)
    }

    /// Reads the headers of the segments alone: while another process writes them, too.
    ///
    /// # Errors
    ///
    /// A segment of a newer version ([`StoreError::is_newer`]); whatever the system reports.
    pub fn check_versions(storage: &dyn Storage) -> Result<(), StoreError> {
        for first_sequence in load::list(storage)?.0 {
            let name = segment::segment_name(first_sequence);
            let path = storage.describe(&name);
            // One that is gone meanwhile was no longer needed.
            let Ok(file) = storage.open(&name, false) else { continue };
            let mut header = [0; segment::HEADER_USED_BYTES];
            if file.read_at(0, &mut header).is_ok()
                && let Err(error) = segment::SegmentHeader::decode(&header, &path)
                && error.is_newer()
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Reserves space for one entry with a payload of up to this size.
    ///
    /// The space is allocated on disk when this returns, so that the append cannot fail for lack of
    /// it. Waits while more than [`JournalOptions::group_size_bytes_max`] waits for the disk, and
    /// while another segment is allocated.
    ///
    /// # Errors
    ///
    /// No space ([`StoreError::is_full`]: a later call tries again), poisoned, too large, closed.
    pub fn reserve(&self, payload_size_bytes: usize) -> Result<Reservation<'_>, StoreError> {
        self.reserve_batch(1, payload_size_bytes)
    }

    /// Reserves space for up to `frames` entries with payloads of up to this size together.
    ///
    /// # Errors
    ///
    /// As [`Journal::reserve`]; too large when the payloads together are more than
    /// [`PAYLOAD_SIZE_BYTES_MAX`].
    pub fn reserve_batch(
        &self,
        frames: usize,
        payload_size_bytes: usize,
    ) -> Result<Reservation<'_>, StoreError> {
        let charge_bytes = charge(frames, payload_size_bytes)?;
        self.shared.reserve(charge_bytes)?;
        Ok(Reservation { shared: &self.shared, charge_bytes })
    }

    /// Appends an entry; returns its sequence. The caller holds its own lock around this and its
    /// change of memory where the order of the two must agree with others.
    ///
    /// # Panics
    ///
    /// When the payload is larger than reserved, the kind is above [`KIND_MAX`], or the reservation
    /// is another journal's. The reservation is given back then and nothing is appended.
    pub fn append(&self, reservation: Reservation<'_>, kind: u16, payload: &[u8]) -> u64 {
        self.append_pieces(reservation, kind, &[payload])
    }

    /// As [`Journal::append`], of a payload that lies in pieces.
    pub(crate) fn append_pieces(
        &self,
        reservation: Reservation<'_>,
        kind: u16,
        payload: Payload<'_>,
    ) -> u64 {
        self.append_frames(reservation, std::iter::once((kind, payload)))
    }

    /// Appends entries (kind and payload each) with consecutive sequences into one group; returns
    /// the last one's sequence. Without entries: the sequence of whatever was appended last.
    ///
    /// # Panics
    ///
    /// As [`Journal::append`].
    pub fn append_batch(&self, reservation: Reservation<'_>, entries: &[(u16, &[u8])]) -> u64 {
        self.append_frames(
            reservation,
            entries.iter().map(|(kind, payload)| (*kind, std::slice::from_ref(payload))),
        )
    }

    fn append_frames<'a>(
        &self,
        mut reservation: Reservation<'_>,
        frames: impl ExactSizeIterator<Item = (u16, Payload<'a>)> + Clone,
    ) -> u64 {
        let same = std::ptr::eq(reservation.shared, &*self.shared);
        assert!(same, "the reservation is of another journal");
        let sequence = self.shared.append(reservation.charge_bytes, frames);
        reservation.charge_bytes = 0;
        sequence
    }

    /// From now on groups of at least this size go to the disk without a copy in the system's
    /// memory, as what will not be read for a while; where the file system can do that, and where
    /// each group is synced, so that the thread waits for the disk anyway. `None` ends it.
    pub(crate) fn set_past_cache(&self, from_bytes: Option<usize>) {
        self.shared.set_past_cache(from_bytes);
    }

    /// The highest sequence that may be acknowledged: one atomic load.
    ///
    /// With [`SyncPolicy::Always`] all up to it is on stable storage; with the others it is the
    /// sequence that was appended last.
    #[must_use]
    pub fn durable_sequence(&self) -> u64 {
        self.shared.durable_sequence()
    }

    /// Waits until the sequence may be acknowledged.
    ///
    /// # Errors
    ///
    /// The journal was poisoned or closed before that; the entry may or may not be on the disk.
    pub fn wait_durable(&self, sequence: u64) -> Result<(), StoreError> {
        self.shared.wait_durable(sequence)
    }

    /// Waits until everything appended so far is on stable storage, whatever the sync policy;
    /// returns the sequence up to which that is so. A snapshot needs this before it is finished.
    ///
    /// # Errors
    ///
    /// As [`Journal::wait_durable`].
    pub fn sync(&self) -> Result<u64, StoreError> {
        self.shared.sync()
    }

    /// Begins a new segment, so that the ones before are never written again (a backup may link
    /// them); waits until it is begun and everything before is on stable storage. Returns the new
    /// segment's first sequence. Does nothing when the present segment has no entries.
    ///
    /// # Errors
    ///
    /// No space for another segment; as [`Journal::wait_durable`].
    pub fn roll(&self) -> Result<u64, StoreError> {
        self.shared.roll()
    }

    /// Removes the segments that hold only entries up to `sequence`, durably, the oldest first;
    /// returns how many. The segment being written always stays. Costs two waits for the disk for
    /// each, in the caller's thread; appends go on meanwhile.
    ///
    /// # Errors
    ///
    /// Whatever the system reports; a later call goes on where this one ended.
    pub fn remove_before(&self, sequence: u64) -> Result<usize, StoreError> {
        self.shared.segments.remove_before(sequence)
    }

    /// Whether there is a segment that holds only entries up to `sequence` and is not being
    /// written.
    pub(crate) fn is_removable(&self, sequence: u64) -> bool {
        self.shared.segments.oldest_before(sequence).is_some()
    }

    /// The highest sequence that is on stable storage, whatever the policy: one atomic load.
    #[must_use]
    pub fn synced_sequence(&self) -> u64 {
        self.shared.synced_sequence()
    }

    /// The first sequence of the segment that has this entry, or could have it next.
    pub(crate) fn segment_holding(&self, sequence: u64) -> Option<u64> {
        self.shared.segments.holding(sequence)
    }

    /// Adds a function that the journal thread calls after each group became durable, and when the
    /// journal is poisoned. It should only wake somebody; it must not call `on_progress` or
    /// `close`.
    pub fn on_progress(&self, wake: Box<dyn Fn() + Send + Sync>) {
        self.shared.add_waker(wake);
    }

    /// The error after which the journal takes no writes until a restart, if there was one.
    #[must_use]
    pub fn poisoned(&self) -> Option<String> {
        self.shared.poisoned()
    }

    /// Why the disk (or a quota) has no room for what is to be reserved, from the first refusal on
    /// until a segment could be allocated again, which is tried each second. One atomic load where
    /// there is room.
    #[must_use]
    pub fn full(&self) -> Option<String> {
        self.shared.full()
    }

    /// Statistics since the journal was opened.
    #[must_use]
    pub fn stats(&self) -> JournalStats {
        self.shared.stats()
    }

    /// Writes and syncs everything, marks the clean end and ends the journal thread. Waits a short
    /// time for reservations of other threads to be used; what is appended later is not written and
    /// never acknowledged. A second call does nothing.
    ///
    /// # Errors
    ///
    /// The journal is poisoned: not everything could be written.
    pub fn close(&self) -> Result<(), StoreError> {
        self.shared.start_closing();
        if let Some(handle) = lock(&self.thread).take() {
            // A panic of the journal thread has poisoned the journal, which is reported below.
            let _ = handle.join();
        }
        match self.poisoned() {
            Some(reason) => Err(StoreError::poisoned(&reason)),
            None => Ok(()),
        }
    }
}

/// A reservation without a borrow of the journal, for callers that collect several changes into one
/// entry.
///
/// It does not give itself back: [`Journal::attach`] must get it sooner or later, or the room stays
/// reserved until the journal is closed.
#[derive(Debug)]
#[must_use]
pub struct DetachedReservation {
    charge_bytes: u64,
}

impl Reservation<'_> {
    /// The room without the borrow of its journal.
    pub fn detach(mut self) -> DetachedReservation {
        DetachedReservation { charge_bytes: std::mem::take(&mut self.charge_bytes) }
    }
}

impl Journal {
    /// Takes room back that was detached from a reservation of this journal.
    #[expect(clippy::needless_pass_by_value, reason = "room is taken back once: it must be gone")]
    pub fn attach(&self, room: DetachedReservation) -> Reservation<'_> {
        let DetachedReservation { charge_bytes } = room;
        Reservation { shared: &self.shared, charge_bytes }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Nobody is there to hear of an error; the next recovery will find out.
        let _ = self.close();
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.charge_bytes > 0 {
            self.shared.release(self.charge_bytes);
        }
    }
}
