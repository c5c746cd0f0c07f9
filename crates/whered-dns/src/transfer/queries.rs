//! Queries that servers of one zone send each other: SOA, AXFR, IXFR, NOTIFY (RFC 1996); and what
//! such queries and their answers say.
//!
//! Not for: signatures (`tsig`), transfers (`receive`, `send`).
#![deny(clippy::indexing_slicing)]

use super::receive::serial_of;
use super::wire::{Header, MESSAGE_SIZE_MAX, MessageWriter, WireReader};
use crate::ZoneRecord;
use crate::code::{Rcode, RecordType};
use crate::name::Name;
use crate::zone::rdata;

const OPCODE_NOTIFY: u16 = 4;
const OPCODE_UPDATE: u16 = 5;

/// What a message asks of a server beside answers to questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// An answer to its question.
    Query,
    /// A transfer of the zone.
    Axfr,
    /// A transfer of what is newer than this serial; none: it tells no SOA.
    Ixfr(Option<u32>),
    /// The zone may have changed.
    Notify,
    /// The zone is to be changed (RFC 2136).
    Update,
    /// Something else.
    Other,
}

/// A request of another server, as far as it can be read without its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRequest {
    /// Its id.
    pub id: u16,
    /// What it asks.
    pub operation: Operation,
    /// The name of its question, or of the zone of an update.
    pub name: Name,
    /// The most bytes of an answer by UDP, as OPT tells it; 512 without.
    pub udp_size: u16,
}

impl ServerRequest {
    /// Reads a message; none when it is a response, has not one question, or is no message.
    #[must_use]
    pub fn read(message: &[u8]) -> Option<ServerRequest> {
        let header = Header::read(message)?;
        if header.is_response() || header.question_count != 1 {
            return None;
        }
        let mut reader = WireReader::new(message);
        let (name, record_type, class) = reader.question()?;
        let (mut serial, mut udp_size) = (None, 512);
        for index in 0..header.record_count() {
            let raw = reader.raw_record()?;
            let is_authority = index >= header.answer_count.into()
                && index < u32::from(header.answer_count) + u32::from(header.authority_count);
            match raw.record_type {
                RecordType::OPT => udp_size = raw.class.max(512),
                // An UPDATE has what is to be done there.
                RecordType::SOA
                    if is_authority && header.opcode() != OPCODE_UPDATE && raw.owner == name =>
                {
                    serial = soa_serial(&reader.expand(&raw)?);
                }
                _ => {}
            }
        }
        let operation = match (header.opcode(), record_type) {
            (0, RecordType::AXFR) if class == 1 => Operation::Axfr,
            (0, RecordType::IXFR) if class == 1 => Operation::Ixfr(serial),
            (0, _) => Operation::Query,
            (OPCODE_NOTIFY, RecordType::SOA) if class == 1 => Operation::Notify,
            (OPCODE_UPDATE, _) => Operation::Update,
            _ => Operation::Other,
        };
        Some(ServerRequest { id: header.id, operation, name, udp_size })
    }
}

fn soa_serial(data: &[u8]) -> Option<u32> {
    rdata::check(RecordType::SOA, data).ok()?;
    let tail: &[u8; 20] = data.last_chunk()?;
    tail.first_chunk().map(|serial| u32::from_be_bytes(*serial))
}

/// An answer with a code and the question, and nothing else.
#[must_use]
pub fn reply_to(message: &[u8], rcode: Rcode, is_authoritative: bool) -> Vec<u8> {
    let Some(header) = Header::read(message) else { return Vec::new() };
    let mut reader = WireReader::new(message);
    let has_question = header.question_count == 1 && reader.question().is_some();
    let end = if has_question { reader.offset() } else { Header::SIZE };
    let mut reply = message.get(..end).unwrap_or_default().to_vec();
    let authoritative = u16::from(is_authoritative) << 10;
    Header {
        flags: 0x8000 | (header.flags & 0x7900) | authoritative | (rcode.0 & 15),
        question_count: has_question.into(),
        answer_count: 0,
        authority_count: 0,
        additional_count: 0,
        ..header
    }
    .write(&mut reply);
    reply
}

fn query_header(id: u16, flags: u16) -> Header {
    Header {
        id,
        flags,
        question_count: 1,
        answer_count: 0,
        authority_count: 0,
        additional_count: 0,
    }
}

