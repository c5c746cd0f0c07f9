//! Reads any message and builds queries: for tests, fuzzing and tools. It allocates freely.
//!
//! Not for: the answer path (`request.rs` and `reply.rs`).
//!
//! Compression pointers must point backwards, so that reading always ends. Names in the data of
//! the types that may have compressed names are written out, so that data compare byte by byte.
#![deny(clippy::indexing_slicing)]

use std::fmt;
use std::net::IpAddr;

use crate::code::{Rcode, RecordType};
use crate::name::{NAME_SIZE_MAX, Name};
use crate::request::{COMPACT_OK, DNSSEC_OK};

/// A whole message, decoded.
///
/// ```
/// use whered_dns::{RecordType, message::{Message, Query}};
/// let query = Query::new(&"www.example.com".parse()?, RecordType::AAAA).id(7).build();
/// let message = Message::read(&query)?;
/// assert_eq!((message.id, message.questions[0].record_type), (7, RecordType::AAAA));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The query's id.
    pub id: u16,
    /// The header's flags: QR, opcode, AA, TC, RD, RA, Z, AD, CD, rcode.
    pub flags: u16,
    /// The questions.
    pub questions: Vec<Question>,
    /// The answer section.
    pub answers: Vec<Record>,
    /// The authority section.
    pub authorities: Vec<Record>,
    /// The additional section without OPT.
    pub additionals: Vec<Record>,
    /// The OPT record, when there is one.
    pub edns: Option<Edns>,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The name; compares without case, shows it.
    pub name: Name,
    /// The type.
    pub record_type: RecordType,
    /// The class, 1 for IN.
    pub class: u16,
}

/// One record, its data with all names written out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// The owner.
    pub owner: Name,
    /// The type.
    pub record_type: RecordType,
    /// The class, 1 for IN.
    pub class: u16,
    /// The TTL in seconds.
    pub ttl_seconds: u32,
    /// The data in wire form.
    pub data: Vec<u8>,
}

/// The content of an OPT record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edns {
    /// The UDP size in bytes.
    pub udp_size: u16,
    /// The upper eight bits of the response code.
    pub extended_rcode: u8,
    /// The version, 0.
    pub version: u8,
    /// The DO bit.
    pub dnssec_ok: bool,
    /// The CO bit (RFC 9824, 5.1).
    pub compact_ok: bool,
    /// The options: code and data.
    pub options: Vec<(u16, Vec<u8>)>,
}

/// The client subnet option (RFC 7871).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSubnet {
    /// 1 for IPv4, 2 for IPv6.
    pub family: u16,
    /// The prefix length that was asked with.
    pub source_length_bits: u8,
    /// The prefix length for which the answer holds.
    pub scope_length_bits: u8,
    /// The address bytes.
    pub address: Vec<u8>,
}

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageError {
    offset_bytes: usize,
    allowed: &'static str,
}

impl MessageError {
    /// Where reading stopped, in bytes from the message's beginning.
    #[must_use]
    pub fn offset_bytes(&self) -> usize {
        self.offset_bytes
    }
}

/// The most pointers of a name: one for each label that a name can have. A chain of more would cost
/// much and say nothing.
pub(crate) const JUMPS_MAX: usize = 127;

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MessageError { offset_bytes, allowed } = self;
        write!(f, "byte {offset_bytes}: found something else than {allowed}")
    }
}

