//! The engine's side of the journal: room is reserved, the operation is applied and appended
//! under the owner's lock, and the writer gets a ticket to wait on.
//!
//! Not for: what operations mean (`operation`), files and groups (`whered-store`).
//!
//! ```text
//!  reserve ──> lock of the thing ──> apply ──> append ──> unlock ──> Ticket(sequence)
//!     │                                                                 │
//!     └── full disk: refused here, nothing applied      reply held until it is durable
//! ```
//!
//! Invariants: an operation is appended under the same lock that it was applied under, so that
//! the journal's order is the order of effects wherever two operations touch the same thing.
//! A write that changed nothing waits for everything that was appended before it, because its
//! reply reports a state that earlier, perhaps not yet durable, writes have made.
//!
//! Without a data directory there is no journal: every ticket is [`Ticket::NONE`].
//!
//! A batch collects what one thread appends, and becomes one entry at its end: a transaction is
//! found whole or not at all after a crash. Its owner holds the gate alone until the batch is
//! appended. Every operation passes the gate before it is applied: so none of another thread falls
//! between what a batch has applied and its entry. Feeds take no part: no command of a transaction
//! changes one.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use whered_store::{DetachedReservation, Journal, Reservation, StoreError};

use crate::error::WriteError;
use crate::journal::operation::{Operation, batch_head, batch_kind, push_to_batch};
use crate::journal::watch::Watch;
use crate::sync::{ExclusiveGate, SharedGuard};

/// Proof of a write's place in the journal; its reply is due when that place is durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Ticket(u64);

impl Ticket {
    /// Nothing to wait for.
    pub const NONE: Ticket = Ticket(0);
}

/// What has become of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// The journal's policy is met: the reply may go out.
    Durable,
    /// Its group has not been written yet.
    Pending,
    /// The journal failed before the write was durable: memory may hold it, the disk may not.
    Lost,
}

/// A write's result and the ticket its reply has to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written<T> {
    /// What the operation answered.
    pub value: T,
    /// What the reply waits for.
    pub ticket: Ticket,
}

thread_local! {
    /// The batch that this thread collects, if it does.
    static BATCH: RefCell<Option<Batch>> = const { RefCell::new(None) };
}

/// What a transaction has appended so far.
struct Batch {
    /// The address of the log that the batch belongs to.
    log: usize,
    /// Kind and payload of the only operation; a batch of one is written as that operation.
    single: Option<(u16, Vec<u8>)>,
    count: usize,
    /// The kind of the entry that all of them become.
    kind: u16,
    /// The payload of the entry that all of them become.
    payload: Vec<u8>,
    /// Room for all that was reserved so far, used or not.
    room: Option<DetachedReservation>,
    room_bytes: usize,
    /// How much of the room is for operations that have asked for it.
    used_bytes: usize,
}

/// What one operation takes in a batch beside its payload: kind and length.
const BATCHED_BYTES: usize = 6;

/// The journal, or its absence.
pub(crate) struct Log {
    journal: Option<Journal>,
    last_appended: AtomicU64,
    gate: ExclusiveGate,
    watch: Watch,
    refused: RefusedWrites,
}

/// How many writes the journal had no room for, or could not take.
#[derive(Debug, Default)]
struct RefusedWrites {
    full: AtomicU64,
    failed: AtomicU64,
    too_large: AtomicU64,
}

impl RefusedWrites {
    #[cold]
    fn note(&self, error: StoreError) -> WriteError {
        let error = WriteError::from(error);
        let count = match &error {
            WriteError::Poisoned(_) => &self.failed,
            WriteError::TooLarge(_) => &self.too_large,
            _ => &self.full,
        };
        count.fetch_add(1, Ordering::Relaxed);
        error
    }
}

impl Log {
    pub(crate) fn new(journal: Option<Journal>, last_sequence: u64) -> Log {
        Log {
            journal,
            last_appended: AtomicU64::new(last_sequence),
            gate: ExclusiveGate::default(),
            watch: Watch::default(),
            refused: RefusedWrites::default(),
        }
    }