/// The query for a zone's SOA, for AXFR, or, with the SOA that is there, for IXFR.
#[must_use]
pub fn query(origin: &Name, id: u16, record_type: RecordType, soa: Option<&ZoneRecord>) -> Vec<u8> {
    let writer = MessageWriter::new(query_header(id, 0), origin, record_type, MESSAGE_SIZE_MAX);
    let Some(soa) = soa else { return writer.finish() };
    with_soa(writer, soa, |header| Header {
        answer_count: 0,
        authority_count: header.answer_count,
        ..header
    })
}

/// Tells that a zone has changed, with its SOA of now.
#[must_use]
pub fn notify(origin: &Name, id: u16, soa: &ZoneRecord) -> Vec<u8> {
    let header = query_header(id, OPCODE_NOTIFY << 11 | 0x0400);
    let writer = MessageWriter::new(header, origin, RecordType::SOA, MESSAGE_SIZE_MAX);
    with_soa(writer, soa, |header| header)
}

fn with_soa(
    mut writer: MessageWriter,
    soa: &ZoneRecord,
    change: impl FnOnce(Header) -> Header,
) -> Vec<u8> {
    writer.put(&soa.owner, soa.record_type, soa.ttl_seconds, &soa.data);
    let mut message = writer.finish();
    if let Some(header) = Header::read(&message) {
        change(header).write(&mut message);
    }
    message
}

/// The answer to a query for a SOA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoaAnswer {
    /// The serial.
    Serial(u32),
    /// It is to be asked by TCP.
    Truncated,
    /// Another code than NOERROR, or no SOA with authority.
    Failed(Rcode),
}

/// Reads the answer to a query for the SOA; none when it is the answer to something else.
#[must_use]
pub fn read_soa_answer(message: &[u8], origin: &Name, id: u16) -> Option<SoaAnswer> {
    let header = Header::read(message)?;
    if header.id != id || !header.is_response() || header.opcode() != 0 {
        return None;
    }
    let rcode = Rcode(header.flags & 15);
    if rcode != Rcode::NOERROR {
        return Some(SoaAnswer::Failed(rcode));
    }
    if header.flags & 0x0200 != 0 {
        return Some(SoaAnswer::Truncated);
    }
    let mut reader = WireReader::new(message);
    let (name, record_type, class) = (header.question_count == 1).then(|| reader.question())??;
    if name != *origin || record_type != RecordType::SOA || class != 1 {
        return None;
    }
    // Without authority the other server does not have the zone, or has lost it.
    if header.flags & 0x0400 == 0 {
        return Some(SoaAnswer::Failed(Rcode::NOTAUTH));
    }
    for _ in 0..header.answer_count {
        let raw = reader.raw_record()?;
        if raw.record_type == RecordType::SOA && raw.owner == *origin && raw.class == 1 {
            return soa_serial(&reader.expand(&raw)?).map(SoaAnswer::Serial);
        }
    }
    Some(SoaAnswer::Failed(Rcode::NOERROR))
}

/// Whether a message is the answer to a NOTIFY with this id; RFC 1996 takes any code for one.
#[must_use]
pub fn is_notify_answer(message: &[u8], id: u16) -> bool {
    Header::read(message).is_some_and(|header| {
        header.id == id && header.is_response() && header.opcode() == OPCODE_NOTIFY
    })
}

/// The times of a SOA (RFC 1035, 3.3.13), in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoaTimes {
    /// The serial.
    pub serial: u32,
    /// When a secondary asks again.
    pub refresh_seconds: u32,
    /// When it asks again after a failure.
    pub retry_seconds: u32,
    /// When the zone is no longer served.
    pub expire_seconds: u32,
}

impl SoaTimes {
    /// Reads a SOA.
    #[must_use]
    pub fn of(soa: &ZoneRecord) -> SoaTimes {
        let word = |index: usize| {
            let tail: Option<&[u8; 20]> = soa.data.last_chunk();
            let word = tail.and_then(|tail| tail.get(index * 4..)?.first_chunk());
            word.map_or(0, |word| u32::from_be_bytes(*word))
        };
        SoaTimes {
            serial: serial_of(soa),
            refresh_seconds: word(1),
            retry_seconds: word(2),
            expire_seconds: word(3),
        }
    }
}
