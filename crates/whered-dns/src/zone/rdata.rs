//! Record data: from text to wire form (through the `domain` crate), the form of the types that
//! answers look into, and rrsets compiled for the reply.
//!
//! Not for: owners, TTLs, directives (`master.rs`).
//!
//! ```text
//! an rrset's wire: [C0 0C | type | class | TTL | length | data] [C0 0C | ...]
//!                   owner: a pointer to the question's name          data of a name: its labels
//!                                                                    down to the zone's origin,
//!                                                                    then 2 bytes at a `point`
//! ```
//!
//! A reply copies the wire and writes the pointer to the origin at each point. Compression is thus:
//! owners point at the question, at the alias that led there, or at a suffix of either; names in
//! the data of RFC 1035's types point at the zone's origin; nothing else is compressed
//! (RFC 3597, 4).

use domain::base::Rtype;
use domain::base::rdata::ComposeRecordData;
use domain::zonefile::inplace::{Entry, Zonefile};

use super::lexer::Token;
use crate::code::RecordType;
use crate::name::{Name, wire_name_length};

/// All records of one owner and type, compiled.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rrset {
    pub(crate) record_type: RecordType,
    pub(crate) count: u16,
    pub(crate) wire: Box<[u8]>,
    /// Where in `wire` a pointer to the zone's origin belongs.
    pub(crate) points: Box<[u32]>,
    /// Where a CNAME leads.
    pub(crate) target: Option<Name>,
}

/// The bytes of a record before its data: owner pointer, type, class, TTL, length.
pub(crate) const RECORD_HEAD_SIZE: usize = 12;

impl Rrset {
    /// Compiles records. Their data must have passed [`check`].
    pub(crate) fn compile<'a>(
        record_type: RecordType,
        ttl_seconds: u32,
        data: impl Iterator<Item = &'a [u8]>,
        origin: &Name,
    ) -> Rrset {
        let (mut wire, mut points) = (Vec::new(), Vec::new());
        let mut target = None;
        let mut count = 0_u16;
        for data in data {
            count = count.saturating_add(1);
            wire.extend_from_slice(&[0xc0, 12]);
            wire.extend_from_slice(&record_type.0.to_be_bytes());
            wire.extend_from_slice(&[0, 1]);
            wire.extend_from_slice(&ttl_seconds.to_be_bytes());
            wire.extend_from_slice(&[0, 0]);
            let start = wire.len();
            append_compressed(record_type, data, origin, &mut wire, &mut points);
            let length = (wire.len() - start) as u16;
            wire[start - 2..start].copy_from_slice(&length.to_be_bytes());
            if record_type == RecordType::CNAME {
                target = Name::from_wire(data).ok();
            }
        }
        Rrset { record_type, count, wire: wire.into(), points: points.into(), target }
    }
}

/// The names in the data of a type: bytes in front, how many names, bytes behind. None for types
/// that have none or that nobody here looks into.
fn name_layout(record_type: RecordType) -> Option<(usize, usize, usize)> {
    match record_type.0 {
        // NS, MD, MF, CNAME, MB, MG, MR, PTR, DNAME
        2..=5 | 7..=9 | 12 | 39 => Some((0, 1, 0)),
        6 => Some((0, 2, 20)),
        14 => Some((0, 2, 0)),
        15 => Some((2, 1, 0)),
        33 => Some((6, 1, 0)),
        _ => None,
    }
}

/// Which tokens of a type's text are names.
pub(crate) fn name_tokens(record_type: RecordType) -> &'static [usize] {
    match record_type.0 {
        // NS, MD, MF, CNAME, MB, MG, MR, PTR, DNAME, NSEC
        2..=5 | 7..=9 | 12 | 39 | 47 => &[0],
        // SOA, MINFO, RP
        6 | 14 | 17 => &[0, 1],
        // MX, AFSDB, RT, KX, SVCB, HTTPS
        15 | 18 | 21 | 36 | 64 | 65 => &[1],
        33 => &[3],
        35 => &[5],
        _ => &[],
    }
}

fn append_compressed(
    record_type: RecordType,
    data: &[u8],
    origin: &Name,
    wire: &mut Vec<u8>,
    points: &mut Vec<u32>,
) {
    let layout = name_layout(record_type).filter(|_| record_type.0 < 16);
    let Some((front, names, _)) = layout.filter(|_| origin.as_wire().len() > 1) else {
        wire.extend_from_slice(data);
        return;
    };
    wire.extend_from_slice(&data[..front]);
    let mut rest = &data[front..];
    for _ in 0..names {
        let length = wire_name_length(rest).expect("the names were checked before compiling");
        let name = Name::from_wire(&rest[..length]).expect("the names were checked");
        if name.is_within(origin) {
            wire.extend_from_slice(&rest[..length - origin.as_wire().len()]);
            points.push(wire.len() as u32);
            wire.extend_from_slice(&[0xc0, 0]);
        } else {
            wire.extend_from_slice(&rest[..length]);
        }
        rest = &rest[length..];
    }
    wire.extend_from_slice(rest);
}

