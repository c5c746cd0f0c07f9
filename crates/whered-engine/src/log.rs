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

use std::sync::atomic::{AtomicU64, Ordering};

use whered_store::{Journal, Reservation};

use crate::error::WriteError;
use crate::operation::Operation;

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

/// The journal, or its absence.
pub(crate) struct Log {
    journal: Option<Journal>,
    last_appended: AtomicU64,
}

impl Log {
    pub(crate) fn new(journal: Option<Journal>, last_sequence: u64) -> Log {
        Log { journal, last_appended: AtomicU64::new(last_sequence) }
    }

    pub(crate) fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// Room on the disk for one operation; taken before any lock.
    pub(crate) fn reserve(&self, payload_size_bytes: usize) -> Result<Room<'_>, WriteError> {
        let reservation = match &self.journal {
            Some(journal) => Some(journal.reserve(payload_size_bytes)?),
            None => None,
        };
        Ok(Room { log: self, reservation })
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

    pub(crate) fn wait(&self, ticket: Ticket) -> Result<(), WriteError> {
        match &self.journal {
            Some(journal) if ticket != Ticket::NONE => Ok(journal.wait_durable(ticket.0)?),
            _ => Ok(()),
        }
    }
}

/// Reserved room; consumed by [`Room::append`], given back when dropped.
pub(crate) struct Room<'a> {
    log: &'a Log,
    reservation: Option<Reservation<'a>>,
}

impl Room<'_> {
    /// Appends an applied operation. The caller still holds the lock it was applied under.
    pub(crate) fn append(self, operation: &Operation<'_>) -> Ticket {
        let (Some(journal), Some(reservation)) = (self.log.journal(), self.reservation) else {
            return Ticket::NONE;
        };
        let payload = operation.encode();
        let sequence = journal.append(reservation, operation.kind(), &payload);
        self.log.last_appended.fetch_max(sequence, Ordering::AcqRel);
        Ticket(sequence)
    }

    /// The operation changed nothing: the reply waits for what came before it.
    pub(crate) fn unused(self) -> Ticket {
        self.log.latest()
    }
}
