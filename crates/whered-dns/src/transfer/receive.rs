//! Takes a transfer, message by message, and says what it brings (RFC 5936 and 1995).
//!
//! For: AXFR, and IXFR in each of its three forms. Not for: sockets and times (the caller's), the
//! zone that comes of it (`Zone::from_records`, `Zone::patched`).
//!
//! ```text
//! AXFR              SOA new | records of the zone ... | SOA new
//! IXFR, changes     SOA new | SOA old, removed ... SOA next, added ... | ... | SOA new
//! IXFR, whole       as AXFR
//! IXFR, nothing     SOA, not newer than the serial that was asked with
//! ```
//!
//! Invariants: one id, one question, class IN; every owner is in the zone; serials rise from the
//! one that was asked with to the one that the first SOA tells; nothing follows the closing SOA.
//! Cost: linear; memory is bounded by [`Request::size_max_bytes`].
#![deny(clippy::indexing_slicing)]

use std::fmt;

use super::tsig::{AnswerVerifier, TsigError};
use super::wire::{Header, WireReader};
use crate::code::{Rcode, RecordType};
use crate::name::Name;
use crate::zone::rdata;
use crate::{Difference, ZoneRecord};

/// What a record takes beside its owner and its data.
const RECORD_SIZE: usize = 64;

/// What was asked for.
#[derive(Debug)]
pub struct Request {
    /// The zone.
    pub origin: Name,
    /// The id of the query.
    pub id: u16,
    /// The serial that IXFR was asked with; none for AXFR.
    pub serial: Option<u32>,
    /// The most that the records may take, names written out, each with 64 bytes beside them.
    pub size_max_bytes: usize,
    /// What verifies signatures, where the query was signed.
    pub verifier: Option<AnswerVerifier>,
}

/// What a transfer brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transfer {
    /// The zone has no newer serial than the one that was asked with.
    UpToDate {
        /// The serial that it has.
        serial: u32,
    },
    /// All records, the SOA first.
    Whole(Vec<ZoneRecord>),
    /// Changes, the oldest first.
    Changes(Vec<Difference>),
}

/// How far a transfer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// More messages must come.
    More,
    /// It is whole.
    Complete(Transfer),
}

/// Why a transfer counts for nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferError {
    /// The other server answers with an error.
    Refused(Rcode),
    /// A signature.
    Tsig(TsigError),
    /// Bytes that are no message.
    NoMessage,
    /// Something else than was asked for: what was found, what is allowed.
    Wrong(String, &'static str),
    /// More than the limit, in bytes.
    TooLarge(usize),
    /// It was complete before.
    Over,
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransferError::Refused(rcode) => write!(f, "the answer {rcode}"),
            TransferError::Tsig(error) => error.fmt(f),
            TransferError::NoMessage => f.write_str("bytes that are no whole DNS message"),
            TransferError::Wrong(found, allowed) => write!(f, "{found}; allowed: {allowed}"),
            TransferError::TooLarge(most) => {
                write!(f, "more than {most} bytes of records; transfer_size_max allows no more")
            }
            TransferError::Over => f.write_str("a message behind the end of the transfer"),
        }
    }
}

impl std::error::Error for TransferError {}

fn wrong<T>(found: impl Into<String>, allowed: &'static str) -> Result<T, TransferError> {
    Err(TransferError::Wrong(found.into(), allowed))
}

/// Where in the sequence of records a transfer is.
#[derive(Debug)]
enum State {
    /// Nothing has come.
    Start,
    /// The first SOA has come; what follows tells the form.
    Opened,
    /// Records of the whole zone, the SOA first.
    Whole(Vec<ZoneRecord>),
    /// What a difference removes.
    Removed(Vec<Difference>, Difference),
    /// What it adds.
    Added(Vec<Difference>, Difference),
    Over,
}

/// Takes the messages of one transfer.
///
/// ```
/// use whered_dns::transfer::{Progress, Receiver, Request, Transfer, Sender, query};
/// use whered_dns::Zone;
/// let text = b"@ 60 IN SOA ns hostmaster 7 1d 2h 4w 5m\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
/// let origin: whered_dns::Name = "example.com".parse()?;
/// let zone = Zone::from_master_file(&origin, text, &mut |_| Err("no".into()))?;
/// let mut sender = Sender::whole(zone.origin(), 7, zone.records());
/// let mut receiver = Receiver::new(Request {
///     origin: origin.clone(),
///     id: 7,
///     serial: None,
///     size_max_bytes: 1 << 20,
///     verifier: None,
/// });
/// let message = sender.next_message(None, 0)?.unwrap();
/// match receiver.take(&message, 0)? {
///     Progress::Complete(Transfer::Whole(records)) => assert!(zone.records().eq(records)),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Receiver {
    request: Request,
    state: State,
    /// The SOA that the transfer leads to.
    newest: Option<ZoneRecord>,
    size_bytes: usize,
}

