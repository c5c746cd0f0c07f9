//! Messages of transfers in wire form: a reader that trusts nothing, and a writer that compresses.
//!
//! Not for: queries on the hot path (`request.rs`, `reply.rs`), tools (`message.rs`).
//!
//! Invariants: a pointer must lead before the part of the name that it ends, so that reading ends.
//! Names in the data of types that older servers compress are written out (RFC 3597, 4).
//! Cost: linear; one allocation for an owner and one for its data.
#![deny(clippy::indexing_slicing)]

use crate::code::RecordType;
use crate::message::JUMPS_MAX;
use crate::name::{NAME_SIZE_MAX, Name};
use crate::zone::rdata;

/// The header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) id: u16,
    pub(crate) flags: u16,
    pub(crate) question_count: u16,
    pub(crate) answer_count: u16,
    pub(crate) authority_count: u16,
    pub(crate) additional_count: u16,
}

impl Header {
    pub(crate) const SIZE: usize = 12;

    pub(crate) fn read(message: &[u8]) -> Option<Header> {
        let &[a, b, c, d, e, f, g, h, i, j, k, l] = message.first_chunk::<{ Header::SIZE }>()?;
        let [id, flags, question_count, answer_count, authority_count, additional_count] =
            [[a, b], [c, d], [e, f], [g, h], [i, j], [k, l]].map(u16::from_be_bytes);
        let header =
            Header { id, flags, question_count, answer_count, authority_count, additional_count };
        Some(header)
    }

    /// Writes it over the first bytes, which must be there.
    pub(crate) fn write(&self, message: &mut [u8]) {
        let words = [
            self.id,
            self.flags,
            self.question_count,
            self.answer_count,
            self.authority_count,
            self.additional_count,
        ];
        for (place, word) in message.chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }

    pub(crate) fn opcode(&self) -> u16 {
        self.flags >> 11 & 15
    }

    pub(crate) fn is_response(&self) -> bool {
        self.flags & 0x8000 != 0
    }

    /// How many records stand behind the questions.
    pub(crate) fn record_count(&self) -> u32 {
        [self.answer_count, self.authority_count, self.additional_count].map(u32::from).iter().sum()
    }
}

/// A record whose data are as they stand in the message.
#[derive(Debug)]
pub(crate) struct RawRecord<'m> {
    pub(crate) owner: Name,
    pub(crate) record_type: RecordType,
    pub(crate) class: u16,
    pub(crate) ttl_seconds: u32,
    pub(crate) data: &'m [u8],
    /// Where the data begin in the message.
    pub(crate) data_offset: usize,
}

/// Reads one part of a message after another; none where bytes are missing or wrong.
#[derive(Debug)]
pub(crate) struct WireReader<'m> {
    message: &'m [u8],
    at: usize,
}

impl<'m> WireReader<'m> {
    /// Begins behind the header; in bytes without one, use [`WireReader::plain_name`] first.
    pub(crate) fn new(message: &'m [u8]) -> WireReader<'m> {
        WireReader { message, at: 0 }
    }

    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.message.len()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'m [u8]> {
        let end = self.at.checked_add(count)?;
        let bytes = self.message.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.bytes(2)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.bytes(4)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// A name without pointers.
    pub(crate) fn plain_name(&mut self) -> Option<Name> {
        let length = crate::name::wire_name_length(self.message.get(self.at..)?)?;
        Name::from_wire(self.bytes(length)?).ok()
    }

    /// Appends a name, its pointers followed.
    fn name_into(&mut self, wire: &mut Vec<u8>) -> Option<()> {
        let begin = wire.len();
        let (mut at, mut end, mut stretch) = (self.at, None, self.at);
        let mut jumps = 0;
        loop {
            let length = *self.message.get(at)?;
            if length >= 0xc0 {
                jumps += 1;
                if jumps > JUMPS_MAX {
                    return None;
                }
                let low = *self.message.get(at + 1)?;
                end.get_or_insert(at + 2);
                at = usize::from(u16::from_be_bytes([length & 0x3f, low]));
                if at >= stretch {
                    return None;
                }
                stretch = at;
                continue;
            }
            let next = at + 1 + usize::from(length);
            wire.extend_from_slice(self.message.get(at..next)?);
            at = next;
            if length > 63 || wire.len() - begin > NAME_SIZE_MAX {
                return None;
            }
            if length == 0 {
                self.at = end.unwrap_or(at);
                return Some(());
            }
        }
    }

    pub(crate) fn name(&mut self) -> Option<Name> {
        let mut wire = Vec::with_capacity(64);
        self.name_into(&mut wire)?;
        Name::from_wire(&wire).ok()
    }

    /// The next question; the first stands behind the header.
    pub(crate) fn question(&mut self) -> Option<(Name, RecordType, u16)> {
        self.at = self.at.max(Header::SIZE);
        Some((self.name()?, RecordType(self.u16()?), self.u16()?))
    }

    pub(crate) fn raw_record(&mut self) -> Option<RawRecord<'m>> {
        self.at = self.at.max(Header::SIZE);
        let owner = self.name()?;
        let (record_type, class) = (RecordType(self.u16()?), self.u16()?);
        let (ttl_seconds, size) = (self.u32()?, self.u16()?);
        let data_offset = self.at;
        let data = self.bytes(size.into())?;
        Some(RawRecord { owner, record_type, class, ttl_seconds, data, data_offset })
    }

