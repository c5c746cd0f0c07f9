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
use crate::cookie::OPTION_COOKIE;
use crate::ecs::{OPTION_SUBNET, Subnet};
use crate::lower::LowerName;

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
    /// The client's cookie, and the one that a server gave it (RFC 7873).
    pub(crate) cookie: Option<&'q [u8]>,
}

/// A question as it stands in the query.
#[derive(Clone, Copy)]
pub(crate) struct Question<'q> {
    /// Name, type and class with the name's case kept.
    pub(crate) bytes: &'q [u8],
    pub(crate) record_type: RecordType,
    pub(crate) class: u16,
}

/// A query as far as it could be read.
pub(crate) struct Request<'q> {
    pub(crate) header: Header,
    pub(crate) question: Option<Question<'q>>,
    pub(crate) edns: Option<Edns<'q>>,
    /// What the reply says of a query that cannot be answered.
    pub(crate) fault: Option<Rcode>,
}

impl<'q> Request<'q> {
    /// Reads a query, and its question's name into `name` for lookups. None when it has no readable
    /// header. With a fault the reply is an error.
    #[inline]
    pub(crate) fn read(query: &'q [u8], name: &mut LowerName) -> Option<Request<'q>> {
        let (head, rest) = query.split_first_chunk::<HEADER_SIZE>()?;
        let word = |at: usize| {
            let bytes = head.get(at..at + 2).and_then(<[u8]>::first_chunk).copied();
            u16::from_be_bytes(bytes.unwrap_or_default())
        };
        let header =
            Header { id: word(0), flags: word(2), counts: [word(4), word(6), word(8), word(10)] };
        let mut request = Request { header, question: None, edns: None, fault: None };
        request.fault = request.read_body(&mut Bytes { rest }, name).err();
        Some(request)
    }

    fn read_body(&mut self, bytes: &mut Bytes<'q>, name: &mut LowerName) -> Result<(), Rcode> {
        let [question_count, answer_count, authority_count, additional_count] = self.header.counts;
        let is_query = self.header.flags & 0x7800 == 0;
        if question_count == 1 {
            self.question = Question::read(bytes, name);
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
    #[inline]
    fn read(bytes: &mut Bytes<'q>, name: &mut LowerName) -> Option<Question<'q>> {
        let length = name.read(bytes.rest)?;
        let question = bytes.take(length + 4)?;
        let &[t0, t1, c0, c1] = question.last_chunk()?;
        let record_type = RecordType(u16::from_be_bytes([t0, t1]));
        Some(Question { bytes: question, record_type, class: u16::from_be_bytes([c0, c1]) })
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
            cookie: None,
        };
        if edns.version != 0 {
            return (edns, Err(Rcode::BADVERS));
        }
        let read = edns.read_options(record.data).ok_or(Rcode::FORMERR);
        if read.is_err() {
            (edns.subnet, edns.cookie) = (None, None);
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
                OPTION_COOKIE if self.cookie.is_some() => {}
                OPTION_COOKIE if matches!(data.len(), 8 | 16..=40) => self.cookie = Some(data),
                OPTION_COOKIE => return None,
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
