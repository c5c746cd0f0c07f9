//! Reads a query: header, question, EDNS. Whatever is wrong becomes a response code, and the parts
//! that could be read stay readable, so that the error reply can carry them.
//!
//! Not for: responses (`message.rs` reads any message, at leisure).
//!
//! ```text
//! header 12 | question: name, type, class | additional: OPT = root, 41, size, ext.rcode, version,
//! id flags                                                   DO and zero, options
//! qd an ns ar                                                   [code u16 | length u16 | data] ...
//! ```
//!
//! Bytes behind the last record are ignored. Cost: linear in the query, no allocation.
#![deny(clippy::indexing_slicing)]

use crate::code::{Rcode, RecordType};
use crate::ecs::{OPTION_SUBNET, Subnet};
use crate::name::LowerName;

pub(crate) const HEADER_SIZE: usize = 12;
const OPTION_NSID: u16 = 3;

/// The part of the header that replies need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) id: u16,
    pub(crate) flags: u16,
    counts: [u16; 4],
}

impl Header {
    pub(crate) fn is_response(self) -> bool {
        self.flags & 0x8000 != 0
    }

    /// The reply's flags: response, the query's opcode, RD and CD.
    pub(crate) fn reply_flags(self) -> u16 {
        0x8000 | (self.flags & 0x7910)
    }
}

/// What the query's OPT record says (RFC 6891).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edns<'q> {
    pub(crate) size: u16,
    version: u8,
    pub(crate) dnssec_ok: bool,
    pub(crate) subnet: Option<Subnet<'q>>,
    /// The client asks which server this is (RFC 5001).
    pub(crate) wants_server_id: bool,
}

/// A question as it stands in the query, and ready for lookups.
pub(crate) struct Question<'q> {
    /// Name, type and class with the name's case kept.
    pub(crate) bytes: &'q [u8],
    pub(crate) name: LowerName,
    pub(crate) record_type: RecordType,
    pub(crate) class: u16,
}

/// A query as far as it could be read.
pub(crate) struct Request<'q> {
    pub(crate) header: Header,
    pub(crate) question: Option<Question<'q>>,
    pub(crate) edns: Option<Edns<'q>>,
}

impl<'q> Request<'q> {
    /// Reads a query. None when it has no readable header. With a fault the reply is an error.
    pub(crate) fn read(query: &'q [u8]) -> Option<(Request<'q>, Result<(), Rcode>)> {
        let mut bytes = Bytes { rest: query };
        let mut word = || bytes.u16();
        let (id, flags) = (word()?, word()?);
        let counts = [word()?, word()?, word()?, word()?];
        let header = Header { id, flags, counts };
        let mut request = Request { header, question: None, edns: None };
        let verdict = request.read_body(&mut bytes);
        Some((request, verdict))
    }

    fn read_body(&mut self, bytes: &mut Bytes<'q>) -> Result<(), Rcode> {
        let [question_count, answer_count, authority_count, additional_count] = self.header.counts;
        let is_query = self.header.flags & 0x7800 == 0;
        if question_count == 1 {
            self.question = Question::read(bytes);
        }
        if !is_query {
            return Err(Rcode::NOTIMP);
        }
        let question = self.question.as_ref().ok_or(Rcode::FORMERR)?;
        // Only an incremental transfer says something in the authority section (RFC 1995, 3).
        let authority_may_be = question.record_type == RecordType::IXFR;
        if answer_count != 0 || (authority_count != 0 && !authority_may_be) {
            return Err(Rcode::FORMERR);
        }
        for _ in 0..authority_count {
            Record::read(bytes).ok_or(Rcode::FORMERR)?;
        }
        let mut verdict = Ok(());
        for _ in 0..additional_count {
            let record = Record::read(bytes).ok_or(Rcode::FORMERR)?;
            if record.record_type == RecordType::OPT.0 {
                if self.edns.is_some() || !record.is_root {
                    return Err(Rcode::FORMERR);
                }
                let (edns, options) = Edns::read(&record);
                self.edns = Some(edns);
                verdict = options;
            }
        }
        verdict
    }
}

impl<'q> Question<'q> {
    fn read(bytes: &mut Bytes<'q>) -> Option<Question<'q>> {
        let start = bytes.rest;
        let name = LowerName::read(start)?;
        let size = name.as_wire().len() + 4;
        let question = start.get(..size)?;
        bytes.take(size - 4)?;
        let (record_type, class) = (RecordType(bytes.u16()?), bytes.u16()?);
        Some(Question { bytes: question, name, record_type, class })
    }
}

impl<'q> Edns<'q> {
    /// Reads an OPT record and says whether its options are well-formed. An unknown version's
    /// options are not looked at.
    fn read(record: &Record<'q>) -> (Edns<'q>, Result<(), Rcode>) {
        let [_, version, flags, _] = record.ttl.to_be_bytes();
        let mut edns = Edns {
            size: record.class,
            version,
            dnssec_ok: flags & 0x80 != 0,
            subnet: None,
            wants_server_id: false,
        };
        if edns.version != 0 {
            return (edns, Err(Rcode::BADVERS));
        }
        let read = edns.read_options(record.data).ok_or(Rcode::FORMERR);
        if read.is_err() {
            edns.subnet = None;
        }
        (edns, read)
    }

    fn read_options(&mut self, data: &'q [u8]) -> Option<()> {
        let mut bytes = Bytes { rest: data };
        while !bytes.rest.is_empty() {
            let (code, length) = (bytes.u16()?, bytes.u16()?);
            let data = bytes.take(length.into())?;
            match code {
                OPTION_SUBNET if self.subnet.is_some() => return None,
                OPTION_SUBNET => self.subnet = Some(Subnet::read(data)?),
                OPTION_NSID => self.wants_server_id = true,
                _ => {}
            }
        }
        Some(())
    }
}

/// A record of the additional section.
struct Record<'q> {
    is_root: bool,
    record_type: u16,
    class: u16,
    ttl: u32,
    data: &'q [u8],
}

impl<'q> Record<'q> {
    fn read(bytes: &mut Bytes<'q>) -> Option<Record<'q>> {
        let is_root = bytes.rest.first() == Some(&0);
        bytes.skip_name()?;
        let (record_type, class) = (bytes.u16()?, bytes.u16()?);
        let ttl = u32::from(bytes.u16()?) << 16 | u32::from(bytes.u16()?);
        let length = bytes.u16()?;
        Some(Record { is_root, record_type, class, ttl, data: bytes.take(length.into())? })
    }
}

/// What is still to be read.
struct Bytes<'q> {
    rest: &'q [u8],
}

impl<'q> Bytes<'q> {
    fn take(&mut self, count: usize) -> Option<&'q [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u16::from_be_bytes(*bytes))
    }

    /// Passes over a name, which a compression pointer may end.
    fn skip_name(&mut self) -> Option<()> {
        loop {
            let length = *self.take(1)?.first()?;
            match length {
                0 => return Some(()),
                1..=63 => self.take(length.into())?,
                192..=255 => return self.take(1).map(|_| ()),
                _ => return None,
            };
        }
    }
}