    /// How many writes were refused, by reason.
    pub(crate) fn refused(&self) -> [(&'static str, u64); 3] {
        let RefusedWrites { full, failed, too_large } = &self.refused;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [("disk_full", of(full)), ("disk_failed", of(failed)), ("too_large", of(too_large))]
    }

    pub(crate) fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// What is collected for those who follow collections.
    #[inline]
    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The gate that every operation passes.
    #[inline]
    pub(crate) fn gate(&self) -> &ExclusiveGate {
        &self.gate
    }

    /// Room on the disk for what is no part of a transaction; taken before any lock. The caller
    /// passes the gate by itself.
    pub(crate) fn reserve(
        &self,
        payload_size_bytes: usize,
    ) -> Result<EntryReservation<'_>, WriteError> {
        let reservation = match &self.journal {
            Some(journal) => {
                let reserved = journal.reserve(payload_size_bytes);
                Some(reserved.map_err(|error| self.refused.note(error))?)
            }
            None => None,
        };
        Ok(EntryReservation { log: self, reservation, is_batched: false })
    }

    /// Room for one operation, in the batch of this thread if it collects one, and the way into the
    /// gate, to be held until the operation is appended. To be called before any lock, and by
    /// nobody inside the gate.
    pub(crate) fn enter(
        &self,
        payload_size_bytes: usize,
    ) -> Result<(SharedGuard<'_>, EntryReservation<'_>), WriteError> {
        let guard = self.gate.shared();
        let room = self.reserve_batched(payload_size_bytes)?;
        Ok((guard, room))
    }

    /// As [`Log::enter`], for a caller that has passed the gate.
    pub(crate) fn reserve_batched(
        &self,
        payload_size_bytes: usize,
    ) -> Result<EntryReservation<'_>, WriteError> {
        let Some(journal) = &self.journal else {
            return self.reserve(payload_size_bytes);
        };
        let grown = BATCH.with_borrow_mut(|batch| {
            let batch = batch.as_mut().filter(|batch| batch.log == self.address())?;
            Some(self.grow(journal, batch, payload_size_bytes))
        });
        match grown {
            None => self.reserve(payload_size_bytes),
            Some(grown) => {
                grown.map(|()| EntryReservation { log: self, reservation: None, is_batched: true })
            }
        }
    }

    /// Room for this many bytes of the operations to come in the batch of this thread.
    pub(crate) fn reserve_ahead(&self, bytes: usize) -> Result<(), WriteError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let reserved = BATCH.with_borrow_mut(|batch| {
            let batch = batch.as_mut().filter(|batch| batch.log == self.address())?;
            Some(self.widen(journal, batch, batch.used_bytes + bytes))
        });
        reserved.unwrap_or(Ok(()))
    }

    /// Room for one operation more in a batch.
    fn grow(
        &self,
        journal: &Journal,
        batch: &mut Batch,
        payload_size_bytes: usize,
    ) -> Result<(), WriteError> {
        let used_bytes = batch.used_bytes + BATCHED_BYTES + payload_size_bytes;
        if used_bytes > batch.room_bytes {
            self.widen(journal, batch, used_bytes)?;
        }
        batch.used_bytes = used_bytes;
        Ok(())
    }

    /// Reserves this much room for all of the batch, and only then gives the old room back: what is
    /// applied already keeps its room whatever happens.
    fn widen(
        &self,
        journal: &Journal,
        batch: &mut Batch,
        room_bytes: usize,
    ) -> Result<(), WriteError> {
        let larger = journal.reserve(room_bytes).map_err(|error| self.refused.note(error))?;
        if let Some(old) = batch.room.replace(larger.detach()) {
            drop(journal.attach(old));
        }
        batch.room_bytes = room_bytes;
        Ok(())
    }

    /// Collects what this thread appends, until [`Log::end_batch`].
    pub(crate) fn begin_batch(&self) {
        let payload = batch_head();
        let used_bytes = payload.len();
        let log = self.address();
        let kind = batch_kind(None);
        let (single, count, room, room_bytes) = (None, 0, None, 0);
        BATCH.set(Some(Batch { log, single, count, kind, payload, room, room_bytes, used_bytes }));
    }

    /// Appends what was collected as one entry.
    pub(crate) fn end_batch(&self) -> Ticket {
        let (Some(batch), Some(journal)) = (BATCH.take(), &self.journal) else {
            return Ticket::NONE;
        };
        let room = batch.room.map(|room| journal.attach(room));
        let (Some(room), 1..) = (room, batch.count) else {
            return self.latest();
        };
        let (kind, payload) = batch.single.unwrap_or((batch.kind, batch.payload));
        self.appended(journal.append(room, kind, &payload))
    }

    fn appended(&self, sequence: u64) -> Ticket {
        self.last_appended.fetch_max(sequence, Ordering::AcqRel);
        Ticket(sequence)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The sequence of what was appended last.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.last_appended.load(Ordering::Acquire)
    }

    /// A ticket for everything appended so far.
    pub(crate) fn latest(&self) -> Ticket {
        match &self.journal {
            Some(_) => Ticket(self.last_appended.load(Ordering::Acquire)),
            None => Ticket::NONE,
        }
    }

    pub(crate) fn durability(&self, ticket: Ticket) -> Durability {
        let Some(journal) = &self.journal else {
            return Durability::Durable;
        };
        let is_durable = || ticket.0 <= journal.durable_sequence();
        if is_durable() {
            return Durability::Durable;
        }
        match journal.poisoned() {
            None => Durability::Pending,
            // Its group may have become durable, and a later one failed, between the two looks.
            Some(_) if is_durable() => Durability::Durable,
            Some(_) => Durability::Lost,
        }
    }

    /// Whether a write is on stable storage, whatever the journal's policy; without a journal it is
    /// as good as it gets.
    pub(crate) fn is_on_disk(&self, ticket: Ticket) -> bool {
        self.journal.as_ref().is_none_or(|journal| ticket.0 <= journal.synced_sequence())
    }

    pub(crate) fn wait(&self, ticket: Ticket) -> Result<(), WriteError> {
        match &self.journal {
            Some(journal) if ticket != Ticket::NONE => Ok(journal.wait_durable(ticket.0)?),
            _ => Ok(()),
        }
    }
}

