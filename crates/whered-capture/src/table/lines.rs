//! One packet a line: `SRC DST PROTO [SPORT [DPORT]] [NAME=VALUE ...]`.
//!
//! For: typing and pipes. Not for: tables with a header.
//!
//! Words lie between blanks; `-` says nothing; ports of ICMP are its type and code. Names are those
//! of the columns of tables (`state=new in=eth0`). Empty lines and those that begin with `#` are
//! passed over.

use std::io::Read;

use super::{Column, Field, RecordBuilder, next_content, set, skip_mark};
use crate::capture::Context;
use crate::error::{CaptureError, ErrorKind, Place, quoted};
use crate::record::PacketRecord;

const ALLOWED: &str = "SRC DST PROTO [SPORT [DPORT]] [NAME=VALUE ...]";

const WORDS: [Column; 5] = [
    Column::Source,
    Column::Destination,
    Column::Protocol,
    Column::SourcePort,
    Column::DestinationPort,
];

pub(crate) struct Lines;

impl Lines {
    pub(crate) fn start<R: Read>(context: &mut Context<R>) -> Result<Self, CaptureError> {
        skip_mark(&mut context.source)?;
        Ok(Lines)
    }

    /// The next packet.
    pub(crate) fn advance<R: Read>(
        &mut self,
        context: &mut Context<R>,
    ) -> Result<Option<PacketRecord>, CaptureError> {
        let Some(line) = next_content(context)? else {
            return Ok(None);
        };
        let line = context.source.bytes(line);
        let mut builder = RecordBuilder::new();
        let mut words = &WORDS[..];
        let mut start = 0;
        for word in line.split(u8::is_ascii_whitespace) {
            let column_number = start + 1;
            start += word.len() + 1;
            if word.is_empty() {
                continue;
            }
            let wrong = || {
                let place = Place::Line(context.line, column_number);
                CaptureError::new(ErrorKind::Malformed, place, quoted(word), ALLOWED)
            };
            let (column, bytes, shift) = match memchr::memchr(b'=', word) {
                Some(at) => {
                    words = &[];
                    let column = Column::from_name(&word[..at]).ok_or_else(wrong)?;
                    (column, &word[at + 1..], at + 1)
                }
                None => {
                    let (&column, rest) = words.split_first().ok_or_else(wrong)?;
                    words = rest;
                    (column, word, 0)
                }
            };
            let field = Field { bytes, column: column_number + shift };
            set(context.line, &mut context.interfaces, &mut builder, column, &field)?;
        }
        let end = line.len() + 1;
        let mut record = builder.finish().map_err(|(found, allowed)| {
            let place = Place::Line(context.line, end);
            CaptureError::new(ErrorKind::Malformed, place, found, allowed)
        })?;
        record.number = context.totals.count_record();
        Ok(Some(record))
    }
}
