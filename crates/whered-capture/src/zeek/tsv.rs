//! `conn.log` as Zeek writes it: `#` lines that tell the form, then a flow a line.
//!
//! Not for: JSON.
//!
//! ```text
//! #separator \x09
//! #unset_field   -
//! #fields  ts  uid  id.orig_h  id.orig_p  id.resp_h  id.resp_p  proto ...
//! 1258531221.486539  CH...  192.168.1.102  68  192.168.1.1  67  udp ...
//! #close ...
//! ```
//!
//! Logs may be put behind one another: every `#` line holds from where it stands. Fields of
//! other names are passed over. Cost: one pass over a line, no allocation.

use std::io::Read;

use super::{Extra, FlowState, STATES_ALLOWED};
use crate::capture::Context;
use crate::error::{CaptureError, ErrorKind, Place, quoted};
use crate::record::PacketRecord;
use crate::table::{Column, Field, RecordBuilder, next_line, set};
use crate::totals::Skip;

const FIELDS_MAX: usize = 4096;
const TEXT_SIZE_MAX: usize = 64;

/// A field of the log that is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LogField {
    Common(Column),
    State,
    OriginPackets,
    AnswerPackets,
    OriginIpBytes,
    AnswerIpBytes,
    OriginBytes,
    AnswerBytes,
}

impl LogField {
    fn from_name(name: &[u8]) -> Option<LogField> {
        Some(match name {
            b"ts" => LogField::Common(Column::Time),
            b"id.orig_h" => LogField::Common(Column::Source),
            b"id.orig_p" => LogField::Common(Column::SourcePort),
            b"id.resp_h" => LogField::Common(Column::Destination),
            b"id.resp_p" => LogField::Common(Column::DestinationPort),
            b"proto" => LogField::Common(Column::Protocol),
            b"conn_state" => LogField::State,
            b"orig_pkts" => LogField::OriginPackets,
            b"resp_pkts" => LogField::AnswerPackets,
            b"orig_ip_bytes" => LogField::OriginIpBytes,
            b"resp_ip_bytes" => LogField::AnswerIpBytes,
            b"orig_bytes" => LogField::OriginBytes,
            b"resp_bytes" => LogField::AnswerBytes,
            _ => return None,
        })
    }
}

pub(crate) struct ZeekTsv {
    separator: u8,
    unset: Vec<u8>,
    empty: Vec<u8>,
    /// Empty before the first `#fields`.
    fields: Vec<Option<LogField>>,
}

impl Default for ZeekTsv {
    fn default() -> Self {
        let (unset, empty) = (b"-".to_vec(), b"(empty)".to_vec());
        ZeekTsv { separator: b'\t', unset, empty, fields: Vec::new() }
    }
}

/// A fault of a line: its column, the text that was found, the text that is allowed.
struct Fault(usize, String, String);

