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
//! Bytes behind the last record are a fault. Cost: linear in the query, no allocation.
#![deny(clippy::indexing_slicing)]

use crate::code::{Rcode, RecordType};
use crate::cookie::OPTION_COOKIE;
use crate::ecs::{OPTION_SUBNET, Subnet};
use crate::lower::LowerName;

pub(crate) const HEADER_SIZE: usize = 12;
const OPTION_NSID: u16 = 3;
pub(crate) const OPTION_KEEPALIVE: u16 = 11;
/// The flags DO and CO, in the upper byte of the flags of EDNS.
pub(crate) const DNSSEC_OK: u8 = 0x80;
pub(crate) const COMPACT_OK: u8 = 0x40;
const OPCODE_NOTIFY: u16 = 4;
const OPCODE_UPDATE: u16 = 5;

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

    fn is_query(self) -> bool {
        self.flags & 0x7800 == 0
    }

    /// The reply's flags: response, the query's opcode and RD. CD is a matter of resolvers
    /// (RFC 4035, 3.1.6).
    pub(crate) fn reply_flags(self) -> u16 {
        0x8000 | (self.flags & 0x7900)
    }
}

/// The query's OPT record (RFC 6891).
#[derive(Debug)]
pub(crate) struct Edns<'q> {
    pub(crate) size: u16,
    version: u8,
    pub(crate) dnssec_ok: bool,
    /// The client takes NXDOMAIN beside the proof of compact denial (RFC 9824, 5.1).
    pub(crate) compact_ok: bool,
    pub(crate) subnet: Option<Subnet<'q>>,
    /// The client asks which server this is (RFC 5001).
    pub(crate) wants_server_id: bool,
    /// The client asks for how long it may keep its connection (RFC 7828).
    pub(crate) wants_keepalive: bool,
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
    /// The reply's code for a query that cannot be answered.
    pub(crate) fault: Option<Rcode>,
    /// Without it nothing is to be sent.
    pub(crate) is_answerable: bool,
    /// It has a signature (RFC 8945).
    has_signature: bool,
}

impl<'q> Request<'q> {
    /// The buffer of reads.
    pub(crate) const EMPTY: Request<'static> = Request {
        header: Header { id: 0, flags: 0, counts: [0; 4] },
        question: None,
        edns: None,
        fault: None,
        is_answerable: false,
        has_signature: false,
    };

    /// The size that OPT tells.
    pub(crate) fn edns_size(&self) -> Option<u16> {
        self.edns.as_ref().map(|edns| edns.size)
    }

    /// Whether it is a message between servers of a zone: NOTIFY, UPDATE, a transfer, or one that
    /// is signed.
    pub(crate) fn is_between_servers(&self) -> bool {
        let is_transfer = |question: &Question<'_>| {
            matches!(question.record_type, RecordType::AXFR | RecordType::IXFR)
        };
        match self.header.flags >> 11 & 15 {
            0 => self.has_signature || self.question.as_ref().is_some_and(is_transfer),
            opcode => matches!(opcode, OPCODE_NOTIFY | OPCODE_UPDATE),
        }
    }

    /// Reads a query into an empty request, and its question's name into `name` for lookups. False
    /// when nothing is to be sent: there is no header, or neither a question that can be read nor
    /// the opcode of queries. With a fault the reply is an error.
    #[inline]
    pub(crate) fn read(&mut self, query: &'q [u8], name: &mut LowerName) -> bool {
        let Some((head, rest)) = query.split_first_chunk::<HEADER_SIZE>() else {
            return false;
        };
        let &[i0, i1, f0, f1, q0, q1, a0, a1, n0, n1, r0, r1] = head;
        let words = [[q0, q1], [a0, a1], [n0, n1], [r0, r1]];
        self.header.id = u16::from_be_bytes([i0, i1]);
        self.header.flags = u16::from_be_bytes([f0, f1]);
        self.header.counts = words.map(u16::from_be_bytes);
        let [question_count, ..] = self.header.counts;
        let mut bytes = Bytes { rest };
        if question_count == 1 {
            self.question = Question::read(&mut bytes, name);
        }
        self.is_answerable = self.question.is_some() || self.header.is_query();
        if self.is_answerable {
            self.fault = self.read_rest(&mut bytes).err();
        }
        self.is_answerable
    }

    /// Reads what follows the question.
    #[inline]
    fn read_rest(&mut self, bytes: &mut Bytes<'q>) -> Result<(), Rcode> {
        let [_, answer_count, authority_count, additional_count] = self.header.counts;
        let question = self.question.as_ref().ok_or(Rcode::FORMERR)?;
        let is_query = self.header.is_query();
        // Only an incremental transfer says something in the authority section (RFC 1995, 3).
        let authority_may_be = question.record_type == RecordType::IXFR;
        if is_query && (answer_count != 0 || (authority_count != 0 && !authority_may_be)) {
            return Err(Rcode::FORMERR);
        }
        for _ in 0..u32::from(answer_count) + u32::from(authority_count) {
            Record::read(bytes).ok_or(Rcode::FORMERR)?;
        }
        let verdict = self.read_additional(bytes, additional_count);
        let Some(verdict) = verdict.filter(|_| bytes.rest.is_empty()) else {
            // An OPT record in such company counts for nothing.
            self.edns = None;
            return Err(Rcode::FORMERR);
        };
        if is_query { verdict } else { Err(Rcode::NOTIMP) }
    }

    /// Reads the records of the additional section, of which OPT has a verdict. None when they are
    /// no records or have more than one OPT.
    #[inline]
    fn read_additional(&mut self, bytes: &mut Bytes<'q>, count: u16) -> Option<Result<(), Rcode>> {
        let mut verdict = Ok(());
        for _ in 0..count {
            let record = Record::read(bytes)?;
            if record.record_type == RecordType::OPT.0 {
                if self.edns.is_some() || !record.is_root {
                    return None;
                }
                let edns = self.edns.insert(Edns::new(&record));
                verdict = edns.read(&record);
            }
            self.has_signature |= record.record_type == RecordType::TSIG.0;
        }
        Some(verdict)
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
    fn new(record: &Record<'q>) -> Edns<'q> {
        let [_, version, flags, _] = record.ttl.to_be_bytes();
        Edns {
            size: record.class,
            version,
            dnssec_ok: flags & DNSSEC_OK != 0,
            compact_ok: flags & COMPACT_OK != 0,
            subnet: None,
            wants_server_id: false,
            wants_keepalive: false,
            cookie: None,
        }
    }

    /// Reads the options and says whether they are well-formed. An unknown version's are not
    /// looked at.
    #[inline]
    fn read(&mut self, record: &Record<'q>) -> Result<(), Rcode> {
        if self.version != 0 {
            return Err(Rcode::BADVERS);
        }
        if record.data.is_empty() {
            return Ok(());
        }
        let read = self.read_options(record.data).ok_or(Rcode::FORMERR);
        if read.is_err() {
            (self.subnet, self.cookie) = (None, None);
        }
        read
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
                OPTION_KEEPALIVE => self.wants_keepalive = true,
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

/// The bytes that are still to be read.
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