impl std::error::Error for MessageError {}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// When a part is cut short, a name is not well-formed, there are two OPT records, or bytes
    /// follow the last record.
    pub fn read(bytes: &[u8]) -> Result<Message, MessageError> {
        let mut reader = Reader { bytes, at: 0 };
        let (id, flags) = (reader.u16()?, reader.u16()?);
        let counts = [reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?];
        let [question_count, answer_count, authority_count, additional_count] = counts;
        let mut questions = Vec::new();
        for _ in 0..question_count {
            let name = reader.name()?;
            let (record_type, class) = (RecordType(reader.u16()?), reader.u16()?);
            questions.push(Question { name, record_type, class });
        }
        let answers = reader.records(answer_count)?;
        let authorities = reader.records(authority_count)?;
        let all = reader.records(additional_count)?;
        let (opts, additionals): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|record| record.record_type == RecordType::OPT);
        let edns = match opts.as_slice() {
            [] => None,
            [opt] => Some(Edns::read(opt).ok_or_else(|| reader.error("whole EDNS options"))?),
            _ => return Err(reader.error("one OPT record")),
        };
        if reader.at != bytes.len() {
            return Err(reader.error("the end of the message"));
        }
        Ok(Message { id, flags, questions, answers, authorities, additionals, edns })
    }

    /// The response code with the upper bits of EDNS.
    #[must_use]
    pub fn rcode(&self) -> Rcode {
        let upper = self.edns.as_ref().map_or(0, |edns| u16::from(edns.extended_rcode));
        Rcode(upper << 4 | (self.flags & 15))
    }

    /// The AA bit.
    #[must_use]
    pub fn is_authoritative(&self) -> bool {
        self.flags & 0x0400 != 0
    }

    /// The TC bit.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.flags & 0x0200 != 0
    }

    /// The client subnet option.
    #[must_use]
    pub fn client_subnet(&self) -> Option<ClientSubnet> {
        let (_, data) = self.edns.as_ref()?.options.iter().find(|(code, _)| *code == 8)?;
        let [high, low, source_length_bits, scope_length_bits, address @ ..] = data.as_slice()
        else {
            return None;
        };
        Some(ClientSubnet {
            family: u16::from_be_bytes([*high, *low]),
            source_length_bits: *source_length_bits,
            scope_length_bits: *scope_length_bits,
            address: address.to_vec(),
        })
    }
}