    /// The data of a record with all names written out.
    pub(crate) fn expand(&self, record: &RawRecord<'m>) -> Option<Vec<u8>> {
        let (front, names) = match record.record_type.0 {
            2..=5 | 7..=9 | 12 | 30 | 39 => (0, 1),
            6 | 14 | 17 => (0, 2),
            15 | 18 | 21 | 36 => (2, 1),
            24 => (18, 1),
            26 => (2, 2),
            33 => (6, 1),
            35 => (naptr_front(record.data)?, 1),
            _ => return Some(record.data.to_vec()),
        };
        let mut data = Vec::with_capacity(record.data.len() + 32);
        let mut reader = WireReader { message: self.message, at: record.data_offset };
        let end = record.data_offset + record.data.len();
        data.extend_from_slice(reader.bytes(front)?);
        for _ in 0..names {
            reader.name_into(&mut data)?;
        }
        let rest = end.checked_sub(reader.at)?;
        data.extend_from_slice(reader.bytes(rest)?);
        Some(data)
    }
}

/// The size of what stands before the name of NAPTR: two numbers and three strings.
fn naptr_front(data: &[u8]) -> Option<usize> {
    let mut at = 4;
    for _ in 0..3 {
        at += 1 + usize::from(*data.get(at)?);
    }
    Some(at)
}

/// Appends a name in lower case.
pub(crate) fn push_name_lower(bytes: &mut Vec<u8>, name: &Name) {
    // Lengths are below every letter.
    bytes.extend(name.as_wire().iter().map(u8::to_ascii_lowercase));
}

/// The most bytes of a message.
pub(crate) const MESSAGE_SIZE_MAX: usize = 65_535;
/// Pointers have 14 bits.
const POINTER_MAX: usize = 0x3fff;

/// Writes a message about one zone: names end with a pointer to the zone's in the question.
pub(crate) struct MessageWriter {
    message: Vec<u8>,
    origin: Vec<u8>,
    size_max: usize,
    last_owner: Option<(Name, usize)>,
    pub(crate) record_count: u16,
}

impl MessageWriter {
    /// Begins with the header and a question about the origin.
    pub(crate) fn new(
        header: Header,
        origin: &Name,
        question_type: RecordType,
        size_max: usize,
    ) -> MessageWriter {
        let mut message = vec![0; Header::SIZE];
        Header { question_count: 1, ..header }.write(&mut message);
        message.extend_from_slice(origin.as_wire());
        message.extend_from_slice(&question_type.0.to_be_bytes());
        message.extend_from_slice(&1_u16.to_be_bytes());
        let origin = origin.as_wire().to_vec();
        MessageWriter { message, origin, size_max, last_owner: None, record_count: 0 }
    }

    /// Appends a record; false and nothing where it does not fit.
    pub(crate) fn put(
        &mut self,
        owner: &Name,
        record_type: RecordType,
        ttl_seconds: u32,
        data: &[u8],
    ) -> bool {
        let before = self.message.len();
        match &self.last_owner {
            Some((last, offset)) if last.as_wire() == owner.as_wire() => {
                let pointer = 0xc000 | *offset as u16;
                self.message.extend_from_slice(&pointer.to_be_bytes());
            }
            _ => self.put_name(owner.as_wire()),
        }
        self.message.extend_from_slice(&record_type.0.to_be_bytes());
        self.message.extend_from_slice(&1_u16.to_be_bytes());
        self.message.extend_from_slice(&ttl_seconds.to_be_bytes());
        let size_at = self.message.len();
        self.message.extend_from_slice(&[0; 2]);
        self.put_data(record_type, data);
        let size = self.message.len() - size_at - 2;
        if self.message.len() > self.size_max || self.record_count == u16::MAX {
            self.message.truncate(before);
            return false;
        }
        if let Some(place) = self.message.get_mut(size_at..size_at + 2) {
            place.copy_from_slice(&(size as u16).to_be_bytes());
        }
        if before <= POINTER_MAX
            && self.last_owner.as_ref().is_none_or(|(last, _)| last.as_wire() != owner.as_wire())
        {
            self.last_owner = Some((owner.clone(), before));
        }
        self.record_count += 1;
        true
    }

    /// Only types of RFC 1035 have short names in their data (RFC 3597, 4).
    fn put_data(&mut self, record_type: RecordType, data: &[u8]) {
        let layout = rdata::name_layout(record_type).filter(|_| record_type.0 <= 15);
        let Some((front, count, _)) = layout else {
            self.message.extend_from_slice(data);
            return;
        };
        let (front, mut rest) = data.split_at_checked(front).unwrap_or((data, &[]));
        self.message.extend_from_slice(front);
        for _ in 0..count {
            let Some(length) = crate::name::wire_name_length(rest) else { break };
            let (name, tail) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            self.put_name(name);
            rest = tail;
        }
        self.message.extend_from_slice(rest);
    }

    fn put_name(&mut self, wire: &[u8]) {
        let at = wire.len().checked_sub(self.origin.len());
        let is_below = at.and_then(|at| wire.get(at..)).is_some_and(|end| {
            self.origin.len() > 1 && end == self.origin && starts_label(wire, at)
        });
        match at.filter(|_| is_below) {
            Some(at) => {
                self.message.extend_from_slice(wire.get(..at).unwrap_or_default());
                self.message.extend_from_slice(&(0xc000 | Header::SIZE as u16).to_be_bytes());
            }
            None => self.message.extend_from_slice(wire),
        }
    }

    /// The message, with the count of its answers.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if let Some(header) = Header::read(&self.message) {
            Header { answer_count: self.record_count, ..header }.write(&mut self.message);
        }
        self.message
    }
}

/// Whether a label of the name begins there.
fn starts_label(wire: &[u8], at: Option<usize>) -> bool {
    let mut start = 0;
    while Some(start) < at {
        match wire.get(start) {
            Some(&length) if length > 0 => start += 1 + usize::from(length),
            _ => return false,
        }
    }
    Some(start) == at
}
