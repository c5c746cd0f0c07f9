//! `conn.log` as JSON: an object a line, with the same fields as the TSV form.
//!
//! Not for: TSV. Fields of other names are passed over, and one that is missing says nothing; the
//! addresses and the protocol must be there. Times are numbers or ISO 8601 texts.
//!
//! Cost: a few allocations a line, those of its texts.

use std::io::Read;
use std::net::IpAddr;

use serde::Deserialize;
use serde_json::Value;

use super::{Extra, FlowState, STATES_ALLOWED};
use crate::capture::Context;
use crate::error::{CaptureError, ErrorKind, Place, one_line, quoted};
use crate::record::PacketRecord;
use crate::table::{Column, RecordBuilder, next_content, skip_mark, time};
use crate::totals::Skip;

pub(crate) struct ZeekJson;

#[derive(Deserialize)]
struct Flow {
    ts: Option<Value>,
    #[serde(rename = "id.orig_h")]
    origin: IpAddr,
    #[serde(rename = "id.orig_p")]
    origin_port: Option<u16>,
    #[serde(rename = "id.resp_h")]
    answerer: IpAddr,
    #[serde(rename = "id.resp_p")]
    answerer_port: Option<u16>,
    proto: String,
    conn_state: Option<String>,
    orig_pkts: Option<u64>,
    resp_pkts: Option<u64>,
    orig_ip_bytes: Option<u64>,
    resp_ip_bytes: Option<u64>,
    orig_bytes: Option<u64>,
    resp_bytes: Option<u64>,
}

impl ZeekJson {
    pub(crate) fn start<R: Read>(context: &mut Context<R>) -> Result<Self, CaptureError> {
        skip_mark(&mut context.source)?;
        Ok(ZeekJson)
    }

    /// The next flow.
    pub(crate) fn advance<R: Read>(
        &mut self,
        context: &mut Context<R>,
    ) -> Result<Option<PacketRecord>, CaptureError> {
        while let Some(line) = next_content(context)? {
            let line = context.source.bytes(line);
            let number = context.line;
            let wrong = |column, found: String, allowed: &str| {
                let place = Place::Line(number, column);
                CaptureError::new(ErrorKind::Malformed, place, found, allowed)
            };
            let flow: Flow = serde_json::from_slice(line).map_err(|error| {
                let found = one_line(without_place(&error.to_string()).as_bytes());
                wrong(error.column().max(1), found, "an object of conn.log")
            })?;
            if flow.proto == "unknown_transport" {
                context.totals.count_record();
                context.totals.count_skip(Skip::UnknownProtocol);
                continue;
            }
            let mut builder = RecordBuilder::new();
            let set = builder.set(Column::Protocol, flow.proto.as_bytes(), &mut context.interfaces);
            set.map_err(|allowed| {
                wrong(1, format!("{} in proto", quoted(flow.proto.as_bytes())), allowed)
            })?;
            let (builder, extra) =
                flow.take_apart(builder).map_err(|(found, allowed)| wrong(1, found, allowed))?;
            let finished = extra.finish(builder);
            let mut record =
                finished.map_err(|(found, allowed)| wrong(1, found.to_owned(), allowed))?;
            record.number = context.totals.count_record();
            return Ok(Some(record));
        }
        Ok(None)
    }
}

impl Flow {
    /// The error is what was found and what is allowed.
    fn take_apart(
        self,
        mut builder: RecordBuilder,
    ) -> Result<(RecordBuilder, Extra), (String, &'static str)> {
        builder.source = Some(self.origin);
        builder.destination = Some(self.answerer);
        builder.record.source_port = self.origin_port;
        builder.record.destination_port = self.answerer_port;
        builder.record.time_nanoseconds = match self.ts {
            None | Some(Value::Null) => None,
            Some(ts) => {
                let text = match &ts {
                    Value::String(text) => text.clone(),
                    // The digits as they stand in the line.
                    other => other.to_string(),
                };
                let wrong = || (format!("{} in ts", quoted(text.as_bytes())), "a time");
                Some(time(text.as_bytes()).ok_or_else(wrong)?)
            }
        };
        let state = self.conn_state.map(|name| {
            let wrong = || (format!("{} in conn_state", quoted(name.as_bytes())), STATES_ALLOWED);
            FlowState::from_name(name.as_bytes()).ok_or_else(wrong)
        });
        let extra = Extra {
            state: state.transpose()?,
            is_unknown: false,
            origin_packets: self.orig_pkts,
            answer_packets: self.resp_pkts,
            origin_ip_bytes: self.orig_ip_bytes,
            answer_ip_bytes: self.resp_ip_bytes,
            origin_bytes: self.orig_bytes,
            answer_bytes: self.resp_bytes,
        };
        Ok((builder, extra))
    }
}

/// Its message without the place, which the error has in its own words.
fn without_place(message: &str) -> &str {
    message.rsplit_once(" at line ").map_or(message, |(message, _)| message)
}