impl Receiver {
    /// Waits for the first message.
    #[must_use]
    pub fn new(request: Request) -> Receiver {
        Receiver { request, state: State::Start, newest: None, size_bytes: 0 }
    }

    /// The serial of the first SOA, once it has come.
    #[must_use]
    pub fn newest_serial(&self) -> Option<u32> {
        self.newest.as_ref().map(serial_of)
    }

    /// Takes the next message. `now_seconds` is Unix time, for signatures.
    ///
    /// # Errors
    ///
    /// The transfer counts for nothing.
    pub fn take(&mut self, message: &[u8], now_seconds: u64) -> Result<Progress, TransferError> {
        let verified;
        let message = match &mut self.request.verifier {
            None => message,
            Some(verifier) => {
                verified = verifier.verify(message, now_seconds).map_err(TransferError::Tsig)?;
                &verified
            }
        };
        let complete = self.take_records(message)?;
        let is_settled = self.request.verifier.as_ref().is_none_or(AnswerVerifier::is_settled);
        match complete {
            Some(transfer) if is_settled => Ok(Progress::Complete(transfer)),
            // The last message must be signed.
            Some(_) => Err(TransferError::Tsig(TsigError::Missing)),
            None => Ok(Progress::More),
        }
    }

    fn take_records(&mut self, message: &[u8]) -> Result<Option<Transfer>, TransferError> {
        let header = Header::read(message).ok_or(TransferError::NoMessage)?;
        self.check_header(&header)?;
        let mut reader = WireReader::new(message);
        for _ in 0..header.question_count {
            let question = reader.question().ok_or(TransferError::NoMessage)?;
            self.check_question(question)?;
        }
        let is_first = matches!(self.state, State::Start);
        if is_first && header.question_count > 1 {
            return wrong("several questions", "one");
        }
        if header.answer_count == 0 {
            return wrong("a message without records", "records of the zone until the closing SOA");
        }
        let mut complete = None;
        for _ in 0..header.answer_count {
            let raw = reader.raw_record().ok_or(TransferError::NoMessage)?;
            let data = reader.expand(&raw).ok_or(TransferError::NoMessage)?;
            if complete.is_some() {
                return Err(TransferError::Over);
            }
            if raw.class != 1 {
                return wrong(format!("a record of class {} at {}", raw.class, raw.owner), "IN");
            }
            if !raw.owner.is_within(&self.request.origin) {
                let found = format!("a record of {}, which is outside of the zone", raw.owner);
                return wrong(found, "names at and below the zone's");
            }
            let (owner, record_type) = (raw.owner, raw.record_type);
            if let Err(allowed) = rdata::check(record_type, &data) {
                return wrong(format!("{record_type} of {owner} with other data"), allowed);
            }
            let data = data.into_boxed_slice();
            let record = ZoneRecord { owner, record_type, ttl_seconds: raw.ttl_seconds, data };
            self.size_bytes += record.owner.as_wire().len() + record.data.len() + RECORD_SIZE;
            if self.size_bytes > self.request.size_max_bytes {
                return Err(TransferError::TooLarge(self.request.size_max_bytes));
            }
            complete = self.take_record(record)?;
        }
        // What follows (OPT, or records that nobody asked for) is no part of it.
        for _ in 0..u32::from(header.authority_count) + u32::from(header.additional_count) {
            reader.raw_record().ok_or(TransferError::NoMessage)?;
        }
        if !reader.is_at_end() {
            return Err(TransferError::NoMessage);
        }
        match complete {
            None if matches!(self.state, State::Opened) && is_first => self.only_soa(),
            complete => Ok(complete),
        }
    }

    fn check_header(&self, header: &Header) -> Result<(), TransferError> {
        if matches!(self.state, State::Over) {
            return Err(TransferError::Over);
        }
        if header.id != self.request.id {
            let found = format!("a message with the id {}", header.id);
            return wrong(found, "the id of the query");
        }
        if !header.is_response() || header.opcode() != 0 {
            return wrong("a message that is no answer", "answers to the query");
        }
        match header.flags & 15 {
            0 => {}
            rcode => return Err(TransferError::Refused(Rcode(rcode))),
        }
        match header.flags & 0x0200 {
            0 => Ok(()),
            _ => wrong("a message cut short (TC)", "whole messages"),
        }
    }

    fn check_question(
        &self,
        (name, record_type, class): (Name, RecordType, u16),
    ) -> Result<(), TransferError> {
        let wanted = match self.request.serial {
            None => RecordType::AXFR,
            Some(_) => RecordType::IXFR,
        };
        if name != self.request.origin {
            return wrong(format!("the question of another zone, {name}"), "that of the query");
        }
        if record_type != wanted || class != 1 {
            let found = format!("the question {record_type} of class {class}");
            return wrong(found, "that of the query");
        }
        Ok(())
    }