impl Edns {
    fn read(opt: &Record) -> Option<Edns> {
        let [extended_rcode, version, flags, _] = opt.ttl_seconds.to_be_bytes();
        let mut options = Vec::new();
        let mut rest = opt.data.as_slice();
        while !rest.is_empty() {
            let (head, after) = rest.split_first_chunk::<4>()?;
            let [a, b, c, d] = *head;
            let (data, after) = after.split_at_checked(u16::from_be_bytes([c, d]).into())?;
            options.push((u16::from_be_bytes([a, b]), data.to_vec()));
            rest = after;
        }
        let [dnssec_ok, compact_ok] = [DNSSEC_OK, COMPACT_OK].map(|flag| flags & flag != 0);
        let udp_size = opt.class;
        Some(Edns { udp_size, extended_rcode, version, dnssec_ok, compact_ok, options })
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn error(&self, allowed: &'static str) -> MessageError {
        MessageError { offset_bytes: self.at, allowed }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], MessageError> {
        let taken = self.bytes.get(self.at..self.at + count);
        let taken = taken.ok_or_else(|| self.error("more bytes"))?;
        self.at += count;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, MessageError> {
        Ok(self.take(2)?.iter().fold(0, |word, byte| word << 8 | u16::from(*byte)))
    }

    fn name(&mut self) -> Result<Name, MessageError> {
        let mut wire = Vec::new();
        let mut at = self.at;
        let mut end = None;
        // Every jump must go before the place where the last stretch of labels began.
        let mut stretch = at;
        let bad = || MessageError { offset_bytes: self.at, allowed: "a name" };
        let mut jumps = 0;
        loop {
            let length = *self.bytes.get(at).ok_or_else(bad)?;
            if length >= 0xc0 {
                jumps += 1;
                if jumps > JUMPS_MAX {
                    return Err(bad());
                }
                let low = *self.bytes.get(at + 1).ok_or_else(bad)?;
                end.get_or_insert(at + 2);
                at = usize::from(u16::from_be_bytes([length & 0x3f, low]));
                if at >= stretch {
                    return Err(bad());
                }
                stretch = at;
                continue;
            }
            let next = at + 1 + usize::from(length);
            wire.extend_from_slice(self.bytes.get(at..next).ok_or_else(bad)?);
            at = next;
            if length > 63 || wire.len() > NAME_SIZE_MAX {
                return Err(bad());
            }
            if length == 0 {
                let name = Name::from_wire(&wire).map_err(|_| bad())?;
                self.at = end.unwrap_or(at);
                return Ok(name);
            }
        }
    }

    fn records(&mut self, count: u16) -> Result<Vec<Record>, MessageError> {
        (0..count).map(|_| self.record()).collect()
    }

    fn record(&mut self) -> Result<Record, MessageError> {
        let owner = self.name()?;
        let (record_type, class) = (RecordType(self.u16()?), self.u16()?);
        let ttl_seconds = u32::from(self.u16()?) << 16 | u32::from(self.u16()?);
        let length = usize::from(self.u16()?);
        let end = self.at + length;
        let (front, names) = match record_type.0 {
            // Records that an UPDATE removes have no data.
            _ if length == 0 => (0, 0),
            2..=5 | 7..=9 | 12 => (0, 1),
            6 | 14 => (0, 2),
            15 => (2, 1),
            _ => (0, 0),
        };
        let mut data = self.take(front.min(length))?.to_vec();
        for _ in 0..names {
            data.extend_from_slice(self.name()?.as_wire());
        }
        let rest = end.checked_sub(self.at).ok_or_else(|| self.error("data that end earlier"))?;
        data.extend_from_slice(self.take(rest)?);
        Ok(Record { owner, record_type, class, ttl_seconds, data })
    }
}

/// Builds a query, step by step.
#[derive(Debug, Clone)]
pub struct Query {
    id: u16,
    flags: u16,
    question: Vec<u8>,
    /// The size, the version, and the upper byte of the flags.
    edns: Option<(u16, u8, u8)>,
    options: Vec<u8>,
}

impl Query {
    /// A query of class IN with id 0, no flags and no EDNS.
    #[must_use]
    pub fn new(name: &Name, record_type: RecordType) -> Query {
        let mut question = name.as_wire().to_vec();
        question.extend_from_slice(&record_type.0.to_be_bytes());
        question.extend_from_slice(&1_u16.to_be_bytes());
        Query { id: 0, flags: 0, question, edns: None, options: Vec::new() }
    }

    /// Sets the id.
    #[must_use]
    pub fn id(self, id: u16) -> Query {
        Query { id, ..self }
    }

    /// Sets the header's flags, opcode included.
    #[must_use]
    pub fn flags(self, flags: u16) -> Query {
        Query { flags, ..self }
    }

    /// Sets the class.
    #[must_use]
    pub fn class(mut self, class: u16) -> Query {
        self.question.truncate(self.question.len() - 2);
        self.question.extend_from_slice(&class.to_be_bytes());
        self
    }

    /// Adds OPT with this UDP size in bytes.
    #[must_use]
    pub fn edns(self, udp_size: u16) -> Query {
        let (_, version, flags) = self.edns.unwrap_or_default();
        Query { edns: Some((udp_size, version, flags)), ..self }
    }

    /// Adds OPT with this version.
    #[must_use]
    pub fn edns_version(self, version: u8) -> Query {
        let (udp_size, _, flags) = self.edns.unwrap_or((1232, 0, 0));
        Query { edns: Some((udp_size, version, flags)), ..self }
    }

    /// Adds OPT with the DO bit.
    #[must_use]
    pub fn dnssec_ok(self) -> Query {
        self.flag(DNSSEC_OK)
    }

    /// Adds OPT with the CO bit.
    #[must_use]
    pub fn compact_ok(self) -> Query {
        self.flag(COMPACT_OK)
    }

    fn flag(self, flag: u8) -> Query {
        let (udp_size, version, flags) = self.edns.unwrap_or((1232, 0, 0));
        Query { edns: Some((udp_size, version, flags | flag)), ..self }
    }

    /// Adds OPT with an option.
    #[must_use]
    pub fn option(mut self, code: u16, data: &[u8]) -> Query {
        self.edns.get_or_insert((1232, 0, 0));
        self.options.extend_from_slice(&code.to_be_bytes());
        self.options.extend_from_slice(&(data.len() as u16).to_be_bytes());
        self.options.extend_from_slice(data);
        self
    }

    /// Adds OPT with the client's subnet; bits behind the prefix length are cleared.
    #[must_use]
    pub fn client_subnet(self, address: IpAddr, prefix_length_bits: u8) -> Query {
        let (family, octets) = match address {
            IpAddr::V4(address) => (1, address.octets().to_vec()),
            IpAddr::V6(address) => (2, address.octets().to_vec()),
        };
        let mut data = vec![0, family, prefix_length_bits, 0];
        let size = usize::from(prefix_length_bits.div_ceil(8));
        for (index, octet) in octets.iter().take(size).enumerate() {
            let bits = usize::from(prefix_length_bits) - index * 8;
            data.push(if bits >= 8 { *octet } else { octet & !(0xff >> bits) });
        }
        self.option(8, &data)
    }

    /// The query's bytes.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let words = [self.id, self.flags, 1, 0, 0, u16::from(self.edns.is_some())];
        bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        bytes.extend_from_slice(&self.question);
        if let Some((udp_size, version, flags)) = self.edns {
            bytes.extend_from_slice(&[0, 0, 41]);
            bytes.extend_from_slice(&udp_size.to_be_bytes());
            bytes.extend_from_slice(&[0, version, flags, 0]);
            bytes.extend_from_slice(&(self.options.len() as u16).to_be_bytes());
            bytes.extend_from_slice(&self.options);
        }
        bytes
    }
}
