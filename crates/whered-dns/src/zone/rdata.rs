//! Record data from text to wire form, through the `domain` crate, and the form of the types that
//! answers look into.
//!
//! Not for: owners, TTLs, directives (`master.rs`); the types that most records have, when there is
//! nothing odd about them (`plain.rs`).

use domain::base::Rtype;
use domain::base::rdata::ComposeRecordData;
use domain::zonefile::inplace::{Entry, Zonefile};

use super::lexer::Token;
use crate::code::RecordType;
use crate::name::{Name, wire_name_length};

/// The names in the data of a type: bytes in front, how many names, bytes behind. None for types
/// that have none or that nobody here looks into.
pub(crate) fn name_layout(record_type: RecordType) -> Option<(usize, usize, usize)> {
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
        // MX, AFSDB, RT, KX, SVCB, HTTPS, LP
        15 | 18 | 21 | 36 | 64 | 65 | 107 => &[1],
        33 => &[3],
        35 => &[5],
        _ => &[],
    }
}

/// A type that `domain` reads and whose data have the same form; the type itself for most.
fn same_form(record_type: RecordType) -> Rtype {
    match record_type.0 {
        // RP
        17 => Rtype::MINFO,
        // AFSDB, RT, KX, LP
        18 | 21 | 36 | 107 => Rtype::MX,
        // SPF
        99 => Rtype::TXT,
        other => Rtype::from_int(other),
    }
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

/// Reads record data in text form. Made once for each origin that needs it.
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
        let form = same_form(record_type);
        self.text.extend_from_slice(format!(". 0 IN TYPE{}", form.to_int()).as_bytes());
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
            Ok(Some(Entry::Record(record))) if record.rtype() == form => {
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