    /// A first message that has nothing but a SOA.
    fn only_soa(&mut self) -> Result<Option<Transfer>, TransferError> {
        let (Some(asked), Some(serial)) = (self.request.serial, self.newest_serial()) else {
            return Ok(None);
        };
        if is_newer(serial, asked) {
            // The records come in later messages.
            return Ok(None);
        }
        self.state = State::Over;
        Ok(Some(Transfer::UpToDate { serial }))
    }

    fn take_record(&mut self, record: ZoneRecord) -> Result<Option<Transfer>, TransferError> {
        let is_soa = record.record_type == RecordType::SOA;
        if is_soa && record.owner != self.request.origin {
            return wrong(format!("a SOA of {}", record.owner), "the SOA of the zone");
        }
        match std::mem::replace(&mut self.state, State::Over) {
            State::Start => {
                if !is_soa {
                    let found = format!("{} of {} first", record.record_type, record.owner);
                    return wrong(found, "the zone's SOA first");
                }
                self.newest = Some(record);
                self.state = State::Opened;
                Ok(None)
            }
            State::Opened => self.second(record, is_soa),
            State::Whole(mut records) => {
                if !is_soa {
                    records.push(record);
                    self.state = State::Whole(records);
                    return Ok(None);
                }
                self.check_closing(&record)?;
                Ok(Some(Transfer::Whole(records)))
            }
            State::Removed(done, mut change) => {
                if !is_soa {
                    change.removed.push(record);
                    self.state = State::Removed(done, change);
                    return Ok(None);
                }
                change.to_serial = serial_of(&record);
                let newest = self.newest_serial().unwrap_or_default();
                let is_within = change.to_serial == newest || is_newer(newest, change.to_serial);
                if !is_newer(change.to_serial, change.from_serial) || !is_within {
                    let Difference { from_serial, to_serial, .. } = change;
                    let found = format!("changes from the serial {from_serial} to {to_serial}");
                    return wrong(found, "serials that rise to that of the first SOA");
                }
                change.added.push(record);
                self.state = State::Added(done, change);
                Ok(None)
            }
            State::Added(mut done, mut change) => {
                if !is_soa {
                    change.added.push(record);
                    self.state = State::Added(done, change);
                    return Ok(None);
                }
                let reached = change.to_serial;
                done.push(change);
                if Some(reached) == self.newest_serial() {
                    self.check_closing(&record)?;
                    return Ok(Some(Transfer::Changes(done)));
                }
                let change = self.begin_change(record, reached)?;
                self.state = State::Removed(done, change);
                Ok(None)
            }
            State::Over => Err(TransferError::Over),
        }
    }

    /// The record behind the first SOA tells the form.
    fn second(
        &mut self,
        record: ZoneRecord,
        is_soa: bool,
    ) -> Result<Option<Transfer>, TransferError> {
        let asked = self.request.serial;
        if !is_soa {
            let mut records: Vec<ZoneRecord> = self.newest.iter().cloned().collect();
            records.push(record);
            self.state = State::Whole(records);
            return Ok(None);
        }
        let Some(asked) = asked else {
            return wrong("a zone that has nothing but its SOA", "a zone with NS");
        };
        if self.newest_serial().is_none_or(|newest| !is_newer(newest, asked)) {
            return wrong(
                "changes to a serial that is no newer",
                "a newer serial, or the SOA alone",
            );
        }
        let change = self.begin_change(record, asked)?;
        self.state = State::Removed(Vec::new(), change);
        Ok(None)
    }

    fn begin_change(&self, soa: ZoneRecord, serial: u32) -> Result<Difference, TransferError> {
        let from_serial = serial_of(&soa);
        if from_serial != serial {
            let found = format!("changes of the serial {from_serial} where {serial} was reached");
            return wrong(found, "changes that follow each other");
        }
        Ok(Difference { from_serial, to_serial: 0, removed: vec![soa], added: Vec::new() })
    }

    fn check_closing(&self, soa: &ZoneRecord) -> Result<(), TransferError> {
        match &self.newest {
            Some(newest) if serial_of(newest) == serial_of(soa) => Ok(()),
            newest => {
                let first = newest.as_ref().map_or(0, serial_of);
                let found = format!("a closing SOA of serial {}, not {first}", serial_of(soa));
                wrong(found, "the first SOA once more")
            }
        }
    }
}

/// The serial of a SOA, whose data were checked.
pub(crate) fn serial_of(soa: &ZoneRecord) -> u32 {
    let tail: Option<&[u8; 20]> = soa.data.last_chunk();
    tail.and_then(|tail| tail.first_chunk()).map_or(0, |serial| u32::from_be_bytes(*serial))
}

/// Whether one serial is newer than another (RFC 1982). Of two that are 2^31 apart, neither is.
#[must_use]
pub fn is_newer(serial: u32, than: u32) -> bool {
    let distance = serial.wrapping_sub(than);
    distance != 0 && distance < 1 << 31
}

#[cfg(test)]
#[path = "receive_tests.rs"]
mod tests;
