//! Zeek's `conn.log`: a flow a line, in TSV with a head of its own or as JSON objects.
//!
//! Not for: Zeek's other logs. What both forms have in common is here: which connection state a
//! `conn_state` is, protocols, the ICMP type that stands in the place of a port, and bytes.
//!
//! | conn_state | state |
//! | --- | --- |
//! | S0, SH, REJ, RSTOS0 | new: the other side never took it |
//! | S1, SF, S2, S3, RSTO, RSTR | established |
//! | SHR, RSTRH | invalid over TCP (an answer to nothing), otherwise new |
//! | OTH | established if both sides sent packets, otherwise new (picked up midway) |

mod json;
mod tsv;

pub(crate) use json::ZeekJson;
pub(crate) use tsv::ZeekTsv;

use crate::ip::protocol;
use crate::record::{ConnectionState, PacketRecord};
use crate::table::RecordBuilder;

/// A `conn_state`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FlowState {
    Attempt,
    Established,
    AnswerOnly,
    Midway,
}

const STATES_ALLOWED: &str = "S0, S1, SF, REJ, S2, S3, RSTO, RSTR, RSTOS0, RSTRH, SH, SHR or OTH";

impl FlowState {
    fn from_name(name: &[u8]) -> Option<FlowState> {
        Some(match name {
            b"S0" | b"SH" | b"REJ" | b"RSTOS0" => FlowState::Attempt,
            b"S1" | b"SF" | b"S2" | b"S3" | b"RSTO" | b"RSTR" => FlowState::Established,
            b"SHR" | b"RSTRH" => FlowState::AnswerOnly,
            b"OTH" => FlowState::Midway,
            _ => return None,
        })
    }
}

/// The fields of a flow that only Zeek has.
#[derive(Default)]
struct Extra {
    state: Option<FlowState>,
    /// The transport is one that Zeek does not name.
    is_unknown: bool,
    origin_packets: Option<u64>,
    answer_packets: Option<u64>,
    origin_ip_bytes: Option<u64>,
    answer_ip_bytes: Option<u64>,
    origin_bytes: Option<u64>,
    answer_bytes: Option<u64>,
}

impl Extra {
    /// The record without its number.
    fn finish(&self, builder: RecordBuilder) -> Result<PacketRecord, (&'static str, &'static str)> {
        let mut record = builder.finish()?;
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (None, None) => None,
            _ => Some(one.unwrap_or(0).saturating_add(other.unwrap_or(0))),
        };
        let payload = || sum(self.origin_bytes, self.answer_bytes);
        record.bytes = sum(self.origin_ip_bytes, self.answer_ip_bytes).or_else(payload);
        let has_sent = |packets: Option<u64>| packets.is_some_and(|packets| packets > 0);
        record.state = self.state.map(|state| match state {
            FlowState::Attempt => ConnectionState::New,
            FlowState::Established => ConnectionState::Established,
            FlowState::AnswerOnly if record.protocol == protocol::TCP => ConnectionState::Invalid,
            FlowState::Midway if has_sent(self.origin_packets) && has_sent(self.answer_packets) => {
                ConnectionState::Established
            }
            FlowState::AnswerOnly | FlowState::Midway => ConnectionState::New,
        });
        // Of an exchange that has an answer, Zeek writes the answer's type where the code would be;
        // all such messages have code 0.
        let kinds = (record.icmp_type, record.source.is_ipv6());
        if let (Some(8..=10 | 0 | 13..=18), false) | (Some(128..=136 | 139..=145), true) = kinds {
            record.icmp_code = Some(0);
        }
        Ok(record)
    }
}