/// The names in checked data, in order.
pub(crate) fn names_in(record_type: RecordType, data: &[u8]) -> Vec<Name> {
    let Some((front, count, _)) = name_layout(record_type) else {
        return Vec::new();
    };
    let mut rest = data.get(front..).unwrap_or_default();
    let mut names = Vec::new();
    for _ in 0..count {
        let Some(length) = wire_name_length(rest) else {
            break;
        };
        names.extend(Name::from_wire(&rest[..length]));
        rest = &rest[length..];
    }
    names
}

/// Checks that data have the form that answers and resolvers rely on; `\#` can write anything.
///
/// # Errors
///
/// Says what is allowed.
pub(crate) fn check(record_type: RecordType, data: &[u8]) -> Result<(), &'static str> {
    let fits = match record_type {
        RecordType::A => data.len() == 4,
        RecordType::AAAA => data.len() == 16,
        RecordType::TXT => {
            let mut rest = data;
            while let [length, tail @ ..] = rest
                && let Some(next) = tail.get(usize::from(*length)..)
            {
                rest = next;
            }
            rest.is_empty() && !data.is_empty()
        }
        _ => name_layout(record_type).is_none_or(|(front, names, behind)| {
            let mut rest = data.get(front..);
            for _ in 0..names {
                rest = rest.and_then(|rest| rest.get(wire_name_length(rest)?..));
            }
            rest.is_some_and(|rest| rest.len() == behind)
        }),
    };
    if fits { Ok(()) } else { Err("data of this type's form (RFC 1035, 3.3 and 3.4)") }
}

/// Reads record data in text form. Made once for each origin.
pub(crate) struct DataReader {
    template: Zonefile,
    origin: String,
    text: Vec<u8>,
    starts: Vec<usize>,
}

/// Why data could not be read: the token (none: the data end too early) and what was wrong.
pub(crate) struct DataError {
    pub(crate) token: Option<usize>,
    pub(crate) message: String,
}

impl DataReader {
    /// A reader that completes relative names with `origin`.
    pub(crate) fn new(origin: &Name) -> DataReader {
        let mut template = Zonefile::new();
        let text = origin.to_string();
        let bytes = origin.as_wire().to_vec().into();
        let origin = domain::base::Name::from_octets(bytes);
        template.set_origin(origin.expect("a Name is a well-formed name"));
        template.set_default_class(domain::base::iana::Class::IN);
        DataReader { template, origin: text, text: Vec::new(), starts: Vec::new() }
    }

    /// Reads the data of one record and gives their wire form.
    ///
    /// `domain` sees one entry with one blank wherever there was any space, so that the column of
    /// its complaint tells the token.
    pub(crate) fn read(
        &mut self,
        record_type: RecordType,
        tokens: &[Token<'_>],
    ) -> Result<Vec<u8>, DataError> {
        self.text.clear();
        self.starts.clear();
        self.text.extend_from_slice(format!(". 0 IN TYPE{}", record_type.0).as_bytes());
        for (index, token) in tokens.iter().enumerate() {
            if token.spaced || index == 0 {
                self.text.push(b' ');
            }
            self.starts.push(self.text.len());
            let quote: &[u8] = if token.quoted { b"\"" } else { b"" };
            // `domain` knows `@` for owners only.
            let is_origin = token.raw == b"@" && !token.quoted;
            let is_name = is_origin && name_tokens(record_type).contains(&index);
            let raw = if is_name { self.origin.as_bytes() } else { token.raw };
            for part in [quote, raw, quote] {
                self.text.extend_from_slice(part);
            }
        }
        self.text.push(b'\n');
        let mut source = self.template.clone();
        source.extend_from_slice(&self.text);
        let mut wire = Vec::new();
        match source.next_entry() {
            Ok(Some(Entry::Record(record))) if record.rtype() == Rtype::from_int(record_type.0) => {
                record.data().compose_rdata(&mut wire).map_err(|_| DataError {
                    token: Some(0),
                    message: "data of more than 65535 bytes".into(),
                })?;
                if wire.len() > usize::from(u16::MAX) {
                    let message = format!("data of {} bytes", wire.len());
                    return Err(DataError { token: Some(0), message });
                }
                Ok(wire)
            }
            Ok(_) => Err(DataError { token: Some(0), message: "no record data".into() }),
            Err(error) => Err(self.explain(&error.to_string())),
        }
    }

    /// Finds the token that `domain` complains about: it says `line:column: message`, where the
    /// column is that of the byte it would have read next.
    fn explain(&self, complaint: &str) -> DataError {
        let mut parts = complaint.splitn(3, ':');
        let line = parts.next().and_then(|part| part.parse::<usize>().ok());
        let column = parts.next().and_then(|part| part.parse::<usize>().ok());
        let message = parts.next().unwrap_or(complaint).trim().to_owned();
        if message.contains("end of entry") {
            return DataError { token: None, message };
        }
        // Past the first line everything was read, and the last token was refused.
        let at = match (line, column) {
            (Some(1), Some(column)) => column.saturating_sub(1),
            _ => self.text.len(),
        };
        let begun = self.starts.iter().filter(|&&start| start < at).count();
        let exact = self.starts.iter().position(|&start| start == at);
        let token = match exact {
            Some(index) if message.contains("trailing") => index,
            _ => begun.saturating_sub(1),
        };
        DataError { token: Some(token), message }
    }
}
