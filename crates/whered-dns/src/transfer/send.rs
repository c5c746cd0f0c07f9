//! Makes the messages of a transfer, one when it is asked for.
//!
//! For: AXFR, IXFR, and the SOA alone. Not for: who may have them, sockets.
//!
//! Cost: linear; one message of at most 64 KiB is held at a time.
#![deny(clippy::indexing_slicing)]

use std::fmt;
use std::iter::Peekable;
use std::sync::Arc;

use super::tsig::AnswerSigner;
use super::wire::{Header, MESSAGE_SIZE_MAX, MessageWriter};
use crate::code::RecordType;
use crate::name::Name;
use crate::{Difference, ZoneRecord};

/// QR and AA.
const ANSWER_FLAGS: u16 = 0x8400;

/// A record that no message holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordTooLarge {
    owner: Name,
    record_type: RecordType,
}

impl fmt::Display for RecordTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecordTooLarge { owner, record_type } = self;
        write!(f, "{record_type} of {owner} is larger than a message of a transfer (64 KiB)")
    }
}

impl std::error::Error for RecordTooLarge {}

/// The messages of one transfer.
pub struct Sender<'z> {
    origin: Name,
    id: u16,
    question_type: RecordType,
    size_max: usize,
    records: Peekable<Box<dyn Iterator<Item = ZoneRecord> + 'z>>,
}

impl fmt::Debug for Sender<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl<'z> Sender<'z> {
    /// The whole zone, of records that begin with the SOA; an answer to AXFR.
    #[must_use]
    pub fn whole(
        origin: &Name,
        id: u16,
        records: impl Iterator<Item = ZoneRecord> + 'z,
    ) -> Sender<'z> {
        let mut soa = None;
        let mut records = records;
        let first = records.next();
        soa.clone_from(&first);
        let all = first.into_iter().chain(records).chain(soa);
        Sender::new(origin, id, RecordType::AXFR, Box::new(all))
    }

    /// The changes from the oldest to the newest; an answer to IXFR.
    #[must_use]
    pub fn changes(origin: &Name, id: u16, changes: Vec<Arc<Difference>>) -> Sender<'z> {
        let newest = changes.last().and_then(|change| change.added.first()).cloned();
        let records = changes.into_iter().flat_map(|change| {
            let removed = change.removed.len();
            (0..removed + change.added.len()).filter_map(move |index| {
                let added = || change.added.get(index - removed);
                change.removed.get(index).or_else(added).cloned()
            })
        });
        let all = newest.clone().into_iter().chain(records).chain(newest);
        Sender::new(origin, id, RecordType::IXFR, Box::new(all))
    }

    /// The SOA alone: nothing is newer, or a datagram has no room for what is.
    #[must_use]
    pub fn soa(origin: &Name, id: u16, soa: ZoneRecord) -> Sender<'z> {
        Sender::new(origin, id, RecordType::IXFR, Box::new(std::iter::once(soa)))
    }

    /// Makes it an answer to IXFR, which a whole zone may be, too.
    #[must_use]
    pub fn of_incremental(self) -> Sender<'z> {
        Sender { question_type: RecordType::IXFR, ..self }
    }

    /// With messages of at most this size, signature included.
    #[must_use]
    pub fn size_max(self, size_max: usize) -> Sender<'z> {
        Sender { size_max: size_max.min(MESSAGE_SIZE_MAX), ..self }
    }

    fn new(
        origin: &Name,
        id: u16,
        question_type: RecordType,
        records: Box<dyn Iterator<Item = ZoneRecord> + 'z>,
    ) -> Sender<'z> {
        let (origin, size_max) = (origin.clone(), MESSAGE_SIZE_MAX);
        Sender { origin, id, question_type, size_max, records: records.peekable() }
    }

    /// The next message; none behind the last.
    ///
    /// # Errors
    ///
    /// A record that no message holds; the transfer ends there.
    pub fn next_message(
        &mut self,
        signer: Option<&mut AnswerSigner>,
        now_seconds: u64,
    ) -> Result<Option<Vec<u8>>, RecordTooLarge> {
        if self.records.peek().is_none() {
            return Ok(None);
        }
        let signature_size = signer.as_ref().map_or(0, |signer| signer.signature_size());
        let header = Header {
            id: self.id,
            flags: ANSWER_FLAGS,
            question_count: 1,
            answer_count: 0,
            authority_count: 0,
            additional_count: 0,
        };
        let size_max = self.size_max.saturating_sub(signature_size);
        let mut writer = MessageWriter::new(header, &self.origin, self.question_type, size_max);
        while let Some(record) = self.records.peek() {
            let ZoneRecord { owner, record_type, ttl_seconds, data } = record;
            if !writer.put(owner, *record_type, *ttl_seconds, data) {
                if writer.record_count == 0 {
                    let (owner, record_type) = (owner.clone(), *record_type);
                    return Err(RecordTooLarge { owner, record_type });
                }
                break;
            }
            self.records.next();
        }
        let mut message = writer.finish();
        if let Some(signer) = signer {
            signer.sign(&mut message, now_seconds);
        }
        Ok(Some(message))
    }

    /// Whether the last message was made.
    pub fn is_over(&mut self) -> bool {
        self.records.peek().is_none()
    }
}