impl ZeekTsv {
    /// The next flow.
    pub(crate) fn advance<R: Read>(
        &mut self,
        context: &mut Context<R>,
    ) -> Result<Option<PacketRecord>, CaptureError> {
        while let Some(place) = next_line(context)? {
            let line = context.source.bytes(place.clone());
            let number = context.line;
            let at = |Fault(column, found, allowed)| {
                let place = Place::Line(number, column);
                CaptureError::new(ErrorKind::Malformed, place, found, allowed)
            };
            if let Some(told) = line.strip_prefix(b"#") {
                self.take_head(told).map_err(at)?;
                continue;
            }
            if line.is_empty() {
                continue;
            }
            if let Some(record) = self.flow(context, place)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// A line behind its `#`.
    fn take_head(&mut self, told: &[u8]) -> Result<(), Fault> {
        if let Some(text) = told.strip_prefix(b"separator ") {
            let one = |found: &[u8]| match found {
                [b'\\', b'x', digits @ ..] if digits.len() == 2 => {
                    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
                }
                &[byte] => Some(byte),
                _ => None,
            };
            let wrong = || Fault(12, quoted(text), "one byte, such as \\x09".to_owned());
            let separator = one(text).ok_or_else(wrong)?;
            if b"\r\n#".contains(&separator) {
                return Err(wrong());
            }
            self.separator = separator;
            return Ok(());
        }
        let mut parts = told.split(|&byte| byte == self.separator);
        let name = parts.next().unwrap_or_default();
        match name {
            b"unset_field" | b"empty_field" => {
                let text = parts.next().unwrap_or_default();
                if text.len() > TEXT_SIZE_MAX {
                    let allowed = "a text of at most 64 bytes".to_owned();
                    return Err(Fault(name.len() + 3, quoted(text), allowed));
                }
                let kept = if name == b"unset_field" { &mut self.unset } else { &mut self.empty };
                text.clone_into(kept);
            }
            b"fields" => {
                self.fields = parts.take(FIELDS_MAX).map(LogField::from_name).collect();
                for needed in [Column::Source, Column::Destination, Column::Protocol] {
                    if !self.fields.contains(&Some(LogField::Common(needed))) {
                        let found = format!("no field for {}", needed.name());
                        let allowed = "the fields of conn.log: id.orig_h, id.resp_h, proto and \
                             others";
                        return Err(Fault(1, found, allowed.to_owned()));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The flow of a line; none if it was skipped.
    fn flow<R>(
        &self,
        context: &mut Context<R>,
        place: std::ops::Range<usize>,
    ) -> Result<Option<PacketRecord>, CaptureError>
    where
        R: Read,
    {
        let line = context.source.bytes(place);
        let number = context.line;
        let wrong = |column, found: String, allowed: String| {
            let place = Place::Line(number, column);
            CaptureError::new(ErrorKind::Malformed, place, found, allowed)
        };
        if self.fields.is_empty() {
            return Err(wrong(1, "a flow before #fields".to_owned(), "#fields first".to_owned()));
        }
        let wanted = || format!("{} values, as #fields has", self.fields.len());
        let (mut builder, mut extra) = (RecordBuilder::new(), Extra::default());
        let mut fields = self.fields.iter();
        let mut start = 0;
        for bytes in line.split(|&byte| byte == self.separator) {
            let column = start + 1;
            start += bytes.len() + 1;
            let Some(field) = fields.next() else {
                return Err(wrong(column, "one more value".to_owned(), wanted()));
            };
            let Some(field) = *field else { continue };
            if bytes == self.unset || bytes == self.empty {
                continue;
            }
            match field {
                LogField::Common(Column::Protocol) if bytes == b"unknown_transport" => {
                    extra.is_unknown = true;
                }
                LogField::Common(common) => {
                    let field = Field { bytes, column };
                    set(number, &mut context.interfaces, &mut builder, common, &field)?;
                }
                other => extra
                    .set(other, bytes)
                    .map_err(|allowed| wrong(column, quoted(bytes), allowed.to_owned()))?,
            }
        }
        if fields.len() > 0 {
            let found = format!("{} values too few", fields.len());
            return Err(wrong(line.len() + 1, found, wanted()));
        }
        if extra.is_unknown {
            context.totals.count_record();
            context.totals.count_skip(Skip::UnknownProtocol);
            return Ok(None);
        }
        let finished = extra.finish(builder);
        let mut record =
            finished.map_err(|(found, allowed)| wrong(1, found.to_owned(), allowed.to_owned()))?;
        record.number = context.totals.count_record();
        Ok(Some(record))
    }
}

impl Extra {
    /// The error is what is allowed.
    fn set(&mut self, field: LogField, bytes: &[u8]) -> Result<(), &'static str> {
        let place = match field {
            LogField::State => {
                self.state = Some(FlowState::from_name(bytes).ok_or(STATES_ALLOWED)?);
                return Ok(());
            }
            LogField::OriginPackets => &mut self.origin_packets,
            LogField::AnswerPackets => &mut self.answer_packets,
            LogField::OriginIpBytes => &mut self.origin_ip_bytes,
            LogField::AnswerIpBytes => &mut self.answer_ip_bytes,
            LogField::OriginBytes => &mut self.origin_bytes,
            LogField::AnswerBytes => &mut self.answer_bytes,
            LogField::Common(_) => return Ok(()),
        };
        let text = std::str::from_utf8(bytes).ok();
        *place = Some(text.and_then(|text| text.parse().ok()).ok_or("a whole number")?);
        Ok(())
    }
}