/// How much a writer that waits for no reply has appended and not seen durable. Without that its
/// entries would lie in memory for as long as the disk is slower than it.
#[derive(Clone, Debug)]
pub(crate) struct JournalLag {
    bytes: usize,
    older: Ticket,
}

/// How much such a writer appends before it waits for what it had appended before that.
const LAG_BYTES_MAX: usize = 4 << 20;

impl Default for JournalLag {
    fn default() -> JournalLag {
        JournalLag { bytes: 0, older: Ticket::NONE }
    }
}

impl JournalLag {
    /// Notes what was appended, and gives what is to be waited for now.
    pub(crate) fn note(&mut self, bytes: usize, ticket: Ticket) -> Option<Ticket> {
        self.bytes += bytes;
        if self.bytes < LAG_BYTES_MAX {
            return None;
        }
        self.bytes = 0;
        Some(std::mem::replace(&mut self.older, ticket))
    }
}

/// Reserved room; consumed by [`EntryReservation::append`], given back when dropped.
pub(crate) struct EntryReservation<'a> {
    log: &'a Log,
    reservation: Option<Reservation<'a>>,
    is_batched: bool,
}

impl EntryReservation<'_> {
    /// Appends an applied operation. The caller still holds the lock it was applied under.
    pub(crate) fn append(self, operation: &Operation<'_>) -> Ticket {
        if self.log.watch.is_followed() {
            self.log.watch.note(operation);
        }
        if self.is_batched {
            BATCH.with_borrow_mut(|batch| {
                let batch = batch.as_mut().expect("the batch outlives the rooms in it");
                batch.push(operation.kind(), operation.encode());
            });
            // The caller that ends the batch gets its ticket.
            return Ticket::NONE;
        }
        let (Some(journal), Some(reservation)) = (self.log.journal(), self.reservation) else {
            return Ticket::NONE;
        };
        let payload = operation.encode();
        self.log.appended(journal.append(reservation, operation.kind(), &payload))
    }

    /// As [`EntryReservation::append`], for a payload of a kind that is no [`Operation`].
    pub(crate) fn append_encoded(self, kind: u16, payload: &[u8]) -> Ticket {
        let (Some(journal), Some(reservation)) = (self.log.journal(), self.reservation) else {
            return Ticket::NONE;
        };
        self.log.appended(journal.append(reservation, kind, payload))
    }

    /// The operation changed nothing: the reply waits for what came before it.
    pub(crate) fn unused(self) -> Ticket {
        self.log.latest()
    }
}

impl Batch {
    fn push(&mut self, kind: u16, payload: Vec<u8>) {
        push_to_batch(&mut self.payload, kind, &payload);
        self.kind = self.kind.max(batch_kind(Some(kind)));
        self.count += 1;
        self.single = (self.count == 1).then_some((kind, payload));
    }
}
